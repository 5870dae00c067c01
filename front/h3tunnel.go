package front

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"httpjet/exchange"
	"httpjet/h1"
)

// h3Tunnel is the Wire of an extended CONNECT over HTTP/3 (RFC 9220), which is for
// handlers what h2Tunnel is: the GET by which HTTP/1 opens a WebSocket.
type h3Tunnel struct {
	*bridgeWire
	duplex *h3Duplex // nil: it has not become a tunnel
	deaf   bool      // it was refused: what follows the head is for nobody
}

// isConnect3 reports whether a request is an extended CONNECT over HTTP/3, of which
// package http3 gives the :protocol as Proto.
func (w *bridgeWire) isConnect3() bool {
	return w.r.ProtoMajor == 3 && w.r.Method == "CONNECT" && w.r.Proto != "HTTP/3.0"
}

// connect makes the exchange of an extended CONNECT.
func (w *bridgeWire) connect() error {
	q := &w.x.Req
	if w.r.Proto != "websocket" {
		return &exchange.Error{Status: 501, Reason: "bad_request", Err: &h1.SyntaxError{Status: 501, Msg: "CONNECT for another protocol than websocket"}}
	}
	if len(w.r.Header["Content-Length"]) > 0 {
		return refusal(&h1.SyntaxError{Status: 400, Msg: "CONNECT with a Content-Length"})
	}
	w.tunnel = &h3Tunnel{bridgeWire: w}
	w.x.Rewire(w.tunnel)
	asUpgrade(q)
	return nil
}

// Head sends a head that does not make a tunnel: whatever it is, it is none, and the
// client must not read a body as its bytes.
func (t *h3Tunnel) Head(r *exchange.Response, noBody, last bool) error {
	if last {
		t.deaf, noBody, r.Length = true, true, -1
		if r.Status < 300 {
			r.Status = 501
			r.Fields.Reset()
		}
	}
	return t.bridgeWire.Head(r, noBody, last)
}

// Write drops the body of a refusal.
func (t *h3Tunnel) Write(p []byte) (int, error) {
	if t.deaf {
		return len(p), nil
	}
	return t.bridgeWire.Write(p)
}

// Upgrade answers with 200 in the place of the 101 and takes the stream. The permit is
// given back, as that of an HTTP/1 upgrade (R-LSN-9).
func (t *h3Tunnel) Upgrade(r *exchange.Response) (exchange.Duplex, error) {
	srv := t.b.srv
	srv.inFlight.release()
	srv.tunnels.Add(1)
	answer := exchange.Response{Status: 200, Length: -1, Fields: r.Fields}
	answer.Fields.Del("Sec-WebSocket-Accept")
	t.duplex = &h3Duplex{wait: t.lim.connTimeout()}
	if err := t.bridgeWire.Head(&answer, false, true); err != nil {
		return nil, err
	}
	streamer, ok := t.w.(http3.HTTPStreamer)
	if !ok {
		return nil, errors.New("the stream cannot be had")
	}
	s, err := streamer.HTTPStream()
	if err != nil {
		return nil, clientFailed(err)
	}
	t.rc.SetReadDeadline(time.Time{})
	t.duplex.s, t.duplex.conn = s, t.b.c.h3.qc
	return t.duplex, nil
}

// serve serves the exchange, and what it becomes.
func (t *h3Tunnel) serve(h exchange.Handler) error {
	err := t.b.srv.run(&t.x, h, t)
	if tun := t.x.Detached(); tun != nil {
		err = t.carry(tun, err)
	}
	if t.duplex != nil {
		t.end()
	}
	return err
}

// carry runs what an exchange has become. err is how its handler ended.
func (t *h3Tunnel) carry(tun exchange.Tunnel, err error) error {
	if err != nil {
		tun.Close()
	}
	// A client that wants no more bytes is noticed by the end of the context of the stream,
	// which our own end of the answer brings about too.
	defer context.AfterFunc(t.duplex.s.Context(), func() {
		if !t.duplex.ended() {
			tun.Close()
		}
	})()
	for {
		if _, resting := t.b.srv.runTunnel(&t.x, tun, t.duplex.cut, 0); !resting {
			break
		}
	}
	return tun.End()
}

// end gives up what is left of a stream that was taken; package http3 leaves it to us.
func (t *h3Tunnel) end() {
	t.b.srv.tunnels.Add(-1)
	if t.duplex.s != nil {
		t.duplex.Close()
	} else {
		t.aborted = true
	}
}

// h3Duplex is the stream as a tunnel.
type h3Duplex struct {
	s    *http3.Stream
	conn *quic.Conn
	wait time.Duration // for a client that does not take bytes

	mu      sync.Mutex // guards the fields below; held for no I/O
	sentEnd bool
	readEnd bool
	closed  bool
}

// Read reads what the client sends.
func (d *h3Duplex) Read(p []byte) (int, error) {
	n, err := d.s.Read(p)
	if errors.Is(err, io.EOF) {
		d.mu.Lock()
		d.readEnd = true
		d.mu.Unlock()
	}
	return n, err
}

// Write sends p as a DATA frame. It fails if the client takes nothing for a while.
func (d *h3Duplex) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		d.s.SetWriteDeadline(time.Now().Add(d.wait))
		n, err := d.s.Write(p[sent:min(len(p), sent+64<<10)])
		sent += n
		if err != nil {
			return sent, clientFailed(err)
		}
	}
	return sent, nil
}

// SetReadDeadline bounds reads.
func (d *h3Duplex) SetReadDeadline(t time.Time) error { return d.s.SetReadDeadline(t) }

// Broken reports whether the client has reset the stream or is gone.
func (d *h3Duplex) Broken() bool {
	return d.conn.Context().Err() != nil || !d.ended() && d.s.Context().Err() != nil
}

// ended reports whether we have ended what the client receives.
func (d *h3Duplex) ended() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sentEnd || d.closed
}

// CloseWrite ends what the client receives.
func (d *h3Duplex) CloseWrite() error {
	d.mu.Lock()
	ended := d.sentEnd || d.closed
	d.sentEnd = true
	d.mu.Unlock()
	if ended {
		return nil
	}
	return d.s.Close()
}

// Close ends both directions: by a reset, unless both have ended well (RFC 9220
// section 3, RFC 9114 section 4.4).
func (d *h3Duplex) Close() error {
	d.mu.Lock()
	closed, sentEnd, readEnd := d.closed, d.sentEnd, d.readEnd
	d.closed = true
	d.mu.Unlock()
	switch {
	case closed:
	case !sentEnd:
		d.reset(http3.ErrCodeRequestCanceled)
	case !readEnd:
		d.s.CancelRead(quic.StreamErrorCode(http3.ErrCodeNoError))
	}
	return nil
}

// cut is the end of a tunnel behind a panic.
func (d *h3Duplex) cut() { d.reset(http3.ErrCodeInternalError) }

func (d *h3Duplex) reset(code http3.ErrCode) {
	d.s.CancelWrite(quic.StreamErrorCode(code))
	d.s.CancelRead(quic.StreamErrorCode(code))
}
