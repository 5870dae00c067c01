package acme

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A lock that has been given up is looked at once more, five seconds later.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"))
}

// authority is an ACME server. Its fields say how it behaves; it looks for proof by
// prove, and believes who signs.
type authority struct {
	*httptest.Server
	life   time.Duration // of certificates
	prove  func(kind, name, token string) bool
	lie    func(chain []byte, key crypto.PublicKey) []byte // what becomes of a certificate
	broken func(w http.ResponseWriter, path string) bool   // answers instead
	roots  string

	mu     sync.Mutex
	key    *ecdsa.PrivateKey
	names  []string // of order i
	valid  []bool
	chains [][]byte
	bound  json.RawMessage
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, life: time.Hour}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	a.roots = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}))
	return a
}

// payload is what a request says, unsigned.
func payload(r *http.Request, to any) {
	var jws struct{ Payload string }
	json.NewDecoder(r.Body).Decode(&jws)
	data, _ := base64.RawURLEncoding.DecodeString(jws.Payload)
	json.Unmarshal(data, to)
}

func (a *authority) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Replay-Nonce", fmt.Sprint(time.Now().UnixNano()))
	if a.broken != nil && a.broken(w, r.URL.Path) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var n int
	say := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	at := func(kind string) bool {
		_, err := fmt.Sscanf(r.URL.Path, "/"+kind+"/%d", &n)
		return err == nil && n < len(a.names)
	}
	order := func() map[string]any {
		o := map[string]any{"status": "pending", "identifiers": []any{map[string]string{"type": "dns", "value": a.names[n]}},
			"authorizations": []string{fmt.Sprintf("%s/authz/%d", a.URL, n)}, "finalize": fmt.Sprintf("%s/finalize/%d", a.URL, n)}
		if a.valid[n] {
			o["status"] = "ready"
		}
		if a.chains[n] != nil {
			o["status"], o["certificate"] = "valid", fmt.Sprintf("%s/cert/%d", a.URL, n)
		}
		w.Header().Set("Location", fmt.Sprintf("%s/order/%d", a.URL, n))
		return o
	}
	challenge := func(kind string) map[string]any {
		c := map[string]any{"type": kind, "url": fmt.Sprintf("%s/%s/%d", a.URL, kind, n), "token": fmt.Sprintf("token%d", n), "status": "pending"}
		if a.valid[n] {
			c["status"] = "valid"
		}
		return c
	}
	switch {
	case r.URL.Path == "/dir":
		say(200, map[string]any{"newNonce": a.URL + "/nonce", "newAccount": a.URL + "/account", "newOrder": a.URL + "/order"})
	case r.URL.Path == "/nonce":
	case r.URL.Path == "/account":
		var p struct{ ExternalAccountBinding json.RawMessage }
		payload(r, &p)
		a.bound = p.ExternalAccountBinding
		w.Header().Set("Location", a.URL+"/account/1")
		say(201, map[string]string{"status": "valid"})
	case r.URL.Path == "/order":
		var p struct{ Identifiers []struct{ Value string } }
		payload(r, &p)
		n = len(a.names)
		a.names, a.valid, a.chains = append(a.names, p.Identifiers[0].Value), append(a.valid, false), append(a.chains, nil)
		say(201, order())
	case at("order"):
		say(200, order())
	case at("authz"):
		status := "pending"
		if a.valid[n] {
			status = "valid"
		}
		say(200, map[string]any{"status": status, "identifier": map[string]string{"type": "dns", "value": a.names[n]},
			"challenges": []any{challenge("http-01"), challenge("tls-alpn-01")}})
	case at("http-01"), at("tls-alpn-01"):
		kind, _, _ := strings.Cut(r.URL.Path[1:], "/")
		if a.valid[n] = a.prove(kind, a.names[n], fmt.Sprintf("token%d", n)); !a.valid[n] {
			w.Header().Set("Content-Type", "application/problem+json")
			say(403, map[string]string{"type": "urn:ietf:params:acme:error:unauthorized", "detail": "no proof"})
			return
		}
		say(200, challenge(kind))
	case at("finalize"):
		var p struct{ CSR string }
		payload(r, &p)
		der, _ := base64.RawURLEncoding.DecodeString(p.CSR)
		csr, err := x509.ParseCertificateRequest(der)
		if err != nil || !a.valid[n] {
			w.WriteHeader(400)
			return
		}
		a.chains[n] = a.issue(a.names[n], csr.PublicKey, a.life)
		if a.lie != nil {
			a.chains[n] = a.lie(a.chains[n], csr.PublicKey)
		}
		say(200, order())
	case at("cert"):
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		w.Write(a.chains[n])
	default:
		w.WriteHeader(404)
	}
}

