// Package control is the socket by which an operator speaks to a running server:
// HTTP/1.1 with JSON over a Unix socket that only root and the server's own user may
// use, and the client of it. It knows no command: its owner gives it a handler. It
// serves no application, and its requests are neither logged nor counted as such.
package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
)

// Bounds of the socket.
const (
	headTimeout  = 5 * time.Second
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	maxHead      = 16 << 10 // bytes
	headSlack    = 4 << 10  // what net/http allows on top of MaxHeaderBytes
	maxBody      = 64 << 10 // bytes of a request
	maxConns     = 16
)

// Config says where the socket is and who answers.
type Config struct {
	// Path is the socket's. Its directory is made if it does not exist; the one
	// above that is not.
	Path string

	// Handler answers what root and the server's own user ask. The body of a
	// request is bounded when it gets there.
	Handler http.Handler

	// Replace has the socket take the place of one that is answered: of the process
	// that this one succeeds.
	Replace bool

	// Log takes what goes wrong; nil drops it.
	Log *slog.Logger
}

// Server is the socket. Its owner calls Listen, Start and Shutdown in this order.
type Server struct {
	c    Config
	log  *slog.Logger
	http http.Server
	ln   net.Listener
	own  os.FileInfo   // the socket as it was made
	done chan struct{} // closed when serve has ended; nil before Start

	mu      sync.Mutex
	closed  bool           // no more requests reach the handler
	running sync.WaitGroup // requests that are with it
}

// New makes the server of a socket. It binds nothing and starts nothing.
func New(c Config) *Server {
	s := &Server{c: c, log: c.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.http = http.Server{
		Handler:                      http.MaxBytesHandler(http.HandlerFunc(s.serveHTTP), maxBody),
		ReadTimeout:                  readTimeout,
		ReadHeaderTimeout:            headTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  readTimeout,
		MaxHeaderBytes:               maxHead - headSlack,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		DisableGeneralOptionsHandler: true,
	}
	return s
}

// Listen makes the socket with mode 0600. One that a server left behind is
// replaced; one that is answered, and what is no socket, stays, and is an error.
func (s *Server) Listen() error {
	dir := filepath.Dir(s.c.Path)
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Two servers that start at once must not both take the same leftover away.
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s: another server is starting there: %w", dir, err)
	}
	path := within(d, s.c.Path)
	if err := clearStale(path, s.c.Path, s.c.Replace); err != nil {
		return err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return err
	}
	ln.SetUnlinkOnClose(false) // by then the path may be another server's
	if err = os.Chmod(path, 0o600); err == nil {
		s.own, err = os.Lstat(path)
	}
	if err != nil {
		ln.Close()
		return err
	}
	s.ln = netutil.LimitListener(&guarded{ln, uint32(os.Geteuid())}, maxConns)
	return nil
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

// clearStale removes a socket that nobody answers at.
func clearStale(path, name string, replace bool) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is no socket", name)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		c.Close()
		if !replace {
			return fmt.Errorf("%s is another server's", name)
		}
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s may be another server's: %w", name, err)
	}
	return os.Remove(path)
}

// guarded accepts connections of root and of one user (R-DRAIN-2).
type guarded struct {
	*net.UnixListener
	uid uint32
}

// Accept returns the next connection of somebody who may ask. Others are told so,
// if their socket takes it at once, and closed.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peerOf(c); err == nil && g.admits(uid) {
			return c, nil
		}
		c.SetWriteDeadline(time.Now().Add(time.Second))
		fmt.Fprintf(c, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		c.Close()
	}
}

func (g *guarded) admits(uid uint32) bool { return uid == 0 || uid == g.uid }

// peerOf returns the user at the other end, as the kernel saw it connect.
func peerOf(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return 0, e
	}
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// Start serves until Shutdown.
func (s *Server) Start() {
	s.done = make(chan struct{})
	go s.serve()
}

func (s *Server) serve() {
	defer close(s.done)
	if err := s.http.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("control socket stopped", "err", err)
	}
}

// serveHTTP counts what the handler works at: net/http does not wait for it when it
// cuts connections, but the owner of the handler must know.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		Answer(w, nil, errors.New("the server is stopping"))
		return
	}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	s.c.Handler.ServeHTTP(w, r)
}

// Lost reports whether the socket is not at its path any more, as when somebody has
// cleaned the directory: no client finds it.
func (s *Server) Lost() bool {
	fi, err := os.Lstat(s.c.Path)
	return err != nil || !os.SameFile(fi, s.own)
}

// Shutdown stops accepting, lets answers under way finish until ctx is done, cuts
// what is left, joins serve and every call of the handler, and removes the socket, unless it is another server's by
// now. It is also right after Listen alone.
func (s *Server) Shutdown(ctx context.Context) {
	if s.ln == nil {
		return
	}
	if s.done == nil {
		s.ln.Close()
	} else {
		if s.http.Shutdown(ctx) != nil {
			s.http.Close()
		}
		<-s.done
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	if !s.Lost() {
		os.Remove(s.c.Path)
	}
}
