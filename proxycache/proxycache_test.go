package proxycache

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
)

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
		f("fwd=uri-miss; fwd-status=200; detail=vary", []string{"GET /", "X-Real-IP: 1.2.3.4"}, reply(200, "x", fresh, "Vary: Accept, x-real-ip"))
		f("fwd=uri-miss; fwd-status=206; detail=partial", []string{"GET /", "Range: bytes=0-0"}, reply(206, "x", fresh))
		f("fwd=uri-miss; fwd-status=500; detail=status", get, reply(500, "x", "ETag: x"))
		f("fwd=uri-miss; fwd-status=200; detail=no-freshness", get, reply(200, "x"))
		f("fwd=uri-miss; fwd-status=200; detail=event-stream", get, reply(200, "x", fresh, "Content-Type: text/event-stream"))
		f("fwd=uri-miss; fwd-status=200; detail=authorization", []string{"GET /", "Authorization: x"}, reply(200, "x", fresh))
		f("fwd=uri-miss; fwd-status=200; detail=too-large", get, reply(200, strings.Repeat("x", 1001), fresh))
		f("fwd=uri-miss; fwd-status=200; detail=method", []string{"HEAD /"}, reply(200, "x", fresh))
		f("fwd=bypass", []string{"GET /", "Cache-Control: no-store"}, reply(200, "x", fresh))
		f("fwd=bypass", []string{"GET /", "Accept-Language: fr", "Connection: close, Accept-Language"}, reply(200, "x", fresh, "Vary: Accept-Language"))
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
