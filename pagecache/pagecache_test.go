package pagecache

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
)

const opted = "X-LiteSpeed-Cache-Control: public,max-age=60\n"

// R-CACHE-2, 4, 6, 7, 8: which answers the next client gets, by request and answer.
func TestWhatIsStored(t *testing.T) {
	rule := func(v string) []exchange.Field { return []exchange.Field{{Name: "Cache-Control", Value: v}} }
	all := func(p *Policy) { p.Store = true }
	for _, c := range []struct {
		name   string
		policy func(*Policy)
		q      get
		status int
		fields string
		want   bool
	}{
		{"nobody asked", nil, get{}, 200, "Cache-Control: max-age=60", false},
		{"the application asked", nil, get{}, 200, opted, true},
		{"in other letters", nil, get{}, 200, "x-litespeed-cache-control: PUBLIC, Max-Age=60", true},
		{"max-age alone is public", nil, get{}, 200, "X-LiteSpeed-Cache-Control: max-age=60", true},
		{"public alone lives as long as configured", nil, get{}, 200, "X-LiteSpeed-Cache-Control: public", true},
		{"no-cache wins", nil, get{}, 200, "X-LiteSpeed-Cache-Control: public,max-age=60,no-cache", false},
		{"no-store of another line wins", nil, get{}, 200, opted + "X-LiteSpeed-Cache-Control: no-store", false},
		{"max-age 0", nil, get{}, 200, "X-LiteSpeed-Cache-Control: public,max-age=0", false},
		{"the least of several", nil, get{}, 200, opted + "X-LiteSpeed-Cache-Control: max-age=0", false},
		{"max-age that is no number", nil, get{}, 200, "X-LiteSpeed-Cache-Control: public,max-age=1h", false},
		{"negative max-age", nil, get{}, 200, "X-LiteSpeed-Cache-Control: public,max-age=-1", false},
		{"s-maxage wins", nil, get{}, 200, "X-LiteSpeed-Cache-Control: public,max-age=0,s-maxage=60", true},
		{"private without a session", nil, get{}, 200, "X-LiteSpeed-Cache-Control: private,max-age=60", false},
		{"private has no life of its own", nil, get{fields: []string{"Cookie: PHPSESSID=1"}}, 200, "X-LiteSpeed-Cache-Control: private", false},
		{"private of a session", nil, get{fields: []string{"Cookie: PHPSESSID=1"}}, 200, "X-LiteSpeed-Cache-Control: private,max-age=60", true},
		{"Cache-Control does not veto who asked", nil, get{}, 200, opted + "Cache-Control: no-store", true},
		{"unless it is respected", func(p *Policy) { p.Respect = true }, get{}, 200, opted + "Cache-Control: no-store", false},
		{"everything", all, get{}, 200, "", true},
		{"everything but no-store", all, get{}, 200, "Cache-Control: no-store", false},
		{"everything but private", all, get{}, 200, "Cache-Control: private", false},
		{"everything but Pragma: no-cache", all, get{}, 200, "Pragma: no-cache", false},
		{"everything, the answer's Cache-Control ignored", func(p *Policy) { p.Store, p.IgnoreAnswer = true, true }, get{}, 200, "Cache-Control: no-store", true},
		{"everything but max-age=0", all, get{}, 200, "Cache-Control: max-age=0", false},
		{"everything of an application, not of a proxy", all, get{proxied: true}, 200, "", false},
		{"everything, request with a session", all, get{fields: []string{"Cookie: PHPSESSID=1"}}, 200, "", false},
		{"everything, request with another cookie", all, get{fields: []string{"Cookie: lang=de"}}, 200, "", true},
		{"everything, no cookies wanted", func(p *Policy) { p.Store, p.NoCookies = true, true }, get{fields: []string{"Cookie: lang=de"}}, 200, "", false},
		{"everything, answer with a cookie", all, get{}, 200, "Set-Cookie: a=b", true},
		{"everything, answer begins a session", all, get{}, 200, "Set-Cookie: PHPSESSID=b; path=/", false},
		{"asked, answer begins a session", nil, get{}, 200, opted + "Set-Cookie: PHPSESSID=b; path=/", true},
		{"a rule asks", nil, get{env: rule("max-age=60")}, 200, "", true},
		{"a rule asks for a proxy", nil, get{env: rule("max-age=60"), proxied: true}, 200, "", true},
		{"a rule and Cache-Control: private", nil, get{env: rule("max-age=60")}, 200, "Cache-Control: private", false},
		{"a rule forbids", nil, get{env: rule("no-cache")}, 200, opted, false},
		{"an application forbids what a rule asks for", nil, get{env: rule("max-age=60")}, 200, "X-LiteSpeed-Cache-Control: no-cache", false},
		{"a proxy has no say", nil, get{proxied: true}, 200, opted, false},
		{"status 301", nil, get{}, 301, opted + "Location: /b", true},
		{"status 404 asked for", nil, get{}, 404, opted, true},
		{"status 404 not asked for", all, get{}, 404, "", false},
		{"status 500", nil, get{}, 500, opted, false},
		{"status 206", nil, get{}, 206, opted, false},
		{"listed status", func(p *Policy) { p.Statuses = []int{404} }, get{}, 404, opted, true},
		{"status not listed", func(p *Policy) { p.Statuses = []int{404} }, get{}, 200, opted, false},
		{"redirect to itself", nil, get{}, 301, opted + "Location: http://www.test/a", false},
		{"event stream", nil, get{}, 200, opted + "Content-Type: Text/Event-Stream; charset=utf-8", false}, // G40
		{"content coding", nil, get{}, 200, opted + "Content-Encoding: deflate", false},
		{"part", nil, get{}, 200, opted + "Content-Range: bytes 0-1/2", false},
		{"trailers", nil, get{}, 200, opted + "Trailer: X", false},
		{"cut by its length", nil, get{}, 200, opted + "Content-Length: 100", false},
		{"longer than its length", nil, get{}, 200, opted + "Content-Length: 2", false},
		{"cut in the middle", nil, get{}, 200, opted + "Cut: 1", false},
		{"range", nil, get{fields: []string{"Range: bytes=0-1"}}, 200, opted, false},
		{"password", nil, get{fields: []string{"Authorization: Basic eDp5"}}, 200, opted, false},
		{"user of a realm", nil, get{user: "ann"}, 200, opted, false},
		{"upgrade", nil, get{fields: []string{"Upgrade: x"}}, 200, opted, false},
		{"post", nil, get{method: "POST"}, 200, opted, false},
		{"foreign host", nil, get{foreign: true}, 200, opted, false}, // R-LSN-4
		{"HEAD stores nothing", nil, get{method: "HEAD"}, 200, opted, false},
		{"Vary: *", nil, get{}, 200, opted + "Vary: *", false},
		{"Vary: Accept-Encoding", nil, get{}, 200, opted + "Vary: accept-encoding", true},
		{"Vary: Accept", nil, get{}, 200, opted + "Vary: Accept", true},
		{"vary by what is no cookie", nil, get{}, 200, opted + "X-LiteSpeed-Vary: value=x", false},
		{"too many names", nil, get{}, 200, opted + "Vary: a,b,c,d,e,f,g,h,i", false},
		{"no look-up", func(p *Policy) { p.LookUp, p.LookUpPrivate = false, false }, get{}, 200, opted, false},
		{"disabled", func(p *Policy) { p.Disabled = "x" }, get{}, 200, opted, false},
		{"the client's no-cache", nil, get{fields: []string{"Cache-Control: no-cache"}}, 200, opted, true},
		{"the client's no-cache, obeyed", func(p *Policy) { p.ObeyRequest = true }, get{fields: []string{"Cache-Control: no-cache"}}, 200, opted, false},
		{"too large", func(p *Policy) { p.MaxObject = 2 }, get{}, 200, opted, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(Options{})
			defer s.Cache.Close()
			if c.policy != nil {
				c.policy(&s.Policy)
			}
			c.q.target, c.q.now = "/a", time.Now()
			first := s.ask(c.q, says(c.status, c.fields, "one"))
			if !first.made {
				t.Fatal("nobody was asked")
			}
			for n, v := range first.fields.All() {
				if isControl(n) && !strings.EqualFold(n, "X-LiteSpeed-Cache") {
					t.Errorf("the client sees %s: %s", n, v)
				}
			}
			if first.cache == "miss" != c.want && !strings.Contains(c.fields, "Cut") && !strings.Contains(c.fields, "Content-Length") && s.Policy.MaxObject > 2 {
				t.Errorf("X-LiteSpeed-Cache %q", first.cache)
			}
			second := s.ask(c.q, says(200, "", "two"))
			if hit := !second.made; hit != c.want {
				t.Errorf("the second client got %q: from the cache %v, want %v", second.body, hit, c.want)
			}
			if c.want && (second.body != "one" || second.status != c.status || !strings.HasPrefix(second.cache, "hit") || second.fields.Get("Age") == "") {
				t.Errorf("hit: %+v", second)
			}
			if second.fields.Has("Set-Cookie") {
				t.Error("the cookie of another client")
			}
		})
	}
}

