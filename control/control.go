// Package control is the socket by which an operator speaks to a running server:
// HTTP/1.1 with JSON over a Unix socket that only root and the server's own user may
// use, and the client of it. It knows no command: its owner gives it a handler. It
// serves no application, and its requests are neither logged nor counted as such.
package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"httpjet/unixsocket"

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

	// Over are the processes that this one succeeds, whose socket it replaces.
	Over []int

	// Log takes what goes wrong; nil drops it.
	Log *slog.Logger
}

// Server is the socket. Its owner calls Listen, Start and Shutdown in this order.
type Server struct {
	c      Config
	log    *slog.Logger
	http   http.Server
	socket *unixsocket.Listener
	ln     net.Listener  // the same, guarded
	done   chan struct{} // closed when serve has ended; nil before Start

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
	var err error
	if s.socket, err = unixsocket.Listen(unixsocket.Options{Path: s.c.Path, Mode: 0o600, Over: s.c.Over}); err != nil {
		return err
	}
	s.ln = netutil.LimitListener(&guarded{s.socket.UnixListener, uint32(os.Geteuid())}, maxConns)
	return nil
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
func (s *Server) Lost() bool { return s.socket.Lost() }

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
	s.socket.Remove()
}
