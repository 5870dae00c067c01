// Package status is the management listener: plain HTTP on an address of its own, or
// a Unix socket, that tells whether the process lives, what it counts, and how its upstreams are.
// It changes nothing, serves no application, and its requests are neither logged nor
// counted.
package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"httpjet/unixsocket"

	"golang.org/x/net/netutil"
)

// Bounds of the listener (R-MGMT-1).
const (
	headTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 30 * time.Second
	maxHead      = 16 << 10 // bytes
	maxConns     = 64
	headSlack    = 4 << 10 // what net/http allows on top of MaxHeaderBytes
)

// Config says where the management listener is and who may ask.
type Config struct {
	// Addr is a literal IP with a port, as "127.0.0.1:9090" or "[::1]:9090".
	Addr string

	// Socket, if it is not "", is the path of a Unix socket in the place of Addr, and
	// Mode its permissions, which say who may ask: Allow does not hold there. Over are
	// the processes that this one succeeds, whose socket it replaces.
	Socket string
	Mode   fs.FileMode
	Over   []int

	// Allow are the networks whose peers may ask. If it is empty they are those
	// of the loopback, and Addr must be a loopback address.
	Allow []netip.Prefix

	// Pprof answers /debug/pprof/ to peers of the loopback.
	Pprof bool

	// Metrics answers /metrics, API the documents; nil: 404.
	Metrics http.Handler
	API     *API

	// Log takes what goes wrong; nil drops it.
	Log *slog.Logger
}

// Server is the management listener. Its owner calls Listen, Start and Shutdown in
// this order.
type Server struct {
	addr    netip.AddrPort
	rules   atomic.Pointer[rules]
	metrics http.Handler
	api     *API
	log     *slog.Logger
	http    http.Server
	ln      net.Listener
	tcp     *net.TCPListener // the same, without its bound
	unix    unixsocket.Options
	socket  *unixsocket.Listener // ln where unix has a path
	done    chan struct{}        // closed when serve has ended; nil before Start
}

// rules are what a reload may change without another listener.
type rules struct {
	allow []netip.Prefix
	pprof bool
}

// New checks the configuration. It binds nothing and starts nothing.
func New(c Config) (*Server, error) {
	addr, r, err := c.resolve()
	if err != nil {
		return nil, err
	}
	s := &Server{addr: addr, unix: unixsocket.Options{Path: c.Socket, Mode: c.Mode, Over: c.Over}, metrics: c.Metrics, api: c.API, log: c.Log}
	s.rules.Store(r)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.http = http.Server{
		Handler:                      s,
		ReadTimeout:                  headTimeout, // no path takes a body
		ReadHeaderTimeout:            headTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHead - headSlack,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		DisableGeneralOptionsHandler: true,
	}
	return s, nil
}

// resolve returns the address, and who may ask what there. A Unix socket has none.
func (c *Config) resolve() (netip.AddrPort, *rules, error) {
	if c.Socket != "" {
		return netip.AddrPort{}, &rules{pprof: c.Pprof}, nil
	}
	addr, err := netip.ParseAddrPort(c.Addr)
	if err != nil || addr.Addr().Zone() != "" {
		return addr, nil, fmt.Errorf("management address %q is not a literal IP with a port", c.Addr)
	}
	r := &rules{pprof: c.Pprof}
	switch {
	case len(c.Allow) > 0:
		for _, p := range c.Allow {
			if !p.IsValid() {
				return addr, nil, errors.New("management allow list holds an invalid network")
			}
			r.allow = append(r.allow, unmap(p))
		}
	case addr.Addr().Unmap().IsLoopback():
		r.allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	default:
		return addr, nil, fmt.Errorf("management address %s is not a loopback address and has no allow list", c.Addr)
	}
	return addr, r, nil
}

// Update makes s follow c from the next request on. It reports false, and changes
// nothing, if c wants another address: then it takes another Server.
func (s *Server) Update(c Config) bool {
	addr, r, err := c.resolve()
	if err != nil || addr != s.addr || c.Socket != s.unix.Path {
		return false
	}
	s.rules.Store(r)
	if s.socket != nil {
		if err := s.socket.Chmod(c.Mode); err != nil {
			s.log.Error("the mode of the management socket stays", "err", err)
		}
	}
	return true
}

