package apps

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
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
	file *os.File // in blocking mode, as applications expect it
	name string   // that it gets, or has
	path string   // that it has now
	info fs.FileInfo
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
	s := &socket{file: f, name: o.Socket, path: path}
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

// succeeds reports whether the predecessor listens at a path.
func (s *Supervisor) succeeds(path string) bool {
	if s.Predecessor == 0 {
		return false
	}
	nc, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	defer nc.Close()
	return int(peer(nc.(*net.UnixConn))) == s.Predecessor
}

// peer is the process that listens at the other end, 0 if it is not known.
func peer(nc *net.UnixConn) (pid int32) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) {
		if c, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = c.Pid
		}
	})
	return pid
}

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
