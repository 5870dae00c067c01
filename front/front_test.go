package front_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

type start = func(exchange.Handler) *exchangetest.Server

func handle(f func(x *exchange.Exchange) error) exchange.Handler { return exchange.HandlerFunc(f) }

func do(t *testing.T, s *exchangetest.Server, method, target string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, s.URL+target, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("body after %d bytes: %v", len(b), err)
	}
	return string(b)
}

func TestRequestIsTheSameOnEveryFront(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start start) {
		type seen struct {
			exchange.Request
			body string
		}
		seens := make(chan seen, 1)
		s := start(handle(func(x *exchange.Exchange) error {
			b, err := io.ReadAll(x.Body())
			got := seen{x.Req, string(b)}
			for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding"} {
				if x.Req.Fields.Has(name) {
					t.Errorf("%s is among the fields", name)
				}
			}
			if x.Req.Fields.Get("User-Agent") == "" {
				t.Error("no fields")
			}
			seens <- got
			return err
		}))
		do(t, s, "POST", "/a%2Fb?q=%20", strings.NewReader("hello"))
		got := <-seens
		if got.Method != "POST" || got.Target != "/a%2Fb?q=%20" || got.Length != 5 || got.body != "hello" ||
			got.Host != s.Addr || got.Proto != s.Proto || got.Listener != "test" {
			t.Errorf("request %+v", got)
		}
		if len(got.ID) != 32 || got.Remote.Addr().String() != "127.0.0.1" || got.Client != got.Remote.Addr() || !got.Local.IsValid() {
			t.Errorf("id %q, remote %v, local %v", got.ID, got.Remote, got.Local)
		}
		if want := s.URL[:strings.Index(s.URL, ":")]; got.Scheme != want || (got.TLS != nil) != (want == "https") {
			t.Errorf("scheme %q, want %q", got.Scheme, want)
		}
		do(t, s, "PUT", "/", io.MultiReader(strings.NewReader("unknown")))                         // no length
		if again := <-seens; again.Length != -1 || again.body != "unknown" || again.ID == got.ID { // R-PIPE-11
			t.Errorf("length %d, body %q, id %q", again.Length, again.body, again.ID)
		}
		do(t, s, "GET", "/", nil)
		if got := <-seens; got.Length != 0 || got.body != "" {
			t.Errorf("length %d, body %q", got.Length, got.body)
		}
	})
}

func TestResponseFraming(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 40<<10/16)
	exchangetest.Run(t, func(t *testing.T, start start) {
		s := start(handle(func(x *exchange.Exchange) error {
			x.Resp.Fields.Add("X-Two", "1")
			x.Resp.Fields.Add("X-Two", "2")
			x.Resp.Fields.Add("Date", "never")
			x.Resp.Fields.Add("Server", "another")
			x.Resp.Fields.Add("Content-Length", "1")
			x.Resp.Fields.Add("Transfer-Encoding", "gzip")
			x.Resp.Fields.Add("Injected", "a\r\nb: c")
			status := 200
			switch x.Req.Path {
			case "/fixed", "/head":
				x.Resp.Length = int64(len(large))
			case "/empty":
				x.Resp.Length = 0
			case "/204":
				status = 204
			case "/304":
				status = 304
			}
			if err := x.Start(status); err != nil {
				return err
			}
			if x.Req.Path == "/empty" {
				return nil
			}
			for p := []byte(large); len(p) > 0; { // of many sizes
				n := min(len(p), 1+len(p)/3)
				if _, err := x.Write(p[:n]); err != nil {
					return err
				}
				p = p[n:]
			}
			return nil
		}))
		f := func(method, target string, status int, length int64, body string) {
			t.Helper()
			resp := do(t, s, method, target, nil)
			if got := readAll(t, resp); got != body {
				t.Errorf("%s %s: body of %d bytes, want %d", method, target, len(got), len(body))
			}
			if resp.StatusCode != status || resp.ContentLength != length {
				t.Errorf("%s %s: %d, length %d, want %d and %d", method, target, resp.StatusCode, resp.ContentLength, status, length)
			}
			h := resp.Header
			if !slices.Equal(h["X-Two"], []string{"1", "2"}) || h["Server"] != nil || h["Injected"] != nil ||
				h["Content-Type"] != nil || len(h["Date"]) != 1 || h.Get("Date") == "never" {
				t.Errorf("%s %s: fields %v", method, target, h)
			}
		}
		n := int64(len(large))
		for range 2 { // the connection is used again
			f("GET", "/fixed", 200, n, large)
			f("GET", "/unknown", 200, -1, large)
			f("GET", "/empty", 200, 0, "")
			f("HEAD", "/head", 200, n, "")
			f("GET", "/204", 204, 0, "")
			if s.Proto == "HTTP/3.0" {
				f("GET", "/304", 304, -1, "") // its client tells no length
			} else {
				f("GET", "/304", 304, 0, "")
			}
		}
	})
}

