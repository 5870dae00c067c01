// Package unixsocket owns a Unix socket at a path: one that nobody answers at is
// replaced, one that is another server's stays, nobody connects before the mode is
// right, and who has lost the path takes nothing away. It knows no protocol, and not
// who may connect beyond what the mode says.
package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options says where a socket is.
type Options struct {
	// Path is the socket's. Its directory is made, with mode 0750, if it does not
	// exist; the one above that is not.
	Path string

	// Mode are the permissions of the socket: who may write to it may connect.
	Mode fs.FileMode

	// Over are the processes that this one succeeds: a socket that one of them
	// answers at is replaced too.
	Over []int
}

// A Listener is a bound socket. Its owner closes and removes it.
type Listener struct {
	*net.UnixListener
	path string
	own  os.FileInfo // the socket as it was made
}

// answerTime is how long one that is at the path already may take to answer.
const answerTime = time.Second

// Listen makes the socket. What is no socket, or may be another server's, is an error
// and stays.
func Listen(o Options) (*Listener, error) {
	dir := filepath.Dir(o.Path)
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	// Two servers that start at once must not both take the same leftover away.
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%s: another server is starting there: %w", dir, err)
	}
	path := within(d, o.Path)
	if err := clearStale(path, o.Path, o.Over); err != nil {
		return nil, err
	}
	// The file gets the mode of the descriptor, less the umask: it is never wider.
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if e := raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), uint32(o.Mode.Perm())) }); e != nil {
			return e
		}
		return err
	}}
	ln, err := c.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	l := &Listener{UnixListener: ln.(*net.UnixListener), path: o.Path}
	l.SetUnlinkOnClose(false) // by then the path may be another server's
	if err = os.Chmod(path, o.Mode.Perm()); err == nil {
		l.own, err = os.Lstat(path)
	}
	if err != nil {
		os.Remove(path) // the directory is still locked: it is ours
		l.Close()
		return nil, err
	}
	return l, nil
}

// Chmod changes who may connect from now on. Nothing happens to another server's.
func (l *Listener) Chmod(mode fs.FileMode) error {
	if l.Lost() {
		return nil
	}
	return os.Chmod(l.path, mode.Perm())
}

// Lost reports whether the socket is not at its path any more, as when somebody has
// cleaned the directory: no client finds it. The number of an inode is used again, its
// time is not.
func (l *Listener) Lost() bool {
	fi, err := os.Lstat(l.path)
	return err != nil || !os.SameFile(fi, l.own) || !fi.ModTime().Equal(l.own.ModTime())
}

// Remove takes the socket away, unless it is another server's by now.
func (l *Listener) Remove() {
	if !l.Lost() {
		os.Remove(l.path)
	}
}

// Dial connects to the socket at a path, however long that is.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return new(net.Dialer).DialContext(ctx, "unix", within(d, path))
}

// maxPath is the longest path that fits into the address of a Unix socket.
const maxPath = 107

// within is a path by which the socket in the open directory d can be bound or
// dialled, however long its own is.
func within(d *os.File, path string) string {
	if len(path) <= maxPath {
		return path
	}
	return "/proc/self/fd/" + strconv.Itoa(int(d.Fd())) + "/" + filepath.Base(path)
}

// clearStale removes a socket that nobody answers at, or one of over.
func clearStale(path, name string, over []int) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is no socket", name)
	}
	c, err := net.DialTimeout("unix", path, answerTime)
	switch {
	case err == nil:
		pid := answers(c.(*net.UnixConn))
		c.Close()
		if pid == 0 || !slices.Contains(over, pid) {
			return fmt.Errorf("%s is another server's: process %d answers there", name, pid)
		}
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s may be another server's: %w", name, err)
	}
	return os.Remove(path)
}

// answers is the process that listens at the other end, 0 if that is not known.
func answers(c *net.UnixConn) (pid int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}
