// Package groups chooses a peer of an upstream group for each attempt, counts
// its use, breaks it when it fails and heals it. It does no I/O, starts no
// goroutine and has no clock of its own: the time comes from Options.Now, which
// is asked only where a peer is broken. It neither calls a peer nor decides
// whether an attempt may be repeated.
//
// What is known of a group lives in four places, because it survives reloads by
// different identities (R-GRP-9): a Verdict says whether one peer can be reached, a
// Seat whether it is drained at run time, a State holds what belongs to the group
// as a whole, and a Group, immutable, is all of them as one generation of the
// configuration wants them used.
package groups

import (
	"fmt"
	"math"
	"strings"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
)

// Policy is how a peer is chosen among the eligible ones.
type Policy uint8

const (
	PrimaryFirst        Policy = iota // the first in order (R-LB-1)
	WeightedRoundRobin                // smooth turns by weight (R-LB-2)
	WeightedLeastActive               // least active by weight, ties by smooth turns (R-LB-3)
	RoundRobin                        // equal turns (R-LB-4)
	LeastConn                         // least active, ties in rotation (R-LB-5)
	IPHash                            // by the client's address (R-LB-6)
	CookieHash                        // by the value of a cookie (R-LB-7)
	Sticky                            // by a cookie of our own (R-LB-8)
)

func (p Policy) String() string {
	return [...]string{"primary-first", "weighted-round-robin", "weighted-least-active", "round-robin",
		"least-conn", "ip-hash", "cookie-hash", "sticky"}[p]
}

// MaxPeers is the largest number of peers in a group (R-GRP-1).
const MaxPeers = 256

// Peer is one member of a group.
type Peer struct {
	// ID tells the peer apart from the others, whatever its place in the list:
	// hashes and tokens are made of it, so it stays the same over restarts.
	ID      string
	Client  extproc.Client
	Verdict *Verdict // nil: a new one
	Seat    *Seat    // nil: a new one
	Drained bool     // by configuration: chosen by nobody (R-DRAIN-1)
}

// Options describe a Group. Only Peers is needed.
type Options struct {
	Scope, Name string // of the processor; part of tokens
	Policy      Policy
	Peers       []Peer // 1 to MaxPeers
	State       *State // of as many peers; nil: a new one with equal weights

	MaxInFlight int // reservations of a peer that make it ineligible; 0: no limit

	// RetryTimeout is how long a peer whose dials failed is left alone. 0: no
	// penalty, one trial at a time is always admitted (R-BRK-2).
	RetryTimeout time.Duration

	Rate Rate // bucket of each peer; an empty one makes it ineligible

	// SlowStart is how long a peer that is new or was broken takes to grow from a
	// sixteenth of its share to all of it. It counts where turns or loads decide:
	// not for PrimaryFirst, hashes and clients with a token. 0: at once.
	SlowStart time.Duration

	// MinHealthy is the least percentage of peers that have to be healthy by their
	// probes. While fewer are, the probes are not asked: better some requests fail
	// than all. 0: never. Cold peers are not healthy. Dial failures, response
	// breakers, drains and limits hold all the same.
	MinHealthy int

	Cookie Cookie // of CookieHash, its name, and of Sticky
	Key    []byte // secret of Sticky's tokens

	Now func() time.Time // nil: time.Now
}

// Group is the peers of one processor and the choice among them. It is immutable
// and safe for any number of goroutines; what changes is in its State and in the
// Verdicts of its peers.
type Group struct {
	o     Options
	peers []member
	state *State
	now   func() time.Time
	equal bool // all weights are
	timed bool // each choice needs the time
	words int  // of a set that its peers take

	draws  []draw         // of hashes
	tokens map[string]int // of Sticky: ordinals
}

// member is a peer with what the choice reads of it.
type member struct {
	verdict *Verdict
	seat    *Seat
	step    int // weight of smooth turns, times stepUnit
	drained bool
	client  extproc.Client
	token   string // of Sticky
}

