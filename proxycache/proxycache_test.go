package proxycache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"httpjet/exchange"
	"httpjet/freshness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a client that takes everything.
type wire struct {
	ctx    context.Context
	head   exchange.Response
	noBody bool
	body   strings.Builder
	ended  bool
	cut    error
}

func (w *wire) Read([]byte) (int, error)   { return 0, io.EOF }
func (w *wire) Trailers() *exchange.Fields { return nil }
func (w *wire) StopRead()                  {}
func (w *wire) Head(r *exchange.Response, noBody, last bool) error {
	if last {
		w.head, w.noBody = *r, noBody
		w.head.Fields = exchange.Fields{}
		for name, value := range r.Fields.All() {
			w.head.Fields.Add(name, value)
		}
	}
	return nil
}
func (w *wire) Write(p []byte) (int, error) { return w.body.Write(p) }
func (w *wire) Flush() error                { return nil }
func (w *wire) End(*exchange.Fields) error  { w.ended = true; return nil }
func (w *wire) Abort(err error)             { w.cut = err }
func (w *wire) Context() context.Context    { return w.ctx }

// answer is what a client got.
type answer struct {
	*wire
	err error
}

func (a answer) get(name string) string { return a.head.Fields.Get(name) }

// String is the answer in short: status, body, and the last Cache-Status.
func (a answer) String() string {
	status := ""
	for v := range a.head.Fields.Values("Cache-Status") {
		status = strings.TrimPrefix(v, "httpjet; ")
	}
	return fmt.Sprintf("%d %q %s", a.head.Status, a.body.String(), status)
}

// ask sends a request: "GET /a", and fields.
func ask(h exchange.Handler, line string, fields ...string) answer {
	return askWith(context.Background(), h, line, fields...)
}

func askWith(ctx context.Context, h exchange.Handler, line string, fields ...string) answer {
	w := &wire{ctx: ctx}
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Target, _ = strings.Cut(line, " ")
	x.Req.Path, x.Req.Query, _ = strings.Cut(x.Req.Target, "?")
	x.Req.Host, x.Req.Scheme, x.Req.Proto = "a.example", "http", "HTTP/1.1"
	for _, l := range fields {
		name, value, _ := strings.Cut(l, ": ")
		if name == "Host" {
			x.Req.Host = value
			continue
		}
		x.Req.Fields.Add(name, value)
	}
	before := x.Req.Fields.Len()
	err := exchange.Run(x, h)
	if x.Req.Fields.Len() != before {
		err = errors.Join(err, errors.New("the request has other fields than before"))
	}
	return answer{w, err}
}

// origin answers as it is told, and counts.
type origin struct {
	mu   sync.Mutex
	n    int
	last string // request: method, target, conditions and Range
	next exchange.HandlerFunc
}

func (o *origin) Serve(x *exchange.Exchange) error {
	o.mu.Lock()
	o.n++
	o.last = x.Req.Method + " " + x.Req.Target
	for name, value := range x.Req.Fields.All() {
		if strings.HasPrefix(name, "If-") || name == "Range" {
			o.last += " " + name + ": " + value
		}
	}
	next := o.next
	o.mu.Unlock()
	return next(x)
}

func (o *origin) says(f exchange.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = f
}

func (o *origin) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

// reply is a whole response: fields are "Name: value".
func reply(status int, body string, fields ...string) exchange.HandlerFunc {
	return func(x *exchange.Exchange) error {
		x.Resp.Length = int64(len(body))
		if status == 304 {
			x.Resp.Length = -1
		}
		for _, l := range fields {
			name, value, _ := strings.Cut(l, ": ")
			x.Resp.Fields.Add(name, value)
		}
		if err := x.Start(status); err != nil {
			return err
		}
		_, err := io.WriteString(bodyWriter{x}, body)
		return err
	}
}

// site is a cache before an origin.
func site(t testing.TB, rules freshness.Rules) (*Handler, *origin) {
	o := &origin{}
	h := &Handler{Cache: New(Options{MaxEntries: 1000}), Next: o, Rules: rules, MaxBody: 1000}
	t.Cleanup(h.Cache.Retire)
	return h, o
}

func expect(t *testing.T, a answer, want string) {
	t.Helper()
	if a.String() != want {
		t.Errorf("%s, want %s", a, want)
	}
}

const fresh = "Cache-Control: max-age=60"

