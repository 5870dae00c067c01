package staples

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ocsp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func issue(t *testing.T, name, responder string, by *pair, usage ...x509.ExtKeyUsage) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: usage}
	if responder != "" {
		tmpl.OCSPServer = []string{responder}
	}
	parent, signer := tmpl, key
	if by != nil {
		parent, signer = by.cert, by.key
	} else {
		tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{cert, key}
}

// sign makes the response of a responder.
func sign(t *testing.T, ca *pair, r ocsp.Response, delegate *pair) []byte {
	t.Helper()
	by := ca
	if delegate != nil {
		by, r.Certificate = delegate, delegate.cert
	}
	der, err := ocsp.CreateResponse(ca.cert, by.cert, r, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// What a responder says counts only if it is about this certificate, signed by who
// may, in force, and good.
func TestJudge(t *testing.T) {
	ca, other := issue(t, "ca", "", nil), issue(t, "other", "", nil)
	leaf := issue(t, "a", "http://ocsp.test", ca)
	delegate := issue(t, "delegate", "", ca, x509.ExtKeyUsageOCSPSigning)
	server := issue(t, "server", "", ca, x509.ExtKeyUsageServerAuth)
	now := time.Now()
	good := ocsp.Response{Status: ocsp.Good, SerialNumber: leaf.cert.SerialNumber, ThisUpdate: now.Add(-time.Minute), NextUpdate: now.Add(time.Hour)}
	with := func(change func(*ocsp.Response)) ocsp.Response {
		r := good
		change(&r)
		return r
	}
	f := func(der []byte, want string) {
		t.Helper()
		st := New(Options{Leaf: leaf.cert, Issuer: ca.cert})
		a, err := st.judge(der, now)
		if want == "" {
			if err != nil || a.until.Before(now.Add(time.Minute)) {
				t.Errorf("%v, until %v", err, a.until)
			}
			return
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	f(sign(t, ca, good, nil), "")
	f(sign(t, ca, good, delegate), "")
	f(sign(t, ca, with(func(r *ocsp.Response) { r.NextUpdate = time.Time{} }), nil), "")
	f(sign(t, ca, good, server), "not for OCSP")
	f(sign(t, other, good, nil), "signature")
	f(sign(t, ca, with(func(r *ocsp.Response) { r.SerialNumber = big.NewInt(7) }), nil), "no response matching")
	f(sign(t, ca, with(func(r *ocsp.Response) { r.Status, r.RevokedAt = ocsp.Revoked, now }), nil), "revoked at")
	f(sign(t, ca, with(func(r *ocsp.Response) { r.Status = ocsp.Unknown }), nil), "does not know")
	f(sign(t, ca, with(func(r *ocsp.Response) { r.NextUpdate = now.Add(-time.Second) }), nil), "not in force")
	f(sign(t, ca, with(func(r *ocsp.Response) { r.ThisUpdate = now.Add(time.Hour); r.NextUpdate = now.Add(2 * time.Hour) }), nil), "not in force")
	if _, err := New(Options{Leaf: leaf.cert, Issuer: ca.cert}).judge([]byte("junk"), now); err == nil {
		t.Error("junk is a response")
	}
}

// A response is fetched in the background and kept while the responder fails; one
// responder that fails is asked once in a round.
func TestStapler(t *testing.T) {
	ca := issue(t, "ca", "", nil)
	var answer func(w http.ResponseWriter, serial *big.Int)
	asked := make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q, err := ocsp.ParseRequest(body)
		if err != nil || r.Method != "POST" || r.Header.Get("Content-Type") != "application/ocsp-request" {
			t.Errorf("%s %v", r.Method, err)
			return
		}
		says := answer
		asked <- q.SerialNumber.String() // before the answer, with which the client goes on
		says(w, q.SerialNumber)
	}))
	defer srv.Close()
	one, two := issue(t, "one", srv.URL, ca), issue(t, "two", srv.URL, ca)
	list := []*Staple{New(Options{Leaf: one.cert, Issuer: ca.cert}), New(Options{Leaf: two.cert, Issuer: ca.cert})}
	var log strings.Builder
	s := &Stapler{Staples: func() []*Staple { return list }, Log: slog.New(slog.NewTextHandler(&log, nil))}
	answer = func(w http.ResponseWriter, serial *big.Int) {
		w.Write(sign(t, ca, ocsp.Response{Status: ocsp.Good, SerialNumber: serial, ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}, nil))
	}
	s.Start()
	s.Wake()
	<-asked
	<-asked
	s.Close() // the second may be under way still
	if list[0].Response() == nil {
		t.Fatal("no response after it was fetched")
	}
	if next := time.Until(list[0].due); next < 29*time.Minute || next > 31*time.Minute {
		t.Errorf("due in %v, want half way to its end", next)
	}

	// The next round meets a responder that is broken in every way.
	for _, broken := range []func(w http.ResponseWriter, serial *big.Int){
		func(w http.ResponseWriter, _ *big.Int) { w.WriteHeader(500) },
		func(w http.ResponseWriter, _ *big.Int) { w.Write([]byte("junk")) },
		func(w http.ResponseWriter, _ *big.Int) { w.Write(make([]byte, maxResponse+1)) },
		func(w http.ResponseWriter, _ *big.Int) { w.Header().Set("Location", srv.URL); w.WriteHeader(302) },
	} {
		answer = broken
		for _, st := range list {
			st.due = time.Time{}
		}
		before := list[0].Response()
		_, failed := s.Counts()
		log.Reset()
		s.renew(t.Context())
		if _, now := s.Counts(); now != failed+1 || len(asked) != 1 {
			t.Errorf("%d failures, %d questions in one round", now-failed, len(asked))
		}
		<-asked
		if list[0].Response() == nil || &list[0].Response()[0] != &before[0] || !strings.Contains(log.String(), "not renewed") {
			t.Errorf("the response in force is gone; log %s", log.String())
		}
		if list[1].due.Before(time.Now()) || list[0].due.Before(time.Now()) {
			t.Error("a failure is not waited for")
		}
	}
	list[0].current.Store(&response{[]byte("old"), time.Now()})
	if list[0].Response() != nil {
		t.Error("a response that has ended is sent")
	}
}

// A responder that stalls holds nobody up: Close ends the fetch.
func TestStaplerStalls(t *testing.T) {
	ca := issue(t, "ca", "", nil)
	asked := make(chan struct{}, 1)
	over := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-over
	}))
	defer srv.Close()
	defer close(over)
	st := New(Options{Leaf: issue(t, "a", srv.URL, ca).cert, Issuer: ca.cert})
	s := &Stapler{Staples: func() []*Staple { return []*Staple{st} }, Log: slog.New(slog.DiscardHandler)}
	s.Start()
	<-asked
	if st.Response() != nil {
		t.Error("a response")
	}
	s.Close()
}

