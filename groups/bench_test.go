package groups

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// uses are one group of ten peers for each policy, with everything on that a
// request has to look at.
func uses() map[string]func() {
	all := map[string]func(){}
	for name, policy := range policies {
		br := Breaker{Threshold: 5, Open: time.Second, HalfOpen: 1, FailOn: failOn([]string{"transport", "timeout", "5xx"})}
		g := New(Options{Policy: policy, Peers: peers(10), State: NewState(10, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, br),
			MaxInFlight: 100, RetryTimeout: time.Second, Key: []byte("k")})
		n := uint64(0)
		all[name] = func() {
			n++
			c := Choice{Hash: mix(n)}
			if policy == Sticky {
				c.Token = g.peers[n%10].token
			}
			r, err := g.Reserve(&c)
			if err != nil {
				panic(err)
			}
			r.Answered(200)
			r.Release(nil)
		}
	}
	loaded := New(Options{Policy: WeightedLeastActive, Peers: peers(10), State: NewState(10, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Breaker{})})
	for range 40 {
		if _, err := loaded.Reserve(&Choice{}); err != nil {
			panic(err)
		}
	}
	all["weighted-least-active, 40 in flight"] = func() {
		var c Choice
		r, err := loaded.Reserve(&c)
		if err != nil {
			panic(err)
		}
		r.Answered(200)
		r.Release(nil)
	}
	even := New(Options{Policy: IPHash, Peers: peers(10)})
	n := uint64(0)
	all["ip-hash, equal weights"] = func() {
		n++
		c := Choice{Hash: mix(n)}
		r, err := even.Reserve(&c)
		if err != nil {
			panic(err)
		}
		r.Answered(200)
		r.Release(nil)
	}
	many := New(Options{Policy: WeightedRoundRobin, Peers: peers(MaxPeers)})
	all["weighted-round-robin, 256 peers"] = func() {
		var c Choice
		r, err := many.Reserve(&c)
		if err != nil {
			panic(err)
		}
		r.Answered(200)
		r.Release(nil)
	}
	one := Single(nil)
	all["single"] = func() {
		var c Choice
		r, err := one.Reserve(&c)
		if err != nil {
			panic(err)
		}
		r.Answered(200)
		r.Release(nil)
	}
	return all
}

// R-LB-10: a choice allocates nothing.
func TestNoAllocation(t *testing.T) {
	for name, use := range uses() {
		if n := testing.AllocsPerRun(100, use); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkPick reserves a peer of ten, takes its answer and releases it.
func BenchmarkPick(b *testing.B) {
	all := uses()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.Run(name, func(b *testing.B) {
			use := all[name]
			b.ReportAllocs()
			for b.Loop() {
				use()
			}
		})
	}
}
