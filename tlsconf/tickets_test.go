package tlsconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Tickets of one server are taken by every listener and generation that has the same
// Tickets, for the name that they were made for, until their key is gone.
func TestTickets(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "a", nil)
	load := func(tickets *Tickets, version int, none bool) *tls.Config {
		t.Helper()
		c, err := Load(Options{CertFile: filepath.Join(dir, "a.crt"), KeyFile: filepath.Join(dir, "a.key"), Tickets: tickets, Protocols: version, NoTickets: none})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	synctest.Test(t, func(t *testing.T) {
		for _, version := range []int{ProtocolTLS12, ProtocolTLS13} {
			keys := NewTickets(TicketOptions{})
			cache := &oneSession{}
			dial := func(what string, conf *tls.Config, name string, resumed bool) {
				t.Helper()
				cs := handshake(t, conf, &tls.Config{InsecureSkipVerify: true, ServerName: name, ClientSessionCache: cache})
				if cs.DidResume != resumed {
					t.Errorf("version %d, %s: resumed %v, want %v", version, what, cs.DidResume, resumed)
				}
			}
			dial("first", load(keys, version, false), "a", false)
			dial("after a reload", load(keys, version, false), "a", true)
			dial("another name", load(keys, version, false), "b", false)
			dial("that name again", load(keys, version, false), "b", true)
			time.Sleep(TicketLifetime + time.Minute)
			dial("one key later", load(keys, version, false), "b", true)
			time.Sleep(3 * TicketLifetime)
			dial("both keys later", load(keys, version, false), "b", false)
			dial("another server", load(NewTickets(TicketOptions{}), version, false), "b", false)
			dial("none", load(keys, version, true), "b", false)
			dial("none, again", load(keys, version, true), "b", false)
		}
	})
}

// oneSession is a client that shows its last session to everybody.
type oneSession struct{ s *tls.ClientSessionState }

func (o *oneSession) Get(string) (*tls.ClientSessionState, bool) { return o.s, o.s != nil }
func (o *oneSession) Put(_ string, s *tls.ClientSessionState)    { o.s = s }

// Keys of a file are the same for every server that has it: the first makes tickets,
// the others take those of before.
func TestTicketKeysOfAFile(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "a", nil)
	one, two := make([]byte, ticketFileKey), make([]byte, ticketFileKey)
	rand.Read(one)
	rand.Read(two)
	write(t, filepath.Join(dir, "old"), one)
	write(t, filepath.Join(dir, "new"), append(two[:ticketFileKey:ticketFileKey], one...))
	load := func(name string) *tls.Config {
		t.Helper()
		keys, err := LoadTicketKeys(filepath.Join(dir, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Load(Options{CertFile: filepath.Join(dir, "a.crt"), KeyFile: filepath.Join(dir, "a.key"), Tickets: NewTickets(TicketOptions{Keys: keys})})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	cache := &oneSession{}
	for i, step := range []struct {
		file    string
		resumed bool
	}{{"old", false}, {"old", true}, {"new", true}, {"old", false}} {
		cs := handshake(t, load(step.file), &tls.Config{InsecureSkipVerify: true, ServerName: "a", ClientSessionCache: cache})
		if cs.DidResume != step.resumed {
			t.Errorf("step %d: resumed %v", i, cs.DidResume)
		}
	}
	write(t, filepath.Join(dir, "short"), one[:47])
	write(t, filepath.Join(dir, "empty"), nil)
	write(t, filepath.Join(dir, "many"), make([]byte, (maxTicketKeys+1)*ticketFileKey))
	for _, name := range []string{"short", "empty", "many", "none", "."} {
		if keys, err := LoadTicketKeys(filepath.Join(dir, name), nil); err == nil || keys != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// issueKind writes files of a self-signed certificate with either kind of key.
func issueKind(t *testing.T, cert, key string, useRSA bool) {
	t.Helper()
	var public, private any
	if useRSA {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		public, private = &k.PublicKey, k
	} else {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		public, private = &k.PublicKey, k
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a"}, DNSNames: []string{"a"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// sslEnableMultiCerts: a client has the certificate whose kind of key it understands,
// with an OCSP response of its own or none.
func TestVariants(t *testing.T) {
	dir := t.TempDir()
	crt, key := filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")
	issueKind(t, crt, key, true)
	issueKind(t, crt+".ecc", key+".ecc", false)
	o := Options{CertFile: crt, KeyFile: key, Variants: true}
	seen := map[string]bool{}
	o.Seen = func(name string, data []byte) { seen[filepath.Base(name)] = data != nil }
	conf, err := Load(o)
	if err != nil || len(conf.Certificates) != 2 {
		t.Fatal(err, conf)
	}
	if there, told := seen["a.crt.rsa"]; there || !told || !seen["a.crt.ecc"] || !seen["a.key.ecc"] {
		t.Errorf("seen %v", seen)
	}
	f := func(conf *tls.Config, suite uint16, rsaKey bool, staple string) {
		t.Helper()
		for _, name := range []string{"a", ""} {
			cs := handshake(t, conf, &tls.Config{InsecureSkipVerify: true, ServerName: name, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}})
			if _, isRSA := cs.PeerCertificates[0].PublicKey.(*rsa.PublicKey); isRSA != rsaKey || string(cs.OCSPResponse) != staple {
				t.Errorf("suite %s, name %q: RSA %v, response %q", tls.CipherSuiteName(suite), name, isRSA, cs.OCSPResponse)
			}
		}
	}
	f(conf, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, true, "")
	f(conf, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, false, "")
	Staple(conf, []func() []byte{func() []byte { return []byte("good") }, nil})
	f(conf, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, true, "")
	f(conf, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, false, "good")

	if err := os.Remove(key + ".ecc"); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(o); err == nil || !strings.Contains(err.Error(), "private key "+key+".ecc") {
		t.Errorf("a variant without its key: %v", err)
	}
	if _, err := Load(Options{CertFile: filepath.Join(dir, "none"), KeyFile: key, Variants: true}); err == nil || !strings.Contains(err.Error(), "none: no such file") {
		t.Error(err)
	}
}
