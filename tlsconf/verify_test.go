package tlsconf

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shown is the state of a connection on which the chain was shown and verified.
func shown(chain ...*tls.Certificate) *tls.ConnectionState {
	cs := &tls.ConnectionState{}
	var list []*x509.Certificate
	for _, c := range chain {
		list = append(list, c.Leaf)
	}
	if len(list) > 0 {
		cs.PeerCertificates, cs.VerifiedChains = list[:1], [][]*x509.Certificate{list}
	}
	return cs
}

// verifyDepth counts the authorities above the client's certificate, and only the
// own authorities count, whoever verified the chain.
func TestVerifyDepth(t *testing.T) {
	dir := t.TempDir()
	root := issue(t, dir, "root", nil)
	mid := issue(t, dir, "mid", root)
	leaf, direct := issue(t, dir, "leaf", mid), issue(t, dir, "direct", root)
	other := issue(t, dir, "other", nil)
	for depth, want := range map[int][2]bool{0: {true, false}, 1: {true, false}, 2: {true, true}} {
		v, err := LoadVerify(VerifyOptions{Mode: VerifyRequired, Depth: depth, CAFile: filepath.Join(dir, "root.crt")})
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{v.Accepts(shown(direct, root)), v.Accepts(shown(leaf, mid, root))}; got != want {
			t.Errorf("depth %d: %v, want %v", depth, got, want)
		}
		if v.Accepts(shown(leaf, other)) || !v.Accepts(shown()) || !v.Requires() {
			t.Errorf("depth %d", depth)
		}
		unverified := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{direct.Leaf}}
		if v.Accepts(unverified) {
			t.Error("a certificate that nobody has verified")
		}
	}
	var none *Verify
	if none.Asks() || none.Requires() || !none.Accepts(shown(leaf, other)) {
		t.Error("nil asks for something")
	}
}

// A directory of authorities holds whatever has certificates in it.
func TestVerifyPath(t *testing.T) {
	dir, cas := t.TempDir(), t.TempDir()
	root := issue(t, dir, "root", nil)
	leaf := issue(t, dir, "leaf", root)
	if _, err := LoadVerify(VerifyOptions{Mode: VerifyOptional, CAPath: cas}); err == nil {
		t.Error("a directory without authorities")
	}
	write(t, filepath.Join(cas, "README"), []byte("no certificate"))
	os.Mkdir(filepath.Join(cas, "sub"), 0o755)
	if err := os.Symlink(filepath.Join(dir, "root.crt"), filepath.Join(cas, "12345678.0")); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	v, err := LoadVerify(VerifyOptions{Mode: VerifyOptional, CAPath: cas, Seen: func(name string, _ []byte) { seen[filepath.Base(name)] = true }})
	if err != nil || !v.Accepts(shown(leaf, root)) || !seen["12345678.0"] {
		t.Error(err, seen)
	}
	same, _ := LoadVerify(VerifyOptions{Mode: VerifyOptional, CAFile: filepath.Join(dir, "root.crt")})
	stricter, _ := LoadVerify(VerifyOptions{Mode: VerifyRequired, CAFile: filepath.Join(dir, "root.crt")})
	if !v.Same(same) || v.Same(stricter) || v.Same(nil) || !(*Verify)(nil).Same(nil) {
		t.Error("Same")
	}
	for i := range maxCAFiles {
		write(t, filepath.Join(cas, "f"+strings.Repeat("x", i%200)+string(rune('0'+i/200))), nil)
	}
	if _, err := LoadVerify(VerifyOptions{Mode: VerifyOptional, CAPath: cas}); err == nil || !strings.Contains(err.Error(), "over 1000 files") {
		t.Error(err)
	}
	if _, err := LoadVerify(VerifyOptions{Mode: VerifyOptional, CAPath: filepath.Join(dir, "none")}); err == nil {
		t.Error("a directory that is not there")
	}
}

// With revocation lists, a client is good while a list of its authority is in force
// that does not name it.
func TestRevocation(t *testing.T) {
	dir := t.TempDir()
	a, b := issue(t, dir, "a", nil), issue(t, dir, "b", nil)
	good, bad, ofB := issue(t, dir, "good", a), issue(t, dir, "bad", a), issue(t, dir, "ofB", b)
	data, _ := os.ReadFile(filepath.Join(dir, "a.crt"))
	more, _ := os.ReadFile(filepath.Join(dir, "b.crt"))
	write(t, filepath.Join(dir, "ab.crt"), append(data, more...))
	list := func(name string, until time.Time) {
		der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-2 * time.Hour), NextUpdate: until,
			RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: bad.Leaf.SerialNumber, RevocationTime: time.Now()}}}, a.Leaf, a.PrivateKey.(*ecdsa.PrivateKey))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), der)
	}
	list("a.crl", time.Now().Add(time.Hour))
	list("old.crl", time.Now().Add(-time.Hour))
	load := func(crl string) *Verify {
		v, err := LoadVerify(VerifyOptions{Mode: VerifyRequired, CAFile: filepath.Join(dir, "ab.crt"), CRLFile: filepath.Join(dir, crl)})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := load("a.crl")
	if !v.Accepts(shown(good, a)) || v.Accepts(shown(bad, a)) || v.Accepts(shown(ofB, b)) {
		t.Errorf("good %v, revoked %v, without a list %v", v.Accepts(shown(good, a)), v.Accepts(shown(bad, a)), v.Accepts(shown(ofB, b)))
	}
	if load("old.crl").Accepts(shown(good, a)) {
		t.Error("a list that is out of date says that a certificate is good")
	}
}
