package pagecache

import (
	"testing"
	"time"
)

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
