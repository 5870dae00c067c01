package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tooSlow is what is told as slow. It decides nothing: the machine may be busy.
const tooSlow = 5 * time.Second

// conversations take their time.
var conversations = []string{"events", "websocket", "websocket long", "slow client"}

// A wrong answer is one that should have been another.
type wrong struct{ error }

func (w wrong) Unwrap() error { return w.error }

func wrongf(format string, a ...any) error { return wrong{fmt.Errorf(format, a...)} }

// An excuse is a failure that had to be expected.
type excuse struct {
	what string
	error
}

// A ledger counts what became of requests. Any goroutine may use it.
type ledger struct {
	mu     sync.Mutex
	kinds  map[string]*kind
	faults []string // of everything that is not a request

	total, bad atomic.Int64
	notes      [3]atomic.Int64 // reloads, upgrades, upstreams killed
}

const (
	reloaded = iota
	upgraded
	killed
)

// kind is one kind of traffic.
type kind struct {
	asked, lost, wrong, slow int
	excused                  map[string]int
	samples                  []string      // the first failures
	longest                  time.Duration // of those that were answered
	times                    [32]int       // answers by the power of two of their microseconds
}

// samplesKept is how many failures of a kind are told.
const samplesKept = 5

// note counts a request that began then.
func (l *ledger) note(name string, began time.Time, err error) {
	took := time.Since(began)
	l.total.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[name]
	if k == nil {
		if l.kinds == nil {
			l.kinds = map[string]*kind{}
		}
		k = &kind{excused: map[string]int{}}
		l.kinds[name] = k
	}
	k.asked++
	if x, ok := errors.AsType[excuse](err); ok {
		k.excused[x.what]++
		return
	}
	if err == nil {
		k.longest = max(k.longest, took)
		i := 0
		for us := took.Microseconds(); us > 0 && i < len(k.times)-1; us >>= 1 {
			i++
		}
		k.times[i]++
		if took > tooSlow && !slices.Contains(conversations, name) {
			k.slow++
		}
		return
	}
	what := "lost"
	if _, ok := errors.AsType[wrong](err); ok {
		what = "wrong"
		k.wrong++
	} else {
		k.lost++
	}
	l.bad.Add(1)
	if len(k.samples) < samplesKept {
		k.samples = append(k.samples, fmt.Sprintf("%s %s after %v: %v", began.Format("15:04:05.000"), what, took.Round(time.Millisecond), err))
	}
}

// fault notes what is wrong beside requests.
func (l *ledger) fault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bad.Add(1)
	l.faults = append(l.faults, err.Error())
}

// quantile is the time within which that part of the answers came, rounded up to a
// power of two.
func (k *kind) quantile(q float64) time.Duration {
	n := 0
	for _, c := range k.times {
		n += c
	}
	left := int(q * float64(n))
	for i, c := range k.times {
		if left -= c; left < 0 {
			return min(time.Duration(1<<i)*time.Microsecond, k.longest)
		}
	}
	return k.longest
}

// print tells all kinds and returns the number of lost and wrong ones.
func (l *ledger) print() (lost, wrong int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Printf("\n%-16s %9s %6s %6s %6s %8s %9s %9s %9s\n", "kind", "requests", "lost", "wrong", "slow", "excused", "p50", "p99", "longest")
	var samples, excuses []string
	for _, name := range slices.Sorted(maps.Keys(l.kinds)) {
		k := l.kinds[name]
		excused := 0
		for what, n := range k.excused {
			excused += n
			excuses = append(excuses, fmt.Sprintf("%s: %d %s", name, n, what))
		}
		ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1e3) }
		fmt.Printf("%-16s %9d %6d %6d %6d %8d %9s %9s %9s\n", name, k.asked, k.lost, k.wrong, k.slow, excused, ms(k.quantile(.5)), ms(k.quantile(.99)), ms(k.longest))
		lost, wrong = lost+k.lost, wrong+k.wrong
		for _, text := range k.samples {
			samples = append(samples, name+" "+text)
		}
	}
	slices.Sort(excuses)
	if len(excuses) > 0 {
		fmt.Println("\nexcused:\n  " + strings.Join(excuses, "\n  "))
	}
	if len(samples) > 0 {
		fmt.Println("\nfirst failures:\n  " + strings.Join(samples, "\n  "))
	}
	return lost, wrong
}
