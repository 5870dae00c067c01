package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/groups"
)

// refused is an address that refuses connections. A socket that does not listen has it
// until the test ends, so that nobody else on the machine is given it meanwhile.
func refused(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port)
}

// groupOf has a peer at each address.
func groupOf(t *testing.T, o groups.Options, b groups.Breaker, addrs ...string) *Handler {
	for _, a := range addrs {
		c := extproc.NewH1(extproc.Target{Kind: extproc.KindProxy, Scheme: extproc.H1, Network: "tcp", Address: a,
			InitTimeout: patience, KeepAlive: time.Minute, HeadTimeout: patience, BodyTimeout: patience}, nil)
		t.Cleanup(c.Retire)
		o.Peers = append(o.Peers, groups.Peer{ID: a, Client: c})
	}
	o.State = groups.NewState(len(addrs), nil, b)
	return &Handler{Group: groups.New(o)}
}

func idle(t *testing.T, h *Handler) {
	t.Helper()
	for i, p := range h.Group.Snapshot() {
		if p.Active != 0 {
			t.Errorf("peer %d has %d reservations", i, p.Active)
		}
	}
}

// G13: the next peer gets the whole body, because the first one got no byte.
func TestG13NextPeerHasTheBody(t *testing.T) {
	for _, n := range []int{2, 5 << 20} {
		sum := make(chan int64, 1)
		addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
			head(br)
			m, _ := io.Copy(io.Discard, io.LimitReader(br, int64(n)))
			sum <- m
			io.WriteString(c, ok)
		})
		h := groupOf(t, groups.Options{}, groups.Breaker{}, refused(t), refused(t), addr)
		w, x, err := serve(h, int64(n), bytes.NewReader(make([]byte, n)), "POST /ping")
		if err != nil || w.out.String() != "okEND" || x.BodyRead() != int64(n) {
			t.Fatalf("%v, %q, %d bytes read", err, w.out.String(), x.BodyRead())
		}
		if got := <-sum; got != int64(n) {
			t.Errorf("the second peer had %d bytes of %d", got, n)
		}
		idle(t, h)
	}
}

// R-MET-5: each attempt is one observation, and the exchange knows how many there
// were, whose the last one was and how it ended.
func TestAttemptsAreTimed(t *testing.T) {
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) { head(br); io.WriteString(c, ok) })
	h := groupOf(t, groups.Options{}, groups.Breaker{}, refused(t), refused(t), addr)
	_, x, err := serve(h, 0, nil, "GET /")
	if a := x.Attempts; err != nil || a.N != 3 || a.Peer != 2 || a.Outcome != "success" {
		t.Errorf("%v, %+v", err, a)
	}
	timed := func(want ...uint64) {
		t.Helper()
		for i, p := range h.Group.Snapshot() {
			if p.Timed != want[i] {
				t.Errorf("peer %d: %d attempts are timed, want %d", i, p.Timed, want[i])
			}
		}
	}
	timed(1, 1, 0) // the last one lasts as long as the exchange
	x.EndAttempt(time.Now().Add(time.Hour))
	x.EndAttempt(time.Now()) // does nothing
	timed(1, 1, 1)
	if took := h.Group.Snapshot()[2].Took; took < time.Hour {
		t.Errorf("the last attempt took %v", took)
	}
	gone, _ := upstream(t, func(c net.Conn, br *bufio.Reader) { head(br) })
	h = groupOf(t, groups.Options{}, groups.Breaker{}, gone)
	if _, x, _ = serve(h, 0, nil, "GET /"); x.Attempts.N != 1 || x.Attempts.Outcome != "transport_error" {
		t.Errorf("%+v", x.Attempts)
	}
}

