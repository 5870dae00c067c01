package groups

import (
	"slices"
	"sync"
	"weak"
)

// Seat is what stays of a peer when its group changes around it: whether it is
// drained at run time (R-DRAIN-2), and which states still hold requests for it. So
// neither a changed weight nor a changed policy brings a drained peer back, and
// "no request is with it" is true of all generations (R-DRAIN-3).
type Seat struct {
	// mu guards what is below. No other lock is taken while it is held.
	mu      sync.Mutex
	drained bool
	version uint64 // of drained: states take the newest, in whatever order it comes
	places  []place
}

// place is a peer in a state. It does not hold the state: an exchange that may
// still use it does.
type place struct {
	state weak.Pointer[State]
	peer  int
}

// Retire does nothing: requests that are still under way release into their state.
func (s *Seat) Retire() {}

// join makes peer i of st one of the places of s, and st know the drain.
func (s *Seat) join(st *State, i int) {
	s.mu.Lock()
	p := place{weak.Make(st), i}
	s.places = slices.DeleteFunc(s.places, func(p place) bool { return p.state.Value() == nil })
	if !slices.Contains(s.places, p) {
		s.places = append(s.places, p)
	}
	drained, version := s.drained, s.version
	s.mu.Unlock()
	st.drain(i, drained, version)
}

// drain sets or clears the run-time drain wherever the peer is used.
func (s *Seat) drain(drained bool) {
	s.mu.Lock()
	s.drained = drained
	s.version++
	version, places := s.version, slices.Clone(s.places)
	s.mu.Unlock()
	for _, p := range places {
		if st := p.state.Value(); st != nil {
			st.drain(p.peer, drained, version)
		}
	}
}

// active counts the reservations that states other than one hold.
func (s *Seat) active(without *State) (n int) {
	s.mu.Lock()
	places := slices.Clone(s.places)
	s.mu.Unlock()
	for _, p := range places {
		if st := p.state.Value(); st != nil && st != without {
			st.mu.Lock()
			n += st.peers[p.peer].active
			st.mu.Unlock()
		}
	}
	return n
}

// drain sets the run-time drain of peer i, unless a newer one is known.
func (s *State) drain(i int, drained bool, version uint64) {
	s.mu.Lock()
	if p := &s.peers[i]; version > p.drainVersion {
		p.drained, p.drainVersion = drained, version
	}
	s.mu.Unlock()
}

// seatOf is a seat for a peer whose owner keeps none: it begins with what the state
// knows.
func (s *State) seatOf(i int) *Seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Seat{drained: s.peers[i].drained, version: s.peers[i].drainVersion}
}
