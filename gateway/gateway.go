// Package gateway is the client of an application that runs scripts, whatever it
// speaks: a pool whose connections are poisoned until proven clean, request bodies
// of exact length, and replies that stream. A Protocol, FastCGI or LSAPI, says what
// the bytes are. It starts no process, knows no files and derives no CGI variable
// but CONTENT_LENGTH; the script handler does the rest.
//
// Life of a call: the body is held if it is small or of unknown length, the head of
// the request is measured, a connection is acquired, the request is sent while the
// reply is read, its head is parsed, and the body streams through the Reply until
// the protocol says that it is over. Only a connection on which all of that went
// well, to the last byte both ways, serves another call.
package gateway

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"httpjet/budget"
	"httpjet/extproc"
)

const (
	defaultInit = 10 * time.Second // R-TMO-1: initTimeout 0
	defaultHead = 60 * time.Second // R-TMO-2
)

// Tokens are the reason tokens of one protocol (R-HDR-8).
type Tokens struct {
	Unavailable string // 503: no connection, no room, or the application refused
	Malformed   string // 502: what the application sent is no reply
}

// Request is one request as a Protocol encodes it.
type Request struct {
	Call   *extproc.Call
	Length int64  // of the body, exact
	Digits string // Length as CONTENT_LENGTH; "" if the variable has no place in the request
	Keep   bool   // the connection may serve another request
}

// Protocol is how an application is spoken to. It is shared by all connections of a
// client and holds no state of any.
type Protocol interface {
	Tokens() Tokens
	// Measure returns the size of what Append appends, before any memory is
	// taken. Its error, an *exchange.Error, refuses the request.
	Measure(r Request) (int, error)
	// Append appends the request up to its body.
	Append(b []byte, r Request, size int) []byte
	// Frame says how the body travels.
	Frame() Frame
	// Stream returns what reads replies from a connection.
	Stream(br *bufio.Reader) Stream
}

// Frame is what a protocol adds to the body of a request. The zero Frame adds
// nothing.
type Frame struct {
	Header int                        // bytes before each part
	Most   int                        // most bytes in a part; 0: any number
	Fill   func(header []byte, n int) // writes the header of a part of n bytes
	End    []byte                     // behind the last part, and for no body at all
	// Abort tells the application that nobody waits for the reply any more. It is
	// sent behind a request that has been sent whole, before the connection is
	// closed; nil: closing says so.
	Abort []byte
}

// Stream reads one reply after the other from a connection. Methods are called by
// one goroutine, in the order Begin, Head, Read until its error, End.
type Stream interface {
	// Begin prepares for the next reply, whose STDERR goes to log.
	Begin(log *Stderr)
	// Head reads up to the body. Memory of the fields may be used again after End.
	// A *RefusedError is an orderly refusal, any other error a broken reply or
	// that of the connection.
	Head() (Head, error)
	// Read returns bytes of the body, no more than of one record or packet; io.EOF
	// means the proven end of the reply and nothing less. An error is final: it
	// comes again.
	Read(p []byte) (int, error)
	// Buffered returns how much Read gives without touching the socket. The end
	// of the reply counts as one byte, for it too comes without waiting.
	Buffered() int
	// Begun reports whether a byte of the reply has come.
	Begun() bool
	// PID is the process at the other end, 0 if it has not told.
	PID() int
	// End forgets the reply.
	End()
}

