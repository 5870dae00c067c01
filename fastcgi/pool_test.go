package fastcgi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/gateway"
)

// serveOK answers every request of a connection.
func serveOK(t *testing.T) func(int, *peer) {
	return func(_ int, p *peer) {
		for {
			if _, err := p.hear(); err != nil {
				return
			}
			p.say(t, okReply)
		}
	}
}

// A kept connection that the application closed, or on which it sent anything
// unasked, is replaced before it is used, whatever the method (G15, R-POOL-3).
func TestG15UnfitIdleConnectionIsReplaced(t *testing.T) {
	f := func(name string, call func() *extproc.Call, last string) {
		t.Helper()
		var conns atomic.Int32
		idle, ended := make(chan struct{}), make(chan struct{})
		c := newClient(t, rawApp(t, func(n int, p *peer) {
			conns.Add(1)
			if _, err := p.hear(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			p.say(t, okReply)
			<-idle
			if last != "" {
				p.say(t, last)
			} else {
				p.Close()
			}
			ended <- struct{}{}
			io.Copy(io.Discard, p)
		}), Options{})
		for range 3 {
			if _, body, err := fetch(c, call()); body != "ok" || err != nil {
				t.Errorf("%s: %q %v", name, body, err)
			}
			if s := c.Stats(); s.Idle != 1 {
				t.Errorf("%s: %+v, want one idle", name, s)
			}
			idle <- struct{}{}
			<-ended
		}
		if n := conns.Load(); n != 3 {
			t.Errorf("%s: %d connections, want 3", name, n)
		}
	}
	withBody := func() *extproc.Call { return post(1, strings.NewReader("x")) }
	without := func() *extproc.Call { return post(0, nil) }
	large := func() *extproc.Call { return request("POST", 0, nil, "X="+strings.Repeat("x", 32<<10)) }
	for name, call := range map[string]func() *extproc.Call{"body": withBody, "no body": without, "large": large} {
		f(name+", closed", call, "")
		f(name+", garbage", call, `raw "x"`)
		f(name+", a second END_REQUEST", call, "end 0")
	}
}

// A kept connection that dies when it is used, before any byte of the reply, is
// replaced once; a call that might have been carried out is not sent again
// (R-FCGI-12, R-POOL-4).
func TestStaleConnectionIsRedialledOnce(t *testing.T) {
	f := func(name string, healthy int, call *extproc.Call, want string, wantConns int32) {
		t.Helper()
		var conns atomic.Int32
		c := newClient(t, rawApp(t, func(n int, p *peer) {
			conns.Add(1)
			for i := 0; ; i++ {
				if _, err := p.hear(); err != nil || n < healthy && i == 2 {
					return // reads the third request whole and ends
				}
				if n >= 1 && healthy > 1 {
					return
				}
				p.say(t, okReply)
			}
		}), Options{})
		for range 2 { // the second shows that the application keeps connections
			if _, body, err := fetch(c, get()); body != "ok" || err != nil {
				t.Fatalf("%s: first calls: %q %v", name, body, err)
			}
		}
		_, body, err := fetch(c, call)
		if got := body + describe(err); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if n := conns.Load(); n != wantConns {
			t.Errorf("%s: %d connections, want %d", name, n, wantConns)
		}
		if s := c.Stats(); s.Busy != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	f("GET", 1, get(), "okok", 2)
	f("PUT with a held body", 1, request("PUT", 3, strings.NewReader("abc")), "okok", 2)
	f("POST", 1, post(3, strings.NewReader("abc")), "502 fcgi_protocol", 1)
	f("GET, dead again", 2, get(), "502 fcgi_protocol", 2)
}

// Some applications close a connection a moment after their answer though they were
// asked to keep it. A call that cannot be sent again does not go out on such a one; it
// does on the connections of an application that has kept one.
func TestCallsGoOnceToWhatMayBeClosing(t *testing.T) {
	var conns atomic.Int32
	c := newClient(t, rawApp(t, func(_ int, p *peer) {
		conns.Add(1)
		if _, err := p.hear(); err == nil {
			p.say(t, okReply)
		}
		io.ReadFull(p, make([]byte, 1)) // a request comes as it closes
	}), Options{})
	for i := range 3 {
		if _, body, err := fetch(c, post(3, strings.NewReader("abc"))); body != "ok" || err != nil {
			t.Errorf("call %d: %q %v", i, body, err)
		}
	}
	if n := conns.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
	conns.Store(0)
	c = newClient(t, rawApp(t, func(n int, p *peer) {
		conns.Add(1)
		serveOK(t)(n, p)
	}), Options{})
	for i, call := range []*extproc.Call{get(), get(), post(3, strings.NewReader("abc")), post(0, nil)} {
		if _, body, err := fetch(c, call); body != "ok" || err != nil {
			t.Errorf("call %d: %q %v", i, body, err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections to one that keeps them", n)
	}
}

// A reply that began is a reply, be it one byte of STDERR.
func TestBegunReplyIsNotRedialled(t *testing.T) {
	f := func(script string) {
		t.Helper()
		var conns atomic.Int32
		c := newClient(t, rawApp(t, func(_ int, p *peer) {
			conns.Add(1)
			p.hear()
			p.say(t, okReply)
			p.hear()
			p.say(t, script)
		}), Options{})
		if _, _, err := fetch(c, get()); err != nil {
			t.Fatal(err)
		}
		if _, body, err := fetch(c, get()); describe(err) != "502 fcgi_protocol" || conns.Load() != 1 {
			t.Errorf("%s: %q %v after %d connections", script, body, err, conns.Load())
		}
	}
	f(`raw "\x01"`)
	f(`stderr "x"`)
}

// If not one byte of the request went out, any call may be sent again, and a
// body that streams is still untouched.
func TestStaleConnectionBeforeTheFirstByte(t *testing.T) {
	f := func(name string, call *extproc.Call, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			end := make(chan struct{})
			c := newClient(t, pipeTarget(1), Options{Dial: pipeDial(func(n int, p *peer) {
				if q, err := p.hear(); err == nil {
					p.say(t, fmt.Sprintf("stdout %q\nend 0", fmt.Sprintf("X: y\r\n\r\n%d: %d", n, len(q.stdin))))
				}
				<-end
			})})
			if _, body, err := fetch(c, get()); body != "0: 0" || err != nil {
				t.Fatalf("%s: first call: %q %v", name, body, err)
			}
			if s := c.Stats(); s.Idle != 1 {
				t.Fatalf("%s: %+v", name, s)
			}
			close(end)
			synctest.Wait() // the application has closed its end
			if _, body, err := fetch(c, call); body != want || err != nil {
				t.Errorf("%s: %q %v, want %q", name, body, err, want)
			}
		})
	}
	f("bodyless", request("PATCH", 0, nil), "1: 0")
	f("held", post(3, strings.NewReader("abc")), "1: 3")
	f("streamed", post(gateway.HeldMax+1, strings.NewReader(strings.Repeat("x", gateway.HeldMax+1))), "1: 262145")
}

// A dial that does not end within the acquisition deadline is 503 (R-FCGI-9).
func TestDialWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := pipeTarget(1)
		target.InitTimeout = time.Second
		c := newClient(t, target, Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		began := time.Now()
		_, _, err := fetch(c, get())
		d, ok := errors.AsType[*extproc.DialError](err)
		if !ok || !d.Timeout || describe(err) != "503 fcgi_unavailable" || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A fresh connection that fails is the application's fault, at once.
func TestFreshConnectionIsNotRedialled(t *testing.T) {
	var conns atomic.Int32
	c := newClient(t, rawApp(t, func(_ int, p *peer) { conns.Add(1); p.hear() }), Options{})
	if _, _, err := fetch(c, get()); describe(err) != "502 fcgi_protocol" || conns.Load() != 1 {
		t.Errorf("%v after %d connections", err, conns.Load())
	}
}

func pipeTarget(maxConns int) extproc.Target {
	t := unixTarget("app")
	t.MaxConns = maxConns
	return t
}

// maxConns counts all sockets; who waits longer than initTimeout gets 503, and a
// poisoned connection frees its place at once (R-FCGI-9).
func TestAcquisitionDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := pipeTarget(1)
		target.InitTimeout = 3 * time.Second
		c := newClient(t, target, Options{Dial: pipeDial(serveOK(t))})
		r, err := c.Do(t.Context(), get())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, _, err := fetch(c, get()); describe(err) != "503 fcgi_unavailable" || !errors.Is(err, budget.ErrWaited) {
			t.Error(err)
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("waited %v", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := fetchLater(ctx, c, get())
		next := fetchLater(t.Context(), c, get())
		synctest.Wait()
		cancel()
		if res := <-gone; !errors.Is(res.err, exchange.ErrClientGone) {
			t.Errorf("%v, want client gone", res.err)
		}
		r.Close() // unread: poisoned
		if res := <-next; res.body != "ok" || res.err != nil {
			t.Errorf("%q %v", res.body, res.err)
		}
	})
}

// The newest idle connection is used first, the oldest expires first.
func TestExpireOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan int, 10)
		used := make(chan int, 10)
		c := newClient(t, pipeTarget(3), Options{Dial: pipeDial(func(n int, p *peer) {
			for {
				if _, err := p.hear(); err != nil {
					closed <- n
					return
				}
				used <- n
				p.say(t, okReply)
			}
		})})
		var replies [3]*extproc.Reply
		for i := range replies {
			r, err := c.Do(t.Context(), get())
			if err != nil {
				t.Fatal(err)
			}
			replies[i] = r
			<-used
		}
		for _, r := range replies {
			io.ReadAll(r.Body)
			r.Close()
			time.Sleep(10 * time.Second) // bubble time
		}
		if _, _, err := fetch(c, get()); err != nil {
			t.Error(err)
		}
		if n := <-used; n != 2 {
			t.Errorf("connection %d used, want the newest", n)
		}
		c.Expire(time.Now().Add(25 * time.Second)) // idle for 55, 45 and 25 s
		if s := c.Stats(); s.Idle != 3 {
			t.Errorf("%+v, want 3 idle", s)
		}
		for want, d := range []time.Duration{30 * time.Second, 40 * time.Second, 60 * time.Second} {
			c.Expire(time.Now().Add(d))
			if n := <-closed; n != want || c.Stats().Idle != 2-want {
				t.Errorf("connection %d expired, want %d; %+v", n, want, c.Stats())
			}
		}
		// An expired connection is not used even if nobody called Expire.
		fetch(c, get())
		if n := <-used; n != 3 {
			t.Errorf("connection %d used, want a new one", n)
		}
		time.Sleep(time.Minute)
		fetch(c, get())
		if n := <-used; n != 4 {
			t.Errorf("connection %d used, want a new one", n)
		}
	})
}

