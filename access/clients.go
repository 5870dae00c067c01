package access

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// ClientLimits bound what one client address may have (perClientConnLimit, LSX 2.6). A
// number that is 0 bounds nothing.
type ClientLimits struct {
	Soft, Hard int           // connections: over Soft for longer than Grace leads to a ban, Hard is the most
	Grace, Ban time.Duration // Ban 0: refused only while it is over Soft
	BanBad     bool          // clients that keep sending malformed requests are banned

	Static, Dynamic int   // requests a second; more wait for their second
	Out, In         int64 // bytes a second of bodies
}

// Connections reports whether the limits are about connections.
func (l *ClientLimits) Connections() bool { return l.Soft > 0 || l.Hard > 0 || l.BanBad }

// Requests reports whether the limits are about requests.
func (l *ClientLimits) Requests() bool { return l.Static > 0 || l.Dynamic > 0 || l.Out > 0 || l.In > 0 }

// Exempt reports whether nothing bounds a, besides trusted proxies: this machine itself,
// which LiteSpeed trusts unless told otherwise.
func Exempt(a netip.Addr) bool { return a.Unmap().IsLoopback() }

const (
	maxClients = 1 << 17          // addresses that are known at once
	shards     = 16               // each with a lock of its own
	maxQueue   = 10 * time.Second // how long a request waits for its second, at most
	badMost    = 10               // malformed requests within Grace that lead to a ban
	burst      = time.Second      // of bytes that may go at once after a silence
)

// Clients remembers what client addresses do: connections, bans, rates. It outlives
// generations, so that a reload forgives nothing. IPv6 clients are known by their /64.
// The zero value is ready; any number of goroutines may use it. What is known of an
// address without connections may be forgotten when there are too many.
type Clients struct {
	seed   maphash.Seed
	once   sync.Once
	shards [shards]clientShard

	refused, banned, delayed, limited atomic.Int64
}

type clientShard struct {
	mu sync.Mutex
	m  map[netip.Addr]*client
}

// client is what is known of one address. Times are Unix nanoseconds, 0 for never.
type client struct {
	conns  int
	over   int64 // since when conns is above the soft limit
	banned int64 // end of the ban
	bad    int   // malformed requests since badAt
	badAt  int64

	seconds [2]second // of static and dynamic requests
	bytes   [2]int64  // when the bytes of answers and of bodies that were let through have gone at the rate
}

// second is the last second in which requests were let through, and how many.
type second struct {
	unix int64
	used int
}

// ClientStats are the counters of Clients; they only grow.
type ClientStats struct {
	Refused int64 // connections closed at once
	Banned  int64 // bans
	Delayed int64 // requests that waited for their second
	Limited int64 // requests answered 429
}

// Snapshot returns the counters.
func (c *Clients) Snapshot() ClientStats {
	return ClientStats{c.refused.Load(), c.banned.Load(), c.delayed.Load(), c.limited.Load()}
}

// key is the address by which a client is known.
func key(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr()
	}
	return a
}

// lock returns the shard of an address, locked.
func (c *Clients) lock(a netip.Addr) *clientShard {
	c.once.Do(func() { c.seed = maphash.MakeSeed() })
	b := a.As16()
	s := &c.shards[maphash.Bytes(c.seed, b[:])%shards]
	s.mu.Lock()
	return s
}

// of returns what is known of a client. When there is no room, one without
// connections is forgotten: the one, of a few, that has done nothing for longest.
func (s *clientShard) of(a netip.Addr, now int64) *client {
	if cl := s.m[a]; cl != nil {
		return cl
	}
	if s.m == nil {
		s.m = map[netip.Addr]*client{}
	}
	if len(s.m) >= maxClients/shards {
		s.forget(now)
	}
	cl := &client{}
	s.m[a] = cl
	return cl
}

func (s *clientShard) forget(now int64) {
	var victim netip.Addr
	least, looked := int64(0), 0
	for a, cl := range s.m {
		if looked++; looked > 64 && victim.IsValid() || looked > 1024 {
			break
		}
		if cl.conns > 0 {
			continue
		}
		worth := max(cl.banned, cl.badAt, cl.seconds[0].unix*1e9, cl.seconds[1].unix*1e9, cl.bytes[0], cl.bytes[1])
		if !victim.IsValid() || worth < least {
			victim, least = a, worth
		}
		if worth <= now-int64(time.Minute) {
			break
		}
	}
	delete(s.m, victim)
}

