// Package fastcgi speaks to a FastCGI application: records, variables and CGI
// heads. Pool, bodies and the course of a call are those of package gateway.
package fastcgi

import (
	"bufio"
	"context"
	"net"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/gateway"
)

// Options of a client. The zero value is useful.
type Options struct {
	Bodies *budget.Bodies  // bounds the bodies held; nil: no bound
	Kept   int             // as gateway.Options have it
	Places *gateway.Places // likewise

	Counts *gateway.Counts // what is counted; nil: nobody asks

	// Dial connects to the target; nil: as the zero extproc.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// New returns a client for t, with the reason tokens fcgi_unavailable and
// fcgi_protocol. It dials nothing.
func New(t extproc.Target, o Options) *gateway.Client {
	p := protocol{maxParams: int(t.MaxParams), role: roleResponder}
	if p.maxParams <= 0 {
		p.maxParams = defaultParams
	}
	if t.Kind == extproc.KindAuthorizer {
		p.role = roleAuthorizer
	}
	return gateway.New(t, p, gateway.Options{Bodies: o.Bodies, Counts: o.Counts, Kept: o.Kept, Places: o.Places, Dial: o.Dial})
}

// protocol is FastCGI 1.0 with one request at a time on a connection (R-FCGI-4).
type protocol struct {
	maxParams int
	role      byte
}

func (protocol) Tokens() gateway.Tokens {
	return gateway.Tokens{Unavailable: "fcgi_unavailable", Malformed: "fcgi_protocol"}
}

// Measure measures the variables, encoded.
func (p protocol) Measure(r gateway.Request) (int, error) {
	size, err := newParams(r).size(p.maxParams)
	if err != nil {
		return 0, &exchange.Error{Status: 431, Reason: "request_head_too_large", Err: err}
	}
	return size, nil
}

// Append encodes BEGIN_REQUEST and PARAMS (R-FCGI-5).
func (p protocol) Append(b []byte, r gateway.Request, size int) []byte {
	return newParams(r).appendTo(appendBegin(b, p.role, r.Keep), size)
}

// Frame makes STDIN records of the body.
func (protocol) Frame() gateway.Frame {
	return gateway.Frame{
		Header: headerLen, Most: fullContent, End: appendHeader(nil, header{typ: typeStdin}),
		Abort: appendHeader(nil, header{typ: typeAbort}),
		Fill:  func(b []byte, n int) { appendHeader(b[:0], header{typ: typeStdin, content: n}) },
	}
}

func (protocol) Stream(br *bufio.Reader) gateway.Stream {
	return &stream{out: stdout{br: br}}
}
