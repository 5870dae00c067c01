package extproc

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"httpjet/exchange"
)

// R-UP-7: interim responses are never final, and never leak into another
// client's response.
func TestFault1InterimResponses(t *testing.T) {
	interim := "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" +
		"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n"
	u := newUpstream(t, func(u *upstream, c *upConn) {
		for h := u.head(c); h != ""; h = u.head(c) {
			uri := strings.Fields(h)[1]
			io.WriteString(c, interim+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"+uri)
		}
	})
	p := client(t, target(u.addr))
	for _, uri := range []string{"/a", "/b", "/c"} {
		c := get(uri)
		informed := 0
		c.Inform = func(status int, f *exchange.Fields) error {
			informed++
			if status != 103 || f.Get("Link") != "</a.css>" || f.Len() != 1 {
				t.Errorf("interim %d with %d fields", status, f.Len())
			}
			return nil
		}
		r, err := p.Do(bg, c)
		if got := body(t, r, err); got != uri || r.Status != 200 {
			t.Fatalf("%s: %d %q", uri, r.Status, got)
		}
		if informed != 1 {
			t.Errorf("informed %d times", informed)
		}
	}
	if n := u.conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestInterimFloodEnds(t *testing.T) {
	u := newUpstream(t, answer(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000)))
	r, err := client(t, target(u.addr)).Do(bg, get("/"))
	fails(t, r, err, 502, "upstream_transport")
}

// One attempt on a fresh connection, whatever the method (R-POOL-4).
func TestFault2NoRetryOnFreshConnection(t *testing.T) {
	f := func(method, reply string, rst bool) {
		t.Helper()
		u := newUpstream(t, func(u *upstream, c *upConn) {
			u.head(c)
			io.WriteString(c, reply)
			if rst {
				c.Conn.(*net.TCPConn).SetLinger(0)
			}
		})
		c := get("/")
		c.Method = method
		r, err := client(t, target(u.addr)).Do(bg, c)
		fails(t, r, err, 502, "upstream_transport")
		if n := u.conns.Load(); n != 1 {
			t.Errorf("%s %q: %d attempts", method, reply, n)
		}
	}
	f("GET", "", false)
	f("POST", "", false)
	f("GET", "", true)
	f("GET", "hello\r\n\r\n", false)
	f("GET", "HTTP/1.1 200 OK\r\nContent-Le", false)
}

// R-POOL-3, R-POOL-4: a kept connection that dies is replaced for an idempotent
// method, once, and never for another.
func TestDeadKeptConnectionIsReplaced(t *testing.T) {
	f := func(method string, serveAgain bool, wantStatus int, wantConns int32) {
		t.Helper()
		u := newUpstream(t, func(u *upstream, c *upConn) {
			if c.n == 1 || serveAgain {
				u.head(c)
				io.WriteString(c, ok)
			}
			u.head(c) // and close with this request read
		})
		p := client(t, target(u.addr))
		r, err := p.Do(bg, get("/first"))
		body(t, r, err)
		c := get("/second")
		c.Method = method
		r, err = p.Do(bg, c)
		if wantStatus == 200 {
			body(t, r, err)
		} else {
			fails(t, r, err, wantStatus, "upstream_transport")
		}
		if n := u.conns.Load(); n != wantConns {
			t.Errorf("%s: %d connections, want %d", method, n, wantConns)
		}
	}
	f("GET", true, 200, 2)
	f("PUT", true, 200, 2)
	f("GET", false, 502, 2)
	f("POST", true, 502, 1)
	f("PATCH", true, 502, 1)
}

// R-STREAM-4: a truncated body is an error, never an end.
func TestFault3TruncatedBodies(t *testing.T) {
	f := func(reply string) {
		t.Helper()
		u := newUpstream(t, func(u *upstream, c *upConn) {
			u.head(c)
			io.WriteString(c, reply)
		})
		p := client(t, target(u.addr))
		r, err := p.Do(bg, get("/"))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r.Body); err == nil {
			t.Errorf("%q: body %q ended well", reply, b)
		}
		r.Close()
		if s := p.Stats(); s != (PoolStats{}) {
			t.Errorf("%q: %+v", reply, s)
		}
	}
	f("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n")
}

