package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
	"httpjet/rawio"
)

// Bounds of a reply head (R-HDR-9), and of the interim heads before it.
const (
	maxHead    = 64 << 10
	maxFields  = 200
	maxInterim = 32
)

// watchAfter is how long a call waits before it watches for its client to go
// away: quick replies never pay for that (R-STREAM-5).
const watchAfter = 50 * time.Millisecond

var heads = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

// h1call is one call on one connection, from the head of the request to
// Reply.Close. It belongs to the goroutine that serves the exchange; the pump
// has its own fields.
type h1call struct {
	client *H1Client
	conn   *h1conn
	req    *Call
	ctx    context.Context
	body   *h1.Body

	unwatch func() bool   // set once ctx is watched
	cut     chan struct{} // closed when the watcher has closed the connection

	sent     time.Time // when the head was written
	headAt   time.Time // when the final head was in
	whole    bool      // the body was at hand with the head
	reading  time.Time // when the last read of the body began, with an IdleTimeout
	head     *[]byte   // memory of the request head until it is sent
	pump     *pump     // nil without a body
	answered bool      // a byte of a reply has come
	gotHead  bool      // the final head is in
	keep     bool      // the reply allows another call
	closed   bool
	unsent   bool // nothing of the request has left
}

// start sends the request and waits for the final head.
func (c *h1call) start() error {
	if err := c.send(); err != nil {
		return err
	}
	r := &c.conn.head
	for range maxInterim {
		head, err := c.conn.br.ReadHead(maxHead)
		c.giveHead()
		if err != nil {
			c.answered = c.answered || c.conn.br.Buffered() > 0 || errors.Is(err, io.ErrUnexpectedEOF)
			return c.headError(err)
		}
		c.answered = true
		if err := parseHead(r, head, c.req.Method); err != nil {
			return c.headError(err)
		}
		if r.Status >= 200 && r.Fields.Len() <= maxFields {
			c.accept(r)
			return nil
		}
		if err := c.interim(r); err != nil {
			return err
		}
	}
	return exchange.Fail(502, "upstream_transport", "%s: more than %d interim responses", c.addr(), maxInterim)
}

// interim passes a 103 on. 100 and 102 are of this hop (R-UP-7). The error is that
// of a head that is none of these.
func (c *h1call) interim(r *h1.Response) error {
	switch {
	case r.Fields.Len() > maxFields:
		return exchange.Fail(502, "response_head_too_large", "%s: more than %d fields", c.addr(), maxFields)
	case r.Status == 101:
		return exchange.Fail(502, "upstream_transport", "%s: 101 that was not asked for", c.addr())
	case r.Status == 103 && c.req.Inform != nil:
		StripHops(&r.Fields)
		if err := c.req.Inform(103, &r.Fields); err != nil {
			return fmt.Errorf("%w: %v", exchange.ErrClientGone, err)
		}
	}
	return nil
}

// parseHead parses a head into r. One that has both framing fields, which the codec
// refuses, loses the length and does not let its connection be used again
// (R-UP-7).
func parseHead(r *h1.Response, head, method string) error {
	err := r.Parse(head, method)
	if err == nil {
		return nil
	}
	var b strings.Builder
	chunked, lengths := false, 0
	for line := range strings.SplitAfterSeq(head, "\r\n") {
		name, _, _ := strings.Cut(line, ":")
		if exchange.EqualName(name, "Content-Length") {
			lengths++
			continue
		}
		chunked = chunked || exchange.EqualName(name, "Transfer-Encoding")
		b.WriteString(line)
	}
	if !chunked || lengths == 0 {
		return err
	}
	err = r.Parse(b.String(), method)
	r.KeepAlive = false
	return err
}

// errStale says that a kept connection is not fit for use: whatever came over it,
// a FIN or bytes that nobody asked for, must not answer the next call.
var errStale = errors.New("stale connection")

// send writes the head, at once and whole, so that a slow body cannot hold it
// back, and starts the pump if there is a body. Without one, on a plain
// connection that was kept, the head goes out with the first read of the reply.
func (c *h1call) send() error {
	ask := c.conn.used && c.conn.raw != nil && c.req.Length == 0
	if c.conn.used && !ask && !c.conn.silent() {
		return errStale
	}
	c.head = heads.Get().(*[]byte)
	b := h1.AppendRequest((*c.head)[:0], c.req.Method, c.req.URI, c.host(), c.req.Fields, c.req.Length)
	*c.head = b
	now := c.sent
	c.conn.writeWithin(c.client.target.BodyTimeout, now)
	c.conn.watchIn(watchAfter, now)
	if by := c.req.HeadBy; !by.IsZero() && by.Before(c.conn.readBy) {
		c.conn.setReadBy(by)
	}
	if ask {
		if c.req.Crowded {
			runtime.Gosched()
		}
		c.conn.ask = b
		return nil
	}
	n, err := c.conn.Write(b)
	c.giveHead()
	if err != nil {
		c.unsent = n == 0
		return c.writeError(err)
	}
	if c.req.Length != 0 {
		c.pump = newPump(c)
		go c.pump.pumpBody()
	}
	return nil
}

