package tlsconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// issue writes name.crt and name.key to dir, signed by parent or by itself.
func issue(t *testing.T, dir, name string, parent *tls.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	by, signer := tmpl, any(key)
	if parent != nil {
		by, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, by, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	write(t, filepath.Join(dir, name+".crt"), certPEM)
	write(t, filepath.Join(dir, name+".key"), keyPEM)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestChainIsSent covers R-TLS-1: all certificates of the file, and those of a
// chain file, reach the client, and tickets resume a session.
func TestChainIsSent(t *testing.T) {
	dir := t.TempDir()
	root := issue(t, dir, "root", nil)
	mid := issue(t, dir, "mid", root)
	issue(t, dir, "leaf", mid)
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// The file ends without a line end: the chain must not stick to it.
	write(t, filepath.Join(dir, "bare.crt"), []byte(strings.TrimSpace(string(read("leaf.crt")))))
	write(t, filepath.Join(dir, "both.crt"), append(read("leaf.crt"), read("mid.crt")...))
	roots := x509.NewCertPool()
	roots.AddCert(root.Leaf)

	f := func(cert, chain string) {
		t.Helper()
		o := Options{CertFile: filepath.Join(dir, cert), KeyFile: filepath.Join(dir, "leaf.key"), Spdy: SpdyH2}
		if chain != "" {
			o.ChainFile = filepath.Join(dir, chain)
		}
		conf, err := Load(o)
		if err != nil {
			t.Fatal(err)
		}
		cache := tls.NewLRUClientSessionCache(1)
		for i := range 2 {
			cs := handshake(t, conf, &tls.Config{RootCAs: roots, ServerName: "leaf",
				NextProtos: []string{"h2"}, ClientSessionCache: cache})
			if len(cs.PeerCertificates) != 2 || cs.NegotiatedProtocol != "h2" {
				t.Errorf("%d certificates, ALPN %q", len(cs.PeerCertificates), cs.NegotiatedProtocol)
			}
			if cs.DidResume != (i == 1) {
				t.Errorf("handshake %d: resumed %v", i, cs.DidResume)
			}
		}
	}
	f("both.crt", "")
	f("bare.crt", "mid.crt")
	f("leaf.crt", "mid.crt")
}

// handshake connects, waits for one byte (and so for the ticket), and closes.
func handshake(t *testing.T, server, client *tls.Config) tls.ConnectionState {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		_, err := s.Write([]byte("x"))
		s.Close()
		done <- err
	}()
	c := tls.Client(b, client)
	defer c.Close()
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return c.ConnectionState()
}

func TestVersionsAndALPN(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "a", nil)
	f := func(protocols, spdy int, lowest, highest uint16, alpn ...string) {
		t.Helper()
		c, err := Load(Options{CertFile: filepath.Join(dir, "a.crt"), KeyFile: filepath.Join(dir, "a.key"),
			Protocols: protocols, Spdy: spdy})
		if err != nil {
			t.Fatal(err)
		}
		if c.MinVersion != lowest || c.MaxVersion != highest || !slices.Equal(c.NextProtos, alpn) {
			t.Errorf("%#x to %#x, ALPN %q", c.MinVersion, c.MaxVersion, c.NextProtos)
		}
	}
	f(0, 0, tls.VersionTLS12, tls.VersionTLS13, "http/1.1")
	f(24, 12, tls.VersionTLS12, tls.VersionTLS13, "h2", "http/1.1")
	f(31, 4, tls.VersionTLS12, tls.VersionTLS13, "h2", "http/1.1")
	f(8, 3, tls.VersionTLS12, tls.VersionTLS12, "http/1.1")
	f(16, 8, tls.VersionTLS13, tls.VersionTLS13, "http/1.1")
	f(7, 4, tls.VersionTLS12, tls.VersionTLS13, "h2", "http/1.1")
}

