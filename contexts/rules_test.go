package contexts

import (
	"strings"
	"testing"

	"httpjet/exchange"
	"httpjet/rewrite"
)

// ruled is a virtual host with rules of its own and of contexts, by uri.
func ruled(t *testing.T, host string, rules map[string]string, list ...*Context) *VHost {
	t.Helper()
	compile := func(text, prefix string) *rewrite.Program {
		p, problems := rewrite.Compile(rewrite.Source{Text: text, File: "rules", Prefix: prefix, Dir: "/srv" + prefix})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return p
	}
	v := &VHost{RulesHost: &rewrite.Host{DocRoot: "/srv"}, Targets: map[*rewrite.Target]*Target{},
		Static: exchange.HandlerFunc(func(x *exchange.Exchange) error { return nil })}
	add := func(p *rewrite.Program) *rewrite.Program {
		for _, to := range p.Targets() {
			v.Targets[to] = &Target{Group: to.Authority, Serves: exchange.Proxy}
		}
		return p
	}
	if host != "" {
		v.Rules = add(compile(host, ""))
	}
	for _, c := range list {
		if text := rules[c.URI]; text != "" {
			c.Rules = append(c.Rules, add(compile(text, c.URI)))
		}
	}
	v.SetContexts(list)
	return v
}

func TestRules(t *testing.T) {
	app := exchange.HandlerFunc(func(x *exchange.Exchange) error { return nil })
	var v *VHost
	f := func(path, want string) {
		t.Helper()
		x := &exchange.Exchange{}
		x.Req = exchange.Request{Method: "GET", Path: path, Target: path, Scheme: "http", Host: "a.test"}
		p, err := v.rewrite(x, nil, nil)
		got := x.Req.Path
		if x.Req.Query != "" {
			got += "?" + x.Req.Query
		}
		if err == nil {
			var r route
			if r, err = v.choose(x, nil, p, nil); err == nil {
				got += " " + r.label
				if r.target != "" {
					got += " " + x.Route.Group + r.target
				}
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}

	// R-RW-1: rules of contexts run behind those of the virtual host, and never where
	// the path then lies in a context of another type.
	v = ruled(t, "RewriteRule ^/v/(.*)$ /$1\nRewriteRule ^/e/(.*)$ /$1 [END]", map[string]string{"/": "RewriteRule (.*) index.php?q=$1 [L]"},
		&Context{URI: "/"}, &Context{URI: "/api/", Kind: Proxy, Handler: app}, &Context{URI: "/go/", Kind: Redirect, Handler: app},
		&Context{URI: "/fc/", Kind: App, Handler: app}, &Context{URI: "/lost/", Kind: Proxy})
	f("/x", "/index.php?q=x /")
	f("/v/x", "/index.php?q=x /")
	f("/e/x", "/x /")
	f("/api/x", "/api/x /api/")
	f("/v/api/x", "/api/x /api/")
	f("/go/x", "/go/x /go/")
	f("/fc/x", "/fc/x /fc/")
	f("/lost/x", "/lost/x static")

	// Contexts are searched again; the rules of one do not run twice in a row, and at
	// most ten contexts follow one another (R-RW-2).
	v = ruled(t, "", map[string]string{"/a/": "RewriteRule ^x /b/x", "/b/": "RewriteRule ^x /c/x", "/c/": "RewriteRule ^x x2",
		"/l/": "RewriteRule (.*) /r/$1", "/r/": "RewriteRule (.*) /l/$1"},
		&Context{URI: "/a/"}, &Context{URI: "/b/"}, &Context{URI: "/c/"}, &Context{URI: "/l/"}, &Context{URI: "/r/"})
	f("/a/x", "/c/x2 /c/")
	f("/a", "redirect") // to its slash first
	f("/l/x", "bad_rewrite: rules have led from place to place over 10 times, last from /l/x")

	// D-1, R-P-2: a proxy context wins over [P], which wins over files.
	v = ruled(t, "RewriteRule ^/(.*)$ http://up/$1 [P]", nil, &Context{URI: "/api/", Kind: Proxy, Handler: app}, &Context{URI: "/files/"},
		&Context{URI: "/lost/", Kind: Proxy})
	f("/api/x", "/api/x /api/")
	f("/files/x", "/files/x [P] up/files/x")
	f("/lost/x", "/lost/x [P] up/lost/x")
	f("/x", "/x [P] up/x")

	// What rules make is cleaned as a request is (R-RW-7), and hidden names stay hidden.
	v = ruled(t, "RewriteRule ^/c/(.*)$ /d/../$1//x\nRewriteRule ^/up$ /../x\nRewriteRule ^/git$ /.git/config", nil)
	f("/c/y", "/y/x static")
	f("/up", "bad_request: path climbs above the root")
	f("/git", "access_denied: hidden name in the path")
}

// The guards of the requested path and of the rewritten one hold both (dispatch rows
// 11 and 13b), also for [P].
func TestGuardsHoldForBothPaths(t *testing.T) {
	v := ruled(t, "RewriteRule ^/shut/(.*)$ /open/$1\nRewriteRule ^/to/(.*)$ /shut/$1\nRewriteRule ^/p/(.*)$ http://up/$1 [P]\nRewriteRule ^/open/p$ http://up/ [P]", nil,
		&Context{URI: "/shut/", NoBrowse: true}, &Context{URI: "/p/shut/", NoBrowse: true})
	v.IsUpgrade = func(*exchange.Exchange) bool { return false }
	for _, path := range []string{"/shut/x", "/to/x", "/p/shut/x", "/shut/p"} {
		x := &exchange.Exchange{}
		x.Req = exchange.Request{Method: "GET", Path: path, Target: path, Scheme: "http"}
		if err := v.serve(x, &Table{}); err == nil || !strings.Contains(err.Error(), "allowBrowse 0") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The Host of [P] is the variable's Proxy-Host, however it is written (reference 3).
func TestProxyHost(t *testing.T) {
	f := func(rule, want string) {
		t.Helper()
		v := ruled(t, rule, nil)
		v.IsUpgrade = func(*exchange.Exchange) bool { return false }
		for _, to := range v.Targets {
			to.Handler = exchange.HandlerFunc(func(*exchange.Exchange) error { return nil })
		}
		x := &exchange.Exchange{}
		x.Req = exchange.Request{Method: "GET", Path: "/x y", Target: "/x%20y", Scheme: "http", Host: "a.test"}
		if err := v.serve(x, &Table{}); err != nil || x.Req.UpstreamHost != want || x.Req.Rewritten != "/x%20y" {
			t.Errorf("%s: %q %q %v", rule, x.Req.UpstreamHost, x.Req.Rewritten, err)
		}
	}
	f("RewriteRule ^(.*)$ http://app/$1 [P,L,E=proxy-host:b.test]", "b.test")
	f("RewriteRule ^(.*)$ HTTP://app/$1 [P,L,E=PROXY-HOST:b.test:80]", "b.test:80")
	f("RewriteRule ^(.*)$ http://app/$1 [E=Proxy-Host:b.test,P]", "b.test")
	f("RewriteRule ^(.*)$ http://app/$1 [P,E=Proxy-Host:$1]", "")
	f("RewriteRule ^(.*)$ http://app/$1 [P]", "")
}

// Cookies of rules are in the answer, whoever answers.
func TestCookiesOfRules(t *testing.T) {
	v := ruled(t, "RewriteRule ^/r$ /to [CO=a:1:,R,L]\nRewriteRule ^/c$ - [CO=b:2:]", nil)
	x := &exchange.Exchange{}
	x.Req = exchange.Request{Method: "GET", Path: "/r", Target: "/r", Scheme: "http"}
	_, err := v.rewrite(x, nil, nil)
	e, ok := err.(*exchange.Error)
	if !ok || e.Status != 302 || len(e.Fields) != 2 || e.Fields[1].Value != "a=1; path=/" {
		t.Errorf("%+v", err)
	}
	x = &exchange.Exchange{}
	x.Req = exchange.Request{Method: "GET", Path: "/c", Target: "/c", Scheme: "http"}
	if _, err := v.rewrite(x, nil, nil); err != nil {
		t.Fatal(err)
	}
}