// R-PCACHE-4, R-PCACHE-6: a response answers again, with Age and the reason of every
// miss, for the same scheme, host with port and target only.
func TestHit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.says(reply(200, "one", fresh, "A: b", "Connection: x", "Age: 3"))
		expect(t, ask(h, "GET /a"), `200 "one" fwd=uri-miss; fwd-status=200; stored`)
		time.Sleep(7 * time.Second)
		o.says(reply(200, "two", fresh))
		a := ask(h, "GET /a")
		expect(t, a, `200 "one" hit; ttl=50`)
		if a.get("Age") != "10" || a.get("A") != "b" || a.head.Length != 3 || !a.head.Dated || a.get("Date") == "" || !a.ended {
			t.Error(a.head)
		}
		if a := ask(h, "GET /a", "Host: A.EXAMPLE"); o.count() != 1 {
			t.Error("the case of a host", a)
		}
		for _, other := range []string{"/b", "/a?", "/a?x", "/A"} {
			expect(t, ask(h, "GET "+other), `200 "two" fwd=uri-miss; fwd-status=200; stored`)
		}
		for _, host := range []string{"b.example", "a.example:80"} {
			expect(t, ask(h, "GET /a", "Host: "+host), `200 "two" fwd=uri-miss; fwd-status=200; stored`)
		}
		time.Sleep(50 * time.Second)
		expect(t, ask(h, "GET /a"), `200 "two" fwd=stale; fwd-status=200; stored`)
		if hits := h.Cache.counts.Hits.Load(); hits != 2 {
			t.Error(hits)
		}
	})
}

// R-PCACHE-2: what the cache takes no part in, and what is not kept, with the reason.
func TestNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(want string, request []string, reply exchange.HandlerFunc) {
			t.Helper()
			h, o := site(t, freshness.Rules{})
			o.says(reply)
			for range 2 {
				a := ask(h, request[0], request[1:]...)
				if got := a.String(); !strings.HasSuffix(got, want) {
					t.Errorf("%q: %s, want %s", request, got, want)
				}
			}
			if o.count() != 2 || h.Cache.Usage().Entries != 0 {
				t.Errorf("%q: %d requests upstream", request, o.count())
			}
		}
		get := []string{"GET /"}
		f("fwd=uri-miss; fwd-status=200; detail=set-cookie", get, reply(200, "x", fresh, "Set-Cookie: a=b"))
		f("fwd=uri-miss; fwd-status=200; detail=no-store", get, reply(200, "x", "Cache-Control: no-store"))
		f("fwd=uri-miss; fwd-status=200; detail=private", get, reply(200, "x", "Cache-Control: private, max-age=5"))
		f("fwd=uri-miss; fwd-status=200; detail=vary", get, reply(200, "x", fresh, "Vary: *"))
		f("fwd=uri-miss; fwd-status=206; detail=partial", []string{"GET /", "Range: bytes=0-0"}, reply(206, "x", fresh))
		f("fwd=uri-miss; fwd-status=500; detail=status", get, reply(500, "x", "ETag: x"))
		f("fwd=uri-miss; fwd-status=200; detail=no-freshness", get, reply(200, "x"))
		f("fwd=uri-miss; fwd-status=200; detail=event-stream", get, reply(200, "x", fresh, "Content-Type: text/event-stream"))
		f("fwd=uri-miss; fwd-status=200; detail=authorization", []string{"GET /", "Authorization: x"}, reply(200, "x", fresh))
		f("fwd=uri-miss; fwd-status=200; detail=too-large", get, reply(200, strings.Repeat("x", 1001), fresh))
		f("fwd=uri-miss; fwd-status=200; detail=method", []string{"HEAD /"}, reply(200, "x", fresh))
		f("fwd=bypass", []string{"GET /", "Cache-Control: no-store"}, reply(200, "x", fresh))
		f("fwd=method", []string{"POST /"}, reply(200, "x", fresh))
		f("fwd=method", []string{"OPTIONS /"}, reply(200, "x", fresh))
		f(`200 "x" `, []string{"GET /", "Upgrade: websocket"}, reply(200, "x", fresh))
		f("fwd=uri-miss; fwd-status=200; detail=unframed", get, func(x *exchange.Exchange) error {
			x.Resp.Unproven = true
			return reply(200, "x", fresh)(x)
		})
		f("stored", get, func(x *exchange.Exchange) error { // and is longer than may be kept
			x.Resp.Fields.Add("Cache-Control", "max-age=60")
			x.Start(200)
			for range 11 {
				x.Write(make([]byte, 100))
			}
			return nil
		})
	})
}

// R-LSN-4: hosts that nobody has mapped by name neither get what is kept nor leave
// anything.
func TestForeignHostsBypass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		foreign := exchange.HandlerFunc(func(x *exchange.Exchange) error {
			x.Route.Foreign = true
			return h.Serve(x)
		})
		o.says(reply(200, "one", fresh))
		ask(h, "GET /")
		o.says(reply(200, "two", fresh))
		expect(t, ask(foreign, "GET /"), `200 "two" fwd=bypass`)
		ask(foreign, "POST /")
		ask(foreign, "GET /other")
		expect(t, ask(h, "GET /"), `200 "one" hit; ttl=60`)
		expect(t, ask(h, "GET /other"), `200 "two" fwd=uri-miss; fwd-status=200; stored`)
	})
}

