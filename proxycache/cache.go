// Package proxycache is the handler of proxy contexts with a cache: it answers from
// what upstreams have sent before, as RFC 9111 permits a shared cache to, and stands
// before another handler that asks them. What may be kept and reused is decided by
// package freshness, and kept by package store. It knows no policy of applications:
// LSCache fields are another cache's, and taken off proxied responses before this one
// sees them.
package proxycache

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/store"
)

const (
	maxWait      = 10 * time.Second // for another request that asks for the same (R-CACHE-10)
	maxBody      = time.Second      // from its head on: its client may be slow
	maxRefreshes = 8                // at once, of one cache (R-CACHE-9)
	refreshTime  = time.Minute      // of one
	sweepEvery   = 30 * time.Second
)

// Options bound a Cache.
type Options struct {
	MaxEntries int   // responses; 0: MaxBytes alone bounds it
	MaxBytes   int64 // memory of all, bytes; 0: 128 MiB
	Counts     *Counts
}

// Counts are what caches have done. One value may serve several caches, and outlives
// them.
type Counts struct {
	Hits, Misses, Revalidations atomic.Uint64

	evicted atomic.Uint64 // by caches that are retired
}

// Cache is what handlers of one identity keep. It outlives generations.
type Cache struct {
	store   *store.Store
	flights store.Flights
	passes  passes
	counts  *Counts

	ctx    context.Context // of refreshes
	cancel context.CancelFunc

	swept time.Time // by Expire

	mu        sync.Mutex
	retired   bool
	refreshes int
	running   sync.WaitGroup
}

// New returns an empty cache.
func New(o Options) *Cache {
	c := &Cache{store: store.New(store.Options{MaxBytes: o.MaxBytes, MaxEntries: o.MaxEntries}), counts: o.Counts}
	if c.counts == nil {
		c.counts = &Counts{}
	}
	c.passes.seed = maphash.MakeSeed()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Retire gives up what is kept and ends refreshes; handlers that still have the cache
// find it empty, and put nothing into it.
func (c *Cache) Retire() {
	c.mu.Lock()
	c.retired = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	c.store.Clear()
	c.counts.evicted.Add(c.store.Counts().Evicted)
}

// Expire drops what is purged, or too old to be of use, every sweepEvery. It is called
// more often, by one goroutine.
func (c *Cache) Expire(now time.Time) {
	if now.Sub(c.swept) >= sweepEvery {
		c.swept = now
		c.store.Sweep(now)
	}
}

// Usage tells what is kept now.
func (c *Cache) Usage() store.Counts { return c.store.Counts() }

// Evicted is how many responses had to go for others, of these caches and of all that
// were retired.
func (n *Counts) Evicted(caches []*Cache) uint64 {
	sum := n.evicted.Load()
	for _, c := range caches {
		sum += c.store.Counts().Evicted
	}
	return sum
}

// put stores o unless the cache is retired.
func (c *Cache) put(o store.Object, t store.Ticket) {
	c.mu.Lock()
	retired := c.retired
	c.mu.Unlock()
	if !retired {
		c.store.Put(o, t)
	}
}

// invalidate makes all variants of a key gone, and those that are on their way.
func (c *Cache) invalidate(key string) {
	c.store.Purge(key, false)
	c.store.Delete(key)
}

// passes remembers, for a minute or two, keys whose response was not kept lately, so
// that nobody waits in vain for the next one. It is of fixed size, and may forget.
type passes struct {
	seed maphash.Seed
	slot [1024]atomic.Uint64 // hash of the key, the minute in the low bits
}

const minuteBits = 16

func (p *passes) note(key []byte, now time.Time) {
	h := maphash.Bytes(p.seed, key)
	p.slot[h%uint64(len(p.slot))].Store(h>>minuteBits<<minuteBits | minute(now))
}

func (p *passes) has(key []byte, now time.Time) bool {
	h := maphash.Bytes(p.seed, key)
	v := p.slot[h%uint64(len(p.slot))].Load()
	return v>>minuteBits == h>>minuteBits && (minute(now)-v)&(1<<minuteBits-1) <= 1
}

func minute(now time.Time) uint64 { return uint64(now.Unix()/60) & (1<<minuteBits - 1) }
