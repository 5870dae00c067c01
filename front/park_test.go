package front_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/front"
)

// restless parks a connection as soon as it waits.
const restless = time.Millisecond

// startResting serves h and parks connections at once.
func startResting(t *testing.T, h exchange.Handler, lim front.Limits, secure bool) *exchangetest.Server {
	t.Helper()
	if lim.KeepAliveTimeout == 0 {
		lim.KeepAliveTimeout = time.Minute
	}
	return exchangetest.Start(t, &exchangetest.Site{Handler: h, Lim: lim, Rest: restless}, secure)
}

// client is a connection with its reader.
type client struct {
	net.Conn
	r *bufio.Reader
}

func connect(t *testing.T, s *exchangetest.Server) client {
	t.Helper()
	c := dial(t, s)
	return client{c, bufio.NewReader(c)}
}

// get sends a request and returns the body of the answer.
func (c client) get(path string) (string, error) {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return "", err
	}
	return c.answer()
}

func (c client) answer() (string, error) {
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// expect is get with a check.
func (c client) expect(t *testing.T, path, want string) {
	t.Helper()
	if got, err := c.get(path); got != want || err != nil {
		t.Errorf("%s: %q, %v, want %q", path, got, err, want)
	}
}

// ended checks that the server has closed the connection in an orderly way.
func (c client) ended(t *testing.T, what string) {
	t.Helper()
	if b, err := io.ReadAll(c.r); len(b) > 0 || err != nil {
		t.Errorf("%s: %q, %v", what, b, err)
	}
}

// parked waits until n connections are.
func parked(t *testing.T, s *exchangetest.Server, n int) {
	t.Helper()
	waitFor(t, func() bool { return s.Front.Snapshot().Parked == n })
}

// TestParked: a connection at rest keeps its place and its count of requests, and
// nothing else; it serves on as if nothing had been.
func TestParked(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := startResting(t, echo, front.Limits{MaxKeepAliveReq: 4}, secure)
		c := connect(t, s)
		parked(t, s, 1) // before its first request too
		for i := range 3 {
			c.expect(t, fmt.Sprintf("/%d", i), fmt.Sprintf("[GET /%d ]", i))
			parked(t, s, 1)
			if st := s.Front.Snapshot(); st.Active != 1 || st.InFlight != 0 || st.Accepted != 1 {
				t.Errorf("secure %v: %+v", secure, st)
			}
		}
		c.expect(t, "/last", "[GET /last ]")
		c.ended(t, "behind the last request")
		waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
		parked(t, s, 0)
	}
}

// TestParkedWakesInPieces: a head that comes byte by byte, a body behind it and a
// pipelined request are what they are to a connection that was never parked.
func TestParkedWakesInPieces(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := startResting(t, echo, front.Limits{}, secure)
		c := connect(t, s)
		parked(t, s, 1)
		for _, b := range []byte("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\nHost: a\r\n\r\n") {
			c.Write([]byte{b})
		}
		for _, want := range []string{"[POST /a abc]", "[GET /b ]"} {
			if got, err := c.answer(); got != want || err != nil {
				t.Errorf("secure %v: %q, %v, want %q", secure, got, err, want)
			}
		}
		parked(t, s, 1)
		c.Close()
		waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
	}
}

// TestParkingLosesNoByte lets requests come at every moment around the rest.
func TestParkingLosesNoByte(t *testing.T) {
	for _, secure := range []bool{false, true} {
		site := &exchangetest.Site{Handler: echo, Lim: front.Limits{KeepAliveTimeout: time.Minute}, Rest: 50 * time.Microsecond}
		s := exchangetest.Start(t, site, secure)
		var wait sync.WaitGroup
		for i := range 8 {
			c := connect(t, s)
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			wait.Go(func() {
				for j := range 200 {
					pause := time.NewTimer(time.Duration(rnd.IntN(300)) * time.Microsecond)
					<-pause.C
					path := fmt.Sprintf("/%d", j)
					if got, err := c.get(path); got != "[GET "+path+" ]" || err != nil {
						t.Errorf("secure %v: %q, %v", secure, got, err)
						return
					}
				}
			})
		}
		wait.Wait()
	}
}

// TestParkedPreface: a connection that was parked before it said anything may still
// turn out to speak HTTP/2.
func TestParkedPreface(t *testing.T) {
	s := startResting(t, echo, front.Limits{EnableH2C: true}, false)
	c := connect(t, s)
	parked(t, s, 1)
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	frame := make([]byte, 9)
	if _, err := io.ReadFull(c.r, frame); err != nil || frame[3] != 4 { // SETTINGS
		t.Errorf("%x, %v", frame, err)
	}
}

