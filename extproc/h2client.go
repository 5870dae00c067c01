package extproc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"httpjet/budget"
)

// h2Tries is how many connections a call is given to that peers refuse unread.
const h2Tries = 3

// H2Client is a Client for HTTP/2, in clear text by prior knowledge or over TLS.
// Its connections are shared: each carries as many calls as its peer allows, 100
// at most.
//
// The life of a call: take a permit; reserve a stream on a connection that has
// room, or dial, one dial at a time; send the head; let the library read the body
// while it writes it; wait for the final head, passing 103 on; hand out the body;
// end the stream, by a reset if one side is unfinished; give the permit back. A
// stream that the peer has not processed goes to another connection, and if those
// refuse it too, to another peer.
type H2Client struct {
	target  Target
	dialer  *Dialer
	tls     *tls.Config // nil: clear text
	permits *budget.Permits
	//lint:ignore SA1019 see h2conn.go
	transport *http2.Transport
	dialling  chan struct{} // holds one element while somebody dials

	mu      sync.Mutex
	conns   []*h2conn // the oldest first; calls go to the first that has room
	retired bool
}

// NewH2 returns a client with a Dialer of its own; see Dialer.H2.
func NewH2(t Target, base *tls.Config) *H2Client { return (&Dialer{}).H2(t, base) }

// H2 returns a client for t, whose Kind is KindProxy and whose Scheme is H2 or
// H2S. base may add roots and certificates for H2S; nil means the system's roots.
// Zero numbers of t mean what they mean to H1. MaxConns bounds requests in
// flight, not connections (R-POOL-2).
func (d *Dialer) H2(t Target, base *tls.Config) *H2Client {
	if t.Scheme != H2 && t.Scheme != H2S {
		panic("BUG: extproc: no HTTP/2 target")
	}
	t.fill()
	p := &H2Client{target: t, dialer: d, permits: budget.NewPermits(t.MaxConns), dialling: make(chan struct{}, 1),
		transport: newH2transport(maxHead, t.BodyTimeout)}
	if t.Scheme == H2S {
		p.tls = clientTLS(&t, base, "h2")
	}
	return p
}

// Target returns what the client speaks to, defaults filled in.
func (p *H2Client) Target() Target { return p.target }

// Do sends c and returns when the final reply head is in; see Client. It holds a
// permit until the reply is closed.
func (p *H2Client) Do(ctx context.Context, c *Call) (*Reply, error) {
	queue := time.Duration(0)
	if !p.permits.TryAcquire() {
		waits := time.Now()
		if err := acquire(ctx, p.permits, &p.target, c.HeadBy); err != nil {
			return nil, err
		}
		queue = time.Since(waits)
	}
	reply, err := p.send(ctx, c)
	if err == nil {
		reply.Queue = queue
	}
	if err != nil {
		p.permits.Release()
		if _, unsent := errors.AsType[*DialError](err); !unsent {
			c.Close() // nobody takes over
		}
	}
	return reply, err
}

// send gives c to one connection after the other until one has answered it or has
// failed with it.
func (p *H2Client) send(ctx context.Context, c *Call) (*Reply, error) {
	began, dial := time.Now(), time.Duration(0)
	var refused []*h2conn // by which connections; almost always none
	for try := 1; ; try++ {
		conn := p.sound(refused)
		if conn == nil {
			dials := time.Now()
			var err error
			if conn, err = p.reserve(ctx, refused, c.HeadBy); err != nil {
				return nil, c.noFurther(err)
			}
			dial += time.Since(dials)
		}
		call := newH2call(ctx, p, conn, c)
		err := call.start()
		if err == nil {
			call.reply.Took, call.reply.Dial = time.Since(began), dial
			return &call.reply, nil
		}
		again, unread := try == 1 && call.replayable(err), call.unread(err)
		call.drop()
		switch {
		case !again && !unread:
			return nil, err
		case try < h2Tries:
			refused = append(refused, conn)
		case unread:
			return nil, c.noFurther(&DialError{Addr: p.target.Address, Err: fmt.Errorf("%w: %v", ErrUnread, err)})
		default:
			return nil, err
		}
	}
}

