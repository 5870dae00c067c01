package forward

import (
	"regexp"
	"strings"
	"testing"

	"httpjet/docroot"
	"httpjet/exchange"
)

// sent is what goes to the upstream for a target, or the status and the token of
// the refusal.
func sent(t *testing.T, o PathOptions, target string) string {
	t.Helper()
	p, err := NewPath(o)
	if err != nil {
		t.Fatal(err)
	}
	x := request(wire{}, "")
	x.Req.Target = target
	if path, query, err := docroot.CleanPath(target); err == nil {
		x.Req.Path, x.Req.Query = path, query
	}
	hop := Options{Path: p}
	got, err := hop.Target(x)
	if err != nil {
		return strings.TrimLeft(exchange.ReasonOf(err), " ")
	}
	return got
}

// R-CTX-7: the prefix goes at a segment boundary of the escaped path, which stays
// as the client wrote it.
func TestStripPrefix(t *testing.T) {
	f := func(strip, target, want string) {
		t.Helper()
		if got := sent(t, PathOptions{Strip: strip}, target); got != want {
			t.Errorf("%s of %s: %s, want %s", strip, target, got, want)
		}
	}
	f("/api", "/api/x%2Fy;v=1/%7E?q=%zz", "/x%2Fy;v=1/%7E?q=%zz")
	f("/api/", "/api/x", "/x")
	f("/api", "/api", "/")
	f("/api", "/api?q", "/?q")
	f("/api", "/api/?", "/?")
	f("/api", "/apikeys/x", "/apikeys/x")
	f("/api", "/x/api/y", "/x/api/y")
	f("/api/v1", "/api/v1/x", "/x")
	f("/api/v1", "/api/v10", "/api/v10")
	f("/api/v1", "/api", "/api")
	f("/", "/api", "/api")
	f("/", "//api", "//api")
	f("/caf\xc3\xa9", "/caf%C3%A9/x", "/x")
	// How the prefix is spelt does not decide whether it goes.
	f("/api", "/%61pi/x", "/x")
	f("/api", "//api//x//y", "/x//y")
	f("/api", "/api%2Fx", "/x")
	f("/api", "/api%2f%2Fevil.test", "/evil.test")
	f("/api", "/api//evil.test", "/evil.test")
	f("/api/v1", "/api%2Fv1/x", "/x")
	f("/api", "/API/x", "/API/x")
	f("/api", "/api/../x", "bad_request") // R-RW-7
	f("/api", "/api/%2e%2e/x", "bad_request")
}

// R-CTX-7, R-CTX-3: one substitution, after the prefix is gone.
func TestPathRewrite(t *testing.T) {
	f := func(strip, pattern, replacement, target, want string) {
		t.Helper()
		o := PathOptions{Strip: strip, Pattern: regexp.MustCompile(pattern), Replacement: replacement}
		if got := sent(t, o, target); got != want {
			t.Errorf("%s -> %s of %s: %s, want %s", pattern, replacement, target, got, want)
		}
	}
	f("", "^/legacy/(.*)$", "/v2/$1", "/legacy/a?b=c", "/v2/a?b=c")
	f("", "^/legacy/(.*)$", "/v2/$1", "/other//a%7E", "/other//a%7E") // no match: as it came
	f("/api", "^/legacy/(.*)$", "/v2/$1", "/api/legacy/a", "/v2/a")
	f("", "/a", "/b", "/a/a", "/b/a") // once
	f("", "(?P<x>b)(c)?", "/${x}$2$1$$${1}0", "/abc", "/a/bcb$b0")
	f("", "^/x(?P<n>[0-9]+)$", "/$n/1", "/x17", "/17/1")
	f("", "^/a/(b)?", "/$1", "/a/", "/")
	// G52: what is escaped stays escaped once.
	f("", "^/entities/([^/]*)/(.*)$", "/entities/$1%2F$2", "/entities/a%2Fb/c%20d", "/entities/a%2Fb%2Fc%20d")
	f("", "^/e/(.*)$", "/$1", "/e/100%25", "/100%25")
	f("", "^/e/(.*)$", "/$1", "/e/%252e%252e/x", "/%252e%252e/x")
	// Equal spellings are matched alike.
	f("", "^/legacy/(.*)$", "/v2/$1", "/%6cegacy//x%2fy", "/v2/x%2Fy")
	f("", "^/legacy/(.*)$", "/v2/$1", "//legacy/x", "/v2/x")
	// G51: nothing of a path gets out of its place in the request line.
	f("", "^/here/(.*)", "/elsewhere/$1", "/here/a%20HTTP/1.1%0d%0aX:%20y%0d%0a%0d%0aGET%20/admin", "/elsewhere/a%20HTTP/1.1%0D%0AX:%20y%0D%0A%0D%0AGET%20/admin")
	f("", "^/here/(.*)", "/elsewhere/$1", "/here/a%3Fb%23c", "/elsewhere/a%3Fb%23c")
	f("", "^/x(.*)$", "/$1", "/x/evil.test", "/evil.test")
	// A result that may not be sent.
	f("", "^/x-(.*)$", "/$1", "/x-../admin", "bad_rewrite")
	f("", "^/x-(.*)$", "/$1", "/x-..%2fadmin", "bad_rewrite")
	f("", "^/(..)(.*)$", "/$2", "/%20b", "/0b")
	f("", "^/(..)(.*)$", "/$2%41$1", "/%20b", "bad_rewrite")
	f("", "^(/a)?", "$1", "/b", "/b")
	f("", "^/(a)?b", "$1c", "/b", "bad_rewrite")
	f("", "^/x(00)$", "/%25$1", "/x00", "/%2500")
}

