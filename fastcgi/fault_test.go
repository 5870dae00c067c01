package fastcgi

import (
	"bytes"
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
	"testing/iotest"
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
	reading chan struct{} // one token for each Read begun; buffered
	stopped chan struct{}
	once    sync.Once
	rest    string
}

func newClientBody() *clientBody {
	return &clientBody{parts: make(chan string), reading: make(chan struct{}, 1000), stopped: make(chan struct{})}
}

func (b *clientBody) Read(p []byte) (int, error) {
	if b.rest == "" {
		b.reading <- struct{}{}
		select {
		case s, ok := <-b.parts:
			if !ok {
				return 0, io.EOF
			}
			b.rest = s
		case <-b.stopped:
			return 0, errBroken
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *clientBody) stop() { b.once.Do(func() { close(b.stopped) }) }

func (b *clientBody) wasStopped() bool {
	select {
	case <-b.stopped:
		return true
	default:
		return false
	}
}

// call is a POST with b as its body.
func (b *clientBody) call(length int64) *extproc.Call {
	c := post(length, b)
	c.StopBody = b.stop
	return c
}

// result is what fetch returned in another goroutine.
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

// echoApp answers every request with its CONTENT_LENGTH and STDIN.
func echoApp(t *testing.T) func(int, *peer) {
	return func(_ int, p *peer) {
		for {
			q, err := p.hear()
			if err != nil {
				return
			}
			p.say(t, fmt.Sprintf("stdout %q\nend 0", "X: y\r\n\r\n"+q.params["CONTENT_LENGTH"]+":"+string(q.stdin)))
		}
	}
}

// A body of unknown length reaches the application whole, with the length it
// turned out to have, and takes no connection before (R-FCGI-6).
func TestFault11UnknownLengthBodyIsComplete(t *testing.T) {
	c := newClient(t, rawApp(t, echoApp(t)), Options{})
	b := newClientBody()
	got := fetchLater(t.Context(), c, b.call(-1))
	for _, part := range []string{"one,", "two,", "three"} {
		b.parts <- part
		if s := c.Stats(); s != (extproc.PoolStats{}) {
			t.Errorf("%+v before the body is complete", s)
		}
	}
	close(b.parts)
	if r := <-got; r.body != "13:one,two,three" || r.err != nil {
		t.Errorf("%q %v", r.body, r.err)
	}
}

// A wrong reply is 502, a late one 504, an application that is not there 503:
// never 500 (R-FCGI-9, R-FCGI-10, R-FCGI-12).
func TestFault13WrongReplyIs502LateReplyIs504(t *testing.T) {
	serve := func(_ int, p *peer) {
		if q, err := p.hear(); err != nil || q.params["WRONG"] == "" {
			io.Copy(io.Discard, p) // never answers
			return
		}
		p.say(t, "stdout \"no head\\r\\n\\r\\n\"\nend 0")
	}
	c := newClient(t, rawApp(t, serve), Options{})
	if _, _, err := fetch(c, get("WRONG=1")); describe(err) != "502 fcgi_protocol" {
		t.Error(err)
	}
	late := get()
	late.HeadTimeout = time.Millisecond
	if _, _, err := fetch(c, late); describe(err) != "504 upstream_timeout" {
		t.Error(err)
	}

	c = newClient(t, unixTarget(filepath.Join(t.TempDir(), "none.sock")), Options{})
	_, _, err := fetch(c, get())
	if d, ok := errors.AsType[*extproc.DialError](err); !ok || d.Timeout || describe(err) != "503 fcgi_unavailable" {
		t.Error(err)
	}
}

// Fault 2: a request that may have been carried out is not sent again, and any other
// once at most, however often the application ends without an answer.
func TestFault2NoReplayWithoutEnd(t *testing.T) {
	f := func(name string, call *extproc.Call, wantConns int32) {
		t.Helper()
		var conns, heard atomic.Int32
		c := newClient(t, rawApp(t, func(n int, p *peer) {
			conns.Add(1)
			for i := 0; ; i++ {
				if _, err := p.hear(); err != nil {
					return
				}
				heard.Add(1)
				if n > 0 || i > 1 {
					return // it has read the request, and ends
				}
				p.say(t, okReply)
			}
		}), Options{})
		for range 2 { // the second one shows that the application keeps its connection
			if _, body, err := fetch(c, get()); body != "ok" || err != nil {
				t.Fatal(body, err)
			}
		}
		if _, _, err := fetch(c, call); describe(err) != "502 fcgi_protocol" {
			t.Errorf("%s: %v", name, err)
		}
		if n := conns.Load(); n != wantConns || heard.Load() != 2+wantConns {
			t.Errorf("%s: %d connections, %d requests heard", name, n, heard.Load())
		}
	}
	f("GET", get(), 2)
	f("POST", post(3, strings.NewReader("abc")), 1)
	f("POST of unknown length", post(-1, strings.NewReader("abc")), 1)
	f("POST without a body", post(0, nil), 1)
}

// Fault 18: the times that are configured count: for a permit, and for the head.
func TestFault18TimeoutsAreEffective(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := extproc.Target{Network: "unix", Address: "app", MaxConns: 1, InitTimeout: 3 * time.Second, HeadTimeout: 7 * time.Second}
		c := New(target, Options{Dial: func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			go io.Copy(io.Discard, b) // never answers
			return a, nil
		}})
		began := time.Now()
		first := fetchLater(t.Context(), c, get())
		synctest.Wait()
		if _, _, err := fetch(c, get()); describe(err) != "503 fcgi_unavailable" || time.Since(began) != target.InitTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if r := <-first; describe(r.err) != "504 upstream_timeout" || time.Since(began) < target.HeadTimeout || time.Since(began) > target.HeadTimeout+time.Second {
			t.Errorf("%v after %v", r.err, time.Since(began))
		}
	})
}

