package extproc

import (
	"context"
	"net"
	"testing"
	"time"
)

// A reply tells how long its head took, on a fresh and on a kept connection.
func TestReplyTook(t *testing.T) {
	u := newUpstream(t, answer(ok))
	p := client(t, target(u.addr))
	for range 2 {
		began := time.Now()
		r, err := p.Do(bg, get("/"))
		if err != nil {
			t.Fatal(err)
		}
		if most := time.Since(began); r.Took <= 0 || r.Took > most {
			t.Errorf("took %v, want at most %v", r.Took, most)
		}
		body(t, r, nil)
	}
	if n := u.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// The idle list is by idleSince, in whatever order calls end.
func TestIdleListIsOrdered(t *testing.T) {
	p := client(t, target("127.0.0.1:1"))
	now := time.Now()
	for _, at := range []time.Time{now, now.Add(-time.Second), now.Add(time.Second)} {
		a, b := net.Pipe()
		defer b.Close()
		p.keep(newH1conn(a, a), at)
	}
	for i, want := range []time.Duration{0, 0, time.Second} {
		if got := p.idle[i].idleSince.Sub(now); got != want {
			t.Errorf("connection %d is idle since %v, want %v", i, got, want)
		}
	}
	p.Expire(now.Add(p.target.KeepAlive))
	if s := p.Stats(); s.Idle != 1 {
		t.Errorf("%+v", s)
	}
}

// A connection that is being opened is told apart from one that is in use.
func TestStatsTellDials(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // its backlog takes the connection, nobody the handshake
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	tg := target(ln.Addr().String())
	tg.Scheme = H1S
	p := client(t, tg)
	ctx, cancel := context.WithCancel(bg)
	done := make(chan error)
	go func() {
		_, err := p.Do(ctx, get("/"))
		done <- err
	}()
	eventually(t, "it dials", func() bool { return p.Stats() == PoolStats{Dialing: 1} })
	cancel()
	if err := <-done; err == nil {
		t.Error("a reply of nobody")
	}
	if s := p.Stats(); s != (PoolStats{}) {
		t.Errorf("%+v", s)
	}
}
