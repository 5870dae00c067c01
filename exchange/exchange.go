// Package exchange defines one HTTP request and its response, whatever
// protocol version carries them: the contract between front ends, filters and
// handlers. It knows no configuration, no socket and no upstream.
//
// A front end fills an Exchange over its Wire and calls Run. A handler reads
// x.Req and x.Body, sets x.Resp, calls Start, pushes body bytes with Write and
// returns when the last byte is handed to the wire. It returns an error instead
// of writing an error page; Run, and only Run, turns errors into bytes.
package exchange

import (
	"context"
	"io"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

// A Handler answers one exchange. It returns when the last response byte has
// been handed to the wire. A returned error becomes a status if the head is not
// sent yet, and cuts the response if it is.
type Handler interface {
	Serve(x *Exchange) error
}

// HandlerFunc lets a function be a Handler.
type HandlerFunc func(x *Exchange) error

// Serve calls f.
func (f HandlerFunc) Serve(x *Exchange) error { return f(x) }

// An Authorizer decides whether an exchange may go on, by asking somebody else. It
// is comparable.
type Authorizer interface {
	// Admit reports whether x may go on. If it may not and there is no error, x has
	// got its answer.
	Admit(x *Exchange) (bool, error)
}

// Exchange is one request and its response. It belongs to the goroutine that
// serves it.
type Exchange struct {
	Req      Request
	Resp     Response
	Route    Route
	Resource Resource
	Attempts Attempts

	Began  time.Time // when the head was complete
	Called time.Time // when Run was called, see Recent

	// Crowded says that so many exchanges were being served when this one began that
	// others probably wait for the processor. Who is about to send lets them run first
	// (runtime.Gosched): what many have made goes out one after the other, and the
	// system calls do not drive the code of handlers from the caches between them.
	Crowded bool
	Ended   time.Time // when the last byte was handed to the wire, or it failed; the front end sets it

	// Trailers are sent behind the response body where the wire can carry them.
	// Their names must be announced in Resp.Fields before Start.
	Trailers Fields

	// Env holds the variables that rewrite rules have set, each once.
	Env []Field

	// PHP holds the settings by which PHP runs the script of the exchange, each once.
	// The list is shared, and never written to.
	PHP []Setting

	// Pace is called after n bytes of the request body have been read and before the
	// next are, and may wait; its error is that of the read. nil: nobody waits.
	Pace func(n int) error

	// Admitted holds the authorizers that have let x in; each is asked once.
	Admitted []Authorizer

	// EchoID makes the response carry the request id as X-Request-Id (R-PIPE-11).
	EchoID bool

	// AltSvc is the value of Alt-Svc in the answer, unless it has one (RFC 7838); "": none.
	AltSvc string

	// HideReason keeps X-Httpjet-Proxy-Error from answers (R-HDR-8).
	HideReason bool

	// Failed says that the answer is the server's own to an error.
	Failed bool

	// Steered says that a page cache takes part in the answer: the filter that set it
	// reads the fields by which a local application steers it, and takes them off.
	// Where it is false, and in answers to errors, the handler takes them off.
	Steered bool

	// TraceID is the id of the trace that x is part of, as logs tell it; "": none is known.
	TraceID string

	// Trace is the place of x in it where spans are made, nil elsewhere. Timeline is nil
	// unless somebody wants to know what becomes of x.
	Trace    *Trace
	Timeline *Timeline

	// Background says that the server asks for itself (NewBackground): no client waits,
	// none is to be limited or counted.
	Background bool

	// Kept is set right before Start by a cache that is about to send a whole body. Who
	// sends a copy of it in a coding sets Copied: the cache may leave the body out then,
	// and what it writes is dropped.
	Kept   Kept
	Copied bool

	// ClientText of the last exchange on the connection, and for which address.
	clientText string
	textOf     netip.Addr

	failure     *Error       // whose page is the answer; nil: none
	explanation *Explanation // nil: nobody wants to know

	wire     Wire
	filters  []Filter
	sink     Sink
	end      wireSink
	limit    int64 // largest request body in bytes, -1: no limit
	read     int64 // request body bytes read
	written  int64 // response body bytes handed to the wire
	started  bool
	headHeld bool // started, but the wire does not have the head yet
	noBody   bool
	upgraded bool
	detached Tunnel
}

// Reset prepares x for the next request on w. Field lists keep their memory.
func (x *Exchange) Reset(w Wire) {
	req, resp := x.Req.Fields, x.Resp.Fields
	req.Reset()
	resp.Reset()
	x.Trailers.Reset()
	x.Req, x.Resp = Request{Fields: req}, Response{Fields: resp, Length: -1}
	x.Route, x.Resource, x.Attempts = Route{}, Resource{}, Attempts{}
	x.Began, x.Called, x.Ended = time.Time{}, time.Time{}, time.Time{}
	x.Env, x.PHP, x.Admitted = x.Env[:0], nil, nil
	x.AltSvc, x.TraceID, x.Trace, x.Timeline = "", "", nil, nil
	x.Kept, x.Copied = nil, false
	x.EchoID, x.HideReason, x.Crowded, x.Failed, x.Steered, x.Background = false, false, false, false, false, false
	x.explanation, x.detached, x.failure, x.Pace = nil, nil, nil, nil
	x.wire, x.filters, x.sink, x.end = w, x.filters[:0], nil, wireSink{x}
	x.limit, x.read, x.written = -1, 0, 0
	x.started, x.headHeld, x.noBody, x.upgraded = false, false, false, false
}

// Rewire makes w the wire of an exchange that has not begun.
func (x *Exchange) Rewire(w Wire) {
	if x.started {
		panic("BUG: exchange: another wire behind the head")
	}
	x.wire = w
}

// MayWait is called by who serves x before it may wait for anything but the wire: an
// upstream, a rate, a slow computation. A wire whose goroutine serves other exchanges as
// well leaves it to x then. Who does not call it makes them wait a little (10 ms).
func (x *Exchange) MayWait() {
	if w, ok := x.wire.(Waiter); ok {
		w.MayWait()
	}
}

// Context is done soon after the client is gone, or when the server cuts the
// exchange at the end of its drain.
func (x *Exchange) Context() context.Context { return x.wire.Context() }

// ClientText returns Req.Client as text, without its zone; "" if it is not known.
// The text is made again only when the client of the connection changes.
func (x *Exchange) ClientText() string {
	if a := x.Req.Client; a != x.textOf {
		x.textOf, x.clientText = a, ""
		if a.IsValid() {
			x.clientText = a.Unmap().WithZone("").String()
		}
	}
	return x.clientText
}

// Recent returns a time not later than now and not much earlier: that of the call of
// Run, if the front end has told it.
func (x *Exchange) Recent() time.Time {
	if x.Called.IsZero() {
		return time.Now()
	}
	return x.Called
}

// Started reports whether the response head has been sent.
func (x *Exchange) Started() bool { return x.started }

// Written returns the number of response body bytes handed to the wire.
func (x *Exchange) Written() int64 { return x.written }

// BodyRead returns the number of request body bytes read so far.
func (x *Exchange) BodyRead() int64 { return x.read }

// Upgraded reports whether Upgrade has taken the connection over.
func (x *Exchange) Upgraded() bool { return x.upgraded }

// LimitBody bounds the request body to n bytes. A declared length above it is
// an error at once; a longer undeclared body fails the Read that exceeds it.
// Either error is 413 request_body_too_large (R-PIPE-4, R-CTX-9).
func (x *Exchange) LimitBody(n int64) error {
	x.limit = n
	if x.Req.Length > n {
		return tooLarge(n)
	}
	return nil
}

// Body reads the request body. It has one reader at a time.
func (x *Exchange) Body() io.Reader { return body{x} }

type body struct{ x *Exchange }

func (b body) Read(p []byte) (int, error) {
	x := b.x
	if x.Req.Length == 0 {
		return 0, io.EOF
	}
	n, err := x.wire.Read(p)
	x.read += int64(n)
	if x.limit >= 0 && x.read > x.limit {
		return 0, tooLarge(x.limit)
	}
	if x.Pace != nil && n > 0 {
		if e := x.Pace(n); e != nil {
			return 0, e
		}
	}
	return n, err
}

// BodyTrailers returns the trailers of the request once Body has returned
// io.EOF; nil if there are none.
func (x *Exchange) BodyTrailers() *Fields { return x.wire.Trailers() }

// StopBody makes a pending and every later read of the request body fail, so
// that a goroutine reading it can be joined. Any goroutine may call it.
func (x *Exchange) StopBody() { x.wire.StopRead() }

// Use adds a response filter. The last one added is nearest to the handler.
func (x *Exchange) Use(f Filter) {
	if x.started {
		panic("BUG: exchange: filter added after Start")
	}
	x.filters = append(x.filters, f)
}

// UseAtWire adds a response filter on the side of the wire: behind its head no other
// filter has a say, and it sees the body as it leaves.
func (x *Exchange) UseAtWire(f Filter) {
	if x.started {
		panic("BUG: exchange: filter added after Start")
	}
	x.filters = slices.Insert(x.filters, 0, f)
}

// HoldHead is for a filter that decides by the first bytes of the body what the head
// says: called from its Head, which wants the body, it keeps the head from the wire
// until the filter's sink calls SendHead, before it passes anything on. An answer
// without a body has its head sent at once. One filter of an exchange may do so.
func (x *Exchange) HoldHead() { x.headHeld = true }

// SendHead sends the head that HoldHead has kept, if it is not sent.
func (x *Exchange) SendHead() error {
	if !x.headHeld {
		return nil
	}
	x.headHeld = false
	return x.wire.Head(&x.Resp, x.noBody, true)
}

// Inform sends an interim response: status is 100 to 199 but not 101. Wires
// that cannot carry it drop it.
func (x *Exchange) Inform(status int, f *Fields) error {
	if x.started || status < 100 || status > 199 || status == 101 {
		panic("BUG: exchange: interim response out of place")
	}
	r := Response{Status: status}
	if f != nil {
		r.Fields = *f
	}
	return x.wire.Head(&r, true, false)
}

// Start sends the response head. HEAD, 204 and 304 are handled here, once: the
// body that a handler then writes is dropped.
func (x *Exchange) Start(status int) error {
	if x.started {
		panic("BUG: exchange: Start called twice")
	}
	if len(x.filters) > 64 {
		panic("BUG: exchange: more than 64 filters")
	}
	if x.failure != nil {
		status = x.failure.Status // a page for it
	}
	x.Resp.Status = status
	var wants uint64
	for i := len(x.filters) - 1; i >= 0; i-- {
		if x.filters[i].Head(x) {
			wants |= 1 << i
		}
	}
	x.Kept = nil // an idle connection holds no entry of a cache
	status = x.Resp.Status
	if x.Says("nokeepalive") {
		x.Resp.Fields.Set("Connection", "close")
	}
	if x.EchoID {
		x.Resp.Fields.Set("X-Request-Id", x.Req.ID)
	}
	if x.AltSvc != "" && status != 421 && x.Resp.Fields.Get("Alt-Svc") == "" {
		x.Resp.Fields.Set("Alt-Svc", x.AltSvc)
	}
	if x.Timeline != nil {
		x.Timeline.begins(x)
	}
	x.noBody = x.Req.Method == "HEAD" || status == 204 || status == 304
	if status == 204 {
		x.Resp.Length = -1 // RFC 9110 §8.6: no Content-Length in a 204
	}
	x.sink = &x.end
	for i, f := range x.filters {
		if wants&(1<<i) != 0 && !x.noBody {
			x.sink = f.Wrap(x.sink)
		}
	}
	x.started = true
	if x.headHeld && !x.noBody {
		return nil
	}
	x.headHeld = false
	return x.wire.Head(&x.Resp, x.noBody, true)
}

// Write sends body bytes, starting a 200 response if none was started.
func (x *Exchange) Write(p []byte) (int, error) {
	if !x.started {
		if err := x.Start(200); err != nil {
			return 0, err
		}
	}
	if x.noBody {
		return len(p), nil
	}
	return x.sink.Write(p)
}

// Flush sends what filters and wire hold. It is a no-op before Start.
func (x *Exchange) Flush() error {
	if !x.started {
		return nil
	}
	x.Mark("flush", "")
	if x.noBody {
		return x.wire.Flush()
	}
	return x.sink.Flush()
}

// SendFile sends n bytes of f from offset off, by the wire's own means if no
// filter needs to see the bytes.
func (x *Exchange) SendFile(f *os.File, off, n int64) error {
	if !x.started {
		if err := x.Start(200); err != nil {
			return err
		}
	}
	if x.noBody {
		return nil
	}
	if fs, ok := x.wire.(FileSender); ok && x.sink == &x.end {
		m, err := fs.SendFile(f, off, n)
		x.written += m
		return err
	}
	buf := copyBufs.Get().(*[32 << 10]byte)
	defer copyBufs.Put(buf)
	m, err := io.CopyBuffer(struct{ io.Writer }{x.sink}, io.NewSectionReader(f, off, n), buf[:])
	if err == nil && m < n {
		return io.ErrUnexpectedEOF // the file shrank while it was sent
	}
	return err
}

// copyBufs holds memory for files that filters want to see.
var copyBufs = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// Room returns about how many body bytes Write takes now without waiting for the
// client, -1 if that is not known.
func (x *Exchange) Room() int {
	if r, ok := x.wire.(Roomer); ok && x.sink == &x.end {
		return r.Room()
	}
	return -1
}

// CanUpgrade reports whether the wire can hand its connection over.
func (x *Exchange) CanUpgrade() bool {
	_, ok := x.wire.(Upgrader)
	return ok
}

// Upgrade sends x.Resp as a 101 head and returns the raw connection. The
// handler closes it; nothing else of the exchange may be used afterwards.
func (x *Exchange) Upgrade() (Duplex, error) {
	up, ok := x.wire.(Upgrader)
	if !ok || x.started {
		panic("BUG: exchange: Upgrade out of place")
	}
	x.Resp.Status = 101
	if x.Timeline != nil {
		x.Timeline.begins(x)
	}
	x.started, x.upgraded, x.noBody = true, true, true
	x.sink = &x.end
	return up.Upgrade(&x.Resp)
}

// Detach leaves t behind: it goes on with the connection that Upgrade returned when
// the handler has returned nil. The exchange is finished after its end; x may be
// used until then, by t alone.
func (x *Exchange) Detach(t Tunnel) {
	if !x.upgraded {
		panic("BUG: exchange: Detach before Upgrade")
	}
	x.detached = t
}

// Detached returns what Detach has left behind, nil for nothing.
func (x *Exchange) Detached() Tunnel { return x.detached }

// CountUpgraded adds n to the bytes sent, for a handler that relayed raw bytes.
func (x *Exchange) CountUpgraded(n int64) { x.written += n }
