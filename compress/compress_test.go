package compress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"httpjet/coding"
	"httpjet/exchange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire records a response. Bytes are visible to the client once flushed.
type wire struct {
	head    *exchange.Response // nil: not sent
	body    bytes.Buffer
	visible int // of body
	flushes int
	fail    error // of Write
	ended   bool
	aborted error
}

func (w *wire) Read([]byte) (int, error)   { return 0, io.EOF }
func (w *wire) Trailers() *exchange.Fields { return nil }
func (w *wire) StopRead()                  {}
func (w *wire) Context() context.Context   { return context.Background() }
func (w *wire) Abort(cause error)          { w.aborted = cause }
func (w *wire) Flush() error               { w.visible, w.flushes = w.body.Len(), w.flushes+1; return nil }
func (w *wire) End(*exchange.Fields) error { w.visible, w.ended = w.body.Len(), true; return nil }

func (w *wire) Head(r *exchange.Response, _, _ bool) error {
	if w.head != nil {
		panic("two heads")
	}
	c := *r
	w.head = &c
	return nil
}

func (w *wire) Write(p []byte) (int, error) {
	if w.head == nil {
		panic("a body before its head")
	}
	if w.fail != nil {
		return 0, w.fail
	}
	return w.body.Write(p)
}

var all = coding.Zstd | coding.Brotli | coding.Gzip

// options code everything.
func options(t testing.TB) Options {
	types, bad := ParseTypes([]string{"default"})
	if bad != nil {
		t.Fatal(bad)
	}
	l := Levels{Gzip: 6, Brotli: 5, Zstd: 3}
	return Options{Encoders: NewEncoders(64 << 20), Types: types, Dynamic: all, Levels: l, Files: all, FileLevels: l,
		LeastFile: 300, LargestFile: 1 << 20, Proxied: true, Events: true}
}

// answer is what a handler says.
type answer struct {
	status  int
	fields  []string // "Name: value"
	body    string
	length  bool // it is told
	pieces  int  // bytes of a write; 0: all at once
	kind    exchange.Kind
	fails   error
	trailer bool
}

