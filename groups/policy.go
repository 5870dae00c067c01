package groups

import (
	"math"
	"math/bits"
	"time"
)

// stepUnit is the weight 1 in smooth turns. It leaves room below for the part of
// its weight that a peer on its ramp has.
const stepUnit = 1 << 10

// rampStart is the part of its weight, by stepUnit, with which a ramp begins.
const rampStart = stepUnit / 16

// look is what one choice has found out about the moment.
type look struct {
	now  time.Time // read when first needed
	lax  bool      // too few peers are healthy: probes are not asked (Options.MinHealthy)
	ramp bool      // a peer has less than its weight (Options.SlowStart)
}

func (g *Group) look() (l look) {
	if g.timed {
		l.now = g.now()
	}
	if g.o.MinHealthy > 0 {
		l.lax = g.ailing()
	}
	return l
}

// ailing reports whether the share of peers that their probes call healthy is
// below MinHealthy. Drained peers are nobody's share.
func (g *Group) ailing() bool {
	all, healthy := 0, 0
	for i := range g.peers {
		if g.peers[i].drained || g.state.peers[i].drained {
			continue
		}
		all++
		if g.peers[i].verdict.gate.Load() != shut {
			healthy++
		}
	}
	return healthy*100 < g.o.MinHealthy*all
}

// choose returns the ordinal of the peer for c, -1 if none is eligible. It runs
// under the state's lock and allocates nothing. Where it can, it looks for the peer
// that the policy wants first and asks only then whether that one is eligible.
func (g *Group) choose(c *Choice, l *look) int {
	switch g.o.Policy {
	case PrimaryFirst:
		for i := range g.peers {
			if g.can(i, c, l) {
				return i
			}
		}
		return -1
	case RoundRobin:
		if g.o.SlowStart == 0 {
			return g.turn(c, l)
		}
	case LeastConn:
		if g.o.SlowStart == 0 {
			return g.least(c, l)
		}
	case IPHash, CookieHash:
		if c.Hash == 0 {
			return g.turn(c, l)
		}
		if i := g.rendezvous(c.Hash, nil); g.can(i, c, l) {
			return i
		}
		var can set
		for i := range g.peers {
			if g.can(i, c, l) {
				can.add(i)
			}
		}
		return g.rendezvous(c.Hash, &can)
	case Sticky:
		if i, known := g.tokens[c.Token]; known && g.can(i, c, l) {
			return i
		}
	}
	return g.weighted(c, l)
}

// can reports whether peer i may have an attempt of c.
func (g *Group) can(i int, c *Choice, l *look) bool {
	return !c.tried.has(i) && (g.fit(i) || g.eligible(i, l))
}

// fit reports whether peer i is eligible without a doubt, as mostly.
func (g *Group) fit(i int) bool {
	p := &g.state.peers[i]
	return g.peers[i].fit(p) && p.active < g.o.MaxInFlight && !g.timed
}

// fit reports whether nothing takes a peer out.
func (m *member) fit(p *peerState) bool {
	return m.verdict.gate.Load() == 0 && p.breaker.state == closed && !m.drained && !p.drained
}

// eligible reports whether peer i may have an attempt (R-GRP-4), if it has not
// had it.
func (g *Group) eligible(i int, l *look) bool {
	m, p := &g.peers[i], &g.state.peers[i]
	if m.drained || p.drained || p.active >= g.o.MaxInFlight {
		return false
	}
	gate := m.verdict.gate.Load()
	if gate == shut && l.lax {
		gate = 0
	}
	if gate != 0 || p.breaker.state != closed { // a trial
		if l.now.IsZero() {
			l.now = g.now()
		}
		if !m.verdict.admits(gate, l.now) || !p.breaker.admits(&g.state.breaker, l.now) {
			return false
		}
	}
	return !g.timed || g.timely(i, l)
}

// timely looks at what changes with time alone: it notes a ramp, and reports
// whether the bucket of peer i has a token.
func (g *Group) timely(i int, l *look) bool {
	p := &g.state.peers[i]
	if g.o.SlowStart > 0 && g.age(i, l.now) < g.o.SlowStart {
		l.ramp = true
	}
	return g.o.Rate.PerSecond == 0 || p.bucket.full(&g.o.Rate, l.now)
}

// age is how long peer i has been there without a break.
func (g *Group) age(i int, now time.Time) time.Duration {
	age := g.peers[i].verdict.age(now)
	if since := g.state.peers[i].breaker.healed; !since.IsZero() {
		age = min(age, now.Sub(since))
	}
	return age
}

// step is the weight of peer i as smooth turns count it, at this moment.
func (g *Group) step(i int, l *look) int {
	if l.ramp {
		return g.rampStep(i, l.now)
	}
	return g.peers[i].step
}

// rampStep is step while a peer is on its ramp.
func (g *Group) rampStep(i int, now time.Time) int {
	full, age := g.peers[i].step, g.age(i, now)
	if age >= g.o.SlowStart {
		return full
	}
	part := max(rampStart, int(float64(stepUnit)*float64(age)/float64(g.o.SlowStart)))
	return full * part / stepUnit
}

// turn is the next in the circle.
func (g *Group) turn(c *Choice, l *look) int {
	i := g.state.last
	for range g.peers {
		if i++; i >= len(g.peers) {
			i = 0
		}
		if g.can(i, c, l) {
			g.state.last = i
			return i
		}
	}
	return -1
}

// least has the smallest number of reservations; of equals, the next in the
// circle, so that an idle group is not one peer.
func (g *Group) least(c *Choice, l *look) int {
	best, active, i := -1, math.MaxInt, g.state.last
	for range g.peers {
		if i++; i >= len(g.peers) {
			i = 0
		}
		if n := g.state.peers[i].active; n < active && g.can(i, c, l) {
			best, active = i, n
		}
	}
	if best >= 0 {
		g.state.last = best
	}
	return best
}

