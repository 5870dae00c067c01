// Package budget bounds what a process spends: permits for connections and
// requests, and bytes for bodies that must be held. It knows nothing about who
// spends them.
package budget

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrWaited says that no permit came free in time.
var ErrWaited = errors.New("no permit in time")

// Permits is a bounded number of permits with a first-come waiting line.
type Permits struct {
	sem   *semaphore.Weighted
	max   int
	inUse atomic.Int64
	waits atomic.Int64 // those in line
}

// NewPermits returns n permits; n >= 1.
func NewPermits(n int) *Permits {
	return &Permits{sem: semaphore.NewWeighted(int64(n)), max: n}
}

// Acquire takes a permit, waiting in line up to wait. It returns ErrWaited when
// that time is over, or the context's error.
func (p *Permits) Acquire(ctx context.Context, wait time.Duration) error {
	if p.TryAcquire() {
		return nil
	}
	if wait <= 0 {
		return ErrWaited
	}
	c, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	p.waits.Add(1)
	err := p.sem.Acquire(c, 1)
	p.waits.Add(-1)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return ErrWaited
	}
	p.inUse.Add(1)
	return nil
}

// TryAcquire takes a permit if one is free and nobody waits.
func (p *Permits) TryAcquire() bool {
	if !p.sem.TryAcquire(1) {
		return false
	}
	p.inUse.Add(1)
	return true
}

// Release gives a permit back.
func (p *Permits) Release() {
	p.inUse.Add(-1)
	p.sem.Release(1)
}

// Waiting returns how many wait in line.
func (p *Permits) Waiting() int { return int(p.waits.Load()) }

// InUse returns the number of permits taken; Max their number.
func (p *Permits) InUse() int { return int(p.inUse.Load()) }

// Max returns the number of permits.
func (p *Permits) Max() int { return p.max }
