package groups

import (
	"math"
	"time"
)

// choose returns the ordinal of the peer for c, -1 if none is eligible. It runs
// under the state's lock, allocates nothing and looks at each peer once or twice.
// now is read when a broken peer is first met.
func (g *Group) choose(c *Choice, now *time.Time) int {
	s := g.state
	if g.o.Policy == PrimaryFirst {
		for i := range g.peers {
			if !c.tried.has(i) && g.eligible(i, now) {
				return i
			}
		}
		return -1
	}
	var can set  // who is eligible and not tried
	var well set // who is not broken or drained, though perhaps tried or full
	some := false
	most := g.o.MaxInFlight
	for i := range s.peers {
		m, p := &g.peers[i], &s.peers[i]
		switch {
		case m.verdict.gate.Load() == 0 && p.breaker.state == closed && !m.drained && !p.drained: // as mostly
			well.add(i)
			if p.active >= most || c.tried.has(i) {
				continue
			}
		case c.tried.has(i) || !g.eligible(i, now):
			continue
		}
		can.add(i)
		some = true
	}
	if !some {
		return -1
	}
	active, weight := math.MaxInt32, 1 // smooth turns among those with no more than that
	switch g.o.Policy {
	case WeightedLeastActive:
		active, weight = s.leastByWeight(&can)
	case LeastConn:
		return s.least(&can)
	case IPHash, CookieHash:
		if c.Hash != 0 {
			return g.rendezvous(c.Hash, &can)
		}
		return s.turn(&can)
	case RoundRobin:
		return s.turn(&can)
	case Sticky:
		if c.Token != "" {
			for i := range g.peers {
				if can.has(i) && g.peers[i].token == c.Token {
					return i
				}
			}
		}
	}
	if s.well != well {
		// A peer came or went. The turns begin anew, so that they are exact
		// at once. Peers on trial and full ones change nothing here, or they
		// would hold the turns at their beginning.
		s.well = well
		for i := range s.peers {
			s.peers[i].current = 0
		}
	}
	return s.smooth(&can, active, weight)
}

// eligible reports whether peer i may have an attempt (R-GRP-4), if it has not
// had it.
func (g *Group) eligible(i int, now *time.Time) bool {
	m, p := &g.peers[i], &g.state.peers[i]
	if m.drained || p.drained || p.active >= g.o.MaxInFlight {
		return false
	}
	gate := m.verdict.gate.Load()
	if gate == 0 && p.breaker.state == closed {
		return true
	}
	if now.IsZero() {
		*now = g.now()
	}
	return m.verdict.admits(gate, *now) && p.breaker.admits(&g.state.breaker, *now)
}

// turn is the next in the circle.
func (s *State) turn(can *set) int {
	s.last = can.after(s.last)
	return s.last
}

// least has the smallest number of reservations; of equals, the next in the
// circle, so that an idle group is not one peer.
func (s *State) least(can *set) int {
	best, active := -1, math.MaxInt
	i := s.last
	for range s.peers {
		if i++; i >= len(s.peers) {
			i = 0
		}
		if p := &s.peers[i]; p.active < active && can.has(i) {
			best, active = i, p.active
		}
	}
	s.last = best
	return best
}

// leastByWeight returns the reservations and the weight of a peer that has the
// fewest of them by weight (R-LB-3).
func (s *State) leastByWeight(can *set) (active, weight int) {
	active, weight = math.MaxInt32, 1
	for i := range s.peers {
		if p := &s.peers[i]; can.has(i) && p.active*weight < active*p.weight {
			active, weight = p.active, p.weight
		}
	}
	return active, weight
}

// smooth is the smooth weighted round-robin: each takes a step of its weight, the
// one that is furthest goes back by all steps. The sum stays what it was, so any
// Σw turns of the same peers give each its weight (R-LB-2). Who has more
// reservations by weight than active/weight takes no part.
func (s *State) smooth(can *set, active, weight int) int {
	best, sum, furthest := -1, 0, 0
	for i := range s.peers {
		p := &s.peers[i]
		if !can.has(i) || p.active*weight > active*p.weight {
			continue
		}
		p.current += p.weight
		sum += p.weight
		if best < 0 || p.current > furthest {
			best, furthest = i, p.current
		}
	}
	s.peers[best].current -= sum
	return best
}
