package apps

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// newSuffix is what the name of a socket has more until its application is ready: a
// number, for several may start at once.
const newSuffix = ".%03x"

const suffixLen = 4

// socket is a listening Unix socket. Only the server's own user may connect: the
// application has the descriptor and needs no name.
type socket struct {
	file  *os.File // in blocking mode, as applications expect it
	name  string   // that it gets, or has
	path  string   // that it has now
	bound string   // path that it was bound to
	info  fs.FileInfo
}

// listen opens the socket of an application beside its name. What is at the name
// must be nothing, a socket that nobody listens at, or that of an application of
// ours, which ours reports.
func listen(o Options, serial uint64, ours func() bool) (*socket, error) {
	if len(o.Socket) > MaxSocket {
		return nil, fmt.Errorf("the path of socket %s is longer than %d bytes", o.Socket, MaxSocket)
	}
	if err := os.MkdirAll(filepath.Dir(o.Socket), 0o755); err != nil {
		return nil, err
	}
	if !ours() {
		if err := free(o.Socket); err != nil {
			return nil, err
		}
	}
	path := o.Socket + fmt.Sprintf(newSuffix, serial&0xfff)
	if err := free(path); err != nil {
		return nil, err
	}
	os.Remove(path) // one that an earlier server left
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	err = unix.Fchmod(fd, 0o600) // the name takes the mode of the descriptor
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = unix.Listen(fd, o.Backlog)
	}
	s := &socket{file: f, name: o.Socket, path: path, bound: path}
	if err == nil {
		s.info, err = os.Lstat(path)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return s, nil
}

// free reports why a socket may not take a name.
func free(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s is there and is no socket; it is left alone", path)
	}
	nc, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil // a stale one
	case err != nil:
		return fmt.Errorf("socket %s is in use: %w", path, err)
	}
	defer nc.Close()
	return fmt.Errorf("socket %s is in use by process %d", path, peer(nc.(*net.UnixConn)))
}

// succeeds reports whether who listens at a path may be followed there: the predecessor,
// one of over, or the keeper of applications, which has one of ours from before.
func (s *Supervisor) succeeds(path string, over []int) bool {
	if s.Predecessor == 0 && len(over) == 0 && s.Kept.Dir == "" {
		return false
	}
	nc, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	defer nc.Close()
	pid := int(peer(nc.(*net.UnixConn)))
	if pid != 0 && (pid == s.Predecessor || slices.Contains(over, pid)) {
		return true
	}
	if s.Kept.Dir == "" {
		return false
	}
	kc, keeper, err := dialKeeper(s.Kept.Dir)
	if err != nil {
		return false
	}
	kc.Close()
	return keeper == pid
}

// peer is the process that listens at the other end, 0 if it is not known.
func peer(nc *net.UnixConn) int32 {
	c, err := credentials(nc)
	if err != nil {
		return 0
	}
	return c.Pid
}

// credentials are those of the process at the other end: who connected, or listened.
func credentials(nc *net.UnixConn) (c *unix.Ucred, err error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	if failed := raw.Control(func(fd uintptr) { c, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); failed != nil {
		return nil, failed
	}
	return c, err
}

// usersTime is how often users is asked while somebody is there.
const usersTime = 50 * time.Millisecond

// users is the number of connections to the socket, whoever has them, those included
// that are not taken yet. The kernel lists them by the name that the socket was bound
// to, which it keeps whatever the file is called later.
func (s *socket) users() (n int) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return 0
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() { // number: references protocol flags type state inode path
		if text := lines.Text(); strings.HasSuffix(text, " "+s.bound) {
			if state := strings.Fields(text)[5]; state == connected || state == waiting {
				n++
			}
		}
	}
	return n
}

// States of a socket in /proc/net/unix: SS_CONNECTED, and SS_CONNECTING, which is that of
// a connection that nobody has accepted.
const connected, waiting = "03", "02"

// enter gives the socket its name, in place of what has it.
func (s *socket) enter() error {
	if s.path == s.name {
		return nil
	}
	if err := os.Rename(s.path, s.name); err != nil {
		return err
	}
	s.path = s.name
	return nil
}

// close closes the socket and removes its name, unless another one has it. A nil
// socket is closed.
func (s *socket) close() {
	if s == nil {
		return
	}
	s.file.Close()
	if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.info) {
		os.Remove(s.path)
	}
}
