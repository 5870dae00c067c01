package proxycache

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"httpjet/exchange"
	"httpjet/freshness"
)

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

// A redirect to what was asked for, which the upstream gave for a host in other letters,
// is nobody else's; what is kept stays.
func TestRedirectsToThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		moved := reply(301, "", fresh, "Location: http://a.example/a")
		o.says(moved)
		expect(t, ask(h, "GET /a", "Host: A.example"), `301 "" fwd=uri-miss; fwd-status=301; detail=redirect-to-itself`)
		o.says(reply(200, "one", fresh, `ETag: "a"`))
		expect(t, ask(h, "GET /a"), `200 "one" fwd=uri-miss; fwd-status=200; stored`)
		o.says(moved)
		expect(t, ask(h, "GET /a", "Host: A.example", "Cache-Control: no-cache"), `301 "" fwd=request; fwd-status=301; detail=redirect-to-itself`)
		expect(t, ask(h, "GET /a"), `200 "one" hit; ttl=60`)
		expect(t, ask(h, "GET /b", "Host: A.example"), `301 "" fwd=uri-miss; fwd-status=301; stored`)
	})
}
