package wsrelay

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/tunnels"
)

func echo(p *peer) { p.head(); io.WriteString(p, switching); io.Copy(p, p) }

// TestRelaysRest: a relay without traffic holds no goroutine, but its permit, its
// reservation and its place; either side wakes it, as often as it likes.
func TestRelaysRest(t *testing.T) {
	f := func(l net.Listener, tg extproc.Target, cfg *tls.Config, secure bool) {
		t.Helper()
		calls := make(chan string)
		tg.Address, tg.InitTimeout = backend(t, l, func(p *peer) {
			p.head()
			io.WriteString(p, switching)
			for say := range calls {
				if say != "" {
					io.WriteString(p, say)
					continue
				}
				io.WriteString(p, p.next(t, 4))
			}
			p.ended()
		}), patience
		c := extproc.NewH1(tg, cfg)
		h := &Handler{Tunnels: new(tunnels.Leaving).Set("", ""), Group: groups.Single(c)}
		s := serve(t, h, secure)
		p := s.tunnel()
		s.parked(1)
		resting := runtime.NumGoroutine()
		for range 3 {
			calls <- "" // the peer echoes
			io.WriteString(p, "ping")
			if got := p.next(t, 4); got != "ping" {
				t.Errorf("echo %q", got)
			}
			s.parked(1)
			calls <- "push" // the peer begins
			if got := p.next(t, 4); got != "push" {
				t.Errorf("got %q", got)
			}
			s.parked(1)
		}
		if st := c.Stats(); st.Busy != 1 || h.Tunnels.Len() != 1 || h.Group.Snapshot()[0].Active != 1 || len(s.Site.Errs()) != 0 {
			t.Errorf("at rest: %+v, %d relays, %+v", st, h.Tunnels.Len(), h.Group.Snapshot())
		}
		eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= resting })
		close(calls)
		p.closeWrite()
		p.ended()
		if err := s.lastErr(1); err != nil {
			t.Error(err)
		}
		if st := c.Stats(); st.Busy != 0 || h.Tunnels.Len() != 0 || h.Group.Snapshot()[0].Active != 0 {
			t.Errorf("at the end: %+v, %d relays, %+v", st, h.Tunnels.Len(), h.Group.Snapshot())
		}
		s.parked(0)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{exchangetest.Certificate(t)}}
	for _, secure := range []bool{false, true} {
		f(listen(t), extproc.Target{Scheme: extproc.H1, Network: "tcp"}, nil, secure)
		f(tls.NewListener(listen(t), cfg), extproc.Target{Scheme: extproc.H1S, Network: "tcp"}, &tls.Config{InsecureSkipVerify: true}, secure)
		u, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		f(u, extproc.Target{Scheme: extproc.H1, Network: "unix"}, nil, secure)
	}
}

// A relay that rests not even for a moment does its work too.
func TestRelayWithoutRest(t *testing.T) {
	h, _ := handler(tcp(t, echo))
	s := serveWith(t, h, false, -1)
	p := s.tunnel()
	io.WriteString(p, "ping")
	if got := p.next(t, 4); got != "ping" {
		t.Errorf("%q", got)
	}
	p.closeWrite()
	if !p.ended() || s.lastErr(1) != nil {
		t.Error("no proper end")
	}
}

