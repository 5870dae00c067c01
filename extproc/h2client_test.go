//lint:file-ignore SA1019 frames are what these tests are about

package extproc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"httpjet/exchange"
)

// R-UP-2, R-HDR-1, R-HDR-6, G70: what goes out, byte for byte in its values.
func TestH2Request(t *testing.T) {
	seen := make(chan string, 1)
	u := newH2peers(t, func(p *h2peer) {
		for h := p.request(); h != nil; h = p.request() {
			seen <- fieldText(h)
			p.ok(h.StreamID, "")
		}
	})
	p := h2client(t, h2target(u.addr))
	f := func(c *Call, want ...string) {
		t.Helper()
		r, err := p.Do(bg, c)
		body(t, r, err)
		got := soon(t, "a request", seen)
		for _, line := range want {
			absent, no := strings.CutPrefix(line, "!")
			if strings.Contains("\n"+got, "\n"+absent) == no {
				t.Errorf("%q: %q", line, got)
			}
		}
	}
	f(get("/a%2Fb;c?x=%20&y"), ":path: /a%2Fb;c?x=%20&y\n", ":authority: a.test\n", ":method: GET\n", ":scheme: http\n",
		"!user-agent", "!accept-encoding", "!te", "!content-length", "!host", "!trailer")
	f(get("//a.test/x"), ":path: //a.test/x\n", ":authority: a.test\n")
	f(get("//"), ":path: //\n")
	star := get("*")
	star.Method = "OPTIONS"
	f(star, ":path: *\n", ":method: OPTIONS\n")
	c := get("/")
	c.Host, c.TakesTrailers = "", true
	c.Fields = fieldsOf("User-Agent", "x/1", "X-Two", "1", "X-Two", "2", "Cookie", "a=1; b=2", "Accept-Encoding", "br")
	f(c, ":authority: "+u.addr+"\n", "user-agent: x/1\n", "x-two: 1\nx-two: 2\n", "cookie: a=1\ncookie: b=2\n", "accept-encoding: br\n", "te: trailers\n")
	c = post(3, strings.NewReader("abc"))
	c.Method = "QUERY"
	f(c, ":method: QUERY\n", "content-length: 3\n")
	f(post(-1, strings.NewReader("abc")), "!content-length")
	if n := u.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// R-UP-4: streams share a connection up to the peer's limit, ours is 100; more go
// to further connections.
func TestH2StreamsShareConnections(t *testing.T) {
	f := func(calls int, wantConns int32, settings ...http2.Setting) {
		t.Helper()
		var mu sync.Mutex
		held, all := 0, make(chan struct{})
		u := newH2peers(t, func(p *h2peer) {
			var once sync.WaitGroup
			defer once.Wait()
			for h := p.request(); h != nil; h = p.request() {
				mu.Lock()
				held++
				if held == calls {
					close(all)
				}
				mu.Unlock()
				id := h.StreamID
				once.Go(func() {
					<-all
					p.ok(id, "x")
				})
			}
		}, settings...)
		tg := h2target(u.addr)
		tg.MaxConns = calls
		p := h2client(t, tg)
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				r, err := p.Do(bg, get("/"))
				if err != nil {
					t.Error(err)
					return
				}
				if b, err := io.ReadAll(r.Body); string(b) != "x" {
					t.Errorf("%q, %v", b, err)
				}
				r.Close()
			})
		}
		wg.Wait()
		if n := u.conns.Load(); n != wantConns {
			t.Errorf("%d calls: %d connections, want %d", calls, n, wantConns)
		}
		if s := p.Stats(); s.Idle != int(wantConns) || s.Busy != 0 {
			t.Errorf("%+v", s)
		}
	}
	limit := func(n uint32) http2.Setting { return http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: n} }
	f(10, 1)
	f(10, 4, limit(3))
	f(120, 2, limit(1000))
	f(4, 4, limit(1))
}

