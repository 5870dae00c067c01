package groups

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
)

func peers(n int) []Peer {
	list := make([]Peer, n)
	for i := range list {
		list[i].ID = "10.0.0." + strconv.Itoa(i+1) + ":80"
	}
	return list
}

func group(p Policy, weights ...int) *Group {
	n := len(weights)
	return New(Options{Policy: p, Peers: peers(n), State: NewState(n, weights, Breaker{}), RetryTimeout: time.Hour, Key: []byte("k")})
}

// pick reserves and releases.
func pick(t *testing.T, g *Group, c Choice) int {
	t.Helper()
	r, err := g.Reserve(&c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release(nil)
	r.Answered(200)
	return r.Peer()
}

// breakPeer makes dials of a peer fail until it is left alone.
func breakPeer(g *Group, i int) {
	for range dialFailures {
		v := g.peers[i].verdict
		a, _ := v.take(time.Time{}, time.Hour, false)
		v.unreached(a, g.now, time.Hour)
	}
}

// R-LB-2, R-LB-3: over any window of Σw picks each peer gets exactly its weight,
// also right after a peer came or went.
func TestExactShares(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 2 + rnd.IntN(9)
		weights := make([]int, n)
		for i := range weights {
			weights[i] = 1 + rnd.IntN(12)
		}
		g := group([]Policy{WeightedRoundRobin, WeightedLeastActive, Sticky}[rnd.IntN(3)], weights...)
		for range rnd.IntN(30) { // somewhere in the turns
			pick(t, g, Choice{})
		}
		out := rnd.IntN(n)
		for _, state := range []string{"all", "one drained", "all again"} {
			g.Drain(out, state == "one drained")
			sum := 0
			for i, w := range weights {
				if i != out || state != "one drained" {
					sum += w
				}
			}
			var seq []int
			for range 3 * sum {
				seq = append(seq, pick(t, g, Choice{}))
			}
			for at := range 2 * sum {
				counts := make([]int, n)
				for _, i := range seq[at : at+sum] {
					counts[i]++
				}
				for i, c := range counts {
					want := weights[i]
					if i == out && state == "one drained" {
						want = 0
					}
					if c != want {
						t.Fatalf("weights %v, %s (peer %d), window %d: peer %d had %d turns: %v", weights, state, out, at, i, c, seq)
					}
				}
			}
		}
	}
}

// R-LB-6, R-LB-7, G20: when a peer goes, its clients move and nobody else's; when
// it comes back, so do they. The shares follow the weights.
func TestG20HashMovesOnlyItsClients(t *testing.T) {
	for _, policy := range []Policy{IPHash, CookieHash} {
		weights := []int{1, 2, 3, 4}
		g := group(policy, weights...)
		const clients = 40_000
		hash := func(i int) uint64 {
			if policy == IPHash {
				return HashAddr(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
			}
			return HashString("session-" + strconv.Itoa(i))
		}
		look := func() []int {
			got := make([]int, clients)
			for i := range got {
				got[i] = pick(t, g, Choice{Hash: hash(i)})
			}
			return got
		}
		before := look()
		counts := make([]int, 4)
		for _, p := range before {
			counts[p]++
		}
		for i, c := range counts {
			if want := clients * weights[i] / 10; c < want*94/100 || c > want*106/100 {
				t.Errorf("peer %d of weight %d has %d clients, want about %d", i, weights[i], c, want)
			}
		}
		for _, out := range []int{0, 3} {
			g.Drain(out, true)
			moved := map[int]int{}
			for i, p := range look() {
				if before[i] != out && p != before[i] {
					t.Fatalf("client %d of peer %d moved to %d when %d went", i, before[i], p, out)
				}
				if before[i] == out {
					moved[p]++
				}
			}
			if moved[out] != 0 || len(moved) != 3 {
				t.Errorf("clients of peer %d went to %v", out, moved)
			}
			g.Drain(out, false)
			if !slices.Equal(look(), before) {
				t.Error("clients did not come back")
			}
		}
	}
}

// G20: rise successes bring the clients of a peer back to it.
func TestG20ProbesBringClientsBack(t *testing.T) {
	for _, policy := range []Policy{IPHash, CookieHash} {
		list := peers(2)
		for i := range list {
			list[i].Verdict = NewVerdict(Health{Rise: 2, Fall: 3}, time.Now)
		}
		g := New(Options{Policy: policy, Peers: list})
		report := func(peer, n int, ok bool) {
			for range n {
				g.Report(peer, ok)
			}
		}
		look := func() (seq []int) {
			for i := range 200 {
				seq = append(seq, pick(t, g, Choice{Hash: HashString(strconv.Itoa(i))}))
			}
			return seq
		}
		report(0, 2, true)
		report(1, 2, true)
		before := look()
		report(1, 3, false)
		if slices.Contains(look(), 1) {
			t.Error("a peer that is down had requests")
		}
		report(1, 1, true)
		if slices.Contains(look(), 1) {
			t.Error("one success is not enough")
		}
		if report(1, 1, true); !slices.Equal(look(), before) {
			t.Error("clients did not come back")
		}
	}
}

// The choice depends on the peers, not on their order nor on the process.
func TestHashIsStable(t *testing.T) {
	a, b := peers(5), peers(5)
	slices.Reverse(b)
	ga, gb := New(Options{Policy: IPHash, Peers: a}), New(Options{Policy: IPHash, Peers: b})
	var seq strings.Builder
	for i := range 16 {
		c := Choice{Hash: HashAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))}
		pa, pb := pick(t, ga, c), pick(t, gb, c)
		if a[pa].ID != b[pb].ID {
			t.Errorf("client %d: %s and %s", i, a[pa].ID, b[pb].ID)
		}
		seq.WriteString(strconv.Itoa(pa))
	}
	if mapped := HashAddr(netip.MustParseAddr("::ffff:192.0.2.1")); mapped != HashAddr(netip.MustParseAddr("192.0.2.1")) {
		t.Error("a mapped address is another client")
	}
	const want = "4203303022020302"
	if seq.String() != want {
		t.Errorf("clients are at %s, want %s: a new version moved them", seq.String(), want)
	}
}