func TestTrailersBothWays(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start start) {
		s := start(handle(func(x *exchange.Exchange) error {
			if _, err := io.Copy(io.Discard, x.Body()); err != nil {
				return err
			}
			tr := x.BodyTrailers()
			if tr == nil || x.Req.Fields.Get("Trailer") == "" {
				return exchange.Fail(400, "bad_request", "no trailers, fields %v", x.Req.Fields)
			}
			x.Resp.Fields.Add("Trailer", "X-Sum")
			x.Trailers.Add("X-Sum", tr.Get("X-Sum"))
			_, err := x.Write([]byte("body"))
			return err
		}))
		req, _ := http.NewRequest("POST", s.URL+"/", io.MultiReader(strings.NewReader("data")))
		req.Trailer = http.Header{"X-Sum": nil}
		req.Body = trailing{req.Body, func() { req.Trailer.Set("X-Sum", "42") }}
		resp, err := s.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body := readAll(t, resp); body != "body" || resp.Trailer.Get("X-Sum") != "42" {
			t.Errorf("body %q, trailers %v", body, resp.Trailer)
		}
	})
}

// trailing calls done when the body has been read.
type trailing struct {
	io.ReadCloser
	done func()
}

func (b trailing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.done()
	}
	return n, err
}

func TestInterimResponses(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start start) {
		s := start(handle(func(x *exchange.Exchange) error {
			var f exchange.Fields
			f.Add("Link", "</a.css>")
			if err := x.Inform(103, &f); err != nil {
				return err
			}
			x.Resp.Fields.Add("X", "y")
			_, err := x.Write([]byte("ok"))
			return err
		}))
		var hints []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, h.Get("Link")))
				return nil
			}})
		req, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/", nil)
		resp, err := s.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if readAll(t, resp) != "ok" || !slices.Equal(hints, []string{"103</a.css>"}) || resp.Header.Get("Link") != "" {
			t.Errorf("hints %q, fields %v", hints, resp.Header)
		}
	})
}

func TestSendFile(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 100<<10)
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	exchangetest.Run(t, func(t *testing.T, start start) {
		s := start(handle(func(x *exchange.Exchange) error {
			var off, n int64
			fmt.Sscanf(x.Req.Query, "%d-%d", &off, &n)
			file, err := os.Open(name)
			if err != nil {
				return err
			}
			defer file.Close()
			if x.Req.Path == "/fixed" {
				x.Resp.Length = n
			}
			return x.SendFile(file, off, n)
		}))
		f := func(path string, off, n int) {
			t.Helper()
			resp := do(t, s, "GET", fmt.Sprintf("%s?%d-%d", path, off, n), nil)
			if got := readAll(t, resp); got != string(data[off:off+n]) {
				t.Errorf("%s %d-%d: %d bytes that differ", path, off, n, len(got))
			}
		}
		for _, path := range []string{"/fixed", "/chunked"} {
			f(path, 0, len(data))
			f(path, 5, 1)
			f(path, 7, 16<<10)
			f(path, 7, 16<<10+1)
			f(path, 100<<10, 500<<10)
		}
		// A file that has shrunk cuts the response.
		resp := do(t, s, "GET", fmt.Sprintf("/fixed?%d-%d", 10, len(data)), nil)
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Error("the short response looks complete")
		}
	})
}

// TestFault3TruncatedUpstreamIsVisible: a response that fails behind its head is
// cut so that no client takes it for complete, whatever its framing.
func TestFault3TruncatedUpstreamIsVisible(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start start) {
		s := start(handle(func(x *exchange.Exchange) error {
			if x.Req.Path != "/chunked" {
				x.Resp.Length = 10
			}
			if _, err := x.Write([]byte("half")); err != nil {
				return err
			}
			if err := x.Flush(); err != nil {
				return err
			}
			switch x.Req.Path {
			case "/short":
				return nil // and says nothing
			case "/panic":
				panic("in the middle")
			}
			return exchange.Fail(502, "upstream_transport", "upstream closed")
		}))
		for _, path := range []string{"/chunked", "/fixed", "/short", "/panic"} {
			b, seen, err := s.Cut(path)
			if err == nil {
				t.Errorf("%s: the truncated response looks complete", path)
			}
			if seen && b != "half" {
				t.Errorf("%s: body %q before the cut, want what was sent", path, b)
			}
		}
		waitFor(t, func() bool { return len(s.Site.Errs()) == 4 })
		for i, err := range s.Site.Errs() {
			if err == nil {
				t.Errorf("exchange %d finished without an error", i)
			}
		}
		if n := s.Front.Snapshot().Bugs; n != 1 {
			t.Errorf("%d bugs counted, want the panic", n)
		}
	})
}

