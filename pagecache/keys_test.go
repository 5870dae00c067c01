package pagecache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

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

// R-CACHE-7: a redirect to what its key stands for is for nobody else.
func TestRedirectsToTheirKey(t *testing.T) {
	for _, c := range []struct {
		q        get
		location string
		mod      string
		want     bool
	}{
		{get{target: "/p%61ge1"}, "/page1", "", false},
		{get{target: "/p%61ge1"}, "http://www.test/page1", "", false},
		{get{target: "/page1"}, "/p%61ge1", "", false},
		{get{target: "/page2?"}, "/page2", "", false},
		{get{target: "/page2?"}, "page2", "", false},
		{get{target: "/page", host: "A.TEST"}, "http://a.test/page", "", false},
		{get{target: "/page", host: "A.TEST"}, "//a.test/page#x", "", false},
		{get{target: "/page", host: "A.TEST:80"}, "http://a.test/page", "", false},
		{get{target: "/page", host: "A.TEST"}, "HTTP://a.test:80/page", "", false},
		{get{target: "/page?utm_x=1"}, "/page", "-qs:utm_x", false},
		{get{target: "/page?utm_x=1&a"}, "http://www.test/page?a", "-qs:utm_*", false},
		{get{target: "/page?a", env: []exchange.Field{{Name: "Cache-Key-Mod", Value: "-qs:a"}}}, "/page", "", false},
		{get{target: "/p%61ge?q=%C3%A9"}, "/page?q=é", "", false},
		{get{target: "/%zz"}, "/other", "", false}, // nobody knows where that leads
		{get{target: "/page"}, "http://www.test:bad/", "", false},
		{get{target: "/page?utm_x=1"}, "/page", "", true},
		{get{target: "/page"}, "/page/", "", true},
		{get{target: "/page"}, "/Page", "", true},
		{get{target: "/page"}, "https://www.test/page", "", true},
		{get{target: "/page"}, "http://test/page", "", true},
	} {
		s := newSite(Options{})
		if c.mod != "" {
			s.Policy.KeyMod.Add(c.mod)
		}
		c.q.now = time.Now()
		s.ask(c.q, says(301, opted+"Location: "+c.location, "moved"))
		if got := s.ask(c.q, says(200, "", "two")); got.made == c.want {
			t.Errorf("%v to %s with %q: stored %v, want %v", c.q, c.location, c.mod, !got.made, c.want)
		}
		s.Cache.Close()
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