// reserve opens a connection, unless another call has meanwhile, and returns it with a
// stream reserved, counting the call. It is none of those in not. Waiting for the dials of others and dialling take
// InitTimeout together, and end at by unless that is zero; errors are those of dial.
func (p *H2Client) reserve(ctx context.Context, not []*h2conn, by time.Time) (*h2conn, error) {
	wait, cancel := context.WithTimeout(ctx, p.target.patience(by))
	defer cancel()
	select {
	case p.dialling <- struct{}{}:
	case <-wait.Done():
		return nil, dialFailure(ctx, wait, &p.target, errors.New("others dial"))
	}
	defer func() { <-p.dialling }()
	if c := p.sound(not); c != nil { // opened meanwhile
		return c, nil
	}
	c, err := p.dialer.openH2(wait, &p.target, p.tls, p.transport)
	if err != nil {
		return nil, dialFailure(ctx, wait, &p.target, err)
	}
	if !c.reserve() {
		c.close()
		return nil, &DialError{Addr: p.target.Address, Err: errors.New("peer allows no stream")}
	}
	c.calls = 1
	p.mu.Lock()
	p.conns = append(p.conns, c)
	p.mu.Unlock()
	return c, nil
}

// sound reserves a stream on a connection that has room, as room does. One that was
// idle is looked at: what would be sent to a peer that has closed it could not be
// sent again in every case (R-POOL-3).
func (p *H2Client) sound(not []*h2conn) *h2conn {
	for {
		c, idle := p.room(not)
		if c == nil || !idle || !c.ended() {
			return c
		}
		p.mu.Lock()
		p.conns = slices.DeleteFunc(p.conns, func(o *h2conn) bool { return o == c })
		p.mu.Unlock()
		p.leave(c)
	}
}

// room reserves a stream on a connection that has room and is not in not; nil if
// there is none. The library's lock that it takes is never held over I/O.
func (p *H2Client) room(not []*h2conn) (conn *h2conn, idle bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; i < len(p.conns); i++ {
		c := p.conns[i]
		switch {
		case c.calls >= h2Streams || slices.Contains(not, c):
		case c.reserve():
			c.calls++
			return c, c.calls == 1
		case c.calls == 0: // idle, and takes nothing: its peer has closed it
			p.conns = slices.Delete(p.conns, i, i+1)
			c.socket.Close()
			i--
		}
	}
	return nil, false
}

// leave ends a call's use of c. A connection that nobody uses is kept if that is
// of any use.
func (p *H2Client) leave(c *h2conn) {
	p.mu.Lock()
	c.calls--
	idle := c.calls == 0
	if idle {
		c.idleSince = time.Now()
	}
	done := idle && (p.retired || p.target.KeepAlive <= 0 || !c.open() || !slices.Contains(p.conns, c))
	if done {
		p.conns = slices.DeleteFunc(p.conns, func(o *h2conn) bool { return o == c })
	}
	p.mu.Unlock()
	if done {
		c.close()
	}
}

// take removes the idle connections that match from the list.
func (p *H2Client) take(match func(*h2conn) bool) (old []*h2conn) {
	p.conns = slices.DeleteFunc(p.conns, func(c *h2conn) bool {
		if c.calls > 0 || !match(c) {
			return false
		}
		old = append(old, c)
		return true
	})
	return old
}

// Expire closes the connections that have been idle for KeepAlive at now, and
// those that their peers have closed.
func (p *H2Client) Expire(now time.Time) {
	p.mu.Lock()
	old := p.take(func(c *h2conn) bool { return now.Sub(c.idleSince) >= p.target.KeepAlive || !c.open() })
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// Retire closes idle connections now and busy ones after their last call.
func (p *H2Client) Retire() {
	p.mu.Lock()
	p.retired = true
	old := p.take(func(*h2conn) bool { return true })
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// Stats returns the number of idle connections, of requests in flight, and whether
// one dials for them.
func (p *H2Client) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PoolStats{Busy: p.permits.InUse(), Dialing: len(p.dialling), Waiting: p.permits.Waiting()}
	for _, c := range p.conns {
		if c.calls == 0 {
			s.Idle++
		}
	}
	return s
}
