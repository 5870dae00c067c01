package access

import (
	"container/list"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// RateOptions are a limit of the requests of each client (clientRateLimit, R-RATE-2).
// They are the identity of what is remembered: a changed number begins anew.
type RateOptions struct {
	Scope     string // whose limit it is: the label of metrics
	PerMinute int    // requests a minute; at least 1
	Burst     int    // requests that may come at once; at least 1
	Most      int    // clients that are remembered; at least 1
	Prefix    int    // bits by which an IPv6 client is known, 48 to 128
}

// rateShards divide a large table among as many locks.
const rateShards = 16

// Rate is a bucket of tokens for each client: Burst of them at most, PerMinute are
// added a minute, a request takes one. At most Most clients are remembered; when
// there are more, one whose bucket is full is forgotten first, for that changes
// nothing for it, and of those the one that has been away longest. It outlives
// generations; any number of goroutines may use it.
type Rate struct {
	o      RateOptions
	every  int64 // nanoseconds of a token
	most   int   // clients of a shard
	seed   maphash.Seed
	shards []rateShard

	rejected atomic.Uint64
}

type rateShard struct {
	mu  sync.Mutex
	m   map[netip.Addr]*list.Element // of *bucket
	lru list.List                    // the latest first
}

// bucket is that of a client: full at the time full, and by one token less for each
// Rate.every before it.
type bucket struct {
	client netip.Addr
	full   int64 // Unix nanoseconds
}

// NewRate returns a limit under which every bucket is full.
func NewRate(o RateOptions) *Rate {
	if o.PerMinute < 1 || o.Burst < 1 || o.Most < 1 || o.Prefix < 48 || o.Prefix > 128 {
		panic("BUG: access: rate out of range")
	}
	n := 1
	if o.Most >= 64*rateShards {
		n = rateShards
	}
	return &Rate{o: o, every: max(1, int64(time.Minute)/int64(o.PerMinute)), most: o.Most / n, seed: maphash.MakeSeed(), shards: make([]rateShard, n)}
}

// Take takes a token of a client. If there is none it returns how long it is until
// there is one.
func (r *Rate) Take(a netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	a, t := r.key(a), now.UnixNano()
	s := r.shard(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of(a, r.most, t)
	size := int64(r.o.Burst) * r.every
	full := min(max(b.full, t), t+size) + r.every // a clock that stepped back empties it, no more
	if wait := full - size - t; wait > 0 {
		r.rejected.Add(1)
		return time.Duration(wait), false
	}
	b.full = full
	return 0, true
}

// key is what a client is known by. All whose address is unknown are one.
func (r *Rate) key(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(r.o.Prefix)
		return p.Addr()
	}
	return a
}

func (r *Rate) shard(a netip.Addr) *rateShard {
	if len(r.shards) == 1 {
		return &r.shards[0]
	}
	return &r.shards[maphash.Comparable(r.seed, a)%uint64(len(r.shards))]
}

// of returns the bucket of a client, with the lock held. There are most at most.
func (s *rateShard) of(a netip.Addr, most int, t int64) *bucket {
	if e := s.m[a]; e != nil {
		s.lru.MoveToFront(e)
		return e.Value.(*bucket)
	}
	if s.m == nil {
		s.m = map[netip.Addr]*list.Element{}
	}
	if len(s.m) < most {
		b := &bucket{client: a}
		s.m[a] = s.lru.PushFront(b)
		return b
	}
	e := s.victim(t)
	b := e.Value.(*bucket)
	delete(s.m, b.client)
	*b = bucket{client: a}
	s.m[a] = e
	s.lru.MoveToFront(e)
	return b
}

// victim is the client that is forgotten: of the few that have been away longest the
// first whose bucket is full, else the first.
func (s *rateShard) victim(t int64) *list.Element {
	e := s.lru.Back()
	for range 32 {
		if e == nil {
			break
		}
		if e.Value.(*bucket).full <= t {
			return e
		}
		e = e.Prev()
	}
	return s.lru.Back()
}

// Options returns what the limit was made of.
func (r *Rate) Options() RateOptions { return r.o }

// Rejected is the number of requests that had no token; it only grows.
func (r *Rate) Rejected() uint64 { return r.rejected.Load() }

// Tracked is the number of clients that are remembered.
func (r *Rate) Tracked() int {
	n := 0
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		n += len(s.m)
		s.mu.Unlock()
	}
	return n
}

// Retire is that of keep.Map: there is nothing to end.
func (r *Rate) Retire() {}