// A peer that allows no stream is as one that cannot be reached.
func TestH2PeerWithoutStreams(t *testing.T) {
	u := newH2peers(t, func(p *h2peer) { p.next() }, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
	_, err := h2client(t, h2target(u.addr)).Do(bg, get("/"))
	if e, ok := errors.AsType[*DialError](err); !ok || e.Timeout {
		t.Error(err)
	}
}

// R-POOL-2: maxConns bounds requests in flight.
func TestH2Permits(t *testing.T) {
	u := newH2peers(t, func(p *h2peer) {
		for h := p.request(); h != nil; h = p.request() {
			p.head(h.StreamID, false, ":status", "200")
		}
	})
	tg := h2target(u.addr)
	tg.MaxConns, tg.InitTimeout = 2, 100*time.Millisecond
	p := h2client(t, tg)
	var open []*Reply
	for len(open) < 2 {
		r, err := p.Do(bg, get("/"))
		if _, dial := errors.AsType[*DialError](err); dial {
			continue // not within 100 ms on this machine
		}
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	r, err := p.Do(bg, get("/"))
	fails(t, r, err, 503, "pool_saturated")
	for _, r := range open {
		r.Close()
	}
	if s := p.Stats(); s.Busy != 0 {
		t.Errorf("%+v", s)
	}
}

// R-POOL-3: idle connections expire, are not kept at all with a KeepAlive of 0, and
// one that its peer has closed is replaced without a failure.
func TestH2IdleConnections(t *testing.T) {
	closed := make(chan int, 10)
	u := newH2peers(t, func(p *h2peer) {
		for h := p.request(); h != nil; h = p.request() {
			p.ok(h.StreamID, "x")
			if p.n == 1 {
				break
			}
		}
		p.conn.Close()
		closed <- p.n
	})
	p := h2client(t, h2target(u.addr))
	r, err := p.Do(bg, get("/"))
	body(t, r, err)
	soon(t, "the peer closes", closed)
	for range 2 {
		r, err = p.Do(bg, get("/"))
		if body(t, r, err) != "x" {
			t.Error("no answer")
		}
	}
	if n := u.conns.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
	now := time.Now()
	p.Expire(now)
	if s := p.Stats(); s.Idle != 1 {
		t.Errorf("young: %+v", s)
	}
	p.Expire(now.Add(time.Minute))
	if soon(t, "it expires", closed); p.Stats().Idle != 0 {
		t.Errorf("old: %+v", p.Stats())
	}
	tg := h2target(u.addr)
	tg.KeepAlive = 0
	once := h2client(t, tg)
	r, err = once.Do(bg, get("/"))
	body(t, r, err)
	soon(t, "it is not kept", closed)
}

// G15: what comes over an idle connection and nobody asked for answers no request.
func TestG15H2UnsolicitedFrames(t *testing.T) {
	f := func(what string, junk func(p *h2peer)) {
		t.Helper()
		sent := make(chan struct{}, 1)
		u := newH2peers(t, func(p *h2peer) {
			for h := p.request(); h != nil; h = p.request() {
				if p.ok(h.StreamID, fieldText(h)); strings.Contains(fieldText(h), ":path: /one\n") {
					junk(p)
					sent <- struct{}{}
				}
			}
		})
		p := h2client(t, h2target(u.addr))
		r, err := p.Do(bg, get("/one"))
		body(t, r, err)
		soon(t, "junk", sent)
		for _, uri := range []string{"/two", "/three"} {
			r, err := p.Do(bg, get(uri))
			if got := body(t, r, err); !strings.Contains(got, ":path: "+uri+"\n") {
				t.Errorf("%s: %s is answered with %q", what, uri, got)
			}
		}
	}
	f("nothing", func(p *h2peer) {})
	f("garbage", func(p *h2peer) { io.WriteString(p.conn, "PING-GARBAGE AND MORE OF IT") })
	f("a reply of HTTP/1", func(p *h2peer) { io.WriteString(p.conn, ok) })
	f("data of a stream that is over", func(p *h2peer) { p.data(1, true, "stale") })
	f("a reply to a stream that is over", func(p *h2peer) { p.ok(1, "stale") })
	f("a reply to nobody", func(p *h2peer) { p.ok(99, "stale") })
	f("a reset of nobody", func(p *h2peer) { p.reset(99, http2.ErrCodeInternal) })
}

// Retire closes what is idle, and what is busy after its last call (R-POOL-6).
func TestH2Retire(t *testing.T) {
	closed := make(chan int, 1)
	u := newH2peers(t, func(p *h2peer) {
		h := p.request()
		p.head(h.StreamID, false, ":status", "200")
		p.data(h.StreamID, true, "rest")
		for p.next() != nil {
		}
		closed <- p.n
	})
	p := h2client(t, h2target(u.addr))
	r, err := p.Do(bg, get("/"))
	if err != nil {
		t.Fatal(err)
	}
	p.Retire()
	if got := body(t, r, nil); got != "rest" {
		t.Errorf("%q", got)
	}
	soon(t, "it closes", closed)
}

// R-UP-4: frames that are missing for 30 s are asked for by PING, and 15 s later
// the connection is given up.
func TestH2Ping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe() // without a buffer: the peer writes apart from reading
		began := time.Now()
		pinged, writes := make(chan time.Duration, 4), make(chan func() error, 4)
		var peer sync.WaitGroup
		peer.Go(func() {
			for write := range writes {
				write()
			}
		})
		peer.Go(func() {
			defer close(writes)
			io.ReadFull(theirs, make([]byte, len(http2.ClientPreface)))
			fr := http2.NewFramer(theirs, theirs)
			writes <- func() error { return fr.WriteSettings() }
			for answered := false; ; {
				f, err := fr.ReadFrame()
				if err != nil {
					pinged <- time.Since(began)
					return
				}
				switch f := f.(type) {
				case *http2.SettingsFrame:
					if !f.IsAck() {
						writes <- fr.WriteSettingsAck
					}
				case *http2.PingFrame:
					pinged <- time.Since(began)
					if data := f.Data; !answered {
						answered = true
						writes <- func() error { return fr.WritePing(true, data) }
					}
				}
			}
		})
		cc, err := newH2transport(maxHead, time.Minute).NewClientConn(ours)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []time.Duration{h2Silence, 2 * h2Silence, 2*h2Silence + h2Answer} {
			if got := <-pinged; got != want {
				t.Errorf("after %v, want %v", got, want)
			}
		}
		if !cc.State().Closed {
			t.Error("the connection is open")
		}
		peer.Wait()
		theirs.Close()
	})
}

