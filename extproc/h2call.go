package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"httpjet/exchange"
)

var errTooManyInterim = fmt.Errorf("more than %d interim responses", maxInterim)

// h2call is one call on one stream, from its head to Reply.Close. It belongs to
// the goroutine that serves the exchange, which waits in the library; hooks of the
// library, the timer and the end of the client look at what mu guards.
type h2call struct {
	client *H2Client
	conn   *h2conn
	req    *Call
	ctx    context.Context // of the exchange
	reply  Reply
	fields *exchange.Fields // memory of the reply's
	resp   *http.Response
	body   *h2body // of the request; nil without one
	read   bool    // the reply was read to its end

	// run is the stream's context, its cause why it was cut. It does not derive
	// from ctx, which costs nothing until somebody waits for it.
	run context.Context
	cut context.CancelCauseFunc

	interim int // interim heads; of the goroutine that reads the connection

	mu      sync.Mutex
	timer   *time.Timer
	unwatch func() bool // set once ctx is watched
	sent    time.Time   // when all of the request was; zero before
	idleBy  time.Time   // when the pending read of the body is late; zero: never
	gotHead bool        // the final head is in, or there will be none
	ended   bool        // nothing may set the timer any more
	hints   []*exchange.Fields
	passing chan struct{} // closed when passHints has ended; nil unless it runs
}

func newH2call(ctx context.Context, p *H2Client, conn *h2conn, req *Call) *h2call {
	c := &h2call{client: p, conn: conn, req: req, ctx: ctx}
	now := time.Now()
	if req.Length != 0 {
		c.body = newH2body(startUpload(req), now)
	} else {
		c.sent = now
	}
	return c
}

// start sends the request and waits for the final head.
func (c *h2call) start() error {
	c.run, c.cut = context.WithCancelCause(context.Background())
	r := c.request()
	c.mu.Lock()
	first := watchAfter
	if by := c.req.HeadBy; !by.IsZero() {
		first = min(first, time.Until(by))
	}
	c.timer = time.AfterFunc(first, c.tick)
	c.mu.Unlock()
	resp, err := c.conn.roundTrip(r)
	c.endHints()
	if err != nil && context.Cause(c.run) == nil && c.isGRPC() && cancelled(err) {
		resp, err = cancelledCall(), nil
	}
	if err != nil {
		return c.headError(err)
	}
	c.resp = resp
	if code, _, _ := strings.Cut(resp.Status, " "); code != "" && (len(code) != 3 || resp.StatusCode < 200 || resp.StatusCode > 599) {
		return exchange.Fail(502, "upstream_transport", "%s: status %q", c.addr(), code) // RFC 9110 section 15
	}
	if cause := context.Cause(c.run); cause != nil {
		return cause // the head came too late
	}
	n := len(resp.Trailer)
	for _, values := range resp.Header {
		n += len(values)
	}
	if n > maxFields {
		return exchange.Fail(502, "response_head_too_large", "%s: more than %d fields", c.addr(), maxFields)
	}
	if c.body != nil {
		c.body.up.settle()
	}
	c.accept()
	c.conn.served.Store(true)
	return nil
}

// isGRPC reports whether the call is one of gRPC.
func (c *h2call) isGRPC() bool {
	t := c.req.Fields.Get("Content-Type")
	return t == "application/grpc" || strings.HasPrefix(t, "application/grpc+") || strings.HasPrefix(t, "application/grpc;")
}

// grpcCancelled is the status by which a gRPC client knows a stream that its peer
// has ended by CANCEL. Servers do so when the deadline of a call is over; any other
// answer of ours would be an error of another kind to the client.
const grpcCancelled = "1"

// cancelledCall is the answer of trailers only to a cancelled call.
func cancelledCall() *http.Response {
	return &http.Response{StatusCode: 200, Body: http.NoBody,
		Header: http.Header{"Content-Type": {"application/grpc"}, "Grpc-Status": {grpcCancelled}}}
}

func (c *h2call) addr() string { return c.client.target.Address }

