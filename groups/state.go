package groups

import (
	"sync"
	"sync/atomic"
	"time"
)

// State is what belongs to a group as a whole: turns, counts and response breakers.
// It outlives the generations that do not change the group.
type State struct {
	breaker Breaker // immutable

	// mu guards what is below. It is held for the choice of a peer and for no
	// other lock, call or wait.
	mu    sync.Mutex
	peers []peerState
	held  int // reservations, of all peers
	last  int // the peer whose turn was last
	well  set // who was neither broken nor drained at the last smooth turn

	failovers uint64 // moves to another peer
	none      uint64 // exchanges for which no peer was eligible
}

type peerState struct {
	active  int  // reservations held
	weight  int  // immutable
	current int  // of the smooth turns
	drained bool // at run time
	breaker breaker
	bucket  bucket

	picks        uint64    // reservations made
	repeats      uint64    // of them by Repeat
	replies      [6]uint64 // by class of status
	failures     [Causes]uint64
	results      [Results]uint64
	took         took
	drainVersion uint64 // of drained
}

// took adds up how long attempts at a peer took. It is told behind the exchange,
// without the lock.
type took struct {
	n     atomic.Uint64
	nanos atomic.Int64
}

// Took implements exchange.Timer.
func (t *took) Took(d time.Duration) {
	t.n.Add(1)
	t.nanos.Add(int64(d))
}

// NewState returns the state of a group of n peers with these weights, 1 to 1000
// each; nil: all equal.
func NewState(n int, weights []int, b Breaker) *State {
	if b.HalfOpen < 1 {
		b.HalfOpen = 1
	}
	s := &State{breaker: b, peers: make([]peerState, n), last: n - 1}
	for i := range s.peers {
		s.peers[i].weight = 1
		if weights != nil {
			s.peers[i].weight = weights[i]
		}
	}
	return s
}

// Retire does nothing: reservations that are still held release into the state.
func (s *State) Retire() {}

// set is a set of peers by ordinal.
type set [MaxPeers / 64]uint64

func (s *set) add(i int)      { s[uint(i)/64%(MaxPeers/64)] |= 1 << (uint(i) % 64) }
func (s *set) has(i int) bool { return s[uint(i)/64%(MaxPeers/64)]>>(uint(i)%64)&1 != 0 }

// PeerState is a peer as status and metrics show it.
type PeerState struct {
	ID       string
	Healthy  bool   // by its probes; true without a health check
	Cold     bool   // not healthy because not known yet
	Lax      bool   // its group ignores health checks now (Options.MinHealthy)
	Dial     string // closed, open or half_open (R-BRK-10)
	Response string // the same of the response breaker
	Draining bool   // at run time or by configuration
	Fixed    bool   // by configuration: no run-time command ends it
	Active   int    // reservations held, also by what was there before a reload
	Weight   int

	// Results of probes in a row, one of the two 0; both 0 without a health check.
	Successes, Failed int

	// What was counted since the group's state or, for DialTrips, the peer's
	// verdict began.
	Picks                    uint64          // reservations made
	Repeats                  uint64          // of them for an attempt that was made again
	RateLimited              uint64          // choices that passed it over because its bucket was empty
	Replies                  [6]uint64       // heads of replies, by class of status
	Failures                 [Causes]uint64  // attempts without a head
	Results                  [Results]uint64 // attempts that ended
	Timed                    uint64          // of them, those of exchanges that are over or went on
	Took                     time.Duration   // all those together
	DialTrips, ResponseTrips uint64          // how often a breaker opened
}

// Standing is the peer in one word of status: eligible, also while a breaker tries
// it; draining, whatever else it is; cold; down; broken while a breaker is open.
func (p *PeerState) Standing() string {
	switch {
	case p.Draining:
		return "draining"
	case p.Cold:
		return "cold"
	case !p.Healthy:
		return "down"
	case p.Dial == "open", p.Response == "open":
		return "broken"
	}
	return "eligible"
}

// Attempts returns how many attempts have ended, and how many of them were the
// peer's failure.
func (p *PeerState) Attempts() (all, failed uint64) {
	for r, n := range p.Results {
		all += n
		if Result(r) != Success && Result(r) != Canceled && Result(r) != NoAttempt {
			failed += n
		}
	}
	return all, failed
}

// Eligible reports whether the peer may have requests, but for limits.
func (p *PeerState) Eligible() bool {
	s := p.Standing()
	return s == "eligible" || p.Lax && (s == "cold" || s == "down")
}

// Totals returns how often the group moved on to another peer, and had none for
// an exchange.
func (g *Group) Totals() (failovers, none uint64) {
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	return g.state.failovers, g.state.none
}

// Snapshot returns the peers in their order.
func (g *Group) Snapshot() []PeerState {
	now := g.now()
	out := make([]PeerState, len(g.peers))
	g.state.mu.Lock()
	lax := g.o.MinHealthy > 0 && g.ailing()
	for i := range out {
		p := &g.state.peers[i]
		out[i] = PeerState{ID: g.o.Peers[i].ID, Active: p.active, Picks: p.picks, Weight: p.weight,
			Draining: p.drained || g.peers[i].drained, Fixed: g.peers[i].drained, Response: p.breaker.name(now),
			Replies: p.replies, Failures: p.failures, Results: p.results, ResponseTrips: p.breaker.trips, Lax: lax,
			Repeats: p.repeats, RateLimited: p.bucket.missed, Timed: p.took.n.Load(), Took: time.Duration(p.took.nanos.Load())}
	}
	g.state.mu.Unlock()
	for i := range out {
		v := g.peers[i].verdict
		out[i].Active += g.peers[i].seat.active(g.state)
		out[i].Successes, out[i].Failed = v.streaks()
		out[i].Healthy, out[i].Dial = v.look(now)
		out[i].Cold = !out[i].Healthy && v.cold.Load()
		out[i].DialTrips = v.trips.Load()
	}
	return out
}
