package wsrelay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/h1"
)

// Bounds of the backend's answer (R-HDR-9).
const (
	maxHead    = 64 << 10
	maxFields  = 200
	maxInterim = 32
)

// handshake is the HTTP part of a backend connection.
type handshake struct {
	conn    net.Conn
	ctx     context.Context
	timeout time.Duration
	br      *h1.Reader
	body    *h1.Body // of an answer that is no 101
}

// send writes the request head. From here on the answer is due.
func (hs *handshake) send(target, host string, f *exchange.Fields) error {
	hs.conn.SetDeadline(time.Now().Add(hs.timeout))
	head := h1.AppendRequest(make([]byte, 0, 2<<10), "GET", target, host, f, 0)
	if _, err := hs.conn.Write(head); err != nil {
		return hs.failure(err)
	}
	return nil
}

// receive returns the final head, or the 101; interim responses are skipped.
func (hs *handshake) receive() (*h1.Response, error) {
	hs.br = h1.NewReader(hs.conn)
	for range maxInterim {
		head, err := hs.br.ReadHead(maxHead)
		if err != nil {
			return nil, hs.failure(err)
		}
		r, err := h1.ParseResponse(head, "GET")
		if err != nil {
			return nil, hs.failure(err)
		}
		if r.Fields.Len() > maxFields {
			return nil, exchange.Fail(502, "response_head_too_large", "more than %d fields", maxFields)
		}
		if r.Status == 101 || r.Status >= 200 {
			hs.conn.SetDeadline(time.Time{})
			return &r, nil
		}
	}
	return nil, exchange.Fail(502, "upstream_transport", "more than %d interim responses", maxInterim)
}

// failure says what a handshake that broke means.
func (hs *handshake) failure(err error) error {
	if hs.ctx.Err() != nil {
		return fmt.Errorf("%w: %v", exchange.ErrClientGone, context.Cause(hs.ctx))
	}
	addr := hs.conn.RemoteAddr()
	if e, ok := errors.AsType[*h1.SyntaxError](err); ok {
		if e.Status == 431 {
			return exchange.Fail(502, "response_head_too_large", "%s: %v", addr, e)
		}
		return exchange.Fail(502, "upstream_transport", "%s: malformed answer: %v", addr, e)
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return exchange.Fail(504, "upstream_timeout", "%s: no answer to the handshake within %v", addr, hs.timeout)
	}
	return exchange.Fail(502, "upstream_transport", "handshake with %s: %w", addr, err)
}

// reply makes an ordinary reply of an answer that refuses the upgrade. The
// relay closes the connection.
func (hs *handshake) reply(r *h1.Response) *extproc.Reply {
	hs.body = hs.br.Body(r.Framing)
	reply := extproc.NewReply(r, hs.body)
	reply.Body = hs
	reply.Done = func() error { return nil }
	return &reply
}

// Read reads the body of a refusal.
func (hs *handshake) Read(p []byte) (int, error) {
	n, err := hs.body.Read(p)
	if err != nil && err != io.EOF && hs.ctx.Err() != nil {
		err = fmt.Errorf("%w: %v", exchange.ErrClientGone, context.Cause(hs.ctx))
	}
	return n, err
}

// early returns the bytes that came behind the 101, in memory of their own.
func (hs *handshake) early() []byte {
	p := append([]byte(nil), hs.br.Take()...)
	hs.br.Release()
	return p
}