// request is the call as the library takes it.
func (c *h2call) request() *http.Request {
	host := c.req.Host
	if host == "" {
		host = c.addr() // R-HDR-6
	}
	u := &url.URL{Scheme: "http", Host: host, Opaque: c.req.URI} // Opaque goes out as it is
	if c.client.tls != nil {
		u.Scheme = "https"
	}
	if strings.HasPrefix(c.req.URI, "//") {
		u.Opaque = "//" + host + c.req.URI // which the library would take for the host
	}
	h := make(http.Header, c.req.Fields.Len()+2)
	addFields(h, c.req.Fields)
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // none of the library's own
	}
	if c.req.TakesTrailers {
		h["Te"] = []string{"trailers"} // R-HDR-1, RFC 9113 §8.2.2
	}
	r := &http.Request{Method: c.req.Method, URL: u, Host: host, Header: h}
	trace := &httptrace.ClientTrace{Got1xxResponse: c.got1xx}
	if c.body != nil {
		r.Body, r.ContentLength = c.body, c.req.Length
		trace.WroteRequest = c.wroteRequest
		if c.req.Length < 0 && c.req.Trailers != nil {
			r.Trailer = announced(h)
			c.body.trailer = r.Trailer
		}
	}
	delete(h, "Trailer")
	return r.WithContext(httptrace.WithClientTrace(c.run, trace))
}

// announced makes the trailers that h announces, to be filled when they are known.
// It is not nil: trailers may come that nobody has announced (R-UP-6).
func announced(h http.Header) http.Header {
	t := http.Header{}
	for _, line := range h["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" && trailerAllowed(name) {
				t[canonical(name)] = nil
			}
		}
	}
	return t
}

func canonical(name string) string { return http.CanonicalHeaderKey(name) }

// tick looks after a call that takes long: from 50 ms on it watches for its client
// (R-STREAM-5), and until the head is in, for deadlines. Later nothing is late but
// the body of a call with an IdleTimeout: either side may be silent on a stream of
// both directions, and a connection that is dead does not answer the PING.
func (c *h2call) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if c.unwatch == nil {
		c.unwatch = context.AfterFunc(c.ctx, c.abandon)
	}
	by := c.idleBy
	if !c.gotHead {
		by = c.due()
	}
	if by.IsZero() {
		return
	}
	if ahead := time.Until(by); ahead > 0 {
		c.timer.Reset(ahead)
		return
	}
	c.cut(c.tooLate())
}

// due is when what the call waits for is late: progress of the upload (R-TMO-3),
// then the head (R-TMO-2), both at HeadBy (R-TMO-4). c.mu is held.
func (c *h2call) due() time.Time {
	by := c.sent.Add(c.headTimeout())
	if c.sent.IsZero() {
		by = c.body.progress().Add(c.client.target.BodyTimeout)
	}
	if bound := c.req.HeadBy; !bound.IsZero() && bound.Before(by) {
		return bound
	}
	return by
}

// tooLate is the error of a call that is late. c.mu is held.
func (c *h2call) tooLate() error {
	stall, bound := c.client.target.BodyTimeout, c.req.HeadBy
	late := !bound.IsZero() && !time.Now().Before(bound)
	switch {
	case c.gotHead:
		return exchange.Fail(504, "response_error", "%s: no body byte for %v", c.addr(), c.req.IdleTimeout)
	case late && c.sent.IsZero() && c.body.stage.Load() == pumpReading: // the peer has not had all of it
		return exchange.Fail(408, "request_stalled", "client did not send its body in the time of the attempt")
	case late:
		return exchange.Fail(504, "upstream_timeout", "%s: no reply head in the time of the attempt", c.addr())
	case !c.sent.IsZero():
		return exchange.Fail(504, "upstream_timeout", "%s: no reply head within %v", c.addr(), c.headTimeout())
	case c.body.stage.Load() == pumpReading:
		return exchange.Fail(408, "request_stalled", "client sent no body byte for %v", stall)
	}
	return exchange.Fail(504, "request_stalled", "%s took no body byte for %v", c.addr(), stall)
}

func (c *h2call) headTimeout() time.Duration {
	if c.req.HeadTimeout > 0 {
		return c.req.HeadTimeout // R-CTX-10
	}
	return c.client.target.HeadTimeout
}