// New returns a group for o.
func New(o Options) *Group {
	if len(o.Peers) == 0 || len(o.Peers) > MaxPeers {
		panic("BUG: groups: a group has 1 to 256 peers")
	}
	if o.State == nil {
		o.State = NewState(len(o.Peers), nil, Breaker{})
	}
	if len(o.State.peers) != len(o.Peers) {
		panic("BUG: groups: state of another group")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = math.MaxInt
	}
	if o.Rate.Burst == 0 {
		o.Rate.Burst = o.Rate.PerSecond
	}
	g := &Group{o: o, state: o.State, now: o.Now, peers: make([]member, len(o.Peers)), equal: true,
		timed: o.Rate.PerSecond > 0 || o.SlowStart > 0, words: (len(o.Peers) + 63) / 64}
	for i, p := range o.Peers {
		if p.Verdict == nil {
			p.Verdict = NewVerdict(Health{}, o.Now)
		}
		if p.Seat == nil {
			p.Seat = o.State.seatOf(i)
		}
		p.Seat.join(o.State, i)
		weight := o.State.peers[i].weight
		g.peers[i] = member{verdict: p.Verdict, seat: p.Seat, client: p.Client, drained: p.Drained, step: stepUnit}
		g.equal = g.equal && weight == o.State.peers[0].weight
		if o.Policy != RoundRobin && o.Policy != LeastConn { // they look at no weights
			g.peers[i].step *= weight
		}
		switch o.Policy {
		case IPHash, CookieHash:
			g.draws = append(g.draws, newDraw(p.ID, weight))
		case Sticky:
			g.peers[i].token = token(o.Key, o.Scope, o.Name, p.ID)
			if g.tokens == nil {
				g.tokens = map[string]int{}
			}
			g.tokens[g.peers[i].token] = i
		}
	}
	return g
}

// SharesState reports whether g and o have one State.
func (g *Group) SharesState(o *Group) bool { return g.state == o.state }

// SharesVerdict reports whether peer i of g and peer j of o have one Verdict.
func (g *Group) SharesVerdict(i int, o *Group, j int) bool {
	return g.peers[i].verdict == o.peers[j].verdict
}

// Explain notes the policy and the peers as they are now. Its error is that of
// Reserve.
func (g *Group) Explain(x *exchange.Exchange) error {
	can := make([]bool, len(g.peers))
	g.state.mu.Lock()
	l := g.look()
	for i := range can {
		can[i] = g.wouldHave(i, l)
	}
	g.state.mu.Unlock()
	var lines []string
	eligible := 0
	for i, p := range g.Snapshot() {
		state := g.whyNot(&p)
		if can[i] {
			eligible++
			state = "may be chosen"
			if p.Lax && !p.Healthy {
				state += ", whatever its health check says: too few are healthy"
			}
		}
		lines = append(lines, fmt.Sprintf("peer %d %s, weight %d: %s", i, strings.TrimPrefix(p.ID, "://"), p.Weight, state))
	}
	x.Note("group", "%s, %d of %d peers may be chosen", g.o.Policy, eligible, len(g.peers))
	for _, line := range lines {
		x.Detail("%s", line)
	}
	if eligible == 0 {
		return ErrNoPeer
	}
	return nil
}

// wouldHave reports what eligible does, and changes and counts nothing.
func (g *Group) wouldHave(i int, l look) bool {
	m, p := &g.peers[i], &g.state.peers[i]
	gate, now, breaker, bucket := m.verdict.gate.Load(), g.now(), p.breaker, p.bucket
	if gate == shut && l.lax {
		gate = 0
	}
	return !m.drained && !p.drained && p.active < g.o.MaxInFlight &&
		m.verdict.admits(gate, now) && breaker.admits(&g.state.breaker, now) &&
		(g.o.Rate.PerSecond == 0 || bucket.full(&g.o.Rate, now))
}