// R-CACHE-3: which requests are one.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		a, b get
		mod  string
		same bool
	}{
		{get{target: "/a"}, get{target: "/a"}, "", true},
		{get{target: "/a"}, get{target: "/A"}, "", false},
		{get{target: "/a", host: "X.test"}, get{target: "/a", host: "x.test"}, "", true},
		{get{target: "/a", host: "x.test"}, get{target: "/a", host: "y.test"}, "", false},
		{get{target: "/a", host: "x.test:81"}, get{target: "/a", host: "x.test"}, "", false},
		{get{target: "/%61%2d"}, get{target: "/a-"}, "", true},
		{get{target: "/%2f"}, get{target: "/%2F"}, "", true},
		{get{target: "/%2f"}, get{target: "//"}, "", false},
		{get{target: "/%zz%4"}, get{target: "/%zz%4"}, "", true},
		{get{target: "/a?x"}, get{target: "/a?x="}, "", false},
		{get{target: "/a?x=1&y=2"}, get{target: "/a?y=2&x=1"}, "", false},
		{get{target: "/a?utm_x=1&y=2"}, get{target: "/a?y=2"}, "-qs:utm_*", true},
		{get{target: "/a?utm_x=1"}, get{target: "/a"}, "-qs:utm_*", true},
		{get{target: "/a?id=1"}, get{target: "/a?id=2"}, "-qs:i", false},
		{get{target: "/a?id=1"}, get{target: "/a?id=2"}, "-qs:id", true},
		{get{target: "/a?id=1"}, get{target: "/a?id=2"}, "-qs:id clear", false},
		{get{target: "/a", fields: []string{"Cookie: _lscache_vary=a"}}, get{target: "/a"}, "", false},
		{get{target: "/a", env: []exchange.Field{{Name: "Cache-Vary-Value", Value: "mobile"}}}, get{target: "/a"}, "", false},
		{get{target: "/a?x=1", env: []exchange.Field{{Name: "Cache-Key-Mod", Value: "-qs:x"}}}, get{target: "/a"}, "", true},
	} {
		s := newSite(Options{})
		if c.mod != "" {
			s.Policy.KeyMod.Add(c.mod)
		}
		c.a.now, c.b.now = time.Now(), time.Now()
		s.ask(c.a, says(200, opted, "one"))
		if got := s.ask(c.b, says(200, opted, "two")); got.made == c.same {
			t.Errorf("%v and %v with %q: one page %v, want %v", c.a, c.b, c.mod, !got.made, c.same)
		}
		s.Cache.Close()
	}
}

