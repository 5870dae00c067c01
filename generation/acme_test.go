package generation

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"httpjet/acme"
	"httpjet/xmlconf"
)

// LiteSpeed's switches for automatic certificates: acme of tuning for all hosts, acme of
// a vhssl for one; acme of the server stands for tuning 1. Files come first.
func TestACMESwitches(t *testing.T) {
	const maps = `<vhostMap><vhost>one</vhost><domain>one.test, *.one.test, WWW.one.test, 192.0.2.1, localhost</domain></vhostMap>
		<vhostMap><vhost>two</vhost><domain>two.test, one.test, *</domain></vhostMap>`
	both, ones := []string{"one.test", "two.test", "www.one.test"}, []string{"one.test", "www.one.test"}
	f := func(server, ssl string, want []string, warned string) {
		t.Helper()
		r := newLeaseTree(t)
		r.kept.ACME = &acme.Manager{}
		r.write("conf/one.xml", strings.Replace(leaseOne, "<docRoot>", ssl+"<docRoot>", 1))
		r.writePair("own.test", 90*24*3600e9)
		r.write("conf/httpd_config.xml", strings.Replace(leaseServer, "</httpServerConfig>", server+`<listener><name>P</name><address>*:80</address>`+maps+`</listener>
			<listener><name>S</name><address>*:443</address><secure>1</secure><certFile>own.test.crt</certFile><keyFile>own.test.key</keyFile>`+maps+`</listener></httpServerConfig>`, 1))
		g, fs := r.build()
		defer g.Retire()
		got := slices.Sorted(slices.Values(g.ACMENames))
		if !slices.Equal(got, want) {
			t.Errorf("%s with %s: %q, want %q", server, ssl, got, want)
		}
		told := ""
		for _, x := range fs.All() {
			if x.Code == "W-ACME" {
				told = x.Message
			}
			if x.Severity == xmlconf.Error && x.Code != "E-MAP" || x.Code == "W-NOT-YET" {
				t.Errorf("%s with %s: %s %s", server, ssl, x.Code, x.Message)
			}
		}
		if warned == "" && told != "" || !strings.Contains(told, warned) {
			t.Errorf("%s with %s: told %q, want %q", server, ssl, told, warned)
		}
		if len(want) > 0 && (!g.ACME.Plain || !strings.HasSuffix(g.ACME.Dir, "/conf/acme")) {
			t.Errorf("%+v", g.ACME)
		}
	}
	tuning := func(n string) string { return "<tuning><acme>" + n + "</acme></tuning>" }
	host := func(n string) string { return "<vhssl><acme><enabled>" + n + "</enabled></acme></vhssl>" }
	f("", "", nil, "")
	f(tuning("0"), "", nil, "")
	f(tuning("1"), "", nil, "")
	f(tuning("1"), host("0"), nil, "")
	f(tuning("1"), host("2"), ones, "")
	f(tuning("2"), "", both, "")
	f(tuning("2"), host("0"), both, "")
	f(tuning("2"), host("1"), []string{"two.test"}, "")
	f(tuning("0"), host("2"), nil, "not enabled")
	f("", host("2"), nil, "not enabled")
	f("<acme><enable>1</enable><email>ops@one.test</email></acme>", host("2"), ones, "")
	f("<acme><enable>0</enable></acme>"+tuning("2"), "", nil, "")
	f("<acme><email>ops@one.test</email></acme>"+tuning("2"), "", both, "")
	files := "<certFile>$SERVER_ROOT/own.test.crt</certFile><keyFile>$SERVER_ROOT/own.test.key</keyFile>"
	f(tuning("2"), "<vhssl>"+files+"</vhssl>", []string{"two.test"}, "")
	f(tuning("2"), "<vhssl>"+files+"<acme><enabled>2</enabled></acme></vhssl>", []string{"two.test"}, "certificate files")
}

// A host that only patterns lead to can have no certificate, and is told so.
func TestACMEWithoutExactNames(t *testing.T) {
	r := newLeaseTree(t)
	r.kept.ACME = &acme.Manager{}
	r.writePair("own.test", 90*24*3600e9)
	r.write("conf/one.xml", strings.Replace(leaseOne, "<docRoot>", "<vhssl><acme><enabled>2</enabled></acme></vhssl><docRoot>", 1))
	r.write("conf/httpd_config.xml", strings.Replace(leaseServer, "</httpServerConfig>", `<tuning><acme>1</acme></tuning><listener><name>S</name><address>*:443</address>
		<secure>1</secure><certFile>own.test.crt</certFile><keyFile>own.test.key</keyFile><vhostMap><vhost>one</vhost><domain>*.one.test</domain></vhostMap></listener></httpServerConfig>`, 1))
	g, fs := r.build()
	defer g.Retire()
	if len(g.ACMENames) > 0 || !slices.ContainsFunc(fs.All(), func(f xmlconf.Finding) bool {
		return f.Code == "W-ACME" && strings.Contains(f.Message, "no exact name")
	}) {
		t.Errorf("%q %v", g.ACMENames, fs.All())
	}
}

// Until its certificate is issued, a name shows that of the listener.
func TestACMEUntilIssued(t *testing.T) {
	r := newLeaseTree(t)
	r.kept.ACME = &acme.Manager{}
	r.writePair("own.test", 90*24*3600e9)
	r.write("conf/httpd_config.xml", strings.Replace(leaseServer, "</httpServerConfig>", `<tuning><acme>2</acme></tuning><listener><name>S</name><address>*:443</address>
		<secure>1</secure><certFile>own.test.crt</certFile><keyFile>own.test.key</keyFile><enableStapling>1</enableStapling>
		<vhostMap><vhost>one</vhost><domain>one.test</domain></vhostMap></listener></httpServerConfig>`, 1))
	g, _ := r.build()
	defer g.Retire()
	hello := &tls.ClientHelloInfo{ServerName: "one.test", SupportedVersions: []uint16{tls.VersionTLS13}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}}
	conf, err := g.TLS(g.Listeners[0].Key(), hello)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := conf.GetCertificate(hello)
	if err != nil || len(cert.OCSPStaple) > 0 || cert.Leaf.VerifyHostname("own.test") != nil {
		t.Errorf("%v %v", cert, err)
	}
}
