package front

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/epoll"
	"httpjet/exchange"
	"httpjet/h1"
)

// Server accepts connections and serves their exchanges with the Site that is
// current when each begins: a kept connection moves to a new generation with its
// next request.
//
// Life of a request: Listener.accept → Server.serveConn → handshake → h1conn.serve
// or serveH2 → a permit → exchange.Run with the site → Site.Finished.
type Server struct {
	Current func() Site // never returns nil
	Log     *slog.Logger

	// Rest is how long a connection without traffic keeps its goroutine, up to twice
	// as long; then it is parked. 0: 1 s; below 0: for ever.
	Rest time.Duration

	conns    gate // R-LSN-9
	inFlight gate

	accepted, tlsErrors, refused, overloaded atomic.Int64
	strangers                                atomic.Int64 // connections cut off because of their PROXY header
	bugs                                     atomic.Int64
	tunnels                                  atomic.Int64 // upgraded connections that are open
	parked                                   atomic.Int64
	http10, http11, http2, http3             atomic.Int64

	h2      h2Counters
	h2Watch h2Watch
	way     way
	quic    quicCounters

	own   atomic.Pointer[ownLines]    // of the current second
	ownH2 atomic.Pointer[ownFieldsOf] // the same for HTTP/2

	watcher atomic.Pointer[epoll.Watcher] // nil until one is needed; set once, with mu held
	watched chan struct{}                 // closed when the watcher's goroutine has ended
	crowd   crowd
	giving  sync.WaitGroup // of giveBack
	watches atomic.Int64   // of clients that the kernel was told of

	draining atomic.Bool // set once, with mu held, so that Serve sees it
	hasty    atomic.Bool // of a drain: idle connections are not waited for
	mu       sync.Mutex
	lists    map[*Listener]struct{} // that accept
	open     map[*conn]struct{}     // that are served or parked
	empty    chan struct{}          // not nil: closed when open becomes empty
}

// Stats is a snapshot of the counters of a Server. All but Active, InFlight, Tunnels
// and Parked only grow.
type Stats struct {
	Active, InFlight             int   // connections, exchanges
	Tunnels                      int   // upgraded connections that are open
	Parked                       int   // of Active, those without a goroutine
	Accepted                     int64 // connections
	TLSErrors                    int64 // handshakes that failed
	Refused                      int64 // malformed requests
	Strangers                    int64 // connections cut off because of their PROXY header
	Overloaded                   int64 // answered 503 because no permit came free
	Bugs                         int64 // panics recovered
	Watched                      int64 // exchanges that took so long that their client was watched
	HTTP10, HTTP11, HTTP2, HTTP3 int64 // requests
	H2                           H2Stats
	QUIC                         QUICStats
}

// Snapshot returns the counters.
func (s *Server) Snapshot() Stats {
	s.mu.Lock()
	active := len(s.open)
	s.mu.Unlock()
	return Stats{
		Active: active, InFlight: s.inFlight.inUse(), Tunnels: int(s.tunnels.Load()), Parked: int(s.parked.Load()),
		Accepted:  s.accepted.Load(),
		TLSErrors: s.tlsErrors.Load(), Refused: s.refused.Load(), Overloaded: s.overloaded.Load(), Strangers: s.strangers.Load(),
		Bugs: s.bugs.Load(), Watched: s.watches.Load(), HTTP10: s.http10.Load(), HTTP11: s.http11.Load(), HTTP2: s.http2.Load(), HTTP3: s.http3.Load(),
		H2: s.h2.snapshot(), QUIC: s.quic.snapshot(),
	}
}

// Secure returns how many of the open connections have TLS. It looks at each.
func (s *Server) Secure() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.lis.Key.Secure {
			n++
		}
	}
	return n
}

// crowdPerProc exchanges at once for each processor make a crowd
// (exchange.Exchange.Crowded): with fewer, an idle processor would be woken for one
// that gives way.
const crowdPerProc = 8

// SetLimits applies the bounds that hold for the whole server. Call it before
// Serve and whenever a generation is published; what is above a lowered bound
// finishes.
func (s *Server) SetLimits(l *Limits) {
	s.conns.setLimit(or(l.MaxConns, 65000), 0)
	s.inFlight.setLimit(or(l.MaxInFlight, 2048), crowdPerProc*runtime.GOMAXPROCS(0))
}

// lock makes the maps on first use. The caller unlocks.
func (s *Server) lock() {
	s.mu.Lock()
	if s.open == nil {
		s.lists, s.open = map[*Listener]struct{}{}, map[*conn]struct{}{}
	}
}

// add registers a connection.
func (s *Server) add(c *conn) {
	s.lock()
	defer s.mu.Unlock()
	s.open[c] = struct{}{}
}

// remove forgets a connection that has ended.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if len(s.open) == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// snapshot returns the open connections, so that no lock is held while they are
// closed.
func (s *Server) snapshot() (conns []*conn) {
	s.lock()
	defer s.mu.Unlock()
	for c := range s.open {
		conns = append(conns, c)
	}
	return conns
}

// Drain stops accepting, closes connections that have been idle for about Rest, and
// lets exchanges in flight finish: HTTP/1 with Connection: close, HTTP/2 after GOAWAY.
// A request that comes meanwhile is answered in the same way. When ctx ends it
// closes what is left and returns how many connections it cut, without idle ones
// (R-STOP-1, R-STOP-2). One ctx is the budget of all listeners (R-STOP-4). A second
// call with a context that has ended cuts at once. The server cannot be used again.
func (s *Server) Drain(ctx context.Context) (cut int) {
	s.hasty.Store(true)
	return s.Yield(ctx)
}

