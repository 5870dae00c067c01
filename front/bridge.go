package front

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"httpjet/exchange"
	"httpjet/h1"
)

// bridge turns requests of servers of package http3 into exchanges, and those of
// net/http's own HTTP/1 and HTTP/2, the oracles of tests. For HTTP/3 there is one bridge
// for each connection, which joins the handlers of its streams.
//
// What net/http decides stays with it: framing, Date, the 100, flow control, and
// the malformed requests that never get here (pseudo-header fields, a Host that
// differs from :authority, lengths that do not match).
type bridge struct {
	srv     *Server
	c       *conn          // nil if net/http owns the connection
	name    string         // of the listener, then
	running sync.WaitGroup // handlers
}

// Bridge returns a handler that serves the current site from any net/http
// server, as requests to the listener of that name.
func (s *Server) Bridge(listener string) http.Handler { return &bridge{srv: s, name: listener} }

func (b *bridge) site() Site {
	if b.c != nil {
		return b.c.lis.site()
	}
	return b.srv.Current()
}

// ServeHTTP serves one exchange.
func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.running.Add(1)
	defer b.running.Done()
	site := b.site()
	bw := &bridgeWire{b: b, w: w, r: r, rc: http.NewResponseController(w), lim: site.Limits(), now: time.Now()}
	bw.x.Reset(bw)
	bw.fill()
	if r.ProtoMajor == 1 {
		bw.rc.EnableFullDuplex()            // handlers may answer while they read; not to be able to is no error
		bw.rc.SetWriteDeadline(time.Time{}) // of the request before
	}
	switch r.ProtoMajor {
	case 3:
		b.srv.http3.Add(1)
	case 2:
		b.srv.http2.Add(1)
	default:
		b.srv.http11.Add(1)
	}
	var handler exchange.Handler = site
	var err error
	if bw.isConnect3() {
		err = bw.connect()
	}
	if err == nil {
		err = bw.check()
	}
	admitted := false
	if err != nil {
		b.srv.refused.Add(1)
	} else {
		if place, _ := b.srv.inFlight.take(); place != nil {
			err = b.srv.queue(r.Context(), place, bw.lim.connTimeout())
			bw.x.Called = time.Now()
		}
		admitted = err == nil
	}
	if err != nil {
		handler = answerWith(err)
	}
	if t := bw.tunnel; t != nil {
		err = t.serve(handler)
	} else {
		err = b.srv.run(&bw.x, handler, bw)
	}
	if admitted && !bw.x.Upgraded() {
		defer b.srv.inFlight.release()
	}
	bw.lastWrite()
	b.srv.finished(site, &bw.x, err)
	if r.ProtoMajor == 1 {
		// What is left of the body is read here. net/http would do so after it has
		// called off its watch for the next request, which the end of the body then
		// starts again: with full duplex the next request meets a second reader, and
		// a panic ("invalid concurrent Body.Read call") ends the connection.
		r.Body.Close()
	}
	if bw.aborted {
		panic(http.ErrAbortHandler) // RST_STREAM, or the connection closed
	}
}

// bridgeWire is a Wire over a ResponseWriter. It cannot upgrade (h3Tunnel can), and does
// not send files by itself. It is not pooled: a goroutine that calls StopRead too
// late must not meet the request of somebody else.
type bridgeWire struct {
	b   *bridge
	w   http.ResponseWriter
	r   *http.Request
	rc  *http.ResponseController
	x   exchange.Exchange
	lim *Limits
	now time.Time

	bodyRead bool
	stopped  atomic.Bool
	duplex   atomic.Bool // the head is sent: the client may take its time with the rest of the body
	readBy   time.Time
	trailers exchange.Fields

	tunnel *h3Tunnel // of an extended CONNECT over HTTP/3; else nil

	started bool
	bounded bool
	left    int64 // bytes of the announced length not yet written
	aborted bool
	stall   *time.Timer // fails a write that takes too long; nil before the first

	mu       sync.Mutex
	returned bool // ServeHTTP has, or is about to
}