// TestParkedSeesTheNewSite: the next request of a parked connection is served by
// the site that is current then.
func TestParkedSeesTheNewSite(t *testing.T) {
	var mu sync.Mutex
	name := "old"
	s := startResting(t, handle(func(x *exchange.Exchange) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := io.WriteString(x, name)
		return err
	}), front.Limits{}, false)
	c := connect(t, s)
	c.expect(t, "/", "old")
	parked(t, s, 1)
	mu.Lock()
	name = "new"
	mu.Unlock()
	c.expect(t, "/", "new")
}

// TestParkedExpires: the keep-alive timeout holds for who is parked, with a
// farewell over TLS, and so does the connection timeout before the first request.
func TestParkedExpires(t *testing.T) {
	for _, secure := range []bool{false, true} {
		// A connection without a request ends by the second, which bounds the handshake too.
		s := startResting(t, echo, front.Limits{KeepAliveTimeout: 50 * time.Millisecond, ConnTimeout: 2 * time.Second}, secure)
		silent, used := connect(t, s), connect(t, s)
		used.expect(t, "/", "[GET / ]")
		used.ended(t, "after a request")
		silent.ended(t, "without a request")
		waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
		if st := s.Front.Snapshot(); st.Parked != 0 || st.TLSErrors != 0 {
			t.Errorf("%+v", st)
		}
		if n := len(s.Site.Errs()); n != 1 {
			t.Errorf("%d exchanges", n)
		}
	}
}

// TestParkedForgetsDeadlines: a deadline for writing that was set before the rest
// does not fail the answer after it.
func TestParkedForgetsDeadlines(t *testing.T) {
	large := strings.Repeat("x", 200<<10) // more than leaves by one write
	s := startResting(t, handle(func(x *exchange.Exchange) error {
		x.Resp.Length = int64(len(large))
		_, err := io.WriteString(x, large)
		return err
	}), front.Limits{ConnTimeout: 50 * time.Millisecond}, false)
	c, clock := connect(t, s), connect(t, s)
	c.expect(t, "/", large)
	clock.ended(t, "clock") // a connection timeout has passed, rounded up
	later := connect(t, s)
	later.ended(t, "clock")
	c.expect(t, "/", large)
}

// TestNoPlaceToPark: where nobody can be parked, connections and tunnels wait as
// they are, and end as they should.
func TestNoPlaceToPark(t *testing.T) {
	for _, secure := range []bool{false, true} {
		tunnels := make(chan *still, 1)
		tunnel := detaching(tunnels, 0, "")
		s := startResting(t, handle(func(x *exchange.Exchange) error {
			if x.Req.Fields.Has("Upgrade") {
				return tunnel.Serve(x)
			}
			return echo.Serve(x)
		}), front.Limits{KeepAliveTimeout: 200 * time.Millisecond}, secure)
		s.Front.RefuseWatches()
		idle, up := connect(t, s), connect(t, s)
		io.WriteString(up, upgrade)
		if resp, err := http.ReadResponse(up.r, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(resp, err)
		}
		b := make([]byte, 4)
		for range 5 {
			pause := time.NewTimer(3 * restless) // a rest passes, or not
			<-pause.C
			idle.expect(t, "/", "[GET / ]")
			io.WriteString(up, "ping")
			if _, err := io.ReadFull(up.r, b); string(b) != "ping" || err != nil {
				t.Errorf("secure %v: %q, %v", secure, b, err)
			}
		}
		if n := s.Front.Snapshot().Parked; n != 0 {
			t.Errorf("%d parked", n)
		}
		idle.ended(t, "after the keep-alive timeout")
		(<-tunnels).Close()
		waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
	}
}

