// Package acme has certificates issued and renewed by an ACME server (RFC 8555), with
// the storage and the locks of certmagic (R-ACME-1). It answers the challenges of the
// server by what its callers ask it for: it listens nowhere. It chooses no
// certificate for a name that it does not manage.
package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"
)

// DefaultDirectory is the directory of ACME where none is named: that of Let's
// Encrypt.
const DefaultDirectory = "https://acme-v02.api.letsencrypt.org/directory"

const (
	// renewalShare of the life of a certificate is left when it is renewed: 30 days of 90.
	renewalShare = 3
	orderTimeout = 3 * time.Minute // of one order, with everything that belongs to it
	firstRetry   = time.Minute     // after a failure, doubled with each
	firstRefused = 10 * firstRetry // after one that the server counts: it takes a few in an hour
	lastRetry    = 6 * time.Hour
	atLeast      = time.Second // between two looks
)

// Options are the account and where its certificates are kept.
type Options struct {
	Dir       string // of keys and certificates, created with 0700; files are 0600
	Directory string // URL; "": DefaultDirectory
	Email     string // "": the account has no contact
	Plain     bool   // there is a listener without TLS that can answer HTTP-01
	Roots     string // PEM of the authorities that may have signed the server's certificate; "": the system's
	EABKeyID  string // external account binding; "": none
	EABMACKey string // base64url
}

// State is what is known of one name.
type State struct {
	Name     string
	NotAfter time.Time // zero: there is no certificate yet
	Next     time.Time // when it is ordered or renewed
	Err      string    // of the last order; "": it succeeded, or there was none
}

// Counts are the orders of a Manager.
type Counts struct{ Issued, Renewed, Failed int64 }

// Manager manages the certificates of some names. Its zero value manages none; set Log
// before Manage.
//
// Life: Manage, with each generation → run orders what is missing and renews what is due,
// one name after the other → Close.
type Manager struct {
	Log *slog.Logger

	certs      atomic.Pointer[map[string]*tls.Certificate]
	challenges challenges

	issued, renewed, failed atomic.Int64

	mu     sync.Mutex // guards the fields below; held for no I/O
	states map[string]*State

	// Owned by the goroutine that calls Manage and Close.
	opt   Options
	names []string
	stop  context.CancelFunc // nil: run is not running
	ended chan struct{}
}

// Certificate returns the certificate of a name in lower case, nil if there is none
// (yet). It is for any goroutine.
func (m *Manager) Certificate(name string) *tls.Certificate {
	if m == nil {
		return nil
	}
	if certs := m.certs.Load(); certs != nil {
		return (*certs)[name]
	}
	return nil
}

// Counts returns how many orders have ended how.
func (m *Manager) Counts() Counts {
	return Counts{m.issued.Load(), m.renewed.Load(), m.failed.Load()}
}

// States returns what is known of all names, sorted.
func (m *Manager) States() (list []State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.states)) {
		list = append(list, *m.states[name])
	}
	return list
}

// Manage manages these names from now on, and no others. Certificates that are in
// storage are there when it returns; orders are made in the background. It blocks
// for reading files alone. The error is that there is no account to order with.
func (m *Manager) Manage(o Options, names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	if o == m.opt && slices.Equal(names, m.names) {
		return nil
	}
	m.Close()
	m.opt, m.names = o, names
	if len(names) == 0 {
		m.set(nil, nil)
		return nil
	}
	s, err := newSession(m, o)
	if err != nil {
		m.opt, m.names = Options{}, nil
		return err
	}
	certs, states := map[string]*tls.Certificate{}, map[string]*State{}
	for _, name := range names {
		states[name] = &State{Name: name}
		if cert, err := s.load(name); err == nil {
			certs[name], states[name].NotAfter = cert, cert.Leaf.NotAfter
			states[name].Next = renewAt(cert.Leaf)
		} else if !errors.Is(err, fs.ErrNotExist) {
			m.Log.Error("certificate in storage cannot be used; it is ordered anew", "name", name, "err", err)
		}
	}
	m.set(certs, states)
	ctx, stop := context.WithCancel(context.Background())
	m.stop, m.ended = stop, make(chan struct{})
	go m.run(ctx, s, names)
	return nil
}

// set replaces what is known.
func (m *Manager) set(certs map[string]*tls.Certificate, states map[string]*State) {
	m.certs.Store(&certs)
	m.mu.Lock()
	m.states = states
	m.mu.Unlock()
}

// Close ends orders that are under way and joins the goroutine. Certificates stay in
// use.
func (m *Manager) Close() {
	if m.stop != nil {
		m.stop()
		<-m.ended
		m.stop, m.names = nil, nil
	}
}

