package generation

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
)

// R-DNS-1, R-DNS-2: a build looks nothing up; clients of every kind, probes and
// tunnels share what is known of a name, and a reload keeps it.
func TestAllDialsShareTheResolver(t *testing.T) {
	r := newLeaseTree(t)
	resolver := extproc.NewResolver(&net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server")
	}})
	defer resolver.Close()
	resolver.Configure(extproc.ResolverOptions{NegativeTTL: time.Hour})
	r.kept.Dialer.Resolver = resolver
	one := strings.ReplaceAll(leaseOne, "127.0.0.1", "app.test")
	r.write("conf/one.xml", strings.Replace(one, "uds://tmp/php.sock", "app.test:9000", 1))
	r.write("conf/httpd_config.xml", strings.Replace(leaseServer, "127.0.0.1", "app.test", 1))
	g1, fs := r.build()
	if fs.Failed() {
		t.Fatal(fs.All())
	}
	if s := resolver.Stats(); s.Names != 0 {
		t.Errorf("a build has looked up: %+v", s)
	}
	dials := func() {
		t.Helper()
		f := func(what string, err error) {
			t.Helper()
			if e, ok := errors.AsType[*net.DNSError](err); !ok || e.Name != "app.test" {
				t.Errorf("%s: %v", what, err)
			}
		}
		call := &extproc.Call{Method: "GET", URI: "/", Fields: &exchange.Fields{}, Params: &exchange.Fields{}}
		for _, c := range r.kept.Proxies.Values() {
			_, err := c.Do(t.Context(), call)
			f("proxy", err)
			_, _, err = c.(*extproc.H1Client).Dial(t.Context())
			f("tunnel", err)
			f("probe", c.Probe(t.Context(), extproc.Probe{}))
		}
		for _, c := range r.kept.Apps.Values() {
			_, err := c.Do(t.Context(), call)
			f("FastCGI", err)
		}
		if s := resolver.Stats(); s.Names != 1 || s.Failure != 1 {
			t.Errorf("%+v, want one lookup of one name", s)
		}
	}
	dials()
	r.write("conf/two.xml", leaseTwo+"\n")
	g2, _ := r.build()
	g1.Retire()
	defer g2.Retire()
	dials()
}

// <tuning> has the times and the number of lookups.
func TestNamesOfTuning(t *testing.T) {
	r := newLeaseTree(t)
	f := func(tuning string, want extproc.ResolverOptions) {
		t.Helper()
		r.write("conf/httpd_config.xml", strings.Replace(leaseServer, "<httpServerConfig>", "<httpServerConfig><tuning>"+tuning+"</tuning>", 1))
		g, fs := r.build()
		defer g.Retire()
		if g.Names != want || fs.Failed() {
			t.Errorf("%s: %+v", tuning, g.Names)
		}
	}
	f("", extproc.ResolverOptions{Refresh: 10 * time.Second, StaleMax: 24 * time.Hour, NegativeTTL: time.Second, Concurrency: 4})
	f("<dnsRefresh>60</dnsRefresh><dnsStaleMax>0</dnsStaleMax><dnsNegativeTTL>5</dnsNegativeTTL><dnsConcurrency>64</dnsConcurrency>",
		extproc.ResolverOptions{Refresh: time.Minute, NegativeTTL: 5 * time.Second, Concurrency: 64})
}