// waitFor polls for something that has no event, up to 10 s.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for range 5000 {
		if ok() {
			return
		}
		<-tick.C
	}
	t.Fatal("waited in vain")
}

func TestPanicBeforeTheHeadIs500(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start start) {
		s := start(handle(func(x *exchange.Exchange) error {
			if x.Req.Path == "/panic" {
				x.Resp.Fields.Add("Half", "done")
				panic("at once")
			}
			return nil
		}))
		resp := do(t, s, "GET", "/panic", nil)
		if body := readAll(t, resp); resp.StatusCode != 500 || !strings.Contains(body, "500 Internal") || resp.Header.Get("Half") != "" {
			t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
		}
		if resp := do(t, s, "GET", "/", nil); resp.StatusCode != 200 {
			t.Errorf("then %d", resp.StatusCode)
		}
		waitFor(t, func() bool { return s.Front.Snapshot().Bugs == 1 && len(s.Site.Errs()) == 2 })
		if err := s.Site.Errs()[0]; !errors.Is(err, exchange.ErrPanic) || exchange.StatusOf(err) != 500 {
			t.Errorf("%v", err) // whoever explains errors must know that this one is told
		}
	})
}

// A body that the handler leaves does not harm the next request of the connection;
// exchangetest fails for whatever net/http has to complain about.
func TestUnreadBodyOnEveryFront(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start start) {
		s := start(handle(func(x *exchange.Exchange) error {
			if x.Req.Path == "/part" {
				io.ReadFull(x.Body(), make([]byte, 10))
			}
			_, err := io.WriteString(x, "ok")
			return err
		}))
		for _, target := range []string{"/none", "/part", "/none"} {
			for _, body := range []io.Reader{strings.NewReader(strings.Repeat("x", 5000)), struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 5000))}} {
				if got := readAll(t, do(t, s, "POST", target, body)); got != "ok" {
					t.Errorf("%s: %q", target, got)
				}
			}
		}
	})
}

