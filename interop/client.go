package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// selfSigned makes a certificate for loopback, and its key, as PEM.
func selfSigned() (cert, key string, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "httpjet interop"},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		return "", "", err
	}
	kder, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return "", "", err
	}
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", kder), nil
}

// A client speaks to one httpjet. It keeps cookies and follows no redirect.
type client struct {
	http.Client
	base string
}

// plain is a client of the plain listener.
func (j *jet) plain() *client {
	return newClient("http://"+j.http, &http.Transport{DisableCompression: true})
}

// secure is a client of the TLS listener: HTTP/2, or HTTP/1.1 if h1. The
// certificate is verified.
func (j *jet) secure(h1 bool) (*client, error) {
	text, err := os.ReadFile(filepath.Join(j.root, "conf/cert/cert.pem"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	t := &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: !h1}
	return newClient("https://"+j.https, t), nil
}

func newClient(base string, t *http.Transport) *client {
	jar, _ := cookiejar.New(nil) // never fails
	return &client{base: base, Client: http.Client{
		Transport: t, Jar: jar, Timeout: 2 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// An answer is a response with its body read.
type answer struct {
	*http.Response
	body []byte
}

// send makes a request; header lines are "Name: value". length -1 sends body in
// chunks of unknown total.
func (c *client) send(method, path string, body io.Reader, length int64, header ...string) (*answer, error) {
	req, err := http.NewRequest(method, c.base, body)
	if err != nil {
		return nil, err
	}
	// The path goes out as it is written here, dot segments and all.
	path, req.URL.RawQuery, _ = strings.Cut(path, "?")
	req.URL.Path, req.URL.Opaque = path, path
	if body != nil {
		req.ContentLength = length
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %s, then %v after %d bytes", method, path, resp.Status, err, len(text))
	}
	return &answer{resp, text}, nil
}

// get is a GET that must be answered with status.
func (c *client) get(path string, status int, header ...string) (*answer, error) {
	return want(status)(c.send("GET", path, nil, 0, header...))
}

// want checks the status of an answer.
func want(status int) func(*answer, error) (*answer, error) {
	return func(a *answer, err error) (*answer, error) {
		if err == nil && a.StatusCode != status {
			err = fmt.Errorf("%s %s: status %d, want %d; body %.300q", a.Request.Method, a.Request.URL.RequestURI(), a.StatusCode, status, a.body)
		}
		return a, err
	}
}

// same compares a body with the bytes it should be.
func same(got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes with SHA-256 %x, want %d bytes with %x", len(got), sha256.Sum256(got), len(want), sha256.Sum256(want))
	}
	return nil
}

// noise is n bytes that no compression makes smaller.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// unsized hides the length of a body, so that it is sent in chunks.
func unsized(b []byte) io.Reader { return struct{ io.Reader }{bytes.NewReader(b)} }
