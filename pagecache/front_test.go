package pagecache

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// fronted is a site behind a front end. Requests say in At how many seconds from now
// they come, and in Foreign that their host is.
type fronted struct {
	*Site
	page atomic.Pointer[app]
	made atomic.Int64
}

func newFronted(t *testing.T) *fronted {
	f := &fronted{Site: newSite(Options{})}
	f.UserCookie = ""
	t.Cleanup(f.Cache.Close)
	return f
}

func (f *fronted) says(a app) { f.page.Store(&a) }

func (f *fronted) Serve(x *exchange.Exchange) error {
	n, _ := strconv.Atoi(x.Req.Fields.Get("At"))
	x.Called = time.Now().Add(time.Duration(n) * time.Second)
	x.Route.Foreign = x.Req.Fields.Has("Foreign")
	return (&asked{site: f.Site, app: func(x *exchange.Exchange) (int, string, string) {
		f.made.Add(1)
		return (*f.page.Load())(x)
	}}).Serve(x)
}

// ask returns status, body and X-LiteSpeed-Cache of an answer, and its fields.
func (f *fronted) ask(t *testing.T, s *exchangetest.Server, method, path string, fields ...string) (string, http.Header) {
	t.Helper()
	status, body, header := s.Fetch(t, method, path, fields...)
	if n := header.Get("Content-Length"); method == "GET" && n != "" && n != fmt.Sprint(len(body)) {
		t.Errorf("Content-Length %s of %d bytes", n, len(body))
	}
	return fmt.Sprintf("%d %q %s", status, body, header.Get("X-Litespeed-Cache")), header
}

// G42, G43, G55 to G59 over each front end: status, Vary, cookies, one body, all variants,
// joined lines, purges by URL.
func TestG42ToG59OverFrontEnds(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		f := newFronted(t)
		s := start(f)
		expect := func(want, method, path string, fields ...string) http.Header {
			t.Helper()
			got, header := f.ask(t, s, method, path, fields...)
			if got = strings.TrimSpace(got); got != want {
				t.Errorf("%s %s: %s, want %s", method, path, got, want)
			}
			for name := range header {
				if isControl(name) && name != "X-Litespeed-Cache" {
					t.Errorf("%s %s: the client sees %s", method, path, name)
				}
			}
			return header
		}
		for _, status := range []int{200, 203, 301, 404, 201, 500} { // G42
			f.says(says(status, opted, "body"))
			path, kept := fmt.Sprint("/", status), status != 201 && status != 500
			for round := range 2 {
				want := fmt.Sprintf(`%d "body"`, status)
				if kept {
					want += []string{" miss", " hit"}[round]
				}
				expect(want, "GET", path)
			}
		}
		f.says(says(200, opted+"Vary: Accept-Encoding, X-Kind", "varies")) // G43
		for _, cache := range []string{"miss", "hit"} {
			if v := expect(`200 "varies" `+cache, "GET", "/vary").Values("Vary"); strings.Join(v, ", ") != "Accept-Encoding, X-Kind" {
				t.Errorf("Vary: %q", v)
			}
		}
		f.says(says(200, opted+"Set-Cookie: session=abc", "page")) // G55
		if h := expect(`200 "page" miss`, "GET", "/cookie"); h.Get("Set-Cookie") != "session=abc" {
			t.Error(h)
		}
		if h := expect(`200 "page" hit`, "GET", "/cookie"); h.Get("Set-Cookie") != "" {
			t.Error(h)
		}
		f.says(says(200, "X-LiteSpeed-Cache-Control: public,max-age=1,max-stale=0,stale-if-error=600", "stale body")) // G56
		expect(`200 "stale body" miss`, "GET", "/sie")
		f.says(says(503, "Content-Length: 5", "sorry"))
		if h := expect(`200 "stale body" hit,stale-if-error`, "GET", "/sie", "At: 30"); h.Get("Content-Length") != "10" || h.Get("Age") != "0" {
			t.Error(h)
		}
		f.says(says(200, opted, "fresh"))
		expect(`200 "fresh" miss`, "GET", "/sie", "At: 31")
		f.says(func(x *exchange.Exchange) (int, string, string) { // G57, G58
			return 200, opted + "Vary: Accept", strings.Join(slicesOf(x.Req.Fields.Values("Accept")), "+")
		})
		for range 2 {
			expect(`200 "json" miss`, "GET", "/books?p=1", "Accept: json")
			expect(`200 "json+xml" miss`, "GET", "/books?p=1", "Accept: json", "Accept: xml")
			expect(`200 "xml" miss`, "GET", "/books?p=1", "Accept: xml")
			expect(`200 "json" hit`, "GET", "/books?p=1", "Accept: json")
			was := *f.page.Load()
			f.says(says(200, "X-LiteSpeed-Purge: /books", "done")) // G59: by URL, whatever the query
			expect(`200 "done"`, "POST", "/edit")
			f.says(was)
		}
		expect(`200 ""`, "HEAD", "/none", "Accept: json")
	})
}

func slicesOf(seq func(func(string) bool)) (list []string) {
	for v := range seq {
		list = append(list, v)
	}
	return list
}

// R-LSN-4: a foreign host has nothing of what is stored, stores nothing and purges nothing
// by its method, over each front end.
func TestForeignHostsBypassOverFrontEnds(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		f := newFronted(t)
		s := start(f)
		for i, c := range []struct{ says, fields, want string }{
			{"own", "", `200 "own" miss`},
			{"foreign", "Foreign: 1", `200 "foreign" `},
			{"foreign 2", "Foreign: 1", `200 "foreign 2" `},
			{"own 2", "", `200 "own" hit`},
		} {
			f.says(says(200, opted, c.says))
			if got, _ := f.ask(t, s, "GET", "/", strings.FieldsFunc(c.fields, func(r rune) bool { return r == '\n' })...); got != c.want {
				t.Errorf("%d: %s, want %s", i, got, c.want)
			}
		}
		if n := f.Cache.Totals().Stored.Entries; n != 1 {
			t.Errorf("%d entries", n)
		}
	})
}

// G39, G40, G44 over each front end: an event stream passes the cache live, holds up
// nobody who asks for the same, and its application hears that the client has left.
func TestG39EventStreamsPassLive(t *testing.T) {
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		f, stream := newFronted(t), exchangetest.NewEvents(exchange.Field{Name: "X-LiteSpeed-Cache-Control", Value: "public,max-age=60"})
		stream.PassLive(t, start(exchange.HandlerFunc(func(x *exchange.Exchange) error {
			run := f.Begin(x)
			run.At(nil)
			err := run.Serve(Question{Local: true}, stream)
			run.End(err)
			return err
		})))
		if n := f.Cache.Totals().Stored.Entries; n != 0 {
			t.Error("an event stream is kept")
		}
	})
}
