package access

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

var t0 = time.Unix(1_000_000, 0)

// LSX 2.6: at hardLimit a connection is refused at once; above softLimit for longer
// than the grace period there is a ban.
func TestClientConnections(t *testing.T) {
	l := &ClientLimits{Soft: 2, Hard: 4, Grace: 10 * time.Second, Ban: 60 * time.Second}
	var c Clients
	a, b := addr("192.0.2.1"), addr("192.0.2.2")
	open := func(a netip.Addr, at time.Duration, want bool) {
		t.Helper()
		if got := c.Open(a, l, t0.Add(at)); got != want {
			t.Errorf("%v at %v: %v", a, at, got)
		}
	}
	for range 4 {
		open(a, 0, true)
	}
	open(a, 0, false)
	open(addr("::ffff:192.0.2.1"), 0, false) // is the same client
	open(b, 0, true)
	c.Close(a, t0)
	open(a, 10*time.Second, true) // within the grace period
	c.Close(a, t0)
	open(a, 11*time.Second, false) // banned
	for range 3 {
		c.Close(a, t0.Add(12*time.Second))
	}
	open(a, 70*time.Second, false)
	open(a, 72*time.Second, true)
	open(b, 11*time.Second, true)
	if st := c.Snapshot(); st != (ClientStats{Refused: 4, Banned: 1}) {
		t.Errorf("%+v", st)
	}
}

// Who is no longer above the soft limit gets a new grace period; without a time of
// bans, connections are refused only while there are too many.
func TestClientGrace(t *testing.T) {
	l := &ClientLimits{Soft: 1, Grace: 10 * time.Second}
	var c Clients
	a := addr("2001:db8::1")
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	if !c.Open(a, l, at(0)) || !c.Open(addr("2001:db8::2"), l, at(5)) || c.Open(a, l, at(16)) {
		t.Error("the first grace period")
	}
	c.Close(a, at(17))
	c.Close(a, at(17))
	if !c.Open(a, l, at(18)) || !c.Open(a, l, at(20)) || !c.Open(a, l, at(29)) || c.Open(addr("2001:db8:0:1::"), l, at(18)) != true {
		t.Error("the second one")
	}
}

// blockBadReq: a few malformed requests are forgiven, many in a row are not.
func TestBadRequests(t *testing.T) {
	l := &ClientLimits{BanBad: true, Grace: 10 * time.Second, Ban: time.Minute}
	var c Clients
	a := addr("192.0.2.1")
	for i := range 100 {
		c.Bad(a, l, t0.Add(time.Duration(i)*2*time.Second)) // one in two seconds
	}
	if !c.Open(a, l, t0.Add(200*time.Second)) {
		t.Error("banned for seldom mistakes")
	}
	c.Close(a, t0.Add(200*time.Second))
	for range badMost {
		c.Bad(a, l, t0.Add(300*time.Second))
	}
	if c.Open(a, l, t0.Add(359*time.Second)) || !c.Open(a, l, t0.Add(361*time.Second)) {
		t.Error("the ban")
	}
	c.Bad(a, &ClientLimits{}, t0)
}

// LSX 2.6: excess requests wait for the next second; those who would wait too long are
// turned away and take nobody's place.
func TestRequestRate(t *testing.T) {
	l := &ClientLimits{Static: 2, Dynamic: 1}
	var c Clients
	a := addr("192.0.2.1")
	now := t0.Add(250 * time.Millisecond)
	for i, want := range []time.Duration{0, 0, 750, 750, 1750, 1750, 2750} {
		if wait, ok := c.Delay(a, l, false, now); !ok || wait != want*time.Millisecond {
			t.Errorf("request %d waits %v, %v", i, wait, ok)
		}
	}
	if wait, ok := c.Delay(a, l, true, now); wait != 0 || !ok {
		t.Error("dynamic requests count for static ones")
	}
	for range 100 {
		c.Delay(a, l, true, now)
	}
	if wait, ok := c.Delay(a, l, true, now); ok {
		t.Errorf("one more waits %v", wait)
	}
	if wait, ok := c.Delay(a, l, true, t0.Add(11*time.Second)); wait != 0 || !ok {
		t.Errorf("later: %v %v", wait, ok)
	}
	if wait, ok := c.Delay(addr("192.0.2.2"), l, true, now); wait != 0 || !ok {
		t.Error("another client waits")
	}
	if st := c.Snapshot(); st.Limited != 91 || st.Delayed != 15 {
		t.Errorf("%+v", st)
	}
}

// Bytes go at their rate, after a burst of one second.
func TestBandwidth(t *testing.T) {
	l := &ClientLimits{Out: 1000, In: 500}
	var c Clients
	a := addr("192.0.2.1")
	sum := time.Duration(0)
	for range 10 {
		sum = c.Spend(a, l, false, 1000, t0)
	}
	if sum != 9*time.Second || c.Spend(a, l, true, 500, t0) != 0 || c.Spend(a, l, true, 500, t0) != time.Second {
		t.Error(sum)
	}
	if w := c.Spend(a, l, false, 1000, t0.Add(time.Hour)); w != 0 {
		t.Error(w)
	}
}

// However many addresses come, few are remembered, and never is one forgotten that has
// connections, nor a ban for those who only look.
func TestClientsAreBounded(t *testing.T) {
	l := &ClientLimits{Hard: 1, BanBad: true, Grace: 10 * time.Second, Ban: time.Hour, Static: 1}
	var c Clients
	held, bad := addr("203.0.113.1"), addr("203.0.113.2")
	c.Open(held, l, t0)
	for range badMost {
		c.Bad(bad, l, t0)
	}
	for i := range 2 * maxClients {
		c.Delay(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), l, false, t0.Add(time.Duration(i)*time.Millisecond))
	}
	n := 0
	for i := range c.shards {
		n += len(c.shards[i].m)
	}
	if n > maxClients {
		t.Errorf("%d clients are remembered", n)
	}
	if c.Open(held, l, t0) {
		t.Error("the connection was forgotten")
	}
	if c.Open(bad, l, t0.Add(time.Minute)) {
		t.Error("the ban was forgotten")
	}
	c.Close(held, t0)
	defer func() {
		if recover() == nil {
			t.Error("a second end of a connection")
		}
	}()
	c.Close(held, t0)
}

// What is over leaves nothing behind.
func TestClientsLeave(t *testing.T) {
	var c Clients
	for i := range 1000 {
		a := addr(fmt.Sprintf("10.0.%d.%d", i/256, i%256))
		l := &ClientLimits{Hard: 1}
		c.Open(a, l, t0)
		c.Open(a, l, t0)
		c.Close(a, t0)
	}
	for i := range c.shards {
		if len(c.shards[i].m) != 0 {
			t.Error(c.shards[i].m)
		}
	}
}
