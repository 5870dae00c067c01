// Package extproc is what an <extProcessor> is at run time: a Target, a Call to
// it, its Reply, and the Client that speaks its protocol over pooled
// connections. FastCGI and LSAPI are Clients of their own packages.
package extproc

import (
	"context"
	"fmt"
	"io"
	"time"

	"httpjet/exchange"
)

// Kind is the protocol family of a processor (R-CFG-11).
type Kind uint8

const (
	KindProxy Kind = iota + 1 // type proxy: HTTP
	KindFastCGI
	KindLSAPI
	KindReserved    // cgi-exec, uwsgi: known by name, never routable
	KindUnsupported // anything else: kept by name, never routable
	KindAuthorizer  // fcgiauth: FastCGI in the role of an authorizer
)

// Scheme is how a proxy processor's address is spoken to (R-CONV-8).
type Scheme uint8

const (
	H1  Scheme = iota + 1 // http://
	H1S                   // https://: HTTP/1.1 over TLS
	H2                    // h2://: prior knowledge, clear text
	H2S                   // h2s://
)

// Target is one endpoint of a declared processor. It is never converted to
// another Kind. It is comparable: the whole value is the key of its pool, so two
// processors, or two protocols, at one address never share a connection
// (R-POOL-1).
type Target struct {
	Scope  string // "server" or "vhost:<name>"
	Name   string // name of the processor, or "websocket:<uri>"
	Kind   Kind
	Scheme Scheme // for KindProxy

	Network string // "tcp" or "unix"
	Address string // "host:port" or the socket's path
	TLSName string // name verified in the peer's certificate, for H1S and H2S
	TLSID   string // of the roots, certificate and rules of TLS; "": the defaults

	MaxConns    int           // connections at once, >= 1
	InitTimeout time.Duration // resolve, connect, TLS; also the wait for a permit
	KeepAlive   time.Duration // idle life of a connection; 0: not kept
	HeadTimeout time.Duration // from the end of the upload to the reply head
	BodyTimeout time.Duration // longest pause of the upload

	// Of FastCGI applications.
	MaxParams int64         // bytes of all variables; 0: the default
	MaxTime   time.Duration // of an application, from the begin of a call to the end of its reply; 0: any
	Children  int           // calls that the application takes at once; 0: not known

	Start string // identity of the application where httpjet starts it; "": it does not
}

// fill puts the defaults where t has zeros (spec §39).
func (t *Target) fill() {
	if t.MaxConns <= 0 {
		t.MaxConns = 100
	}
	if t.InitTimeout <= 0 {
		t.InitTimeout = defaultInit
	}
	if t.HeadTimeout <= 0 {
		t.HeadTimeout = defaultHead
	}
	if t.BodyTimeout <= 0 {
		t.BodyTimeout = defaultBody
	}
}

// patience is how long a dial may take that has to be done by a moment, zero for
// none.
func (t *Target) patience(by time.Time) time.Duration {
	if by.IsZero() {
		return t.InitTimeout
	}
	return min(t.InitTimeout, time.Until(by))
}

// Call is one request to a processor.
type Call struct {
	Method string
	URI    string // origin form, as it goes on the wire
	Host   string
	Fields *exchange.Fields   // end-to-end fields only; no Host, no framing
	Params *exchange.Fields   // CGI variables, for FastCGI and LSAPI; else nil
	PHP    []exchange.Setting // of the script, for LSAPI
	Length int64              // body length; 0: none; -1: unknown, chunked
	Body   io.Reader

	// StopBody makes a pending and every later read of Body fail, so that the
	// goroutine that pumps it can be joined.
	StopBody func()
	// Trailers returns the trailers of Body after its io.EOF; may be nil.
	Trailers func() *exchange.Fields
	// Inform passes an interim response (103 only) on; may be nil.
	Inform func(status int, f *exchange.Fields) error
	// Log receives what the application writes to its STDERR; may be nil.
	Log func(line string)

	HeadTimeout time.Duration // overrides the target's when > 0 (R-CTX-10)
	Now         time.Time     // a recent reading of the clock; zero: Do reads it
	Received    time.Time     // when the request was in, for metrics; zero: not known
	Alone       bool          // no other peer could have the call: of LSAPI, one that restarts is waited for

	// HeadBy is when the reply head has to be in, whatever the call waits for
	// until then: a permit, a connection, the upload or the head (R-TMO-4). It
	// only shortens the times of the target. Zero: no such moment.
	HeadBy time.Time
	// IdleTimeout is the longest wait for a byte of the reply's body; 0: any
	// (R-TMO-5).
	IdleTimeout time.Duration
	// NoReplay forbids the client to send the call a second time of its own
	// accord, once a byte of it has left (R-RETRY-7).
	NoReplay bool

	// TakesTrailers says that the client's TE lists trailers; HTTP/2 peers are
	// told (R-HDR-1).
	TakesTrailers bool

	// Crowded lets others run before the head goes out (exchange.Exchange.Crowded).
	Crowded bool

	// upload is the body on its way to HTTP/2 peers; see Close.
	upload *upload
}