// fill sets x.Req from the request. The order of fields is lost on the way
// through net/http; they are sorted, so that it is at least always the same.
func (w *bridgeWire) fill() {
	r, q := w.r, &w.x.Req
	id := newID()
	q.ID, q.Method, q.Host, q.Length = string(id[:]), r.Method, r.Host, r.ContentLength
	q.Proto, q.Scheme, q.TLS = r.Proto, "http", r.TLS
	switch r.ProtoMajor {
	case 2:
		q.Proto = "HTTP/2.0"
	case 3:
		q.Proto = "HTTP/3.0" // else the protocol of an extended CONNECT
	}
	if w.b.c != nil {
		q.TLS = w.b.c.tls // net/http believes :scheme, which is the client's word
	}
	if q.TLS != nil {
		q.Scheme = "https"
	}
	q.Target = r.RequestURI
	// Absolute form, which net/http has compared with Host.
	if r.Method != "CONNECT" && q.Target != "*" && !strings.HasPrefix(q.Target, "/") {
		q.Target = r.URL.RequestURI()
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if name == "Content-Length" || name == "Host" || name == "Transfer-Encoding" {
			continue
		}
		for _, value := range r.Header[name] {
			q.Fields.Add(name, strings.Trim(value, " \t")) // HTTP/2 does not (RFC 9113 §8.2.1)
		}
	}
	if len(r.Trailer) > 0 { // net/http takes the announcement out of the fields
		q.Fields.Add("Trailer", strings.Join(slices.Sorted(maps.Keys(r.Trailer)), ", "))
	}
	q.Listener = w.b.name
	if c := w.b.c; c != nil {
		q.Listener, q.Remote, q.Local = c.lis.Name(), c.remote, c.local
		if c.h3 != nil { // the client may have moved since (RFC 9000 section 9)
			q.Remote = udpAddrPort(c.h3.qc.RemoteAddr())
		}
	} else {
		q.Remote, _ = netip.ParseAddrPort(r.RemoteAddr)
		if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			q.Local = addrPort(a)
		}
	}
	q.Client = q.Remote.Addr()
	w.x.Began, w.x.Called = w.now, w.now
}

// check applies what the HTTP/1 parser checks too, and net/http does not.
func (w *bridgeWire) check() error {
	q := &w.x.Req
	if se, ok := errors.AsType[*h1.SyntaxError](h1.CheckMethod(q.Method)); ok {
		return refusal(se)
	}
	switch {
	case !lengthHolds(w.r):
		return refusal(&h1.SyntaxError{Status: 400, Msg: "body and Content-Length differ"})
	case len(q.Target) > w.lim.maxTarget():
		return refusal(&h1.SyntaxError{Status: 414, Msg: "target too long"})
	case q.Fields.Len() > w.lim.maxFields():
		return refusal(&h1.SyntaxError{Status: 431, Msg: "too many fields"})
	case headSize(q) > w.lim.maxHead():
		return refusal(&h1.SyntaxError{Status: 431, Msg: "head too large"})
	case !h1.ValidHost(q.Host):
		return refusal(&h1.SyntaxError{Status: 400, Msg: "malformed host"})
	case q.Method == "CONNECT" || q.Target == "*" && q.Method == "OPTIONS":
		return nil
	case !h1.ValidTarget(q.Target):
		return refusal(&h1.SyntaxError{Status: 400, Msg: "malformed target"})
	}
	return nil
}

// headSize is how many bytes the head of q has in HTTP/1.
func headSize(q *exchange.Request) int {
	n := len(q.Method) + len(q.Target) + len(" HTTP/1.1\r\nHost: \r\n\r\n") + 1 + len(q.Host)
	for name, value := range q.Fields.All() {
		n += len(name) + len(value) + len(": \r\n")
	}
	return n
}

