package pagecache

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
)

func TestG56StaleIfErrorIsOneBody(t *testing.T) {
	for name, broken := range map[string]app{
		"no answer":      says(-502, "", ""),
		"an error page":  says(503, "Content-Length: 6\nX-A: b", "broken"),
		"a long page":    says(500, "", strings.Repeat("broken", 5000)),
		"cut error page": says(500, "Content-Length: 100\nCut: 1", "broken"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(Options{})
			defer s.Cache.Close()
			s.Policy.MaxStale = 0
			now := time.Now()
			stored := says(200, "X-LiteSpeed-Cache-Control: public,max-age=1,stale-if-error=600\nContent-Length: 5\nExpires: 0\nX-B: c", "stale")
			s.ask(get{target: "/", now: now}, stored)
			got := s.ask(get{target: "/", now: now.Add(10 * time.Second)}, broken)
			if got.body != "stale" || got.status != 200 || got.cache != "hit,stale-if-error" || got.cut || got.fields.Has("X-A") || got.fields.Has("Expires") ||
				got.fields.Get("Cache-Control") != "public, max-age=30, must-revalidate" || got.fields.Get("Age") != "0" {
				t.Fatalf("%+v", got)
			}
			head := s.ask(get{method: "HEAD", target: "/", now: now.Add(10 * time.Second)}, broken)
			if head.body != "" || head.status != 200 {
				t.Fatalf("%+v", head)
			}
			if got = s.ask(get{target: "/", now: now.Add(11 * time.Second)}, says(200, opted, "fresh")); got.body != "fresh" {
				t.Fatalf("%+v", got)
			}
			if got = s.ask(get{target: "/", now: now.Add(12 * time.Second)}, broken); got.body != "fresh" || got.cache != "hit" {
				t.Fatalf("%+v", got)
			}
			if got = s.ask(get{target: "/", now: now.Add(1000 * time.Second)}, broken); got.status < 500 {
				t.Fatalf("an entry that is too old: %+v", got)
			}
		})
	}
}

// R-CACHE-9: a stale entry is served at once, and one request of the server's own makes
// it anew.
func TestStaleWhileRevalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(Options{})
		now := time.Now()
		s.ask(get{target: "/", now: now}, says(200, "X-LiteSpeed-Cache-Control: public,max-age=10", "old"))
		time.Sleep(20 * time.Second)
		began, release := make(chan []string, 10), make(chan bool)
		slow := func(x *exchange.Exchange) (int, string, string) {
			if !x.Background {
				t.Error("a client waits")
			}
			began <- []string{x.Req.Fields.Get("Cookie"), x.Req.Fields.Get("Range"), x.Req.Method}
			<-release
			return 200, opted, "new"
		}
		q := get{target: "/", now: time.Now(), fields: []string{"Cookie: PHPSESSID=secret; _lscache_vary=", "If-None-Match: x"}}
		for range 5 {
			if got := s.ask(q, slow); got.body != "old" || got.cache != "hit" || got.fields.Get("Cache-Control") != "public, max-age=30, must-revalidate" {
				t.Fatalf("%+v", got)
			}
		}
		synctest.Wait()
		if asked := <-began; asked[0] != "_lscache_vary=" || asked[2] != "GET" {
			t.Errorf("the server asked with %q", asked)
		}
		if len(began) != 0 {
			t.Error("several refreshes of one entry")
		}
		close(release)
		synctest.Wait()
		if got := s.ask(get{target: "/", now: time.Now()}, says(-500, "", "")); got.body != "new" || got.cache != "hit" {
			t.Fatalf("%+v", got)
		}
		s.Cache.Close()
	})
}

// A refresh that panics or fails leaves the stale entry, and the cache goes on.
func TestARefreshThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(Options{})
		s.ask(get{target: "/", now: time.Now()}, says(200, "X-LiteSpeed-Cache-Control: public,max-age=10", "old"))
		time.Sleep(20 * time.Second)
		n := 0
		for range 3 {
			got := s.ask(get{target: "/", now: time.Now()}, func(*exchange.Exchange) (int, string, string) {
				if n++; n == 1 {
					panic("application")
				}
				return -502, "", ""
			})
			synctest.Wait()
			if got.body != "old" {
				t.Fatalf("%+v", got)
			}
		}
		if n != 3 || s.Cache.Totals().Refreshing != 0 {
			t.Errorf("%d refreshes began", n)
		}
		s.Cache.Close()
	})
}
