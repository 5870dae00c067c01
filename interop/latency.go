package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// latencies are those of a steady load before something happens and while it does,
// and what went wrong.
type latencies struct {
	mu         sync.Mutex
	during     bool
	calm, busy []time.Duration
	wrong      []error // at most ten
}

// every does f once in each period until ctx is done.
func (l *latencies) every(ctx context.Context, period time.Duration, f func() error) {
	for ctx.Err() == nil {
		l.mu.Lock()
		during := l.during
		l.mu.Unlock()
		began := time.Now()
		err := f()
		took := time.Since(began)
		if ctx.Err() != nil {
			return // f may have been cut
		}
		l.note(during, took, err)
		sleep(ctx, period-took)
	}
}

func (l *latencies) note(during bool, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		if len(l.wrong) < 10 {
			l.wrong = append(l.wrong, err)
		}
	case during:
		l.busy = append(l.busy, took)
	default:
		l.calm = append(l.calm, took)
	}
}

// begin says that it happens from now on.
func (l *latencies) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.during = true
}

// verdict is what there is to say once the load has ended.
func (l *latencies) verdict() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wrong) > 0 {
		return "", errors.Join(l.wrong...)
	}
	if len(l.calm) == 0 || len(l.busy) == 0 {
		return "", errors.New("no request was made")
	}
	return fmt.Sprintf("%d requests, none failed; p99 %.1f ms before, %.1f ms during", len(l.calm)+len(l.busy), p99(l.calm), p99(l.busy)), nil
}

// p99 is the 99th percentile in milliseconds.
func p99(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)*99/100].Microseconds()) / 1000
}