// giveHead gives the memory of the request head back.
func (c *h1call) giveHead() {
	if c.head != nil && cap(*c.head) <= maxHead {
		heads.Put(c.head)
	}
	c.head, c.conn.ask = nil, nil
}

func (c *h1call) host() string {
	if c.req.Host != "" {
		return c.req.Host
	}
	return c.client.Authority() // R-HDR-6
}

func (c *h1call) addr() string { return c.client.target.Address }

// accept takes the final head over into the reply.
func (c *h1call) accept(r *h1.Response) {
	c.gotHead, c.headAt = true, c.sent.Add(time.Since(c.sent)) // one clock instead of two
	c.keep = r.KeepAlive
	c.body = c.conn.br.Body(r.Framing)
	c.whole = c.body.Done() || r.Length >= 0 && int64(c.conn.br.Buffered()) >= r.Length
	reply := &c.conn.reply
	reply.take(r, c.body)
	reply.Body, reply.Buffered, reply.Next, reply.Done = c, c.conn.buffered, c.conn.next, c.conn.done
}

// NewReply makes a reply of a final HTTP/1 head and its body: it keeps the
// end-to-end fields, and one Trailer field for the trailers that may be relayed.
// The caller sets Done.
func NewReply(r *h1.Response, body *h1.Body) (reply Reply) {
	reply.take(r, body)
	reply.Body, reply.Buffered, reply.Next = body, body.Buffered, body.Next
	return reply
}

// take makes reply of a head and the trailers of its body.
func (reply *Reply) take(r *h1.Response, body *h1.Body) {
	announced := ""
	if r.Framing == h1.Chunked {
		announced = AnnouncedTrailers(&r.Fields)
	}
	StripHops(&r.Fields)
	*reply = Reply{}
	reply.Status, reply.Fields, reply.Length, reply.Unproven = r.Status, r.Fields, r.Length, r.Framing == h1.UntilClose
	if announced != "" {
		reply.Fields.Add("Trailer", announced)
	}
	if r.Framing == h1.Chunked {
		reply.Trailers = func() *exchange.Fields {
			f := body.Trailers()
			if f != nil {
				StripTrailers(f)
			}
			return f
		}
	}
}

// Cut ends the reply from any goroutine: reads of its body fail. It is called before
// Close.
func (c *h1call) Cut() { c.conn.socket.Close() }

// Read reads the reply's body.
func (c *h1call) Read(p []byte) (int, error) {
	if idle := c.req.IdleTimeout; idle > 0 {
		// A deadline that strikes earlier is moved by late.
		c.reading = time.Now()
		if by := c.reading.Add(idle); c.conn.readBy.IsZero() || by.Before(c.conn.readBy) {
			c.conn.setReadBy(by)
		}
	}
	n, err := c.body.Read(p)
	if err != nil && err != io.EOF && c.ctx.Err() != nil {
		err = clientGone(c.ctx)
	}
	return n, err
}

// What a waiting call waits for.
const (
	waitUpload = iota // progress of the pump: BodyTimeout (R-TMO-3)
	waitHead          // the final head: HeadTimeout (R-TMO-2)
	waitBody          // bytes of the reply: no limit
	waitOver          // nothing: the client's side failed
)

// waiting returns what the call waits for as things stand.
func (c *h1call) waiting() int {
	if c.pump != nil {
		switch c.pump.stage.Load() {
		case pumpFailed:
			return waitOver
		case pumpReading, pumpWriting, pumpLast:
			return waitUpload
		}
	}
	if c.gotHead {
		return waitBody
	}
	return waitHead
}

// late decides what it means that a read waited to its deadline: nil to wait on.
// The pump wakes a read by moving its deadline; so what the call waits for is
// looked at again after a new deadline has been set.
func (c *h1call) late() error {
	for {
		now := time.Now()
		quick := c.sent.Add(watchAfter)
		if !now.Before(quick) {
			c.watch()
		}
		if c.ctx.Err() != nil {
			return clientGone(c.ctx)
		}
		w := c.waiting()
		if w == waitOver {
			return c.pump.err
		}
		by := c.deadline(w)
		if bound := c.bound(); !bound.IsZero() && (by.IsZero() || bound.Before(by)) {
			if by = bound; !now.Before(by) {
				return c.overBound()
			}
		}
		if !by.IsZero() && !now.Before(by) {
			return c.tooLate(w)
		}
		if now.Before(quick) && (by.IsZero() || quick.Before(by)) {
			by = quick
		}
		c.conn.setReadBy(by)
		if c.waiting() == w {
			return nil
		}
	}
}

// deadline returns when a wait of kind w has been too long, zero for never.
func (c *h1call) deadline(w int) time.Time {
	switch w {
	case waitUpload:
		return c.pump.progress().Add(c.client.target.BodyTimeout)
	case waitHead:
		if c.pump != nil {
			return c.pump.progress().Add(c.headTimeout())
		}
		return c.sent.Add(c.headTimeout())
	}
	return time.Time{}
}