// The cheap logarithm is one.
func TestNegLog(t *testing.T) {
	last := uint64(0)
	for i := 63; i > 0; i-- {
		for _, u := range []uint64{3 << (i - 1), 1 << i} {
			if got := negLog(u); got < last {
				t.Errorf("negLog(%#x) = %d is less than %d of a larger one", u, got, last)
			} else {
				last = got
			}
		}
	}
	for u, want := range map[uint64]float64{1: 63, 1 << 63: 1, 1 << 60: 4, 3 << 62: 0.41503749927884376, 0x123456789abcdef0: 3.813} {
		got := float64(negLog(u)) / (1 << 32)
		if got < want-0.001 || got > want+0.001 {
			t.Errorf("negLog(%#x) = %v, want %v", u, got, want)
		}
	}
}

// G21: nobody is told that there is no peer while one is eligible, whatever the
// policy.
func TestG21OnePeerIsEnough(t *testing.T) {
	for name, policy := range policies {
		g := group(policy, 1, 1, 1)
		breakPeer(g, 0)
		breakPeer(g, 2)
		for i := range 1000 {
			c := Choice{Hash: HashString(strconv.Itoa(i)), Token: g.peers[i%3].token}
			if p := pick(t, g, c); p != 1 {
				t.Fatalf("%s: peer %d", name, p)
			}
		}
	}
}

// R-GRP-5, R-GRP-6: an exchange tries every peer once, then there is none.
func TestEachPeerIsTriedOnce(t *testing.T) {
	for name, policy := range policies {
		g := group(policy, slices.Repeat([]int{1}, MaxPeers)...)
		var c Choice
		seen := map[int]bool{}
		for range MaxPeers {
			r, err := g.Reserve(&c)
			if err != nil {
				t.Fatal(name, err)
			}
			seen[r.Peer()] = true
			r.Release(&extproc.DialError{})
		}
		if _, err := g.Reserve(&c); err != ErrNoPeer || len(seen) != MaxPeers {
			t.Errorf("%s: %v after %d peers", name, err, len(seen))
		}
	}
}

// G19: a verdict is of one group's peer; two groups at one address do not know
// each other.
func TestG19VerdictsAreApart(t *testing.T) {
	up, down := group(RoundRobin, 1, 1), group(RoundRobin, 1, 1)
	breakPeer(down, 0)
	if s := up.Snapshot(); s[0].Dial != "closed" {
		t.Errorf("%+v", s)
	}
	if s := down.Snapshot(); s[0].Dial != "open" || s[1].Dial != "closed" {
		t.Errorf("%+v", s)
	}
}

