package groups

import (
	"runtime"
	"testing"
)

// R-API-2, R-API-5: one word for a peer; one that a breaker tries counts as eligible,
// a cold one does not.
func TestStanding(t *testing.T) {
	f := func(p PeerState, want string) {
		t.Helper()
		if got := p.Standing(); got != want || p.Eligible() != (want == "eligible") {
			t.Errorf("%+v is %s, want %s", p, got, want)
		}
	}
	up := PeerState{Healthy: true, Dial: "closed", Response: "closed"}
	with := func(change func(p *PeerState)) PeerState {
		p := up
		change(&p)
		return p
	}
	f(up, "eligible")
	f(with(func(p *PeerState) { p.Dial = "half_open" }), "eligible")
	f(with(func(p *PeerState) { p.Response = "half_open" }), "eligible")
	f(with(func(p *PeerState) { p.Dial = "open" }), "broken")
	f(with(func(p *PeerState) { p.Response = "open" }), "broken")
	f(with(func(p *PeerState) { p.Healthy = false }), "down")
	f(with(func(p *PeerState) { p.Healthy, p.Cold = false, true }), "cold")
	f(with(func(p *PeerState) { p.Draining, p.Healthy, p.Dial = true, false, "open" }), "draining")
}

// R-LOG-2: what became of an attempt, by its status and its end.
func TestResults(t *testing.T) {
	g := New(Options{Peers: peers(1)})
	f := func(status int, word string, want Result) {
		t.Helper()
		before := g.Snapshot()[0].Results
		var c Choice
		r, err := g.Reserve(&c)
		if err != nil {
			t.Fatal(err)
		}
		if status > 0 {
			r.Answered(status)
		}
		var end error
		if word != "" {
			end = fault(t, word)
		}
		r.Release(end)
		before[want]++
		if got := g.Snapshot()[0].Results; got != before {
			t.Errorf("%d %s: %v, want %v", status, word, got, before)
		}
	}
	f(200, "", Success)
	f(101, "", Success)
	f(404, "", Success)
	f(503, "", UpstreamError)
	f(0, "reset", TransportError)
	f(0, "timeout", TimedOut)
	f(0, "dial-timeout", TimedOut)
	f(0, "gone", Canceled)
	f(200, "gone", Canceled)
	f(0, "too-large", Canceled)
	f(200, "cut", ResponseError)
	f(0, "dial", TransportError)
	p := g.Snapshot()[0]
	if all, failed := p.Attempts(); all != 12 || failed != 6 {
		t.Errorf("%d attempts, %d failed", all, failed)
	}
}

// What no exchange can use any more is forgotten: a seat does not grow with reloads.
func TestSeatsForgetStates(t *testing.T) {
	seat := &Seat{}
	for range 100 {
		New(Options{Peers: []Peer{{ID: "a", Seat: seat}}})
	}
	runtime.GC()
	last := New(Options{Peers: []Peer{{ID: "a", Seat: seat}}})
	if n := len(seat.places); n > 2 { // one may still stand in a register
		t.Errorf("%d places", n)
	}
	last.Drain(0, true)
	if !last.Snapshot()[0].Draining {
		t.Error("not draining")
	}
}