func TestCheck(t *testing.T) {
	ca := issue(t, "ca", "", nil)
	f := func(o Options, want string) {
		t.Helper()
		err := o.Check()
		if want == "" && err == nil {
			return
		}
		if err == nil || !strings.Contains(err.Error(), want) || want == "" {
			t.Errorf("%v, want %q", err, want)
		}
	}
	with := func(responder string) *x509.Certificate { return issue(t, "a", responder, ca).cert }
	f(Options{Leaf: with("http://ocsp.test"), Issuer: ca.cert}, "")
	f(Options{Leaf: with(""), Issuer: ca.cert, Responder: "https://ocsp.test/x"}, "")
	f(Options{Leaf: with("")}, "issuer")
	f(Options{Leaf: with(""), Issuer: ca.cert}, "no OCSP responder")
	f(Options{Leaf: with("ldap://ocsp.test"), Issuer: ca.cert}, "no http:// address")
	f(Options{Leaf: with("file:///etc/passwd"), Issuer: ca.cert}, "no http:// address")
	a, b := Options{Leaf: with("http://a.test"), Issuer: ca.cert}, Options{Leaf: ca.cert, Issuer: ca.cert}
	if c := a; a.Key() == b.Key() || c.Key() != a.Key() {
		t.Error("Key")
	}
}

// The certificates of an ACME server change while they are in use: each has a response of
// its own, is asked about once, and is forgotten when it has ended. One that names no
// responder, as those of Let's Encrypt, has none.
func TestIssued(t *testing.T) {
	ca := issue(t, "ca", "", nil)
	asked := make(chan struct{}, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if q, err := ocsp.ParseRequest(body); err == nil {
			w.Write(sign(t, ca, ocsp.Response{Status: ocsp.Good, SerialNumber: q.SerialNumber, ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}, nil))
		}
		asked <- struct{}{}
	}))
	defer srv.Close()
	chain := func(p *pair) *tls.Certificate {
		return &tls.Certificate{Certificate: [][]byte{p.cert.Raw, ca.cert.Raw}, PrivateKey: p.key, Leaf: p.cert}
	}
	one, renewed, silent := chain(issue(t, "one", srv.URL, ca)), chain(issue(t, "one", srv.URL, ca)), chain(issue(t, "silent", "", ca))
	woken := 0
	i := &Issued{Wake: func() { woken++ }}
	s := &Stapler{Staples: i.Staples, Log: slog.New(slog.DiscardHandler), client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	get := func(cert *tls.Certificate, has bool) {
		t.Helper()
		der := i.Response(cert.Leaf.Subject.CommonName, cert, Options{})
		if (der != nil) != has {
			t.Errorf("%s: response %v, want %v", cert.Leaf.Subject.CommonName, der != nil, has)
		}
		if der != nil {
			if _, err := ocsp.ParseResponseForCert(der, cert.Leaf, ca.cert); err != nil {
				t.Error(err)
			}
		}
	}
	for _, cert := range []*tls.Certificate{one, renewed} {
		get(cert, false)
		get(cert, false)
		s.renew(t.Context())
		<-asked
		get(cert, true)
	}
	get(silent, false)
	s.renew(t.Context())
	get(silent, false)
	if woken != 2 || len(i.all) != 2 || len(asked) > 0 {
		t.Errorf("woken %d times, %d kept, %d asked beyond", woken, len(i.all), len(asked))
	}
	i.Response("one", renewed, Options{Responder: "http://other.test/"}) // another listener asks somebody else
	get(renewed, true)
	ended := *renewed.Leaf
	ended.NotAfter = time.Now().Add(-time.Second)
	renewed.Leaf = &ended
	if list := i.Staples(); len(list) != 0 || len(i.all) != 1 {
		t.Errorf("%d staples, %d kept of ended certificates", len(list), len(i.all))
	}
}