func (a answer) Serve(x *exchange.Exchange) error {
	x.Route.Kind = a.kind
	for _, f := range a.fields {
		name, value, _ := strings.Cut(f, ": ")
		x.Resp.Fields.Add(name, value)
	}
	if a.length {
		x.Resp.Length = int64(len(a.body))
	}
	if err := x.Start(a.status); err != nil {
		return err
	}
	for b := a.body; b != ""; {
		n := len(b)
		if a.pieces > 0 {
			n = min(n, a.pieces)
		}
		if _, err := io.WriteString(x, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	if a.trailer {
		x.Trailers.Add("X-Sum", "1")
	}
	return a.fails
}

// serve answers a request of these fields, "GET" unless the first one is a method.
func serve(t testing.TB, o Options, h exchange.Handler, request ...string) *wire {
	t.Helper()
	w := &wire{}
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Proto = "GET", "HTTP/1.1"
	for i, f := range request {
		if i == 0 && !strings.Contains(f, ":") {
			x.Req.Method = f
			continue
		}
		name, value, _ := strings.Cut(f, ": ")
		if e, ok := strings.CutPrefix(name, "env "); ok {
			x.Env = append(x.Env, exchange.Field{Name: e, Value: value})
			continue
		}
		x.Req.Fields.Add(name, value)
	}
	exchange.Run(x, exchange.HandlerFunc(func(x *exchange.Exchange) error {
		New(o).Join(x)
		return h.Serve(x)
	}))
	if n := o.Encoders.Counts().InUse; n != 0 {
		t.Errorf("%q: %d bytes of encoders are not given back", request, n)
	}
	return w
}

// decoded is a body without its coding.
func decoded(t testing.TB, w *wire) string {
	t.Helper()
	for _, c := range coding.All {
		if w.head.Fields.Get("Content-Encoding") != c.Name() {
			continue
		}
		b, err := Decode(nil, c, w.body.Bytes(), Limits{Max: 64 << 20, Ratio: 1 << 20})
		if err != nil {
			t.Errorf("%s: %v", c.Name(), err)
		}
		return string(b)
	}
	return w.body.String()
}

func fields(w *wire) string {
	var b strings.Builder
	for n, v := range w.head.Fields.All() {
		fmt.Fprintf(&b, "%s=%s ", n, v)
	}
	return fmt.Sprintf("%d %d %s", w.head.Status, w.head.Length, b.String())
}

// text is n bytes of something like a page.
func text(n int) string {
	words := strings.Fields(`the server answers a request with <div class="row"> content </div> and { "key": 42 } function return const value`)
	r := rand.New(rand.NewSource(1))
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%s %x ", words[r.Intn(len(words))], r.Intn(4096))
	}
	return b.String()[:n]
}

const html = "Content-Type: text/html; charset=utf-8"

// R-COMP-1, R-COMP-2: every coding, however body and length come.
func TestCodings(t *testing.T) {
	for name, ae := range map[string]string{"zstd": "gzip, br, zstd", "br": "gzip, br", "gzip": "gzip"} {
		for _, n := range []int{201, 202, 5000, 20_000, 300_000} {
			for _, length := range []bool{true, false} {
				for _, pieces := range []int{0, 100, 8192} {
					body := text(n)
					a := answer{status: 200, fields: []string{html, "Accept-Ranges: bytes", `ETag: "abc"`}, body: body, length: length, pieces: pieces}
					w := serve(t, options(t), a, "Accept-Encoding: "+ae)
					if got := decoded(t, w); got != body || !w.ended {
						t.Errorf("%s of %d: %d bytes decoded, ended %v", name, n, len(got), w.ended)
					}
					want := fmt.Sprintf(`200 -1 Content-Type=text/html; charset=utf-8 ETag="abc;;%s" Vary=Accept-Encoding Content-Encoding=%s `, strings.TrimSuffix(name, "ip"), name)
					if got := fields(w); got != want {
						t.Errorf("head\n%s\nwant\n%s", got, want)
					}
					if w.body.Len() >= n {
						t.Errorf("%s of %d: %d bytes", name, n, w.body.Len())
					}
				}
			}
		}
	}
}

// R-COMP-2: what is never coded, and whether it varies.
func TestNeverCoded(t *testing.T) {
	o := options(t)
	body := text(2000)
	f := func(vary string, a answer, request ...string) {
		t.Helper()
		if a.status == 0 {
			a.status = 200
		}
		if a.body == "" {
			a.body, a.length = body, true
		}
		w := serve(t, o, a, append(request, "Accept-Encoding: gzip, br, zstd")...)
		if w.body.String() != a.body || w.head.Length != int64(len(a.body)) {
			t.Errorf("%+v %q: not as it was", a.fields, request)
		}
		for v := range w.head.Fields.Values("Content-Encoding") {
			if v != "x-own" {
				t.Errorf("%+v %q: coded in %s", a.fields, request, v)
			}
		}
		if got := w.head.Fields.Get("Vary"); got != vary {
			t.Errorf("%+v %q: Vary %q, want %q", a.fields, request, got, vary)
		}
	}
	const varies = "Accept-Encoding"
	f(varies, answer{status: 206, fields: []string{html, "Content-Range: bytes 0-1999/5000"}})
	f(varies, answer{fields: []string{html, "Content-Range: bytes 0-1999/5000"}})
	f(varies, answer{fields: []string{html}}, "Range: bytes=0-1")
	f(varies, answer{fields: []string{html}}, "Cache-Control: max-age=0, no-transform")
	f("", answer{fields: []string{html, "Cache-Control: max-age=3, no-transform"}})
	f("", answer{fields: []string{html, "Cache-Control: max-age=3", "cache-control: No-Transform"}})
	f("", answer{fields: []string{html, "Content-Encoding: x-own"}})
	f("", answer{fields: []string{html, "content-encoding: x-own"}})
	f("", answer{fields: []string{html, "Content-Digest: sha-256=:x:"}})
	f("", answer{fields: []string{html, "Repr-Digest: sha-256=:x:"}})
	f("", answer{fields: []string{html, "Digest: sha-256=x"}})
	f("", answer{fields: []string{html, "Content-MD5: x"}})
	f("", answer{fields: []string{"Content-Type: image/png"}})
	f("", answer{fields: []string{"Content-Type: application/octet-stream"}})
	f("", answer{fields: []string{"Content-Type: text"}})
	f("", answer{})
	f("", answer{fields: []string{html}, body: body[:200], length: true})
	f("", answer{fields: []string{html}, kind: exchange.Files, body: body[:299], length: true})
	f("", answer{fields: []string{html}, kind: exchange.Files, body: strings.Repeat("a", 1<<20+1), length: true})
	f("", answer{fields: []string{html}}, "env no-gzip: 1")
	f("", answer{fields: []string{html}}, "env no-gzip: ")
	o.Events = false
	f("", answer{fields: []string{"Content-Type: Text/Event-Stream"}})
	o.Proxied = false
	f("", answer{fields: []string{html}, kind: exchange.Proxy})
	o = options(t)
	o.Dynamic = 0
	f("", answer{fields: []string{html}, kind: exchange.FastCGI})
	o = options(t)
	o.Encoders = NewEncoders(0) // no memory
	f(varies, answer{fields: []string{html}})
}

// Clients that take no coding have the answer as it is, which varies (G43).
func TestG43VaryInBothAnswers(t *testing.T) {
	f := func(want string, upstream ...string) {
		t.Helper()
		a := answer{status: 200, fields: append([]string{html}, upstream...), body: text(1000)}
		for _, ae := range []string{"Accept-Encoding: gzip", "Accept-Encoding: identity", "X: "} {
			w := serve(t, options(t), a, ae)
			var got []string
			for v := range w.head.Fields.Values("Vary") {
				got = append(got, v)
			}
			if strings.Join(got, "|") != want {
				t.Errorf("%s: Vary %q, want %q", ae, got, want)
			}
			if coded := w.head.Fields.Has("Content-Encoding"); coded != strings.HasSuffix(ae, "gzip") || decoded(t, w) != a.body {
				t.Errorf("%s: coded %v", ae, coded)
			}
		}
	}
	f("Accept-Encoding")
	f("Cookie, Accept-Encoding", "Vary: Cookie")
	f("accept-encoding", "Vary: accept-encoding")
	f("Cookie,ACCEPT-ENCODING", "Vary: Cookie,ACCEPT-ENCODING")
	f("*", "Vary: *")
	f("Cookie|Origin|Accept-Encoding", "Vary: Cookie", "Vary: Origin")
	f("Cookie|Accept-Encoding", "Vary: Cookie", "Vary: Accept-Encoding")
	f("|Accept-Encoding", "Vary: ")
}

func TestG42StatusIsKept(t *testing.T) {
	for _, status := range []int{200, 201, 203, 404, 500, 206} {
		a := answer{status: status, fields: []string{html}, body: text(1000), length: true}
		w := serve(t, options(t), a, "Accept-Encoding: br")
		if w.head.Status != status || w.head.Fields.Has("Content-Encoding") != (status != 206) || decoded(t, w) != a.body {
			t.Errorf("%d: %s", status, fields(w))
		}
	}
}

// Repeated lines are one list, and nobody gets a coding that he has not listed.
func TestG58RepeatedAcceptEncoding(t *testing.T) {
	a := answer{status: 200, fields: []string{html}, body: text(1000)}
	f := func(want string, request ...string) {
		t.Helper()
		if got := serve(t, options(t), a, request...).head.Fields.Get("Content-Encoding"); got != want {
			t.Errorf("%q: %q, want %q", request, got, want)
		}
	}
	f("br", "Accept-Encoding: gzip", "Accept-Encoding: br")
	f("gzip", "Accept-Encoding: gzip")
	f("gzip", "Accept-Encoding: zstd;q=0", "Accept-Encoding: gzip;q=0.2, br;q=0.1")
	f("", "Accept-Encoding: gzip;q=0, br;q=0")
	f("zstd", "Accept-Encoding: *")
	f("gzip", "Accept-Encoding: gzip, br, zstd", "env no-br: 1", "env no-zstd: 1")
	f("gzip", "Accept-Encoding: gzip, br", "env no-brotli: 1")
	f("br", "Accept-Encoding: gzip, br", "env no-gzip: 0")
}

// The parameters of a type and its case do not matter.
func TestG40EventStreams(t *testing.T) {
	o := options(t)
	for _, ct := range []string{"text/event-stream; charset=utf-8", "Text/Event-Stream", "text/event-stream;charset=UTF-8"} {
		a := answer{status: 200, fields: []string{"Content-Type: " + ct}, body: "data: 1\n\n"}
		o.Events = true
		if w := serve(t, o, a, "Accept-Encoding: gzip"); w.head.Fields.Get("Content-Encoding") != "gzip" || decoded(t, w) != a.body {
			t.Errorf("%s: not coded", ct)
		}
		o.Events = false
		if w := serve(t, o, a, "Accept-Encoding: gzip"); w.head.Fields.Has("Content-Encoding") {
			t.Errorf("%s: coded", ct)
		}
	}
}

// A flush makes the head visible before the first byte, and then all bytes so far,
// in every coding (R-STREAM-2).
func TestG39G41FlushReachesTheClient(t *testing.T) {
	for _, ct := range []string{"text/event-stream", "application/json"} {
		for _, ae := range []string{"gzip", "br", "zstd", "identity"} {
			w := &wire{}
			x := &exchange.Exchange{}
			x.Reset(w)
			x.Req.Method = "GET"
			x.Req.Fields.Add("Accept-Encoding", ae)
			err := exchange.Run(x, exchange.HandlerFunc(func(x *exchange.Exchange) error {
				New(options(t)).Join(x)
				x.Resp.Fields.Add("Content-Type", ct)
				if err := x.Start(200); err != nil {
					return err
				}
				if err := x.Flush(); err != nil || w.head == nil || w.flushes != 1 {
					return fmt.Errorf("the head is not visible: %v", err)
				}
				var sent strings.Builder
				for i := range 50 {
					event := fmt.Sprintf("data: event number %d\n\n", i)
					sent.WriteString(event)
					io.WriteString(x, event)
					if err := x.Flush(); err != nil {
						return err
					}
					if got := begun(t, ae, w.body.Bytes()[:w.visible]); got != sent.String() {
						return fmt.Errorf("%q is visible of %q", got, sent.String())
					}
					before := w.body.Len()
					if x.Flush(); w.body.Len() != before {
						return errors.New("a flush of nothing sends bytes")
					}
				}
				return nil
			}))
			if err != nil || !w.ended {
				t.Errorf("%s in %s: %v", ct, ae, err)
			}
		}
	}
}

// begun decodes the begin of a body.
func begun(t *testing.T, c string, p []byte) string {
	for _, o := range coding.All {
		if o.Name() == c {
			r, err := NewReader(o, bytes.NewReader(p), Limits{Max: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			b, _ := io.ReadAll(r)
			return string(b)
		}
	}
	return string(p)
}

// HEAD has the head of GET.
func TestHeadIsThatOfGet(t *testing.T) {
	for _, kind := range []exchange.Kind{exchange.Files, exchange.Proxy} {
		for _, length := range []bool{true, false} {
			for _, status := range []int{200, 404} {
				a := answer{status: status, kind: kind, fields: []string{html, `ETag: "1-2-3;;;"`, "Accept-Ranges: bytes"}, body: text(1000), length: length}
				get, head := serve(t, options(t), a, "Accept-Encoding: gzip"), serve(t, options(t), a, "HEAD", "Accept-Encoding: gzip")
				if fields(get) != fields(head) || head.body.Len() != 0 || !get.head.Fields.Has("Content-Encoding") {
					t.Errorf("GET %s\nHEAD %s", fields(get), fields(head))
				}
			}
		}
	}
}

// A body whose length nobody knows goes out as it is if little of it comes, with its
// length.
func TestLittleOfUnknownLength(t *testing.T) {
	for _, n := range []int{0, 1, 200} {
		a := answer{status: 200, fields: []string{html, `ETag: "x"`}, body: text(n), pieces: 30}
		if w := serve(t, options(t), a, "Accept-Encoding: gzip"); w.body.String() != a.body ||
			fields(w) != fmt.Sprintf(`200 %d Content-Type=text/html; charset=utf-8 ETag="x" Vary=Accept-Encoding `, n) || !w.ended {
			t.Errorf("%d bytes: %s", n, fields(w))
		}
		a.trailer = true // which a body with a length cannot have
		if w := serve(t, options(t), a, "Accept-Encoding: gzip"); w.head.Length != -1 || w.body.String() != a.body {
			t.Errorf("%d bytes and a trailer: %s", n, fields(w))
		}
	}
}

// What has to be sent before its end is known is coded, however little of it there is:
// its head cannot be taken back when more comes.
func TestLittleThatIsFlushed(t *testing.T) {
	for _, pieces := range [][]int{{1}, {200}, {0, 200}, {100, 100}, {200, 5000}} {
		whole := ""
		h := exchange.HandlerFunc(func(x *exchange.Exchange) error {
			x.Resp.Fields.Add("Content-Type", "text/html")
			if err := x.Start(200); err != nil {
				return err
			}
			whole = ""
			for _, n := range pieces {
				whole += text(n)
				io.WriteString(x, text(n))
				if err := x.Flush(); err != nil {
					return err
				}
			}
			return nil
		})
		w := serve(t, options(t), h, "Accept-Encoding: gzip")
		if w.head.Fields.Get("Content-Encoding") != "gzip" || w.head.Length != -1 || !w.ended || decoded(t, w) != whole {
			t.Errorf("%v: %s", pieces, fields(w))
		}
		if w := serve(t, options(t), h); w.head.Fields.Has("Content-Encoding") || w.body.String() != whole {
			t.Errorf("%v for who takes none: %s", pieces, fields(w))
		}
	}
}

// A failure behind Start cuts the answer, held or not, and gives everything back.
func TestFailureCutsTheAnswer(t *testing.T) {
	for _, n := range []int{0, 100, 5000} {
		a := answer{status: 200, fields: []string{html}, body: text(n), fails: exchange.Fail(502, "response_error", "cut")}
		w := serve(t, options(t), a, "Accept-Encoding: gzip")
		if w.aborted == nil || w.ended || w.head == nil || w.head.Status != 200 || w.head.Length != -1 {
			t.Errorf("%d bytes: aborted %v, ended %v", n, w.aborted, w.ended)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	o := options(t)
	defer func() {
		if n := o.Encoders.Counts().InUse; n != 0 {
			t.Errorf("a panic keeps %d bytes", n)
		}
	}()
	serve(t, o, exchange.HandlerFunc(func(x *exchange.Exchange) error {
		answer{status: 200, fields: []string{html}, body: text(5000)}.Serve(x)
		panic("handler")
	}), "Accept-Encoding: gzip")
}

// The error of the client's side ends the work, and is that error.
func TestClientGone(t *testing.T) {
	for _, ae := range []string{"gzip", "br", "zstd"} {
		w := &wire{fail: exchange.ErrClientGone}
		x := &exchange.Exchange{}
		x.Reset(w)
		x.Req.Method = "GET"
		x.Req.Fields.Add("Accept-Encoding", ae)
		writes := 0
		err := exchange.Run(x, exchange.HandlerFunc(func(x *exchange.Exchange) error {
			New(options(t)).Join(x)
			x.Resp.Fields.Add("Content-Type", "text/plain")
			for {
				if _, err := io.WriteString(x, text(100_000)); err != nil {
					return err
				}
				if writes++; writes > 100 {
					return errors.New("never noticed")
				}
			}
		}))
		if !errors.Is(err, exchange.ErrClientGone) {
			t.Errorf("%s: %v after %d writes", ae, err, writes)
		}
	}
}

// Where there is no memory for one coding another one serves, or none, and the
// number of encoders in use is bounded.
func TestMemoryIsBounded(t *testing.T) {
	o := options(t)
	o.Encoders = NewEncoders(1300 << 10) // for one gzip, not for zstd or br
	a := answer{status: 200, fields: []string{html}, body: text(1000)}
	if w := serve(t, o, a, "Accept-Encoding: gzip, br, zstd"); w.head.Fields.Get("Content-Encoding") != "gzip" || decoded(t, w) != a.body {
		t.Error(fields(w))
	}
	outer := exchange.HandlerFunc(func(x *exchange.Exchange) error {
		if err := a.Serve(x); err != nil {
			return err
		}
		w := &wire{}
		y := &exchange.Exchange{}
		y.Reset(w)
		y.Req.Method = "GET"
		y.Req.Fields.Add("Accept-Encoding", "gzip")
		exchange.Run(y, exchange.HandlerFunc(func(y *exchange.Exchange) error { New(o).Join(y); return a.Serve(y) }))
		if w.head.Fields.Has("Content-Encoding") || w.body.String() != a.body || w.head.Fields.Get("Vary") == "" {
			t.Errorf("the second: %s", fields(w))
		}
		return nil
	})
	if w := serve(t, o, outer, "Accept-Encoding: gzip"); decoded(t, w) != a.body {
		t.Error(fields(w))
	}
	if c := o.Encoders.Counts(); c.Gzip != 2 || c.Refused == 0 || c.In != 2000 || c.Out == 0 || c.Out > 2000 {
		t.Errorf("%+v", c)
	}
}

// The server's own answers to errors are coded only if they are pages.
func TestErrors(t *testing.T) {
	fail := exchange.HandlerFunc(func(*exchange.Exchange) error { return exchange.Fail(404, "not_found", "x") })
	if w := serve(t, options(t), fail, "Accept-Encoding: gzip"); w.head.Status != 404 || w.head.Fields.Has("Content-Encoding") {
		t.Error(fields(w))
	}
	page := exchange.HandlerFunc(func(x *exchange.Exchange) error {
		return x.Page(exchange.Fail(404, "not_found", "x"), answer{status: 200, fields: []string{html}, body: text(3000), length: true})
	})
	if w := serve(t, options(t), page, "Accept-Encoding: gzip"); w.head.Status != 404 || w.head.Fields.Get("Content-Encoding") != "gzip" || decoded(t, w) != text(3000) {
		t.Error(fields(w))
	}
}

func TestTypes(t *testing.T) {
	f := func(list string, in bool, types ...string) {
		t.Helper()
		set, bad := ParseTypes(strings.Split(list, "|"))
		if bad != nil {
			t.Fatal(bad)
		}
		for _, ct := range types {
			if set.match(ct) != in {
				t.Errorf("%s: %q is %v", list, ct, !in)
			}
		}
	}
	f("default", true, "text/html", "TEXT/HTML", "text/css; charset=x", "application/json", "application/ld+json", "application/rss+xml",
		"image/svg+xml", "text/event-stream", "application/javascript ; a=b", "font/ttf")
	f("default", false, "image/png", "application/zip", "font/woff2", "application/grpc", "application/pdf", "video/mp4", "", "text", "text/", "/html", "multipart/byteranges")
	f("default, !text/css", false, "text/css", "Text/CSS;a")
	f("!text/css|default", false, "text/css")
	f("!text/css, text/css", false, "text/css")
	f("default, !text/*", false, "text/html", "text/css")
	f("default, !text/*", true, "application/json")
	f("text/*", true, "text/x")
	f("text/*", false, "application/json", "texts/x")
	f("*/*", true, "image/png", "a/b")
	f("*/*, !image/*, !application/*+xml", false, "image/png", "application/a+xml")
	f("default, !*/*", false, "text/html")
	f("application/*+cbor", true, "application/x+cbor")
	f("application/*+cbor", false, "application/cbor", "text/x+cbor")
	f("", false, "text/html")
	if _, bad := ParseTypes([]string{"text, */html, text/, a b/c, text/h\"ml, text/*+"}); len(bad) != 6 {
		t.Error(bad)
	}
	var none *Types
	if none.match("text/html") {
		t.Error("no types are some")
	}
}

// kept is a place for copies of one file.
type kept map[string][]byte

func (k kept) Coded(name string) []byte        { return k[name] }
func (k kept) KeepCoded(name string, p []byte) { k[name] = p }

// A small file in memory is coded once, and its answer has a length, for HEAD too.
func TestCopiesOfFiles(t *testing.T) {
	o, k := options(t), kept{}
	page := []byte(text(5000))
	serveFile := func(method, ae string, sent []byte) *wire {
		t.Helper()
		return serve(t, o, exchange.HandlerFunc(func(x *exchange.Exchange) error {
			x.Route.Kind, x.Resource.Content, x.Resource.Copies = exchange.Files, page, k
			x.Resp.Fields.Add("Content-Type", "text/css")
			x.Resp.Fields.Add("ETag", `"1-2-3;;;"`)
			x.Resp.Length = int64(len(page))
			if err := x.Start(200); err != nil {
				return err
			}
			_, err := x.Write(sent)
			return err
		}), method, "Accept-Encoding: "+ae)
	}
	for _, ae := range []string{"gzip", "br", "zstd"} {
		var bodies []string
		for range 3 {
			w := serveFile("GET", ae, page)
			bodies = append(bodies, w.body.String())
			if w.head.Length != int64(w.body.Len()) || decoded(t, w) != string(page) || !w.ended {
				t.Fatal(fields(w))
			}
			if h := serveFile("HEAD", ae, page); fields(h) != fields(w) {
				t.Errorf("HEAD %s, GET %s", fields(h), fields(w))
			}
		}
		if c := o.Encoders.Counts(); bodies[0] != bodies[1] || bodies[1] != bodies[2] || c.Gzip > 1 || c.Brotli > 1 || c.Zstd > 1 {
			t.Errorf("%s is coded more than once: %+v", ae, c)
		}
	}
	// What is not the file is not sent as if it were.
	for _, other := range [][]byte{page[:10], []byte(text(5000)), nil} {
		if w := serveFile("GET", "gzip", other); w.ended || w.aborted == nil || w.body.Len() != 0 {
			t.Errorf("%d other bytes: %d sent", len(other), w.body.Len())
		}
	}
}

// A body that is not as long as its maker has said is cut, as it is where nothing is
// coded: its end never looks like one.
func TestLengthHolds(t *testing.T) {
	for _, sent := range []int{0, 300, 999, 1001, 5000} {
		for _, ae := range []string{"gzip", "br", "zstd"} {
			w := serve(t, options(t), exchange.HandlerFunc(func(x *exchange.Exchange) error {
				x.Resp.Fields.Add("Content-Type", "text/html")
				x.Resp.Length = 1000
				if err := x.Start(200); err != nil {
					return err
				}
				_, err := io.WriteString(x, text(sent))
				return err
			}), "Accept-Encoding: "+ae)
			if w.ended || w.aborted == nil {
				t.Errorf("%s: %d bytes of 1000 are a whole answer", ae, sent)
			}
			if got, err := Decode(nil, coding.Set(map[string]uint8{"zstd": 1, "br": 2, "gzip": 4}[ae]), w.body.Bytes(), Limits{Max: 1 << 20}); err == nil {
				t.Errorf("%s: %d bytes of 1000 decode to %d", ae, sent, len(got))
			}
		}
	}
}
