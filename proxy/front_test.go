package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// These tests run through every front end.

func do(t *testing.T, s *exchangetest.Server, method, path string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, s.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://example.test")
	r, err := s.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Body.Close() })
	return r
}

// One received line is one sent line (G09).
func TestG09FieldsOnceOnEveryFront(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		h, seen, _ := canned(t, ok)
		r := do(t, start(h), "POST", "/api/x%2Fy", strings.NewReader("body"))
		if b, _ := io.ReadAll(r.Body); string(b) != "ok" {
			t.Errorf("body %q", b)
		}
		head := strings.ToLower(seen()[0])
		if !strings.HasPrefix(head, "post /api/x%2fy http/1.1\r\nhost: ") {
			t.Errorf("%q", head)
		}
		for _, name := range []string{"host", "origin", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-real-ip", "via", "content-length"} {
			if n := strings.Count(head, "\r\n"+name+": "); n != 1 {
				t.Errorf("%d lines of %s in %q", n, name, head)
			}
		}
	})
}

// Bodies of every size around buffer borders go up and come down byte for byte
// (G11).
func TestG11BodiesOnEveryFront(t *testing.T) {
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			b, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			if r.ContentLength < 0 {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(b), b)
				continue
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
		}
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(handler(t, addr))
		for _, n := range []int{1, 20, 4095, 4096, 4097, 8191, 8192, 8193, 16383, 16384, 16385, 65535, 65536, 65537, 1 << 20} {
			data := make([]byte, n)
			for i := range data {
				data[i] = byte(i * 31 >> 3)
			}
			for _, body := range []io.Reader{bytes.NewReader(data), iotest.DataErrReader(bytes.NewReader(data))} {
				r := do(t, s, "POST", "/", body)
				if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes: status %d, %d came back, %v; %v", n, r.StatusCode, len(got), err, s.Site.Errs())
				}
			}
		}
	})
}

// An event is at the client before the next one exists (R-STREAM-2).
func TestEventsAreLiveOnEveryFront(t *testing.T) {
	next := make(chan string)
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		head(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for e := range next {
			if e == "" {
				io.WriteString(c, "0\r\n\r\n")
				return
			}
			fmt.Fprintf(c, "%x\r\n%s\r\n", len(e), e)
		}
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		r := do(t, start(handler(t, addr)), "GET", "/", nil) // returns with the head
		br := bufio.NewReader(r.Body)
		for i := range 5 {
			e := fmt.Sprintf("data: %d\n", i)
			next <- e
			if got, err := br.ReadString('\n'); got != e {
				t.Fatalf("%q, %v", got, err)
			}
		}
		next <- ""
		if _, err := br.ReadByte(); err != io.EOF {
			t.Error(err)
		}
	})
}

// A cut reply never looks complete (fault 3, R-STREAM-4).
func TestFault3OnEveryFront(t *testing.T) {
	for _, reply := range []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"} {
		exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
			h, _, _ := canned(t, reply)
			if b, _, err := start(h).Cut("/"); err == nil {
				t.Errorf("%q ended well", b)
			}
		})
	}
}

// An answer that comes during the upload reaches the client (G16).
func TestG16OnEveryFront(t *testing.T) {
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		for h := head(br); h != ""; h = head(br) {
			if strings.HasPrefix(h, "POST") {
				io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
			} else {
				io.WriteString(c, ok)
			}
		}
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(handler(t, addr))
		pr, pw := io.Pipe()
		defer pw.Close()
		go pw.Write(make([]byte, 10))
		r := do(t, s, "POST", "/up", pr)
		if b, err := io.ReadAll(r.Body); r.StatusCode != 413 || string(b) != "big" {
			t.Errorf("%d %q, %v", r.StatusCode, b, err)
		}
		r = do(t, s, "GET", "/next", nil)
		if b, err := io.ReadAll(r.Body); string(b) != "ok" {
			t.Errorf("next: %q, %v", b, err)
		}
	})
}

// A client that leaves takes its call with it (R-STREAM-5).
func TestClientGoneOnEveryFront(t *testing.T) {
	asked, gone := make(chan struct{}), make(chan struct{})
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		head(br)
		asked <- struct{}{}
		br.ReadByte()
		gone <- struct{}{}
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(handler(t, addr))
		ctx, leave := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if r, err := s.Client.Do(req); err == nil {
				r.Body.Close()
			}
		}()
		<-asked
		leave()
		<-done
		<-gone
	})
}

// It does so too while the upstream takes no more of its upload, so that nobody reads
// what it sends.
func TestClientGoneWhileTheUpstreamTakesNothing(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		head(br)
		close(asked)
		<-release
	})
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handler(t, addr)}, false)
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	writes := make(chan struct{})
	go func() {
		defer close(writes)
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")
		for b := make([]byte, 64<<10); err == nil; {
			var n int
			n, err = c.Write(b)
			sent.Add(int64(n))
		}
	}()
	<-asked
	for last := int64(-1); last != sent.Load(); <-time.After(200 * time.Millisecond) { // until all buffers are full
		last = sent.Load()
	}
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
	<-writes
	for end := time.Now().Add(patience / 2); len(s.Site.Errs()) == 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the end of the client was never noticed")
		}
	}
	if err := s.Site.Errs()[0]; !errors.Is(err, exchange.ErrClientGone) {
		t.Error(err)
	}
}