// What does not speak HTTP/2 fails as a dial: no request was spent on it.
func TestH2NotSpoken(t *testing.T) {
	f := func(u *upstream, want error) {
		t.Helper()
		c := post(3, failingReader{t})
		_, err := h2client(t, h2target(u.addr)).Do(bg, c)
		if e, ok := errors.AsType[*DialError](err); !ok || e.Timeout || !errors.Is(err, want) {
			t.Error(err)
		}
		c.Close()
	}
	f(newUpstream(t, answer(ok)), ErrNotHTTP2)
	f(newUpstream(t, func(u *upstream, c *upConn) { io.WriteString(c, "SSH-2.0-x\r\n") }), ErrNotHTTP2)
	f(newUpstream(t, func(u *upstream, c *upConn) {}), ErrNotHTTP2)
	tg := h2target(newUpstream(t, func(u *upstream, c *upConn) { io.Copy(io.Discard, c) }).addr)
	tg.InitTimeout = 20 * time.Millisecond
	_, err := h2client(t, tg).Do(bg, get("/"))
	if e, ok := errors.AsType[*DialError](err); !ok || !e.Timeout || e.Failure().Reason != "connect_timeout" {
		t.Errorf("silence: %v", err)
	}
}

// failingReader is a body that must not be read.
type failingReader struct{ t *testing.T }

func (r failingReader) Read([]byte) (int, error) {
	r.t.Error("the body was read")
	return 0, io.EOF
}

// R-UP-3: over TLS the chain and the name are verified, and HTTP/2 is chosen.
func TestH2OverTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto+" "+r.Host+" "+r.TLS.ServerName)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	base := s.Client().Transport.(*http.Transport).TLSClientConfig
	tg := h2target(s.Listener.Addr().String())
	tg.Scheme, tg.TLSName = H2S, "example.com"
	p := NewH2(tg, base)
	defer p.Retire()
	r, err := p.Do(bg, get("/"))
	if got := body(t, r, err); got != "HTTP/2.0 a.test example.com" {
		t.Errorf("%q", got)
	}
	refused := func(tg Target, p *H2Client, want string) {
		t.Helper()
		_, err := p.Do(bg, get("/"))
		if _, ok := errors.AsType[*DialError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused(tg, NewH2(tg, nil), "unknown authority")
	tg.TLSName = "other.test"
	refused(tg, NewH2(tg, base), "other.test")
	h1 := httptest.NewTLSServer(http.NotFoundHandler())
	defer h1.Close()
	tg = h2target(h1.Listener.Addr().String())
	tg.Scheme, tg.TLSName = H2S, "example.com"
	refused(tg, NewH2(tg, h1.Client().Transport.(*http.Transport).TLSClientConfig), "application protocol")
}

// One dial at a time: those who wait use what it has opened, and a client that
// leaves during its dial leaves it to the next.
func TestH2DialsAreShared(t *testing.T) {
	begin := make(chan struct{})
	u := newUpstream(t, func(u *upstream, c *upConn) {
		<-begin
		p := beginH2(t, c.Conn, c.n)
		if p == nil {
			return
		}
		for h := p.request(); h != nil; h = p.request() {
			p.ok(h.StreamID, "x")
		}
	})
	p := h2client(t, h2target(u.addr))
	leaving, leave := context.WithCancel(bg)
	left := make(chan error)
	go func() {
		_, err := p.Do(leaving, get("/"))
		left <- err
	}()
	eventually(t, "the first dials", func() bool { return u.conns.Load() == 1 })
	var done sync.WaitGroup
	var waiting atomic.Int32
	for range 20 {
		done.Go(func() {
			waiting.Add(1)
			r, err := p.Do(bg, get("/"))
			if err != nil {
				t.Error(err)
				return
			}
			r.Close()
		})
	}
	eventually(t, "all have permits", func() bool { return p.Stats().Busy == 10 && waiting.Load() == 20 })
	leave()
	if err := <-left; !errors.Is(err, exchange.ErrClientGone) {
		t.Error(err)
	}
	close(begin)
	done.Wait()
	if n := u.conns.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}