// TestParkedHoldsItsPermit covers R-LSN-9 for those at rest.
func TestParkedHoldsItsPermit(t *testing.T) {
	s := startResting(t, echo, front.Limits{MaxConns: 1}, false)
	first := connect(t, s)
	first.expect(t, "/", "[GET / ]")
	parked(t, s, 1)
	second := connect(t, s)
	io.WriteString(second, "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
	if st := s.Front.Snapshot(); st.Accepted != 1 || st.Active != 1 {
		t.Errorf("%+v", st)
	}
	first.Close()
	if got, err := second.answer(); got != "[GET /2 ]" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestDrainClosesParked covers R-STOP-1 for those at rest, and a listener that a
// reload removed, which leaves others alone.
func TestDrainClosesParked(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := startResting(t, echo, front.Limits{}, secure)
		l, err := s.Front.Listen("second", front.Key{Network: "tcp4", Address: "127.0.0.1:0", Secure: secure})
		if err != nil {
			t.Fatal(err)
		}
		s.Front.Serve(l)
		used, silent := connect(t, s), connect(t, s)
		other := connect(t, &exchangetest.Server{URL: s.URL, Addr: l.Addr().String()})
		used.expect(t, "/", "[GET / ]")
		parked(t, s, 3)
		last := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			_, err := io.WriteString(x, "the last site")
			return err
		}), Conf: s.Site.Conf}
		l.StayWith(last)
		l.Close()
		other.expect(t, "/", "the last site")
		other.ended(t, "of the removed listener, behind an answer")
		parked(t, s, 2)
		if cut := s.Front.Drain(context.Background()); cut != 0 {
			t.Errorf("%d connections cut", cut)
		}
		used.ended(t, "used")
		silent.ended(t, "silent")
		if st := s.Front.Snapshot(); st.Parked != 0 || st.Active != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// TestCrowdParks: those at rest have no goroutine, and all can come back at once.