// Statuses are never invented, and malformed heads never relayed.
func TestFault12MalformedHeads(t *testing.T) {
	f := func(reply, reason string) {
		t.Helper()
		u := newUpstream(t, answer(reply))
		p := client(t, target(u.addr))
		r, err := p.Do(bg, get("/"))
		fails(t, r, err, 502, reason)
		if n := u.conns.Load(); n != 1 {
			t.Errorf("%d attempts", n)
		}
		if s := p.Stats(); s != (PoolStats{}) {
			t.Errorf("%.60q: %+v", reply, s)
		}
	}
	bad := "upstream_transport"
	f("HTTP/1.1 99 Low\r\nContent-Length: 0\r\n\r\n", bad)
	f("HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n", bad)
	f("HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n", bad)
	f("HTTP/1.1 abc Text\r\nContent-Length: 0\r\n\r\n", bad)
	f("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", bad)
	f("HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", bad)
	f("HTTP/1.1 200 OK\r\nA: x\x00y\r\n\r\n", bad)
	f("HTTP/1.1 200 OK\r\nA: x\ry\r\n\r\n", bad)
	f("HTTP/1.1 200 OK\nA: x\n\n", bad)
	f("HTTP/1.1 200 OK\r\nA: x\r\n y\r\n\r\n", bad)
	f("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", bad)
	f("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", bad)
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", bad)
	f("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", bad)
	// R-HDR-9
	f("HTTP/1.1 200 OK\r\nA: "+strings.Repeat("x", 64<<10)+"\r\n\r\n", "response_head_too_large")
	f("HTTP/1.1 200 OK\r\n"+strings.Repeat("A: b\r\n", 201)+"\r\n", "response_head_too_large")
	f("HTTP/1.1 200 OK\r\n"+strings.Repeat("A: b\r\n", 600)+"\r\n", "response_head_too_large")
}

// Names, spelling, order and repetition of fields survive in both directions
// (fault 6), and only end-to-end fields do (fault 4, R-HDR-1).
func TestFault6FieldsAreKept(t *testing.T) {
	u := newUpstream(t, answer("HTTP/1.1 418 Own Words\r\nx-LOWER: 1\r\nSet-Cookie: a=1\r\nX-Empty:\r\nSet-Cookie: b=2\r\n"+
		"Connection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\n"+
		"TE: trailers\r\nContent-Length: 0\r\n\r\n"))
	c := get("/a%2Fb;v=1?x=%zz&y")
	for _, f := range []exchange.Field{{Name: "x-LOWER", Value: "1"}, {Name: "Accept", Value: "b"}, {Name: "ACCEPT", Value: "a"}, {Name: "X_Under.s", Value: "  in  "}} {
		c.Fields.Add(f.Name, strings.TrimSpace(f.Value))
	}
	r, err := client(t, target(u.addr)).Do(bg, c)
	body(t, r, err)
	want := "GET /a%2Fb;v=1?x=%zz&y HTTP/1.1\r\nHost: a.test\r\nx-LOWER: 1\r\nAccept: b\r\nACCEPT: a\r\nX_Under.s: in\r\n\r\n"
	if got := u.heads()[0]; got != want {
		t.Errorf("upstream got\n%q, want\n%q", got, want)
	}
	var got strings.Builder
	for n, v := range r.Fields.All() {
		got.WriteString(n + "=" + v + ";")
	}
	if r.Status != 418 || got.String() != "x-LOWER=1;Set-Cookie=a=1;X-Empty=;Set-Cookie=b=2;" {
		t.Errorf("%d %s", r.Status, got.String())
	}
}

