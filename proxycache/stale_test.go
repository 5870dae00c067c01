package proxycache

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
)

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
