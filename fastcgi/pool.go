package fastcgi

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
)

// conn is one connection to the application. Whoever took it from the pool owns
// it, and must put or drop it.
type conn struct {
	nc     net.Conn
	br     *bufio.Reader
	since  time.Time // when it became idle
	reused bool
}

// pool holds the connections of one client. A permit is held for each socket
// that is busy or being dialled, and a dial begins only while none is idle. As a
// connection turns idle before its permit is given back, all sockets together
// never exceed the number of permits (R-FCGI-9).
type pool struct {
	target  extproc.Target
	kept    int // most idle connections
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	permits *budget.Permits

	mu      sync.Mutex
	idle    []*conn // oldest first
	retired bool
}

// Life of a connection: dialled under a permit, used, put back idle or dropped;
// from idle it is taken, expired, or closed because it spoke or died unasked.

// acquire takes an idle connection, or dials one, before deadline.
func (p *pool) acquire(ctx context.Context, deadline time.Time) (*conn, error) {
	if err := p.permits.Acquire(ctx, time.Until(deadline)); err != nil {
		if ctx.Err() != nil {
			return nil, exchange.ErrClientGone
		}
		return nil, exchange.Fail(503, "fcgi_unavailable", "%d connections to %s are busy: %w",
			p.permits.Max(), p.target.Address, err)
	}
	for {
		cn := p.pop()
		if cn == nil {
			break
		}
		if time.Since(cn.since) < p.target.KeepAlive && quiet(cn) {
			cn.reused = true
			return cn, nil
		}
		cn.nc.Close()
	}
	cn, err := p.connect(ctx, deadline)
	if err != nil {
		p.permits.Release()
		return nil, err
	}
	return cn, nil
}

// connect dials under a permit that the caller holds.
func (p *pool) connect(ctx context.Context, deadline time.Time) (*conn, error) {
	dctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	nc, err := p.dial(dctx, p.target.Network, p.target.Address)
	for wait := time.Millisecond; errors.Is(err, syscall.EAGAIN) && sleep(dctx, wait); wait = min(2*wait, 50*time.Millisecond) {
		// The backlog of a Unix socket is full: Linux does not wait for room.
		nc, err = p.dial(dctx, p.target.Network, p.target.Address)
	}
	if err == nil {
		return &conn{nc: nc, br: bufio.NewReaderSize(nc, 8<<10)}, nil
	}
	if ctx.Err() != nil {
		return nil, exchange.ErrClientGone
	}
	// Both at once: a group may try its next peer, and 503 is the answer if
	// there is none.
	var ne net.Error
	timeout := errors.As(err, &ne) && ne.Timeout() || dctx.Err() != nil
	return nil, &exchange.Error{Status: 503, Reason: "fcgi_unavailable",
		Err: &extproc.DialError{Addr: p.target.Address, Timeout: timeout, Err: err}}
}

// pop takes the newest idle connection, nil if there is none.
func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	cn := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return cn
}

// put gives back a connection whose request ended cleanly.
func (p *pool) put(cn *conn) {
	cn.since = time.Now()
	p.mu.Lock()
	keep := !p.retired && p.target.KeepAlive > 0 && len(p.idle) < p.kept
	if keep {
		p.idle = append(p.idle, cn)
	}
	p.mu.Unlock()
	if !keep {
		cn.nc.Close()
	}
	p.permits.Release()
}

// drop closes a connection; its capacity is free at once.
func (p *pool) drop(cn *conn) {
	cn.nc.Close()
	p.permits.Release()
}

// expire closes the connections that are idle for too long, oldest first.
func (p *pool) expire(now time.Time) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].since) >= p.target.KeepAlive {
		n++
	}
	old := append([]*conn(nil), p.idle[:n]...)
	kept := copy(p.idle, p.idle[n:])
	clear(p.idle[kept:])
	p.idle = p.idle[:kept]
	p.mu.Unlock()
	closeAll(old) // without the lock
}

// retire closes what is idle, and lets nothing become idle any more.
func (p *pool) retire() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.retired = nil, true
	p.mu.Unlock()
	closeAll(idle)
}

func (p *pool) stats() extproc.PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return extproc.PoolStats{Idle: len(p.idle), Busy: p.permits.InUse()}
}

// sleep waits for d and reports whether ctx lasted so long.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func closeAll(conns []*conn) {
	for _, cn := range conns {
		cn.nc.Close()
	}
}

// quiet reports whether an idle connection is alive and has nothing to read:
// bytes, or an end, that come between two requests belong to neither. It does
// not block.
func quiet(cn *conn) bool {
	sc, ok := cn.nc.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		alive = err == syscall.EAGAIN
		return true
	})
	return err == nil && alive
}
