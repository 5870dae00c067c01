package groups

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

// What Explain says is what Reserve does, and it leaves everything as it was: no
// bucket misses a token, no breaker begins its trials.
func TestExplainIsReserveWithoutEffects(t *testing.T) {
	now := time.Now()
	f := func(what string, o Options, prepare func(g *Group), eligible, says string) {
		t.Helper()
		g := New(o)
		g.now = func() time.Time { return now }
		prepare(g)
		before, none := g.Snapshot(), g.state.none
		var e exchange.Explanation
		x := &exchange.Exchange{}
		x.Explain(&e)
		err := g.Explain(x)
		if after := g.Snapshot(); !reflect.DeepEqual(before, after) || g.state.none != none {
			t.Errorf("%s: was %+v, is %+v", what, before, after)
		}
		if text := e.Steps[0].Text + "\n" + strings.Join(e.Steps[0].Details, "\n"); !strings.Contains(text, eligible+" peers may be chosen") || !strings.Contains(text, says) {
			t.Errorf("%s: %s", what, text)
		}
		var c Choice
		if _, want := g.Reserve(&c); err != want {
			t.Errorf("%s: explained as %v, is %v", what, err, want)
		}
	}
	nothing := func(*Group) {}
	take := func(g *Group) {
		var c Choice
		if _, err := g.Reserve(&c); err != nil {
			t.Fatal(err)
		}
	}
	down := func(g *Group) { g.peers[0].verdict.gate.Store(shut) }
	tripped := func(until time.Time) func(g *Group) {
		return func(g *Group) {
			b := &g.state.peers[0].breaker
			b.change(open)
			b.until = until
		}
	}
	f("two", Options{Peers: peers(2)}, nothing, "2 of 2", "peer 1 10.0.0.2:80, weight 1: may be chosen")
	f("draining", Options{Peers: []Peer{{ID: "://a:1", Drained: true}}}, nothing, "0 of 1", "peer 0 a:1, weight 1: draining")
	f("full", Options{Peers: peers(1), MaxInFlight: 1}, take, "0 of 1", "maxInFlight")
	f("its rate", Options{Peers: peers(1), Rate: Rate{PerSecond: 1, Burst: 1}}, take, "0 of 1", "its rate allows")
	f("down", Options{Peers: peers(1)}, down, "0 of 1", "by its health check")
	f("too few are healthy", Options{Peers: peers(1), MinHealthy: 50}, down, "1 of 1", "too few are healthy")
	f("not reached", Options{Peers: peers(1), RetryTimeout: time.Hour}, func(g *Group) { breakPeer(g, 0) }, "0 of 1", "could not be reached")
	f("failed", Options{Peers: peers(1), State: NewState(1, nil, Breaker{HalfOpen: 1})}, tripped(now.Add(time.Second)), "0 of 1", "failed too often")
	f("to be tried", Options{Peers: peers(1), State: NewState(1, nil, Breaker{HalfOpen: 1})}, tripped(now), "1 of 1", "may be chosen")
	f("tried", Options{Peers: peers(1), State: NewState(1, nil, Breaker{HalfOpen: 1})}, func(g *Group) { tripped(now)(g); take(g) }, "0 of 1", "tried by another")
}
