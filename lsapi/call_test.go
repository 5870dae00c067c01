package lsapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/gateway"
)

// clientBody is a request body that arrives when the test sends it, and whose
// reads StopBody ends.
type clientBody struct {
	parts   chan string
	stopped chan struct{}
	once    sync.Once
	rest    string
}

func newClientBody() *clientBody {
	return &clientBody{parts: make(chan string), stopped: make(chan struct{})}
}

func (b *clientBody) Read(p []byte) (int, error) {
	if b.rest == "" {
		select {
		case s, ok := <-b.parts:
			if !ok {
				return 0, io.EOF
			}
			b.rest = s
		case <-b.stopped:
			return 0, errors.New("stopped")
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *clientBody) stop() { b.once.Do(func() { close(b.stopped) }) }

func (b *clientBody) call(length int64) *extproc.Call {
	c := request("POST", length, b)
	c.StopBody = b.stop
	return c
}

type result struct {
	body string
	err  error
}

func fetchLater(ctx context.Context, c *gateway.Client, call *extproc.Call) chan result {
	ch := make(chan result, 1)
	go func() {
		r, err := c.Do(ctx, call)
		if err != nil {
			ch <- result{"", err}
			return
		}
		b, err := io.ReadAll(r.Body)
		r.Close()
		ch <- result{string(b), err}
	}()
	return ch
}

// echo answers every request with its CONTENT_LENGTH, the length of the packet and
// the body.
func echo(_ int, p *peer) {
	for {
		q, body, err := p.hear()
		if err != nil {
			return
		}
		p.Write(join(packet(typeReceived, ""), headPacket(200, "X: y"), packet(typeBody, fmt.Sprintf("%s:%d:%s", q.fields["CONTENT_LENGTH"], q.body, body)), packet(typeEnd, "")))
	}
}

// Fault 11: a body of unknown length reaches lsphp whole, with the length it turned
// out to have, and takes no connection before. What LiteSpeed sends, a length of
// -1, makes PHP see no body (R-FCGI-6, R-LSAPI-2).
func TestFault11ChunkedBodyIsComplete(t *testing.T) {
	c := newClient(t, app(t, echo))
	b := newClientBody()
	got := fetchLater(t.Context(), c, b.call(-1))
	for _, part := range []string{"one,", "two,", "three"} {
		b.parts <- part
		if s := c.Stats(); s != (extproc.PoolStats{}) {
			t.Errorf("%+v before the body is complete", s)
		}
	}
	close(b.parts)
	if r := <-got; r.body != "13:13:one,two,three" || r.err != nil {
		t.Errorf("%q %v", r.body, r.err)
	}
}

// A long declared body streams behind the packet, byte for byte, and the connection
// serves the next call.
func TestLongBodyStreams(t *testing.T) {
	c := newClient(t, app(t, echo))
	body := strings.Repeat("0123456789abcdef", (gateway.HeldMax+16)/16)
	for range 2 {
		got, err := fetch(c, request("POST", int64(len(body)), strings.NewReader(body)))
		if want := fmt.Sprintf("%d:%[1]d:%s", len(body), body); got != want || err != nil {
			t.Fatalf("%d bytes, want %d; %v", len(got), len(want), err)
		}
	}
	if s := c.Stats(); s.Idle != 1 {
		t.Errorf("%+v", s)
	}
}

// G03: a chunked body that breaks is a 400, and the application never hears of it.
func TestG03BrokenChunkNeverReachesLSAPI(t *testing.T) {
	c := newClient(t, app(t, func(int, *peer) { t.Error("the application was called") }))
	broken := io.MultiReader(strings.NewReader("begin"), errorReader{exchange.Fail(400, "bad_request", "chunk size ends in a bare LF")})
	if _, err := fetch(c, request("POST", -1, broken)); describe(err) != "400 bad_request" {
		t.Error(err)
	}
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// G63: clients that declare a body and send none hold no worker; what their
// connection says in the end is the answer.
func TestG63BodyThatNeverComesTakesNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		c := New(extproc.Target{Network: "unix", Address: "app", MaxConns: 2}, gateway.Options{
			Dial: func(context.Context, string, string) (net.Conn, error) { dials++; return nil, errors.New("no") },
		})
		late := make(chan struct{})
		var waiting []chan result
		for range 500 {
			waiting = append(waiting, fetchLater(t.Context(), c, request("POST", 10, slowReader(late))))
		}
		synctest.Wait()
		if s := c.Stats(); dials != 0 || s != (extproc.PoolStats{}) {
			t.Errorf("%d dials, %+v", dials, s)
		}
		close(late)
		for _, w := range waiting {
			if r := <-w; describe(r.err) != "408 request_stalled" {
				t.Error(r.err)
			}
		}
	})
}

// slowReader is a client whose deadline passes when the channel is closed.
type slowReader chan struct{}