// Reply is a reply head with its body still on the wire. It is valid until Close:
// its memory, and that of its fields, may be used by the next call.
type Reply struct {
	Status   int
	Fields   exchange.Fields         // end-to-end fields only; Trailer names what Trailers may hold
	Length   int64                   // -1: unknown until the end
	Unproven bool                    // Body ends with the connection: it may have been cut
	Body     io.Reader               // returns io.EOF only at a proven end, else an error
	Trailers func() *exchange.Fields // after io.EOF; may be nil
	Buffered func() int              // body bytes at hand without a read of the socket; may be nil
	Next     func() ([]byte, error)  // those bytes, read without a copy, as h1.Body.Next; may be nil
	Done     func() error            // ends the use of the connection, see Close

	// Took is the time from the begin of the call, once it had its permit, to this
	// head; 0 if the client does not measure it.
	Took time.Duration
	// Queue is how long the call waited for a permit before, Dial how much of Took it
	// took to connect.
	Queue, Dial time.Duration

	// PID is the process that answers, 0 if the protocol does not tell.
	PID int
}

// Phases are where the time went until the head was in.
func (r *Reply) Phases() exchange.Phases {
	return exchange.Phases{Queue: r.Queue, Dial: r.Dial, Head: max(0, r.Took-r.Dial)}
}

// Close ends the use of the connection. It is reused only if the body was read
// to its end and the request was sent whole; otherwise it is closed: poisoned by
// default. A second call at once, as by a defer, does nothing.
func (r *Reply) Close() error {
	done := r.Done
	if r.Done = nil; done == nil {
		return nil
	}
	return done()
}

// A Client speaks one protocol to one Target.
type Client interface {
	// Do sends c and returns when the reply head is in. Its error is a
	// *DialError if no byte was sent, or if the peer has said that it has not
	// looked at the request and no byte of the body was given away: then the
	// same Call may be made to the next peer. Else it is an *exchange.Error with
	// the token of R-HDR-8, or wraps exchange.ErrClientGone.
	Do(ctx context.Context, c *Call) (*Reply, error)
	// Retire closes idle connections now and busy ones when they come back.
	Retire()
}

// DialError says that no byte of the request was sent, or that the peer has said
// that it has not looked at it.
type DialError struct {
	Addr    string
	Timeout bool
	Err     error
}

func (e *DialError) Error() string { return fmt.Sprintf("dial %s: %v", e.Addr, e.Err) }

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// Failure is the answer for a dial that nobody can take over (R-GRP-7): 504
// connect_timeout, or 502 upstream_transport.
func (e *DialError) Failure() *exchange.Error {
	if e.Timeout {
		return &exchange.Error{Status: 504, Reason: "connect_timeout", Err: e}
	}
	return &exchange.Error{Status: 502, Reason: "upstream_transport", Err: e}
}

// PoolStats is a snapshot of a client's connections; over HTTP/2 Busy is requests. A
// tunnel's is busy, a probe's is not counted.
type PoolStats struct {
	Idle, Busy, Dialing int
	Waiting             int // calls that wait for one of the busy ones
}