// A redirect to a local path is a redirect of the client, at once (R-FCGI-10).
func TestFault17LocalLocationIs302(t *testing.T) {
	c := newClient(t, rawApp(t, func(_ int, p *peer) {
		p.hear()
		p.say(t, "stdout \"Location: /elsewhere\\r\\n\\r\\n\"\nend 0")
	}), Options{})
	r, err := c.Do(context.Background(), get())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Status != 302 || r.Fields.Get("Location") != "/elsewhere" {
		t.Errorf("%d %q", r.Status, r.Fields.Get("Location"))
	}
}

// Clients that stall in their bodies cost no connection: others are served on
// the only one (R-FCGI-6).
func TestG25StalledClientCostsNoConnection(t *testing.T) { stalledClients(t, -1, "foo") }

// The same for bodies that were declared and never sent.
func TestG63DeclaredBodyNeverSentCostsNoConnection(t *testing.T) { stalledClients(t, 10, "") }

func stalledClients(t *testing.T, length int64, begin string) {
	target := rawApp(t, echoApp(t))
	target.MaxConns = 1
	bodies := &budget.Bodies{Bytes: budget.NewBytes(1 << 20), Count: budget.NewPermits(100)}
	c := newClient(t, target, Options{Bodies: bodies})
	ctx, cancel := context.WithCancel(t.Context())
	var stalled []chan result
	for range 50 {
		b := newClientBody()
		stalled = append(stalled, fetchLater(ctx, c, b.call(length)))
		if begin != "" {
			b.parts <- begin
			<-b.reading
		}
		<-b.reading
	}
	for range 20 {
		if _, body, err := fetch(c, post(3, strings.NewReader("abc"))); body != "3:abc" || err != nil {
			t.Fatalf("%q %v", body, err)
		}
	}
	if s := c.Stats(); s.Busy != 0 || bodies.Count.InUse() != 50 {
		t.Errorf("%+v, %d bodies held, want 50", s, bodies.Count.InUse())
	}
	cancel()
	for _, ch := range stalled {
		if r := <-ch; !errors.Is(r.err, exchange.ErrClientGone) {
			t.Errorf("%v, want client gone", r.err)
		}
	}
	if bodies.Count.InUse() != 0 || bodies.Bytes.Used() != 0 {
		t.Errorf("%d bodies and %d bytes still held", bodies.Count.InUse(), bodies.Bytes.Used())
	}
}

