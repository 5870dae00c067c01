package front

import (
	"sync"
	"time"
)

// h2Slow is how long an exchange may keep the goroutine of the reader to itself, and
// the pause between two looks of h2Watch.
const h2Slow = 10 * time.Millisecond

// h2Watch looks for readers of HTTP/2 connections that are stuck in an exchange. One timer
// does so for all connections of a server, while exchanges are served: one of each
// connection would be set, and fire, for nearly each request of a client that has one
// stream at a time.
//
// A connection is looked at from the exchange that has it added until a look that finds
// none.
type h2Watch struct {
	mu    sync.Mutex
	conns []*h2conn // that are armed
	spare []*h2conn // memory for conns while look has that
	timer *time.Timer
	runs  bool // timer is set, or look runs
}

// add has c looked at.
func (w *h2Watch) add(c *h2conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, c)
	if w.runs {
		return
	}
	w.runs = true
	if w.timer == nil {
		w.timer = time.AfterFunc(h2Slow, w.look)
		return
	}
	w.timer.Reset(h2Slow)
}

// look looks at all of them. It is called by the timer, and sets it again while there are
// any.
func (w *h2Watch) look() {
	w.mu.Lock()
	all := w.conns
	w.conns, w.spare = w.spare, nil
	w.mu.Unlock()
	kept := all[:0]
	for _, c := range all {
		if c.watch() {
			kept = append(kept, c)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, kept...)
	clear(all)
	w.spare = all[:0]
	if w.runs = len(w.conns) > 0; w.runs {
		w.timer.Reset(h2Slow)
	}
}

// watch makes another goroutine the reader if the one that is it serves the same exchange
// as at the last look. It reports whether the connection is to be looked at again.
func (c *h2conn) watch() bool {
	s := c.inline.Load()
	if s == nil {
		c.armed.Store(false)
		if s = c.inline.Load(); s == nil || c.armed.Swap(true) { // or it has been added again
			return false
		}
	}
	// s may be the exchange of another connection by now. It is not if its place is still
	// the one that was seen here before s was found once more: no two have the same.
	at := s.place.Load()
	if at == c.seen {
		s.leaveFrom(c, at)
	}
	c.seen = at
	return true
}

// take begins an exchange on the goroutine of the reader.
func (c *h2conn) take(s *h2stream) {
	turn := uint64(c.srv.http2.Add(1)) // no exchange of any connection has the same
	s.place.Store(turn<<placeBits | onReader)
	c.inline.Store(s)
	if !c.armed.Load() && !c.armed.Swap(true) {
		c.srv.h2Watch.add(c)
	}
}