// drop forgets a client of whom nothing is worth knowing.
func (s *clientShard) drop(a netip.Addr, cl *client, now int64) {
	if cl.conns == 0 && cl.banned <= now && cl.bad == 0 && cl.seconds[0].unix*1e9 < now && cl.seconds[1].unix*1e9 < now && cl.bytes[0] < now && cl.bytes[1] < now {
		delete(s.m, a)
	}
}

// Open counts a connection of a and reports whether it may stay. If so, Close is to be
// called at its end; if not, it is to be closed now.
func (c *Clients) Open(a netip.Addr, l *ClientLimits, now time.Time) bool {
	a, t := key(a), now.UnixNano()
	s := c.lock(a)
	defer s.mu.Unlock()
	cl := s.of(a, t)
	if cl.banned > t || l.Hard > 0 && cl.conns >= l.Hard || !c.within(cl, l, t) {
		s.drop(a, cl, t)
		c.refused.Add(1)
		return false
	}
	cl.conns++
	return true
}

// within applies the soft limit to one connection more.
func (c *Clients) within(cl *client, l *ClientLimits, t int64) bool {
	if l.Soft <= 0 || cl.conns < l.Soft {
		cl.over = 0
		return true
	}
	if cl.over == 0 {
		cl.over = t
	}
	if t-cl.over <= int64(l.Grace) {
		return true
	}
	c.ban(cl, l, t)
	return false
}

func (c *Clients) ban(cl *client, l *ClientLimits, t int64) {
	if l.Ban > 0 {
		cl.banned = t + int64(l.Ban)
		cl.over, cl.bad = 0, 0
		c.banned.Add(1)
	}
}

// Close counts the end of a connection.
func (c *Clients) Close(a netip.Addr, now time.Time) {
	a = key(a)
	s := c.lock(a)
	defer s.mu.Unlock()
	cl := s.m[a]
	if cl == nil || cl.conns == 0 {
		panic("BUG: access: a connection ends that was not counted")
	}
	cl.conns--
	s.drop(a, cl, now.UnixNano())
}

// Bad counts a malformed request of a, who is banned for too many of them.
func (c *Clients) Bad(a netip.Addr, l *ClientLimits, now time.Time) {
	if !l.BanBad || l.Ban <= 0 {
		return
	}
	a, t := key(a), now.UnixNano()
	s := c.lock(a)
	defer s.mu.Unlock()
	cl := s.of(a, t)
	if t-cl.badAt > int64(l.Grace) {
		cl.badAt, cl.bad = t, 0
	}
	if cl.bad++; cl.bad >= badMost {
		c.ban(cl, l, t)
	}
}

// Delay returns how long a request has to wait until it is in a second that has room
// for it; false if that is so long that it is not to be served at all.
func (c *Clients) Delay(a netip.Addr, l *ClientLimits, dynamic bool, now time.Time) (time.Duration, bool) {
	most, i := l.Static, 0
	if dynamic {
		most, i = l.Dynamic, 1
	}
	if most <= 0 {
		return 0, true
	}
	a, t := key(a), now.UnixNano()
	s := c.lock(a)
	defer s.mu.Unlock()
	sec := &s.of(a, t).seconds[i]
	at := *sec
	switch {
	case at.unix < now.Unix():
		at = second{now.Unix(), 1}
	case at.used < most:
		at.used++
	default:
		at = second{at.unix + 1, 1}
	}
	wait := time.Duration(max(0, at.unix*1e9-t))
	if wait > maxQueue {
		c.limited.Add(1)
		return wait, false
	}
	if *sec = at; wait > 0 {
		c.delayed.Add(1)
	}
	return wait, true
}

// Spend counts n bytes of the body of an answer, or of a request, and returns how long
// to wait until as much as that has gone at the rate.
func (c *Clients) Spend(a netip.Addr, l *ClientLimits, in bool, n int, now time.Time) time.Duration {
	rate, i := l.Out, 0
	if in {
		rate, i = l.In, 1
	}
	if rate <= 0 || n <= 0 {
		return 0
	}
	a, t := key(a), now.UnixNano()
	s := c.lock(a)
	defer s.mu.Unlock()
	cl := s.of(a, t)
	gone := max(cl.bytes[i], t-int64(burst)) + int64(float64(n)/float64(rate)*1e9)
	cl.bytes[i] = gone
	return time.Duration(max(0, gone-t))
}