func TestContextEndsWithTheClient(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start start) {
		started, ended := make(chan struct{}), make(chan error, 1)
		s := start(handle(func(x *exchange.Exchange) error {
			if _, err := io.Copy(io.Discard, x.Body()); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(x.Context()) // derived, as a call to an upstream does
			defer cancel()
			if x.Req.Path == "/quick" {
				return ctx.Err()
			}
			close(started)
			select {
			case <-ctx.Done():
				ended <- ctx.Err()
			case <-time.After(20 * time.Second):
				ended <- errors.New("the context is not done")
			}
			return exchange.ErrClientGone
		}))
		if resp := do(t, s, "GET", "/quick", nil); resp.StatusCode != 200 {
			t.Errorf("quick: %d", resp.StatusCode)
		}
		if resp := do(t, s, "POST", "/quick", strings.NewReader("body")); resp.StatusCode != 200 {
			t.Errorf("quick: %d", resp.StatusCode)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-started
			cancel()
		}()
		req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/slow", strings.NewReader("body"))
		if resp, err := s.Client.Do(req); err == nil {
			resp.Body.Close()
			t.Error("the request was answered")
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestStopBodyFreesTheReader: a goroutine that waits for the request body can be
// joined, the answer still reaches the client.
func TestStopBodyFreesTheReader(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start start) {
		s := start(handle(func(x *exchange.Exchange) error {
			first, joined := make(chan struct{}), make(chan error, 1)
			go func() {
				var b [1]byte
				io.ReadFull(x.Body(), b[:])
				close(first)
				_, err := io.Copy(io.Discard, x.Body())
				joined <- err
			}()
			<-first
			x.StopBody()
			if err := <-joined; err == nil {
				return errors.New("the stopped body ended without an error")
			}
			return exchange.Fail(409, "conflict", "answered early")
		}))
		pr, pw := io.Pipe()
		defer pw.Close()
		go pw.Write([]byte("x"))
		resp := do(t, s, "POST", "/", pr)
		if resp.StatusCode != 409 {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

// TestConnectionOutlivesEarlyAnswer: the answer that says keep-alive keeps its word, though
// it came while the body was being read, if what is left of that is small.
func TestConnectionOutlivesEarlyAnswer(t *testing.T) {
	answered := make(chan struct{})
	h := handle(func(x *exchange.Exchange) error {
		if x.Req.Method == "GET" {
			_, err := io.WriteString(x, "next")
			return err
		}
		first, joined := make(chan struct{}), make(chan error, 1)
		go func() {
			var b [1]byte
			io.ReadFull(x.Body(), b[:])
			close(first)
			_, err := io.Copy(io.Discard, x.Body())
			joined <- err
		}()
		<-first
		x.Resp.Length = 0
		if err := x.Start(413); err != nil {
			return err
		}
		x.StopBody()
		<-joined
		answered <- struct{}{}
		return nil
	})
	for _, body := range [][2]string{
		{"Content-Length: 70000\r\n\r\nx", strings.Repeat("y", 69999)},
		{"Transfer-Encoding: chunked\r\n\r\n3\r\nx", "yz\r\n5\r\n12345\r\n0\r\n\r\n"},
		{"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1", "0\r\n0123456789abcdef\r\n0\r\nA: b\r\n\r\n"},
	} {
		for _, secure := range []bool{false, true} {
			c := dial(t, exchangetest.Start(t, &exchangetest.Site{Handler: h}, secure))
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\n"+body[0])
			<-answered
			io.WriteString(c, body[1]+"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			got, _ := io.ReadAll(c)
			if !strings.Contains(string(got), "Connection: keep-alive") || !strings.Contains(string(got), "\r\nnext\r\n") {
				t.Errorf("%.50q: %q", body[0], got)
			}
		}
	}
}

func TestErrorsBecomeAnswers(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start start) {
		s := start(handle(func(x *exchange.Exchange) error {
			if x.Req.Path == "/limit" {
				if err := x.LimitBody(3); err != nil {
					return err
				}
				_, err := io.Copy(io.Discard, x.Body())
				return err
			}
			return exchange.Fail(418, "teapot", "short and stout")
		}))
		if resp := do(t, s, "GET", "/", nil); resp.StatusCode != 418 {
			t.Errorf("status %d", resp.StatusCode)
		}
		if resp := do(t, s, "POST", "/limit", strings.NewReader("four")); resp.StatusCode != 413 {
			t.Errorf("declared: %d", resp.StatusCode)
		}
		if resp := do(t, s, "POST", "/limit", io.MultiReader(strings.NewReader("four"))); resp.StatusCode != 413 {
			t.Errorf("undeclared: %d", resp.StatusCode)
		}
		long := do(t, s, "GET", "/"+strings.Repeat("a", 8192), nil)
		if long.StatusCode != 414 { // R-PIPE-4
			t.Errorf("long target: %d", long.StatusCode)
		}
		req, _ := http.NewRequest("GET", s.URL+"/", nil)
		for i := range 101 {
			req.Header.Set(fmt.Sprintf("X-%d", i), "y")
		}
		resp, err := s.Client.Do(req)
		if err != nil || resp.StatusCode != 431 {
			t.Errorf("101 fields: %v, %v", resp, err)
		}
		resp.Body.Close()
	})
}

// TestStreaming: what is flushed is at the client before the response goes on.
func TestStreaming(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start start) {
		next := make(chan struct{})
		s := start(handle(func(x *exchange.Exchange) error {
			for i := range 3 {
				fmt.Fprintf(x, "data: %d\n", i)
				if err := x.Flush(); err != nil {
					return err
				}
				<-next
			}
			return nil
		}))
		r := bufio.NewReader(do(t, s, "GET", "/", nil).Body)
		for i := range 3 {
			line, err := r.ReadString('\n')
			if want := fmt.Sprintf("data: %d\n", i); line != want || err != nil {
				t.Fatalf("line %q, %v, want %q", line, err, want)
			}
			next <- struct{}{}
		}
		if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
			t.Errorf("rest %q, %v", rest, err)
		}
	})
}

// TestG11BodiesAreExact: every size around the borders of buffers, with a length
// and in chunks, arrives and returns byte for byte.
func TestG11BodiesAreExact(t *testing.T) {
	data := make([]byte, 70000)
	for i := range data {
		data[i] = byte(i * 7919 >> 3)
	}
	exchangetest.Run(t, func(t *testing.T, start start) {
		s := start(handle(func(x *exchange.Exchange) error {
			x.Resp.Length = x.Req.Length
			if err := x.Start(200); err != nil {
				return err
			}
			_, err := io.CopyBuffer(struct{ io.Writer }{x}, struct{ io.Reader }{x.Body()}, make([]byte, 5000))
			return err
		}))
		for _, n := range []int{1, 2, 4095, 4096, 4097, 8191, 8192, 8193, 16383, 16384, 16385, 65535, 65536, 65537, 70000} {
			for _, body := range []io.Reader{bytes.NewReader(data[:n]), io.MultiReader(bytes.NewReader(data[:n]))} {
				if got := readAll(t, do(t, s, "POST", "/", body)); got != string(data[:n]) {
					t.Errorf("%d bytes came back as %d others (%T)", n, len(got), body)
				}
			}
		}
	})
}