// run orders and renews until ctx is done.
func (m *Manager) run(ctx context.Context, s *session, names []string) {
	defer close(m.ended)
	defer s.close()
	fails := map[string]int{}
	for {
		next := time.Now().Add(lastRetry)
		for _, name := range names {
			m.mu.Lock()
			st := *m.states[name]
			m.mu.Unlock()
			if ctx.Err() != nil {
				return
			}
			if !time.Now().Before(st.Next) {
				m.order(ctx, s, &st, fails)
				m.mu.Lock()
				*m.states[name] = st
				m.mu.Unlock()
			}
			if st.Next.Before(next) {
				next = st.Next
			}
		}
		timer := time.NewTimer(max(time.Until(next), atLeast))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// order has a certificate issued or renewed and puts it to use.
func (m *Manager) order(ctx context.Context, s *session, st *State, fails map[string]int) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	before := m.Certificate(st.Name)
	cert, err := s.order(ctx, st.Name, before != nil)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return // the server stops, or its configuration has changed
		}
		first := firstRetry
		if _, refused := errors.AsType[acme.Problem](err); refused {
			first = firstRefused
		}
		wait := min(first<<min(fails[st.Name], 9), lastRetry)
		fails[st.Name]++
		m.failed.Add(1)
		st.Next, st.Err = time.Now().Add(wait), cut(err.Error())
		m.Log.Error("certificate not issued", "name", st.Name, "renewal", before != nil, "again_in", wait, "err", st.Err)
		return
	}
	delete(fails, st.Name)
	certs := maps.Clone(*m.certs.Load())
	certs[st.Name] = cert
	m.certs.Store(&certs)
	st.NotAfter, st.Err, st.Next = cert.Leaf.NotAfter, "", renewAt(cert.Leaf)
	if soonest := time.Now().Add(firstRetry); st.Next.Before(soonest) && !time.Now().Before(renewAt(cert.Leaf)) {
		st.Next = soonest // an authority whose certificates have ended when they come
	}
	if before != nil && bytes.Equal(before.Certificate[0], cert.Certificate[0]) {
		return // it was not due after all
	}
	if before != nil {
		m.renewed.Add(1)
		m.Log.Info("certificate renewed", "name", st.Name, "until", st.NotAfter)
	} else {
		m.issued.Add(1)
		m.Log.Info("certificate issued", "name", st.Name, "until", st.NotAfter)
	}
}

// cut bounds what a server says of itself before it is logged and kept.
func cut(s string) string {
	if s = strings.ToValidUTF8(s, "?"); len(s) > 500 {
		return s[:500] + "…"
	}
	return s
}

// renewAt returns when a certificate is renewed.
func renewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / renewalShare)
}

// session is one account, its storage and its server.
type session struct {
	cache   *certmagic.Cache
	config  *certmagic.Config
	storage certmagic.Storage
	issuer  *issuer
}

// newSession makes what certmagic needs. Nothing is read, written or asked yet.
func newSession(m *Manager, o Options) (*session, error) {
	s := &session{storage: &certmagic.FileStorage{Path: o.Dir}}
	var err error
	if s.issuer, err = newIssuer(o, s.storage, &m.challenges); err != nil {
		return nil, err
	}
	quiet := zap.NewNop() // what matters is an error, which Manager logs
	// Its goroutine looks after what is in it, which is nothing; close ends it.
	s.cache = certmagic.NewCache(certmagic.CacheOptions{Logger: quiet, RenewCheckInterval: lastRetry, OCSPCheckInterval: lastRetry,
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return s.config, nil }})
	s.config = certmagic.New(s.cache, certmagic.Config{Storage: s.storage, Issuers: []certmagic.Issuer{s.issuer}, Logger: quiet,
		RenewalWindowRatio: 1.0 / renewalShare, OCSP: certmagic.OCSPConfig{DisableStapling: true}, DisableARI: true})
	return s, nil
}

func (s *session) close() {
	s.cache.Stop()
	s.issuer.close()
}

// order brings a certificate that is good for a while into storage, unless another
// process that shares it has done so, and loads it.
func (s *session) order(ctx context.Context, name string, renewal bool) (*tls.Certificate, error) {
	err := error(nil)
	if renewal {
		err = s.config.RenewCertSync(ctx, name, false)
	} else {
		err = s.config.ObtainCertSync(ctx, name)
	}
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	cert, err := s.load(name)
	if err != nil && !renewal { // what is in storage is none: it would be there for ever
		if err := s.storage.Delete(ctx, certmagic.StorageKeys.CertsSitePrefix(s.issuer.IssuerKey(), name)); err != nil {
			return nil, err
		}
		if err := s.config.ObtainCertSync(ctx, name); err != nil {
			return nil, err
		}
		cert, err = s.load(name)
	}
	return cert, err
}

// load reads a certificate from storage and checks that it is for the name.
func (s *session) load(name string) (*tls.Certificate, error) {
	ctx := context.Background()
	chain, err := s.storage.Load(ctx, certmagic.StorageKeys.SiteCert(s.issuer.IssuerKey(), name))
	if err != nil {
		return nil, err
	}
	key, err := s.storage.Load(ctx, certmagic.StorageKeys.SitePrivateKey(s.issuer.IssuerKey(), name))
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, err
	}
	return &cert, cert.Leaf.VerifyHostname(name)
}

// parseChain checks that what a server sent is a chain of certificates that the holder
// of the request's key can use for its names.
func parseChain(chain []byte, csr *x509.CertificateRequest) error {
	block, _ := pem.Decode(chain)
	if block == nil || block.Type != "CERTIFICATE" {
		return errors.New("the server sent no certificate")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("the server's certificate: %v", err)
	}
	if key, ok := leaf.PublicKey.(publicKey); !ok || !key.Equal(csr.PublicKey) {
		return errors.New("the server's certificate is for another key")
	}
	for _, name := range csr.DNSNames {
		if err := leaf.VerifyHostname(name); err != nil {
			return fmt.Errorf("the server's certificate: %v", err)
		}
	}
	if !time.Now().Before(leaf.NotAfter) {
		return fmt.Errorf("the server's certificate has ended at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
