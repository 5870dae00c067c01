package exchange

import "time"

// Attempts is what is known of an exchange's calls to peers of an upstream, for logs
// and metrics. One ends when the next begins, or with the exchange; so the clock is
// not read for the only one.
type Attempts struct {
	N       int    // that have begun
	Peer    int    // ordinal of the last one's peer
	Outcome string // of the last one that has ended (R-LOG-2); "": none has

	began time.Time
	timer Timer // nil: none is under way
}

// Timer is told how long an attempt took, its body included (R-MET-5).
type Timer interface{ Took(time.Duration) }

// Begin notes an attempt that begins at a time. One that is under way ends then.
func (a *Attempts) Begin(peer int, at time.Time, timer Timer) {
	a.End(at)
	a.N++
	a.Peer, a.began, a.timer = peer, at, timer
}

// End ends the attempt that is under way, if there is one.
func (a *Attempts) End(at time.Time) {
	if a.timer == nil {
		return
	}
	a.timer.Took(max(0, at.Sub(a.began)))
	a.timer = nil
}