// A body that is cut, or ends before its length, is never kept (G56, R-STREAM-4).
func TestCutBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.says(func(x *exchange.Exchange) error {
			reply(200, "half", fresh)(x)
			return errors.New("cut")
		})
		if a := ask(h, "GET /"); a.cut == nil {
			t.Error("the client is not told", a)
		}
		o.says(func(x *exchange.Exchange) error {
			x.Resp.Length = 10
			x.Resp.Fields.Add("Cache-Control", "max-age=60")
			x.Start(200)
			x.Write([]byte("half"))
			return nil
		})
		ask(h, "GET /")
		o.says(reply(200, "whole", fresh))
		expect(t, ask(h, "GET /"), `200 "whole" fwd=uri-miss; fwd-status=200; stored`)
		expect(t, ask(h, "GET /"), `200 "whole" hit; ttl=60`)
	})
}

// R-PCACHE-5: HEAD, ranges and conditions are answered from a whole.
func TestPartsOfAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.says(reply(200, "0123456789", fresh, `ETag: "a"`, "Content-Type: text/plain", "Last-Modified: Wed, 04 Mar 2020 05:06:07 GMT"))
		ask(h, "GET /")
		f := func(want string, line string, fields ...string) answer {
			t.Helper()
			a := ask(h, line, fields...)
			if !strings.HasPrefix(a.String(), want) {
				t.Errorf("%s %q: %s, want %s", line, fields, a, want)
			}
			return a
		}
		if a := f(`200 "" hit`, "HEAD /"); a.head.Length != 10 || !a.noBody {
			t.Error(a.head)
		}
		if a := f(`206 "23" hit`, "GET /", "Range: bytes=2-3"); a.get("Content-Range") != "bytes 2-3/10" || a.head.Length != 2 {
			t.Error(a.head)
		}
		f(`206 "9" hit`, "GET /", "Range: bytes=-1", `If-Range: "a"`)
		f(`200 "0123456789" hit`, "GET /", "Range: bytes=-1", `If-Range: "b"`)
		f(`200 "0123456789" hit`, "GET /", "Range: bytes=0-1,3-4")
		if a := f(`416`, "GET /", "Range: bytes=10-"); a.get("Content-Range") != "bytes */10" {
			t.Error(a.head)
		}
		if a := f(`304 "" hit`, "GET /", `If-None-Match: "x", W/"a"`); a.get("ETag") != `"a"` || a.get("Content-Type") != "" || a.get("Cache-Control") == "" {
			t.Error(a.head)
		}
		f(`304 "" hit`, "HEAD /", "If-Modified-Since: Wed, 04 Mar 2020 05:06:07 GMT")
		f(`200 "0123456789" hit`, "GET /", `If-None-Match: "b"`)
		f(`304 "" hit`, "GET /", `If-None-Match: "a"`, "Range: bytes=0-1")
		if o.count() != 1 {
			t.Error(o.count())
		}
	})
}

// R-PCACHE-5: a stale response is validated; its fields become those of the 304, its
// body stays, and the client's own conditions hold for what it becomes.
func TestValidation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.says(reply(200, "0123456789", "Cache-Control: max-age=1", `ETag: "a"`, "A: 1", "B: 1"))
		ask(h, "GET /")
		f := func(want, upstream string, line string, fields ...string) answer {
			t.Helper()
			time.Sleep(2 * time.Second)
			a := ask(h, line, fields...)
			expect(t, a, want)
			if o.last != upstream {
				t.Errorf("upstream was asked %q, want %q", o.last, upstream)
			}
			return a
		}
		o.says(reply(304, "", "Cache-Control: max-age=1", `ETag: "a"`, "A: 2", "Set-Cookie: mine=1"))
		a := f(`200 "0123456789" fwd=stale; fwd-status=304; stored`, `GET / If-None-Match: "a"`, "GET /")
		if a.get("A") != "2" || a.get("B") != "1" || a.get("Set-Cookie") != "mine=1" || a.head.Length != 10 {
			t.Error(a.head)
		}
		a = ask(h, "GET /")
		expect(t, a, `200 "0123456789" hit; ttl=1`)
		if a.head.Fields.Has("Set-Cookie") || a.get("A") != "2" {
			t.Error("a cookie of another client", a.head)
		}
		f(`304 "" fwd=stale; fwd-status=304; stored`, `GET / If-None-Match: "a"`, "GET /", `If-None-Match: "z", "a"`)
		f(`200 "0123456789" fwd=stale; fwd-status=304; stored`, `GET / If-None-Match: "a"`, "GET /", `If-None-Match: "z"`)
		f(`206 "01" fwd=stale; fwd-status=304; stored`, `GET / If-None-Match: "a"`, "GET /", `Range: bytes=0-1`)
		f(`416 "" fwd=stale; fwd-status=304; stored`, `GET / If-None-Match: "a"`, "GET /", `Range: bytes=11-`)
		f(`200 "" fwd=stale; fwd-status=304; stored`, `HEAD / If-None-Match: "a"`, "HEAD /")
		expect(t, ask(h, "GET /", "Cache-Control: no-cache"), `200 "0123456789" fwd=request; fwd-status=304; stored`)
		o.says(reply(304, "", "Cache-Control: max-age=1", `ETag: "other"`)) // about another one
		f(`200 "0123456789" fwd=stale; fwd-status=304; stored`, `GET / If-None-Match: "a"`, "GET /")
		o.says(reply(200, "0123456789", "Cache-Control: max-age=1", `ETag: "a"`))
		f(`200 "0123456789" fwd=uri-miss; fwd-status=200; stored`, `GET /`, "GET /")
		o.says(reply(304, "", "Cache-Control: no-store"))
		f(`200 "0123456789" fwd=stale; fwd-status=304; stored`, `GET / If-None-Match: "a"`, "GET /")
		o.says(reply(200, "new", fresh))
		f(`200 "new" fwd=uri-miss; fwd-status=200; stored`, `GET /`, "GET /")
		if n := h.Cache.counts.Revalidations.Load(); n != 9 {
			t.Error(n)
		}
	})
}