// A RefusedError says that the application did not take the request.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// Options of a Client. The zero value is useful.
type Options struct {
	Bodies *budget.Bodies // bounds the bodies held; nil: no bound
	Kept   int            // most idle connections kept; 0: the target's MaxConns, or fewer than its Children
	Counts *Counts        // what is counted; nil: nobody asks
	Places *Places        // shared by clients that may meet at an address; nil: none does

	Again Again // what is tried once more; the zero value: what R-FCGI-12 has
	Timed Timed // told how long what took; nil: nobody asks

	// Dial connects to the target; nil: as the zero extproc.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Again says what a client tries once more by itself, besides a call whose kept
// connection turns out to have been closed.
type Again struct {
	// Resets is how often an idempotent call is sent again, after Pause, because the
	// application closed its connection without having read it.
	Resets int
	Pause  time.Duration
	// Refused is for how long, from the first dial that is refused on, calls that no
	// other peer could have (Call.Alone) dial again every so often instead of failing:
	// an application that restarts is waited for, and one that stays away fails at once
	// behind that. InitTimeout bounds it too.
	Refused, Every time.Duration
}

// Timed is told of each call how long it was on its way here (Dispatched, only where
// Call.Received says when the request was in), how long it waited for a connection, and
// then for the head of its reply.
type Timed interface {
	Dispatched(time.Duration)
	Acquired(time.Duration)
	Answered(time.Duration)
}

// Client is an extproc.Client for one target. It may be used by many goroutines.
type Client struct {
	protocol Protocol
	tokens   Tokens
	frame    Frame
	target   extproc.Target
	bodies   *budget.Bodies
	pool     pool
	places   *Places
	counts   *Counts
	again    Again
	timed    Timed
	bufs     sync.Pool // of *[]byte, for requests being sent
}

var _ extproc.Client = (*Client)(nil)

// New returns a client for t, which speaks p. It dials nothing.
func New(t extproc.Target, p Protocol, o Options) *Client {
	n := max(1, t.MaxConns)
	kept := o.Kept
	if kept <= 0 || kept > n {
		kept = n
	}
	if t.Children > 0 { // each kept connection occupies one
		kept = min(kept, max(1, t.Children-1))
	}
	if t.InitTimeout <= 0 {
		t.InitTimeout = defaultInit
	}
	if t.HeadTimeout <= 0 {
		t.HeadTimeout = defaultHead
	}
	if o.Counts == nil {
		o.Counts = &Counts{}
	}
	if o.Dial == nil {
		o.Dial = (&extproc.Dialer{}).Dial
	}
	c := &Client{
		protocol: p, tokens: p.Tokens(), frame: p.Frame(), target: t, bodies: o.Bodies, places: o.Places, counts: o.Counts, again: o.Again, timed: o.Timed,
		pool: pool{target: t, unavailable: p.Tokens().Unavailable, stream: p.Stream, kept: kept, dial: o.Dial, again: o.Again, counts: o.Counts, permits: budget.NewPermits(n)},
	}
	c.pool.place = o.Places.join(t, &c.pool)
	return c
}

// Do sends call and returns when the head of the reply is in. Its errors:
//
//   - 503 with Tokens.Unavailable: no connection within InitTimeout, the
//     application refused the request, or there is no room to hold the body. A
//     failed dial wraps an *extproc.DialError as well.
//   - 504 upstream_timeout: no head in time; 504 request_stalled: the
//     application takes no more of the request.
//   - 502 with Tokens.Malformed: anything else the application did wrong.
//   - 400 bad_request: the body is not as long as declared; 408 request_stalled:
//     it stopped coming; 431 request_head_too_large: too many variables.
//   - What call.Body returned, if that is an *exchange.Error (413).
//   - exchange.ErrClientGone, wrapped.
//
// A caller that wants to offer the same call to another client afterwards calls
// Hold first, for Do may have read the body.
func (c *Client) Do(ctx context.Context, call *extproc.Call) (*extproc.Reply, error) {
	b, err := takeBody(ctx, call, c.bodies, c.target.BodyTimeout, c.tokens.Unavailable)
	if err != nil {
		c.counts.failed(err, false)
		return nil, err
	}
	reply, connected, err := c.do(ctx, call, b)
	if err != nil {
		b.close()
		c.counts.failed(err, connected)
	}
	return reply, err
}

// do makes the call with its body at hand. It owns a permit from acquire on,
// and gives it up on every way out but the reply, whose Close does it. connected: it
// had a connection at last.
func (c *Client) do(ctx context.Context, call *extproc.Call, b body) (reply *extproc.Reply, connected bool, err error) {
	r := c.request(call, b)
	size, err := c.protocol.Measure(r)
	if err != nil {
		return nil, false, err
	}
	began := time.Now()
	cn, now, spent, err := c.pool.acquire(ctx, began, b.length == 0 && size < askMax/2, !idempotent(call.Method), call.Alone)
	if c.timed != nil {
		c.timing(call, began, now)
	}
	if err != nil {
		return nil, false, err
	}
	sent := now
	for resets := 0; ; {
		cv := c.newConversation(ctx, call, cn, b)
		cv.up.buf = c.protocol.Append(cv.up.buf, r, size)
		err := cv.open(now)
		if err == nil {
			if cn.reused && !c.pool.keeps.Load() {
				c.pool.keeps.Store(true)
			}
			reply := cv.reply()
			took := time.Since(now)
			reply.Queue, reply.Dial, reply.Took = spent.Queue, spent.Dial, took+now.Sub(sent)+spent.Dial
			if c.timed != nil {
				c.timed.Answered(took)
			}
			return reply, true, nil
		}
		stale := cv.stale(err)
		unread := !stale && resets < c.again.Resets && cv.unread(err)
		err = cv.abandon(err)
		switch {
		case stale:
			// The application closed the kept connection as we took it: once
			// more on a new one, under the same permit (R-FCGI-12).
			c.counts.Poisoned[whyStale].Add(1)
			c.pool.keeps.Store(false)
		case unread && pause(ctx, c.again.Pause): // R-LSAPI-3
			resets++
			c.counts.Poisoned[whyProtocol].Add(1)
			c.counts.Resets.Add(1)
		default:
			c.pool.drop(cn)
			return nil, true, err
		}
		if cn, err = c.pool.connect(ctx, time.Now().Add(c.target.InitTimeout), call.Alone); err != nil {
			c.pool.permits.Release()
			return nil, false, err
		}
		now = time.Now()
	}
}

// timing tells how long a call was on its way, and waited for a connection.
func (c *Client) timing(call *extproc.Call, began, now time.Time) {
	if !call.Received.IsZero() {
		c.timed.Dispatched(began.Sub(call.Received))
	}
	c.timed.Acquired(max(0, now.Sub(began)))
}

// pause waits for d, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// request describes call with its body. CONTENT_LENGTH is ours: whatever the
// variables say, the application hears the length that the body has (R-FCGI-6).
func (c *Client) request(call *extproc.Call, b body) Request {
	r := Request{Call: call, Length: b.length, Keep: c.target.KeepAlive > 0}
	if b.length > 0 || b.declared || call.Params != nil && call.Params.Has("CONTENT_LENGTH") {
		r.Digits = strconv.FormatInt(b.length, 10)
	}
	return r
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
func (c *Client) Retire() {
	c.pool.retire()
	c.places.leave(c.target, &c.pool)
}

// Expire closes connections that are idle for longer than the target's
// KeepAlive at the time now.
func (c *Client) Expire(now time.Time) { c.pool.expire(now) }

// Stats returns a snapshot of the connections.
func (c *Client) Stats() extproc.PoolStats { return c.pool.stats() }
