package front

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
	"httpjet/h2"
)

// Places where an exchange may be served.
const (
	ended    = iota // nowhere: it has ended, or has not begun
	onReader        // on the goroutine of the reader
	onOwn           // on one that has been the reader's

	placeBits = 2
	placeMask = 1<<placeBits - 1
)

// h2stream is one exchange and the Wire of it. Fields without a note belong to the
// goroutine that serves it.
//
// Life: newStream → begin, on the goroutine of the reader → leave, if it has to wait →
// finish. One that the client or the connection has ended is killed first: it stays
// served until its handler has noticed.
type h2stream struct {
	c     *h2conn
	head  h2.Head // of the request; its Fields are those of x
	x     exchange.Exchange
	site  Site
	lim   *Limits
	id    uint32
	rank  h2.Rank       // guarded by c.mu
	place atomic.Uint64 // above placeBits: the number of its turn, so that no other exchange can be meant

	expect  bool // the client may wait for a 100
	started atomic.Bool
	stopped atomic.Bool
	ctx     atomic.Pointer[clientCtx]
	tunnel  *h2Tunnel // of an extended CONNECT; else nil
	suspect bool      // its handler has panicked

	// Of the response.
	bounded, noBody, upgraded, deaf bool
	left                            int64 // bytes of the announced length not yet written

	// Guarded by c.mu.
	gone     error // why the client gets and sends no more; nil: it does
	sentEnd  bool
	lastAt   int // where the head of the last frame is in c.out, while c.gen is lastGen
	lastGen  uint64
	window   h2.Window
	waits    bool // for writable
	queued   bool // in c.queue
	writable chan struct{}

	body     h2Body
	over     bool  // nothing more comes
	short    bool  // and that is too early
	declared int64 // length, -1: unknown
	got      int64
	recv     int // bytes that the client may send
	full     int // what recv is when all was read
	owed     int
	readBy   time.Time // of a tunnel; zero: none
	readable chan struct{}
	trailers *exchange.Fields
	tun      exchange.Tunnel // what it has become; nil: nothing
}

func newFields() *exchange.Fields { return &exchange.Fields{} }

// newStream returns a stream for a request whose head is to be decoded.
func (c *h2conn) newStream(id uint32) *h2stream {
	s := c.kept
	c.kept = nil
	if s == nil {
		s = streams.Get().(*h2stream)
		s.c = c
	}
	s.id = id
	s.recv, s.full = h2Unread, h2Unread
	s.site = c.lis.site()
	s.lim = s.site.Limits()
	return s
}

// streams holds streams that are as new, of all connections.
var streams = sync.Pool{New: func() any {
	s := &h2stream{}
	s.x.Reset(s)
	return s
}}

// renew makes s as new and keeps it for another exchange, if nobody else can have a hold
// of it. reads: the goroutine is the reader.
func (s *h2stream) renew(reads bool) {
	if !s.again() {
		return
	}
	s.expect, s.bounded, s.noBody, s.upgraded, s.deaf, s.left = false, false, false, false, false, 0
	s.sentEnd, s.over, s.short, s.got, s.owed, s.lastGen = false, false, false, 0, 0, 0
	s.started.Store(false)
	if ctx := s.ctx.Load(); ctx != nil && !ctx.unused() {
		s.ctx.Store(nil)
	}
	s.site, s.lim = nil, nil // an old generation is let go of
	s.x.Reset(s)
	if reads {
		s.c.kept = s
		return
	}
	s.c = nil
	streams.Put(s)
}

// putKept gives back the stream that is kept for the next request: while the connection
// waits, others find it warm.
func (c *h2conn) putKept() {
	if s := c.kept; s != nil {
		c.kept, s.c = nil, nil
		streams.Put(s)
	}
}

// begin serves a request whose head is s.head, on the goroutine of the reader. It
// returns true if another goroutine is the reader now.
func (c *h2conn) begin(s *h2stream, ends bool) (handed bool) {
	err := s.fill(&s.head, ends)
	c.mu.Lock()
	c.active++
	s.over = ends
	s.window = h2.Window(c.peer.Window)
	s.rank = h2.ParseRank(s.head.Priority)
	c.mu.Unlock()
	c.take(s)
	s.serve(err)
	at := s.place.Load()
	reads := at&placeMask == onReader && s.place.CompareAndSwap(at, at&^placeMask) // ended
	if reads {
		c.inline.Store(nil)
	}
	s.finish()
	s.renew(reads)
	return !reads
}

