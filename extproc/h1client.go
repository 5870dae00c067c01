package extproc

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/budget"
)

// H1Client is a Client for HTTP/1.1 over TCP, a Unix socket or TLS. A call uses
// its connection synchronously, on the goroutine that serves the exchange.
//
// The life of a call: take a permit; take the newest idle connection that is
// still silent, or dial; write the head; pump the body, if there is one, from a
// goroutine of its own; read past interim responses to the final head; hand out
// the body; join the pump; keep the connection if all of that was clean; give
// the permit back.
type H1Client struct {
	target  Target
	dialer  *Dialer
	tls     *tls.Config // nil: clear text
	permits *budget.Permits
	dialing atomic.Int32

	mu      sync.Mutex
	idle    []*h1conn // by idleSince; the newest, at the end, is used first
	retired bool
}

// NewH1 returns a client with a Dialer of its own; see Dialer.H1.
func NewH1(t Target, base *tls.Config) *H1Client { return (&Dialer{}).H1(t, base) }

// H1 returns a client for t, whose Kind is KindProxy and whose Scheme is H1
// or H1S. base may add roots and certificates for H1S; nil means the system's
// roots. A zero MaxConns is 100; a zero InitTimeout, HeadTimeout or BodyTimeout
// is 10, 60 or 30 s.
func (d *Dialer) H1(t Target, base *tls.Config) *H1Client {
	if t.Scheme != H1 && t.Scheme != H1S {
		panic("BUG: extproc: no HTTP/1 target")
	}
	t.fill()
	p := &H1Client{target: t, dialer: d, permits: budget.NewPermits(t.MaxConns)}
	if t.Scheme == H1S {
		p.tls = clientTLS(&t, base, "http/1.1")
	}
	return p
}

// Target returns what the client speaks to, defaults filled in.
func (p *H1Client) Target() Target { return p.target }

// Do sends c and returns when the final reply head is in; see Client. It holds a
// permit until the reply is closed.
func (p *H1Client) Do(ctx context.Context, c *Call) (*Reply, error) {
	now, queue, dial := c.Now, time.Duration(0), time.Duration(0)
	if !p.permits.TryAcquire() {
		waits := time.Now()
		if err := acquire(ctx, p.permits, &p.target, c.HeadBy); err != nil {
			return nil, err
		}
		now = time.Now()
		queue = now.Sub(waits)
	}
	if now.IsZero() {
		now = time.Now()
	}
	began, conn := now, p.checkout(now)
	for {
		if conn == nil {
			nc, socket, err := p.connect(ctx, p.patience(c))
			if err != nil {
				p.permits.Release()
				return nil, err
			}
			dials := now
			conn, now = newH1conn(nc, socket), time.Now()
			dial += now.Sub(dials)
		}
		call := &conn.call
		call.client, call.conn, call.req, call.ctx, call.sent = p, conn, c, ctx, now
		err := call.start()
		if err == nil {
			conn.reply.Took, conn.reply.Queue, conn.reply.Dial = call.headAt.Sub(began), queue, dial
			return &conn.reply, nil
		}
		// R-POOL-4: a kept connection may have died on its way here. That
		// is not the peer's failure, and a fresh one gets the call once.
		stale := err == errStale
		again := stale || call.replayable(err)
		call.drop()
		if !again {
			p.permits.Release()
			return nil, err
		}
		if conn = nil; stale {
			conn = p.checkout(now)
		}
	}
}

// patience is the target with no more time to connect than c has left.
func (p *H1Client) patience(c *Call) *Target {
	if c.HeadBy.IsZero() {
		return &p.target
	}
	short := p.target
	short.InitTimeout = p.target.patience(c.HeadBy)
	return &short
}

// connect opens a connection to t, which is the target or one with less time.
func (p *H1Client) connect(ctx context.Context, t *Target) (conn, socket net.Conn, err error) {
	p.dialing.Add(1)
	defer p.dialing.Add(-1)
	return p.dialer.dial(ctx, t, p.tls)
}

// Authority is the Host of requests that have none of their own (R-HDR-6).
func (p *H1Client) Authority() string {
	if p.target.Network == "unix" {
		return "localhost" // a path is no authority
	}
	return p.target.Address
}

// Dial opens a connection that is not pooled, for a tunnel. It counts as one of
// the target's MaxConns until release is called, which the caller does exactly
// once, after closing the connection. Errors are those of Do.
func (p *H1Client) Dial(ctx context.Context) (conn net.Conn, release func(), err error) {
	if err := acquire(ctx, p.permits, &p.target, time.Time{}); err != nil {
		return nil, nil, err
	}
	conn, _, err = p.connect(ctx, &p.target)
	if err != nil {
		p.permits.Release()
		return nil, nil, err
	}
	return conn, p.permits.Release, nil
}

// checkout returns the newest idle connection, nil if there is none. The call
// finds out whether it is fit for use: one that has become readable is not.
func (p *H1Client) checkout(now time.Time) *h1conn {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if now.Sub(c.idleSince) < p.target.KeepAlive {
			return c
		}
		c.close()
	}
}

// keep makes c idle since at, or closes it if the client keeps none.
func (p *H1Client) keep(c *h1conn, at time.Time) {
	c.rest()
	if p.target.KeepAlive > 0 {
		p.mu.Lock()
		if !p.retired {
			if n := len(p.idle); n > 0 && at.Before(p.idle[n-1].idleSince) {
				at = p.idle[n-1].idleSince // the list stays ordered
			}
			c.idleSince = at
			p.idle = append(p.idle, c)
			c = nil
		}
		p.mu.Unlock()
	}
	if c != nil {
		c.close()
	}
}

// Expire closes the connections that have been idle for KeepAlive at now.
func (p *H1Client) Expire(now time.Time) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].idleSince) >= p.target.KeepAlive {
		n++
	}
	var old []*h1conn
	if n > 0 {
		old = append(old, p.idle[:n]...)
		left := copy(p.idle, p.idle[n:])
		clear(p.idle[left:])
		p.idle = p.idle[:left]
	}
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// Retire closes idle connections now and busy ones when they come back.
func (p *H1Client) Retire() {
	p.mu.Lock()
	p.retired = true
	old := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// Stats returns the number of connections by what they do.
func (p *H1Client) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	dialing := int(p.dialing.Load())
	return PoolStats{Idle: len(p.idle), Busy: max(0, p.permits.InUse()-dialing), Dialing: dialing, Waiting: p.permits.Waiting()}
}