// G13: once a byte of the request was sent, there is no other attempt, of any
// method.
func TestG13NoReplayOnceSent(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		first, n := upstream(t, func(c net.Conn, br *bufio.Reader) { head(br) }) // and closes
		second, m := upstream(t, func(c net.Conn, br *bufio.Reader) { head(br); io.WriteString(c, ok) })
		h := groupOf(t, groups.Options{}, groups.Breaker{}, first, second)
		w, _, err := serve(h, 2, strings.NewReader("ab"), method+" /")
		if w.head.Status != 502 || exchange.ReasonOf(err) != "upstream_transport" || n.Load() != 1 || m.Load() != 0 {
			t.Errorf("%s: %v, %d; %d and %d connections", method, err, w.head.Status, n.Load(), m.Load())
		}
		idle(t, h)
	}
}

// R-GRP-7: the last failure is the answer when every peer was tried; 503 is for
// "none eligible" (R-GRP-5).
func TestEveryDialFailed(t *testing.T) {
	silent, _ := upstream(t, func(c net.Conn, br *bufio.Reader) { io.Copy(io.Discard, br) }) // no TLS handshake
	h := groupOf(t, groups.Options{RetryTimeout: time.Hour}, groups.Breaker{}, refused(t), refused(t))
	w, _, err := serve(h, 0, nil, "GET /")
	if w.head.Status != 502 || exchange.ReasonOf(err) != "upstream_transport" || w.head.Fields.Has("Retry-After") {
		t.Errorf("%v, %d", err, w.head.Status)
	}
	tls := extproc.NewH1(extproc.Target{Scheme: extproc.H1S, Network: "tcp", Address: silent, InitTimeout: 50 * time.Millisecond}, nil)
	late := &Handler{Group: groups.New(groups.Options{Peers: []groups.Peer{{Client: extproc.NewH1(extproc.Target{Scheme: extproc.H1,
		Network: "tcp", Address: refused(t)}, nil)}, {Client: tls}}})}
	if w, _, err := serve(late, 0, nil, "GET /"); w.head.Status != 504 || exchange.ReasonOf(err) != "connect_timeout" {
		t.Errorf("%v, %d", err, w.head.Status)
	}
	for range 2 {
		serve(h, 0, nil, "GET /")
	}
	w, _, err = serve(h, 0, nil, "GET /")
	if w.head.Status != 503 || exchange.ReasonOf(err) != "no_upstream" || w.head.Fields.Get("Retry-After") != "1" ||
		w.head.Fields.Get("X-Httpjet-Proxy-Error") != "no_upstream" {
		t.Errorf("%v, %d %v", err, w.head.Status, w.head.Fields)
	}
	idle(t, h)
}

// G18, R-BRK-6: what the client saw does not hide which peer failed, and a body
// that breaks off after its head counts as a failure, never as a success.
func TestG18FailuresAreCharged(t *testing.T) {
	f := func(reply string, failures int) {
		t.Helper()
		bad, n := upstream(t, func(c net.Conn, br *bufio.Reader) {
			if head(br) != "" {
				io.WriteString(c, reply)
			}
		})
		good, _ := upstream(t, func(c net.Conn, br *bufio.Reader) { head(br); io.WriteString(c, ok) })
		on := groups.FailOn{Transport: true, Timeout: true}
		on.AddStatus(503)
		h := groupOf(t, groups.Options{}, groups.Breaker{Threshold: 3, Open: time.Hour, FailOn: on}, bad, good)
		for range 5 {
			serve(h, 0, nil, "GET /")
		}
		s := h.Group.Snapshot()
		if open := s[0].Response == "open"; int(n.Load()) != failures || open != (failures == 3) || s[0].Dial != "closed" || s[1].Response != "closed" {
			t.Errorf("%q: %d requests at the bad peer, want %d; %+v", reply, n.Load(), failures, s)
		}
		idle(t, h)
	}
	f("HTTP/1.1 503 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", 3)
	f("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ncut", 3)
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ncu", 3)
	f("not HTTP\r\n\r\n", 3)
	f("", 3)
	f("HTTP/1.1 500 Other\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", 5)
	f("HTTP/1.1 404 Here\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", 5)
}