// R-CTX-3: the names of the context's uri may be used; their values are decoded
// and are escaped again, once.
func TestRewriteWithNamesOfURI(t *testing.T) {
	uri := regexp.MustCompile("^/users/(?P<id>[^/]+)/(?P<rest>(?s:.*))$")
	f := func(replacement, target, want string) {
		t.Helper()
		o := PathOptions{Pattern: regexp.MustCompile("^.*$"), Replacement: replacement, URI: uri}
		if got := sent(t, o, target); got != want {
			t.Errorf("%s of %s: %s, want %s", replacement, target, got, want)
		}
	}
	f("/u-$id/${rest}", "/users/5/a/b?q", "/u-5/a/b?q")
	f("/${id}", "/users/a%20b%3F%0d%0a%25/x", "/a%20b%3F%0D%0A%25")
	f("/${rest}/", "/users/5/%2541", "/%2541/")
	f("/x/$id", "/users/..;/x", "bad_request")
	f("/x$id", "/users/5/", "/x5")
}

// R-CTX-7: a replacement that cannot be meant fails the load.
func TestBadReplacements(t *testing.T) {
	f := func(replacement, why string) {
		t.Helper()
		_, err := NewPath(PathOptions{Pattern: regexp.MustCompile("(a)(?P<n>b)"), Replacement: replacement, URI: regexp.MustCompile("^/(?P<id>x)")})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", replacement, err)
		}
	}
	f("", "start with /")
	f("x", "start with /")
	f("$$/", "start with /")
	f("$id", "start with /")
	f("/$", "begins $1")
	f("/$-", "begins $1")
	f("/${id", "begins $1")
	f("/$3", "group 3")
	f("/$0", "group 0")
	f("/$99999999999999999999", "group 9999")
	f("/$who", "group who")
	f("/a?b", "query")
	f("/a#b", "query")
	f("/a b", "escaped")
	f("/a\\b", "escaped")
	f("/\xc3\xa9", "escaped")
	f("/100%", "begins an escape")
	f("/%zz", "begins an escape")
}

// FuzzPath: whatever the client writes, one request line with one path goes on.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/api/x", "/%61pi%2f%2e%2e/", "/api/a%0d%0ab?c d", "/api//..;/x", "/api/%e9?%", "//api"} {
		f.Add(s)
	}
	p, err := NewPath(PathOptions{Strip: "/api", Pattern: regexp.MustCompile("^/?(.)(?P<n>.*)$"), Replacement: "/n$n/$id$1",
		URI: regexp.MustCompile("(?s)(?P<id>.*)")})
	if err != nil {
		f.Fatal(err)
	}
	hop := Options{Path: p}
	f.Fuzz(func(t *testing.T, target string) {
		x := request(wire{}, "")
		x.Req.Target = target
		path, query, err := docroot.CleanPath(target)
		if err != nil {
			return
		}
		x.Req.Path, x.Req.Query = path, query
		got, err := hop.Target(x)
		if err != nil {
			return
		}
		if unsafeTarget(got) != "" || strings.HasPrefix(got, "//") || strings.ContainsAny(got, " \r\n\x00") {
			t.Errorf("%q became %q", target, got)
		}
		if _, query, has := strings.Cut(got, "?"); has != strings.Contains(target, "?") || query != x.Req.Query {
			t.Errorf("%q became %q: another query", target, got)
		}
	})
}
