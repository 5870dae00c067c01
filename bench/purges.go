package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"httpjet/store"
)

// What is in the store that is measured: entries that are purged, and those that are hits
// meanwhile.
const (
	storeCold = 1_000_000
	storeHot  = 100_000
)

// lookUps is CPU time of a look-up among storeHot keys.
func (b *bench) lookUps(ctx context.Context, c cores, e entry, _ *running) (sample, error) {
	return b.ofStore(ctx, c, "look-up", func(r result) float64 { return r.Seconds * 1e9 / float64(r.Work) })
}

// purged is how long a purge, or a sweep, of storeCold entries takes.
func (b *bench) purged(ctx context.Context, c cores, e entry, _ *running) (sample, error) {
	return b.ofStore(ctx, c, e.path, func(r result) float64 { return r.Seconds * 1000 })
}

// stalled is the 99th percentile of look-ups while that goes on.
func (b *bench) stalled(ctx context.Context, c cores, e entry, _ *running) (sample, error) {
	return b.ofStore(ctx, c, e.path, func(r result) float64 { return r.P99 * 1000 })
}

func (b *bench) ofStore(ctx context.Context, c cores, what string, value func(result) float64) (sample, error) {
	long := *b
	long.seconds += 240 // a store of a million entries is filled first
	r, err := long.own(ctx, c, "store", what)
	return sample{Value: value(r), Work: r.Work, Seconds: r.Seconds, P99: r.P99}, err
}

// storeKey is key number i of a kind, as those of pages are.
func storeKey(b []byte, kind string, i int) []byte {
	b = append(append(append(b[:0], "example\x00https\x00www.example.org\x00/"...), kind...), '/')
	return strconv.AppendInt(b, int64(i), 10)
}

func fillStore(s *store.Store, kind string, n int, until time.Time) {
	for i := range n {
		key := string(storeKey(nil, kind, i))
		s.Put(store.Object{Key: key, Status: 200, Tags: []string{kind, kind + "/" + key}, Until: until}, s.Ticket())
	}
}

// measureStore is the helper: Work is look-ups, Seconds their CPU time, or the time of the
// purge; P99 is of look-ups.
func measureStore(what string) error {
	s := store.New(store.Options{MaxBytes: 16 << 30})
	now := time.Now()
	fillStore(s, "hot", storeHot, now.Add(24*time.Hour))
	if what == "look-up" {
		runtime.GC()
		return lookUpAll(s).print()
	}
	fillStore(s, "cold", storeCold, now.Add(24*time.Hour))
	if what == "sweep" {
		s.Purge("cold", false)
	}
	runtime.GC()
	var stop atomic.Bool
	done := make(chan result)
	go lookUpTimed(s, &stop, done)
	time.Sleep(time.Second) // into its stride
	began := time.Now()
	switch what {
	case "quiet":
		time.Sleep(3 * time.Second)
	case "tag":
		s.Purge("cold", false)
	case "prefix":
		s.PurgePrefix("cold", false)
	case "sweep":
		if n := s.Sweep(now); n != storeCold {
			return fmt.Errorf("%d of %d were swept", n, storeCold)
		}
	default:
		return fmt.Errorf("nothing is called %q", what)
	}
	took := time.Since(began)
	time.Sleep(100 * time.Millisecond)
	stop.Store(true)
	r := <-done
	r.Seconds = math.Max(took.Seconds(), 1e-9)
	return r.print()
}

// lookUpAll looks up hot keys, far from each other, one after the other.
func lookUpAll(s *store.Store) result {
	var before, after syscall.Rusage
	key := make([]byte, 0, 100)
	i, n := 0, int64(0)
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	for ; n < 3_000_000; n++ {
		key = storeKey(key, "hot", i)
		for _, e := range s.Find(key) {
			if e.State() == store.Live {
				s.Use(e)
			}
		}
		if i += 7919; i >= storeHot {
			i -= storeHot
		}
	}
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	return result{Work: n, Seconds: float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano()) / 1e9}
}

// lookUpTimed times each look-up from the second second on.
func lookUpTimed(s *store.Store, stop *atomic.Bool, done chan<- result) {
	runtime.LockOSThread()
	times := make([]int32, 0, 50_000_000)
	key := make([]byte, 0, 100)
	start := time.Now()
	for i := 0; !stop.Load() && len(times) < cap(times); {
		key = storeKey(key, "hot", i)
		began := time.Now()
		found := s.Find(key)
		for _, e := range found {
			if e.State() == store.Live {
				s.Use(e)
			}
		}
		took := time.Since(began)
		if len(found) != 1 {
			panic("BUG: " + strings.ReplaceAll(string(key), "\x00", " ") + " is not there")
		}
		if began.Sub(start) > 900*time.Millisecond {
			times = append(times, int32(min(took, math.MaxInt32)))
		}
		if i += 7919; i >= storeHot {
			i -= storeHot
		}
	}
	n := len(times)
	slices.Sort(times)
	done <- result{Work: int64(n), P99: float64(times[n*99/100]) / 1e6}
}
