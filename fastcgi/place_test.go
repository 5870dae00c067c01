package fastcgi

import (
	"bufio"
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/gateway"
)

// children is an application with n children: connections beyond them wait until
// one ends, as in the backlog of a socket.
func children(n int, serve func(p *peer)) func(context.Context, string, string) (net.Conn, error) {
	free := make(chan struct{}, n)
	return func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		go func() {
			defer b.Close()
			gone := make(chan struct{}) // a connection that is given up in the backlog
			br := bufio.NewReader(b)
			go func() { br.Peek(1); close(gone) }()
			free <- struct{}{}
			<-gone
			serve(&peer{b, br})
			<-free
		}()
		return a, nil
	}
}

// serveAfter answers each request of a connection after d.
func serveAfter(t *testing.T, d time.Duration) func(p *peer) {
	return func(p *peer) {
		for {
			if _, err := p.hear(); err != nil {
				return
			}
			time.Sleep(d) // of the bubble
			p.say(t, okReply)
		}
	}
}

// Two processors of one application with two children: what the first keeps idle
// is given up for the second (R-FCGI-9).
func TestG31IdleConnectionsOfAnotherPoolAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var places gateway.Places
		dial := children(2, serveAfter(t, time.Millisecond))
		target := pipeTarget(8)
		a := newClient(t, target, Options{Places: &places, Dial: dial})
		target.Name = "other"
		b := newClient(t, target, Options{Places: &places, Dial: dial})
		one, two := fetchLater(t.Context(), a, get()), fetchLater(t.Context(), a, get())
		<-one
		<-two
		if s := a.Stats(); s.Idle != 2 {
			t.Fatalf("%+v, want two idle", s)
		}
		began := time.Now()
		if _, body, err := fetch(b, get()); body != "ok" || err != nil {
			t.Fatalf("%q %v", body, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v", took)
		}
		if s := a.Stats(); s.Idle != 1 {
			t.Errorf("%+v, want the newest idle", s)
		}
	})
}

// More connections than children: all calls are answered, and none waits for the
// idle time of a connection that others keep (G65).
func TestG65MoreConnectionsThanChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, pipeTarget(35), Options{Dial: children(10, serveAfter(t, 100*time.Millisecond))})
		began := time.Now()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if _, body, err := fetch(c, get()); body != "ok" || err != nil {
					t.Errorf("%q %v", body, err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("took %v, alone they need 2 s", took)
		}
		fetch(c, get()) // nothing is owed any more: its connection is kept
		if s := c.Stats(); s.Busy != 0 || s.Idle == 0 || s.Idle > 10 {
			t.Errorf("%+v", s)
		}
	})
}

// Slow scripts alone cost no kept connection.
func TestSlowScriptsKeepTheirConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, pipeTarget(4), Options{Dial: children(9, serveAfter(t, 200*time.Millisecond))})
		for range 3 {
			a, b := fetchLater(t.Context(), c, get()), fetchLater(t.Context(), c, get())
			<-a
			<-b
			if s := c.Stats(); s.Idle != 2 {
				t.Fatalf("%+v, want two idle", s)
			}
		}
	})
}

// A call that ends hungry leaves nothing owed.
func TestHungryCallThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := pipeTarget(2)
		target.HeadTimeout = 5 * time.Second
		count := 0
		c := newClient(t, target, Options{Dial: children(1, func(p *peer) {
			if count++; count == 1 {
				p.hear()
				p.record() // until the call gives up
				return
			}
			serveAfter(t, 0)(p)
		})})
		_, _, err := fetch(c, get())
		if got := describe(err); got != "504 upstream_timeout" {
			t.Error(got)
		}
		fetch(c, get())
		if s := c.Stats(); s.Idle != 1 {
			t.Errorf("%+v, want one idle", s)
		}
	})
}