// A readable idle connection is not used (G15); nor is one with bytes behind its
// last reply.
func TestG15UnsolicitedBytes(t *testing.T) {
	for _, stray := range []string{"PING-GARBAGE", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray", ""} {
		stirred := make(chan struct{})
		u := newUpstream(t, func(u *upstream, c *upConn) {
			u.head(c)
			io.WriteString(c, ok)
			if c.n == 1 {
				stirred <- struct{}{} // the reply is read
				io.WriteString(c, stray)
				if stray == "" {
					c.Close()
				}
				stirred <- struct{}{}
			}
			u.head(c)
		})
		p := client(t, target(u.addr))
		r, err := p.Do(bg, get("/1"))
		body(t, r, err)
		if s := p.Stats(); s.Idle != 1 {
			t.Fatalf("%+v", s)
		}
		<-stirred
		<-stirred
		idle := p.idle[0]
		eventually(t, "stray bytes arrive", func() bool { return !idle.silent() })
		r, err = p.Do(bg, get("/2"))
		if got := body(t, r, err); got != "ok" {
			t.Errorf("second client got %q", got)
		}
		if n := u.conns.Load(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	}
}

func TestBytesBehindReplyPoison(t *testing.T) {
	for _, reply := range []string{ok + "extra", "HTTP/1.1 204 No Content\r\n\r\nextra", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nextra"} {
		u := newUpstream(t, answer(reply))
		p := client(t, target(u.addr))
		r, err := p.Do(bg, get("/"))
		body(t, r, err)
		if s := p.Stats(); s.Idle != 0 {
			t.Errorf("%q: connection kept", reply)
		}
	}
}

func TestConnectionIsKeptOnlyIfClean(t *testing.T) {
	f := func(method, reply string, read bool, idle int) {
		t.Helper()
		u := newUpstream(t, func(u *upstream, c *upConn) {
			u.head(c)
			io.WriteString(c, reply)
			if !strings.Contains(reply, "Length") && !strings.Contains(reply, "chunked") {
				return
			}
			u.head(c)
		})
		p := client(t, target(u.addr))
		c := get("/")
		c.Method = method
		r, err := p.Do(bg, c)
		if err != nil {
			t.Fatal(err)
		}
		if read {
			body(t, r, nil)
		} else {
			r.Close()
		}
		r.Close() // no second release
		if s := p.Stats(); s.Idle != idle || s.Busy != 0 {
			t.Errorf("%s %q: %+v, want %d idle", method, reply, s, idle)
		}
	}
	f("GET", ok, true, 1)
	f("GET", ok, false, 0)
	f("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true, 1)
	f("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", false, 1)
	f("GET", "HTTP/1.1 200 OK\r\n\r\nuntil close", true, 0)
	f("GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", true, 0)
	f("GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", true, 0)
}

// R-UP-7: both framing fields leave the chunks, and nothing to reuse.
func TestLengthBesideChunksIsDropped(t *testing.T) {
	u := newUpstream(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"))
	p := client(t, target(u.addr))
	r, err := p.Do(bg, get("/"))
	if got := body(t, r, err); got != "ok" || r.Length != -1 || r.Fields.Len() != 1 {
		t.Errorf("%q, length %d, %d fields", got, r.Length, r.Fields.Len())
	}
	if s := p.Stats(); s.Idle != 0 {
		t.Errorf("kept: %+v", s)
	}
	u = newUpstream(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: identity\r\n\r\nabc"))
	r, err = client(t, target(u.addr)).Do(bg, get("/"))
	fails(t, r, err, 502, "upstream_transport")
}

func TestSaturatedPool(t *testing.T) { // R-POOL-2
	u := newUpstream(t, answer(ok))
	tg := target(u.addr)
	tg.MaxConns, tg.InitTimeout = 1, 30*time.Millisecond
	p := client(t, tg)
	first, err := p.Do(bg, get("/1"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Do(bg, get("/2"))
	fails(t, r, err, 503, "pool_saturated")
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if _, err = p.Do(ctx, get("/3")); !errors.Is(err, exchange.ErrClientGone) {
		t.Errorf("waiting client that left: %v", err)
	}
	body(t, first, nil)
	r, err = p.Do(bg, get("/4"))
	body(t, r, err)
}

func TestDialErrors(t *testing.T) { // R-TMO-1
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	tg := target(addr)
	tg.Scheme, tg.InitTimeout = H1S, 30*time.Millisecond
	_, err = client(t, tg).Do(bg, get("/")) // accepted by the kernel, no handshake
	if e, ok := errors.AsType[*DialError](err); !ok || !e.Timeout || e.Failure().Status != 504 {
		t.Errorf("silent TLS peer: %v", err)
	}
	l.Close()
	_, err = client(t, target(addr)).Do(bg, get("/"))
	if e, ok := errors.AsType[*DialError](err); !ok || e.Timeout || e.Failure().Reason != "upstream_transport" {
		t.Errorf("refused: %v", err)
	} else if strings.Count(err.Error(), addr) != 1 {
		t.Errorf("text %q", err)
	}
	if _, _, err = client(t, target(addr)).Dial(bg); err == nil {
		t.Error("Dial succeeds")
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	u := serveOn(t, l, answer(ok))
	tg := target(path)
	tg.Network = "unix"
	p := client(t, tg)
	for range 3 {
		r, err := p.Do(bg, get("/"))
		body(t, r, err)
	}
	if n := u.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	c := get("/")
	c.Host = ""
	r, err := p.Do(bg, c)
	body(t, r, err)
	if h := u.heads()[3]; !strings.Contains(h, "\r\nHost: localhost\r\n") {
		t.Errorf("a path is no authority: %q", h)
	}
}

func TestMissingHostIsPeerAuthority(t *testing.T) { // R-HDR-6
	u := newUpstream(t, answer(ok))
	c := get("/")
	c.Host = ""
	r, err := client(t, target(u.addr)).Do(bg, c)
	body(t, r, err)
	if h := u.heads()[0]; !strings.Contains(h, "\r\nHost: "+u.addr+"\r\n") {
		t.Errorf("%q", h)
	}
}

func TestIdleConnectionsExpireAndRetire(t *testing.T) { // R-POOL-3, R-POOL-6
	u := newUpstream(t, answer(ok))
	p := client(t, target(u.addr))
	var open []*Reply
	for range 3 {
		r, err := p.Do(bg, get("/"))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	for _, r := range open {
		body(t, r, nil)
	}
	newest := p.idle[2]
	p.idle[0].idleSince = p.idle[0].idleSince.Add(-2 * time.Minute)
	p.Expire(time.Now())
	if s := p.Stats(); s.Idle != 2 {
		t.Errorf("after Expire: %+v", s)
	}
	r, err := p.Do(bg, get("/"))
	if err != nil {
		t.Fatal(err)
	}
	if newest.call.client == nil {
		t.Error("not the newest idle connection was used")
	}
	p.Retire()
	if s := p.Stats(); s.Idle != 0 || s.Busy != 1 {
		t.Errorf("after Retire: %+v", s)
	}
	body(t, r, nil)
	if s := p.Stats(); s.Idle != 0 || s.Busy != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

func TestExpireIdleEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(bg)
	done := make(chan struct{})
	go func() { ExpireIdle(ctx, func() []Expirer { return nil }); close(done) }()
	cancel()
	<-done
}

// The client's leaving cuts the call at once, before and after the head
// (R-STREAM-5).
func TestClientGoneCutsCall(t *testing.T) {
	for _, head := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"} {
		gone := make(chan struct{})
		asked := make(chan struct{})
		u := newUpstream(t, func(u *upstream, c *upConn) {
			u.head(c)
			io.WriteString(c, head)
			close(asked)
			c.br.ReadByte()
			close(gone)
		})
		p := client(t, target(u.addr))
		ctx, cancel := context.WithCancel(bg)
		go func() { <-asked; cancel() }()
		r, err := p.Do(ctx, get("/"))
		if err == nil {
			_, err = io.ReadAll(r.Body)
			r.Close()
		}
		if !errors.Is(err, exchange.ErrClientGone) {
			t.Errorf("%q: %v", head, err)
		}
		<-gone
		if s := p.Stats(); s != (PoolStats{}) {
			t.Errorf("%+v", s)
		}
	}
}

// watched counts who waits for its end.
type watched struct {
	context.Context
	n atomic.Int32
}

func (w *watched) Done() <-chan struct{} { w.n.Add(1); return w.Context.Done() }

// Watching for the client costs nothing where the reply is quick, body or not
// (R-STREAM-5).
func TestQuickCallsDoNotWatch(t *testing.T) {
	u := newUpstream(t, func(u *upstream, c *upConn) {
		for h := u.head(c); h != ""; h = u.head(c) {
			if strings.HasPrefix(h, "POST") {
				io.ReadFull(c.br, make([]byte, 4))
			}
			io.WriteString(c, ok)
		}
	})
	p := client(t, target(u.addr))
	r, err := p.Do(bg, get("/"))
	body(t, r, err)
	ctx := &watched{Context: t.Context()}
	for _, c := range []*Call{get("/"), post(4, strings.NewReader("body"))} {
		before := time.Now()
		r, err := p.Do(ctx, c)
		body(t, r, err)
		if n := ctx.n.Load(); n != 0 && time.Since(before) < watchAfter {
			t.Errorf("%s: watched %d times", c.Method, n)
		}
	}
}

func TestHeadTimeout(t *testing.T) { // R-TMO-2, R-CTX-10
	for _, part := range []string{"", "HTTP/1.1 200 OK\r\nA: b"} {
		u := newUpstream(t, func(u *upstream, c *upConn) {
			u.head(c)
			io.WriteString(c, part)
			c.br.ReadByte()
		})
		c := get("/")
		c.HeadTimeout = 60 * time.Millisecond
		r, err := client(t, target(u.addr)).Do(bg, c)
		fails(t, r, err, 504, "upstream_timeout")
		if n := u.conns.Load(); n != 1 {
			t.Errorf("%d attempts", n)
		}
	}
}