func (a *authority) issue(name string, key crypto.PublicKey, life time.Duration) []byte {
	now := time.Now()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: now, NotAfter: now.Add(life)}
	parent := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key, a.key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// logLines hands the lines of a log on.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func (l logLines) await(t *testing.T, text string) string {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return line
			}
		case <-deadline:
			t.Fatalf("no line with %q", text)
		}
	}
}

func newManager(t *testing.T) (*Manager, logLines) {
	lines := make(logLines, 1000)
	m := &Manager{Log: slog.New(slog.NewTextHandler(lines, nil))}
	t.Cleanup(m.Close)
	return m, lines
}

// asks returns a prove that asks a manager, as the real one asks a server.
func asks(m *Manager, works string) func(kind, name, token string) bool {
	return func(kind, name, token string) bool {
		if kind != works {
			return false
		}
		if kind == "http-01" {
			text, ok := m.Response(name, ChallengePath+token)
			_, other := m.Response("other.test", ChallengePath+token)
			_, wrong := m.Response(name, ChallengePath+token+"x")
			return ok && !other && !wrong && strings.HasPrefix(text, token+".")
		}
		hello := &tls.ClientHelloInfo{ServerName: name, SupportedProtos: []string{ALPN}}
		conf, err := m.Handshake(name)
		_, other := m.Handshake("other.test")
		return IsChallenge(hello) && err == nil && other != nil && conf.NextProtos[0] == ALPN && conf.Certificates[0].Leaf.DNSNames[0] == name
	}
}

// R-ACME-1: certificates of several names are issued by either challenge, kept for the
// own user, there at once after a restart, and renewed; the proof is gone afterwards.
func TestIssueAndRenew(t *testing.T) {
	for _, kind := range []string{"http-01", "tls-alpn-01"} {
		a := newAuthority(t)
		m, log := newManager(t)
		a.prove = asks(m, kind)
		o := Options{Dir: filepath.Join(t.TempDir(), "acme"), Directory: a.URL + "/dir", Email: "a@b.test", Roots: a.roots, Plain: true, EABKeyID: "kid", EABMACKey: "c2VjcmV0"}
		if err := m.Manage(o, []string{"two.test", "one.test", "two.test"}); err != nil {
			t.Fatal(err)
		}
		log.await(t, "certificate issued")
		log.await(t, "certificate issued")
		for _, name := range []string{"one.test", "two.test"} {
			if c := m.Certificate(name); c == nil || c.Leaf.VerifyHostname(name) != nil {
				t.Fatalf("%s: %s: %v", kind, name, c)
			}
		}
		if m.Certificate("other.test") != nil || (*Manager)(nil).Certificate("one.test") != nil {
			t.Error("a certificate of nobody")
		}
		if c := m.Counts(); c.Issued != 2 || c.Renewed != 0 {
			t.Errorf("%+v", c)
		}
		if s := m.States(); len(s) != 2 || s[0].Name != "one.test" || s[0].NotAfter.IsZero() || !s[0].Next.After(time.Now()) {
			t.Errorf("%+v", s)
		}
		if len(m.challenges.of) != 0 || len(a.bound) == 0 {
			t.Error("a proof is left, or the account is bound to nobody")
		}
		filepath.WalkDir(o.Dir, func(path string, d fs.DirEntry, err error) error {
			if fi, err := d.Info(); err != nil || fi.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v %v", path, fi.Mode(), err)
			}
			return nil
		})
		m.Close()

		// Another process finds them, and asks for nothing.
		orders := len(a.names)
		again, log := newManager(t)
		a.prove = asks(again, kind)
		before := m.Certificate("one.test").Leaf.SerialNumber
		if err := again.Manage(o, []string{"one.test"}); err != nil {
			t.Fatal(err)
		}
		if c := again.Certificate("one.test"); c == nil || c.Leaf.SerialNumber.Cmp(before) != 0 || len(a.names) != orders {
			t.Errorf("%s: after a restart %v", kind, c)
		}
		again.Close()

		// One that is about to end is renewed, by the account that there is.
		key, err := os.ReadFile(findFile(t, o.Dir, "one.test.key"))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(key)
		parsed, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(findFile(t, o.Dir, "one.test.crt"), a.issue("one.test", &parsed.PublicKey, -time.Second), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := again.Manage(o, []string{"one.test", "two.test"}); err != nil {
			t.Fatal(err)
		}
		log.await(t, "certificate renewed")
		if c := again.Certificate("one.test"); !time.Now().Before(c.Leaf.NotAfter) {
			t.Errorf("%s: the renewed one has ended", kind)
		}
		again.Close()

		// What is in storage and is none is ordered anew.
		if err := os.WriteFile(findFile(t, o.Dir, "one.test.crt"), []byte("junk"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := again.Manage(o, []string{"one.test"}); err != nil {
			t.Fatal(err)
		}
		log.await(t, "cannot be used")
		log.await(t, "certificate issued")
		again.Close()
	}
}

func findFile(t *testing.T, dir, name string) (found string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if filepath.Base(path) == name {
			found = path
		}
		return nil
	})
	if found == "" {
		t.Fatalf("no %s", name)
	}
	return found
}

