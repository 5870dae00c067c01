package gateway

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
)

// pool holds the connections of one client. A permit is held for each socket
// that is busy or being dialled, and a dial begins only while none is idle. As a
// connection turns idle before its permit is given back, all sockets together
// never exceed the number of permits (R-FCGI-9).
type pool struct {
	target extproc.Target
	// unavailable is the reason token for want of a connection.
	unavailable string
	stream      func(*bufio.Reader) Stream
	kept        int // most idle connections
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
	permits     *budget.Permits
	dialing     atomic.Int32
	place       *place // where the application is, shared with other clients of it
	again       Again
	counts      *Counts
	refused     atomic.Int64 // Unix nanoseconds of the first of the dials that are refused; 0: none is

	// keeps: the application has answered on a kept connection, and has not closed one
	// unasked since. Some close each, whatever KEEP_CONN says, a moment after its answer.
	keeps atomic.Bool

	mu      sync.Mutex
	idle    []*conn // oldest first
	retired bool
}

// closesWithin is when an application that keeps no connections has closed one, after
// its answer.
const closesWithin = 100 * time.Millisecond

// Life of a connection: dialled under a permit, used, put back idle or dropped;
// from idle it is taken, expired, or closed because it spoke or died unasked.

// acquire takes an idle connection, or dials one, within InitTimeout. now is the
// time when it has it, or has failed. alone: no other peer could have the call. unseen: the caller finds out itself if an idle one is
// still fit for use. once: the request cannot be sent again, so while nothing shows
// that the application keeps connections, one that it may be closing is none for it.
func (p *pool) acquire(ctx context.Context, began time.Time, unseen, once, alone bool) (cn *conn, now time.Time, spent exchange.Phases, err error) {
	waited, err := p.permit(ctx)
	if err != nil {
		return nil, time.Now(), spent, err
	}
	if now = began; waited {
		now = time.Now()
		spent.Queue = now.Sub(began)
	}
	for {
		cn := p.pop()
		if cn == nil {
			break
		}
		idle := now.Sub(cn.since)
		switch fresh := idle < closesWithin && !p.keeps.Load(); {
		case idle >= p.target.KeepAlive || once && fresh:
		case unseen && cn.raw != nil || cn.quiet():
			cn.reused = true
			return cn, now, spent, nil
		default:
			p.keeps.Store(false)
			p.counts.Unfit.Add(1)
		}
		cn.nc.Close()
	}
	cn, err = p.connect(ctx, began.Add(p.target.InitTimeout), alone)
	if err != nil {
		p.permits.Release()
		return nil, time.Now(), spent, err
	}
	dialled := time.Now()
	spent.Dial = dialled.Sub(now)
	return cn, dialled, spent, nil
}

// permit takes a permit and reports whether that took time.
func (p *pool) permit(ctx context.Context) (waited bool, err error) {
	if p.permits.TryAcquire() {
		return false, nil
	}
	if err := p.permits.Acquire(ctx, p.target.InitTimeout); err != nil {
		if ctx.Err() != nil {
			return false, exchange.ErrClientGone
		}
		return false, exchange.Fail(503, p.unavailable, "%d connections to %s are busy: %w",
			p.permits.Max(), p.target.Address, err)
	}
	return true, nil
}

// connect dials under a permit that the caller holds.
func (p *pool) connect(ctx context.Context, deadline time.Time, alone bool) (*conn, error) {
	dctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	p.dialing.Add(1)
	defer p.dialing.Add(-1)
	nc, err := p.dial(dctx, p.target.Network, p.target.Address)
	for err != nil && alone && p.comesBack(err) && pause(dctx, p.again.Every) {
		p.counts.Redials.Add(1)
		nc, err = p.dial(dctx, p.target.Network, p.target.Address)
	}
	if err == nil {
		if p.refused.Load() != 0 {
			p.refused.Store(0)
		}
		return newConn(nc, p.stream), nil
	}
	if ctx.Err() != nil {
		return nil, exchange.ErrClientGone
	}
	// Both at once: a group may try its next peer, and 503 is the answer if
	// there is none.
	e := &exchange.Error{Status: 503, Reason: p.unavailable, Err: extproc.NewDialError(dctx, p.target.Address, err)}
	if why, ok := errors.AsType[*exchange.Error](err); ok { // that of a started application says when it may be back
		e.Fields = why.Fields
	}
	return nil, e
}

// comesBack reports whether a dial that failed with err is to be tried again: the
// application is not there, and has not been away for longer than it may take to come
// back (R-LSAPI-3).
func (p *pool) comesBack(err error) bool {
	if p.again.Refused <= 0 || !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOENT) {
		return false
	}
	now := time.Now()
	if p.refused.CompareAndSwap(0, now.UnixNano()) {
		return true
	}
	return now.UnixNano()-p.refused.Load() < int64(p.again.Refused)
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
	cn.cv, cn.since = nil, time.Now()
	cn.stream.End()
	if p.place.pay() {
		p.drop(cn)
		return
	}
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
	p.place.settle()
}

// remove takes cn out of the idle ones, false if it is not one.
func (p *pool) remove(cn *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.idle, cn)
	if i < 0 {
		return false
	}
	p.idle = slices.Delete(p.idle, i, i+1)
	return true
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
	dialing := int(p.dialing.Load())
	return extproc.PoolStats{Idle: len(p.idle), Busy: max(0, p.permits.InUse()-dialing), Dialing: dialing, Waiting: p.permits.Waiting()}
}

func closeAll(conns []*conn) {
	for _, cn := range conns {
		cn.nc.Close()
	}
}