// weighted is the choice by weights: of the least active where the policy looks at
// that, by smooth turns.
func (g *Group) weighted(c *Choice, l *look) int {
	s := g.state
	byLoad := g.o.Policy == WeightedLeastActive || g.o.Policy == LeastConn
	if !g.timed && !l.lax && c.tries == 0 {
		i := -1
		if !byLoad || s.held == 0 { // without load all are equal
			i = g.smoothAll()
		} else if len(g.peers) <= 64 {
			i = g.leastAll()
		}
		if i >= 0 {
			return i
		}
	}
	var can set  // who is eligible and not tried
	var well set // who is not broken or drained, though perhaps tried or full
	if !g.candidates(c, &can, &well, l) {
		return -1
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
	if byLoad {
		g.leastByWeight(&can, l)
	}
	return g.smooth(&can, l)
}

// as reports whether peer i is as the last smooth turn found it: well if it was, and
// else not to be had without a look at the time.
func (g *Group) as(well bool, m *member, p *peerState) bool {
	if well {
		return m.fit(p) && p.active < g.o.MaxInFlight
	}
	return m.drained || p.drained || m.verdict.gate.Load() == shut
}

// smoothAll is smooth for those who were well at the last turn, if they still are
// and nobody else can be: as mostly, and in one pass. Otherwise it changes nothing
// and returns -1.
func (g *Group) smoothAll() int {
	s := g.state
	best, sum, furthest := -1, 0, math.MinInt
	for i := range g.peers {
		m, p := &g.peers[i], &s.peers[i]
		well := s.well.has(i)
		if !g.as(well, m, p) {
			for ; i > 0; i-- {
				if s.well.has(i - 1) {
					s.peers[i-1].current -= g.peers[i-1].step
				}
			}
			return -1
		}
		if !well {
			continue
		}
		at := p.current + m.step
		p.current = at
		sum += m.step
		if at > furthest {
			best, furthest = i, at
		}
	}
	if best >= 0 {
		s.peers[best].current -= sum
	}
	return best
}

// leastAll is leastByWeight and smooth under the same condition, for up to 64 peers.
func (g *Group) leastAll() int {
	s := g.state
	least, weight, ties := math.MaxInt32, 1, uint64(0)
	for i := range g.peers {
		m, p := &g.peers[i], &s.peers[i]
		well := s.well.has(i)
		if !g.as(well, m, p) {
			return -1
		}
		if !well {
			continue
		}
		if p.active|least != 0 { // else none has any
			more := p.active*weight - least*m.step
			if more > 0 {
				continue
			}
			if more < 0 {
				least, weight, ties = p.active, m.step, 0
			}
		}
		ties |= 1 << (i & 63)
	}
	best, sum, furthest := -1, 0, math.MinInt
	for ; ties != 0; ties &= ties - 1 {
		i := bits.TrailingZeros64(ties)
		p, step := &s.peers[i], g.peers[i].step
		at := p.current + step
		p.current = at
		sum += step
		if at > furthest {
			best, furthest = i, at
		}
	}
	if best >= 0 {
		s.peers[best].current -= sum
	}
	return best
}

// candidates fills the sets and reports whether anybody can.
func (g *Group) candidates(c *Choice, can, well *set, l *look) bool {
	some := uint64(0)
	for w := 0; w < g.words; w++ {
		tried, canWord, wellWord := c.tried[w], uint64(0), uint64(0)
		for i := w * 64; i < len(g.peers) && i < w*64+64; i++ {
			m, p, bit := &g.peers[i], &g.state.peers[i], uint64(1)<<(i&63)
			gate := m.verdict.gate.Load()
			if gate == shut && l.lax {
				gate = 0
			}
			fit := gate == 0 && p.breaker.state == closed && !m.drained && !p.drained // as mostly
			if fit {
				wellWord |= bit
			}
			if tried&bit == 0 && (fit && p.active < g.o.MaxInFlight && !g.timed || g.eligible(i, l)) {
				canWord |= bit
			}
		}
		can[w], well[w] = canWord, wellWord
		some |= canWord
	}
	return some != 0
}

// leastByWeight leaves in can those that have the fewest reservations by weight
// (R-LB-3).
func (g *Group) leastByWeight(can *set, l *look) {
	active, weight := math.MaxInt32, 1
	for w := range g.words {
		word, left := can[w], uint64(0)
		for i := w * 64; word != 0; i, word = i+1, word>>1 {
			if word&1 == 0 {
				continue
			}
			mine, step := g.state.peers[i].active, g.step(i, l)
			more := mine*weight - active*step
			if more > 0 {
				continue
			}
			if more < 0 {
				active, weight, left = mine, step, 0
				clear(can[:w])
			}
			left |= 1 << (i & 63)
		}
		can[w] = left
	}
}

// smooth is the smooth weighted round-robin: each takes a step of its weight, the
// one that is furthest goes back by all steps. The sum stays what it was, so any
// Σw turns of the same peers give each its weight (R-LB-2).
func (g *Group) smooth(can *set, l *look) int {
	best, sum, furthest := -1, 0, math.MinInt
	for w := range g.words {
		for i, word := w*64, can[w]; word != 0; i, word = i+1, word>>1 {
			if word&1 == 0 {
				continue
			}
			p, step := &g.state.peers[i], g.step(i, l)
			at := p.current + step
			p.current = at
			sum += step
			if at > furthest {
				best, furthest = i, at
			}
		}
	}
	g.state.peers[best].current -= sum
	return best
}
