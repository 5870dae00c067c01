// Package staples keeps the OCSP responses that servers send along with their
// certificates (RFC 6066 section 8). It asks the responder that a certificate names,
// in the background: no handshake ever waits, and where no response can be had none
// is sent. It reads no files, and no certificates of clients.
package staples

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ocsp"
)

const (
	maxResponse  = 64 << 10 // bytes
	fetchTimeout = 10 * time.Second
	soonest      = time.Minute // between two questions about one certificate
	latest       = 24 * time.Hour
	// DefaultMaxAge is ocspRespMaxAge where nothing is said.
	DefaultMaxAge = time.Hour
	// skew is how far the clock of a responder may be ahead of ours.
	skew = 5 * time.Minute
)

// Options say what is asked about whom.
type Options struct {
	Leaf, Issuer *x509.Certificate
	Responder    string        // URL; "": the one that Leaf names
	MaxAge       time.Duration // after which a response is renewed, although it holds for longer; 0: DefaultMaxAge
}

// Key is the whole identity of Options.
type Key struct {
	Leaf, Issuer [sha256.Size]byte
	Responder    string
	MaxAge       time.Duration
}

// Key returns what o is known by.
func (o *Options) Key() Key {
	return Key{sha256.Sum256(o.Leaf.Raw), sha256.Sum256(o.Issuer.Raw), o.Responder, o.MaxAge}
}

// Check returns why no response can be had by o, nil if one may be.
func (o *Options) Check() error {
	switch {
	case o.Issuer == nil:
		return errors.New("the certificate of its issuer is not in the file")
	case o.Responder == "" && len(o.Leaf.OCSPServer) == 0:
		return errors.New("it names no OCSP responder")
	}
	u, err := url.Parse(o.responder())
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("its OCSP responder %q is no http:// address", o.responder())
	}
	return nil
}

func (o *Options) responder() string {
	if o.Responder != "" {
		return o.Responder
	}
	return o.Leaf.OCSPServer[0]
}

// Staple is the response about one certificate. Its Response is for any goroutine,
// the rest belongs to the goroutine of a Stapler.
type Staple struct {
	o       Options
	current atomic.Pointer[response]
	due     time.Time
	fails   int
}

type response struct {
	der   []byte
	until time.Time
}

// New returns a staple without a response. o must pass Check.
func New(o Options) *Staple { return &Staple{o: o} }

// Retire is for keep.Map: nothing has to be given back.
func (s *Staple) Retire() {}

// Response returns the response in force, nil if there is none.
func (s *Staple) Response() []byte {
	r := s.current.Load()
	if r == nil || !time.Now().Before(r.until) {
		return nil
	}
	return r.der
}

// Stapler renews staples. Set its fields, then Start it, then Close it.
type Stapler struct {
	Staples func() []*Staple
	Log     *slog.Logger

	client http.Client
	wake   chan struct{}
	stop   context.CancelFunc
	ended  chan struct{}

	renewed, failed atomic.Int64
}

// Counts returns how many responses were fetched, and how many could not be.
func (s *Stapler) Counts() (renewed, failed int64) { return s.renewed.Load(), s.failed.Load() }

// Start starts the goroutine that Close joins.
func (s *Stapler) Start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.ended, s.wake = stop, make(chan struct{}), make(chan struct{}, 1)
	s.client = http.Client{Timeout: fetchTimeout, CheckRedirect: refuseRedirect, Transport: &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10}}
	go s.run(ctx)
}

// refuseRedirect makes a redirect an answer with the wrong status.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Wake makes it look at once: there may be other staples.
func (s *Stapler) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close ends a fetch that is under way and joins the goroutine.
func (s *Stapler) Close() {
	s.stop()
	<-s.ended
}

// run renews what is due, one after the other.
func (s *Stapler) run(ctx context.Context) {
	defer close(s.ended)
	for {
		next := s.renew(ctx)
		timer := time.NewTimer(max(time.Until(next), time.Second))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// renew fetches what is due and returns when the next is. A responder that has
// failed is not asked about other certificates in the same round: a thousand of them
// would wait for it one by one.
func (s *Stapler) renew(ctx context.Context) (next time.Time) {
	next = time.Now().Add(latest)
	down := map[string]bool{}
	for _, st := range s.Staples() {
		if ctx.Err() != nil {
			return next
		}
		if now := time.Now(); !now.Before(st.due) {
			if host := st.o.responder(); down[host] {
				st.due = now.Add(soonest)
			} else if err := s.fetch(ctx, st); err != nil && ctx.Err() == nil {
				down[host] = true
				s.failed.Add(1)
				st.due = time.Now().Add(min(soonest<<min(st.fails, 6), time.Hour))
				st.fails++
				s.Log.Warn("OCSP response not renewed; the handshake goes on without one once the last has ended",
					"certificate", st.o.Leaf.Subject.CommonName, "names", st.o.Leaf.DNSNames, "responder", host, "err", err)
			}
		}
		if st.due.Before(next) {
			next = st.due
		}
	}
	return next
}

// fetch asks the responder. A response that does not say "good", or is not
// properly signed, is not kept.
func (s *Stapler) fetch(ctx context.Context, st *Staple) error {
	ask, err := ocsp.CreateRequest(st.o.Leaf, st.o.Issuer, nil)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, st.o.responder(), bytes.NewReader(ask))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/ocsp-request")
	req.Header.Set("User-Agent", "httpjet")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	der, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil {
		return err
	}
	if len(der) > maxResponse {
		return fmt.Errorf("over %d bytes", maxResponse)
	}
	answer, err := st.judge(der, time.Now())
	if err != nil {
		return err
	}
	st.fails = 0
	st.due = answer.due(st.o.MaxAge)
	st.current.Store(&response{der, answer.until})
	s.renewed.Add(1)
	return nil
}

// answer is how long a response holds.
type answer struct{ now, until time.Time }

// due is when it is to be renewed: half way to its end.
func (a answer) due(maxAge time.Duration) time.Time {
	if maxAge <= 0 {
		maxAge = DefaultMaxAge
	}
	half := a.until.Sub(a.now) / 2
	return a.now.Add(max(min(half, maxAge), soonest))
}

// judge reports how long a response holds, or why it cannot be used.
func (st *Staple) judge(der []byte, now time.Time) (answer, error) {
	r, err := ocsp.ParseResponseForCert(der, st.o.Leaf, st.o.Issuer)
	if err != nil {
		return answer{}, err
	}
	// A delegate of the issuer must be one for this purpose (RFC 6960 section 4.2.2.2).
	if c := r.Certificate; c != nil && !c.Equal(st.o.Issuer) && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning) {
		return answer{}, errors.New("signed by a certificate that is not for OCSP")
	}
	switch r.Status {
	case ocsp.Good:
	case ocsp.Revoked:
		st.current.Store(nil)
		return answer{}, fmt.Errorf("the certificate was revoked at %s", r.RevokedAt.UTC().Format(time.RFC3339))
	default:
		return answer{}, errors.New("the responder does not know the certificate")
	}
	until := r.NextUpdate
	if until.IsZero() {
		until = now.Add(latest)
	}
	if now.Add(skew).Before(r.ThisUpdate) || !now.Before(until) {
		return answer{}, errors.New("not in force now")
	}
	return answer{now, until}, nil
}
