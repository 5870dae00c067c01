package front

import (
	"context"
	"sync"
	"time"
)

// clientCtx is a context.Context: that of one exchange, done when the client is gone, when
// the connection is cut, or when the exchange has ended. It costs nothing until
// somebody waits for it: only then the Server's watcher is told, and only if the
// exchange takes long the kernel.
type clientCtx struct {
	c *h1conn // whose client is watched; nil: somebody else tells when it is gone

	mu     sync.Mutex
	done   chan struct{}
	err    error
	after  map[*func()]struct{} // run, each on its own, when it is done
	wanted bool                 // somebody waits
	watch  *clientWatch         // nil: none, or not yet
	quiet  bool                 // no watch any more
}

// Deadline returns none: who needs one derives a context.
func (x *clientCtx) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value returns nothing.
func (x *clientCtx) Value(any) any { return nil }

// Err is context.Canceled once the context is done. It starts no watch.
func (x *clientCtx) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// Done starts the watch.
func (x *clientCtx) Done() <-chan struct{} {
	x.mu.Lock()
	if x.done == nil {
		x.done = make(chan struct{})
		if x.err != nil {
			close(x.done)
		}
	}
	done := x.done
	began, first := x.want()
	x.mu.Unlock()
	if first {
		x.begin(began)
	}
	return done
}

// AfterFunc lets package context derive from x without a goroutine.
func (x *clientCtx) AfterFunc(f func()) (stop func() bool) {
	x.mu.Lock()
	if x.err != nil {
		x.mu.Unlock()
		context.AfterFunc(doneCtx, f)
		return func() bool { return false }
	}
	if x.after == nil {
		x.after = map[*func()]struct{}{}
	}
	key := &f
	x.after[key] = struct{}{}
	began, first := x.want()
	x.mu.Unlock()
	if first {
		x.begin(began)
	}
	return func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, was := x.after[key]
		delete(x.after, key)
		return was
	}
}

// want reports whether now somebody waits for the first time, and when the exchange
// began. x.mu is held: no exchange ends meanwhile.
func (x *clientCtx) want() (began time.Time, first bool) {
	if x.wanted || x.err != nil || x.c == nil || x.c.sock.raw == nil {
		return began, false
	}
	x.wanted = true
	return x.c.now, true
}

// begin begins the watch of an exchange that began then.
func (x *clientCtx) begin(began time.Time) {
	w := x.c.srv.watch()
	if w == nil {
		return
	}
	h := &clientWatch{x: x, w: w}
	h.Owner, h.HangUp, h.Until = h, true, began.Add(watchAfter)
	x.mu.Lock()
	x.watch = h
	x.mu.Unlock()
	if !x.unwatched() {
		h.begin()
	}
}

// unwatched reports whether the client is watched no more.
func (x *clientCtx) unwatched() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err != nil || x.quiet
}

// unwatch ends the watch, or does not let one begin.
func (x *clientCtx) unwatch() {
	x.mu.Lock()
	x.quiet = true
	h := x.watch
	x.mu.Unlock()
	if h != nil {
		h.w.Remove(&h.Watch)
	}
}

// end makes the context done and ends the watch. It reports whether the client was
// gone before.
func (x *clientCtx) end() (gone bool) {
	gone = !x.cancel()
	x.unwatch()
	return gone
}

// doneCtx runs a function on a goroutine of its own, as AfterFunc must.
var doneCtx = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// unused reports whether nobody has waited for x and the client is there: then it
// is as new for the next exchange.
func (x *clientCtx) unused() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.wanted && !x.quiet && x.err == nil && x.done == nil && x.after == nil
}

// cancel makes the context done and reports whether it was not before. It may be
// called more than once, by anybody.
func (x *clientCtx) cancel() bool {
	x.mu.Lock()
	if x.err != nil {
		x.mu.Unlock()
		return false
	}
	x.err = context.Canceled
	if x.done != nil {
		close(x.done)
	}
	after := x.after
	x.after = nil
	x.mu.Unlock()
	for f := range after {
		context.AfterFunc(doneCtx, *f)
	}
	return true
}
