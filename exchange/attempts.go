package exchange

import "time"

// Attempts is what is known of an exchange's calls to peers of an upstream, for logs
// and metrics. One ends when the next begins, or with the exchange; so the clock is
// not read for the only one.
type Attempts struct {
	N       int    // that have begun
	Peer    int    // ordinal of the last one's peer
	Outcome string // of the last one that has ended (R-LOG-2); "": none has
	Phases         // of all of them that had a reply, together

	began time.Time
	timer Timer // nil: none is under way
}

// Timer is told how long an attempt took, its body included (R-MET-5).
type Timer interface{ Took(time.Duration) }

// BeginAttempt notes an attempt with a peer of a group that begins at a time. One that
// is under way ends then.
func (x *Exchange) BeginAttempt(scope, group string, peer int, at time.Time, timer Timer) {
	a := &x.Attempts
	x.EndAttempt(at)
	a.N++
	a.Peer, a.began, a.timer = peer, at, timer
	if x.Timeline != nil {
		x.Timeline.attempt(scope, group, peer, at)
	}
}

// AttemptReplied notes that the head of a reply is in. A client that measures nothing
// has no head phase to tell.
func (x *Exchange) AttemptReplied(status int, p Phases) {
	a := &x.Attempts
	a.Queue += p.Queue
	a.Dial += p.Dial
	a.Head += p.Head
	if t := x.Timeline.Attempt(); t != nil {
		t.Phases, t.Status = p, status
		if status == 101 { // what follows is no part of the call (R-TRACE-3)
			t.Ended = time.Now()
		}
	}
}

// EndAttempt ends the attempt that is under way, if there is one.
func (x *Exchange) EndAttempt(at time.Time) {
	a := &x.Attempts
	if a.timer == nil {
		return
	}
	a.timer.Took(max(0, at.Sub(a.began)))
	a.timer = nil
	if t := x.Timeline.Attempt(); t != nil {
		x.Timeline.open = false
		t.Outcome = a.Outcome
		if t.Ended.IsZero() {
			t.Ended = at
		}
	}
}