// 10 MiB of STDERR around the reply harm nothing; the log has 64 KiB of it, and
// the connection serves the next call (R-FCGI-11).
func TestG28StderrGoesToTheLogOnly(t *testing.T) {
	c := newClient(t, rawApp(t, func(n int, p *peer) {
		if n != 0 {
			t.Error("second connection")
		}
		for range 2 {
			if _, err := p.hear(); err != nil {
				t.Error(err)
				return
			}
			p.say(t, "stderr \"PHP Notice:\\tx\\r\\n\\x1b]0;evil\\x07\\n\"")
			p.say(t, "stdout \"X: y\\r\\n\\r\\nhel\"")
			noise := appendRecord(nil, typeStderr, strings.Repeat("n", 1000)+"\n", 0)
			for range 10 {
				p.Write(bytes.Repeat(noise, 1<<20/1001))
			}
			p.say(t, "stdout \"lo\"\nstdout \"\"\nstderr \"end\"\nend 0")
		}
	}), Options{})
	for range 2 {
		var lines []string
		call := get()
		call.Log = func(line string) { lines = append(lines, line) }
		if _, body, err := fetch(c, call); body != "hello" || err != nil {
			t.Fatalf("%q %v", body, err)
		}
		total := 0
		for _, l := range lines {
			total += len(l)
		}
		if len(lines) < 3 || lines[0] != `PHP Notice:\x09x` || lines[1] != `\x1b]0;evil\x07` || !strings.Contains(lines[len(lines)-1], "dropped") {
			t.Errorf("%d lines, %.200q", len(lines), lines)
		}
		if total < 64<<10*9/10 || total > 64<<10*11/10 {
			t.Errorf("%d bytes logged", total)
		}
	}
}

// Two calls, idle, then a third: it is served on a connection that is kept, not
// on one more (R-FCGI-9).
func TestG31IdleConnectionServesTheNext(t *testing.T) {
	both := make(chan struct{}, 2)
	release := make(chan struct{})
	target := rawApp(t, func(n int, p *peer) {
		if n > 1 {
			t.Error("third connection: the application has two workers")
		}
		for i := 0; ; i++ {
			if _, err := p.hear(); err != nil {
				return
			}
			if i == 0 {
				both <- struct{}{}
				<-release
			}
			p.say(t, okReply)
		}
	})
	target.MaxConns = 8
	c := newClient(t, target, Options{Kept: 8})
	a, b := fetchLater(t.Context(), c, get()), fetchLater(t.Context(), c, get())
	<-both
	<-both
	close(release)
	<-a
	<-b
	if s := c.Stats(); s.Idle != 2 {
		t.Fatalf("%+v, want two idle", s)
	}
	if _, body, err := fetch(c, get()); body != "ok" || err != nil {
		t.Errorf("%q %v", body, err)
	}
}

