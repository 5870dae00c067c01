package front_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/front"
)

// differHandler says what it sees and does what the path asks for.
var differHandler = handle(func(x *exchange.Exchange) error {
	var in []byte
	if x.Req.Path != "/ignore" {
		var err error
		if in, err = io.ReadAll(x.Body()); err != nil {
			return err
		}
	}
	x.Resp.Fields.Add("Content-Type", "text/plain")
	x.Resp.Fields.Add("X-Seen", fmt.Sprintf("%s %s %s %s %d", x.Req.Proto, x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Length))
	var fields []string
	for name, value := range x.Req.Fields.All() {
		fields = append(fields, http.CanonicalHeaderKey(name)+"="+value)
	}
	x.Resp.Fields.Add("X-Fields", strings.Join(fields, "; "))
	switch x.Req.Path {
	case "/empty":
		return x.Start(204)
	case "/unchanged":
		return x.Start(304)
	case "/exact":
		x.Resp.Length = int64(len(in))
	case "/short":
		x.Resp.Length = int64(len(in)) + 1
	case "/long":
		x.Resp.Length = 2
		in = append(in, "more"...)
	case "/trailers":
		x.Resp.Fields.Add("Trailer", "X-End")
		x.Trailers.Add("X-End", "1")
	case "/hint":
		var f exchange.Fields
		f.Add("Link", "</a.css>")
		x.Inform(103, &f)
	case "/refuse":
		return exchange.Fail(403, "access_denied", "no")
	case "/redirect":
		return exchange.Redirect(301, "/there/")
	case "/panic":
		panic("BUG: test")
	case "/cut":
		x.Write([]byte("half"))
		return exchange.Fail(502, "response_error", "cut")
	}
	_, err := x.Write(in)
	return err
})

// startOracle serves by HTTP/2 of net/http, over the bridge.
func startOracle(t testing.TB) (addr string) {
	site := &exchangetest.Site{Handler: differHandler}
	fs := &front.Server{Current: func() front.Site { return site }, Log: slog.New(slog.DiscardHandler)}
	hs := httptest.NewUnstartedServer(fs.Bridge("test"))
	hs.EnableHTTP2 = true
	hs.StartTLS()
	t.Cleanup(hs.Close)
	return hs.Listener.Addr().String()
}

// outcome is what a raw client sees of one request.
func outcome(t testing.TB, addr string, body []byte, frames int, trailers []string, fields []string) string {
	c := dialH2(t, &exchangetest.Server{URL: "https://", Addr: addr})
	defer c.c.Close()
	more := len(body) > 0 || len(trailers) > 0
	c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.fields(fields...), EndStream: !more, EndHeaders: true})
	for i := range frames {
		if len(body) == 0 {
			break
		}
		n := len(body) / (frames - i)
		c.fr.WriteData(1, i == frames-1 && len(trailers) == 0, body[:n])
		body = body[n:]
	}
	if len(trailers) > 0 {
		c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.fields(trailers...), EndStream: true, EndHeaders: true})
	}
	var got strings.Builder
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			return got.String() + " end"
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			for _, fd := range f.Fields {
				if fd.Name != "date" {
					fmt.Fprintf(&got, "%s=%s\n", fd.Name, fd.Value)
				}
			}
			if f.StreamEnded() {
				return got.String()
			}
		case *http2.DataFrame:
			got.Write(f.Data())
			if f.StreamEnded() {
				return got.String()
			}
		case *http2.RSTStreamFrame:
			if f.ErrCode == http2.ErrCodeNo {
				return got.String()
			}
			return got.String() + " reset"
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return got.String() + " goaway"
			}
		}
	}
}

// canonical puts the fields of a section into one order, which net/http loses, and takes
// the length away that it adds to small answers.
func canonical(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if v, ok := strings.CutPrefix(l, "x-fields="); ok {
			all := strings.Split(v, "; ")
			slices.Sort(all)
			lines[i] = "x-fields=" + strings.Join(all, "; ")
		}
	}
	if !strings.Contains(s, "/exact") {
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "content-length=") })
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// differs says where the own server may answer otherwise than net/http: it is stricter
// with what RFC 9113 calls malformed, and refuses more by a reset.
func differs(own, oracle string) bool {
	if own == oracle {
		return false
	}
	if strings.Contains(own, "HEAD /cut") { // net/http cuts nothing that is complete for the client
		return false
	}
	refused := func(s string) bool {
		return s == "" || strings.Contains(s, ":status=400") || strings.Contains(s, " reset") || strings.Contains(s, " goaway")
	}
	return !(refused(own) && refused(oracle))
}