// A newer answer of the origin that may not be kept ends the use of the older one.
func TestNewerAnswerEndsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, newer := range []exchange.HandlerFunc{reply(200, "new", "Cache-Control: no-store"), reply(404, "new", "Cache-Control: no-store"),
			reply(200, "new", "Set-Cookie: a=b", fresh), reply(200, "new", "Vary: *")} {
			h, o := site(t, freshness.Rules{})
			o.says(reply(200, "old", fresh))
			ask(h, "GET /")
			o.says(newer)
			ask(h, "GET /", "Cache-Control: no-cache")
			o.says(reply(200, "newest", fresh))
			if a := ask(h, "GET /"); a.body.String() != "newest" {
				t.Error(a)
			}
		}
		// A failure of the origin does not, nor what concerns the request.
		for _, failure := range []exchange.HandlerFunc{reply(503, "no", fresh+"x"), func(*exchange.Exchange) error { return exchange.Fail(502, "upstream_transport", "down") }} {
			h, o := site(t, freshness.Rules{})
			o.says(reply(200, "old", fresh))
			ask(h, "GET /")
			o.says(failure)
			ask(h, "GET /", "Cache-Control: no-cache")
			expect(t, ask(h, "GET /"), `200 "old" hit; ttl=60`)
		}
		// HEAD tells too (RFC 9111 §4.3.5).
		h, o := site(t, freshness.Rules{})
		o.says(reply(200, "old", fresh, `ETag: "a"`))
		ask(h, "GET /")
		o.says(reply(200, "old", "Cache-Control: max-age=9", `ETag: "a"`))
		ask(h, "HEAD /", "Cache-Control: no-cache")
		expect(t, ask(h, "GET /"), `200 "old" hit; ttl=9`)
		o.says(reply(200, "long new", fresh, `ETag: "b"`))
		ask(h, "HEAD /", "Cache-Control: no-cache")
		expect(t, ask(h, "GET /"), `200 "long new" fwd=uri-miss; fwd-status=200; stored`)
	})
}

// RFC 9111 §5.2.1.7.
func TestOnlyIfCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.says(reply(200, "x", fresh))
		if a := ask(h, "GET /", "Cache-Control: only-if-cached"); a.head.Status != 504 || exchange.ReasonOf(a.err) != "not_cached" || o.count() != 0 {
			t.Error(a, a.err)
		}
		ask(h, "GET /")
		expect(t, ask(h, "GET /", "Cache-Control: only-if-cached"), `200 "x" hit; ttl=60`)
		time.Sleep(time.Minute)
		if a := ask(h, "GET /", "Cache-Control: only-if-cached"); a.head.Status != 504 {
			t.Error(a)
		}
		expect(t, ask(h, "GET /", "Cache-Control: only-if-cached, max-stale"), `200 "x" hit; ttl=0`)
	})
}

// G55: what sets a cookie reaches the client that it is for, and nobody else.
func TestG55SetCookieIsNotReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.says(reply(200, "mine", "Cache-Control: public, max-age=60", "Set-Cookie: session=abc"))
		if a := ask(h, "GET /"); a.get("Set-Cookie") != "session=abc" {
			t.Error(a.head)
		}
		o.says(reply(200, "yours", "Cache-Control: public, max-age=60"))
		if a := ask(h, "GET /"); a.head.Fields.Has("Set-Cookie") || a.body.String() != "yours" {
			t.Error(a, a.head)
		}
	})
}

