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
	route, peer, other := NewSet("route", &l), NewSet("peer", &l), NewSet("other", &l)
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

func TestNilSetRefusesNobody(t *testing.T) {
	tn := join(t, true, nil, nil)
	Leave(tn, nil)
	var s *Set
	if s.Len() != 0 {
		t.Error("a nil set holds something")
	}
}
