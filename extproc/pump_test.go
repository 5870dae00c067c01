package extproc

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
)

// echoServer answers with the body it got, and says how it was framed.
func echoServer(t *testing.T, start func(*httptest.Server)) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
		w.Header().Set("X-Trailer", r.Trailer.Get("X-Sum"))
		w.Header().Set("Trailer", "X-Echo")
		w.WriteHeader(200)
		w.Write(b)
		w.Header().Set("X-Echo", "end")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the point
	start(s)
	t.Cleanup(s.Close)
	return s
}

// Every size around buffer borders arrives byte for byte, declared or chunked,
// in one piece or in small ones (G11, G17).
func TestG11BodySizes(t *testing.T) {
	s := echoServer(t, (*httptest.Server).Start)
	p := client(t, target(s.Listener.Addr().String()))
	sizes := []int{1, 20, 255, 4095, 4096, 4097, 8191, 8192, 8193, 16383, 16384, 16385,
		32767, 32768, 32769, 65535, 65536, 65537, 300000}
	f := func(n int, declared bool, wrap func(io.Reader) io.Reader) {
		t.Helper()
		data := pattern(n)
		length := int64(-1)
		if declared {
			length = int64(n)
		}
		c := post(length, wrap(bytes.NewReader(data)))
		r, err := p.Do(bg, c)
		if got := body(t, r, err); !same([]byte(got), data) {
			t.Errorf("%d bytes (declared %v): other bytes came back", n, declared)
		}
		if got := r.Fields.Get("X-Length"); got != strconv.FormatInt(length, 10) {
			t.Errorf("%d bytes: upstream saw length %s", n, got)
		}
		if c.Body.(*stoppable).stopped.Load() {
			t.Errorf("%d bytes: the client's connection was given up for a clean call", n)
		}
	}
	whole := func(r io.Reader) io.Reader { return r }
	for _, n := range sizes {
		f(n, true, whole)
		f(n, false, whole)
		f(n, false, iotest.DataErrReader)
	}
	f(5000, true, iotest.HalfReader)
	f(5000, false, iotest.HalfReader)
	f(300, false, iotest.OneByteReader)
	if s := p.Stats(); s.Idle != 1 || s.Busy != 0 {
		t.Errorf("clean calls did not share a connection: %+v", s)
	}
}

func TestG17DeclaredLengthRules(t *testing.T) {
	got := make(chan string, 1)
	u := newUpstream(t, func(u *upstream, c *upConn) {
		for u.head(c) != "" {
			b := make([]byte, 5)
			n, _ := io.ReadFull(c.br, b)
			got <- string(b[:n])
			io.WriteString(c, ok)
		}
	})
	p := client(t, target(u.addr))
	r, err := p.Do(bg, post(5, strings.NewReader("hello world")))
	body(t, r, err)
	if b := <-got; b != "hello" {
		t.Errorf("upstream got %q", b)
	}
	if h := u.heads()[0]; !strings.HasSuffix(h, "\r\nContent-Length: 5\r\n\r\n") {
		t.Errorf("head %q", h)
	}
	// A body shorter than declared is a client that went away.
	if _, err = p.Do(bg, post(5, strings.NewReader("hel"))); !errors.Is(err, exchange.ErrClientGone) {
		t.Errorf("short body: %v", err)
	}
	if b := <-got; b != "hel" {
		t.Errorf("upstream got %q", b)
	}
	if s := p.Stats(); s.Busy != 0 || s.Idle != 0 {
		t.Errorf("%+v", s)
	}
}

// R-CTX-9: the cap of an undeclared body is the client's error, not the peer's.
func TestBodyOverLimitCutsUpload(t *testing.T) {
	ended := make(chan error, 1)
	u := newUpstream(t, func(u *upstream, c *upConn) {
		u.head(c)
		_, err := io.ReadAll(c.br)
		ended <- err
	})
	tooLarge := exchange.Fail(413, "request_body_too_large", "over")
	p := client(t, target(u.addr))
	r, err := p.Do(bg, post(-1, io.MultiReader(strings.NewReader("some"), iotest.ErrReader(tooLarge))))
	fails(t, r, err, 413, "request_body_too_large")
	<-ended
}

