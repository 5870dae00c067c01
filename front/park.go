package front

import (
	"context"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"httpjet/epoll"
)

// defaultRest is Server.Rest where that is 0. It is long enough that a client
// that asks one thing after the other never finds its connection parked.
const defaultRest = time.Second

// A parked connection is one at rest: it waits for its next request, or is a
// tunnel without traffic, and has given up its goroutine and what that held. The
// watcher of the server has its sockets and wakes it.
//
// Life: the goroutine has waited for about Server.Rest → park → the goroutine ends →
// bytes or the peer's end (epoll.Ready), or the end of its patience (epoll.Late) →
// Woken → serveConn goes on where it was. Who closes a parked connection from outside
// takes it out with unpark, because the watcher does not hear of it.
//
// Its permit stays with it, it is among Server.open, and its state stays what it
// was: connIdle, in which retire may close it, or connActive for a tunnel.

// restPeriod returns how long c is quiet before it is parked; 0: it never is.
func (c *conn) restPeriod() time.Duration {
	if c.sock.raw == nil {
		return 0
	}
	return c.srv.rest()
}

func (s *Server) rest() time.Duration { return max(or(s.Rest, defaultRest), 0) }

// park gives c to the watcher until one of socks has something to read, at the
// latest until then, if that is not zero. After true the caller's goroutine has
// nothing to do with c any more: it may be served by another one already.
func (c *conn) park(socks [2]syscall.RawConn, until time.Time) bool {
	w := c.srv.watch()
	if w == nil {
		return false
	}
	c.client.Store(nil) // it holds the exchange before
	c.watch.Owner, c.watch.Socks, c.watch.Until = c, socks, until
	s := c.srv
	s.parked.Add(1)
	if w.Add(&c.watch) { // from here on c is not ours
		s.crowd.came(s, w)
		return true
	}
	s.parked.Add(-1)
	return false
}

// Woken ends the stay with the watcher. An idle connection whose time is over is
// closed here, so that a crowd of them does not become a crowd of goroutines;
// a farewell of TLS might wait, and has one.
func (c *conn) Woken(why epoll.Reason) {
	c.srv.parked.Add(-1)
	if why == epoll.Late && c.tls == nil && c.tunnel.Load() == nil && c.sock.raw.Silent() {
		c.finish()
		return
	}
	go serveConn(c)
}

// unpark takes c out of the watcher and reports whether it was there: then it is
// the caller's to end.
func (c *conn) unpark() bool {
	w := c.srv.watcher.Load()
	if w == nil || !w.Remove(&c.watch) {
		return false
	}
	c.srv.parked.Add(-1)
	return true
}

// crowdSize is the number of connections whose goroutines and exchanges are worth
// a collection of their own: some 10 MiB.
const crowdSize = 1000

// crowd gives memory back to the system when many connections have been parked. What
// they held has become garbage, and while nothing goes on, no collection
// would find it for two minutes, nor would what it frees be returned.
type crowd struct {
	srv   *Server
	watch epoll.Watch  // a timer; somebody has it from crowdSize on until count is 0 again
	count atomic.Int64 // connections parked since
	seen  int64        // count at the last look
}

// came counts a connection that was parked.
func (c *crowd) came(s *Server, w *epoll.Watcher) {
	if c.count.Add(1) == crowdSize {
		c.srv, c.watch.Owner, c.seen = s, c, 0
		c.lookLater(w)
	}
}

func (c *crowd) lookLater(w *epoll.Watcher) {
	c.watch.Until = time.Now().Add(c.srv.rest())
	w.Add(&c.watch) // refused at the end only
}

// Woken looks whether more have come: as long as they do, so does the traffic that
// wakes others, and collections with it.
func (c *crowd) Woken(why epoll.Reason) {
	n := c.count.Load()
	switch {
	case why != epoll.Late:
	case n-c.seen > crowdSize/10:
		c.seen = n
		c.lookLater(c.srv.watcher.Load())
	default:
		c.srv.giving.Add(1)
		go giveBack(c)
	}
}

// giveBack collects twice: the first collection frees, the second tells the runtime
// that so much is not needed; it then returns the rest to the system in the
// background. Nothing stands still meanwhile, as it would in debug.FreeOSMemory.
// stopWatcher joins it.
func giveBack(c *crowd) {
	defer c.srv.giving.Done()
	runtime.GC()
	runtime.GC()
	c.count.Store(0)
}

// parkIdle parks a connection that waits for a request until the given time.
func (c *h1conn) parkIdle(until time.Time) bool {
	if !c.writeBy.IsZero() {
		c.sock.SetWriteDeadline(time.Time{}) // the next h1conn does not know of it
	}
	c.sock.give = nil // it holds the reader
	c.until = until
	// Ends are rounded up, so that those of a crowd come together.
	until = until.Add(time.Second - time.Duration(until.Nanosecond()))
	shared := c.conn
	if c.park([2]syscall.RawConn{c.sock.raw.Raw()}, until) {
		if shared.srv.hasty.Load() {
			shared.retire() // Drain may have looked before it was parked
		}
		return true
	}
	c.until = time.Time{}
	if c.tls == nil {
		c.sock.give = c.r.Release
	}
	c.writeBy = time.Time{}
	return false
}

// watch returns the watcher, which is opened when it is first needed, nil if there is
// none to be had.
func (s *Server) watch() *epoll.Watcher {
	if w := s.watcher.Load(); w != nil {
		return w
	}
	w, err := epoll.New()
	if err != nil {
		return nil // out of descriptors: nobody rests or is watched meanwhile
	}
	s.lock()
	defer s.mu.Unlock()
	if first := s.watcher.Load(); first != nil || s.draining.Load() {
		w.Close()
		return first
	}
	s.watched = make(chan struct{})
	s.watcher.Store(w)
	go watchSockets(w, s.watched)
	return w
}

// watchSockets waits for what parked connections, and exchanges whose client may
// leave, wait for. Drain joins it.
func watchSockets(w *epoll.Watcher, ended chan<- struct{}) {
	defer close(ended)
	w.Run()
}

// stopWatcher joins the watcher. Nothing is parked any more but what a handler
// that ignores its end parks afterwards, which the watcher then refuses.
func (s *Server) stopWatcher() {
	if w := s.watcher.Load(); w != nil {
		w.Close()
		<-s.watched
		s.giving.Wait()
	}
}

// life is the context of a connection, for those who need one.
type life struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// context returns a context that ends when the connection does. It is made when
// it is asked for: most connections never need it.
func (c *conn) context() context.Context {
	l := c.life.Load()
	if l == nil {
		ctx, cancel := context.WithCancel(context.Background())
		l = &life{ctx, cancel}
		if !c.life.CompareAndSwap(nil, l) {
			cancel()
			l = c.life.Load()
		}
		if c.state.Load() == connClosed { // whoever closed it may have looked before
			l.cancel()
		}
	}
	return l.ctx
}

// cancel ends the context, if there is one. The state is connClosed, or nobody
// will ask for the context any more.
func (c *conn) cancel() {
	if l := c.life.Load(); l != nil {
		l.cancel()
	}
}