func TestCrowdParks(t *testing.T) {
	const n = 300
	s := startResting(t, echo, front.Limits{}, false)
	before := runtime.NumGoroutine()
	crowd := make([]client, n)
	for i := range crowd {
		crowd[i] = connect(t, s)
	}
	parked(t, s, n)
	waitFor(t, func() bool { return runtime.NumGoroutine() < before+10 })
	for range 3 {
		for _, c := range crowd {
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		for _, c := range crowd {
			if got, err := c.answer(); got != "[GET / ]" || err != nil {
				t.Fatalf("%q, %v", got, err)
			}
		}
		parked(t, s, n)
	}
}

// TestCrowdGivesMemoryBack: what a crowd at rest has left does not wait for the next
// collection.
func TestCrowdGivesMemoryBack(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	s := startResting(t, echo, front.Limits{}, false)
	s.Front.Expect(front.CrowdSize - 3)
	c := connect(t, s)
	before := forced()
	parked(t, s, 1)
	c.expect(t, "/", "[GET / ]")
	parked(t, s, 1)
	if n := forced(); n != before {
		t.Errorf("%d collections for a few connections", n-before)
	}
	c.expect(t, "/", "[GET / ]")
	parked(t, s, 1)
	waitFor(t, func() bool { return forced() == before+2 })
}

// TestParkingMeetsItsEnd lets rests, requests, ends of clients, expiry and the
// drain meet: everything comes to an end, nothing is answered twice or left.
func TestParkingMeetsItsEnd(t *testing.T) {
	for _, secure := range []bool{false, true} {
		site := &exchangetest.Site{Handler: echo, Rest: 20 * time.Microsecond,
			Lim: front.Limits{KeepAliveTimeout: time.Millisecond, ConnTimeout: time.Second}}
		s := exchangetest.Start(t, site, secure)
		var wait sync.WaitGroup
		for i := range 16 {
			rnd := rand.New(rand.NewPCG(2, uint64(i)))
			c := connect(t, s)
			wait.Go(func() {
				defer c.Close()
				for range 1 + rnd.IntN(100) {
					pause := time.NewTimer(time.Duration(rnd.IntN(200)) * time.Microsecond)
					<-pause.C
					if _, err := c.get("/"); err != nil {
						return
					}
				}
				if rnd.IntN(2) == 0 {
					io.Copy(io.Discard, c)
				}
			})
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		waitFor(t, func() bool { return len(site.Errs()) > 100 })
		if cut := s.Front.Drain(ctx); cut != 0 {
			t.Errorf("%d connections cut", cut)
		}
		cancel()
		wait.Wait()
		if st := s.Front.Snapshot(); st.Parked != 0 || st.Active != 0 || st.InFlight != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// still is a tunnel that rests whenever it may, and counts how often it was run.
type still struct {
	d      exchange.Duplex
	mu     sync.Mutex
	runs   int
	closed bool
	until  time.Time
	fails  string // what goes wrong
}

func (s *still) Run(rest time.Duration) (exchange.Rest, bool) {
	s.mu.Lock()
	s.runs++
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return exchange.Rest{}, false
	}
	b := make([]byte, 100)
	var at time.Time
	if rest > 0 {
		at = time.Now().Add(rest)
	}
	s.d.SetReadDeadline(at)
	n, err := s.d.Read(b)
	if n > 0 {
		if s.fails == "panic" {
			panic("in a tunnel")
		}
		s.d.Write(b[:n])
		err = nil
	}
	var late net.Error
	switch {
	case rest == 0 && err == nil:
		return s.Run(rest) // it does not rest
	case err == nil || errors.As(err, &late) && late.Timeout():
		return exchange.Rest{Client: true, Until: s.until}, true
	}
	s.Close()
	return exchange.Rest{}, false
}

func (s *still) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if !closed {
		s.d.Close()
	}
}

func (s *still) End() error { return nil }

// detaching serves tunnels that rest.
func detaching(tunnels chan<- *still, until time.Duration, fails string) exchange.Handler {
	return handle(func(x *exchange.Exchange) error {
		d, err := x.Upgrade()
		if err != nil {
			return err
		}
		s := &still{d: d, fails: fails}
		if until > 0 {
			s.until = time.Now().Add(until)
		}
		x.Detach(s)
		tunnels <- s
		if fails == "handler" {
			return errors.New("after all")
		}
		return nil
	})
}

const upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

// TestTunnelsPark: a tunnel whose handler has left rests and goes on, and its
// exchange is finished once it ends, however it does.
func TestTunnelsPark(t *testing.T) {
	f := func(what string, secure bool, end func(s *exchangetest.Server, c client, tun *still)) {
		t.Helper()
		tunnels := make(chan *still, 1)
		s := startResting(t, detaching(tunnels, 0, ""), front.Limits{}, secure)
		c := connect(t, s)
		io.WriteString(c, upgrade+"early")
		if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != 101 {
			t.Fatalf("%s: %v, %v", what, resp, err)
		}
		b := make([]byte, 5)
		for _, say := range []string{"early", "later", "again"} {
			if say != "early" {
				parked(t, s, 1)
				io.WriteString(c, say)
			}
			if _, err := io.ReadFull(c.r, b); string(b) != say || err != nil {
				t.Errorf("%s: %q, %v", what, b, err)
			}
		}
		parked(t, s, 1)
		if st := s.Front.Snapshot(); st.Tunnels != 1 || st.Active != 1 || st.InFlight != 0 || len(s.Site.Errs()) != 0 {
			t.Errorf("%s: %+v", what, st)
		}
		end(s, c, <-tunnels)
		waitFor(t, func() bool { return len(s.Site.Errs()) == 1 })
		waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
		if st := s.Front.Snapshot(); st.Tunnels != 0 || st.Parked != 0 {
			t.Errorf("%s: %+v", what, st)
		}
	}
	for _, secure := range []bool{false, true} {
		f("the client leaves", secure, func(_ *exchangetest.Server, c client, _ *still) { c.Close() })
		f("closed from outside", secure, func(_ *exchangetest.Server, c client, tun *still) {
			tun.Close()
			c.ended(t, "closed from outside")
		})
		f("cut", secure, func(s *exchangetest.Server, c client, _ *still) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if cut := s.Front.Drain(ctx); cut != 1 {
				t.Errorf("%d connections cut", cut)
			}
			io.Copy(io.Discard, c)
		})
	}
}

// TestTunnelUntil: a tunnel at rest is run again when its time has come.
func TestTunnelUntil(t *testing.T) {
	tunnels := make(chan *still, 1)
	s := startResting(t, detaching(tunnels, 10*time.Millisecond, ""), front.Limits{}, false)
	c := connect(t, s)
	io.WriteString(c, upgrade)
	tun := <-tunnels
	waitFor(t, func() bool {
		tun.mu.Lock()
		defer tun.mu.Unlock()
		return tun.runs > 2
	})
	tun.Close()
	waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
}

// TestTunnelFails: one that panics, or whose handler fails behind Detach, is closed
// and finished.
func TestTunnelFails(t *testing.T) {
	for _, fails := range []string{"panic", "handler"} {
		s := startResting(t, detaching(make(chan *still, 1), 0, fails), front.Limits{}, false)
		c := connect(t, s)
		io.WriteString(c, upgrade+"x")
		io.Copy(io.Discard, c)
		waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
		if st := s.Front.Snapshot(); st.Tunnels != 0 || len(s.Site.Errs()) != 1 || (st.Bugs == 1) != (fails == "panic") {
			t.Errorf("%s: %+v, %v", fails, st, s.Site.Errs())
		}
	}
}