// G56, RFC 5861 §4: while the origin fails, the stale response answers, exactly once
// and whole; and never where it was forbidden.
func TestG56StaleIfErrorIsOneBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := func(*exchange.Exchange) error { return exchange.Fail(502, "upstream_transport", "down") }
		f := func(want string, failure exchange.HandlerFunc, rules freshness.Rules, control string, fields ...string) {
			t.Helper()
			h, o := site(t, rules)
			o.says(reply(200, "stale body", control, `ETag: "a"`))
			ask(h, "GET /")
			o.says(failure)
			time.Sleep(10 * time.Second)
			a := ask(h, "GET /", fields...)
			if !strings.HasPrefix(a.String(), want) {
				t.Errorf("%s: %s, want %s", control, a, want)
			}
			if a.head.Status == 200 && (a.head.Length != 10 || a.get("Age") != "10" || a.err != nil || !a.ended) {
				t.Error(a.head, a.err)
			}
			o.says(reply(200, "fresh body", fresh))
			if a = ask(h, "GET /"); a.body.String() != "fresh body" {
				t.Error("after the failure", a)
			}
		}
		const sie = "Cache-Control: max-age=1, stale-if-error=600"
		f(`200 "stale body" fwd=stale; fwd-status=503; detail=stale-if-error`, reply(503, strings.Repeat("error", 999), "Retry-After: 1"), freshness.Rules{}, sie)
		f(`200 "stale body" fwd=stale; fwd-status=503; detail=stale-if-error`, func(x *exchange.Exchange) error { // and never ends
			if err := x.Start(503); err != nil {
				return err
			}
			for {
				if _, err := x.Write(make([]byte, 1000)); err != nil {
					return err
				}
			}
		}, freshness.Rules{}, sie)
		f(`200 "stale body" fwd=stale; fwd-status=500; detail=stale-if-error`, reply(500, ""), freshness.Rules{}, sie)
		f(`200 "stale body" fwd=stale; detail=stale-if-error`, down, freshness.Rules{}, sie)
		f(`206 "st" fwd=stale; detail=stale-if-error`, down, freshness.Rules{}, sie, "Range: bytes=0-1")
		f(`304 "" fwd=stale; fwd-status=504`, reply(504, "late"), freshness.Rules{}, sie, `If-None-Match: "a"`)
		f(`200 "stale body" fwd=stale`, down, freshness.Rules{StaleIfError: time.Minute}, "Cache-Control: max-age=1")
		f(`404`, reply(404, "gone"), freshness.Rules{}, sie)
		f(`502`, down, freshness.Rules{}, "Cache-Control: max-age=1, stale-if-error=8")
		f(`502`, down, freshness.Rules{}, sie, "Cache-Control: no-cache, foo")
		for _, forbids := range []string{"must-revalidate", "proxy-revalidate", "no-cache"} {
			f(`502`, down, freshness.Rules{StaleIfError: time.Minute}, sie+", "+forbids)
		}
		f(`502`, down, freshness.Rules{StaleIfError: time.Minute}, "Cache-Control: s-maxage=1")
		f(`499`, func(*exchange.Exchange) error { return fmt.Errorf("%w: left", exchange.ErrClientGone) }, freshness.Rules{}, "Cache-Control: max-age=1")
	})
}

// G57: what an unsafe request changes goes with all its variants, also those that are
// on their way.
func TestG57InvalidatesAllVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.says(func(x *exchange.Exchange) error {
			return reply(200, x.Req.Fields.Get("Accept"), fresh, "Vary: Accept")(x)
		})
		fill := func() {
			for _, target := range []string{"/books", "/list", "/other"} {
				for _, accept := range []string{"json", "xml"} {
					ask(h, "GET "+target, "Accept: "+accept)
				}
			}
		}
		kept := func(target string) (n int) {
			for _, accept := range []string{"json", "xml"} {
				if a := ask(h, "GET "+target, "Accept: "+accept, "Cache-Control: only-if-cached"); a.body.String() == accept {
					n++
				}
			}
			return n
		}
		f := func(books, list, other int, line string, change exchange.HandlerFunc) {
			t.Helper()
			fill()
			serve := o.next
			o.says(change)
			ask(h, line)
			o.says(serve)
			if b, l, r := kept("/books"), kept("/list"), kept("/other"); b != books || l != list || r != other {
				t.Errorf("%s: %d %d %d", line, b, l, r)
			}
		}
		f(0, 2, 2, "POST /books", reply(200, ""))
		f(0, 0, 2, "PUT /books", reply(201, "", "Location: http://a.example/list"))
		f(0, 0, 2, "M-SEARCH /books", reply(204, "", "Content-Location: list"))
		f(0, 2, 2, "DELETE /books", reply(303, "", "Location: http://b.example/list"))
		f(2, 2, 2, "POST /books", reply(500, ""))
		f(2, 2, 2, "OPTIONS /books", reply(200, ""))

		// A response that was begun before the change is not kept behind it.
		fill()
		serve := o.next
		o.says(func(x *exchange.Exchange) error {
			o.says(reply(200, ""))
			ask(h, "POST /books")
			return reply(200, "old", fresh)(x)
		})
		ask(h, "GET /books", "Accept: html")
		o.says(serve)
		expect(t, ask(h, "GET /books", "Accept: html"), `200 "html" fwd=uri-miss; fwd-status=200; stored`)
	})
}

