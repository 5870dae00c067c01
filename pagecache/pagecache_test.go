package pagecache

import (
	"strings"
	"testing"
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
		{"status of a condition, listed", func(p *Policy) { p.Statuses = []int{412} }, get{}, 412, opted, false},
		{"status of one client, listed", func(p *Policy) { p.Statuses = []int{429} }, get{}, 429, opted, false},
		{"status of one client", nil, get{}, 429, opted, false},
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
		{"a field hidden by Connection", nil, get{fields: []string{"Accept-Language: fr", "Connection: close, Accept-Language"}}, 200, opted + "Vary: Accept-Language", false},
		{"cookies hidden by Connection", nil, get{fields: []string{"Cookie: c=1", "Connection: Cookie"}}, 200, opted + "X-LiteSpeed-Vary: cookie=c", false},
		{"Connection of a connection", nil, get{fields: []string{"Connection: keep-alive, TE"}}, 200, opted, true},
		{"post", nil, get{method: "POST"}, 200, opted, false},
		{"foreign host", nil, get{foreign: true}, 200, opted, false}, // R-LSN-4
		{"HEAD stores nothing", nil, get{method: "HEAD"}, 200, opted, false},
		{"Vary: *", nil, get{}, 200, opted + "Vary: *", false},
		{"Vary: Accept-Encoding", nil, get{}, 200, opted + "Vary: accept-encoding", true},
		{"Vary: Accept", nil, get{}, 200, opted + "Vary: Accept", true},
		{"Vary: X-Real-IP of an upstream", nil, get{env: rule("max-age=60"), proxied: true}, 200, "Vary: X-Real-IP", false},
		{"Vary: X-Real-IP of an application, which sees the client's", nil, get{}, 200, opted + "Vary: X-Real-IP", true},
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
		{get{target: "/", fields: []string{"Connection: close, Accept"}}, says(200, "", "x"), `httpjet; fwd=bypass; detail="Connection names a field"`},
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
