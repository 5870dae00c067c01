// Package status is the admin listener: plain HTTP on an address of its own that
// tells whether the process lives and what it counts. It changes nothing, serves
// no application, and its requests are neither logged nor counted.
package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

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

// Config says where the admin listener is and who may ask.
type Config struct {
	// Addr is a literal IP with a port, as "127.0.0.1:9090" or "[::1]:9090".
	Addr string

	// Allow are the networks whose peers may ask. If it is empty they are those
	// of the loopback, and Addr must be a loopback address.
	Allow []netip.Prefix

	// Metrics answers /metrics; nil: 404.
	Metrics http.Handler

	// Log takes what goes wrong; nil drops it.
	Log *slog.Logger
}

// Server is the admin listener. Its owner calls Listen, Start and Shutdown in
// this order.
type Server struct {
	addr    netip.AddrPort
	allow   []netip.Prefix
	metrics http.Handler
	log     *slog.Logger
	http    http.Server
	ln      net.Listener
	done    chan struct{} // closed when serve has ended; nil before Start
}

// New checks the configuration. It binds nothing and starts nothing.
func New(c Config) (*Server, error) {
	addr, err := netip.ParseAddrPort(c.Addr)
	if err != nil || addr.Addr().Zone() != "" {
		return nil, fmt.Errorf("management address %q is not a literal IP with a port", c.Addr)
	}
	s := &Server{addr: addr, metrics: c.Metrics, log: c.Log}
	switch {
	case len(c.Allow) > 0:
		for _, p := range c.Allow {
			if !p.IsValid() {
				return nil, errors.New("management allow list holds an invalid network")
			}
			s.allow = append(s.allow, unmap(p))
		}
	case addr.Addr().Unmap().IsLoopback():
		s.allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	default:
		return nil, fmt.Errorf("management address %s is not a loopback address and has no allow list", c.Addr)
	}
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

// unmap turns a network of IPv4-mapped addresses into the IPv4 network.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// Listen binds the address.
func (s *Server) Listen() error {
	ln, err := net.Listen("tcp", s.addr.String())
	if err != nil {
		return fmt.Errorf("management listener: %w", err)
	}
	s.ln = netutil.LimitListener(ln, maxConns)
	return nil
}

// Addr returns the address that Listen bound.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

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
// cuts what is left and joins serve. It is also right after Listen alone.
func (s *Server) Shutdown(ctx context.Context) {
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
// connection and never by a header (R-MGMT-1).
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if !s.allowed(r.RemoteAddr) {
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
	default:
		answer(w, http.StatusNotFound, `{"error":"not_found"}`)
	}
}

func (s *Server) allowed(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	a := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(s.allow, func(p netip.Prefix) bool { return p.Contains(a) })
}

func answer(w http.ResponseWriter, status int, json string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, json+"\n") // a peer that went away is nobody's concern here
}
