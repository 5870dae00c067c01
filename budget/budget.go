// Package budget bounds what a process spends: permits for connections and
// requests, and bytes for bodies that must be held. It knows nothing about who
// spends them.
package budget

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrWaited says that no permit came free in time.
var ErrWaited = errors.New("no permit in time")

// Permits is a bounded number of permits with a first-come waiting line. To stand in
// line costs no memory that was not there before: it happens with every request to a
// peer that is busy.
type Permits struct {
	max int

	mu         sync.Mutex
	used       int
	head, tail *waiter // the line
	waiting    int     // in it
	spare      *waiter // kept for others that come, at most spares of them
	spares     int
}

// maxSpares bounds the places in line that are kept while nobody stands in them.
const maxSpares = 256

// waiter is a place in line. It belongs to the goroutine that waits but for its
// neighbours and given, which mu of its Permits guards.
type waiter struct {
	prev, next *waiter
	given      bool
	ready      chan struct{} // takes one value: the permit is there
	timer      *time.Timer
}

// NewPermits returns n permits; n >= 1.
func NewPermits(n int) *Permits { return &Permits{max: n} }

// Acquire takes a permit, waiting in line up to wait. It returns ErrWaited when
// that time is over, or the context's error.
func (p *Permits) Acquire(ctx context.Context, wait time.Duration) error {
	p.mu.Lock()
	if p.try() {
		p.mu.Unlock()
		return nil
	}
	if wait <= 0 {
		p.mu.Unlock()
		return ErrWaited
	}
	w := p.enter()
	p.mu.Unlock()
	if w.timer == nil {
		w.timer = time.NewTimer(wait)
	} else {
		w.timer.Reset(wait)
	}
	err := error(nil)
	select {
	case <-w.ready:
	case <-w.timer.C:
		err = ErrWaited
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
	case w.given: // meanwhile: it goes on to the next
		<-w.ready
		p.release()
	default:
		p.leave(w)
	}
	p.keep(w)
	return err
}

// TryAcquire takes a permit if one is free and nobody waits.
func (p *Permits) TryAcquire() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.try()
}

// Release gives a permit back.
func (p *Permits) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
}

// try is TryAcquire with mu held, as all that follow.
func (p *Permits) try() bool {
	if p.used >= p.max || p.head != nil {
		return false
	}
	p.used++
	return true
}

// release passes a permit to the first in line.
func (p *Permits) release() {
	if p.used == 0 {
		panic("BUG: budget: a permit was given back twice")
	}
	w := p.head
	if w == nil {
		p.used--
		return
	}
	p.leave(w)
	w.given = true
	w.ready <- struct{}{}
}

// enter puts a waiter at the end of the line.
func (p *Permits) enter() *waiter {
	w := p.spare
	if w == nil {
		w = &waiter{ready: make(chan struct{}, 1)}
	} else {
		p.spare, w.next = w.next, nil
		p.spares--
	}
	if w.prev = p.tail; w.prev == nil {
		p.head = w
	} else {
		w.prev.next = w
	}
	p.tail = w
	p.waiting++
	return w
}

// leave takes w out of the line.
func (p *Permits) leave(w *waiter) {
	if w.prev == nil {
		p.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		p.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	p.waiting--
}

// keep keeps a waiter that nobody knows any more.
func (p *Permits) keep(w *waiter) {
	if p.spares >= maxSpares {
		return
	}
	w.given = false
	w.next, p.spare = p.spare, w
	p.spares++
}

// Waiting returns how many wait in line.
func (p *Permits) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// InUse returns the number of permits taken; Max their number.
func (p *Permits) InUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Max returns the number of permits.
func (p *Permits) Max() int { return p.max }