func TestG55CookiesAreNotReplayed(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	q := get{target: "/a", now: time.Now()}
	first := s.ask(q, says(200, opted+"Cache-Control: public, max-age=60\nSet-Cookie: session=abc", "one"))
	if first.fields.Get("Set-Cookie") != "session=abc" {
		t.Error("the first client lost its cookie")
	}
	if second := s.ask(q, says(200, "", "two")); second.made || second.fields.Has("Set-Cookie") {
		t.Errorf("%+v", second)
	}
	s.PrivateCookies = []string{"user"}
	q.target = "/b"
	s.ask(q, says(200, opted+"Set-Cookie: user=abc", "one"))
	if second := s.ask(q, says(200, "", "two")); !second.made {
		t.Error("an answer that sets a private cookie was stored")
	}
}

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

func TestG58RepeatedFieldLinesAreJoined(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	s.ask(get{target: "/", now: now, fields: []string{"Accept-Language: de", "Accept-Language: fr"}}, says(200, opted+"Vary: Accept-Language", "both"))
	if got := s.ask(get{target: "/", now: now, fields: []string{"Accept-Language: de"}}, says(200, opted+"Vary: Accept-Language", "one")); got.body != "one" {
		t.Fatalf("%+v", got)
	}
	if got := s.ask(get{target: "/", now: now, fields: []string{"Accept-Language: de", "Accept-Language: fr"}}, says(200, "", "new")); got.body != "both" {
		t.Fatalf("%+v", got)
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

// wanted 23: cookies by which pages differ need not be known before.
func TestVaryByCookies(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	page := func(x *exchange.Exchange) (int, string, string) {
		v, ok := cookie(&x.Req.Fields, "role")
		if !ok {
			v = "guest"
		}
		return 200, opted + "X-LiteSpeed-Vary: cookie=role", v
	}
	long := strings.Repeat("x", 500)
	for round := range 3 {
		for _, role := range []string{"", "admin", "editor", long, long + "y", "admin%00", "admin\x01"} {
			q := get{target: "/", now: now}
			want := "guest"
			if role != "" {
				q.fields, want = []string{"Cookie: a=b; role=" + role}, role
			}
			if got := s.ask(q, page); got.body != want {
				t.Fatalf("round %d: %.20q got %.20q", round, role, got.body)
			} else if round == 2 && got.made {
				t.Errorf("%.20q was made a third time", role)
			}
		}
	}
	s.VaryCookies = []string{"other"}
	s.ask(get{target: "/b", now: now}, says(200, opted+"X-LiteSpeed-Vary: cookie=role", "x"))
	if got := s.ask(get{target: "/b", now: now}, says(200, "", "y")); got.body != "y" {
		t.Error("a cookie that may not tell variants apart did")
	}
}

// Hostile: 10,000 variants of one URL neither grow the cache nor mix.
func TestTenThousandVariantsOfAURL(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	echo := func(x *exchange.Exchange) (int, string, string) {
		return 200, opted + "Vary: X-V", x.Req.Fields.Get("X-V")
	}
	for i := range 10000 {
		v := fmt.Sprint(i * 7919 % 500)
		if got := s.ask(get{target: "/", now: now, fields: []string{"X-V: " + v}}, echo); got.body != v {
			t.Fatalf("asked for %s, got %s", v, got.body)
		}
	}
	if n := s.Cache.Totals().Stored.Entries; n > 64 {
		t.Errorf("%d entries", n)
	}
}

// Whatever Vary and cookies say, nobody gets the variant of another request, and memory
// stays bounded.
func TestHostileVary(t *testing.T) {
	now := time.Now()
	long := strings.Repeat("v", 8000)
	for name, c := range map[string]struct {
		vary       string // fields of the answer
		one, other []string
		kept       bool
	}{
		"star":                   {"Vary: Accept, *", []string{"Accept: a"}, []string{"Accept: b"}, false},
		"empty":                  {"Vary: , ,", nil, []string{"Accept: b"}, true},
		"many names":             {"Vary: " + strings.Repeat("x,", 5000) + "a,b,c,d,e,f,g,h,i", nil, nil, false},
		"one name often":         {"Vary: " + strings.Repeat("X-A,", 5000), []string{"X-A: 1"}, []string{"X-A: 2"}, true},
		"long values":            {"Vary: X-A", []string{"X-A: " + long + "1"}, []string{"X-A: " + long + "2"}, true},
		"a value like a hash":    {"Vary: X-A", []string{"X-A: " + long}, []string{"X-A: #" + strings.Repeat("0", 32)}, true},
		"values like separators": {"Vary: X-A, X-B", []string{"X-A: 1\x00=2"}, []string{"X-A: 1", "X-B: 2"}, true},
		"absent and empty":       {"Vary: X-A", []string{"X-A: "}, nil, true},
		"lines and commas":       {"Vary: X-A", []string{"X-A: 1", "X-A: 2"}, []string{"X-A: 1,", "X-A: 2"}, true},
		"a name in any case":     {"Vary: x-a", []string{"X-A: 1"}, []string{"x-A: 2"}, true},
		"by cookie":              {"X-LiteSpeed-Vary: cookie=c", []string{"Cookie: c=1; d=2"}, []string{"Cookie: c=1%3B d; c=2"}, true},
		"cookie of many":         {"X-LiteSpeed-Vary: " + strings.Repeat("cookie=a,", 3000) + "cookie=c", []string{"Cookie: c=1"}, []string{"Cookie: c=2"}, true},
		"not a cookie":           {"X-LiteSpeed-Vary: value=1", nil, nil, false},
		"no name":                {"X-LiteSpeed-Vary: cookie=", []string{"Cookie: =1"}, []string{"Cookie: =2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(Options{})
			defer s.Cache.Close()
			say := func(body string) app { return says(200, opted+c.vary, body) }
			s.ask(get{target: "/", now: now, fields: c.one}, say("one"))
			if got := s.ask(get{target: "/", now: now, fields: c.one}, say("one again")); got.made == c.kept {
				t.Errorf("kept %v, want %v", !got.made, c.kept)
			}
			if got := s.ask(get{target: "/", now: now, fields: c.other}, say("other")); c.other != nil && name != "no name" && name != "empty" && got.body != "other" {
				t.Errorf("another request got %q", got.body)
			}
		})
	}
}

func TestConditionalAndHEAD(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	s.ask(get{target: "/", now: now}, says(200, opted+"Content-Type: text/plain", "page"))
	got := s.ask(get{target: "/", now: now.Add(9 * time.Second)}, says(200, "", ""))
	tag := got.fields.Get("ETag")
	if tag == "" || got.fields.Get("Age") != "9" {
		t.Fatalf("%+v", got)
	}
	for _, c := range []struct {
		field string
		want  int
	}{{tag, 304}, {strings.TrimPrefix(tag, "W/"), 304}, {`"x", ` + tag, 304}, {"*", 304}, {`"x"`, 200}, {"", 200}} {
		got := s.ask(get{target: "/", now: now, fields: []string{"If-None-Match: " + c.field}}, says(200, "", ""))
		if got.status != c.want || got.made || (got.status == 304) != (got.body == "") {
			t.Errorf("If-None-Match: %s: %+v", c.field, got)
		}
	}
	if got := s.ask(get{target: "/", method: "HEAD", now: now}, says(200, "", "")); got.made || got.status != 200 || got.body != "" {
		t.Errorf("HEAD: %+v", got)
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

// R-CACHE-10.
func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(Options{})
		now := time.Now()
		release := make(chan bool)
		made := make(chan bool, 100)
		slow := func(*exchange.Exchange) (int, string, string) {
			made <- true
			<-release
			return 200, opted, "page"
		}
		got := make(chan told, 10)
		for range 10 {
			go func() { got <- s.ask(get{target: "/", now: now}, slow) }()
		}
		synctest.Wait()
		if len(made) != 1 {
			t.Fatalf("%d make the page", len(made))
		}
		close(release)
		for range 10 {
			if g := <-got; g.body != "page" {
				t.Errorf("%+v", g)
			}
		}
		if len(made) != 1 {
			t.Errorf("%d have made the page", len(made))
		}
		s.Cache.Close()
	})
}

// Who follows somebody slow makes the page himself after ten seconds; nobody waits for a
// page that is not stored.
func TestFollowersDoNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(Options{})
		release := make(chan bool)
		go s.ask(get{target: "/", now: time.Now()}, func(*exchange.Exchange) (int, string, string) { <-release; return 200, opted, "slow" })
		synctest.Wait()
		begin := time.Now()
		if got := s.ask(get{target: "/", now: begin}, says(200, "", "own")); got.body != "own" || time.Since(begin) != flightWait {
			t.Errorf("%+v after %v", got, time.Since(begin))
		}
		close(release)
		synctest.Wait()

		s.ask(get{target: "/u", now: time.Now()}, says(200, "", "never stored"))
		release = make(chan bool)
		go s.ask(get{target: "/u", now: time.Now()}, func(*exchange.Exchange) (int, string, string) { <-release; return 200, "", "slow" })
		synctest.Wait()
		begin = time.Now()
		if s.ask(get{target: "/u", now: begin}, says(200, "", "own")); time.Since(begin) != 0 {
			t.Errorf("waited %v for a page that is never stored", time.Since(begin))
		}
		close(release)
		synctest.Wait()
		s.Cache.Close()
	})
}