// R-UP-6
func TestTrailersBothWays(t *testing.T) {
	s := echoServer(t, (*httptest.Server).Start)
	c := post(-1, strings.NewReader("data"))
	c.Fields.Add("Trailer", "X-Sum")
	c.Trailers = func() *exchange.Fields {
		f := &exchange.Fields{}
		f.Add("X-Sum", "42")
		return f
	}
	r, err := client(t, target(s.Listener.Addr().String())).Do(bg, c)
	if got := body(t, r, err); got != "data" || r.Fields.Get("X-Trailer") != "42" {
		t.Errorf("%q, trailer at the upstream %q", got, r.Fields.Get("X-Trailer"))
	}
	if r.Fields.Get("Trailer") != "X-Echo" || r.Trailers().Get("X-Echo") != "end" {
		t.Errorf("announced %q, got %v", r.Fields.Get("Trailer"), r.Trailers())
	}
}

// An answer that comes before the upload ends is delivered, and the connection
// never carries another call (G16).
func TestG16EarlyAnswer(t *testing.T) {
	hold := make(chan struct{})
	u := newUpstream(t, func(u *upstream, c *upConn) {
		h := u.head(c)
		if strings.HasPrefix(h, "POST") {
			io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
			<-hold // neither read nor closed
			return
		}
		io.WriteString(c, ok)
		u.head(c)
	})
	t.Cleanup(func() { close(hold) })
	p := client(t, target(u.addr))
	for _, blocked := range []bool{false, true} {
		upload := io.Reader(neverEnding{})
		if !blocked { // waits for a slow client, not for the upstream
			pr, pw := io.Pipe()
			defer pw.Close()
			upload = pr
		}
		c := post(1<<30, upload)
		r, err := p.Do(bg, c)
		if got := body(t, r, err); got != "big" || r.Status != 413 {
			t.Fatalf("%d %q", r.Status, got)
		}
		if s := p.Stats(); s != (PoolStats{}) {
			t.Errorf("connection kept: %+v", s)
		}
		if _, err := c.Body.Read(make([]byte, 1)); err == nil {
			t.Errorf("blocked %v: the client's body was not stopped", blocked)
		}
	}
	r, err := p.Do(bg, get("/next"))
	if got := body(t, r, err); got != "ok" {
		t.Errorf("next: %q", got)
	}
	if n := u.conns.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// The head must not wait for a slow body.
func TestHeadLeavesBeforeBody(t *testing.T) {
	headIn := make(chan struct{})
	u := newUpstream(t, func(u *upstream, c *upConn) {
		u.head(c)
		close(headIn)
		io.ReadFull(c.br, make([]byte, 4))
		io.WriteString(c, ok)
		u.head(c)
	})
	pr, pw := io.Pipe()
	go func() {
		<-headIn
		pw.Write([]byte("late"))
	}()
	r, err := client(t, target(u.addr)).Do(bg, post(4, pr))
	body(t, r, err)
}

// The head's deadline counts from the end of the upload (R-TMO-2): an upload
// that takes longer than it is no reason to give up.
func TestHeadTimeoutCountsFromEndOfUpload(t *testing.T) {
	u := newUpstream(t, func(u *upstream, c *upConn) {
		u.head(c)
		io.ReadFull(c.br, make([]byte, 8))
		if c.n == 1 {
			io.WriteString(c, ok)
		}
		u.head(c)
	})
	tg := target(u.addr)
	tg.HeadTimeout = 150 * time.Millisecond
	p := client(t, tg)
	slow := func() io.Reader {
		return iotest.OneByteReader(readerFunc(func(p []byte) (int, error) {
			<-time.After(40 * time.Millisecond)
			return 1, nil
		}))
	}
	r, err := p.Do(bg, post(8, slow()))
	body(t, r, err)
	p.Retire()
	r, err = p.Do(bg, post(8, slow()))
	fails(t, r, err, 504, "upstream_timeout")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestStalledUploads(t *testing.T) { // R-TMO-3
	hold := make(chan struct{})
	u := newUpstream(t, func(u *upstream, c *upConn) {
		u.head(c)
		<-hold // reads nothing more
	})
	tg := target(u.addr)
	tg.BodyTimeout = 80 * time.Millisecond
	p := client(t, tg)
	r, err := p.Do(bg, post(-1, neverEnding{}))
	fails(t, r, err, 504, "request_stalled")

	pr, pw := io.Pipe()
	defer pw.Close()
	r, err = p.Do(bg, post(10, pr))
	fails(t, r, err, 408, "request_stalled")
	close(hold)
	if s := p.Stats(); s != (PoolStats{}) {
		t.Errorf("%+v", s)
	}
}

// A body that the client frames badly is the client's fault, although the cause
// is of the type that a malformed reply has (G03).
func TestMalformedUploadIsTheClients(t *testing.T) {
	u := newUpstream(t, func(u *upstream, c *upConn) {
		u.head(c)
		io.Copy(io.Discard, c.br)
	})
	p := client(t, target(u.addr))
	for _, status := range []int{400, 431} {
		se := &h1.SyntaxError{Status: status, Msg: "malformed chunk size"}
		src := iotest.ErrReader(&exchange.Error{Status: status, Reason: "bad_request", Err: se, Close: true})
		r, err := p.Do(bg, post(-1, src))
		fails(t, r, err, status, "bad_request")
	}
}

// An upstream that takes no more of the body may still answer.
func TestAnswerBehindRefusedUpload(t *testing.T) {
	u := newUpstream(t, func(u *upstream, c *upConn) {
		u.head(c)
		io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
		io.CopyN(io.Discard, c.br, 1<<20)
	})
	pr, pw := io.Pipe()
	defer pw.Close()
	go pw.Write(pattern(1000))
	r, err := client(t, target(u.addr)).Do(bg, post(1<<20, pr))
	if got := body(t, r, err); got != "no" || r.Status != 403 {
		t.Errorf("%d %q", r.Status, got)
	}
}

func TestTLSUpstream(t *testing.T) { // R-UP-3
	s := echoServer(t, (*httptest.Server).StartTLS)
	base := s.Client().Transport.(*http.Transport).TLSClientConfig
	tg := target(s.Listener.Addr().String())
	tg.Scheme, tg.TLSName = H1S, "example.com"
	p := NewH1(tg, base)
	defer p.Retire()
	data := pattern(100000)
	for range 3 {
		r, err := p.Do(bg, post(-1, bytes.NewReader(data)))
		if got := body(t, r, err); got != string(data) {
			t.Error("other bytes came back")
		}
		if s := p.Stats(); s.Idle != 1 {
			t.Errorf("not kept: %+v", s)
		}
		if !p.idle[0].silent() {
			t.Error("an idle TLS connection counts as readable")
		}
	}
	f := func(name string, cfg *tls.Config) {
		t.Helper()
		tg.TLSName = name
		_, err := NewH1(tg, cfg).Do(bg, get("/"))
		if e, ok := errors.AsType[*DialError](err); !ok || e.Timeout {
			t.Errorf("name %q: %v", name, err)
		}
	}
	f("other.test", base)
	f("example.com", nil) // unknown authority
	old := base.Clone()
	old.MaxVersion = tls.VersionTLS11
	f("example.com", old)
}

// Bytes that TLS has already taken from the socket count as unsolicited too.
func TestG15UnsolicitedBytesOverTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, _ := w.(http.Hijacker).Hijack()
		defer c.Close()
		io.WriteString(c, ok)
		if r.URL.Path == "/1" {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray")
		}
		bufio.NewReader(c).ReadByte()
	}))
	s.StartTLS()
	tg := target(s.Listener.Addr().String())
	tg.Scheme, tg.TLSName = H1S, "example.com"
	p := NewH1(tg, s.Client().Transport.(*http.Transport).TLSClientConfig)
	defer s.Close()
	defer p.Retire()
	r, err := p.Do(bg, get("/1"))
	body(t, r, err)
	idle := p.idle[0]
	eventually(t, "stray record arrives", func() bool { return !idle.silent() })
	r, err = p.Do(bg, get("/2"))
	if got := body(t, r, err); got != "ok" {
		t.Errorf("second client got %q", got)
	}
}