func TestKept(t *testing.T) {
	children := 0
	f := func(name string, keepAlive time.Duration, kept, want int, flag bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			target := pipeTarget(3)
			target.KeepAlive, target.Children = keepAlive, children
			c := newClient(t, target, Options{Kept: kept, Dial: pipeDial(func(n int, p *peer) {
				if q, _ := p.hear(); q.keep != flag {
					t.Errorf("%s: KEEP_CONN %v", name, q.keep)
				}
				p.say(t, okReply)
				io.Copy(io.Discard, p)
			})})
			var replies []*extproc.Reply
			for range 3 {
				r, err := c.Do(t.Context(), get())
				if err != nil {
					t.Fatal(err)
				}
				replies = append(replies, r)
			}
			for _, r := range replies {
				io.ReadAll(r.Body)
				r.Close()
			}
			if s := c.Stats(); s.Idle != want || s.Busy != 0 {
				t.Errorf("%s: %+v, want %d idle", name, s, want)
			}
		})
	}
	f("all", time.Minute, 0, 3, true)
	f("two", time.Minute, 2, 2, true)
	f("no more than maxConns", time.Minute, 9, 3, true)
	f("none", 0, 0, 0, false)
	children = 3
	f("one fewer than children", time.Minute, 0, 2, true)
	children = 1
	f("one child", time.Minute, 0, 1, true)
}

