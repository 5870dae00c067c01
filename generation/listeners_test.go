package generation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"httpjet/docroot"
	"httpjet/exchange"
	"httpjet/xmlconf"
)

// R-LSN-1: * is every address, of IPv6 too unless a listener has the port there;
// R-CLI-3: addresses of the command line take the place of the first listeners.
func TestListeners(t *testing.T) {
	f := func(listeners string, opt Options, want ...string) {
		t.Helper()
		r := newLeaseTree(t)
		var xml strings.Builder
		for i, l := range strings.Fields(listeners) {
			fmt.Fprintf(&xml, "<listener><name>L%d</name><address>%s</address></listener>", i+1, l)
		}
		r.write("conf/httpd_config.xml", strings.Replace(leaseServer, "</httpServerConfig>", xml.String()+"</httpServerConfig>", 1))
		fs := &xmlconf.Findings{}
		g := Build(xmlconf.LoadServer(r.root, fs), &r.kept, opt, fs)
		defer g.Retire()
		var got []string
		for _, l := range g.Listeners {
			got = append(got, l.Name+" "+l.Key())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %+v: %q, want %q", listeners, opt, got, want)
		}
	}
	f("*:80", Options{}, "L1 http tcp :80")
	f("*:80 [ANY]:80", Options{}, "L1 http tcp4 0.0.0.0:80", "L2 http tcp6 [::]:80")
	f("*:80 [::1]:80", Options{}, "L1 http tcp4 0.0.0.0:80", "L2 http tcp [::1]:80")
	f("*:80 [ANY]:81", Options{}, "L1 http tcp :80", "L2 http tcp6 [::]:81")
	f("192.0.2.1:80 *:80", Options{}, "L1 http tcp 192.0.2.1:80", "L2 http tcp :80")
	f("*:80 0.0.0.0:80", Options{}, "L1 http tcp :80")
	f("*:80 *:81", Options{HTTPAddr: "127.0.0.1:0"}, "L1 http tcp 127.0.0.1:0")
	f("*:80 *:81", Options{HTTPSAddr: "127.0.0.1:0"})
	f("", Options{})
}

// redirectTo is the destination of a redirect context without an expression.
func redirectTo(location, uri string, x *exchange.Exchange) string {
	to, _ := newDestination(location, uri, nil, true).expand(x)
	return to
}

// The destination of a redirect context takes the rest of the path as the client
// wrote it, and never leads to another origin than the one that is configured.
func TestRedirectDestination(t *testing.T) {
	f := func(target, path, want string) {
		t.Helper()
		x := &exchange.Exchange{}
		x.Req.Target, x.Req.Path = target, path
		_, x.Req.Query, _ = strings.Cut(target, "?")
		if got := redirectTo("https://new.test/base/", "/old/", x); got != want {
			t.Errorf("%s leads to %s, want %s", target, got, want)
		}
	}
	f("/old/", "/old/", "https://new.test/base/")
	f("/old/a%2Fb?q=1", "/old/a/b", "https://new.test/base/a%2Fb?q=1")
	f("/old//evil.test/", "/old/evil.test/", "https://new.test/base//evil.test/")
	f("/x/../old/a b", "/old/a b", "https://new.test/base/a%20b")
	f("/%6fld/a", "/old/a", "https://new.test/base/a")

	f = func(target, location, want string) {
		t.Helper()
		uri, x := "/old/", &exchange.Exchange{}
		if strings.HasPrefix(target, "/bare") {
			uri = "/bare"
		}
		x.Req.Target = target
		x.Req.Path, _, _ = docroot.CleanPath(target)
		if got := redirectTo(location, uri, x); got != want {
			t.Errorf("%s at %s leads to %s, want %s", target, location, got, want)
		}
	}
	f("/old/.evil.test/", "https://new.test", "https://new.test/.evil.test/")
	f("/old/@evil.test/", "https://new.test:81", "https://new.test:81/@evil.test/")
	f("/bare%2f@evil.test/", "https://new.test", "https://new.test/%2f@evil.test/")
	f("/bare/x", "https://new.test", "https://new.test/x")
	f("/bare", "https://new.test", "https://new.test")
	f("/bare/x", "//new.test", "//new.test/x")
	f("/old//evil.test/", "/", "/evil.test/")
	f("/old///evil.test/", "/", "/evil.test/")
	f(`/old/\evil.test/`, "/", "/%5Cevil.test/")
	f("/old//x", "/new/", "/new//x")
	f("/old/x", "https://new.test?from=", "https://new.test?from=x")
}
