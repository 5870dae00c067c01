package front

import (
	"context"
	"sync"
	"time"
)

// clientCtx is a context.Context: that of one exchange, done when the client is gone, when
// the connection is cut, or when the exchange has ended. It costs nothing until
// somebody waits for it: only then, and only once the request body has been read,
// a goroutine watches the socket. While the body is being read its reader notices
// the end. h1conn joins the watch before it reads the next head.
type clientCtx struct {
	c *h1conn

	mu       sync.Mutex
	done     chan struct{}
	err      error
	after    map[*func()]struct{} // run, each on its own, when it is done
	wanted   bool                 // somebody waits
	bodyRead bool
	watching chan struct{} // closed when the watch has ended; nil if none was started
	ended    bool
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
	defer x.mu.Unlock()
	if x.done == nil {
		x.done = make(chan struct{})
		if x.err != nil {
			close(x.done)
		}
	}
	x.want()
	return x.done
}

// AfterFunc lets package context derive from x without a goroutine.
func (x *clientCtx) AfterFunc(f func()) (stop func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		context.AfterFunc(doneCtx, f)
		return func() bool { return false }
	}
	if x.after == nil {
		x.after = map[*func()]struct{}{}
	}
	key := &f
	x.after[key] = struct{}{}
	x.want()
	return func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, was := x.after[key]
		delete(x.after, key)
		return was
	}
}

// doneCtx runs a function on a goroutine of its own, as AfterFunc must.
var doneCtx = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// want starts the watch if there is a reason and a way. x.mu is held.
func (x *clientCtx) want() {
	x.wanted = true
	if x.bodyRead && !x.ended && x.err == nil && x.watching == nil && x.c.sock.raw != nil {
		x.watching = make(chan struct{})
		go watchClient(x, x.watching)
	}
}

// watchClient waits on the socket for the client's end. Only stopWatch ends it
// before: a read deadline of the head, or one that stopped a reader of the body,
// may pass meanwhile and says nothing about the client.
func watchClient(x *clientCtx, ended chan struct{}) {
	defer close(ended)
	for x.watchOn() {
		if x.c.sock.watch() {
			x.cancel()
			return
		}
	}
}

// watchOn clears the read deadline unless the watch is to end. Under x.mu it
// cannot clear the one by which stopWatch wakes the watch.
func (x *clientCtx) watchOn() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended {
		x.c.sock.SetReadDeadline(time.Time{})
	}
	return !x.ended
}

// bodyDone tells that nothing reads the socket any more.
func (x *clientCtx) bodyDone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bodyRead = true
	if x.wanted {
		x.want()
	}
}

// cancel makes the context done. It may be called more than once, by anybody.
func (x *clientCtx) cancel() {
	x.mu.Lock()
	if x.err != nil {
		x.mu.Unlock()
		return
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
}

// stopWatch joins the watch and reports whether it had been started: then the
// read deadline of the socket lies in the past.
func (x *clientCtx) stopWatch() bool {
	x.mu.Lock()
	x.ended = true
	watching := x.watching
	if watching == nil {
		x.mu.Unlock()
		return false
	}
	x.c.sock.SetReadDeadline(time.Unix(1, 0))
	x.mu.Unlock()
	<-watching
	return true
}