// Retire closes idle connections at once and busy ones when they come back; an
// exchange that still holds the client is served (R-POOL-6).
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(pipeTarget(3), Options{Dial: pipeDial(serveOK(t))})
		if _, _, err := fetch(c, get()); err != nil {
			t.Fatal(err)
		}
		busy, err := c.Do(t.Context(), get())
		if err != nil {
			t.Fatal(err)
		}
		other, _ := c.Do(t.Context(), get())
		io.ReadAll(other.Body)
		other.Close()
		if s := c.Stats(); s != (extproc.PoolStats{Idle: 1, Busy: 1}) {
			t.Errorf("%+v", s)
		}
		c.Retire()
		if s := c.Stats(); s != (extproc.PoolStats{Busy: 1}) {
			t.Errorf("%+v after Retire", s)
		}
		if b, err := io.ReadAll(busy.Body); string(b) != "ok" || err != nil {
			t.Errorf("%q %v", b, err)
		}
		busy.Close()
		if _, body, err := fetch(c, get()); body != "ok" || err != nil {
			t.Errorf("%q %v", body, err)
		}
		if s := c.Stats(); s != (extproc.PoolStats{}) {
			t.Errorf("%+v at the end", s)
		}
	})
}

// The head deadline runs from the end of the upload; the call's own wins; a body
// has none (R-TMO-2, R-FCGI-12).
func TestHeadDeadlineBeginsBehindTheUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := pipeTarget(1)
		target.HeadTimeout = 5 * time.Second
		c := newClient(t, target, Options{Dial: pipeDial(func(_ int, p *peer) {
			q, err := p.hear()
			if err != nil || q.params["SLOW"] == "" {
				io.Copy(io.Discard, p)
				return
			}
			p.say(t, `stdout "X: y\r\n\r\n"`)
			time.Sleep(time.Hour)
			p.say(t, "end 0")
		})})
		took := func(call *extproc.Call) (time.Duration, string) {
			began := time.Now()
			_, _, err := fetch(c, call)
			return time.Since(began), describe(err)
		}
		if d, e := took(get()); d != 5*time.Second || e != "504 upstream_timeout" {
			t.Errorf("GET: %v %s", d, e)
		}
		own := get()
		own.HeadTimeout = 7 * time.Second
		if d, e := took(own); d != 7*time.Second || e != "504 upstream_timeout" {
			t.Errorf("own deadline: %v %s", d, e)
		}
		b := newClientBody()
		half := strings.Repeat("x", gateway.HeldMax/2+1)
		go func() {
			for range 2 {
				time.Sleep(20 * time.Second)
				b.parts <- half
			}
			close(b.parts)
		}()
		if d, e := took(b.call(int64(2 * len(half)))); d != 45*time.Second || e != "504 upstream_timeout" {
			t.Errorf("upload: %v %s", d, e)
		}
		if d, e := took(get("SLOW=1")); d != time.Hour || e != "ok" {
			t.Errorf("slow body: %v %s", d, e)
		}
	})
}

