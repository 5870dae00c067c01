// Package exchangetest runs tests of handlers on every front end: the own HTTP/1
// loop, the own HTTP/2 over TLS, HTTP/3, and, as oracles, net/http's HTTP/1 and HTTP/2
// through the bridge. It is not a site: there is no table, only the one handler.
package exchangetest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/front"
)

// Server is a front end that serves one handler.
type Server struct {
	URL    string // "http://127.0.0.1:1234" or https
	Addr   string // "127.0.0.1:1234"
	Proto  string // what the handler sees: "HTTP/1.1", "HTTP/2.0" or "HTTP/3.0"
	Own    bool   // the own HTTP/1 loop: can upgrade and send files
	Client *http.Client
	Front  *front.Server
	Site   *Site

	lis *front.Listener
}

// Run runs test once for each front end. start serves a handler until the test
// ends; the path of a request is its target's, undecoded.
func Run(t *testing.T, test func(t *testing.T, start func(exchange.Handler) *Server)) {
	t.Run("h1", func(t *testing.T) {
		test(t, func(h exchange.Handler) *Server { return Start(t, &Site{Handler: h}, false) })
	})
	t.Run("h1-held", func(t *testing.T) {
		test(t, func(h exchange.Handler) *Server {
			s := Start(t, &Site{Handler: h}, false)
			s.Client.Transport.(*http.Transport).DialContext = func(_ context.Context, network, address string) (net.Conn, error) {
				c, err := net.Dial(network, address)
				if err == nil {
					Hold(t, c)
				}
				return c, err
			}
			return s
		})
	})
	t.Run("bridge", func(t *testing.T) {
		test(t, func(h exchange.Handler) *Server { return startBridge(t, &Site{Handler: h}, false) })
	})
	t.Run("bridge-h2", func(t *testing.T) {
		test(t, func(h exchange.Handler) *Server { return startBridge(t, &Site{Handler: h}, true) })
	})
	t.Run("h2", func(t *testing.T) {
		test(t, func(h exchange.Handler) *Server { return Start(t, &Site{Handler: h}, true) })
	})
	t.Run("h3", func(t *testing.T) {
		test(t, func(h exchange.Handler) *Server { return StartH3(t, &Site{Handler: h}) })
	})
}

// Site is a front.Site of one handler.
type Site struct {
	Handler exchange.Handler
	Lim     front.Limits
	Conf    *tls.Config // for secure listeners

	// Rest is front.Server.Rest; set it before Start.
	Rest time.Duration

	mu   sync.Mutex
	errs []error
}

// Serve sets the path as a table would and calls the handler.
func (s *Site) Serve(x *exchange.Exchange) error {
	x.Req.Path, x.Req.Query, _ = strings.Cut(x.Req.Target, "?")
	if x.Req.Path == asked {
		return nil
	}
	return s.Handler.Serve(x)
}

// Finished keeps the error of the exchange.
func (s *Site) Finished(x *exchange.Exchange, err error) {
	if x.Req.Target == asked {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// Errs returns the errors of the exchanges that have finished, nil ones too.
func (s *Site) Errs() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.errs...)
}

// asked is the path of the requests that Hold makes, of which no handler hears.
const asked = "/.asked"

// Hold makes as many requests over a plain connection to a Site that what follows on it
// is served where the connection waits (rawio.Socket.Hold).
func Hold(t testing.TB, c net.Conn) {
	r := bufio.NewReader(c)
	for range 3 {
		if _, err := io.WriteString(c, "GET "+asked+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Error(err)
			return
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Error("while a connection was made ready:", resp, err)
			return
		}
	}
}

// Limits returns Lim.
func (s *Site) Limits() *front.Limits { return &s.Lim }

// TLS returns Conf.
func (s *Site) TLS(string, *tls.ClientHelloInfo) (*tls.Config, error) { return s.Conf, nil }

// Start serves a site on an own listener, with HTTP/2 if it is secure.
func Start(t testing.TB, site *Site, secure bool) *Server {
	t.Helper()
	if site.Lim.KeepAliveTimeout == 0 {
		site.Lim.KeepAliveTimeout = 5 * time.Second
	}
	if secure && site.Conf == nil {
		site.Conf = &tls.Config{Certificates: []tls.Certificate{Certificate(t)}, NextProtos: []string{"h2", "http/1.1"}}
	}
	fs := &front.Server{Current: func() front.Site { return site }, Log: slog.New(slog.DiscardHandler), Rest: site.Rest}
	fs.SetLimits(&site.Lim)
	l, err := fs.Listen("test", front.Key{Network: "tcp4", Address: "127.0.0.1:0", Secure: secure})
	if err != nil {
		t.Fatal(err)
	}
	fs.Serve(l)
	s := &Server{URL: "http://" + l.Addr().String(), Addr: l.Addr().String(), Proto: "HTTP/1.1", Own: true,
		Front: fs, Site: site, lis: l}
	tr := &http.Transport{DisableCompression: true}
	if secure {
		s.URL, s.Proto, s.Own = "https://"+s.Addr, "HTTP/2.0", false
		tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		tr.ForceAttemptHTTP2 = true
	}
	s.Client = client(tr)
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		fs.Drain(ctx)
	})
	return s
}

// startBridge serves a site by net/http, with HTTP/2 over TLS or with HTTP/1.
func startBridge(t *testing.T, site *Site, h2 bool) *Server {
	fs := &front.Server{Current: func() front.Site { return site }, Log: slog.New(slog.DiscardHandler)}
	hs := httptest.NewUnstartedServer(fs.Bridge("test"))
	var said complaints
	hs.Config.ErrorLog = log.New(&said, "", 0)
	tr, proto := &http.Transport{DisableCompression: true}, "HTTP/1.1"
	if h2 {
		hs.EnableHTTP2, proto = true, "HTTP/2.0"
		tr.ForceAttemptHTTP2, tr.TLSClientConfig = true, &tls.Config{InsecureSkipVerify: true}
		hs.StartTLS()
	} else {
		hs.Start()
	}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		hs.CloseClientConnections()
		hs.Close()
		if text := said.text(); text != "" {
			t.Errorf("net/http complains: %s", text)
		}
	})
	return &Server{URL: hs.URL, Addr: hs.Listener.Addr().String(), Proto: proto, Client: client(tr), Front: fs, Site: site}
}

// complaints are what net/http logs: misuse of its server, and panics in it. That a
// client has gone in a handshake is none.
type complaints struct {
	mu sync.Mutex
	b  strings.Builder
}

func (c *complaints) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("TLS handshake error")) {
		return len(p), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(p)
}

func (c *complaints) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}

func client(tr *http.Transport) *http.Client {
	return &http.Client{Transport: tr, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Certificate returns a self-signed certificate for 127.0.0.1 and localhost.
func Certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
