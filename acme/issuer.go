package acme

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

const (
	requestTimeout = 30 * time.Second
	maxAnswer      = 1 << 20 // bytes of an answer of the server: directories, orders, chains
)

type publicKey interface{ Equal(crypto.PublicKey) bool }

// issuer is a certmagic.Issuer: one account at one server. certmagic has its own, which
// opens ports for challenges and reads answers of any length.
type issuer struct {
	o       Options
	key     string
	storage certmagic.Storage
	client  acmez.Client // without solvers
	solver  acmez.Solver
	web     *http.Transport

	kinds []string // of challenges, the one that worked last in front; owned by who calls Issue

	mu      sync.Mutex // guards account; held while it is registered, by one order at a time
	account *acme.Account
}

// Check returns what is wrong with o, nil if an account may be had by it.
func (o Options) Check() error {
	_, err := newIssuer(o, nil, nil)
	return err
}

// newIssuer returns the issuer of o; it asks nothing yet.
func newIssuer(o Options, storage certmagic.Storage, c *challenges) (*issuer, error) {
	if o.Directory == "" {
		o.Directory = DefaultDirectory
	}
	u, err := url.Parse(o.Directory)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("directoryUrl %q: not an https:// address", o.Directory)
	}
	i := &issuer{o: o, key: u.Host + u.Path, storage: storage}
	i.web = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: requestTimeout, ResponseHeaderTimeout: requestTimeout,
		MaxResponseHeaderBytes: 64 << 10, MaxConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}
	if o.Roots != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(o.Roots)) {
			return nil, errors.New("caFile: no certificate in it")
		}
		i.web.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	if o.EABKeyID != "" {
		if key, err := base64.RawURLEncoding.DecodeString(o.EABMACKey); err != nil || len(key) == 0 {
			return nil, errors.New("eabMacKeyFile: no base64url in it")
		}
	}
	i.client = acmez.Client{
		Client: &acme.Client{Directory: o.Directory, UserAgent: "httpjet", PollTimeout: orderTimeout,
			HTTPClient: &http.Client{Timeout: requestTimeout, Transport: &bounded{i.web}}},
	}
	if o.Plain {
		i.kinds = append(i.kinds, acme.ChallengeTypeHTTP01)
	}
	i.solver, i.kinds = c, append(i.kinds, acme.ChallengeTypeTLSALPN01)
	return i, nil
}

func (i *issuer) close() { i.web.CloseIdleConnections() }

// IssuerKey is where certificates of this server are in storage.
func (i *issuer) IssuerKey() string { return i.key }

// Issue orders a certificate for a request.
func (i *issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	account, err := i.register(ctx)
	if err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	params, err := acmez.OrderParametersFromCSR(account, csr)
	if err != nil {
		return nil, err
	}
	chains, err := i.solve(ctx, params)
	if err != nil {
		if p, ok := errors.AsType[acme.Problem](err); ok && p.Type == acme.ProblemTypeAccountDoesNotExist {
			i.forget(ctx)
		}
		return nil, err
	}
	if len(chains) == 0 {
		return nil, errors.New("the server sent no certificate")
	}
	if err := parseChain(chains[0].ChainPEM, csr); err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: chains[0].ChainPEM, Metadata: chains[0]}, nil
}

// solve orders with one kind of challenge, and with the other one if the server was not
// convinced: port 80 or port 443 may be closed to it. An order with both would end with
// the first that fails.
func (i *issuer) solve(ctx context.Context, params acmez.OrderParameters) (chains []acme.Certificate, err error) {
	var all []error
	for at, kind := range i.kinds {
		c := acmez.Client{Client: i.client.Client, ChallengeSolvers: map[string]acmez.Solver{kind: i.solver}}
		if chains, err = c.ObtainCertificate(ctx, params); err == nil {
			i.kinds[0], i.kinds[at] = i.kinds[at], i.kinds[0]
			return chains, nil
		}
		if all = append(all, fmt.Errorf("%s: %w", kind, err)); ctx.Err() != nil || !strings.Contains(err.Error(), "solving challenge") {
			break
		}
	}
	return nil, errors.Join(all...)
}

// savedAccount is an account as it is in storage.
type savedAccount struct {
	Account acme.Account `json:"account"`
	Key     string       `json:"key"` // PEM
}

// name is the account's place in storage: another contact or binding is another account.
func (i *issuer) name() string {
	sum := sha256.Sum256([]byte(i.o.Email + "\n" + i.o.EABKeyID))
	return path.Join("acme", certmagic.StorageKeys.Safe(i.key), "accounts", hex.EncodeToString(sum[:8])+".json")
}

// register returns the account, from storage or a new one.
func (i *issuer) register(ctx context.Context) (acme.Account, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.account != nil {
		return *i.account, nil
	}
	a, err := i.loadAccount(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		a, err = i.newAccount(ctx)
	}
	if err != nil {
		return acme.Account{}, err
	}
	i.account = &a
	return a, nil
}

func (i *issuer) loadAccount(ctx context.Context) (acme.Account, error) {
	data, err := i.storage.Load(ctx, i.name())
	if err != nil {
		return acme.Account{}, err
	}
	var saved savedAccount
	if err := json.Unmarshal(data, &saved); err != nil {
		return acme.Account{}, fmt.Errorf("%s: %v", i.name(), err)
	}
	block, _ := pem.Decode([]byte(saved.Key))
	if block == nil {
		return acme.Account{}, fmt.Errorf("%s: no key in it", i.name())
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return acme.Account{}, fmt.Errorf("%s: %v", i.name(), err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return acme.Account{}, fmt.Errorf("%s: no signing key in it", i.name())
	}
	saved.Account.PrivateKey = signer
	return saved.Account, nil
}

// newAccount registers an account. Its terms are accepted by who enables ACME.
func (i *issuer) newAccount(ctx context.Context) (acme.Account, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return acme.Account{}, err
	}
	a := acme.Account{TermsOfServiceAgreed: true, PrivateKey: key}
	if i.o.Email != "" {
		a.Contact = []string{"mailto:" + i.o.Email}
	}
	if i.o.EABKeyID != "" {
		if err := a.SetExternalAccountBinding(ctx, i.client.Client, acme.EAB{KeyID: i.o.EABKeyID, MACKey: i.o.EABMACKey}); err != nil {
			return acme.Account{}, err
		}
	}
	if a, err = i.client.NewAccount(ctx, a); err != nil {
		return acme.Account{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return acme.Account{}, err
	}
	a.PrivateKey = key
	data, err := json.Marshal(savedAccount{a, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))})
	if err != nil {
		return acme.Account{}, err
	}
	return a, i.storage.Store(ctx, i.name(), data)
}

// forget makes the next order register a new account.
func (i *issuer) forget(ctx context.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.account = nil
	i.storage.Delete(ctx, i.name())
}

// bounded cuts answers that are too long.
type bounded struct{ next http.RoundTripper }

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, maxAnswer}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the server's answer is over %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
