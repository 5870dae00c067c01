package pagecache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

func TestG57AllVariantsOfAURLArePurged(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	books := func(x *exchange.Exchange) (int, string, string) {
		return 200, opted + "Vary: Accept\n", x.Req.Fields.Get("Accept")
	}
	asks := []get{
		{target: "/books", fields: []string{"Accept: application/json"}},
		{target: "/books", fields: []string{"Accept: application/xml"}},
		{target: "/books?page=2", fields: []string{"Accept: application/xml"}},
		{target: "/%62ooks", host: "other.test", fields: []string{"Accept: text/html"}},
	}
	for range 2 {
		for _, q := range asks {
			q.now = now
			s.ask(q, books)
		}
		for _, q := range asks {
			q.now = now
			if got := s.ask(q, books); got.made || got.body != strings.TrimPrefix(q.fields[0], "Accept: ") {
				t.Fatalf("%v: %+v", q, got)
			}
		}
		s.ask(get{target: "/admin", method: "POST", now: now}, says(204, "X-LiteSpeed-Purge: /books", ""))
		for _, q := range asks {
			q.now = now
			if got := s.ask(q, books); !got.made {
				t.Fatalf("%v is still there", q)
			}
		}
	}
}

// G59 and R-CACHE-12: every form of a purge, on answers that are not stored themselves.
func TestG59PurgesByURLAndTag(t *testing.T) {
	const a, b = "X-LiteSpeed-Tag: front, post_1\n", "X-LiteSpeed-Tag: post_2\n"
	for purge, want := range map[string]string{ // which of /a, /b, /a/x?q=1 are there afterwards; ~ stale
		"":                          "a b x",
		"*":                         "",
		"public,*":                  "",
		"tag=front":                 "b x",
		"front":                     "b x",
		"public, front, post_2":     "x",
		"tag=front; tag=post_2":     "x",
		"tag=post_*":                "x",
		"post_*":                    "x",
		"/a":                        "b x",
		"/%61":                      "b x",
		"http://www.test/a":         "b x",
		"/a/x":                      "a b",
		"/a/x?q=1":                  "a b",
		"/a/x?q=2":                  "a b x",
		"/a*":                       "b",
		"/nowhere":                  "a b x",
		"private,*":                 "a b x",
		"private, tag=front, /a":    "a b x",
		"stale,tag=front":           "~a b x",
		"tag=front~s":               "~a b x",
		"tag=front~stale,/b":        "~a x",
		"public,stale,*":            "~a ~b ~x",
		"tag=unknown,,; ;private,;": "a b x",
	} {
		t.Run(purge, func(t *testing.T) {
			s := newSite(Options{})
			now := time.Now()
			for target, tags := range map[string]string{"/a": a, "/b": b, "/a/x?q=1": ""} {
				s.ask(get{target: target, now: now}, says(200, opted+tags, "old"))
			}
			s.ask(get{target: "/p", method: "POST", now: now}, says(500, "X-LiteSpeed-Purge: "+purge, ""))
			synced := []string{}
			for _, c := range []struct{ name, target string }{{"a", "/a"}, {"b", "/b"}, {"x", "/a/x?q=1"}} {
				got := s.ask(get{target: c.target, now: now}, says(-500, "", ""))
				if got.body == "old" {
					name := c.name
					if got.fields.Get("Cache-Control") != "" {
						name = "~" + name
					}
					synced = append(synced, name)
				}
			}
			s.Cache.Close()
			if got := strings.Join(synced, " "); got != want {
				t.Errorf("there is %q, want %q", got, want)
			}
		})
	}
}

// R-CACHE-12: what was begun before a purge is not stored behind it.
// PURGE and REFRESH on a URL (LSX 10.4): for those who may, of all variants, hosts and
// owners; others are told that there is no such method, and nothing happens.
func TestPurgeByMethod(t *testing.T) {
	now := time.Now()
	ann := []string{"Cookie: PHPSESSID=ann"}
	for _, c := range []struct {
		q            get
		status       int
		gone, passed bool
		soft         bool
	}{
		{get{method: "PURGE", target: "/a/p?x=1", purge: true}, 200, true, false, false},
		{get{method: "PURGE", target: "/a/%70", purge: true}, 200, true, false, false},
		{get{method: "REFRESH", target: "/a/p", purge: true}, 200, true, false, true},
		{get{method: "PURGE", target: "/a/other", purge: true}, 200, false, false, false},
		{get{method: "PURGE", target: "/a/p"}, 405, false, false, false},
		{get{method: "REFRESH", target: "/a/p"}, 405, false, false, false},
		{get{method: "purge", target: "/a/p", purge: true}, 200, false, true, false},
		{get{method: "PURGE", target: "/a/p", purge: true, foreign: true}, 200, false, true, false},
		{get{method: "PURGE", target: "/a/p", purge: true, proxied: true}, 200, true, true, false},
		{get{method: "PURGE", target: "/a/p", proxied: true}, 200, false, true, false},
		{get{method: "PURGE", target: "/a/../../p", purge: true}, 400, false, false, false},
	} {
		t.Run(fmt.Sprint(c.q.method, c.q.target, c.status, c.passed), func(t *testing.T) {
			s := newSite(Options{})
			defer s.Cache.Close()
			fill := func(body string) (list []told) {
				for _, host := range []string{"a.test", "b.test"} {
					list = append(list, s.ask(get{host: host, target: "/a/p?x=1", now: now}, says(200, opted, body)))
				}
				return append(list, s.ask(get{target: "/a/p?x=1", fields: ann, now: now}, says(200, "X-LiteSpeed-Cache-Control: private,max-age=60", body)))
			}
			fill("old")
			c.q.now = now
			if got := s.ask(c.q, says(200, "", "of the application")); got.status != c.status || got.made != c.passed {
				t.Fatalf("%+v", got)
			}
			for i, got := range fill("new") {
				if got.made != (c.gone && !c.soft) {
					t.Errorf("entry %d: made %v", i, got.made)
				}
			}
			s.Cache.running.Wait()
			if c.soft {
				for i, got := range fill("newest") {
					if got.body != "new" {
						t.Errorf("entry %d was not made anew: %q", i, got.body)
					}
				}
			}
		})
	}
}

func TestAnAnswerThatAPurgeOvertakesIsNotStored(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	s.ask(get{target: "/a", now: now}, func(*exchange.Exchange) (int, string, string) {
		s.ask(get{target: "/p", now: now}, says(200, "X-LiteSpeed-Purge: tag=t", ""))
		return 200, opted + "X-LiteSpeed-Tag: t", "old"
	})
	if got := s.ask(get{target: "/a", now: now}, says(200, "", "new")); got.body != "new" {
		t.Fatalf("%+v", got)
	}
	if n := s.Cache.Totals(); n.Get(Refused) != 1 {
		t.Errorf("%d refused", n.Get(Refused))
	}
}
