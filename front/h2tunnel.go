package front

import (
	"time"

	"httpjet/exchange"
	"httpjet/h1"
	"httpjet/h2"
)

// h2Tunnel is the Wire of an extended CONNECT (RFC 8441), which can upgrade: its
// exchange is the GET by which HTTP/1 opens a WebSocket, so that all rules and
// handlers see one thing. The tunnel is the stream.
type h2Tunnel struct{ *h2stream }

// connect makes the exchange of an extended CONNECT.
func (s *h2stream) connect(h *h2.Head) error {
	q := &s.x.Req
	if h.Protocol != "websocket" {
		return &exchange.Error{Status: 501, Reason: "bad_request", Err: &h1.SyntaxError{Status: 501, Msg: "CONNECT for another protocol than websocket"}}
	}
	if h.Lengths > 0 {
		return refusal(&h1.SyntaxError{Status: 400, Msg: "CONNECT with a Content-Length"})
	}
	s.tunnel = &h2Tunnel{s}
	s.x.Rewire(s.tunnel)
	s.declared = -1
	s.expect = false
	asUpgrade(q)
	return nil
}

// Upgrade answers with 200 in the place of the 101 and returns the stream (RFC 8441
// §5). The permit is given back, as that of an HTTP/1 upgrade (R-LSN-9).
func (t *h2Tunnel) Upgrade(r *exchange.Response) (exchange.Duplex, error) {
	s := t.h2stream
	s.leave()
	s.upgraded = true
	s.c.srv.inFlight.release()
	s.c.srv.tunnels.Add(1)
	answer := exchange.Response{Status: 200, Length: -1, Fields: r.Fields}
	answer.Fields.Del("Sec-WebSocket-Accept")
	if err := s.Head(&answer, false, true); err != nil {
		return nil, err
	}
	return &h2Duplex{s}, s.Flush()
}

// carry runs what an exchange has become. err is how its handler ended.
func (s *h2stream) carry(t exchange.Tunnel, err error) error {
	c := s.c
	c.mu.Lock()
	s.tun = t
	gone := s.gone != nil
	c.mu.Unlock()
	if err != nil || gone {
		t.Close()
	}
	for {
		if _, resting := c.srv.runTunnel(&s.x, t, s.giveUpTunnel, 0); !resting {
			break
		}
	}
	c.mu.Lock()
	s.tun = nil
	c.mu.Unlock()
	return t.End()
}

func (s *h2stream) giveUpTunnel() { s.reset(h2.InternalError, clientFailed(errAborted)) }

// h2Duplex is the stream as a tunnel.
type h2Duplex struct{ s *h2stream }

func (d *h2Duplex) Read(p []byte) (int, error) { return d.s.read(p, nil) }

// ReadLazy implements exchange.LazyReader.
func (d *h2Duplex) ReadLazy(take func() []byte, _ func()) (int, error) {
	return d.s.read(nil, take)
}

func (d *h2Duplex) Write(p []byte) (int, error) {
	n, err := d.s.write(p)
	if err == nil {
		err = d.s.Flush()
	}
	return n, err
}

// SetReadDeadline bounds reads.
func (d *h2Duplex) SetReadDeadline(t time.Time) error {
	c := d.s.c
	c.mu.Lock()
	d.s.readBy = t
	d.s.wakeReader()
	c.mu.Unlock()
	return nil
}

// Broken reports whether the stream was reset or the connection is gone.
func (d *h2Duplex) Broken() bool {
	d.s.c.mu.Lock()
	defer d.s.c.mu.Unlock()
	return d.s.gone != nil
}

// CloseWrite ends what the client receives.
func (d *h2Duplex) CloseWrite() error {
	d.s.c.mu.Lock()
	ended := d.s.sentEnd
	d.s.c.mu.Unlock()
	if ended {
		return nil
	}
	return d.s.End(nil)
}

// Close ends both directions: by a reset, unless both have ended well (RFC 8441 §5).
func (d *h2Duplex) Close() error {
	s := d.s
	s.c.mu.Lock()
	code, open := h2.Cancel, s.gone == nil && !(s.sentEnd && s.over)
	if s.sentEnd {
		code = h2.NoError
	}
	s.c.mu.Unlock()
	if open {
		s.reset(code, clientFailed(errAborted))
	}
	return nil
}
