package front

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
)

const (
	slack      = time.Second // deadlines are moved about this often, not per request
	drainLimit = 256 << 10   // bytes of an unread body that are worth reading for the connection
	lingerTime = 2 * time.Second
	lingerSize = 8 << 20
	smallOut   = 4 << 10
)

const preface = "PRI * HTTP/2.0\r\n\r\n"

// outBufs holds output buffers of connections that are busy, copyBufs those
// through which files go that sendfile(2) cannot send.
var copyBufs = sync.Pool{New: func() any { return new([32 << 10]byte) }}

var outBufs = sync.Pool{New: func() any { return new([smallOut]byte) }}

// h1conn serves the HTTP/1 exchanges of one connection and is the Wire of each.
//
// Life of a connection: await the first byte (no buffer held, may be closed, is
// parked after a while: then its h1conn ends, and another one goes on) → load the site
// → read the head → admit → Run → settle what follows, as the rest of the body → again;
// or, behind Run, carry the tunnel that the exchange has become. It is owned by the
// serveConn goroutine; Read may be called from one other goroutine, and StopRead
// and Context from any.
type h1conn struct {
	*conn
	r     *h1.Reader
	x     exchange.Exchange
	fresh bool // x is reset
	site  Site
	lim   *Limits
	tun   exchange.Tunnel // what x has become; nil: nothing

	// Deadlines as last set. readBy belongs to whoever reads the body, and zero
	// means that the real one is unknown; writeBy to whoever writes, and zero means
	// that there is none.
	readBy, writeBy time.Time
	blocked         func() // extendWrite, made once

	synced time.Time // the last real reading of both clocks, see clock

	// Of the current wait for a request, see idle.
	since   time.Time
	wait    time.Duration // after since
	resting bool          // it is parked before that

	onTurn func() bool // takeTurn, made when it is first needed
	left   left        // where takeTurn has left
	failed error       // the read for which it has
	then   sequel      // of the exchange behind which it has

	// Of the current exchange.
	now      time.Time
	headErr  error // what is wrong with its head
	info     h1.RequestInfo
	body     *h1.Body
	bodyLeft atomic.Int64 // of the request body: 0 when read, -1 if unknown
	stopped  atomic.Bool  // StopRead was called
	cont     atomic.Int32 // state of 100-continue
	contSent chan struct{}
	resp     response

	// Bytes of the response that have not been sent.
	out   []byte
	small *[smallOut]byte
	vec   [3][]byte
	bufs  net.Buffers // of vec, while it is written
}

// response is the state of the response that is being written.
type response struct {
	started  bool  // the final head is in out or sent
	keep     bool  // the connection may be used again
	chunked  bool  // framed by chunks
	bounded  bool  // framed by a length
	left     int64 // bytes of that length not yet written
	aborted  bool
	upgraded bool
}

// States of 100-continue. The reader of the body may be another goroutine than
// the one that sends the head, so that they agree by compare-and-swap: exactly one
// of "100 is sent" and "no 100 any more" wins, and a head waits for a 100 that is
// on its way.
const (
	contNone = iota // not asked for, or too late
	contAsked
	contSending
	contSent
)

// newH1 prepares a connection for the loop. Plain sockets are read without
// holding memory while idle; a TLS connection holds the input buffer until it is
// parked.
func newH1(c *conn) *h1conn {
	h := &h1conn{conn: c}
	h.blocked = h.extendWrite
	if c.tls == nil {
		h.r = h1.NewReader(&c.sock)
		c.sock.give = h.r.Release
	} else {
		h.r = h1.NewReader(c.nc)
	}
	h.site = c.lis.site()
	h.lim = h.site.Limits()
	return h
}

// serve is the loop of the connection. It returns true when the connection has been
// parked, and false when no request is to come, because it ends or has become a
// tunnel.
func (c *h1conn) serve() (parked bool) {
	defer func() {
		c.r.Take()
		c.r.Release()
		c.freeOut()
	}()
	for {
		if goes, parked := c.await(); !goes {
			return parked
		}
		at := c.left
		c.left = atIdle
		if at < behindHead && !c.head() {
			return false // and the connection goes on with HTTP/2
		}
		if at < behindExchange {
			if c.headErr != nil {
				c.refuse(c.headErr)
				return false
			}
			c.then = c.exchange()
		}
		if !c.settle(c.then) {
			return false
		}
	}
}

// head reads and parses the head of a request, and leaves in headErr what is wrong
// with it. It returns false if the client speaks HTTP/2.
func (c *h1conn) head() bool {
	c.site = c.lis.site() // the generation of this exchange
	c.lim = c.site.Limits()
	c.now = c.clock()
	// Most heads are at hand whole: then there is nothing to wait for. Else
	// one deadline holds for all of the head (G63).
	whole := c.r.HasHead()
	if !whole {
		c.extendRead(c.now, c.lim.connTimeout())
	}
	id := newID()
	head, err := c.r.ReadRequestHead(c.lim.maxHead(), id[:])
	if !whole {
		c.now = time.Now()
	}
	if c.n++; c.n == 1 && err == nil && head[:len(head)-len(id)] == preface && c.tls == nil && c.lim.EnableH2C {
		c.sock.SetDeadline(time.Time{})
		c.sock.ahead = append([]byte(preface+string(c.r.Take())), c.sock.ahead...)
		c.sock.give = nil
		newH2(c.conn)
		return false
	}
	c.begin()
	if err == nil {
		c.x.Req.ID = head[len(head)-len(id):]
		lim := h1.Limits{Target: c.lim.maxTarget(), Fields: c.lim.maxFields()}
		c.info, err = h1.ParseRequest(head[:len(head)-len(id)], lim, &c.x.Req)
	} else {
		c.x.Req.ID = string(id[:])
	}
	c.headErr = err
	return true
}