// G58 and hostile Vary: nobody gets a variant, or a coding, that was not chosen by the
// same values.
func TestG58Variants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.says(reply(200, "br body", fresh, "Vary: Accept-Encoding", "Content-Encoding: br"))
		ask(h, "GET /a", "Accept-Encoding: gzip", "Accept-Encoding: br")
		o.says(reply(200, "gzip body", fresh, "Vary: Accept-Encoding", "Content-Encoding: gzip"))
		expect(t, ask(h, "GET /a", "Accept-Encoding: gzip"), `200 "gzip body" fwd=vary-miss; fwd-status=200; stored`)
		expect(t, ask(h, "GET /a", "Accept-Encoding: gzip, br"), `200 "br body" hit; ttl=60`)

		// An origin that codes and does not say so.
		o.says(reply(200, "coded", fresh, "Content-Encoding: gzip"))
		ask(h, "GET /b", "Accept-Encoding: gzip")
		o.says(reply(200, "plain", fresh))
		expect(t, ask(h, "GET /b"), `200 "plain" fwd=vary-miss; fwd-status=200; stored`)

		// Vary that changes from answer to answer, is huge, or no list of names.
		o.says(reply(200, "en", fresh, "Vary: Accept-Language"))
		ask(h, "GET /c", "Accept-Language: en", "Cookie: a=1")
		o.says(reply(200, "de", fresh, "Vary: Accept-Language, Cookie"))
		ask(h, "GET /c", "Accept-Language: de", "Cookie: a=1")
		expect(t, ask(h, "GET /c", "Accept-Language: en", "Cookie: a=2"), `200 "en" hit; ttl=60`)
		o.says(reply(200, "other", fresh, "Vary: Accept-Language, Cookie"))
		expect(t, ask(h, "GET /c", "Accept-Language: de", "Cookie: a=2"), `200 "other" fwd=vary-miss; fwd-status=200; stored`)
		for i, vary := range []string{strings.Repeat("X-A, ", 3) + "*", "a b", strings.Join(strings.Split(strings.Repeat("x", 20), ""), "1,") + "2", "\x7f"} {
			o.says(reply(200, "bad", fresh, "Vary: "+vary))
			if a := ask(h, "GET /bad"+strconv.Itoa(i)); i != 2 && !strings.HasSuffix(a.String(), "detail=vary") {
				t.Errorf("%q: %s", vary, a)
			}
		}
		o.says(reply(200, "long", fresh, "Vary: X"))
		if a := ask(h, "GET /long", "X: "+strings.Repeat("y", 5000)); !strings.HasSuffix(a.String(), "detail=vary") {
			t.Error(a)
		}

		// Strategies without the values of Vary keep nothing that has one (R-PCACHE-4).
		h, o = site(t, freshness.Rules{NoVary: true})
		o.says(reply(200, "x", fresh, "Vary: Accept"))
		if a := ask(h, "GET /"); !strings.HasSuffix(a.String(), "detail=vary") {
			t.Error(a)
		}
	})
}

// 10,000 variants of one URL: each client gets its own, they stay within bounds, and
// what others asked for stays.
func TestManyVariantsOfOneURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.says(reply(200, "quiet", fresh))
		ask(h, "GET /quiet")
		o.says(func(x *exchange.Exchange) error {
			return reply(200, "for "+x.Req.Fields.Get("X"), fresh, "Vary: X")(x)
		})
		for i := range 10_000 {
			x := strconv.Itoa(i)
			for range 2 {
				if a := ask(h, "GET /many", "X: "+x); a.body.String() != "for "+x {
					t.Fatal(x, a)
				}
			}
		}
		if n := h.Cache.Usage().Entries; n > 65 {
			t.Error(n, "entries")
		}
		expect(t, ask(h, "GET /quiet"), `200 "quiet" hit; ttl=60`)
		if o.count() != 10_001 {
			t.Error(o.count())
		}
	})
}