func (c *h1call) headTimeout() time.Duration {
	if c.req.HeadTimeout > 0 {
		return c.req.HeadTimeout // R-CTX-10
	}
	return c.client.target.HeadTimeout
}

// tooLate is the error of a wait of kind w that was too long.
func (c *h1call) tooLate(w int) error {
	stall := c.client.target.BodyTimeout
	switch {
	case w == waitHead:
		return exchange.Fail(504, "upstream_timeout", "%s: no reply head within %v", c.addr(), c.headTimeout())
	case c.pump.stage.Load() == pumpReading:
		return exchange.Fail(408, "request_stalled", "client sent no body byte for %v", stall)
	}
	return exchange.Fail(504, "request_stalled", "%s took no body byte for %v", c.addr(), stall)
}

// bound is the moment that the caller has set, whatever the call waits for: for
// the head, then for bytes of the body. Zero for none.
func (c *h1call) bound() time.Time {
	switch {
	case !c.gotHead:
		return c.req.HeadBy
	case c.req.IdleTimeout > 0:
		return c.reading.Add(c.req.IdleTimeout)
	}
	return time.Time{}
}

// overBound is the error of a wait that went on to bound.
func (c *h1call) overBound() error {
	switch {
	case c.gotHead:
		return exchange.Fail(504, "response_error", "%s: no body byte for %v", c.addr(), c.req.IdleTimeout)
	case c.pump != nil && c.pump.stage.Load() == pumpReading: // the peer has not had all of it
		return exchange.Fail(408, "request_stalled", "client did not send its body in the time of the attempt")
	}
	return exchange.Fail(504, "upstream_timeout", "%s: no reply head in the time of the attempt", c.addr())
}

// watch makes the end of ctx close the connection, which unblocks whatever the
// call waits for.
func (c *h1call) watch() {
	if c.unwatch == nil {
		c.cut = make(chan struct{})
		c.unwatch = context.AfterFunc(c.ctx, c.abandon)
	}
}

// abandon runs when the client is gone.
func (c *h1call) abandon() {
	c.conn.socket.Close()
	close(c.cut)
}

// headError says what a missing or malformed head means.
func (c *h1call) headError(err error) error {
	if errors.Is(err, rawio.ErrTalkative) {
		return errStale
	}
	if c.ctx.Err() != nil {
		return clientGone(c.ctx)
	}
	if e, ok := errors.AsType[*rawio.AskError](err); ok {
		c.unsent = e.Sent == 0
		return c.writeError(e.Err)
	}
	// First what late has judged: the cause of a malformed upload is a
	// SyntaxError too.
	if _, ok := errors.AsType[*exchange.Error](err); ok || errors.Is(err, exchange.ErrClientGone) {
		return err
	}
	if e, ok := errors.AsType[*h1.SyntaxError](err); ok {
		if e.Status == 431 {
			return exchange.Fail(502, "response_head_too_large", "%s: %v", c.addr(), e)
		}
		return exchange.Fail(502, "upstream_transport", "%s: malformed reply: %v", c.addr(), e)
	}
	return exchange.Fail(502, "upstream_transport", "read reply of %s: %w", c.addr(), err)
}

func (c *h1call) writeError(err error) error {
	if isTimeout(err) {
		return exchange.Fail(504, "request_stalled", "write to %s: %w", c.addr(), err)
	}
	return exchange.Fail(502, "upstream_transport", "write to %s: %w", c.addr(), err)
}

// replayable reports whether the call, which ended in err, may be made again on
// a fresh connection: this one had carried a call before, no byte of an answer
// came, and either nothing has left or nothing of a body was touched, the method is
// idempotent (R-POOL-4, RFC 9110 §9.2.2) and the caller allows it (R-RETRY-7).
func (c *h1call) replayable(err error) bool {
	if !c.conn.used || c.answered || c.ctx.Err() != nil || exchange.ReasonOf(err) != "upstream_transport" {
		return false
	}
	return c.unsent || c.pump == nil && !c.req.NoReplay && idempotent(c.req.Method)
}

func idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE":
		return true
	}
	return false
}

// end joins what the call started. It reports whether the request went whole
// and nobody has cut the connection.
func (c *h1call) end() bool {
	c.closed = true
	clean := c.pump == nil || c.pump.join()
	if c.unwatch != nil && !c.unwatch() {
		<-c.cut
		clean = false
	}
	return clean
}

// drop ends a call that has no reply.
func (c *h1call) drop() {
	c.conn.socket.Close()
	c.end()
	c.conn.close()
}

// close is Reply.Done. The connection is kept only if the request went whole,
// the reply was read to its end, and not a byte came behind it.
func (c *h1call) close() error {
	if c.closed {
		return nil
	}
	clean := c.end()
	client := c.client
	if clean && c.keep && c.body.Done() && c.conn.br.Buffered() == 0 {
		at := c.headAt // of a reply in one piece: the clock need not be read again
		if !c.whole {
			at = time.Now()
		}
		client.keep(c.conn, at) // from here on c may be another call
	} else {
		c.conn.close()
	}
	client.permits.Release()
	return nil
}
