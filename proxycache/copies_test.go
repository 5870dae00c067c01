package proxycache

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/coding"
	"httpjet/compress"
	"httpjet/exchange"
	"httpjet/freshness"
)

// Hits in a coding are coded once; the copy counts with the response, stays when the
// origin has confirmed it, and goes with it.
func TestHitsAreCodedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		h.MaxBody = 1 << 20
		e := compress.NewEncoders(64 << 20)
		types, _ := compress.ParseTypes([]string{"default"})
		f := compress.New(compress.Options{Encoders: e, Types: types, Dynamic: coding.Gzip, Levels: compress.Levels{Gzip: 6}, Proxied: true})
		coded := exchange.HandlerFunc(func(x *exchange.Exchange) error {
			f.Join(x)
			return h.Serve(x)
		})
		page := strings.Repeat("a line of a page\n", 3000)
		html := []string{fresh, "Content-Type: text/html", `ETag: "a"`}
		get := func(want, status string, fields ...string) answer {
			t.Helper()
			a := ask(coded, "GET /", append(fields, "Accept-Encoding: gzip")...)
			b, err := compress.Decode(nil, coding.Gzip, []byte(a.body.String()), compress.Limits{Max: 1 << 20})
			if err != nil || string(b) != want || !strings.HasSuffix(a.get("Cache-Status"), status) || a.get("ETag") != `"a;;gz"` || a.get("Vary") != "Accept-Encoding" {
				t.Errorf("%v, %d bytes, %v", err, len(b), a.head.Fields)
			}
			return a
		}
		expectCoded := func(n uint64) {
			t.Helper()
			if got := e.Counts().Gzip; got != n {
				t.Errorf("coded %d times, want %d", got, n)
			}
		}
		o.says(reply(200, page, html...))
		get(page, "stored") // as it comes from the origin
		expectCoded(1)
		before := h.Cache.Usage().Bytes
		for range 3 {
			if a := get(page, "hit; ttl=60"); a.head.Length != int64(a.body.Len()) {
				t.Errorf("length %d of %d", a.head.Length, a.body.Len())
			}
		}
		expectCoded(2)
		if n := h.Cache.Usage().Bytes - before; n <= 0 {
			t.Errorf("the copy is counted with %d bytes", n)
		}
		// An identity client, a range, a condition.
		if a := ask(coded, "GET /"); a.body.String() != page || a.get("Content-Encoding") != "" || a.get("Vary") != "Accept-Encoding" {
			t.Error(a.head.Fields)
		}
		expect(t, ask(coded, "GET /", "Range: bytes=2-5", "Accept-Encoding: gzip"), fmt.Sprintf("206 %q hit; ttl=60", page[2:6]))
		expect(t, ask(coded, "GET /", `If-None-Match: "a;;gz"`, "Accept-Encoding: gzip"), `304 "" hit; ttl=60`)
		expectCoded(2)

		time.Sleep(61 * time.Second)
		o.says(reply(304, "", fresh, `ETag: "a"`))
		get(page, "fwd=stale; fwd-status=304; stored")
		get(page, "hit; ttl=60")
		expectCoded(2)

		time.Sleep(61 * time.Second)
		o.says(reply(503, "sorry", "Content-Type: text/html"))
		h.Rules.StaleIfError = 0
		if a := ask(coded, "GET /", "Accept-Encoding: gzip"); a.head.Status != 503 {
			t.Error(a)
		}
		page = strings.Repeat("another page\n", 3000)
		o.says(reply(200, page, html...))
		get(page, "stored")
		expectCoded(3)
		get(page, "hit; ttl=60")
		get(page, "hit; ttl=60")
		expectCoded(4)
		ask(coded, "DELETE /")
		get(page, "stored")
		expectCoded(5)
	})
}