// R-GRP-8: what is reserved at once by many is released exactly; nothing is lost
// in a race, and the breakers keep their caps.
func TestReservationsAddUp(t *testing.T) {
	for name, policy := range policies {
		br := Breaker{Threshold: 3, Open: time.Nanosecond, HalfOpen: 2, FailOn: FailOn{Transport: true}}
		g := New(Options{Policy: policy, Peers: peers(4), State: NewState(4, []int{1, 2, 3, 4}, br), MaxInFlight: 3})
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), 7))
				faults := []error{nil, nil, nil, &extproc.DialError{}, exchange.ErrClientGone, exchange.Fail(502, "upstream_transport", "x")}
				for range 2000 {
					c := Choice{Hash: rnd.Uint64()}
					r, err := g.Reserve(&c)
					if err != nil {
						continue
					}
					f := faults[rnd.IntN(len(faults))]
					if f == nil {
						r.Answered(200 + rnd.IntN(2)*300)
					}
					r.Release(f)
					r.Release(f) // does nothing
				}
			})
			wg.Go(func() {
				for range 200 {
					for _, p := range g.Snapshot() {
						if p.Active < 0 || p.Active > 3 {
							t.Errorf("%s: %d reservations", name, p.Active)
						}
					}
					g.Drain(w%4, w%2 == 0)
				}
			})
		}
		wg.Wait()
		for i := range g.peers {
			g.Drain(i, false)
			if a, b := g.state.peers[i].active, g.state.peers[i].breaker; a != 0 || b.trials != 0 {
				t.Errorf("%s: peer %d: %d reservations, %+v", name, i, a, b)
			}
		}
		if n := g.state.held; n != 0 {
			t.Errorf("%s: %d reservations in all", name, n)
		}
	}
}