// The own HTTP/2 and that of net/http make the same of the same requests.
func TestH2LikeNetHTTP(t *testing.T) {
	own := exchangetest.Start(t, &exchangetest.Site{Handler: differHandler}, true)
	oracle := startOracle(t)
	f := func(body string, trailers []string, fields ...string) {
		t.Helper()
		a := canonical(outcome(t, own.Addr, []byte(body), 3, trailers, fields))
		b := canonical(outcome(t, oracle, []byte(body), 3, trailers, fields))
		if differs(a, b) {
			t.Errorf("%q, body %q, trailers %q\nown:      %q\nnet/http: %q", fields, body, trailers, a, b)
		}
	}
	head := func(method, path string, more ...string) []string {
		return append([]string{":method: " + method, ":scheme: https", ":authority: a.test", ":path: " + path}, more...)
	}
	for _, path := range []string{"/", "/exact", "/short", "/long", "/empty", "/unchanged", "/trailers", "/hint", "/refuse", "/redirect", "/panic", "/cut", "/ignore"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "M-SEARCH"} {
			f("", nil, head(method, path)...)
			f("hello, world", nil, head(method, path)...)
			f("hello, world", nil, head(method, path, "content-length: 12")...)
		}
	}
	f("hello", []string{"x-end: 1"}, head("POST", "/", "trailer: X-End")...)
	f("hello", []string{":path: /"}, head("POST", "/")...)
	f("hello", nil, head("POST", "/", "content-length: 6")...)
	f("hello", nil, head("POST", "/", "content-length: 4")...)
	f("", nil, head("GET", "/", "cookie: a=1", "cookie: b=2")...)
	f("", nil, head("GET", "/", "x: 1", "y: 2", "x: 3", "accept: */*", "te: trailers")...)
	f("", nil, head("GET", "/a%2Fb?c=d&e")...)
	f("", nil, head("GET", "/", "host: a.test")...)
	f("", nil, ":method: GET", ":scheme: https", ":path: /", "host: b.test")
	f("", nil, ":method: GET", ":scheme: https", ":authority: a.test", ":path: *")
	f("", nil, ":method: CONNECT", ":authority: a.test:443")
	f("", nil, ":method: GET", ":scheme: https", ":authority: a.test", ":path: nothing")
	f("", nil, ":method: GET", ":scheme: https", ":authority: a test", ":path: /")
	f("", nil, head("GET", "/", "connection: close")...)
	f("", nil, head("GET", "/", "te: gzip")...)
	f("", nil, head("GET", "/", "transfer-encoding: chunked")...)
	f("", nil, head("GE T", "/")...)
}

// Any request: the same of it by both.
func TestH2LikeNetHTTPOfAny(t *testing.T) {
	own := exchangetest.Start(t, &exchangetest.Site{Handler: differHandler}, true)
	oracle := startOracle(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	for range 150 {
		var fields []string
		for _, p := range []string{":method: " + pick("GET", "POST", "HEAD", "PUT", "X"), ":scheme: " + pick("https", "http", "ftp"),
			":authority: " + pick("a.test", "a.test:8443", "[::1]", "A"), ":path: " + pick("/", "/exact", "/trailers", "/x?y", "/a/../b", "*")} {
			if rnd.IntN(30) > 0 {
				fields = append(fields, p)
			}
		}
		for range rnd.IntN(5) {
			if rnd.IntN(5) == 0 {
				fields = append(fields, "cookie: "+pick("a", "b=c"))
			}
			fields = append(fields, pick("x", "y-z", "accept", "content-type", "user-agent", "range")+": "+pick("", "1", " spaced ", "a;b=c", "\xe4", "a\tb"))
		}
		body := bytes.Repeat([]byte("b"), rnd.IntN(3)*rnd.IntN(20_000))
		frames := 1 + rnd.IntN(4)
		for len(body)/frames > 16<<10 {
			frames++
		}
		a, b := canonical(outcome(t, own.Addr, body, frames, nil, fields)), canonical(outcome(t, oracle, body, frames, nil, fields))
		if differs(a, b) {
			t.Errorf("%q, %d bytes\nown:      %.300q\nnet/http: %.300q", fields, len(body), a, b)
		}
	}
}