// again reports whether s can be another exchange: it ended well, had neither body nor
// tunnel, and never waited for its client. Frames of the client find it no more.
func (s *h2stream) again() bool {
	return !s.suspect && s.declared == 0 && s.over && s.tunnel == nil && s.writable == nil && s.readable == nil &&
		s.trailers == nil && !s.stopped.Load() && s.gone == nil
}

// leave makes another goroutine the reader, if the one that serves s is it. Anybody may
// call it.
func (s *h2stream) leave() { s.leaveFrom(s.c, s.place.Load()) }

// leaveFrom is leave, if s, whose connection is c, is still where it was at. It leaves
// with mu held: who serves s and ends just now finds it among the streams.
func (s *h2stream) leaveFrom(c *h2conn, at uint64) {
	if at&placeMask != onReader {
		return
	}
	c.mu.Lock()
	if !s.place.CompareAndSwap(at, at&^placeMask|onOwn) {
		c.mu.Unlock()
		return
	}
	c.warm = true
	if s.gone == nil {
		c.ids = append(c.ids, s.id)
		c.streams = append(c.streams, s)
	}
	w := c.takeSpare()
	c.mu.Unlock()
	c.inline.Store(nil)
	if w == nil {
		go readH2(c)
		return
	}
	w.wake <- true
}

// own reports whether another goroutine than the reader serves s.
func (s *h2stream) own() bool { return s.place.Load()&placeMask == onOwn }

// MayWait implements exchange.Waiter.
func (s *h2stream) MayWait() { s.leave() }

// fill sets x.Req from the head. Its error is the answer.
func (s *h2stream) fill(h *h2.Head, ends bool) error {
	c, q := s.c, &s.x.Req
	id := newID()
	q.ID = string(id[:])
	q.Proto, q.Method, q.Scheme, q.Target, q.Host = "HTTP/2.0", h.Method, "http", h.Path, h.Authority
	if c.tls != nil { // :scheme is the client's word
		q.Scheme, q.TLS = "https", c.tls
	}
	if h.Authority == "" {
		q.Host = h.Host
	}
	q.Listener, q.Remote, q.Local, q.Client = c.lis.Name(), c.remote, c.local, c.remote.Addr()
	s.x.Began, s.x.Called = c.now, c.now
	s.expect = h.Expect && !ends
	s.declared = -1
	if ends {
		s.declared = 0
	}
	if h.Method == "CONNECT" && h.Protocol == "" {
		q.Target = h.Authority
	}
	err := s.check(h, ends)
	q.Length = s.declared
	if err == nil && h.Protocol != "" {
		err = s.connect(h)
	}
	return err
}

// check applies what the HTTP/1 parser checks too (R-PIPE-4, R-PIPE-5), and sets the
// declared length.
func (s *h2stream) check(h *h2.Head, ends bool) error {
	q := &s.x.Req
	if se, ok := errors.AsType[*h1.SyntaxError](h1.CheckMethod(q.Method)); ok {
		return refusal(se)
	}
	bad := func(status int, msg string) error { return refusal(&h1.SyntaxError{Status: status, Msg: msg}) }
	if h.Lengths > 0 {
		n, ok := length(h.Length)
		if h.Lengths > 1 || !ok || ends && n != 0 {
			return bad(400, "body and Content-Length differ")
		}
		s.declared = n
	}
	switch {
	case len(q.Target) > s.lim.maxTarget():
		return bad(414, "target too long")
	case h.Large || q.Fields.Len() > s.lim.maxFields():
		return bad(431, "too many fields")
	case headSize(q) > s.lim.maxHead():
		return bad(431, "head too large")
	case h.Hosts > 1 || h.Hosts == 1 && h.Authority != "" && !exchange.EqualName(h.Host, h.Authority):
		return bad(400, "Host and :authority differ")
	case !h1.ValidHost(q.Host):
		return bad(400, "malformed host")
	case h.Method == "CONNECT" && h.Protocol == "" || q.Target == "*" && q.Method == "OPTIONS":
		return nil
	case !h1.ValidTarget(q.Target):
		return bad(400, "malformed target")
	}
	return nil
}