// G23: a client that goes away, before the head or in the body, charges nobody.
func TestG23ClientAbort(t *testing.T) {
	for _, reply := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"} {
		arrived := make(chan bool)
		addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
			for h := head(br); h != ""; h = head(br) {
				if strings.HasPrefix(h, "GET /slow") {
					io.WriteString(c, reply)
					arrived <- true
				} else {
					io.WriteString(c, ok)
				}
			}
		})
		all := groups.FailOn{Transport: true, Timeout: true}
		h := groupOf(t, groups.Options{RetryTimeout: time.Hour}, groups.Breaker{Threshold: 1, Open: time.Hour, FailOn: all}, addr)
		for range 5 {
			ctx, cancel := context.WithCancel(context.Background())
			x := &exchange.Exchange{}
			x.Reset(&wire{ctx: ctx})
			done := make(chan error)
			go func() { done <- exchange.Run(fill(x, 0, "GET /slow"), h) }()
			<-arrived
			cancel()
			if err := <-done; !errors.Is(err, exchange.ErrClientGone) {
				t.Errorf("%v", err)
			}
		}
		if s := h.Group.Snapshot()[0]; s.Dial != "closed" || s.Response != "closed" || s.Active != 0 {
			t.Errorf("%+v", s)
		}
		if w, _, err := serve(h, 0, nil, "GET /next"); err != nil || w.out.String() != "okEND" || results(h) != "success 1 canceled 5" {
			t.Errorf("%v %q, %s", err, w.out.String(), results(h))
		}
	}
}

// R-LB-8: the cookie is added to the reply, behind the upstream's own.
func TestStickyCookieOnTheReply(t *testing.T) {
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		for h := head(br); h != ""; h = head(br) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nSet-Cookie: own=1\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	h := groupOf(t, groups.Options{Policy: groups.Sticky, Cookie: groups.Cookie{Name: "S"}}, groups.Breaker{}, addr)
	w, _, _ := serve(h, 0, nil, "GET /")
	var got []string
	for v := range w.head.Fields.Values("Set-Cookie") {
		got = append(got, v)
	}
	if len(got) != 2 || got[0] != "own=1" || !strings.HasPrefix(got[1], "S=") {
		t.Fatalf("cookies %q", got)
	}
	mine, _, _ := strings.Cut(got[1], ";")
	if w, _, _ = serve(h, 0, nil, "GET /\nCookie: own=1; "+mine); w.head.Fields.Get("Set-Cookie") != "own=1" || w.head.Fields.Len() != 1 {
		t.Errorf("fields %v", w.head.Fields)
	}
}

// panicking is a client with a fault.
type panicking struct{}

func (panicking) Do(context.Context, *extproc.Call) (*extproc.Reply, error) { panic("test") }
func (panicking) Retire()                                                   {}

// R-GRP-8: a panic releases too, and says nothing about the peer.
func TestPanicReleases(t *testing.T) {
	h := &Handler{Group: groups.Single(panicking{})}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		serve(h, 0, nil, "GET /")
	}()
	idle(t, h)
}

// BenchmarkGroup is BenchmarkGET without the upstream: what a group of ten adds to
// a call, and a single peer.
func BenchmarkGroup(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := groups.Options{Policy: groups.WeightedRoundRobin}
			for i := range n {
				o.Peers = append(o.Peers, groups.Peer{ID: fmt.Sprint(i), Client: instant{}})
			}
			h := &Handler{Group: groups.New(o)}
			w := &wire{ctx: context.Background()}
			x := &exchange.Exchange{}
			b.ReportAllocs()
			for b.Loop() {
				x.Reset(w)
				x.Req.Method, x.Req.Target, x.Req.Proto, x.Req.Scheme, x.Req.Host = "GET", "/index.html", "HTTP/1.1", "http", "a.test"
				w.out.Reset()
				if err := exchange.Run(x, h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// instant answers without an upstream.
type instant struct{}

func (instant) Do(context.Context, *extproc.Call) (*extproc.Reply, error) {
	return &extproc.Reply{Status: 204, Body: strings.NewReader(""), Done: func() error { return nil }}, nil
}
func (instant) Retire() {}