// abandon runs when the client is gone.
func (c *h2call) abandon() { c.cut(clientGone(c.ctx)) }

// wroteRequest is a hook of the library: the request is sent, or will not be.
func (c *h2call) wroteRequest(httptrace.WroteRequestInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = time.Now()
	if c.unwatch != nil && !c.gotHead && !c.ended {
		c.timer.Reset(time.Until(c.due())) // else the first tick is still to come
	}
}

// got1xx is a hook of the library, on the goroutine that reads for all calls of
// the connection: a client that takes its hints slowly must not stop it. 100 and
// 102 are of this hop (R-UP-7).
func (c *h2call) got1xx(status int, h textproto.MIMEHeader) error {
	if c.interim++; c.interim > maxInterim {
		return errTooManyInterim
	}
	if status != 103 || len(h) > maxFields {
		return nil
	}
	f := &exchange.Fields{}
	fromHeader(f, http.Header(h))
	StripHops(f)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gotHead || c.req.Inform == nil { // in this order: the request may be somebody else's by now
		return nil
	}
	c.hints = append(c.hints, f)
	if c.passing == nil {
		c.passing = make(chan struct{})
		go c.passHints(c.passing)
	}
	return nil
}

// passHints gives the client its hints while the goroutine that serves the
// exchange waits for the head, and then for this one: the wire has one user.
func (c *h2call) passHints(done chan struct{}) {
	defer close(done)
	for {
		c.mu.Lock()
		if len(c.hints) == 0 {
			c.passing = nil
			c.mu.Unlock()
			return
		}
		f := c.hints[0]
		c.hints = c.hints[1:]
		c.mu.Unlock()
		if err := c.req.Inform(103, f); err != nil {
			c.cut(fmt.Errorf("%w: %v", exchange.ErrClientGone, err))
		}
	}
}

// endHints ends the wait for a head: no further hint is taken, and those that are
// at hand have been passed on when it returns.
func (c *h2call) endHints() {
	c.mu.Lock()
	c.gotHead = true
	passing := c.passing
	c.mu.Unlock()
	if passing != nil {
		<-passing
	}
}

// headError says what a missing head means.
func (c *h2call) headError(err error) error {
	if cause := context.Cause(c.run); cause != nil {
		return cause
	}
	if c.ctx.Err() != nil {
		return clientGone(c.ctx)
	}
	if c.body != nil {
		if failed := c.body.failed(); failed != nil {
			return failed
		}
	}
	tooLarge, _, cause := ofStream(err)
	if tooLarge {
		return exchange.Fail(502, "response_head_too_large", "%s: %v", c.addr(), cause)
	}
	return &exchange.Error{Status: 502, Reason: "upstream_transport", Err: &h2Error{c.addr(), err, cause}}
}

// h2Error is a failure of the connection or of the stream. What the library said
// decides if the call can go elsewhere; cause is for people and for metrics.
type h2Error struct {
	addr       string
	err, cause error
}

func (e *h2Error) Error() string { return "read reply of " + e.addr + ": " + e.cause.Error() }

// Unwrap returns the cause.
func (e *h2Error) Unwrap() error { return e.cause }

// unread reports whether the peer has not looked at the call, which failed with
// err, and all of its body can be had again.
func (c *h2call) unread(err error) bool {
	e, ok := errors.AsType[*h2Error](err)
	if !ok || !unprocessed(e.err) {
		return false
	}
	if c.body == nil {
		return true
	}
	c.body.detach()
	_, whole := c.body.up.left()
	return whole
}

// replayable reports whether the call, which failed with err, may be made again:
// a connection that had served before broke before a byte of an answer, the
// request has no body, its method is idempotent (R-POOL-4), and the caller allows
// it (R-RETRY-7).
func (c *h2call) replayable(err error) bool {
	e, ok := errors.AsType[*h2Error](err)
	if !ok || c.req.NoReplay || !c.conn.served.Load() || c.interim > 0 || c.body != nil || !idempotent(c.req.Method) {
		return false
	}
	_, stream, _ := ofStream(e.err)
	return !stream
}

