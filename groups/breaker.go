package groups

import "time"

// Breaker is the response breaker of each peer (R-BRK-4). It is comparable; the
// zero value is off.
type Breaker struct {
	Threshold int           // consecutive failures that open it; 0: off
	Open      time.Duration // time before trials
	HalfOpen  int           // trials at once, at least 1
	FailOn    FailOn
}

// FailOn says what is a failure. It is comparable.
type FailOn struct {
	Transport, Timeout bool
	statuses           [2]uint64 // 500 to 599
}

// AddStatus makes a status, 500 to 599, a failure.
func (f *FailOn) AddStatus(status int) {
	n := status - 500
	if n < 0 || n > 99 {
		panic("BUG: groups: status out of range")
	}
	f.statuses[n/64] |= 1 << (n % 64)
}

func (f *FailOn) status(status int) bool {
	n := status - 500
	return n >= 0 && n <= 99 && f.statuses[n/64]>>(n%64)&1 != 0
}

func (f *FailOn) outcome(o outcome) bool {
	switch o {
	case dialFailed, transportFailed:
		return f.Transport
	case dialTimedOut, timedOut:
		return f.Timeout
	}
	return false
}

type breakerState uint8

const (
	closed   breakerState = iota
	open                  // until a time
	halfOpen              // trials decide
)

// breaker is the response breaker of one peer. It is guarded by the lock of its
// State. Its epoch is another one after each change of state; the result of an
// attempt counts only in the epoch that the attempt began in, so a late success
// closes nothing (R-BRK-7).
type breaker struct {
	state  breakerState
	epoch  uint32
	fails  int // consecutive, while closed
	trials int // in flight, while half-open
	until  time.Time
	healed time.Time // when it closed last; zero: it never opened
	trips  uint64    // times it opened
}

func (b *breaker) change(s breakerState) {
	b.state, b.fails, b.trials = s, 0, 0
	b.epoch++
}

// admits reports whether an attempt may begin; an open breaker whose time has
// passed becomes half-open.
func (b *breaker) admits(o *Breaker, now time.Time) bool {
	if b.state == open && !now.Before(b.until) {
		b.change(halfOpen)
	}
	return b.state == closed || b.state == halfOpen && b.trials < o.HalfOpen
}

// take begins an attempt that was admitted.
func (b *breaker) take() (uint32, share) {
	if b.state == halfOpen {
		b.trials++
		return b.epoch, onTrial
	}
	return b.epoch, ordinary
}

// report applies the result of an attempt (R-BRK-5).
func (b *breaker) report(o *Breaker, epoch uint32, trial, ok bool, now func() time.Time) {
	switch {
	case epoch != b.epoch:
	case ok && trial:
		b.change(closed)
		b.healed = now()
	case ok:
		b.fails = 0
	default:
		b.fails++
		if trial || b.fails >= o.Threshold {
			b.change(open)
			b.trips++
			b.until = now().Add(o.Open)
		}
	}
}

// abandon ends an attempt that says nothing about the peer.
func (b *breaker) abandon(epoch uint32, trial bool) {
	if trial && epoch == b.epoch {
		b.trials--
	}
}

// name is the state at a time: an open breaker that would admit a trial is
// half-open.
func (b *breaker) name(now time.Time) string {
	switch {
	case b.state == closed:
		return "closed"
	case b.state == halfOpen || !now.Before(b.until):
		return "half_open"
	}
	return "open"
}