func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "a", nil)
	ca := issue(t, dir, "ca", nil)
	good := issue(t, dir, "good", ca)
	verify, err := LoadVerify(VerifyOptions{Mode: VerifyOptional, CAFile: filepath.Join(dir, "ca.crt")})
	if err != nil {
		t.Fatal(err)
	}
	conf, err := Load(Options{CertFile: filepath.Join(dir, "a.crt"), KeyFile: filepath.Join(dir, "a.key"), Client: verify, Protocols: ProtocolTLS12})
	if err != nil {
		t.Fatal(err)
	}
	f := func(cert *tls.Certificate, ok bool) {
		t.Helper()
		client := &tls.Config{InsecureSkipVerify: true}
		if cert != nil {
			client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
		}
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		done := make(chan error, 1)
		go func() { done <- tls.Client(b, client).Handshake() }()
		s := tls.Server(a, conf)
		err := s.Handshake()
		a.Close()
		<-done
		if (err == nil) != ok {
			t.Errorf("handshake: %v, want accepted %v", err, ok)
		}
		if cert != nil && ok && len(s.ConnectionState().VerifiedChains) == 0 {
			t.Error("certificate not verified")
		}
	}
	f(nil, true)
	f(good, true)
	f(issue(t, dir, "forged", nil), false)
}

func TestUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "a", nil)
	issue(t, dir, "b", nil)
	write(t, filepath.Join(dir, "junk"), []byte("junk"))
	write(t, filepath.Join(dir, "big"), make([]byte, maxFile+1))
	f := func(cert, key, chain, ca, want string) {
		t.Helper()
		path := func(name string) string {
			if name == "" {
				return ""
			}
			return filepath.Join(dir, name)
		}
		c, err := Load(Options{CertFile: path(cert), KeyFile: path(key), ChainFile: path(chain)})
		if err == nil && ca != "" {
			_, err = LoadVerify(VerifyOptions{Mode: VerifyOptional, CAFile: path(ca)})
			c = nil
		}
		if err == nil || c != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	f("", "a.key", "", "", "certificate file not set")
	f("a.crt", "", "", "", "private key file not set")
	f("none", "a.key", "", "", "none: no such file")
	f("a.crt", "b.key", "", "", "does not match")
	f("junk", "a.key", "", "", "junk with key")
	f("big", "a.key", "", "", "over 1048576 bytes")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	f("pipe", "a.key", "", "", "pipe: not a regular file") // and does not wait for a writer
	f("a.crt", ".", "", "", ": not a regular file")
	f("a.crt", "a.key", "none", "", "certificate chain ")
	f("a.crt", "a.key", "", "junk", "no certificate in it")
}

// TestNames covers the choice by server name of R-TLS-1 and R-LSN-3.
func TestNames(t *testing.T) {
	confs := map[string]*tls.Config{"": nil}
	conf := func(name string) *tls.Config {
		if name != "none" && confs[name] == nil {
			confs[name] = &tls.Config{ServerName: name}
		}
		return confs[name]
	}
	n := Names{Default: conf("default")}
	n.Add("Example.com", conf("example"))
	n.Add("www.example.com", conf("second")) // the same name: the first stays
	n.Add("*.example.com", conf("wild"))
	n.Add("own.example.com", nil)
	n.Add("a?.example.*", conf("late"))
	n.Add("a?.test", conf("mark"))
	n.Add("*.a.*.b", conf("stars"))
	f := func(name, want string) {
		t.Helper()
		got, err := n.Choose(name)
		if want == "" {
			if err == nil {
				t.Errorf("%q: %s, want an error", name, got.ServerName)
			}
			return
		}
		if err != nil || got != conf(want) {
			t.Errorf("%q: %v, %v, want %s", name, got, err, want)
		}
	}
	f("example.com", "example")
	f("WWW.EXAMPLE.COM.", "example")
	f("x.example.com", "wild")
	f("a1.example.com", "wild")
	f("a1.example.org", "late")
	f("own.example.com", "default")
	f("a1.test", "mark")
	f("a.test", "default")
	f("x.a.a.y.a.z.b", "stars")
	f("", "default")
	f("other", "default")
	n.Strict = true
	f("other", "")
	f("own.example.com", "default")
	f("", "default")
	n.Add("*", conf("all"))
	f("other", "all")
	f("", "default")
	n.Default = nil
	f("", "")
}