// Yield is Drain of a server whose sockets another one has: nobody waits for its end,
// so that idle connections stay for as long as they would have, or until ctx ends.
func (s *Server) Yield(ctx context.Context) (cut int) {
	s.lock()
	s.draining.Store(true)
	var lists []*Listener
	for l := range s.lists {
		lists = append(lists, l)
	}
	s.mu.Unlock()
	for _, l := range lists {
		l.Close()
	}
	for _, c := range s.snapshot() {
		c.retire()
	}
	defer s.stopWatcher()
	empty := s.whenEmpty()
	select {
	case <-empty:
		return 0
	case <-ctx.Done():
	}
	for _, c := range s.snapshot() {
		if !c.dismiss() {
			c.cut()
			cut++
		}
	}
	select {
	case <-empty:
	case <-time.After(5 * time.Second): // a handler ignores its context
		s.logger().Error("handlers still run after their connections were cut", "connections", len(s.snapshot()))
	}
	return cut
}

// whenEmpty returns a channel that is closed when no connection is left.
func (s *Server) whenEmpty() <-chan struct{} {
	s.lock()
	defer s.mu.Unlock()
	if s.empty == nil {
		empty := make(chan struct{})
		if len(s.open) == 0 {
			close(empty)
			return empty
		}
		s.empty = empty
	}
	return s.empty
}

// logger makes the zero Log silent.
func (s *Server) logger() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// queue waits in a place of inFlight for a permit to serve an exchange, at most wait,
// or until the context ends. Its error is the answer (R-LSN-9).
func (s *Server) queue(ctx context.Context, place <-chan struct{}, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-place:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		s.inFlight.leave(place)
		return exchange.ErrClientGone
	}
	s.inFlight.leave(place)
	s.overloaded.Add(1)
	return &exchange.Error{Status: 503, Reason: "overloaded", Err: errors.New("no permit for another exchange"),
		Fields: []exchange.Field{{Name: "Retry-After", Value: "1"}}}
}

// run serves x and recovers a panic: it is answered 500, or the response is cut.
func (s *Server) run(x *exchange.Exchange, h exchange.Handler, w exchange.Wire) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		s.panicked("panic in handler", x, p)
		err = exchange.Fail(500, "internal", "%w: %v", exchange.ErrPanic, p)
		if x.Started() {
			w.Abort(err)
			return
		}
		err = exchange.Run(x, answerWith(err))
	}()
	return exchange.Run(x, h)
}

// finished reports x to the site; a panic there must not end the process.
func (s *Server) finished(site Site, x *exchange.Exchange, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked("panic after exchange", x, p)
		}
	}()
	x.Ended = x.Began.Add(time.Since(x.Began))
	site.Finished(x, err)
}

// panicked counts and reports a recovered panic.
func (s *Server) panicked(what string, x *exchange.Exchange, p any) {
	s.bugs.Add(1)
	s.logger().Error(what, "request", x.Req.ID, "vhost", x.Route.VHost, "route", x.Route.Label,
		"method", x.Req.Method, "panic", p, "stack", string(debug.Stack()))
}

// answerWith is a handler that only fails.
func answerWith(err error) exchange.Handler {
	return exchange.HandlerFunc(func(*exchange.Exchange) error { return err })
}

// ownLines is what the server adds to every response of one second.
type ownLines struct {
	second int64
	server string
	text   string
	alone  string // of Server only, for responses that are Dated
}

// ownLines returns the lines of Date and Server, which change once a second, and
// with a reload.
func (s *Server) ownLines(now time.Time, server string, dated bool) string {
	o := s.own.Load()
	if o == nil || o.second != now.Unix() || o.server != server {
		o = &ownLines{now.Unix(), server, h1.OwnLines(now.UTC().Format(http.TimeFormat), server), h1.OwnLines("", server)}
		s.own.Store(o)
	}
	if dated {
		return o.alone
	}
	return o.text
}

// newID returns a request id: 128 bits of the runtime's ChaCha8 in hex
// (R-PIPE-11). It names a request; it is no secret.
func newID() (id [32]byte) {
	for i := 0; i < len(id); i += 16 {
		u := rand.Uint64()
		binary.LittleEndian.PutUint64(id[i:], hex(uint32(u)))
		binary.LittleEndian.PutUint64(id[i+8:], hex(uint32(u>>32)))
	}
	return id
}

// hex returns the eight hex digits of u, one in each byte.
func hex(u uint32) uint64 {
	const ones = 0x0101010101010101
	d := uint64(u)
	d = (d | d<<16) & 0x0000ffff0000ffff
	d = (d | d<<8) & 0x00ff00ff00ff00ff
	d = (d | d<<4) & 0x0f0f0f0f0f0f0f0f
	letters := (d + 6*ones) >> 4 & ones // 1 in the bytes above 9
	return d + '0'*ones + letters*('a'-'0'-10)
}

// clientFailed marks an error of the client's connection.
func clientFailed(err error) error {
	if errors.Is(err, exchange.ErrClientGone) {
		return err
	}
	return &clientError{err}
}

// clientError is two errors: the mark, by which the log knows whose fault it
// was, and what happened, by which timeouts are told.
type clientError struct{ err error }

func (e *clientError) Error() string   { return "client gone: " + e.err.Error() }
func (e *clientError) Unwrap() []error { return []error{exchange.ErrClientGone, e.err} }

// timedOut reports whether a deadline has passed.
func timedOut(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
