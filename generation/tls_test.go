package generation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"httpjet/xmlconf"
)

// writePair writes name.crt and name.key for a domain, good for a time from now.
func (r *leaseTree) writePair(name string, life time.Duration) {
	r.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: now.Add(-90 * 24 * time.Hour), NotAfter: now.Add(life)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		r.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	r.write(name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// R-CHECK-5: a certificate that ends within 14 days is told, and still used.
func TestCertificateExpiry(t *testing.T) {
	f := func(life time.Duration, told bool) {
		t.Helper()
		r := newLeaseTree(t)
		r.writePair("own.test", life)
		r.write("conf/httpd_config.xml", strings.Replace(leaseServer, "</httpServerConfig>", `<listener><name>S</name><address>*:443</address>
			<secure>1</secure><certFile>own.test.crt</certFile><keyFile>own.test.key</keyFile></listener></httpServerConfig>`, 1))
		g, fs := r.build()
		defer g.Retire()
		got := false
		for _, f := range fs.All() {
			got = got || f.Code == "W-CERT-EXPIRY" && f.Severity == xmlconf.Warn && strings.HasSuffix(f.File, "httpd_config.xml") && f.Line > 1
		}
		if got != told || len(g.Listeners) != 1 || len(g.Degraded) != 0 {
			t.Errorf("life %v: told %v, want %v; listeners %v, degraded %v", life, got, told, g.Listeners, g.Degraded)
		}
	}
	f(13*24*time.Hour, true)
	f(-time.Hour, true)
	f(15*24*time.Hour, false)
}

// The name of a handshake chooses the certificate of the host that the listener
// maps it to; a host without one has the listener's.
func TestCertificateByName(t *testing.T) {
	r := newLeaseTree(t)
	r.writePair("listener.test", time.Hour)
	r.writePair("one.test", time.Hour)
	r.write("conf/one.xml", strings.Replace(leaseOne, "<docRoot>", "<vhssl><certFile>$SERVER_ROOT/one.test.crt</certFile><keyFile>$SERVER_ROOT/one.test.key</keyFile></vhssl><docRoot>", 1))
	r.write("conf/httpd_config.xml", strings.Replace(leaseServer, "</httpServerConfig>", `<listener><name>S</name><address>*:443</address>
		<secure>1</secure><certFile>listener.test.crt</certFile><keyFile>listener.test.key</keyFile>
		<vhostMap><vhost>one</vhost><domain>one.test, *.one.test</domain></vhostMap>
		<vhostMap><vhost>two</vhost><domain>two.test, *</domain></vhostMap></listener></httpServerConfig>`, 1))
	g, fs := r.build()
	defer g.Retire()
	if len(g.Listeners) != 1 {
		t.Fatal(fs.All())
	}
	f := func(name, want string) {
		t.Helper()
		conf, err := g.TLS(g.Listeners[0].Key(), &tls.ClientHelloInfo{ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		if got := conf.Certificates[0].Leaf.DNSNames[0]; got != want {
			t.Errorf("%q has the certificate of %s, want %s", name, got, want)
		}
	}
	f("one.test", "one.test")
	f("WWW.one.test", "one.test")
	f("sub.one.test", "one.test")
	f("two.test", "listener.test")
	f("unknown.test", "listener.test")
	f("", "listener.test")
	r.write("conf/httpd_config.xml", strings.NewReplacer("</httpServerConfig>", `<tuning><sslStrictSni>1</sslStrictSni></tuning><listener><name>S</name><address>*:443</address>
		<secure>1</secure><certFile>listener.test.crt</certFile><keyFile>listener.test.key</keyFile>
		<vhostMap><vhost>one</vhost><domain>one.test</domain></vhostMap></listener></httpServerConfig>`).Replace(leaseServer))
	strict, fs := r.build()
	defer strict.Retire()
	if _, err := strict.TLS(strict.Listeners[0].Key(), &tls.ClientHelloInfo{ServerName: "unknown.test"}); err == nil {
		t.Error("sslStrictSni: an unknown name has a certificate", fs.All())
	}
	for _, name := range []string{"one.test", ""} {
		if _, err := strict.TLS(strict.Listeners[0].Key(), &tls.ClientHelloInfo{ServerName: name}); err != nil {
			t.Errorf("sslStrictSni: %q: %v", name, err)
		}
	}
	if _, err := g.TLS("http tcp :80", &tls.ClientHelloInfo{ServerName: "one.test"}); err == nil {
		t.Error("a listener that is not there has a certificate")
	}
}
