package proxycache

import (
	"fmt"
	"strings"
	"testing"

	"httpjet/exchange"
	"httpjet/freshness"
)

// G57, G59: a URL is purged with all its variants, hosts, schemes and queries; what names
// nothing is told.
func TestG59PurgesByURL(t *testing.T) {
	for _, c := range []struct {
		items string
		left  string // targets that are kept behind it
		n     int
		bad   string
	}{
		{"/a", "/a/b /b /%63", 4, ""},
		{"http://other.test/a", "/a/b /b /%63", 4, ""},
		{"/a?x=1", "/a /a/b /b /%63", 1, ""},
		{"/a*", "/b /%63", 5, ""},
		{"/c", "/a /a?x=1 /a/b /b", 1, ""},
		{"/./%61", "/a/b /b /%63", 4, ""},
		{"*", "", 7, ""},
		{"stale, /b", "/a /a?x=1 /a/b /%63", 1, ""},
		{"/none", "/a /a?x=1 /a/b /b /%63", 0, ""},
		{"tag=front,/b", "/a /a?x=1 /a/b /%63", 1, "tag=front"},
		{"/%zz", "/a /a?x=1 /a/b /b /%63", 0, "/%zz"},
	} {
		h, o := site(t, freshness.Rules{})
		o.says(func(x *exchange.Exchange) error {
			return reply(200, x.Req.Fields.Get("Accept"), fresh, "Vary: Accept")(x)
		})
		for _, target := range []string{"/a", "/a?x=1", "/a/b", "/b", "/%63"} {
			ask(h, "GET "+target)
		}
		ask(h, "GET /a", "Accept: json")
		ask(h, "GET /a", "Host: b.example")
		if n, bad := h.Cache.Purge(c.items, true); n != c.n || strings.Join(bad, " ") != c.bad {
			t.Errorf("%q, asked: %d responses, %q", c.items, n, bad)
		}
		if n := h.Cache.Usage().Entries; n != 7 {
			t.Fatalf("%d responses; who only asks purges nothing", n)
		}
		if n, bad := h.Cache.Purge(c.items, false); n != c.n || strings.Join(bad, " ") != c.bad {
			t.Errorf("%q: %d responses, %q, want %d, %q", c.items, n, bad, c.n, c.bad)
		}
		var left []string
		for _, target := range []string{"/a", "/a?x=1", "/a/b", "/b", "/%63"} {
			kept := ask(h, "GET "+target, "Cache-Control: only-if-cached").head.Status == 200
			if list := h.Cache.Of("http", "A.example", target); len(list) > 0 != kept {
				t.Errorf("%q, %s: answered %v, told %+v", c.items, target, kept, list)
			}
			if kept {
				left = append(left, target)
			}
		}
		if got := strings.Join(left, " "); got != c.left {
			t.Errorf("%q leaves %q, want %q", c.items, got, c.left)
		}
	}
}

// What is on its way when its URL is purged is not kept.
func TestG59PurgesWhatIsBeingMade(t *testing.T) {
	h, o := site(t, freshness.Rules{})
	for _, items := range []string{"/a", "/a*", "*"} {
		o.says(func(x *exchange.Exchange) error {
			h.Cache.Purge(items, false)
			return reply(200, "old", fresh)(x)
		})
		ask(h, "GET /a")
		if list, n := h.Cache.List("", 10); n != 0 {
			t.Errorf("%s: %+v", items, list)
		}
	}
}

// A list says what is kept under the client's own URL, also where another one went
// upstream.
func TestList(t *testing.T) {
	h, o := site(t, freshness.Rules{})
	o.says(reply(200, "body", fresh, "Vary: Accept", "Age: 10"))
	rewritten := exchange.HandlerFunc(func(x *exchange.Exchange) error {
		x.Req.Rewritten = "/upstream" + x.Req.Target
		return h.Serve(x)
	})
	ask(rewritten, "GET /a?b")
	ask(rewritten, "GET /c", "Host: B.example:81")
	list, n := h.Cache.List("/a", 10)
	if n != 1 || len(list) != 1 {
		t.Fatalf("%d, %+v", n, list)
	}
	l := list[0]
	if got := fmt.Sprint(l.URL, l.Vary, l.Status, l.Bytes, l.Fresh, l.Age.Seconds() >= 10, l.Left.Seconds() <= 50); got != "http://a.example/a?b[accept] 200 4 true true true" && got != "http://a.example/a?b[Accept] 200 4 true true true" {
		t.Error(got)
	}
	if list, n := h.Cache.List("", 1); n != 2 || len(list) != 1 {
		t.Errorf("%d, %+v", n, list)
	}
	if list := h.Cache.Of("http", "b.example:81", "/c"); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	if n, _ := h.Cache.Purge("/upstream/c", false); n != 1 { // by what went upstream too
		t.Errorf("%d", n)
	}
}