// One side has ended its direction; the other one is at rest, and speaks again
// (R-WS-5).
func TestHalfClosedRelaysRest(t *testing.T) {
	for _, secure := range []bool{false, true} {
		speak := make(chan struct{})
		h, _ := handler(tcp(t, func(p *peer) {
			p.head()
			io.WriteString(p, switching)
			all, _ := io.ReadAll(p)
			<-speak
			io.WriteString(p, "got "+string(all))
		}))
		s := serve(t, h, secure)
		p := s.tunnel()
		s.parked(1)
		io.WriteString(p, "request")
		s.parked(1)
		p.closeWrite()
		eventually(t, "the end has been passed on", func() bool { return s.Front.Snapshot().Parked == 1 })
		speak <- struct{}{}
		if all, err := io.ReadAll(p); string(all) != "got request" || err != nil {
			t.Errorf("secure %v: client got %q, %v", secure, all, err)
		}
		if err := s.lastErr(1); err != nil {
			t.Error(err)
		}

		heard := make(chan string, 1)
		h, _ = handler(tcp(t, func(p *peer) {
			p.head()
			io.WriteString(p, switching)
			p.closeWrite()
			all, _ := io.ReadAll(p)
			heard <- string(all)
		}))
		s = serve(t, h, secure)
		p = s.tunnel()
		if !p.ended() {
			t.Error("the peer's end has not come")
		}
		s.parked(1)
		io.WriteString(p, "last words")
		s.parked(1)
		p.closeWrite()
		if got := <-heard; got != "last words" {
			t.Errorf("backend heard %q", got)
		}
	}
}