// whyNot says of a peer that is not eligible what is the matter.
func (g *Group) whyNot(p *PeerState) string {
	switch {
	case p.Draining:
		return "draining"
	case p.Cold && !p.Lax:
		return "not known to be healthy yet"
	case !p.Healthy && !p.Lax:
		return "down by its health check"
	case p.Dial == "open":
		return "could not be reached and is left alone for now"
	case p.Response == "open":
		return "failed too often and is left alone for now"
	case p.Dial == "half_open", p.Response == "half_open":
		return "is being tried by another request"
	case p.Active >= g.o.MaxInFlight:
		return "has as many requests as maxInFlight allows"
	}
	return "has had as many requests as its rate allows"
}

// Client returns the client of a peer.
func (g *Group) Client(i int) extproc.Client { return g.peers[i].client }

// Single is a group of one peer that is never left alone for long: whoever has
// one client and no group uses it.
func Single(c extproc.Client) *Group { return New(Options{Peers: []Peer{{Client: c}}}) }

// Len returns the number of peers.
func (g *Group) Len() int { return len(g.peers) }

// ErrNoPeer says that no peer is eligible (R-GRP-5).
var ErrNoPeer = &exchange.Error{Status: 503, Reason: "no_upstream",
	Fields: []exchange.Field{{Name: "Retry-After", Value: "1"}}}

// Choice is what one exchange brings to the choice of its peer, and which peers
// it has tried. It belongs to the goroutine that serves the exchange.
type Choice struct {
	Hash  uint64 // for IPHash and CookieHash; 0: nothing is known, turns decide
	Token string // for Sticky: what the client's cookie holds
	tried set
	tries int // peers that were reserved
}

// Reserve chooses a peer for an attempt: an eligible one (R-GRP-4) that c has not
// tried. The error is ErrNoPeer. The caller gives the reservation up with Release,
// exactly once.
func (g *Group) Reserve(c *Choice) (r Reservation, err error) {
	s := g.state
	s.mu.Lock()
	ok := g.reserve(c, &r)
	if ok && c.tries > 1 {
		s.failovers++
	} else if !ok && c.tries == 0 {
		s.none++
	}
	s.mu.Unlock()
	if !ok {
		return r, ErrNoPeer
	}
	return r, nil
}

// Repeat is Reserve for an attempt that is made again after one that was sent
// (R-RETRY-4): a peer that c has not tried and, with same, any eligible one once
// all of those were.
func (g *Group) Repeat(c *Choice, same bool) (r Reservation, err error) {
	s := g.state
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := g.reserve(c, &r)
	if !ok && same {
		c.tried = set{}
		ok = g.reserve(c, &r)
	}
	if !ok {
		return r, ErrNoPeer
	}
	s.peers[r.peer].repeats++
	return r, nil
}

// reserve takes the peer that choose names. It runs under the state's lock.
func (g *Group) reserve(c *Choice, r *Reservation) bool {
	var l look
	if g.timed || g.o.MinHealthy > 0 {
		l = g.look()
	}
	for {
		i := g.choose(c, &l)
		if i < 0 {
			return false
		}
		c.tried.add(i)
		var ok bool
		if r.dial, ok = g.peers[i].verdict.take(l.now, g.o.RetryTimeout, l.lax); !ok {
			continue // somebody else's trial came before ours
		}
		r.g, r.peer = g, i
		p := &g.state.peers[i]
		r.epoch, r.share = p.breaker.take()
		if g.o.Rate.PerSecond > 0 {
			p.bucket.take()
		}
		p.active++
		g.state.held++
		p.picks++
		c.tries++
		return true
	}
}

// Reservation is the use of one peer by one attempt. It belongs to the goroutine
// that serves the exchange.
type Reservation struct {
	g      *Group // nil once released
	peer   int
	dial   attempt
	epoch  uint32 // of the response breaker
	share  share  // in the response breaker
	status int    // of the reply's head, 0 before it
}