// await waits for the first byte of the next request. It returns false when
// there is none to come here: because the connection has been parked, or ends.
func (c *h1conn) await() (goes, parked bool) {
	if c.r.Buffered() > 0 {
		return true, false // also while the server ends: the client was not told before it asked
	}
	if !c.idle() {
		return false, false
	}
	for {
		err := c.waitHere()
		switch {
		case c.left != atIdle:
			return true, false
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err == nil && c.state.CompareAndSwap(connIdle, connActive), false
		case !c.resting || c.srv.hasty.Load() || c.state.Load() == connClosed:
			return c.leaves(), false
		case c.parkIdle(c.since.Add(c.wait)):
			return false, true
		}
		c.resting = false
		c.extendRead(c.since, c.wait)
	}
}

// idle makes an active connection an idle one. It returns false if the connection ends.
func (c *h1conn) idle() bool {
	c.since, c.wait = c.x.Ended, c.lim.KeepAliveTimeout
	switch {
	case !c.until.IsZero(): // it was parked, and waits on
		c.since = time.Now()
		c.wait, c.until = c.until.Sub(c.since), time.Time{}
	case c.n == 0:
		c.since, c.wait = time.Now(), c.lim.connTimeout() // of the generation that accepted the connection
	}
	c.x.Reset(c) // an idle connection holds no head, no buffer and no generation
	c.fresh = true
	c.site = nil
	c.r.Release()
	c.freeOut()
	rest := c.restPeriod()
	if c.resting = rest > 0 && c.wait > 2*rest; c.resting {
		c.extendReadWithin(c.since, rest, min(rest, slack))
	} else {
		c.extendRead(c.since, c.wait)
	}
	if !c.state.CompareAndSwap(connActive, connIdle) && c.state.Load() != connIdle {
		return false
	}
	return !c.srv.hasty.Load() || rest > 0 // else retire may have looked before we were idle
}

// leaves ends a connection on which no request has come. A request that has come in
// the last moment is to be served: then it returns false as to leaving, which is true
// as to going on. One that comes still later finds the end of the connection, not a
// reset, so that the client knows that it was not seen (RFC 9112 section 9.3.1).
func (c *h1conn) leaves() (goes bool) {
	if c.sock.raw == nil {
		return false
	}
	if !c.sock.raw.Silent() {
		c.readBy = time.Time{}
		c.extendRead(time.Now(), lingerTime)
		return c.r.Wait() == nil && c.state.CompareAndSwap(connIdle, connActive)
	}
	c.linger()
	return false
}

// begin prepares the exchange for a request.
func (c *h1conn) begin() {
	if !c.fresh {
		c.x.Reset(c)
	}
	c.fresh = false
	c.info, c.body, c.resp = h1.RequestInfo{}, nil, response{}
	if c.cont.Load() != contNone { // a look costs less than a store
		c.cont.Store(contNone)
	}
	if c.stopped.Load() {
		c.stopped.Store(false)
		c.readBy = time.Time{} // StopRead has moved it
	}
	r := &c.x.Req
	r.Scheme, r.Proto = "http", "HTTP/1.1"
	if c.tls != nil {
		r.Scheme, r.TLS = "https", c.tls
	}
	r.Listener, r.Remote, r.Local, r.Client = c.lis.Name(), c.remote, c.local, c.remote.Addr()
	c.x.Began, c.x.Called = c.now, c.now
}

// clock returns the time. Within a second of its last look at both clocks it adds
// what the monotonic one says has passed, because each costs as much as a log line.
func (c *h1conn) clock() time.Time {
	if d := time.Since(c.synced); d < slack {
		return c.synced.Add(d)
	}
	c.synced = time.Now()
	return c.synced
}

// refuse answers a head that cannot be served, if there is anybody to answer
// (R-PIPE-4, R-PIPE-5), and ends the connection.
func (c *h1conn) refuse(err error) {
	var answer error
	se, malformed := errors.AsType[*h1.SyntaxError](err)
	switch {
	case malformed:
		c.misbehaved(c.lim)
		answer = refusal(se)
	case timedOut(err):
		answer = &exchange.Error{Status: 408, Reason: "request_stalled", Err: errors.New("head not complete in time"), Close: true}
	default:
		return
	}
	c.srv.refused.Add(1)
	c.body = c.r.Body(0)
	c.bodyLeft.Store(0)
	err = c.srv.run(&c.x, answerWith(answer), c)
	c.srv.finished(c.site, &c.x, err)
	c.linger()
}