// A handler that panics does not leave others waiting.
func TestAPanicEndsTheFlight(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	func() {
		defer func() { recover() }()
		s.ask(get{target: "/", now: time.Now()}, func(*exchange.Exchange) (int, string, string) { panic("application") })
	}()
	if n := s.Cache.misses.Len(); n != 0 {
		t.Fatalf("%d flights are left", n)
	}
	if got := s.ask(get{target: "/", now: time.Now()}, says(200, opted, "page")); got.body != "page" {
		t.Fatalf("%+v", got)
	}
}

// R-CACHE-11.
func TestAdmission(t *testing.T) {
	s := newSite(Options{Admit: 2})
	defer s.Cache.Close()
	now := time.Now()
	big := strings.Repeat("x", 600<<10)
	for _, c := range []struct {
		target, body string
		need         int
	}{{"/small", "x", 2}, {"/big", big, 4}} {
		for i := range 6 {
			got := s.ask(get{target: c.target, now: now}, says(200, opted, c.body))
			if stored := !got.made; stored != (i >= c.need) {
				t.Errorf("%s: request %d: hit %v", c.target, i+1, stored)
			}
		}
	}
}

func TestPrivate(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	of := func(user string) get {
		return get{target: "/cart", now: now, fields: []string{"Cookie: lang=de; PHPSESSID=" + user}}
	}
	cart := func(user string) app {
		return says(200, "X-LiteSpeed-Cache-Control: private,max-age=9999\nX-LiteSpeed-Tag: cart,public:all\nCache-Control: public", user)
	}
	for _, user := range []string{"ann", "bob"} {
		if got := s.ask(of(user), cart(user)); got.body != user || !got.made {
			t.Fatalf("%+v", got)
		}
	}
	for _, user := range []string{"ann", "bob"} {
		got := s.ask(of(user), cart("x"))
		if got.body != user || got.cache != "hit,private" || got.fields.Get("Cache-Control") != "private, no-store" {
			t.Fatalf("%+v", got)
		}
	}
	for _, fields := range [][]string{nil, {"Cookie: lang=de"}, {"Cookie: PHPSESSID="}, {"Cookie: PHPSESSID=eve"}} {
		if got := s.ask(get{target: "/cart", now: now, fields: fields}, says(200, "", "nobody")); got.body != "nobody" {
			t.Errorf("%v got %q", fields, got.body)
		}
	}
	if got := s.ask(get{target: "/cart", now: now.Add(301 * time.Second), fields: of("ann").fields}, says(200, "", "new")); got.body == "ann" && got.cache == "hit,private" && got.fields.Get("Age") != "0" {
		t.Error("a private entry is fresh for more than five minutes")
	}
	bob := of("bob")
	bob.target = "/p"
	s.ask(bob, says(200, "X-LiteSpeed-Purge: private,tag=cart", ""))
	if got := s.ask(of("bob"), says(200, "", "gone")); got.body != "gone" {
		t.Error("bob's own purge")
	}
	if got := s.ask(of("ann"), says(200, "", "gone")); got.body != "ann" {
		t.Error("bob has purged ann's")
	}
	s.ask(bob, says(200, "X-LiteSpeed-Purge: tag=all", ""))
	if got := s.ask(of("ann"), says(200, "", "gone")); got.body != "gone" {
		t.Error("a public tag of a private entry")
	}
}

