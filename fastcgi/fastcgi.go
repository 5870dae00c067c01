// Package fastcgi is a client of one FastCGI application: records, CGI heads,
// and a pool whose connections are poisoned until proven clean. It starts no
// process, knows no files and derives no CGI variable but CONTENT_LENGTH; the
// script handler does the rest.
//
// Life of a call: the body is held if it is small or of unknown length, the
// variables are measured, a connection is acquired, BEGIN_REQUEST, PARAMS and
// STDIN are sent while STDOUT and STDERR are read, the head is parsed, and the
// body streams through the Reply until END_REQUEST. Only a connection on which
// all of that went well, to the last byte both ways, serves another call.
package fastcgi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
)

// HeldMax is the longest declared body, in bytes, that is read whole before a
// connection is acquired, so that a slow client occupies no worker (R-FCGI-6).
const HeldMax = budget.MemoryMax

const (
	defaultInit = 10 * time.Second // R-TMO-1: initTimeout 0
	defaultHead = 60 * time.Second // R-TMO-2
)

// Options of a Client. The zero value is useful.
type Options struct {
	Bodies    *budget.Bodies // bounds the bodies held; nil: no bound
	MaxParams int            // bytes of all variables, encoded; 0: 1 MiB
	Kept      int            // most idle connections kept; 0: the target's MaxConns

	// Dial connects to the target; nil: as the zero extproc.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client is an extproc.Client for one FastCGI target. It may be used by many
// goroutines.
type Client struct {
	target    extproc.Target
	bodies    *budget.Bodies
	maxParams int
	pool      pool
	bufs      sync.Pool // of *[]byte, for requests being sent
}

var _ extproc.Client = (*Client)(nil)

// New returns a client for t. It dials nothing.
func New(t extproc.Target, o Options) *Client {
	n := max(1, t.MaxConns)
	kept := o.Kept
	if kept <= 0 || kept > n {
		kept = n
	}
	if t.InitTimeout <= 0 {
		t.InitTimeout = defaultInit
	}
	if t.HeadTimeout <= 0 {
		t.HeadTimeout = defaultHead
	}
	if o.MaxParams <= 0 {
		o.MaxParams = defaultParams
	}
	if o.Dial == nil {
		o.Dial = (&extproc.Dialer{}).Dial
	}
	return &Client{
		target: t, bodies: o.Bodies, maxParams: o.MaxParams,
		pool: pool{target: t, kept: kept, dial: o.Dial, permits: budget.NewPermits(n)},
	}
}

// Do sends call and returns when the head of the reply is in. Its errors:
//
//   - 503 fcgi_unavailable: no connection within InitTimeout, the application
//     refused the request, or there is no room to hold the body. A failed dial
//     wraps an *extproc.DialError as well.
//   - 504 upstream_timeout: no head in time; 504 request_stalled: the
//     application takes no more of the request.
//   - 502 fcgi_protocol: anything else the application did wrong.
//   - 400 bad_request: the body is not as long as declared; 408 request_stalled:
//     it stopped coming; 431 request_head_too_large: too many variables.
//   - What call.Body returned, if that is an *exchange.Error (413).
//   - exchange.ErrClientGone, wrapped.
//
// A caller that wants to offer the same call to another client afterwards calls
// Hold first, for Do may have read the body.
func (c *Client) Do(ctx context.Context, call *extproc.Call) (*extproc.Reply, error) {
	b, err := takeBody(ctx, call, c.bodies, c.target.BodyTimeout)
	if err != nil {
		return nil, err
	}
	reply, err := c.do(ctx, call, b)
	if err != nil {
		b.close()
	}
	return reply, err
}

// do makes the call with its body at hand. It owns a permit from acquire on,
// and gives it up on every way out but the reply, whose Close does it.
func (c *Client) do(ctx context.Context, call *extproc.Call, b body) (*extproc.Reply, error) {
	p := newParams(call.Params, b.length, b.declared)
	size, err := p.size(c.maxParams)
	if err != nil {
		return nil, &exchange.Error{Status: 431, Reason: "request_head_too_large", Err: err}
	}
	cn, now, err := c.pool.acquire(ctx, b.length == 0 && size < askMax/2)
	if err != nil {
		return nil, err
	}
	for {
		cv := c.newConversation(ctx, call, cn, b)
		cv.up.buf = p.appendTo(appendBegin(cv.up.buf, c.target.KeepAlive > 0), size)
		err := cv.open(now)
		if err == nil {
			return cv.reply(), nil
		}
		stale := cv.stale(err)
		err = cv.abandon(err)
		if !stale {
			c.pool.drop(cn)
			return nil, err
		}
		// The application closed the kept connection as we took it: once
		// more on a new one, under the same permit (R-FCGI-12).
		if cn, err = c.pool.connect(ctx, time.Now().Add(c.target.InitTimeout)); err != nil {
			c.pool.permits.Release()
			return nil, err
		}
		now = time.Now()
	}
}

// Try opens a connection and closes it: an error says why the application cannot
// be reached. It counts as none of MaxConns.
func (c *Client) Try(ctx context.Context) error {
	nc, err := c.pool.dial(ctx, c.target.Network, c.target.Address)
	if err != nil {
		return err
	}
	return nc.Close()
}

// Retire closes idle connections now and busy ones when they come back. Calls
// that still arrive are served on connections that are not kept.
func (c *Client) Retire() { c.pool.retire() }

// Expire closes connections that are idle for longer than the target's
// KeepAlive at the time now.
func (c *Client) Expire(now time.Time) { c.pool.expire(now) }

// Stats returns a snapshot of the connections.
func (c *Client) Stats() extproc.PoolStats { return c.pool.stats() }

// body is the request body of one call.
type body struct {
	length int64         // exact, 0 for none
	held   *budget.Spool // nil: none, or src is the client
	src    io.Reader     // the client
	own    bool          // held is closed with the call
	// declared: the client announced a body, be it empty.
	declared bool
}

// reader returns the body from its first byte.
func (b body) reader() io.Reader {
	if b.held != nil {
		return b.held.Reader()
	}
	return b.src
}

func (b body) close() {
	if b.own {
		b.held.Close()
	}
}

// heldBody is a Call.Body that Hold has made.
type heldBody struct {
	io.Reader
	spool *budget.Spool
}

// Hold reads the body of call into bodies if it must be complete before a
// connection is acquired, and sets call.Length to its exact length (R-FCGI-6).
// Any number of clients may then be tried with call, until release is called. pause
// is as BodyTimeout of their target.
func Hold(ctx context.Context, call *extproc.Call, bodies *budget.Bodies, pause time.Duration) (release func(), err error) {
	b, err := takeBody(ctx, call, bodies, pause)
	if err != nil || !b.own {
		return func() {}, err
	}
	call.Body, call.Length = &heldBody{b.reader(), b.held}, b.length
	return func() { b.held.Close() }, nil
}

// takeBody decides how the body travels (R-FCGI-6): small or of unknown length,
// it is held; longer, it stays with the client and streams.
func takeBody(ctx context.Context, call *extproc.Call, bodies *budget.Bodies, pause time.Duration) (body, error) {
	if ctx.Err() != nil {
		return body{}, exchange.ErrClientGone
	}
	if h, ok := call.Body.(*heldBody); ok {
		return body{length: h.spool.Len(), held: h.spool, declared: true}, nil
	}
	switch {
	case call.Length == 0 || call.Body == nil:
		return body{}, nil
	case call.Length > HeldMax:
		return body{length: call.Length, src: call.Body, declared: true}, nil
	}
	watch := onDone(ctx, func() { stopBody(call) })
	s, err := bodies.Hold(budget.Paced(call.Body, pause), call.Length)
	watch.putOut()
	if err != nil {
		return body{}, bodyError(ctx, err)
	}
	return body{length: s.Len(), held: s, own: true, declared: true}, nil
}

// bodyError is the answer for a request body that cannot be had.
func bodyError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: request body: %v", exchange.ErrClientGone, err)
	case errors.Is(err, budget.ErrNoRoom):
		return &exchange.Error{Status: 503, Reason: "fcgi_unavailable", Err: err, Close: true}
	}
	return extproc.BodyError(err)
}

// stopBody makes a pending read of the client's body return.
func stopBody(call *extproc.Call) {
	if call.StopBody != nil {
		call.StopBody()
	}
}
