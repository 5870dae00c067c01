package access

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// R-RATE-2: burst at once, then one for each interval.
func TestRateIsABucketOfEachClient(t *testing.T) {
	r := NewRate(RateOptions{PerMinute: 60, Burst: 3, Most: 100, Prefix: 64})
	now := time.Unix(1_000_000, 0)
	take := func(a string, at time.Duration, want time.Duration) {
		t.Helper()
		wait, ok := r.Take(addr(a), now.Add(at))
		if ok != (want == 0) || wait != want {
			t.Errorf("%s after %v: %v %v, want a wait of %v", a, at, ok, wait, want)
		}
	}
	for range 3 {
		take("192.0.2.1", 0, 0)
	}
	take("192.0.2.1", 0, time.Second)
	take("192.0.2.1", 400*time.Millisecond, 600*time.Millisecond)
	take("192.0.2.2", 0, 0)
	take("192.0.2.1", time.Second, 0)
	take("192.0.2.1", time.Second, time.Second)
	take("::ffff:192.0.2.1", time.Second, time.Second) // the same client
	for range 3 {                                      // never more than burst, however long it was away
		take("192.0.2.1", time.Hour, 0)
	}
	take("192.0.2.1", time.Hour, time.Second)
	take("192.0.2.1", 30*time.Minute, time.Second) // a clock that steps back shuts nobody out
	if r.Rejected() != 6 || r.Tracked() != 2 {
		t.Errorf("%d rejected, %d tracked", r.Rejected(), r.Tracked())
	}
}

// R-RATE-3: an IPv6 client is its network; clients without an address are one.
func TestRateKnowsClientsByPrefix(t *testing.T) {
	for _, c := range []struct {
		prefix int
		a, b   string
		same   bool
	}{
		{64, "2001:db8::1", "2001:db8::ffff", true},
		{64, "2001:db8::1", "2001:db8:0:1::1", false},
		{48, "2001:db8::1", "2001:db8:0:1::1", true},
		{128, "2001:db8::1", "2001:db8::2", false},
		{64, "fe80::1%eth0", "fe80::1%eth1", true},
		{48, "192.0.2.1", "192.0.2.2", false},
	} {
		r := NewRate(RateOptions{PerMinute: 1, Burst: 1, Most: 10, Prefix: c.prefix})
		r.Take(addr(c.a), time.Unix(1, 0))
		if _, ok := r.Take(addr(c.b), time.Unix(1, 0)); ok == c.same {
			t.Errorf("/%d %s %s: ok %v", c.prefix, c.a, c.b, ok)
		}
	}
	r := NewRate(RateOptions{PerMinute: 1, Burst: 1, Most: 10, Prefix: 64})
	r.Take(netip.Addr{}, time.Unix(1, 0))
	if _, ok := r.Take(netip.Addr{}, time.Unix(1, 0)); ok {
		t.Error("clients without an address are not limited")
	}
}

// R-RATE-3: the table is bounded, and a full bucket is forgotten before one that limits.
func TestRateForgetsFullBucketsFirst(t *testing.T) {
	r := NewRate(RateOptions{PerMinute: 60, Burst: 1, Most: 4, Prefix: 64})
	now := time.Unix(1000, 0)
	r.Take(addr("192.0.2.1"), now) // full again after a second
	r.Take(addr("192.0.2.2"), now.Add(-time.Hour))
	r.Take(addr("192.0.2.3"), now)
	r.Take(addr("192.0.2.4"), now)
	r.Take(addr("192.0.2.5"), now) // in the place of .2
	if _, ok := r.Take(addr("192.0.2.1"), now); ok {
		t.Error("an empty bucket was forgotten although there was a full one")
	}
	for i := range 1000 {
		r.Take(addr(fmt.Sprintf("198.51.%d.%d", i/250, i%250)), now)
	}
	if n := r.Tracked(); n != 4 {
		t.Errorf("%d clients remembered, at most 4", n)
	}
}

func TestRateTableIsBounded(t *testing.T) {
	const most = 64 * rateShards
	r := NewRate(RateOptions{PerMinute: 1, Burst: 1, Most: most, Prefix: 128})
	a := [16]byte{0x20, 1, 0xd, 0xb8}
	for i := range 8 * most {
		a[14], a[15] = byte(i>>8), byte(i)
		r.Take(netip.AddrFrom16(a), time.Unix(1, 0))
	}
	if n := r.Tracked(); n > most || n < most*3/4 {
		t.Errorf("%d clients remembered, at most %d", n, most)
	}
}

func TestRateUnderConcurrency(t *testing.T) {
	r := NewRate(RateOptions{PerMinute: 1, Burst: 100, Most: 1 << 16, Prefix: 64})
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if _, ok := r.Take(addr("192.0.2.1"), time.Unix(1, 0)); ok {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 100 || r.Rejected() != 700 {
		t.Errorf("%d passed, %d rejected", passed.Load(), r.Rejected())
	}
}

func TestRateOfAKnownClientAllocatesNothing(t *testing.T) {
	r := NewRate(RateOptions{PerMinute: 1_000_000, Burst: 1_000_000, Most: 1 << 16, Prefix: 64})
	a := addr("2001:db8::1")
	if n := testing.AllocsPerRun(1000, func() { r.Take(a, time.Unix(1, 0)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRate(b *testing.B) {
	r := NewRate(RateOptions{PerMinute: 1_000_000, Burst: 1_000_000, Most: 1 << 16, Prefix: 64})
	a := addr("2001:db8::1")
	for b.Loop() {
		r.Take(a, time.Unix(1, 0))
	}
}