// R-CACHE-13: with the two cookies, users have private entries alone, but below shared
// paths.
func TestUsersHavePrivateEntriesAlone(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	s.SessionCookie, s.UserCookie, s.Shared = "sid", "uid", []string{"/shared"}
	now := time.Now()
	user := []string{"Cookie: sid=1; uid=7"}
	for _, target := range []string{"/page", "/shared/page", "/sharedpage"} {
		s.ask(get{target: target, now: now}, says(200, opted, "guest"))
		got := s.ask(get{target: target, now: now, fields: user}, says(200, opted, "user"))
		if want := map[bool]string{true: "guest", false: "user"}[target == "/shared/page"]; got.body != want {
			t.Errorf("%s: a user got %q", target, got.body)
		}
		if got := s.ask(get{target: target, now: now}, says(200, "", "new")); got.body != "guest" {
			t.Errorf("%s: a guest got %q", target, got.body)
		}
	}
	if s.ask(get{target: "/x", now: now, fields: []string{"Cookie: sid=1"}}, says(200, "X-LiteSpeed-Cache-Control: private,max-age=60", "x")); s.Cache.private.Load() != 0 {
		t.Error("a session without a user has a private entry")
	}
}

func TestReportAsStandard(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	s.Report = ReportStandard
	now := time.Now()
	for _, c := range []struct {
		q    get
		a    app
		want string
	}{
		{get{target: "/"}, says(200, opted, "x"), "httpjet; fwd=miss; stored"},
		{get{target: "/"}, says(200, opted, "x"), "httpjet; hit"},
		{get{target: "/n"}, says(200, "", "x"), `httpjet; fwd=miss; detail="nobody asked for it"`},
		{get{target: "/r", fields: []string{"Range: bytes=0-1"}}, says(200, "", "x"), `httpjet; fwd=bypass; detail="range"`},
		{get{target: "/", fields: []string{"Range: bytes=0-1"}}, says(200, "", "x"), "httpjet; hit"},
	} {
		c.q.now = now
		if got := s.ask(c.q, c.a); got.fields.Get("Cache-Status") != c.want || got.cache != "" {
			t.Errorf("%v: Cache-Status %q, want %q", c.q, got.fields.Get("Cache-Status"), c.want)
		}
	}
}