// The error of a body is the answer, wherever it shows (R-FCGI-6).
func TestBodyErrors(t *testing.T) {
	const big = gateway.HeldMax + 1000
	tooLarge := exchange.Fail(413, "request_body_too_large", "over 5 bytes")
	f := func(name string, length int64, body io.Reader, want string) {
		t.Helper()
		bodies := &budget.Bodies{Bytes: budget.NewBytes(400 << 10), Count: budget.NewPermits(1), Dir: t.TempDir()}
		c := newClient(t, rawApp(t, func(_ int, p *peer) {
			p.hear() // fails when the connection is cut
		}), Options{Bodies: bodies})
		_, _, err := fetch(c, post(length, body))
		if describe(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if s := c.Stats(); s.Idle != 0 || s.Busy != 0 {
			t.Errorf("%s: connection not poisoned: %+v", name, s)
		}
		if bodies.Bytes.Used() != 0 || bodies.Count.InUse() != 0 {
			t.Errorf("%s: body still held", name)
		}
	}
	zeros := func(n int) io.Reader { return bytes.NewReader(make([]byte, n)) }
	fails := func(n int, err error) io.Reader { return io.MultiReader(zeros(n), iotest.ErrReader(err)) }
	f("underflow, held", 10, zeros(9), "400 bad_request")
	f("overflow, held", 10, zeros(11), "400 bad_request")
	f("underflow, streamed", big, zeros(big-1), "400 bad_request")
	f("overflow, streamed", big, zeros(big+1), "400 bad_request")
	f("cut, held", 10, fails(5, io.ErrUnexpectedEOF), "400 bad_request")
	f("too large, held", 10, fails(5, tooLarge), "413 request_body_too_large")
	f("too large, unknown length", -1, fails(5, tooLarge), "413 request_body_too_large")
	f("too large, streamed", big, fails(big-1, tooLarge), "413 request_body_too_large")
	f("over budget", -1, zeros(500<<10), "503 fcgi_unavailable")
	f("client broke, held", 10, fails(5, errBroken), "499 client_gone")
	f("client broke, streamed", big, fails(100, errBroken), "499 client_gone")
}

// A second held body over maxBufferedReqs is refused; one that streams is not
// held (R-BUD-2).
func TestNumberOfHeldBodies(t *testing.T) {
	bodies := &budget.Bodies{Count: budget.NewPermits(1)}
	bodies.Count.TryAcquire()
	c := newClient(t, rawApp(t, echoApp(t)), Options{Bodies: bodies})
	if _, _, err := fetch(c, post(3, strings.NewReader("abc"))); describe(err) != "503 fcgi_unavailable" {
		t.Error(err)
	}
	if _, _, err := fetch(c, get()); err != nil {
		t.Error(err)
	}
}

// An answer before the end of the upload is relayed; the upload is stopped and
// neither side is used again.
func TestG16EarlyAnswer(t *testing.T) {
	c := newClient(t, rawApp(t, func(_ int, p *peer) {
		if _, err := p.hearHead(); err != nil {
			t.Error(err)
		}
		p.say(t, okReply)
		io.Copy(io.Discard, p)
	}), Options{})
	b := newClientBody()
	if r := <-fetchLater(t.Context(), c, b.call(gateway.HeldMax+1)); r.body != "ok" || r.err != nil {
		t.Errorf("%q %v", r.body, r.err)
	}
	if !b.wasStopped() {
		t.Error("upload not stopped")
	}
	if s := c.Stats(); s.Idle != 0 {
		t.Error("connection kept with half a request on it")
	}
}

// An application that gives up during the upload is at fault, not the client
// whose upload is stopped then.
func TestApplicationFailsDuringUpload(t *testing.T) {
	f := func(script, want string) {
		t.Helper()
		c := newClient(t, rawApp(t, func(_ int, p *peer) {
			p.hearHead()
			p.say(t, script)
		}), Options{})
		b := newClientBody()
		if r := <-fetchLater(t.Context(), c, b.call(gateway.HeldMax+1)); describe(r.err) != want {
			t.Errorf("%q: %q %v, want %s", script, r.body, r.err, want)
		}
		if !b.wasStopped() {
			t.Errorf("%q: upload not stopped", script)
		}
	}
	f("", "502 fcgi_protocol")
	f("end 2", "503 fcgi_unavailable")
	f(`stdout "X: y\r\n\r\nx"`, "502 fcgi_protocol")
}

// Half a reply read is a connection lost, and capacity won (R-FCGI-9).
func TestUnreadReplyPoisons(t *testing.T) {
	target := rawApp(t, func(_ int, p *peer) {
		p.hear()
		p.say(t, okReply)
	})
	target.MaxConns = 1
	c := newClient(t, target, Options{})
	for range 3 {
		r, err := c.Do(context.Background(), get())
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(r.Body, make([]byte, 1))
		r.Close()
		r.Close() // nothing
		if _, err := r.Body.Read(make([]byte, 1)); err == nil {
			t.Error("read after Close")
		}
		if s := c.Stats(); s != (extproc.PoolStats{}) {
			t.Errorf("%+v", s)
		}
	}
}

// A client that goes away is its own fault, in every phase; its connection is
// closed.
func TestClientGone(t *testing.T) {
	f := func(name string, call func(b *clientBody) *extproc.Call, serve func(p *peer, heard func())) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := newClient(t, rawApp(t, func(_ int, p *peer) {
			serve(p, cancel)
			io.Copy(io.Discard, p)
		}), Options{})
		b := newClientBody()
		if r := <-fetchLater(ctx, c, call(b)); !errors.Is(r.err, exchange.ErrClientGone) {
			t.Errorf("%s: %q %v, want client gone", name, r.body, r.err)
		}
		if s := c.Stats(); s != (extproc.PoolStats{}) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	none := func(*clientBody) *extproc.Call { return get() }
	f("before the head", none, func(p *peer, gone func()) { p.hear(); gone() })
	f("in the head", none, func(p *peer, gone func()) { p.hear(); p.say(t, `stdout "X: "`); gone() })
	f("in the body", none, func(p *peer, gone func()) { p.hear(); p.say(t, `stdout "X: \r\n\r\nx"`); gone() })
	f("in the upload", func(b *clientBody) *extproc.Call { return b.call(gateway.HeldMax + 1) },
		func(p *peer, gone func()) { p.hearHead(); gone() })

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := newClient(t, unixTarget("/nonexistent"), Options{})
	if r := <-fetchLater(ctx, c, get()); !errors.Is(r.err, exchange.ErrClientGone) {
		t.Errorf("at once: %v", r.err)
	}
}

// One held body may be offered to several clients.
func TestHoldKeepsTheBodyForTheNextClient(t *testing.T) {
	bodies := &budget.Bodies{Bytes: budget.NewBytes(1 << 20), Count: budget.NewPermits(1)}
	down := newClient(t, unixTarget(filepath.Join(t.TempDir(), "none.sock")), Options{Bodies: bodies})
	up := newClient(t, rawApp(t, echoApp(t)), Options{Bodies: bodies})
	call := post(-1, strings.NewReader("abc"))
	release, err := gateway.Hold(t.Context(), call, bodies, time.Minute, "fcgi_unavailable")
	if err != nil || call.Length != 3 {
		t.Fatalf("length %d, %v", call.Length, err)
	}
	if _, _, err := fetch(down, call); describe(err) != "503 fcgi_unavailable" {
		t.Error(err)
	}
	for range 2 {
		if _, body, err := fetch(up, call); body != "3:abc" || err != nil {
			t.Errorf("%q %v", body, err)
		}
	}
	release()
	if bodies.Count.InUse() != 0 || bodies.Bytes.Used() != 0 {
		t.Error("body still held")
	}
}

// A client that leaves while the application works is told to it, behind a request
// that was sent whole, before the connection ends (FastCGI 1.0 §5.4).
func TestClientGoneAborts(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	got := make(chan string, 1)
	c := newClient(t, rawApp(t, func(_ int, p *peer) {
		p.hear()
		leave()
		typ, content, err := p.record()
		got <- fmt.Sprint(typ, len(content), err)
	}), Options{})
	if r := <-fetchLater(ctx, c, get()); !errors.Is(r.err, exchange.ErrClientGone) {
		t.Error(r.err)
	}
	if g := <-got; g != "2 0 <nil>" {
		t.Errorf("%s, want an empty ABORT_REQUEST", g)
	}
}