// A server that fails, lies or says too much issues nothing, is logged, and is asked
// again later; the certificate in use stays.
func TestServersThatFail(t *testing.T) {
	a := newAuthority(t)
	other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		set  func()
		want string
	}{
		"errors": {func() { a.broken = func(w http.ResponseWriter, _ string) bool { w.WriteHeader(500); return true } }, ""},
		"no JSON": {func() {
			a.broken = func(w http.ResponseWriter, _ string) bool { io.WriteString(w, "hello"); return true }
		}, ""},
		"endless":  {func() { a.broken = endless }, "over 1048576 bytes"},
		"no proof": {func() { a.prove = func(string, string, string) bool { return false } }, "no proof"},
		"another key": {func() {
			a.lie = func([]byte, crypto.PublicKey) []byte { return a.issue("x.test", &other.PublicKey, time.Hour) }
		}, "another key"},
		"another name": {func() { a.lie = func(_ []byte, k crypto.PublicKey) []byte { return a.issue("y.test", k, time.Hour) } }, "not x.test"},
		"ended":        {func() { a.lie = func(_ []byte, k crypto.PublicKey) []byte { return a.issue("x.test", k, -time.Hour) } }, "has ended"},
		"no chain":     {func() { a.lie = func([]byte, crypto.PublicKey) []byte { return []byte("junk") } }, ""},
		"another chain": {func() {
			a.lie = func([]byte, crypto.PublicKey) []byte {
				return []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
			}
		}, ""},
	} {
		a.broken, a.lie, a.prove = nil, nil, func(string, string, string) bool { return true }
		c.set()
		m, log := newManager(t)
		if err := m.Manage(Options{Dir: filepath.Join(dir, name), Directory: a.URL + "/dir", Email: "a@b.test", Roots: a.roots, Plain: true}, []string{"x.test"}); err != nil {
			t.Fatal(err)
		}
		line := log.await(t, "certificate not issued")
		if !strings.Contains(line, c.want) || len(line) > 1000 {
			t.Errorf("%s: %s", name, line)
		}
		m.Close()
		if s := m.States(); m.Certificate("x.test") != nil || m.Counts().Failed != 1 || s[0].Err == "" || time.Until(s[0].Next) < 30*time.Second {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func endless(w http.ResponseWriter, path string) bool {
	if path == "/nonce" { // a HEAD has no body
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"newNonce":"`)
	junk := strings.Repeat("x", 1<<16)
	for {
		if _, err := io.WriteString(w, junk); err != nil {
			return true
		}
	}
}

// A server that stalls holds up nobody: another configuration, and the end, come
// at once.
func TestServerStalls(t *testing.T) {
	a := newAuthority(t)
	asked, over := make(chan struct{}, 10), make(chan struct{})
	a.broken = func(http.ResponseWriter, string) bool {
		asked <- struct{}{}
		<-over
		return true
	}
	m, _ := newManager(t)
	o := Options{Dir: t.TempDir(), Directory: a.URL + "/dir", Email: "a@b.test", Roots: a.roots}
	for _, name := range []string{"x.test", "y.test"} {
		if err := m.Manage(o, []string{name}); err != nil {
			t.Fatal(err)
		}
		<-asked
	}
	m.Close()
	if m.Counts().Failed != 0 {
		t.Error("an end is a failure")
	}
	close(over)
}

func TestCheck(t *testing.T) {
	f := func(o Options, want string) {
		t.Helper()
		err := o.Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	f(Options{}, "")
	f(Options{Directory: "http://a.test/dir"}, "not an https")
	f(Options{Directory: "https:///dir"}, "not an https")
	f(Options{Roots: "junk"}, "no certificate in it")
	f(Options{EABKeyID: "k", EABMACKey: "not base64!"}, "no base64url")
	f(Options{EABKeyID: "k", EABMACKey: "c2VjcmV0"}, "")
	m := &Manager{Log: slog.New(slog.DiscardHandler)}
	if err := m.Manage(Options{Directory: "ftp://x"}, []string{"a.test"}); err == nil {
		t.Error("managed without a server")
	}
	m.Close()
	if _, ok := m.Response("a.test", ChallengePath); ok {
		t.Error("a proof of nothing")
	}
	if c, err := m.Handshake(""); c != nil || err == nil {
		t.Error("a handshake of nobody")
	}
}