// refusal is the answer to a malformed request.
func refusal(se *h1.SyntaxError) *exchange.Error {
	return &exchange.Error{Status: se.Status, Reason: se.Reason(), Err: se, Close: true}
}

// sequel is what follows an exchange.
type sequel int

const (
	ends    sequel = iota // the end of the connection, or of its HTTP
	goesOn                // another request may
	lingers               // the end, which must not overtake the response
	drains                // the rest of the body, and then perhaps another request
)

// exchange serves one request.
func (c *h1conn) exchange() sequel {
	if c.x.Req.Proto == "HTTP/1.0" {
		c.srv.http10.Add(1)
	} else {
		c.srv.http11.Add(1)
	}
	c.body = c.r.Body(c.info.Framing)
	if left := int64(c.info.Framing); c.bodyLeft.Load() != left {
		c.bodyLeft.Store(left)
	}
	if c.info.ExpectContinue {
		c.contSent = make(chan struct{})
		c.cont.Store(contAsked)
	}
	var handler exchange.Handler = c.site
	if c.info.Framing == 0 {
		c.r.Release() // who waits for an upstream holds no buffer
	}
	var err error
	place, many := c.srv.inFlight.take()
	c.x.Crowded = many
	if place != nil {
		err = c.srv.queue(c.context(), place, c.lim.connTimeout())
		c.x.Called = time.Now()
	}
	admitted := err == nil
	if !admitted {
		handler = answerWith(err)
	}
	err = c.srv.run(&c.x, handler, c)
	tunnel := c.x.Detached()
	switch {
	case tunnel != nil: // see carry
	case c.resp.upgraded: // Upgrade has given the permit back
		c.srv.tunnels.Add(-1)
	case admitted:
		c.srv.inFlight.release()
	}
	gone := c.endContext(tunnel == nil)
	if tunnel != nil {
		c.become(tunnel, err)
		return ends
	}
	c.srv.finished(c.site, &c.x, err)
	switch {
	case gone || c.resp.aborted || c.resp.upgraded || c.state.Load() == connClosed:
		return ends
	case !c.resp.keep:
		// Nothing more will be read: if bytes are or may be on their way, the
		// kernel would answer them with a reset that overtakes the response.
		if !c.body.Done() || c.r.Buffered() > 0 {
			return lingers
		}
		return ends
	case !c.body.Done():
		return drains
	}
	return goesOn
}

// settle does what follows an exchange and reports whether another may.
func (c *h1conn) settle(s sequel) bool {
	switch s {
	case lingers:
		c.linger()
	case drains:
		return c.drain()
	}
	return s == goesOn
}

// endContext ends the context of the exchange and reports whether the client has
// gone. One that nobody waited for is left to the next exchange, if there is to be
// one.
func (c *h1conn) endContext(next bool) (gone bool) {
	ctx := c.client.Load()
	if ctx == nil || next && ctx.unused() {
		return false
	}
	gone = ctx.end()
	c.client.Store(nil)
	return gone
}

// drain reads the rest of a body that the handler had no use for, if it is small
// and comes soon; else the connection ends.
func (c *h1conn) drain() bool {
	if c.stopped.Load() { // an early answer: who read the body has left, see exchange.Exchange.StopBody
		c.body.Resume()
	}
	if c.cont.Load() != contAsked && c.body.Left() <= drainLimit {
		c.readBy = time.Time{}
		c.extendRead(time.Now(), lingerTime)
		if _, err := io.CopyN(io.Discard, c.body, drainLimit+1); err == io.EOF && c.body.Done() {
			return true
		}
	}
	c.linger()
	return false
}

// linger closes the sending side and reads a little, so that the client gets the
// answer before a reset, which bytes that nobody reads would cause.
func (c *h1conn) linger() {
	if c.state.Load() == connClosed || c.resp.aborted {
		return
	}
	if cw, ok := c.nc.(interface{ CloseWrite() error }); ok && c.tls != nil {
		c.sock.SetWriteDeadline(time.Now().Add(lingerTime))
		cw.CloseWrite()
	}
	c.r.Take()
	c.sock.linger()
}

// extendRead makes reads fail when nothing has come for d, or up to slack later:
// moving a deadline costs more than looking at it, so that it is not moved for
// every request.
func (c *h1conn) extendRead(now time.Time, d time.Duration) { c.extendReadWithin(now, d, slack) }

// extendReadWithin is extendRead for another slack.
func (c *h1conn) extendReadWithin(now time.Time, d, slack time.Duration) {
	if by := now.Add(d); c.readBy.Before(by) || c.readBy.After(by.Add(slack)) {
		c.readBy = by.Add(slack)
		c.sock.SetReadDeadline(c.readBy)
	}
}

// extendWrite is the same for writes, with the connection timeout.
func (c *h1conn) extendWrite() {
	if by := time.Now().Add(c.lim.connTimeout()); c.writeBy.Before(by) || c.writeBy.After(by.Add(slack)) {
		c.writeBy = by.Add(slack)
		c.sock.SetWriteDeadline(c.writeBy)
	}
}