func (r slowReader) Read([]byte) (int, error) {
	<-r
	return 0, exchange.Fail(408, "request_stalled", "no body")
}

// Fault 2: a request that may have been carried out is not sent again, and any other
// once at most, whatever the application does (R-FCGI-12, R-POOL-4).
func TestFault2NoReplayWithoutEnd(t *testing.T) {
	f := func(name string, call *extproc.Call, wantConns int32) {
		t.Helper()
		var conns, heard atomic.Int32
		c := newClient(t, app(t, func(n int, p *peer) {
			conns.Add(1)
			for i := 0; ; i++ {
				if _, _, err := p.hear(); err != nil {
					return
				}
				heard.Add(1)
				if n > 0 || i > 1 {
					return // it has read the request, and ends
				}
				p.Write(okReply())
			}
		}))
		for range 2 { // the second shows that the application keeps connections
			if body, err := fetch(c, request("GET", 0, nil)); body != "ok" || err != nil {
				t.Fatal(body, err)
			}
		}
		if _, err := fetch(c, call); describe(err) != "502 lsapi_protocol" {
			t.Errorf("%s: %v", name, err)
		}
		if n := conns.Load(); n != wantConns || heard.Load() != 2+wantConns {
			t.Errorf("%s: %d connections, %d requests heard", name, n, heard.Load())
		}
	}
	f("GET", request("GET", 0, nil), 2)
	f("POST", request("POST", 3, strings.NewReader("abc")), 1)
	f("POST of unknown length", request("POST", -1, strings.NewReader("abc")), 1)
	f("POST without a body", request("POST", 0, nil), 1)
}

// Fault 2, other half: when the client leaves, lsphp is told so and the connection
// is closed; nothing is sent again.
func TestFault2ClientGoneAbortsTheRequest(t *testing.T) {
	got := make(chan string, 1)
	begun := make(chan struct{})
	c := newClient(t, app(t, func(n int, p *peer) {
		if _, _, err := p.hear(); err != nil {
			t.Error(err)
		}
		close(begun) // a second connection would close it again
		rest, _ := io.ReadAll(p.br)
		got <- string(rest)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	r := fetchLater(ctx, c, request("GET", 0, nil))
	<-begun
	cancel()
	if res := <-r; !errors.Is(res.err, exchange.ErrClientGone) {
		t.Error(res.err)
	}
	if rest := <-got; rest != "LS\x02\x00\x08\x00\x00\x00" {
		t.Errorf("the application read %q behind the request", rest)
	}
	if s := c.Stats(); s.Busy != 0 || s.Idle != 0 {
		t.Errorf("%+v", s)
	}
}

// Fault 17: a local Location is a redirect at once, and a status that is none is an
// error, never a made-up one.
func TestFault17LocationIsARedirect(t *testing.T) {
	if got := replay(headPacket(200, "Status: 302", "Location: /1k.txt"), packet(typeEnd, "")); got != `302 "Location: /1k.txt" body "" reuse yes` {
		t.Error(got)
	}
	for _, status := range []int{1, 100, 101, 199, 600, 999} {
		if got := replay(headPacket(status, "Location: /1k.txt"), packet(typeEnd, "")); got != "error 502 lsapi_protocol reuse no" {
			t.Errorf("%d: %s", status, got)
		}
	}
}

// Fault 18: the times that are configured count: for a permit and a connection, and
// for the head.
func TestFault18TimeoutsAreEffective(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := extproc.Target{Network: "unix", Address: "app", MaxConns: 1, InitTimeout: 3 * time.Second, HeadTimeout: 7 * time.Second}
		dial := func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			go io.Copy(io.Discard, b) // never answers
			return a, nil
		}
		c := New(target, gateway.Options{Dial: dial})
		began := time.Now()
		first := fetchLater(t.Context(), c, request("GET", 0, nil))
		synctest.Wait()
		if _, err := fetch(c, request("GET", 0, nil)); describe(err) != "503 lsapi_unavailable" || time.Since(began) != target.InitTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if r := <-first; describe(r.err) != "504 upstream_timeout" || time.Since(began) < target.HeadTimeout || time.Since(began) > target.HeadTimeout+time.Second {
			t.Errorf("%v after %v", r.err, time.Since(began))
		}
		c = New(target, gateway.Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		began = time.Now()
		_, err := fetch(c, request("GET", 0, nil))
		if _, unsent := errors.AsType[*extproc.DialError](err); !unsent || describe(err) != "503 lsapi_unavailable" || time.Since(began) != target.InitTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// R-LSAPI-5: maxProcessTime bounds a call to the end of its reply: 504 before the head,
// a cut behind it.
func TestMaxTime(t *testing.T) {
	f := func(answer []byte, want, body string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			target := extproc.Target{Network: "unix", Address: "app", MaxConns: 1, KeepAlive: time.Hour, HeadTimeout: time.Minute, MaxTime: 5 * time.Second}
			c := New(target, gateway.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
				a, b := net.Pipe()
				go func() {
					go io.Copy(io.Discard, b)
					b.Write(answer)
				}()
				return a, nil
			}})
			began := time.Now()
			got, err := fetch(c, request("GET", 0, nil))
			if describe(err) != want || got != body || err != nil && time.Since(began) != target.MaxTime {
				t.Errorf("%q %v after %v", got, err, time.Since(began))
			}
			if s := c.Stats(); err != nil && s.Busy+s.Idle != 0 {
				t.Errorf("%+v", s)
			}
			c.Retire()
		})
	}
	f(okReply(), "ok", "ok")
	f(nil, "504 upstream_timeout", "")
	f(packet(typeReceived, ""), "504 upstream_timeout", "")
	f(join(headPacket(200), packet(typeBody, "half")), "504 upstream_timeout", "half")
}

