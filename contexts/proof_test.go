package contexts

import (
	"crypto/tls"
	"strings"
	"testing"

	"httpjet/access"
	"httpjet/exchange"
	"httpjet/rewrite"
)

// R-ACME-1, dispatch row 4: what an ACME server is to find in clear text comes before
// redirects, client certificates, access lists, rates, suspension, rewrite rules and
// passwords; nothing else below that path does.
func TestProofComesFirst(t *testing.T) {
	s := newSite(t)
	const path = acmePath + "token"
	s.Proof = func(host, p string) (string, bool) { return "proof for " + host, p == path }
	rules, problems := rewrite.Compile(rewrite.Source{Text: "RewriteRule ^ - [F]"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	shut, _ := access.Compile("", "ALL")
	rate := access.NewRate(access.RateOptions{Scope: "global", PerMinute: 1, Burst: 1, Most: 10, Prefix: 64})
	with := map[string]func(){
		"nothing":     func() {},
		"redirect":    func() { s.HTTPS = map[string]HTTPS{"l": {Status: 301, Port: 443}} },
		"certificate": func() { s.v.CertPort = 443 },
		"access":      func() { s.Access, s.v.Access = shut, shut },
		"rate":        func() { s.Rate, s.v.Rate = rate, rate },
		"rules":       func() { s.v.Rules = rules },
		"context":     func() { s.v.SetContexts([]*Context{{URI: "/", Kind: Proxy, Handler: says("leak"), Closed: "realm"}}) },
		"suspended":   func() { s.v.Suspended = true },
	}
	for _, what := range []string{"nothing", "redirect", "certificate", "access", "rate", "rules", "context", "suspended"} {
		with[what]()  // one more each time
		for range 3 { // more than the rate allows
			if status, body, x := s.ask(t, "192.0.2.1", "GET "+path); status != 200 || body != "proof for v.test" || x.Route.Label != "acme" {
				t.Errorf("behind %s: %d %q", what, status, body)
			}
		}
		if status, body, _ := s.ask(t, "192.0.2.1", "GET "+path+"\nHost: nobody.test:80"); status != 200 || body != "proof for nobody.test" {
			t.Errorf("behind %s, for an unmapped host: %d %q", what, status, body)
		}
		for _, other := range []string{"GET " + acmePath + "other", "GET " + acmePath + "../../a.txt", "GET " + strings.ToUpper(path), "POST " + path, "GET " + path + "\nHost: a b"} {
			if _, body, _ := s.ask(t, "192.0.2.1", other); strings.Contains(body, "proof") {
				t.Errorf("behind %s: %q is answered %q", what, other, body)
			}
		}
	}
	if status, body, _ := s.ask(t, "192.0.2.1", "HEAD "+path); status != 200 || body != "" {
		t.Errorf("HEAD: %d %q", status, body)
	}
	// Over TLS nobody asks for it: the path is the application's.
	w := &wire{}
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Listener, x.Req.Scheme, x.Req.TLS = "GET", path, "v.test", "l", "https", &tls.ConnectionState{}
	exchange.Run(x, s.Table)
	if strings.Contains(w.body.String(), "proof") {
		t.Error("a proof over TLS")
	}
}
