package extproc

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

// shortly is a moment that comes at once, while everything else waits for patience.
func shortly() time.Time { return time.Now().Add(30 * time.Millisecond) }

// R-TMO-4: the head has to be in by the moment that the caller sets, whatever the
// call waits for.
func TestHeadBy(t *testing.T) {
	silent := newUpstream(t, func(u *upstream, c *upConn) { io.Copy(io.Discard, c) })
	p := client(t, target(silent.addr))
	call := get("/")
	call.HeadBy = shortly()
	r, err := p.Do(bg, call)
	fails(t, r, err, 504, "upstream_timeout")

	pr, pw := io.Pipe() // a client that sends nothing of its body: not the peer's fault
	defer pw.Close()
	call = post(1<<20, pr)
	call.HeadBy = shortly()
	r, err = p.Do(bg, call)
	fails(t, r, err, 408, "request_stalled")

	whole := post(3, strings.NewReader("abc"))
	whole.HeadBy = shortly()
	r, err = p.Do(bg, whole)
	fails(t, r, err, 504, "upstream_timeout")

	tg := target(silent.addr) // no handshake
	tg.Scheme = H1S
	call = get("/")
	call.HeadBy = shortly()
	_, err = client(t, tg).Do(bg, call)
	if e, ok := errors.AsType[*DialError](err); !ok || !e.Timeout {
		t.Errorf("%v, want a dial that timed out", err)
	}

	full := target(silent.addr)
	full.MaxConns = 1
	one := client(t, full)
	ctx, cancel := context.WithCancel(bg)
	done := make(chan error)
	go func() { _, err := one.Do(ctx, get("/")); done <- err }()
	eventually(t, "the permit is taken", func() bool { return one.Stats().Busy == 1 })
	call = get("/")
	call.HeadBy = shortly()
	r, err = one.Do(bg, call)
	fails(t, r, err, 504, "connect_timeout")
	cancel()
	if err := <-done; !errors.Is(err, exchange.ErrClientGone) {
		t.Error(err)
	}
}

// A moment that has not come changes nothing, also for a kept connection and behind
// the head.
func TestHeadByInTime(t *testing.T) {
	u := newUpstream(t, answer(ok))
	p := client(t, target(u.addr))
	for range 3 {
		call := get("/")
		call.HeadBy = time.Now().Add(patience)
		r, err := p.Do(bg, call)
		if got := body(t, r, err); got != "ok" {
			t.Error(got)
		}
	}
	if n := u.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// R-TMO-5: a body that pauses for too long is cut, one whose client pauses is not.
func TestIdleTimeout(t *testing.T) {
	go2 := make(chan bool, 1)
	u := newUpstream(t, func(u *upstream, c *upConn) {
		u.head(c)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
		<-go2
		io.WriteString(c, "cd")
		io.Copy(io.Discard, c)
	})
	p := client(t, target(u.addr))
	call := get("/")
	call.IdleTimeout = 30 * time.Millisecond
	r, err := p.Do(bg, call)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := io.ReadAtLeast(r.Body, buf, 2); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	_, err = r.Body.Read(buf)
	if e, ok := errors.AsType[*exchange.Error](err); !ok || e.Status != 504 || e.Reason != "response_error" {
		t.Errorf("%v", err)
	}
	r.Close()
	go2 <- true

	call = get("/")
	call.IdleTimeout = patience
	if r, err = p.Do(bg, call); err != nil {
		t.Fatal(err)
	}
	io.ReadAtLeast(r.Body, buf, 2)
	c := r.Body.(*h1call) // as if the client had taken its time over these two
	c.reading = c.reading.Add(-2 * patience)
	c.conn.setReadBy(longAgo)
	go2 <- true
	if n, err := io.ReadAtLeast(r.Body, buf, 2); n != 2 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.Close()
}

// R-RETRY-7, R-POOL-4: a client does not repeat by itself what the caller does not
// want to be repeated. A connection that was found dead before anything was sent is
// none of that.
func TestNoReplay(t *testing.T) {
	f := func(method string, noReplay bool, want bool) {
		t.Helper()
		u := newUpstream(t, func(u *upstream, c *upConn) {
			u.head(c)
			io.WriteString(c, ok)
			if c.n == 1 {
				u.head(c) // and closes without an answer
				return
			}
			u.head(c)
		})
		p := client(t, target(u.addr))
		r, err := p.Do(bg, get("/"))
		body(t, r, err)
		call := get("/")
		call.Method, call.NoReplay = method, noReplay
		r, err = p.Do(bg, call)
		if want {
			body(t, r, err)
			return
		}
		fails(t, r, err, 502, "upstream_transport")
	}
	f("GET", false, true)
	f("GET", true, false)
	f("DELETE", false, true)
	f("DELETE", true, false)
	f("POST", false, false)

	u := newUpstream(t, answer(ok))
	p := client(t, target(u.addr))
	r, err := p.Do(bg, get("/"))
	body(t, r, err)
	p.mu.Lock()
	p.idle[0].socket.(*net.TCPConn).CloseRead() // as one whose FIN is there already
	p.mu.Unlock()
	call := get("/")
	call.NoReplay = true
	r, err = p.Do(bg, call)
	if got := body(t, r, err); got != "ok" {
		t.Error(got)
	}
}

// The same over HTTP/2.
func TestH2Bounds(t *testing.T) {
	u := newH2peers(t, func(p *h2peer) {
		for h := p.request(); h != nil; h = p.request() {
			if h.PseudoValue("path") == "/half" {
				p.head(h.StreamID, false, ":status", "200")
				p.data(h.StreamID, false, "ab")
			}
		}
	})
	p := h2client(t, h2target(u.addr))
	r, err := p.Do(bg, get("/half")) // no bound covers the dial
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	call := get("/")
	call.HeadBy = shortly()
	r, err = p.Do(bg, call)
	fails(t, r, err, 504, "upstream_timeout")

	pr, pw := io.Pipe()
	defer pw.Close()
	call = post(1<<20, pr)
	call.HeadBy = shortly()
	r, err = p.Do(bg, call)
	fails(t, r, err, 408, "request_stalled")

	call = get("/half")
	call.HeadBy, call.IdleTimeout = time.Now().Add(patience), 30*time.Millisecond
	r, err = p.Do(bg, call)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := io.ReadAtLeast(r.Body, buf, 2); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	_, err = r.Body.Read(buf)
	if e, ok := errors.AsType[*exchange.Error](err); !ok || e.Status != 504 || e.Reason != "response_error" {
		t.Errorf("%v", err)
	}
	r.Close()
}
