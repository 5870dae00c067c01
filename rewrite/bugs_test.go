package rewrite

import (
	"strings"
	"testing"
)

// decided is what rules make of a request, with the findings of severity Fault.
func decided(t *testing.T, rules, request string) (outcome string, faults []string) {
	t.Helper()
	p, problems := Compile(Source{Text: rules, File: "rules", Dir: "/srv/html"})
	for _, q := range problems {
		if q.Severity == Fault {
			faults = append(faults, q.String())
		}
	}
	out := p.Run(asked(t, request, ""), &Host{DocRoot: "/srv/html"})
	return describe(&out), faults
}

// What a client sends never ends the request line to an upstream.
func TestG51ProxyTargetIsOneRequest(t *testing.T) {
	got, _ := decided(t, `RewriteRule ^/here/((?:.|\n)*) http://upstream/elsewhere?$1 [P]`,
		"GET /here/a%20HTTP/1.1%0d%0aX:%20y%0d%0a%0d%0aGET%20/admin")
	if want := "[P] http upstream /elsewhere?a%20HTTP/1.1%0D%0AX:%20y%0D%0A%0D%0AGET%20/admin"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// An escape of a rule is not escaped again.
func TestG52EscapeInARuleStays(t *testing.T) {
	got, _ := decided(t, "RewriteRule ^/entities/([^/]*)/(.*)$ http://app/entities/$1%2F$2 [P]", "GET /entities/a/b")
	if want := "[P] http app /entities/a%2Fb"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Long names of flags are whole names.
func TestG53LongFlagNames(t *testing.T) {
	f := func(flag, want string) {
		t.Helper()
		got, faults := decided(t, "RewriteRule ^/a$ /b ["+flag+"]\nRewriteRule ^/b$ /c%26 [R]", "GET http://h.test/a")
		if got != want || len(faults) > 0 {
			t.Errorf("[%s]: %s %v, want %s", flag, got, faults, want)
		}
	}
	for _, flag := range []string{"next", "nosubreq", "noescape", "N=3", "nocase"} {
		f(flag, "302 http://h.test/c%26")
	}
	if _, faults := decided(t, "RewriteRule ^/a$ /b [nextever]", "GET /a"); len(faults) != 1 || !strings.Contains(faults[0], "rules:1:") {
		t.Errorf("unknown flag: %v", faults)
	}
}

// Paths of [P] go on as the client has escaped them, or are escaped once; no blank is
// sent raw, with [NE] neither.
func TestFault8EscapesOfProxyTargets(t *testing.T) {
	f := func(flags, request, want string) {
		t.Helper()
		got, _ := decided(t, "RewriteRule ^/px/(.*)$ http://app/$1 ["+flags+"]", request)
		if got != "[P] http app "+want {
			t.Errorf("%s [%s]: %s, want %s", request, flags, got, want)
		}
	}
	f("P", "GET /px/a%3Fb", "/a%3Fb")
	f("P", "GET /px/a%20b?c=%2F", "/a%20b?c=%2F")
	f("P,NE", "GET /px/a%20b", "/a%20b")
	f("P,B", "GET /px/a%20b", "/a%20b")
	f("P", "GET /px/a%2Fb%2fc", "/a%2Fb%2fc") // an escaped slash is none
	f("P", "GET /px/a%2Fb%25c%252F%C3%A4?%2F", "/a%2Fb%25c%252F%C3%A4?%2F")
	f("P", "GET /px%2Fa%2Fb", "/a/b") // the rule is about one
	f("P", "GET /px/./a%2Fb", "/a/b") // what was taken out stays out
	f("P", "GET /px//a%2Fb", "/a/b")
	f("P", "GET /px/a%2F..%2Fb", "/b")
	f("P", "GET /px/a%2F..%2F..%2Fpx/b", "/b")
	f("P,B", "GET /px/a%2Fb", "/a%2Fb")
}

// What a client writes makes no redirect to another host, whatever it begins with.
func TestRedirectsOfRulesStayHere(t *testing.T) {
	f := func(rule, request, want string) {
		t.Helper()
		if got, _ := decided(t, "RewriteRule "+rule, request); got != want {
			t.Errorf("%s, %s: %s, want %s", rule, request, got, want)
		}
	}
	for _, flags := range []string{"[R]", "[R,NE]"} {
		f("^/r(.*)$ $1 "+flags, "GET http://h.test/r//evil.test", "302 http://h.test/evil.test")
		f("^/r(.*)$ $1 "+flags, "GET http://h.test/r%2F%2Fevil.test", "302 http://h.test/evil.test")
		f("^/r(.*)$ $1 "+flags, "GET http://h.test/r%5C%5Cevil.test", "302 http://h.test/%5C%5Cevil.test")
		f("^/r/(.*)$ /$1 "+flags, "GET http://h.test/r/%5Cevil.test", "302 http://h.test/%5Cevil.test")
		f("^/r/(.*)$ $1 "+flags, "GET http://h.test/r/https:/evil.test", "302 http://h.test/https:/evil.test")
		f("^/r/(.*)$ $1 "+flags, "GET /r/%5Cevil.test", "302 /%5Cevil.test") // without a Host
		f("^/r(.*)$ /$1 "+flags, "GET /r//evil.test", "302 /evil.test")
		f("^/q$ /%{QUERY_STRING} "+flags, "GET /q?/evil.test", "302 /evil.test?/evil.test")
	}
}

// Variables of a page cache have one spelling and all their values (docs/rules.md).
func TestVariablesOfTheCache(t *testing.T) {
	p := program(t, `RewriteRule ^ - [E=cache-control:max-age=60,E=CACHE-CTRL:public,E=cache-control:vary=mobile,E=Cache-vary:lang]
RewriteRule ^ - [E=cache-vary:theme,E=cache-key-mod:-qs:utm,E=Cache-Key-Mod:-qs:gclid,E=dontlog:1,E=!CACHE-CONTROL]
RewriteRule ^ - [E=cache-control:no-cache]`)
	x := asked(t, "GET /x HTTP/1.1", "")
	p.Run(x, &Host{})
	want := map[string]string{"Cache-Control": "no-cache", "Cache-Vary-Value": "mobile", "Cache-Vary": "lang,theme", "Cache-Key-Mod": "-qs:utm,-qs:gclid", "dontlog": "1"}
	if len(x.Env) != len(want) {
		t.Errorf("%v", x.Env)
	}
	for _, f := range x.Env {
		if want[f.Name] != f.Value {
			t.Errorf("%s is %q, want %q", f.Name, f.Value, want[f.Name])
		}
	}
}