// R-CACHE-10: of concurrent misses one asks; what may not be shared is not, and those
// who need their own ask at once, together.
func TestConcurrentMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(requests int, slowest time.Duration, answer func(n int) exchange.HandlerFunc, same bool) {
			t.Helper()
			h, o := site(t, freshness.Rules{})
			var asked atomic.Int32
			o.next = func(x *exchange.Exchange) error {
				n := int(asked.Add(1))
				time.Sleep(time.Second)
				return answer(n)(x)
			}
			began := time.Now()
			answers := make([]answerOf, 50)
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() { answers[i] = answerOf{ask(h, "GET /"), time.Since(began)} })
			}
			all.Wait()
			bodies := map[string]int{}
			for _, a := range answers {
				bodies[a.body.String()]++
				if a.head.Status != 200 || a.took > slowest {
					t.Errorf("%s after %v", a.answer, a.took)
				}
			}
			if o.count() != requests || same != (len(bodies) == 1) || !same && len(bodies) != 50 {
				t.Errorf("%d requests upstream, bodies %v", o.count(), bodies)
			}
			if h.Cache.flights.Len() != 0 {
				t.Error("a flight is left")
			}
		}
		f(1, time.Second, func(n int) exchange.HandlerFunc { return reply(200, "one", fresh) }, true)
		own := func(fields ...string) func(n int) exchange.HandlerFunc {
			return func(n int) exchange.HandlerFunc { return reply(200, strconv.Itoa(n), fields...) }
		}
		f(50, 2*time.Second, own("Cache-Control: private"), false)
		f(50, 2*time.Second, own(fresh, "Set-Cookie: a=b"), false)
		f(50, 2*time.Second, own("Cache-Control: no-cache", `ETag: "a"`), false)

		// A leader that never comes to its end holds nobody longer than maxWait.
		h, o := site(t, freshness.Rules{})
		release := make(chan bool)
		o.next = func(x *exchange.Exchange) error {
			if o.count() == 1 {
				<-release
			}
			return reply(200, "x", fresh)(x)
		}
		var leader sync.WaitGroup
		leader.Go(func() { ask(h, "GET /") })
		synctest.Wait()
		began := time.Now()
		if a := ask(h, "GET /"); a.head.Status != 200 || time.Since(began) != maxWait {
			t.Error(a, time.Since(began))
		}
		close(release)
		leader.Wait()

		// A client that is slow to take its body does not make others wait for it.
		h, o = site(t, freshness.Rules{})
		slow := make(chan bool)
		o.next = func(x *exchange.Exchange) error {
			first := o.count() == 1
			x.Resp.Fields.Add("Cache-Control", "max-age=60")
			x.Resp.Length = 4
			x.Start(200)
			x.Write([]byte("bo"))
			if first {
				<-slow
			}
			_, err := x.Write([]byte("dy"))
			return err
		}
		leader.Go(func() { ask(h, "GET /") })
		synctest.Wait()
		began = time.Now()
		for range 3 {
			leader.Go(func() {
				if a := ask(h, "GET /"); a.body.String() != "body" || time.Since(began) > maxBody {
					t.Error(a, time.Since(began))
				}
			})
		}
		time.Sleep(2 * maxBody)
		if o.count() != 2 {
			t.Error(o.count())
		}
		close(slow)
		leader.Wait()
	})
}

type answerOf struct {
	answer
	took time.Duration
}

// G44: when the client leaves whose request is the one upstream, that ends; another
// one who waits asks instead.
func TestG44LeaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.next = func(x *exchange.Exchange) error {
			select {
			case <-x.Context().Done():
				return fmt.Errorf("%w: left", exchange.ErrClientGone)
			case <-time.After(5 * time.Second):
				return reply(200, "done", fresh)(x)
			}
		}
		ctx, leave := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() {
			if a := askWith(ctx, h, "GET /"); exchange.StatusOf(a.err) != 499 {
				t.Error(a, a.err)
			}
		})
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				if a := ask(h, "GET /"); a.body.String() != "done" {
					t.Error(a)
				}
			})
		}
		gone, goAway := context.WithCancel(context.Background())
		all.Go(func() { // one who waits may leave too
			if a := askWith(gone, h, "GET /"); exchange.StatusOf(a.err) != 499 {
				t.Error(a, a.err)
			}
		})
		synctest.Wait()
		goAway()
		leave()
		all.Wait()
		if o.count() != 2 {
			t.Error(o.count())
		}
	})
}