func TestExcluded(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	s.NoHosts, s.NoPaths = []string{"shop.test"}, []string{"^/admin", "login$", "/api/"}
	for _, c := range []struct {
		host, target string
		want         bool
	}{{"www.test", "/a", true}, {"SHOP.test:80", "/a", false}, {"www.test", "/admin/x", false}, {"www.test", "/x/admin", true},
		{"www.test", "/x/login", false}, {"www.test", "/login/x", true}, {"www.test", "/v1/api/x", false}} {
		q := get{host: c.host, target: c.target, now: time.Now()}
		s.ask(q, says(200, opted, "x"))
		if got := s.ask(q, says(200, opted, "x")); got.made == c.want {
			t.Errorf("%s%s: cached %v", c.host, c.target, !got.made)
		}
	}
}

// A hit takes no memory (R-CACHE-17).
func TestAHitTakesNoMemory(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	s.ask(get{target: "/a?b=c", now: now}, says(200, opted+"Content-Type: text/html", strings.Repeat("x", 1000)))
	x := &exchange.Exchange{}
	w := &devNull{}
	h := exchange.HandlerFunc(func(*exchange.Exchange) error { panic("asked") })
	serve := func() {
		x.Reset(w)
		x.Req.Method, x.Req.Host, x.Req.Target, x.Req.Scheme, x.Called = "GET", "www.test", "/a?b=c", "http", now
		x.Req.Fields.Add("Cookie", "PHPSESSID=1; a=b")
		run := s.Begin(x)
		run.At(nil)
		err := run.Serve(Question{Local: true}, h)
		run.End(err)
		if err != nil || w.n != 1000 {
			t.Fatal(err, w.n)
		}
		w.n = 0
	}
	serve()
	if n := testing.AllocsPerRun(1000, serve); n != 0 && !raced {
		t.Errorf("%v allocations", n)
	}
}

type devNull struct {
	paper
	n int
}

func (w *devNull) Head(*exchange.Response, bool, bool) error { return nil }
func (w *devNull) Write(p []byte) (int, error)               { w.n += len(p); return len(p), nil }

func BenchmarkHit(b *testing.B) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	s.ask(get{target: "/a?b=c", now: now}, says(200, opted+"Content-Type: text/html", strings.Repeat("x", 1000)))
	x, w := &exchange.Exchange{}, &devNull{}
	h := exchange.HandlerFunc(func(*exchange.Exchange) error { panic("asked") })
	b.ReportAllocs()
	for b.Loop() {
		x.Reset(w)
		x.Req.Method, x.Req.Host, x.Req.Target, x.Req.Scheme, x.Called = "GET", "www.test", "/a?b=c", "http", now
		x.Req.Fields.Add("Accept", "*/*")
		run := s.Begin(x)
		run.At(nil)
		run.End(run.Serve(Question{Local: true}, h))
	}
}
