package groups

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialFailures = 3                // consecutive ones that break a peer (R-BRK-1)
	lostAfter    = 10 * time.Second // a trial of a peer without a penalty is lost after this
	shut         = math.MaxInt64    // a gate that no time opens: down by its probes
)

// Health is the active health check of a peer; the zero value is none.
type Health struct {
	Rise, Fall int // consecutive results of probes that change it, both >= 1
}

// Standing is what the probes of a peer say.
type Standing uint8

const (
	Up   Standing = iota // eligible as far as probes go; always so without a health check
	Cold                 // not yet known: neither Rise successes nor Fall failures in a row
	Down                 // Fall failures in a row, and not Rise successes since
)

func (s Standing) String() string { return [...]string{"up", "cold", "down"}[s] }

// Verdict says whether one peer can be reached: by its probes, and by the dials of
// requests. It outlives generations and groups that leave the peer as it is.
//
// Everything that the choice of a peer asks is in gate; so a verdict is read
// without a lock, also by two groups at once.
type Verdict struct {
	health Health
	base   time.Time // gate counts from here
	now    func() time.Time

	// gate is 0 for a peer that can be reached, shut for one that is down by its
	// probes, else the time of the next trial dial, in nanoseconds after base.
	gate  atomic.Int64
	epoch atomic.Uint32 // another one after each change of gate
	trial atomic.Int64  // what gate is while a trial dial is in flight
	fails atomic.Int32  // consecutive dials that failed
	trips atomic.Uint64 // times the dial breaker opened

	rose atomic.Int64 // when gate became 0 last, as gate counts

	cold atomic.Bool // shut from the start

	mu     sync.Mutex // serialises changes of gate, other than the start of a trial
	streak int        // results of probes in a row: successes > 0, failures < 0
}

// NewVerdict returns the verdict of a peer of which nothing is known. With a
// health check it is cold: not eligible before Rise successes.
func NewVerdict(h Health, now func() time.Time) *Verdict {
	v := &Verdict{health: h, base: now(), now: now}
	if h.Rise > 0 {
		v.gate.Store(shut)
		v.cold.Store(true)
	}
	return v
}

// Retire does nothing: attempts that are still under way report to the verdict.
func (v *Verdict) Retire() {}

// attempt is what a reservation knows of the verdict from its beginning.
type attempt struct {
	epoch uint32
	trial int64 // value of gate that the trial put there, 0 for no trial
}

// at is a time as gate counts it, above 0.
func (v *Verdict) at(now time.Time) int64 { return max(0, int64(now.Sub(v.base))) + 1 }

// admits reports whether gate lets an attempt begin at now.
func (v *Verdict) admits(gate int64, now time.Time) bool {
	return gate == 0 || gate != shut && v.at(now) >= gate
}

// take begins an attempt. For a broken peer it is the one trial of this time; the
// next may begin when window has passed, whether or not this one ever reports
// (R-BRK-2). With lax a peer that is down by its probes counts as one that can be
// reached.
func (v *Verdict) take(now time.Time, window time.Duration, lax bool) (attempt, bool) {
	epoch := v.epoch.Load() // before gate: an attempt never seems younger than it is
	gate := v.gate.Load()
	if gate == 0 || gate == shut && lax {
		return attempt{epoch: epoch}, true
	}
	if now.IsZero() || !v.admits(gate, now) {
		return attempt{}, false // broken since it was looked at
	}
	if window <= 0 {
		window = lostAfter
	}
	until := v.at(now) + int64(window)
	if !v.gate.CompareAndSwap(gate, until) {
		return attempt{}, false
	}
	v.trial.Store(until)
	return attempt{epoch: v.epoch.Add(1), trial: until}, true
}

// reached closes the breaker and zeroes its count.
func (v *Verdict) reached(a attempt) {
	if v.gate.Load() == 0 && v.fails.Load() == 0 {
		return // as mostly
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if a.epoch != v.epoch.Load() || v.gate.Load() == shut {
		return
	}
	v.set(0)
}

// unreached counts a dial that failed; the third in a row, or the trial, keeps the
// peer out for window.
func (v *Verdict) unreached(a attempt, now func() time.Time, window time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if a.epoch != v.epoch.Load() || v.gate.Load() == shut {
		return
	}
	if v.fails.Add(1) >= dialFailures || a.trial != 0 {
		v.set(v.at(now()) + int64(window))
		v.trips.Add(1)
		v.streak = 0 // what probes said before is no recovery
	}
}

// abandon lets another trial begin at once: this one says nothing.
func (v *Verdict) abandon(a attempt, now func() time.Time) {
	if a.trial == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if a.epoch == v.epoch.Load() && v.gate.Load() != shut {
		v.set(v.at(now()))
	}
}

// set moves the gate; 0 forgets failures. It runs under mu.
func (v *Verdict) set(gate int64) {
	if gate == 0 {
		v.fails.Store(0)
		if v.gate.Load() != 0 {
			v.rose.Store(v.at(v.now()))
		}
	}
	v.gate.Store(gate)
	v.epoch.Add(1)
}

// Report takes the result of a probe and returns what the peer was and what it is
// now. Rise successes in a row make it eligible and close its dial breaker too
// (R-BRK-3), Fall failures make it ineligible (R-PROBE-2). Without a health check
// it changes nothing.
func (v *Verdict) Report(ok bool) (from, to Standing) {
	if v.health.Rise < 1 || v.health.Fall < 1 {
		return Up, Up
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	from = v.Standing()
	if ok {
		v.streak = max(v.streak, 0) + 1
	} else {
		v.streak = min(v.streak, 0) - 1
	}
	gate := v.gate.Load()
	switch {
	case v.streak >= v.health.Rise && gate != 0:
		v.set(0)
	case v.streak <= -v.health.Fall && gate != shut:
		v.set(shut)
	}
	if v.streak >= v.health.Rise || v.streak <= -v.health.Fall {
		v.cold.Store(false)
	}
	return from, v.Standing()
}

// Standing is what the probes of the peer have said so far.
func (v *Verdict) Standing() Standing {
	switch {
	case v.gate.Load() != shut:
		return Up
	case v.cold.Load():
		return Cold
	}
	return Down
}

// streaks returns the results of probes in a row, one of the two 0.
func (v *Verdict) streaks() (successes, failures int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(v.streak, 0), max(-v.streak, 0)
}

// age is how long the peer can be reached already, at now.
func (v *Verdict) age(now time.Time) time.Duration { return time.Duration(v.at(now) - v.rose.Load()) }

// look returns the verdict for people.
func (v *Verdict) look(now time.Time) (healthy bool, dial string) {
	switch gate := v.gate.Load(); {
	case gate == shut:
		return false, "closed"
	case gate == 0:
		return true, "closed"
	case gate == v.trial.Load() || v.at(now) >= gate:
		return true, "half_open"
	}
	return true, "open"
}
