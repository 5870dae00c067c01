package gateway

import (
	"sync"
	"sync/atomic"

	"httpjet/extproc"
)

// Places are the places at which applications listen. An application has so many
// children, and each serves one connection until it ends, be it busy or idle:
// connections that one client keeps idle may be all that another one waits for.
// Clients of one address, whatever their processors are called, therefore share
// what they know of it.
//
// The zero value is ready. It may be used by many goroutines.
type Places struct {
	mu sync.Mutex
	m  map[placeKey]*place
}

type placeKey struct{ network, address string }

// place is one address. A call on a new connection that nobody answers is hungry:
// perhaps its connection waits until a child is free. For each such call one idle
// connection is given up, or the next one that would become idle. It asks again
// while it waits, for the child may have taken another connection.
type place struct {
	owed atomic.Int32 // connections still to be given up; only changed under mu

	mu     sync.Mutex
	hungry int32
	pools  []*pool
}

// join returns the place of t for a new pool.
func (ps *Places) join(t extproc.Target, p *pool) *place {
	if ps == nil {
		return &place{pools: []*pool{p}}
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.m == nil {
		ps.m = map[placeKey]*place{}
	}
	key := placeKey{t.Network, t.Address}
	at := ps.m[key]
	if at == nil {
		at = &place{}
		ps.m[key] = at
	}
	at.mu.Lock()
	at.pools = append(at.pools, p)
	at.mu.Unlock()
	return at
}

// leave forgets a pool that keeps nothing any more. Calls that it still has out
// are known to the place by their count alone.
func (ps *Places) leave(t extproc.Target, p *pool) {
	if ps == nil {
		return
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	at := p.place
	at.mu.Lock()
	defer at.mu.Unlock()
	for i, other := range at.pools {
		if other == p {
			at.pools = append(at.pools[:i], at.pools[i+1:]...)
			break
		}
	}
	if key := (placeKey{t.Network, t.Address}); len(at.pools) == 0 && ps.m[key] == at {
		delete(ps.m, key)
	}
}

// starve notes a call that waits on a new connection; first says that it has not
// said so before.
func (at *place) starve(first bool) {
	at.mu.Lock()
	if first {
		at.hungry++
	}
	if owed := at.owed.Load(); owed < at.hungry {
		at.owed.Store(owed + 1)
	}
	at.mu.Unlock()
	at.settle()
}

// fed notes that a hungry call is answered, or over. What was owed to it is not
// owed any more.
func (at *place) fed() {
	at.mu.Lock()
	at.hungry--
	at.owed.Store(min(at.owed.Load(), at.hungry))
	at.mu.Unlock()
}

// pay reports whether a connection that could become idle is owed instead.
func (at *place) pay() bool {
	if at.owed.Load() == 0 { // nearly always
		return false
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	owed := at.owed.Load()
	if owed > 0 {
		at.owed.Store(owed - 1)
	}
	return owed > 0
}

// settle gives up idle connections while some are owed. It is called behind every
// change that may have made one idle, or owed: one of the two sees the other.
func (at *place) settle() {
	for at.owed.Load() > 0 {
		at.mu.Lock()
		cn := at.oldest(nil)
		if owed := at.owed.Load(); cn != nil && owed > 0 {
			at.owed.Store(owed - 1)
		}
		at.mu.Unlock()
		if cn == nil {
			return
		}
		cn.nc.Close() // without the lock
	}
}

// evict gives up the connection of another pool than of that is idle for the
// longest time, if there is one.
func (at *place) evict(of *pool) {
	at.mu.Lock()
	cn := at.oldest(of)
	at.mu.Unlock()
	if cn != nil {
		cn.nc.Close()
	}
}

// oldest takes the connection that is idle for the longest time, but none of the
// pool except; nil if there is none. Locks are taken in this order: the place's,
// then a pool's.
func (at *place) oldest(except *pool) *conn {
	var from *pool
	var found *conn
	for _, p := range at.pools {
		p.mu.Lock()
		if p != except && len(p.idle) > 0 && (found == nil || p.idle[0].since.Before(found.since)) {
			from, found = p, p.idle[0]
		}
		p.mu.Unlock()
	}
	if found == nil || !from.remove(found) {
		return nil // it was taken meanwhile; the next one that is put back pays
	}
	return found
}