// R-BRK-2: of many at once, one is the trial.
func TestOneTrialAtATime(t *testing.T) {
	for _, window := range []time.Duration{0, time.Nanosecond} {
		now := time.Unix(1, 0)
		g := New(Options{Peers: peers(1), RetryTimeout: window, Now: func() time.Time { return now }})
		breakPeer(g, 0)
		now = now.Add(2 * time.Hour)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var got []Reservation
		for range 16 {
			wg.Go(func() {
				var c Choice
				if r, err := g.Reserve(&c); err == nil {
					mu.Lock()
					got = append(got, r)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(got) != 1 {
			t.Fatalf("window %v: %d trials", window, len(got))
		}
		got[0].Answered(200)
		got[0].Release(nil)
		if s := g.Snapshot()[0]; s.Dial != "closed" || s.Active != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// R-LB-8: a token says nothing of the peer, and is of its scope, group and peer
// alone.
func TestTokens(t *testing.T) {
	seen := map[string]string{}
	for _, who := range [][3]string{{"server", "app", "10.0.0.1:80"}, {"server", "app", "10.0.0.2:80"}, {"vhost:a", "app", "10.0.0.1:80"},
		{"server", "apq", "10.0.0.1:80"}, {"server", "app1", "0.0.0.1:80"}} {
		v := token([]byte("k"), who[0], who[1], who[2])
		if len(v) != 22 || seen[v] != "" || strings.ContainsAny(v, "=;, \"") {
			t.Errorf("%v: token %q, seen for %q", who, v, seen[v])
		}
		seen[v] = fmt.Sprint(who)
	}
	if token([]byte("k"), "a", "b", "c") == token([]byte("l"), "a", "b", "c") {
		t.Error("the key does not matter")
	}
}

func TestCookies(t *testing.T) {
	x := &exchange.Exchange{}
	x.Req.Fields.Add("Cookie", "a=1; SID=; other")
	x.Req.Fields.Add("Cookie", "SID2=x;\tSID=abc=d ; b=2")
	for name, want := range map[string]string{"a": "1", "b": "2", "SID2": "x", "other": "", "sid": "", "SID": ""} {
		if got := cookie(&x.Req.Fields, name); got != want {
			t.Errorf("cookie %s = %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct {
		c     Cookie
		https bool
		want  string
	}{
		{Cookie{Name: "S"}, true, "S=v; Path=/; Secure"},
		{Cookie{Name: "S", Path: "/a", SameSite: "Lax", HTTPOnly: true}, false, "S=v; Path=/a; HttpOnly; SameSite=Lax"},
		{Cookie{Name: "S", Secure: SecureNever, MaxAge: time.Hour}, true, "S=v; Path=/; Max-Age=3600"},
		{Cookie{Name: "S", Secure: SecureAlways, SameSite: "None"}, false, "S=v; Path=/; Secure; SameSite=None"},
	} {
		if got := c.c.line("v", c.https); got != c.want {
			t.Errorf("%+v: %q, want %q", c.c, got, c.want)
		}
	}
}

// R-LB-8: the first reply sets the cookie, a client that has it is left alone, a
// stale or foreign one is replaced.
func TestStickyCookieIsSetOnce(t *testing.T) {
	g := New(Options{Policy: Sticky, Peers: peers(3), Cookie: Cookie{Name: "SERVERID"}, Key: []byte("k")})
	ask := func(value string) (int, string) {
		x := &exchange.Exchange{}
		if value != "" {
			x.Req.Fields.Add("Cookie", "SERVERID="+value)
		}
		c := g.Choice(x)
		r, err := g.Reserve(&c)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release(nil)
		var f exchange.Fields
		r.Remember(x, &c, &f)
		set, _, _ := strings.Cut(f.Get("Set-Cookie"), ";")
		return r.Peer(), strings.TrimPrefix(set, "SERVERID=")
	}
	first, token := ask("")
	for range 5 {
		if p, set := ask(token); p != first || set != "" {
			t.Fatalf("peer %d, cookie %q", p, set)
		}
	}
	if _, set := ask("10.0.0.1:80"); set == "" {
		t.Error("a foreign cookie is not replaced")
	}
	g.Drain(first, true) // R-DRAIN-3: its clients move at once
	p, other := ask(token)
	if p == first || other == "" || other == token {
		t.Errorf("peer %d, cookie %q", p, other)
	}
}

func TestOutcomes(t *testing.T) {
	f := func(err error, want outcome) {
		t.Helper()
		if got := outcomeOf(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	f(nil, succeeded)
	f(fmt.Errorf("%w: x", exchange.ErrClientGone), undecided)
	f(errors.New("what?"), undecided)
	for word, want := range map[string]outcome{"dial": dialFailed, "dial-timeout": dialTimedOut, "fcgi-dial": dialFailed, "gone": undecided,
		"reset": transportFailed, "cut": transportFailed, "timeout": timedOut, "stalled": timedOut, "slow-client": undecided,
		"saturated": undecided, "too-large": undecided} {
		f(fault(t, word), want)
	}
}

func TestCauses(t *testing.T) {
	f := func(err error, want Cause) {
		t.Helper()
		if got := causeOf(outcomeOf(err), err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	errno := &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}
	f(&extproc.DialError{Err: errno}, Dial)
	f(&extproc.DialError{Err: &net.OpError{Op: "dial", Err: errno}}, Dial)
	f(&extproc.DialError{Err: &net.DNSError{}}, DNS)
	f(&extproc.DialError{Err: &net.OpError{Op: "dial", Err: &net.DNSError{}}}, DNS)
	f(&extproc.DialError{Err: errors.New("x509: no")}, TLS)
	f(&extproc.DialError{Err: &net.OpError{Op: "read", Err: errno}}, TLS)
	f(&extproc.DialError{Timeout: true}, Timeout)
	f(fault(t, "timeout"), Timeout)
	f(exchange.Fail(502, "upstream_transport", "read: %w", io.EOF), Reset)
	f(exchange.Fail(502, "upstream_transport", "read: %w", &net.OpError{Op: "read", Err: errno}), Reset)
	f(exchange.Fail(502, "upstream_transport", "malformed"), Protocol)
}

// What was counted adds up: selections are replies and failures.
func TestCounts(t *testing.T) {
	g := group(PrimaryFirst, 1, 1)
	try := func(status int, word string) {
		var c Choice
		r, err := g.Reserve(&c)
		if err != nil {
			t.Fatal(err)
		}
		if status > 0 {
			r.Answered(status)
		}
		if word != "" {
			r.Release(fault(t, word))
			if r, err = g.Reserve(&c); err != nil {
				t.Fatal(err)
			}
			r.Answered(204)
		}
		r.Release(nil)
	}
	try(200, "")
	try(404, "")
	try(503, "")
	try(200, "cut")
	try(0, "dial")
	try(0, "timeout")
	s := g.Snapshot()
	failovers, none := g.Totals()
	if s[0].Picks != 6 || s[1].Picks != 3 || failovers != 3 || none != 0 ||
		s[0].Replies != [6]uint64{2: 2, 4: 1, 5: 1} || s[0].Failures != [Causes]uint64{TLS: 1, Timeout: 1} || s[1].Replies != [6]uint64{2: 3} {
		t.Errorf("%d, %d, %+v", failovers, none, s)
	}
	g.Drain(0, true)
	g.Drain(1, true)
	var c Choice
	g.Reserve(&c)
	if _, none = g.Totals(); none != 1 {
		t.Errorf("%d exchanges without a peer", none)
	}
}