// R-UP-6
func TestTrailersOnEveryFront(t *testing.T) {
	got := make(chan http.Header, 1)
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		got <- r.Trailer
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: down\r\nConnection: x\r\nX-LiteSpeed-Purge: *\r\nX-Httpjet-Proxy-Error: dial\r\n\r\n")
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(handler(t, addr))
		req, _ := http.NewRequest("POST", s.URL, io.NopCloser(strings.NewReader("body")))
		req.Trailer = http.Header{"X-Sum": {"up"}, "X-Forwarded-For": {"192.0.2.1"}, "X_real_ip": {"192.0.2.1"}, "Via": {"1.1 evil"}, "Proxy": {"x"}}
		r, err := s.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if b, err := io.ReadAll(r.Body); string(b) != "ok" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		if up := <-got; up.Get("X-Sum") != "up" || len(up) != 1 {
			t.Errorf("upstream got trailers %v", up)
		}
		if r.Trailer.Get("X-Sum") != "down" || len(r.Trailer) != 1 {
			t.Errorf("client got trailers %v", r.Trailer)
		}
	})
}

// A trailer that Connection names is of the hop before, as a field is.
func TestNamedTrailers(t *testing.T) {
	got := make(chan http.Header, 1)
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		got <- r.Trailer
		io.WriteString(c, ok)
	})
	c, err := net.Dial("tcp", exchangetest.Start(t, &exchangetest.Site{Handler: handler(t, addr)}, false).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nConnection: x-own\r\nTrailer: X-Own, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Own: 1\r\nX-Sum: 2\r\n\r\n")
	if up := <-got; up.Get("X-Sum") != "2" || len(up) != 1 {
		t.Errorf("upstream got trailers %v", up)
	}
}

// Of an early hint only what is end to end reaches a client (G71).
func TestG71HopByHopFieldsOfAnEarlyHint(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		h, _, _ := canned(t, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: X-N\r\nX-N: 1\r\n"+
			"Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nTrailer: X-Sum\r\nUpgrade: h2c\r\n\r\n"+ok)
		var hints []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, h))
				return nil
			}})
		s := start(h)
		req, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
		r, err := s.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if b, _ := io.ReadAll(r.Body); string(b) != "ok" {
			t.Errorf("body %q", b)
		}
		if want := "103 map[Link:[</a.css>; rel=preload]]"; len(hints) != 1 || hints[0] != want {
			t.Errorf("hints %q, want %q", hints, want)
		}
	})
}

func TestUpstreamDownOnEveryFront(t *testing.T) { // fault 13
	dead := refused(t)
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(handler(t, dead))
		r := do(t, s, "POST", "/", strings.NewReader("body"))
		if r.StatusCode != 502 || r.Header.Get("X-Httpjet-Proxy-Error") != "upstream_transport" {
			t.Errorf("%d %v", r.StatusCode, r.Header)
		}
		if errs := s.Site.Errs(); len(errs) > 0 && errors.Is(errs[0], exchange.ErrClientGone) {
			t.Error(errs)
		}
	})
}

// A chunked body with lax line ends or sizes is refused, and what came of it is
// never a whole request upstream (G03, G06).
func TestG03MalformedChunksAre400(t *testing.T) {
	whole := make(chan bool, 1)
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		if head(br) != "" {
			b, _ := io.ReadAll(br)
			whole <- bytes.Contains(b, []byte("0\r\n\r\n"))
		}
	})
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handler(t, addr)}, false)
	for _, chunks := range []string{"5\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n",
		"5 \r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\nfoo\r\n\r\n"} {
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks)
		b, err := io.ReadAll(c)
		c.Close()
		if !bytes.HasPrefix(b, []byte("HTTP/1.1 400 ")) || !bytes.Contains(b, []byte("\r\nConnection: close\r\n")) || err != nil {
			t.Errorf("%q: %.60q, %v", chunks, b, err)
		}
		if <-whole {
			t.Errorf("%q: the upstream got a whole request", chunks)
		}
	}
}

// G71: an interim response is relayed without the fields of its hop.
func TestG71HopsInEarlyHints(t *testing.T) {
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		for head(br) != "" {
			io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: X-N\r\nX-N: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\n\r\n"+ok)
		}
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(handler(t, addr))
		var hints []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprint(code, h))
			return nil
		}})
		req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if b, _ := io.ReadAll(r.Body); string(b) != "ok" || len(hints) != 1 || hints[0] != "103 map[Link:[</a.css>]]" {
			t.Errorf("%q, hints %q", b, hints)
		}
	})
}