// length reads a Content-Length (RFC 9110 §8.6, G04).
func length(v string) (int64, bool) {
	if v == "" || v[0] < '0' || v[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(v, 10, 63)
	return int64(n), err == nil
}

// serve serves the exchange; err is its answer if there is one before a handler.
func (s *h2stream) serve(err error) {
	srv := s.c.srv
	var handler exchange.Handler = s.site
	admitted := false
	if err != nil {
		srv.refused.Add(1)
		s.c.misbehaved(s.lim)
	} else {
		place, many := srv.inFlight.take()
		s.x.Crowded = many
		if place != nil {
			s.leave()
			err = srv.queue(s.Context(), place, s.lim.connTimeout())
			s.x.Called = time.Now()
		}
		admitted = err == nil
	}
	if err != nil {
		handler = answerWith(err)
	}
	var wire exchange.Wire = s
	if s.tunnel != nil {
		wire = s.tunnel
	}
	err = srv.run(&s.x, handler, wire)
	if t := s.x.Detached(); t != nil {
		err = s.carry(t, err)
	}
	switch {
	case s.upgraded: // the permit was given back
		srv.tunnels.Add(-1)
	case admitted:
		srv.inFlight.release()
	}
	s.suspect = errors.Is(err, exchange.ErrPanic)
	srv.finished(s.site, &s.x, err)
}

// finish is the end of a stream that is served no more.
func (s *h2stream) finish() {
	c := s.c
	c.mu.Lock()
	c.active--
	c.drop(s)
	c.dequeue(s)
	c.wakeNext()
	switch {
	case s.gone != nil:
	case !s.sentEnd: // cut by an Abort that could not say so
		c.out = h2.AppendRST(c.buffer(), s.id, h2.InternalError)
		c.forgetLocked(s.id)
	default:
		c.resets.Earn(1)
		c.idle.Earn(4)
		if !s.over { // nobody wants the rest of the body (RFC 9113 §8.1)
			c.out = h2.AppendRST(c.buffer(), s.id, h2.NoError)
			c.forgetLocked(s.id)
		}
	}
	c.credit(s.body.free())
	pending := len(c.out) > 0 && s.own()
	last := c.left && c.active == 0
	leaves := c.active == 0 && c.leaving == closes && s.own()
	c.mu.Unlock()
	if ctx := s.ctx.Load(); ctx != nil && !ctx.unused() {
		ctx.end()
	}
	if pending {
		c.flushSoon(s.x.Crowded)
	}
	switch {
	case last:
		c.finish()
	case leaves:
		c.poke()
	}
}

// kill ends what the client has to do with s; the error is that of later calls. mu is
// held; bury has to follow.
func (s *h2stream) kill(err error) {
	if s.gone != nil {
		return
	}
	s.gone = err
	s.over = true
	s.c.dequeue(s)
	s.c.credit(s.body.free())
	s.c.wakeNext()
}

// killAll kills streams whose connection ends with err, and returns them. mu is held.
func (c *h2conn) killAll(all []*h2stream, err error) []*h2stream {
	for _, s := range all {
		s.kill(clientFailed(err))
	}
	return all
}

// bury tells who serves s that it was killed.
func (s *h2stream) bury() {
	if ctx := s.ctx.Load(); ctx != nil {
		ctx.cancel()
	}
	s.c.mu.Lock()
	t := s.tun
	s.signal()
	s.wakeReader()
	s.c.mu.Unlock()
	if t != nil {
		t.Close()
	}
}

// signal wakes who waits to write. mu is held.
func (s *h2stream) signal() {
	if s.writable != nil {
		select {
		case s.writable <- struct{}{}:
		default:
		}
	}
}

// wakeWriter wakes it because the window of the stream has changed. mu is held.
func (s *h2stream) wakeWriter() {
	if s.waits && s.window > 0 && !s.queued {
		s.signal()
	}
}

// wakeReader wakes who waits for the body. mu is held.
func (s *h2stream) wakeReader() {
	if s.readable != nil {
		select {
		case s.readable <- struct{}{}:
		default:
		}
	}
}

// Context is done soon after the client has reset the stream or is gone.
func (s *h2stream) Context() context.Context {
	ctx := s.ctx.Load()
	if ctx == nil {
		ctx = &clientCtx{}
		if !s.ctx.CompareAndSwap(nil, ctx) {
			ctx = s.ctx.Load()
		}
	}
	s.c.mu.Lock()
	gone := s.gone != nil || s.c.over
	s.c.mu.Unlock()
	if gone {
		ctx.cancel()
	}
	return ctx
}