// RFC 5861 §3: a stale response answers at once, while one request without a client
// makes it anew; it ends with the cache.
func TestStaleWhileRevalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.says(reply(200, "old", "Cache-Control: max-age=1, stale-while-revalidate=60", `ETag: "a"`))
		ask(h, "GET /")
		time.Sleep(3 * time.Second)
		o.says(func(x *exchange.Exchange) error {
			time.Sleep(time.Second)
			return reply(200, "new", fresh)(x)
		})
		for range 5 {
			expect(t, ask(h, "HEAD /"), `200 "" hit; ttl=-2`)
		}
		synctest.Wait()
		if o.last != `GET / If-None-Match: "a"` || o.count() != 2 {
			t.Error(o.last, o.count())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		expect(t, ask(h, "GET /"), `200 "new" hit; ttl=59`)

		// What the client wants of it does not concern the others: the whole is asked for.
		h, o = site(t, freshness.Rules{StaleWhileRevalidate: time.Minute})
		o.says(reply(200, "old", "Cache-Control: max-age=1"))
		ask(h, "GET /")
		time.Sleep(3 * time.Second)
		o.says(reply(200, "new", fresh))
		expect(t, ask(h, "GET /", "Range: bytes=0-0", "Cache-Control: only-if-cached", `If-None-Match: "a"`), `206 "o" hit; ttl=-2`)
		synctest.Wait()
		if o.last != "GET /" {
			t.Error(o.last)
		}
		expect(t, ask(h, "GET /"), `200 "new" hit; ttl=60`)

		// By the operator's wish; and a refresh that hangs ends with the cache.
		h, o = site(t, freshness.Rules{StaleWhileRevalidate: time.Minute})
		o.says(reply(200, "old", "Cache-Control: max-age=1"))
		for i := range 20 {
			ask(h, "GET /"+strconv.Itoa(i))
		}
		time.Sleep(3 * time.Second)
		var hanging sync.WaitGroup
		hanging.Add(maxRefreshes)
		o.says(func(x *exchange.Exchange) error {
			hanging.Done()
			<-x.Context().Done()
			return x.Context().Err()
		})
		for i := range 20 {
			expect(t, ask(h, "GET /"+strconv.Itoa(i)), `200 "old" hit; ttl=-2`)
		}
		hanging.Wait()
		h.Cache.Retire()
		if n := h.Cache.Usage().Entries; n != 0 {
			t.Error(n)
		}
		o.says(reply(200, "late", fresh))
		expect(t, ask(h, "GET /0"), `200 "late" fwd=uri-miss; fwd-status=200; stored`)
		if n := h.Cache.Usage().Entries; n != 0 {
			t.Error("a retired cache keeps something")
		}
	})
}

// A hit takes no memory beside the exchange: the look-up, and the texts of its head
// within one second (R-CACHE-17, R-PERF-1).
func TestHitTakesNoMemory(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector makes pools forget")
	}
	h, o := site(t, freshness.Rules{})
	o.says(reply(200, strings.Repeat("x", 900), "Cache-Control: max-age=600", `ETag: "a"`, "Vary: Accept-Encoding"))
	w := &dropping{wire{ctx: context.Background()}}
	x := &exchange.Exchange{}
	serve := func() {
		x.Reset(w)
		x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme = "GET", "/", "a.example", "http"
		x.Req.Fields.Add("Accept-Encoding", "gzip, br")
		x.Req.Fields.Add("User-Agent", "x")
		if err := exchange.Run(x, h); err != nil {
			t.Fatal(err)
		}
	}
	serve()
	if n := testing.AllocsPerRun(200, serve); n > 0 {
		t.Error(n, "allocations")
	}
	if o.count() != 1 {
		t.Error(o.count())
	}
}

type dropping struct{ wire }

func (*dropping) Head(*exchange.Response, bool, bool) error { return nil }
func (*dropping) Write(p []byte) (int, error)               { return len(p), nil }

func BenchmarkHit(b *testing.B) {
	h, o := site(b, freshness.Rules{})
	o.says(reply(200, strings.Repeat("x", 900), "Cache-Control: max-age=36000", `ETag: "a"`, "Content-Type: text/plain"))
	w := &dropping{wire{ctx: context.Background()}}
	x := &exchange.Exchange{}
	b.ReportAllocs()
	for b.Loop() {
		x.Reset(w)
		x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme = "GET", "/", "a.example", "http"
		x.Req.Fields.Add("Accept-Encoding", "gzip, br")
		x.Req.Fields.Add("User-Agent", "x")
		exchange.Run(x, h)
	}
}

func BenchmarkLookUp(b *testing.B) {
	h, o := site(b, freshness.Rules{})
	o.says(reply(200, "x", "Cache-Control: max-age=36000", "Vary: Accept-Encoding"))
	ask(h, "GET /", "Accept-Encoding: gzip, br")
	x := &exchange.Exchange{}
	x.Reset(&dropping{})
	x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme = "GET", "/", "a.example", "http"
	x.Req.Fields.Add("Accept-Encoding", "gzip, br")
	l := &look{}
	b.ReportAllocs()
	for b.Loop() {
		l.fill(x)
		if e, _ := h.find(x, l); e == nil {
			b.Fatal("a miss")
		}
	}
}