// A streamed upload that stalls is 408 if the client does, 504 if the
// application does (R-TMO-3), which is noticed within twice the time.
func TestStalledUpload(t *testing.T) {
	const pause = 30 * time.Second
	f := func(name string, call func() *extproc.Call, serve func(p *peer), most time.Duration, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			target := pipeTarget(1)
			target.BodyTimeout = pause
			hung := make(chan struct{})
			c := newClient(t, target, Options{Dial: pipeDial(func(_ int, p *peer) { serve(p); <-hung })})
			began := time.Now()
			_, _, err := fetch(c, call())
			if d := time.Since(began); d < pause || d > most || describe(err) != want {
				t.Errorf("%s: %v after %v, want %s", name, err, d, want)
			}
			close(hung)
		})
	}
	const big = gateway.HeldMax + 1
	f("client", func() *extproc.Call { return newClientBody().call(big) },
		func(p *peer) { p.hear() }, pause, "408 request_stalled")
	f("application in STDIN", func() *extproc.Call { return post(big, strings.NewReader(strings.Repeat("x", big))) },
		func(p *peer) { p.hearHead() }, 2*pause, "504 request_stalled")
	f("application at once", func() *extproc.Call { return get() },
		func(p *peer) {}, 2*pause, "504 request_stalled")
}
