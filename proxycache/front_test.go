package proxycache

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/freshness"
)

// fetch is a request over a front end: the response in short, and its fields.
func fetch(t *testing.T, s *exchangetest.Server, method, path string, fields ...string) (string, http.Header) {
	t.Helper()
	status, body, header := s.Fetch(t, method, path, fields...)
	return fmt.Sprintf("%d %q", status, body), header
}

// G42, G55, G56, G57, G58 over each front end: status, cookies, one body, all variants,
// codings; and the Date of the origin, once.
func TestG55To58OverFrontEnds(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		h, o := site(t, freshness.Rules{})
		s := start(h)
		f := func(want, hit, method, path string, fields ...string) http.Header {
			t.Helper()
			got, header := fetch(t, s, method, path, fields...)
			if got != want || !strings.Contains(header.Get("Cache-Status"), hit) {
				t.Errorf("%s %s: %s %v, want %s, %s", method, path, got, header, want, hit)
			}
			return header
		}
		const date = "Wed, 04 Mar 2020 05:06:07 GMT"
		o.says(reply(200, "0123456789", "Cache-Control: max-age=999999999", "Date: "+date, `ETag: "a"`))
		for _, hit := range []string{"fwd=uri-miss", "hit; ttl"} {
			if header := f(`200 "0123456789"`, hit, "GET", "/dated"); len(header["Date"]) != 1 || header.Get("Date") != date {
				t.Error(header)
			}
		}
		f(`206 "23"`, "hit", "GET", "/dated", "Range: bytes=2-3")
		f(`304 ""`, "hit", "GET", "/dated", `If-None-Match: "a"`)
		if header := f(`200 ""`, "hit", "HEAD", "/dated"); header.Get("Content-Length") != "10" {
			t.Error(header)
		}
		for _, status := range []int{200, 201, 203, 204, 404, 500} { // G42
			body := "body"
			if status == 204 {
				body = ""
			}
			o.says(reply(status, body, fresh))
			path, want := fmt.Sprint("/", status), fmt.Sprintf("%d %q", status, body)
			f(want, "stored", "GET", path)
			f(want, "hit", "GET", path)
		}
		o.says(reply(200, "mine", fresh, "Set-Cookie: a=b")) // G55
		f(`200 "mine"`, "set-cookie", "GET", "/cookie")
		o.says(reply(200, "yours", fresh))
		if header := f(`200 "yours"`, "stored", "GET", "/cookie"); header.Get("Set-Cookie") != "" {
			t.Error(header)
		}
		o.says(reply(200, "stale body", "Cache-Control: max-age=0, stale-if-error=600")) // G56
		f(`200 "stale body"`, "stored", "GET", "/sie")
		o.says(reply(503, "a long apology"))
		if header := f(`200 "stale body"`, "stale-if-error", "GET", "/sie"); header.Get("Content-Length") != "10" {
			t.Error(header)
		}
		o.says(func(x *exchange.Exchange) error { // G57, G58
			return reply(200, x.Req.Fields.Get("Accept"), fresh, "Vary: Accept")(x)
		})
		for range 2 {
			f(`200 "json"`, "stored", "GET", "/books", "Accept: json")
			f(`200 "xml"`, "stored", "GET", "/books", "Accept: xml")
			f(`200 "xml"`, "hit", "GET", "/books", "Accept: xml")
			f(`200 "xml"`, "fwd=method", "PUT", "/books", "Accept: xml")
		}
	})
}

// G39, G40, G44 over each front end: an event stream passes the cache live, holds up
// nobody who asks for the same, and ends upstream when its client leaves.
func TestG39EventStreamsPassLive(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		h, o := site(t, freshness.Rules{})
		stream := exchangetest.NewEvents(exchange.Field{Name: "Cache-Control", Value: "max-age=60"})
		o.says(stream.Serve)
		stream.PassLive(t, start(h))
		if n := h.Cache.Usage().Entries; n != 0 {
			t.Error("an event stream is kept")
		}
	})
}

// Many at once over each front end, with users of their own, validations and changes:
// nobody gets what is another's, and every body is whole.
func TestNobodyGetsAnothersPage(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		h, o := site(t, freshness.Rules{})
		o.says(func(x *exchange.Exchange) error {
			user := x.Req.Fields.Get("Cookie")
			body := strings.Repeat(x.Req.Target+" for "+user+";", 20)
			switch {
			case strings.HasPrefix(x.Req.Target, "/private"):
				return reply(200, body, "Cache-Control: private, max-age=60")(x)
			case strings.HasPrefix(x.Req.Target, "/silent"): // says nothing
				return reply(200, body, `ETag: "a"`)(x)
			case strings.HasPrefix(x.Req.Target, "/login"):
				return reply(200, body, fresh, "Set-Cookie: "+user)(x)
			}
			return reply(200, body, "Cache-Control: max-age=1", "Vary: Cookie")(x)
		})
		s := start(h)
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				user := fmt.Sprintf("user=%d", n%4)
				for i := range 60 {
					path := []string{"/private", "/silent", "/login", "/page"}[i%4] + fmt.Sprint(i%3)
					method := "GET"
					if i%17 == 16 {
						method = "POST"
					}
					got, header := fetch(t, s, method, path, "Cookie: "+user)
					if want := fmt.Sprintf("200 %q", strings.Repeat(path+" for "+user+";", 20)); got != want || header.Get("Set-Cookie") != "" && header.Get("Set-Cookie") != user {
						t.Errorf("%s of %s: %s", path, user, got)
						return
					}
				}
			})
		}
		all.Wait()
		if h.Cache.counts.Hits.Load() == 0 {
			t.Error("nothing was answered from the cache")
		}
	})
}