// Serves reports whether s is what c wants at its address, and can be found there.
func (s *Server) Serves(c Config) bool {
	addr, _, err := c.resolve()
	return err == nil && addr == s.addr && c.Socket == s.unix.Path && (s.socket == nil || !s.socket.Lost())
}

// unmap turns a network of IPv4-mapped addresses into the IPv4 network.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// Listen binds the address, or makes the Unix socket: one that nobody answers at is
// replaced, another server's is an error.
func (s *Server) Listen() error {
	if s.unix.Path != "" {
		l, err := unixsocket.Listen(s.unix)
		if err != nil {
			return fmt.Errorf("management socket: %w", err)
		}
		s.socket, s.ln = l, netutil.LimitListener(l.UnixListener, maxConns)
		return nil
	}
	ln, err := net.Listen("tcp", s.addr.String())
	if err != nil {
		return fmt.Errorf("management listener: %w", err)
	}
	s.Adopt(ln)
	return nil
}

// Adopt is Listen for a socket that is bound already.
func (s *Server) Adopt(ln net.Listener) {
	s.tcp, _ = ln.(*net.TCPListener)
	s.ln = netutil.LimitListener(ln, maxConns)
}

// File returns the bound socket of an address for another process. The caller closes it.
func (s *Server) File() (*os.File, error) { return s.tcp.File() }

// Addr returns the address that Listen bound.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Where is the address, or the path of the Unix socket, for people.
func (s *Server) Where() string {
	if s.unix.Path != "" {
		return s.unix.Path
	}
	return s.ln.Addr().String()
}

// Start serves until Shutdown.
func (s *Server) Start() {
	s.done = make(chan struct{})
	go s.serve()
}

func (s *Server) serve() {
	defer close(s.done)
	if err := s.http.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("management listener stopped", "err", err)
	}
}

// Shutdown stops accepting, lets answers under way finish until ctx is done,
// cuts what is left and joins serve. It is also right after Listen alone. A Unix socket
// goes, unless it is another server's by now.
func (s *Server) Shutdown(ctx context.Context) {
	if s.socket != nil {
		defer s.socket.Remove()
	}
	if s.done == nil {
		if s.ln != nil {
			s.ln.Close()
		}
		return
	}
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	<-s.done
}

// ServeHTTP answers one request. The peer is judged first, by the address of its
// connection and never by a header (R-MGMT-1); the kernel has judged who comes by the
// Unix socket.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	rules := s.rules.Load()
	peer := remoteOf(r)
	if s.unix.Path == "" && !rules.admit(peer) {
		w.Header().Set("Connection", "close") // its place is free for others
		answer(w, http.StatusForbidden, `{"error":"forbidden"}`)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		answer(w, http.StatusMethodNotAllowed, `{"error":"method_not_allowed"}`)
		return
	}
	switch {
	case r.URL.Path == "/livez":
		answer(w, http.StatusOK, `{"status":"ok"}`)
	case r.URL.Path == "/metrics" && s.metrics != nil:
		s.metrics.ServeHTTP(w, r)
	case strings.HasPrefix(r.URL.Path, "/debug/pprof/") && rules.pprof:
		profile(w, r, s.unix.Path != "" || peer.IsLoopback())
	case s.api != nil && servePage(w, r):
	case s.api != nil:
		s.api.ServeHTTP(w, r)
	default:
		answer(w, http.StatusNotFound, `{"error":"not_found"}`)
	}
}

// remoteOf is the address of the other end; not valid if it has none.
func remoteOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

func (r *rules) admit(peer netip.Addr) bool {
	return peer.IsValid() && slices.ContainsFunc(r.allow, func(p netip.Prefix) bool { return p.Contains(peer) })
}

// profile answers what net/http/pprof has, to the machine itself (R-MGMT-2).
func profile(w http.ResponseWriter, r *http.Request, local bool) {
	if !local {
		answer(w, http.StatusForbidden, `{"error":"forbidden"}`)
		return
	}
	switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}

func answer(w http.ResponseWriter, status int, json string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, json+"\n") // a peer that went away is nobody's concern here
}