// lengthHolds reports whether an HTTP/2 request declares one length at most, and
// the one that its body has as far as that is known (RFC 9113 §8.1.1). The library
// takes the first of several, and none for one that it cannot read.
func lengthHolds(r *http.Request) bool {
	declared := r.Header["Content-Length"]
	if r.ProtoMajor != 2 || len(declared) == 0 {
		return true
	}
	n, err := strconv.ParseUint(declared[0], 10, 63)
	return len(declared) == 1 && err == nil && int64(n) == r.ContentLength
}

// Read reads the request body; net/http sends the 100 with the first call.
func (w *bridgeWire) Read(p []byte) (int, error) {
	if by := time.Now().Add(w.lim.connTimeout()); !w.duplex.Load() && w.readBy.Before(by) {
		w.readBy = by.Add(slack)
		w.rc.SetReadDeadline(w.readBy)
		if w.duplex.Load() { // since just now
			w.rc.SetReadDeadline(time.Time{})
		}
	}
	if w.stopped.Load() { // see h1conn.Read: StopRead may have come in between
		w.rc.SetReadDeadline(time.Unix(1, 0))
		return 0, errStopped
	}
	n, err := w.r.Body.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		w.bodyRead = true
	case w.stopped.Load():
		err = errStopped
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = &exchange.Error{Status: 408, Reason: "request_stalled", Err: err, Close: true}
	case w.endedShort(err):
		err = refusal(&h1.SyntaxError{Status: 400, Msg: err.Error()})
	default:
		err = clientFailed(err)
	}
	return n, err
}

// endedShort reports whether err, of a read of the body, is that an HTTP/2 stream
// ended before its declared length. The library has no name for it; but the
// client is there, which it is not after any other failure.
func (w *bridgeWire) endedShort(err error) bool {
	_, reset := errors.AsType[http2.StreamError](err)
	if w.r.ProtoMajor == 3 {
		return errors.Is(err, io.ErrUnexpectedEOF)
	}
	return w.r.ProtoMajor == 2 && !reset && w.r.Context().Err() == nil
}

// Trailers returns the trailers of the request.
func (w *bridgeWire) Trailers() *exchange.Fields {
	if !w.bodyRead || len(w.r.Trailer) == 0 {
		return nil
	}
	w.trailers.Reset()
	for _, name := range slices.Sorted(maps.Keys(w.r.Trailer)) {
		for _, value := range w.r.Trailer[name] {
			w.trailers.Add(name, value)
		}
	}
	if w.trailers.Len() == 0 {
		return nil
	}
	return &w.trailers
}

// StopRead makes pending and later reads of the body fail.
func (w *bridgeWire) StopRead() {
	w.stopped.Store(true)
	w.rc.SetReadDeadline(time.Unix(1, 0))
}

// Context ends with the stream.
func (w *bridgeWire) Context() context.Context { return w.r.Context() }

// Head hands a head to net/http.
func (w *bridgeWire) Head(r *exchange.Response, noBody, last bool) error {
	h := w.w.Header()
	if !last {
		w.setFields(h, &r.Fields)
		w.writing()
		w.w.WriteHeader(r.Status)
		w.written()
		clear(h) // the fields of a hint are not those of the answer
		return nil
	}
	w.started = true
	w.setFields(h, &r.Fields)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // no guessing
	}
	if d := r.Fields.Get("Date"); r.Dated && h1.ValidValue(d) {
		h["Date"] = []string{d}
	}
	if w.lim.ServerHeader != "" {
		h["Server"] = []string{w.lim.ServerHeader}
	}
	if w.r.ProtoMajor == 1 && r.Fields.HasToken("Connection", "close") || w.r.ProtoMajor == 2 && w.b.c != nil && w.b.c.closing() {
		h["Connection"] = []string{"close"} // becomes GOAWAY on HTTP/2
	}
	if r.Length > 0 || r.Length == 0 && r.Status != 304 { // as in h1conn.Head
		h["Content-Length"] = []string{strconv.FormatInt(r.Length, 10)}
		w.bounded, w.left = !noBody, r.Length
	}
	w.w.WriteHeader(r.Status)
	if w.r.ProtoMajor >= 2 && w.r.ContentLength != 0 {
		w.openEnd()
	}
	return nil
}