// accept takes the final head over into the reply.
func (c *h2call) accept() {
	r := c.resp
	c.fields = replyFields.Get().(*exchange.Fields)
	fromHeader(c.fields, r.Header)
	StripHops(c.fields)
	var names []string // of announced trailers
	for name := range r.Trailer {
		if trailerAllowed(name) {
			names = append(names, name)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		c.fields.Add("Trailer", strings.Join(names, ", "))
	}
	c.reply = Reply{Status: r.StatusCode, Fields: *c.fields, Length: r.ContentLength,
		Body: c, Trailers: c.trailers, Done: c.close}
	if r.ContentLength != 0 && c.req.Method != "HEAD" {
		if len(names) > 0 || c.req.TakesTrailers {
			c.reply.Length = -1 // HTTP/1 has no trailers behind a declared length
		}
		// What has arrived is not to be had from the library: any read may
		// wait. A reply without a body does not; its head and its end go out
		// together, by which a gRPC client knows it for an answer of trailers
		// only.
		c.reply.Buffered = mayWait
	}
}

func mayWait() int { return 0 }

var replyFields = sync.Pool{New: func() any { return new(exchange.Fields) }}

// fromHeader adds h to f in the order of names, without Content-Length.
func fromHeader(f *exchange.Fields, h http.Header) {
	var room [32]string
	names := room[:0]
	for name := range h {
		if name != "Content-Length" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range h[name] {
			f.Add(name, value)
		}
	}
}

// trailers returns the trailers of the reply, announced or not (R-UP-6).
func (c *h2call) trailers() *exchange.Fields {
	f := &exchange.Fields{}
	fromHeader(f, c.resp.Trailer)
	if StripTrailers(f); f.Len() == 0 {
		return nil
	}
	return f
}

// Cut ends the reply from any goroutine: reads of its body fail. It is called before
// Close.
func (c *h2call) Cut() { c.cut(errReplyCut) }

var errReplyCut = errors.New("reply cut")

// Read reads the reply's body.
func (c *h2call) Read(p []byte) (int, error) {
	if idle := c.req.IdleTimeout; idle > 0 {
		c.awaitBody(idle)
		defer c.awaitBody(0)
	}
	n, err := c.resp.Body.Read(p)
	switch {
	case err == nil:
	case err == io.EOF:
		c.read = true
	case context.Cause(c.run) != nil:
		err = context.Cause(c.run)
	case c.body != nil && c.body.failed() != nil:
		err = c.body.failed()
	case c.isGRPC() && cancelled(err):
		c.resp.Trailer = http.Header{"Grpc-Status": {grpcCancelled}}
		err = io.EOF // the stream itself is over; c.read stays false
	default:
		_, _, err = ofStream(err)
	}
	return n, err
}

// awaitBody lets a read wait for so long (R-TMO-5); 0: none waits.
func (c *h2call) awaitBody(idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if idle == 0 || c.ended {
		c.idleBy = time.Time{}
		return
	}
	c.idleBy = time.Now().Add(idle)
	if c.unwatch == nil { // the first tick is still to come
		idle = min(idle, watchAfter)
	}
	c.timer.Reset(idle)
}

// drop ends a call that has no reply.
func (c *h2call) drop() {
	c.finish(false)
	c.client.leave(c.conn)
}

// close is Reply.Done. A stream of which a side is unfinished is reset.
func (c *h2call) close() error {
	if c.fields == nil {
		return nil
	}
	c.finish(c.read)
	c.req.Close()
	c.client.leave(c.conn)
	c.client.permits.Release()
	*c.fields = c.reply.Fields // its memory may have grown
	c.fields.Reset()
	replyFields.Put(c.fields)
	c.fields = nil
	return nil
}

// finish joins what the call started. read tells that the reply has ended.
func (c *h2call) finish(read bool) {
	c.mu.Lock()
	c.ended = true
	c.timer.Stop()
	unwatch := c.unwatch
	c.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
	if c.body != nil && !c.body.detach() || !read {
		// The library does not wait for a stream that was cut; it might have
		// to wait for a peer that reads nothing.
		c.cut(errUploadEnded)
	}
	if c.resp != nil {
		c.resp.Body.Close()
	}
	c.cut(errUploadEnded)
}