// Whoever ends a relay at rest ends it at once and whole.
func TestRelaysAtRestEnd(t *testing.T) {
	f := func(what string, secure bool, idle time.Duration, token string, end func(s *site, h *Handler, client, peer *peer)) {
		t.Helper()
		peers, gone := make(chan *peer, 1), make(chan struct{})
		h, c := handler(tcp(t, func(p *peer) {
			p.head()
			io.WriteString(p, switching)
			peers <- p
			p.ended()
			close(gone)
		}))
		h.IdleTimeout = idle
		s := serve(t, h, secure)
		client := s.tunnel()
		if idle == 0 {
			s.parked(1)
		}
		end(s, h, client, <-peers)
		client.ended()
		<-gone
		if got := exchange.ReasonOf(s.lastErr(1)); got != token {
			t.Errorf("%s: reason %q, want %q", what, got, token)
		}
		if c.Stats().Busy != 0 || h.Tunnels.Len() != 0 {
			t.Errorf("%s: %+v, %d open", what, c.Stats(), h.Tunnels.Len())
		}
		eventually(t, what+": connection gone", func() bool { return s.Front.Snapshot().Active == 0 })
	}
	for _, secure := range []bool{false, true} {
		f("client", secure, 0, "", func(_ *site, _ *Handler, client, peer *peer) { client.closeWrite(); peer.closeWrite() })
		f("peer", secure, 0, "", func(_ *site, _ *Handler, client, peer *peer) { peer.Close(); client.closeWrite() })
		f("peer breaks", secure, 0, "response_error", func(_ *site, _ *Handler, _, peer *peer) {
			peer.Conn.(*net.TCPConn).SetLinger(0)
			peer.Close()
		})
		f("drain", secure, 0, "", func(_ *site, h *Handler, _, _ *peer) { h.Tunnels.Close() }) // R-WS-7
		f("idle", secure, 30*time.Millisecond, "", func(*site, *Handler, *peer, *peer) {})
		f("client breaks", secure, 0, "client_gone", func(_ *site, _ *Handler, client, _ *peer) {
			c := client.Conn
			if tc, ok := c.(*tls.Conn); ok {
				c = tc.NetConn()
			}
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		})
	}
	// The end of the server's budget.
	gone := make(chan struct{})
	h, c := handler(tcp(t, func(p *peer) { echo(p); close(gone) }))
	s := serve(t, h, false)
	client := s.tunnel()
	s.parked(1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if cut := s.Front.Drain(ctx); cut != 1 {
		t.Errorf("%d cut", cut)
	}
	<-gone
	client.ended()
	if len(s.Site.Errs()) != 1 || c.Stats().Busy != 0 || h.Tunnels.Len() != 0 {
		t.Errorf("%v, %+v, %d open", s.Site.Errs(), c.Stats(), h.Tunnels.Len())
	}
}

// A direction whose bytes nobody takes keeps the other one awake: it would not be
// there when it is needed.
func TestStalledRelaysDoNotRest(t *testing.T) {
	speak, taken := make(chan struct{}), make(chan int64, 1)
	h, _ := handler(tcp(t, func(p *peer) {
		p.head()
		io.WriteString(p, switching)
		for range 3 {
			<-speak
			io.WriteString(p, "still here")
		}
		n, _ := io.Copy(io.Discard, p)
		taken <- n
	}))
	s := serve(t, h, false)
	p := s.tunnel()
	// More than all sockets on the way hold.
	bulk := make([]byte, 32<<20)
	sent := make(chan error, 1)
	go func() {
		_, err := p.Write(bulk)
		p.closeWrite()
		sent <- err
	}()
	for range 3 {
		speak <- struct{}{}
		if got := p.next(t, 10); got != "still here" {
			t.Errorf("%q", got)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if n := <-taken; n != int64(len(bulk)) {
		t.Errorf("%d bytes arrived", n)
	}
}

// Bytes that come at any moment around a rest arrive, in their order, both ways.
func TestRestLosesNoByte(t *testing.T) {
	for _, secure := range []bool{false, true} {
		h, _ := handler(tcp(t, echo))
		s := serveWith(t, h, secure, 50*time.Microsecond)
		var wait sync.WaitGroup
		for i := range 4 {
			p, rnd := s.tunnel(), rand.New(rand.NewPCG(1, uint64(i)))
			const size = 20_000
			wait.Go(func() {
				for sent := 0; sent < size; {
					n := min(1+rnd.IntN(200), size-sent)
					b := make([]byte, n)
					for j := range b {
						b[j] = byte((sent + j) % 251)
					}
					p.Write(b)
					sent += n
					pause := time.NewTimer(time.Duration(rnd.IntN(200)) * time.Microsecond)
					<-pause.C
				}
				p.closeWrite()
			})
			wait.Go(func() {
				all, err := io.ReadAll(p)
				if len(all) != size || err != nil {
					t.Errorf("secure %v: %d bytes, %v", secure, len(all), err)
				}
				for j := range all {
					if all[j] != byte(j%251) {
						t.Errorf("secure %v: wrong byte at %d", secure, j)
						return
					}
				}
			})
		}
		wait.Wait()
		for range 4 {
			if err := s.lastErr(4); err != nil {
				t.Error(err)
			}
		}
	}
}

// A side whose connection fails is noticed although the other takes nothing, so that
// nobody reads what it has sent (R-STREAM-5).
func TestFailureBehindAStalledReceiver(t *testing.T) {
	// pour writes until everything between here and the stalled side is full.
	pour := func(c net.Conn) {
		var sent atomic.Int64
		go func() {
			for b := make([]byte, 64<<10); ; {
				n, err := c.Write(b)
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
		}()
		for last := int64(-1); last != sent.Load(); <-time.After(200 * time.Millisecond) {
			last = sent.Load()
		}
	}
	reset := func(c net.Conn) {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	stall := make(chan struct{})
	defer close(stall)
	h, _ := handler(tcp(t, func(p *peer) {
		p.head()
		io.WriteString(p, switching)
		<-stall
	}))
	s := serve(t, h, false)
	p := s.tunnel()
	p.SetDeadline(time.Time{})
	pour(p.Conn)
	reset(p.Conn)
	if err := s.lastErr(1); !errors.Is(err, exchange.ErrClientGone) {
		t.Errorf("a client that was reset: %v", err)
	}

	h, _ = handler(tcp(t, func(p *peer) {
		p.head()
		io.WriteString(p, switching)
		pour(p.Conn)
		reset(p.Conn)
	}))
	s = serve(t, h, false)
	s.tunnel() // and reads nothing
	if err := s.lastErr(1); exchange.ReasonOf(err) != "response_error" {
		t.Errorf("a peer that was reset: %v", err)
	}
}