// openEnd takes the deadline from the rest of the request body. A stream that is
// answered while it is open is one of messages both ways (gRPC), on which silence
// is no fault; what slow uploads hold up is the answer, and that is there.
func (w *bridgeWire) openEnd() {
	w.duplex.Store(true)
	w.rc.SetReadDeadline(time.Time{})
	if w.stopped.Load() { // see Read
		w.rc.SetReadDeadline(time.Unix(1, 0))
	}
}

// setFields copies what may be sent and does not belong to the connection.
func (w *bridgeWire) setFields(h http.Header, f *exchange.Fields) {
	for name, value := range f.All() {
		key := http.CanonicalHeaderKey(name)
		switch key {
		case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade",
			"Content-Length", "Date", "Server":
			continue
		}
		if h1.ValidToken(name) && h1.ValidValue(value) {
			h[key] = append(h[key], value)
		}
	}
}

// writing bounds the write that follows, until written. The deadlines of package
// http2 are no use here: they reset a stream also while nothing is written, and an
// answer may pause for any time.
func (w *bridgeWire) writing() {
	if w.stall == nil {
		w.stall = time.AfterFunc(w.lim.connTimeout(), w.failWrite)
	} else {
		w.stall.Reset(w.lim.connTimeout())
	}
}

func (w *bridgeWire) written() { w.stall.Stop() }

// failWrite makes the write that is under way fail, if ServeHTTP still runs: later,
// w.rc belongs to net/http.
func (w *bridgeWire) failWrite() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.returned {
		w.rc.SetWriteDeadline(time.Unix(1, 0))
	}
}

// lastWrite bounds what net/http writes once ServeHTTP has returned.
func (w *bridgeWire) lastWrite() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.returned = true
	w.rc.SetWriteDeadline(time.Now().Add(w.lim.connTimeout()))
}

// Write writes body bytes, never more than the announced length: a client that
// counts would read the rest as the next response.
func (w *bridgeWire) Write(p []byte) (int, error) {
	n := len(p)
	if w.bounded && int64(n) > w.left {
		n = int(w.left)
	}
	sent := 0
	for sent < n {
		w.writing() // pieces, because each write has one deadline
		m, err := w.w.Write(p[sent:min(n, sent+64<<10)])
		w.written()
		sent += m
		w.left -= int64(m)
		if err != nil {
			return sent, clientFailed(err)
		}
	}
	if n < len(p) {
		return n, errLong
	}
	return n, nil
}

// Flush sends all bytes so far.
func (w *bridgeWire) Flush() error {
	w.writing()
	err := w.rc.Flush()
	w.written()
	if err != nil {
		return clientFailed(err)
	}
	return nil
}

// End sets the trailers, by net/http's way for names that are known late, which
// works for announced ones as well. net/http completes the body when ServeHTTP returns.
func (w *bridgeWire) End(trailers *exchange.Fields) error {
	if w.bounded && w.left > 0 {
		w.Abort(errShort)
		return errShort
	}
	h := w.w.Header()
	for name, value := range trailers.All() {
		if h1.ValidToken(name) && h1.ValidValue(value) {
			key := http.TrailerPrefix + http.CanonicalHeaderKey(name)
			h[key] = append(h[key], value)
		}
	}
	return nil
}

// Abort makes ServeHTTP cut the response. It does not panic itself: that would
// pass through Run and the handler's frames, and count as a bug.
func (w *bridgeWire) Abort(cause error) {
	if w.started && !w.aborted && !errors.Is(cause, exchange.ErrClientGone) {
		w.Flush() // what was sent before the cut is seen
	}
	w.aborted = true
}