// share is what an attempt is to the response breaker. One field more, and a
// reservation would no longer be returned in registers.
type share uint8

const (
	ordinary share = iota
	onTrial
	charged // the breaker knows already
)

// Client is the peer's client.
func (r *Reservation) Client() extproc.Client { return r.g.peers[r.peer].client }

// Peer is the ordinal of the peer in its group.
func (r *Reservation) Peer() int { return r.peer }

// Begin notes in x that the attempt begins at a time. It ends with End.
func (r *Reservation) Begin(x *exchange.Exchange, at time.Time) {
	x.BeginAttempt(r.g.o.Scope, r.g.o.Name, r.peer, at, &r.g.state.peers[r.peer].took)
}

// End is Release for an attempt of x, which then knows its outcome.
func (r *Reservation) End(x *exchange.Exchange, err error) {
	if result, held := r.release(err); held {
		x.Attempts.Outcome = result.String()
	}
}

// Answered says that the head of a reply is in: the peer can be reached. A status
// that counts as a failure is charged at once; anything else waits for the end of
// the body, but for a 101, which is the whole answer (R-BRK-6).
func (r *Reservation) Answered(status int) {
	r.status = status
	r.verdict().reached(r.dial)
	s := r.g.state
	if s.breaker.Threshold == 0 {
		return
	}
	if bad := s.breaker.FailOn.status(status); bad || status == 101 {
		r.charge(!bad)
	}
}

// Release ends the attempt: after the last byte of the reply or of the tunnel, or
// with the error that ended it. A client that went away charges nobody (G23). A
// second call does nothing.
func (r *Reservation) Release(err error) { r.release(err) }

// release returns the result, false if r was released before.
func (r *Reservation) release(err error) (Result, bool) {
	g := r.g
	if g == nil {
		return 0, false
	}
	o := outcomeOf(err)
	if r.status == 0 {
		switch o {
		case undecided:
			r.verdict().abandon(r.dial, g.now)
		case dialFailed, dialTimedOut:
			r.verdict().unreached(r.dial, g.now, g.o.RetryTimeout)
		default:
			r.verdict().reached(r.dial)
		}
	}
	s, result := g.state, Success
	if o != succeeded || r.status >= 500 {
		result = resultOf(r.status, o, err)
	}
	s.mu.Lock()
	p := &s.peers[r.peer]
	switch class := r.status / 100; {
	case class > 0 && class < len(p.replies):
		p.replies[class]++
	case o > undecided:
		p.failures[causeOf(o, err)]++
	}
	p.results[result]++
	if s.breaker.Threshold > 0 && r.share != charged {
		switch {
		case o == succeeded:
			p.breaker.report(&s.breaker, r.epoch, r.share == onTrial, true, g.now)
		case s.breaker.FailOn.outcome(o):
			p.breaker.report(&s.breaker, r.epoch, r.share == onTrial, false, g.now)
		default:
			p.breaker.abandon(r.epoch, r.share == onTrial)
		}
	}
	p.active--
	s.held--
	s.mu.Unlock()
	r.g = nil
	return result, true
}

func (r *Reservation) verdict() *Verdict { return r.g.peers[r.peer].verdict }

// charge tells the response breaker how the attempt went.
func (r *Reservation) charge(ok bool) {
	s := r.g.state
	s.mu.Lock()
	s.peers[r.peer].breaker.report(&s.breaker, r.epoch, r.share == onTrial, ok, r.g.now)
	s.mu.Unlock()
	r.share = charged
}

// Report tells a peer's verdict the result of a probe; see Verdict.Report.
func (g *Group) Report(peer int, ok bool) (from, to Standing) {
	return g.peers[peer].verdict.Report(ok)
}

// Drain sets or clears the run-time drain of a peer, which survives reloads of the
// peer (R-DRAIN-2). One that the configuration drains stays so.
func (g *Group) Drain(peer int, drained bool) { g.peers[peer].seat.drain(drained) }
