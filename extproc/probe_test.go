//lint:file-ignore SA1019 frames are what some of these tests are about

package extproc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// probeOf probes with all the time there is and returns the error as text.
func probeOf(p interface {
	Probe(ctx context.Context, pr Probe) error
}, pr Probe) string {
	c, cancel := context.WithTimeout(bg, patience)
	defer cancel()
	if err := p.Probe(c, pr); err != nil {
		return err.Error()
	}
	return "ok"
}

// R-PROBE-3: statuses are compared exactly, redirects are not followed, bodies
// not read, heads bounded.
func TestProbeStatus(t *testing.T) {
	f := func(reply string, pr Probe, want string) {
		t.Helper()
		u := newUpstream(t, answer(reply))
		p := client(t, target(u.addr))
		if got := probeOf(p, pr); !strings.HasPrefix(got, want) {
			t.Errorf("%.40q: %q, want %q", reply, got, want)
		}
		if s := p.Stats(); s.Idle != 0 || s.Busy != 0 {
			t.Errorf("probe left %+v", s)
		}
	}
	get, head, any := Probe{Method: "GET", Path: "/", Status: 200}, Probe{Method: "HEAD", Path: "/", Status: 204}, Probe{Method: "GET", Path: "/"}
	f(ok, get, "ok")
	f("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegin", get, "ok")
	f("HTTP/1.1 204 No Content\r\n\r\n", head, "ok")
	f(ok, head, "status 200")
	f("HTTP/1.1 299 x\r\n\r\n", any, "ok")
	f("HTTP/1.1 302 Found\r\nLocation: /ok\r\n\r\n", any, "status 302")
	f("HTTP/1.1 302 Found\r\nLocation: /ok\r\n\r\n", get, "status 302")
	f("HTTP/1.1 100 Continue\r\n\r\n"+ok, get, "ok")
	f(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000)+ok, get, "reply: head too large")
	f("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 16<<10)+"\r\n\r\n", get, "reply: head too large")
	f("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 12<<10)+"\r\n\r\n", get, "ok")
	f("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", get, "reply: ")
	f("SSH-2.0-x\r\n\r\n", get, "reply: ")
	f("SSH-2.0-x\r\n\r\n", Probe{}, "ok") // connect asks for a connection only
}

// R-PROBE-3: what goes out.
func TestProbeRequest(t *testing.T) {
	u := newUpstream(t, answer(ok))
	p := client(t, target(u.addr))
	probeOf(p, Probe{Method: "GET", Path: "/up?x=1", Status: 200})
	probeOf(p, Probe{Method: "HEAD", Path: "/", Host: "app.test", Status: 200})
	eventually(t, "two requests", func() bool { return len(u.heads()) == 2 })
	const rest = "\r\nUser-Agent: httpjet-health\r\nAccept: */*\r\nConnection: close\r\n\r\n"
	h := u.heads()
	if want := "GET /up?x=1 HTTP/1.1\r\nHost: " + u.addr + rest; h[0] != want {
		t.Errorf("sent %q", h[0])
	}
	if want := "HEAD / HTTP/1.1\r\nHost: app.test" + rest; h[1] != want {
		t.Errorf("sent %q", h[1])
	}
	if n := u.conns.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// R-PROBE-4: a probe needs no permit of the pool.
func TestProbeIsOutsideMaxConns(t *testing.T) {
	u := newUpstream(t, answer(ok))
	tg := target(u.addr)
	tg.MaxConns = 1
	p := client(t, tg)
	r, err := p.Do(bg, get("/"))
	if err != nil {
		t.Fatal(err)
	}
	if got := probeOf(p, Probe{Method: "GET", Path: "/", Status: 200}); got != "ok" {
		t.Error(got)
	}
	body(t, r, nil)
}

func TestProbeFailures(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, pr := range []Probe{{}, {Method: "GET", Path: "/"}} {
		if got := probeOf(client(t, target(l.Addr().String())), pr); !strings.HasPrefix(got, "connect: ") || !strings.Contains(got, "refused") {
			t.Error(got)
		}
	}
	u := newUpstream(t, func(u *upstream, c *upConn) { u.head(c) })
	if got := probeOf(client(t, target(u.addr)), Probe{Method: "GET", Path: "/"}); !strings.HasPrefix(got, "reply: ") {
		t.Error(got)
	}
	// Its deadline is the probe's time; the end of the probes is no result.
	mute := newUpstream(t, func(u *upstream, c *upConn) { u.head(c); io.Copy(io.Discard, c) })
	p := client(t, target(mute.addr))
	c, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	defer cancel()
	if err := p.Probe(c, Probe{Method: "GET", Path: "/"}); err == nil || !strings.Contains(err.Error(), "not in time") {
		t.Error(err)
	}
	stopping, stop := context.WithCancel(bg)
	result := make(chan error)
	go func() { result <- p.Probe(stopping, Probe{Method: "GET", Path: "/"}) }()
	eventually(t, "the probe waits", func() bool { return mute.conns.Load() == 2 })
	stop()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// R-PROBE-3: connect does the handshake of a TLS target, and verifies.
func TestProbeTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	base := s.Client().Transport.(*http.Transport).TLSClientConfig
	tg := target(s.Listener.Addr().String())
	tg.Scheme, tg.TLSName = H1S, "example.com"
	for _, pr := range []Probe{{}, {Method: "GET", Path: "/", Host: "other.test", Status: 404}} {
		if got := probeOf(NewH1(tg, base), pr); got != "ok" {
			t.Error(got)
		}
		if got := probeOf(NewH1(tg, nil), pr); !strings.HasPrefix(got, "connect: ") || !strings.Contains(got, "certificate") {
			t.Errorf("unknown authority: %s", got)
		}
	}
	plain := newUpstream(t, func(u *upstream, c *upConn) { io.WriteString(c, ok) })
	tg.Address = plain.addr
	if got := probeOf(NewH1(tg, base), Probe{}); !strings.HasPrefix(got, "connect: ") {
		t.Errorf("no TLS there: %s", got)
	}
}

func TestProbeUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	u := serveOn(t, l, answer(ok))
	tg := target(path)
	tg.Network = "unix"
	p := client(t, tg)
	for _, pr := range []Probe{{}, {Method: "GET", Path: "/"}} {
		if got := probeOf(p, pr); got != "ok" {
			t.Error(got)
		}
	}
	if h := u.heads(); len(h) != 1 || !strings.Contains(h[0], "\r\nHost: localhost\r\n") {
		t.Errorf("%q", h)
	}
}

// R-PROBE-3: over HTTP/2 too; a connection of its own, that is closed.
func TestProbeH2(t *testing.T) {
	seen, closed := make(chan string, 1), make(chan int, 1)
	f := func(pr Probe, want string, answer func(p *h2peer, id uint32)) {
		t.Helper()
		u := newH2peers(t, func(p *h2peer) {
			if h := p.request(); h != nil {
				seen <- fieldText(h)
				answer(p, h.StreamID)
			}
			for p.next() != nil {
			}
			closed <- p.n
		})
		tg := h2target(u.addr)
		tg.MaxConns = 1
		p := h2client(t, tg)
		if got := probeOf(p, pr); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		head := soon(t, "a request", seen)
		for _, want := range []string{":method: " + pr.Method + "\n", ":path: " + pr.Path + "\n", "user-agent: httpjet-health\n", "accept: */*\n"} {
			if !strings.Contains(head, want) {
				t.Errorf("%q", head)
			}
		}
		if authority := pr.Host; authority != "" && !strings.Contains(head, ":authority: "+authority+"\n") || authority == "" && !strings.Contains(head, ":authority: "+u.addr+"\n") {
			t.Errorf("%q", head)
		}
		soon(t, "it is closed", closed)
		if s := p.Stats(); s != (PoolStats{}) {
			t.Errorf("probe left %+v", s)
		}
	}
	get, head := Probe{Method: "GET", Path: "/up?x=1", Status: 200}, Probe{Method: "HEAD", Path: "/", Host: "app.test"}
	f(get, "ok", func(p *h2peer, id uint32) {
		p.head(id, false, ":status", "103")
		p.ok(id, "x")
	})
	f(get, "ok", func(p *h2peer, id uint32) { p.head(id, false, ":status", "200") }) // its body is not awaited
	f(head, "ok", func(p *h2peer, id uint32) { p.head(id, true, ":status", "299") })
	f(get, "status 302", func(p *h2peer, id uint32) { p.head(id, true, ":status", "302", "location", "/ok") })
	f(get, "reply: http2: response header list", func(p *h2peer, id uint32) { p.head(id, false, ":status", "200", "x", strings.Repeat("x", 16<<10)) })
	f(get, "reply: stream reset", func(p *h2peer, id uint32) { p.reset(id, http2.ErrCodeInternal) })
	f(get, "reply: ", func(p *h2peer, id uint32) { p.conn.Close() })
	// connect opens a connection and says nothing.
	u := newUpstream(t, func(u *upstream, c *upConn) { io.Copy(io.Discard, c) })
	p := h2client(t, h2target(u.addr))
	if got := probeOf(p, Probe{}); got != "ok" {
		t.Error(got)
	}
	c, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	defer cancel()
	if err := p.Probe(c, get); err == nil || err.Error() != "connect: not in time" {
		t.Error(err)
	}
	if got := probeOf(h2client(t, h2target(newUpstream(t, answer(ok)).addr)), get); !strings.HasPrefix(got, "connect: ") {
		t.Error(got)
	}
}

// A probe is cheap: 16 of them in a second are to cost less than 1 % of a core.
func BenchmarkProbe(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer s.Close()
	for _, pr := range []Probe{{}, {Method: "GET", Path: "/", Status: 200}} {
		b.Run("mode="+pr.Method, func(b *testing.B) {
			p := NewH1(target(s.Listener.Addr().String()), nil)
			b.ReportAllocs()
			for b.Loop() {
				c, cancel := context.WithTimeout(bg, patience)
				if err := p.Probe(c, pr); err != nil {
					b.Fatal(err)
				}
				cancel()
			}
		})
	}
}
