package tunnels

import (
	"testing"
	"time"
)

// tunnel leaves its sets when it is closed, as relays do.
type tunnel struct {
	sets   []*Set
	closed int
}

func (t *tunnel) Close() {
	t.closed++
	Leave(t, t.sets...)
}

func join(t *testing.T, want bool, sets ...*Set) *tunnel {
	t.Helper()
	tn := &tunnel{sets: sets}
	if got := Join(tn, sets...); got != want {
		t.Errorf("joined %v, want %v", got, want)
	}
	return tn
}

// R-WS-7: a tunnel ends some time after its route or its peer has gone, and not
// before.
func TestTunnelsEndAfterTheirRouteOrPeer(t *testing.T) {
	var l Leaving
	l.SetDelay(30 * time.Second)
	route, peer, other := l.Set("route", "route"), l.Set("peer", "peer"), l.Set("other", "other")
	a, b := join(t, true, route, peer), join(t, true, route, other)
	peer.Retire()
	now := time.Now()
	l.Expire(now.Add(29 * time.Second))
	if a.closed != 0 || len(l.List()) != 1 || l.List()[0].Name != "peer" || l.List()[0].Open != 1 {
		t.Errorf("closed %d times before its time; listed %+v", a.closed, l.List())
	}
	late := join(t, true, route, peer) // an exchange that began before
	l.Expire(now.Add(31 * time.Second))
	if a.closed != 1 || late.closed != 1 || b.closed != 0 || len(l.List()) != 0 {
		t.Errorf("closed %d, %d, %d times; listed %+v", a.closed, late.closed, b.closed, l.List())
	}
	tooLate := join(t, false, route, peer)
	if tooLate.closed != 0 || route.Len() != 1 {
		t.Errorf("%d in a set that one was refused by", route.Len())
	}
	route.Retire()
	l.Expire(now.Add(time.Minute))
	if b.closed != 1 || other.Len() != 0 || route.Len() != 0 {
		t.Errorf("closed %d times, %d and %d left", b.closed, other.Len(), route.Len())
	}
}

// What comes back before its time, as by a rollback, keeps its tunnels; a generation
// that never served changes nothing.
func TestTunnelsOfWhatComesBack(t *testing.T) {
	var l Leaving
	l.SetDelay(30 * time.Second)
	s := l.Set("key", "route")
	a := join(t, true, s)
	s.Retire()
	due := l.List()[0].Due
	l.SetDelay(time.Hour)
	if again := l.Set("key", "route"); again != s {
		t.Error("its tunnels are not found again")
	}
	if other := l.Set("other", "route"); other == s {
		t.Error("the tunnels of something else are found")
	}
	s.Retire() // the generation was refused
	if left := l.List(); len(left) != 1 || left[0].Due != due {
		t.Errorf("a refused generation changed the time: %+v", left)
	}
	s.Stay()
	if left := l.List(); len(left) != 0 {
		t.Errorf("listed: %+v", left)
	}
	l.Expire(due.Add(time.Hour))
	if b := join(t, true, s); a.closed != 0 || b.closed != 0 {
		t.Errorf("closed %d and %d times although the route is back", a.closed, b.closed)
	}
	s.Retire()
	l.Expire(time.Now().Add(2 * time.Hour))
	if a.closed != 1 {
		t.Errorf("closed %d times", a.closed)
	}
	s.Stay() // it was built before, and is published after its tunnels were closed
	join(t, true, s)
}

// Generations that never serve leave nothing behind, however long tunnels may live.
func TestUnusedSetsAreForgotten(t *testing.T) {
	var l Leaving
	l.SetDelay(24 * time.Hour)
	var last *Set
	for range 1000 {
		last = l.Set("key", "route")
		last.Retire()
	}
	if n := len(l.sets); n != 0 {
		t.Errorf("%d sets are kept", n)
	}
	late := join(t, true, last) // an exchange that began before
	if len(l.List()) != 1 {
		t.Error("a late tunnel is not listed")
	}
	late.Close()
	l.Expire(time.Now())
	if n := len(l.sets); n != 0 {
		t.Errorf("%d sets are kept", n)
	}
	l.SetDelay(0)
	last = l.Set("other", "route")
	last.Retire()
	join(t, false, last)
}

func TestNilSetRefusesNobody(t *testing.T) {
	tn := join(t, true, nil, nil)
	Leave(tn, nil)
	var s *Set
	if s.Len() != 0 {
		t.Error("a nil set holds something")
	}
}