// G65: more connections than the application has children: all calls are answered, and
// no call waits for the idle time of another's connection.
func TestG65MoreConnectionsThanChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{}, 10)
		dial := func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			go func() {
				defer b.Close()
				p := &peer{b, bufio.NewReader(b)}
				begun := make(chan struct{}) // or given up, in the backlog
				go func() { p.br.Peek(1); close(begun) }()
				free <- struct{}{} // a child has the connection until it ends
				defer func() { <-free }()
				<-begun
				for {
					if _, _, err := p.hear(); err != nil {
						return
					}
					time.Sleep(100 * time.Millisecond) // a slow script, in the time of the bubble
					p.Write(okReply())
				}
			}()
			return a, nil
		}
		c := New(extproc.Target{Network: "unix", Address: "app", MaxConns: 35, InitTimeout: time.Minute, KeepAlive: time.Hour, HeadTimeout: time.Minute}, gateway.Options{Dial: dial})
		began := time.Now()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if body, err := fetch(c, request("GET", 0, nil)); body != "ok" || err != nil {
					t.Errorf("%q %v", body, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("took %v, alone they need 2 s", took)
		}
		c.Retire()
	})
}

// Whatever breaks, the next request is clean (R-LSAPI-2).
func TestNextRequestIsClean(t *testing.T) {
	list := conversations(t)
	var at atomic.Int32
	c := newClient(t, app(t, func(_ int, p *peer) {
		for {
			q, _, err := p.hear()
			if err != nil {
				return
			}
			if q.env["BROKEN"] == "" {
				p.Write(okReply())
				continue
			}
			p.Write(list[at.Load()].bytes)
			if !strings.Contains(list[at.Load()].want, "reuse yes") {
				return
			}
		}
	}))
	for i := range list {
		at.Store(int32(i))
		fetch(c, request("GET", 0, nil, "BROKEN=1"))
		for range 2 {
			if body, err := fetch(c, request("POST", 1, strings.NewReader("x"))); body != "ok" || err != nil {
				t.Errorf("behind %q: %q %v", list[i].name, body, err)
			}
		}
	}
	if s := c.Stats(); s.Busy != 0 {
		t.Errorf("%+v", s)
	}
}

// No application, no room: 503 (R-LSAPI-1, R-BUD-1).
func TestUnavailable(t *testing.T) {
	target := extproc.Target{Network: "unix", Address: filepath.Join(t.TempDir(), "none.sock"), MaxConns: 1, InitTimeout: time.Minute}
	_, err := fetch(newClient(t, target), request("GET", 0, nil))
	if _, unsent := errors.AsType[*extproc.DialError](err); !unsent || describe(err) != "503 lsapi_unavailable" {
		t.Error(err)
	}
	c := New(target, gateway.Options{Bodies: &budget.Bodies{Bytes: budget.NewBytes(1)}})
	if _, err := fetch(c, request("POST", -1, strings.NewReader(strings.Repeat("x", 1<<20)))); describe(err) != "503 lsapi_unavailable" {
		t.Error(err)
	}
}

// Declared and sent are not the same: 400, and the connection is not used again.
func TestBodyOfAnotherLength(t *testing.T) {
	c := newClient(t, app(t, echo))
	for _, n := range []int64{2, 4, gateway.HeldMax + 1} {
		if _, err := fetch(c, request("POST", n, strings.NewReader("abc"))); describe(err) != "400 bad_request" {
			t.Errorf("%d declared: %v", n, err)
		}
	}
	long := strings.NewReader(strings.Repeat("x", gateway.HeldMax+2))
	if _, err := fetch(c, request("POST", gateway.HeldMax+1, long)); describe(err) != "400 bad_request" {
		t.Errorf("one byte too many: %v", err)
	}
	if s := c.Stats(); s.Idle != 0 || s.Busy != 0 {
		t.Errorf("%+v", s)
	}
}
