package server

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// authority is a CA of tests.
type authority struct {
	pair *tls.Certificate
}

// issue makes a certificate and writes it to root as name.crt and name.key.
func (a *authority) issue(t *testing.T, root, name string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		IsCA: a == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	by, signer := tmpl, any(key)
	if a != nil {
		by, signer = a.pair.Leaf, a.pair.PrivateKey
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
	put(t, root, name+".crt", string(certPEM))
	put(t, root, name+".key", string(keyPEM))
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// runBoth is run with a secure listener "S" besides the plain one "Default".
func runBoth(t *testing.T, root string) (r *running, addrs map[string]string) {
	t.Helper()
	r, addrs = runWith(t, Options{Root: root, HTTPAddr: "127.0.0.1:0", HTTPSAddr: "127.0.0.1:0"})
	r.log.await(t, "INFO ready")
	return r, addrs
}

// tlsAnswer is the answer to a GET over TLS: the name of the handshake and the Host
// are the test's choice. proto is "h2" or "http/1.1".
func tlsAnswer(addr, proto, sni, host, path string, cert *tls.Certificate) (status int, body string, err error) {
	conf := &tls.Config{ServerName: sni, InsecureSkipVerify: true, NextProtos: []string{proto}}
	if cert != nil {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	if proto == "http/1.1" {
		c, err := tls.Dial("tcp", addr, conf)
		if err != nil {
			return 0, "", err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, "", err
		}
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), err
	}
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: conf,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}}
	defer tr.CloseIdleConnections()
	req, _ := http.NewRequest("GET", "https://"+addr+path, nil)
	req.Host = host
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if resp.ProtoMajor != 2 {
		err = fmt.Errorf("answered by %s", resp.Proto)
	}
	return resp.StatusCode, string(b), err
}

// mtlsTree has a host for each way to ask for client certificates.
func mtlsTree(t *testing.T) (root string, a, b *authority) {
	t.Helper()
	root = t.TempDir()
	a, b = &authority{(*authority)(nil).issue(t, root, "caA")}, &authority{(*authority)(nil).issue(t, root, "caB")}
	list, maps := "", ""
	for host, ssl := range map[string]string{
		"open.test": "", "cert.test": "<clientVerify>2</clientVerify><CACertFile>caA.crt</CACertFile>",
		"twin.test": "<clientVerify>2</clientVerify><CACertFile>caA.crt</CACertFile>",
		"may.test":  "<clientVerify>1</clientVerify><CACertFile>caB.crt</CACertFile>",
		"any.test":  "<clientVerify>3</clientVerify>",
	} {
		a.issue(t, root, host)
		list += "<virtualHost><name>" + host + "</name><vhRoot>.</vhRoot><configFile>conf/" + host + ".xml</configFile></virtualHost>"
		maps += "<vhostMap><vhost>" + host + "</vhost><domain>" + host + "</domain></vhostMap>"
		put(t, root, "conf/"+host+".xml", "<virtualHostConfig><docRoot>html</docRoot><vhssl><certFile>"+host+".crt</certFile><keyFile>"+host+".key</keyFile>"+ssl+"</vhssl></virtualHostConfig>")
	}
	put(t, root, "conf/httpd_config.xml", "<httpServerConfig>"+list+"<listener><name>Default</name><address>127.0.0.1:1</address>"+maps+
		"</listener><listener><name>S</name><address>127.0.0.1:2</address><secure>1</secure><certFile>open.test.crt</certFile><keyFile>open.test.key</keyFile>"+maps+"</listener></httpServerConfig>")
	put(t, root, "html/x.txt", "text")
	return root, a, b
}

// R-TLS-2, R-LSN-5: what requires a client certificate is open to those who show one
// alone, whatever version and whatever name the handshake had (G67).
func TestG67ClientCertificates(t *testing.T) {
	root, a, b := mtlsTree(t)
	ofA, ofB, forged := a.issue(t, root, "clientA"), b.issue(t, root, "clientB"), (*authority)(nil).issue(t, root, "forged")
	r, addrs := runBoth(t, root)
	type row struct {
		sni, host string
		cert      *tls.Certificate
		want      int // 0: the handshake fails
	}
	for _, proto := range []string{"http/1.1", "h2"} {
		for i, c := range []row{
			{"open.test", "open.test", nil, 200},
			{"cert.test", "cert.test", nil, 403},
			{"cert.test", "cert.test", ofA, 200},
			{"cert.test", "cert.test", ofB, 0},
			{"cert.test", "cert.test", forged, 0},
			{"cert.test", "twin.test", ofA, 200}, // asks for the same
			{"cert.test", "twin.test", nil, 403},
			{"open.test", "cert.test", nil, 421},
			{"open.test", "cert.test", ofA, 421},
			{"", "cert.test", ofA, 421},
			{"none.test", "cert.test", ofA, 421},
			{"may.test", "cert.test", ofB, 421},
			{"may.test", "cert.test", nil, 421},
			{"any.test", "cert.test", ofA, 421},
			{"any.test", "any.test", forged, 200},
			{"any.test", "any.test", nil, 200},
			{"may.test", "may.test", nil, 200},
			{"may.test", "may.test", ofB, 200},
			{"may.test", "may.test", ofA, 0},
			{"cert.test", "open.test", ofA, 421}, // its certificate is of no concern there
			{"cert.test", "open.test", nil, 200},
			{"open.test", "none.test", nil, 404},
			{"cert.test", "none.test", ofA, 404},
		} {
			status, body, err := tlsAnswer(addrs["S"], proto, c.sni, c.host, "/x.txt", c.cert)
			if c.want == 0 && err == nil || c.want != 0 && (err != nil || status != c.want) || (status == 200) != (body == "text") {
				t.Errorf("%s row %d, SNI %s, Host %s: %d %q %v, want %d", proto, i, c.sni, c.host, status, body, err, c.want)
			}
		}
	}
	plain := func(host, path string) (int, http.Header) {
		req, _ := http.NewRequest("GET", r.base+path, nil)
		req.Host = host
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header
	}
	if status, f := plain("cert.test:81", "/x.txt?a=b"); status != 301 || f.Get("Location") != "https://cert.test/x.txt?a=b" || f.Get("Cache-Control") != "private, no-store" {
		t.Errorf("plain: %d %v", status, f)
	}
	for path, want := range map[string]int{"/.well-known/acme-challenge/x": 404, "/.well-known/acme-challenge/../../x.txt": 301} {
		if status, _ := plain("cert.test", path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if status, _ := plain("may.test", "/x.txt"); status != 200 {
		t.Errorf("plain to a host that requires none: %d", status)
	}
}

// A kept connection, and a session that is resumed, count for what the certificate
// of their client is worth now: other authorities after a reload, or a certificate
// that has been revoked.
func TestClientCertificatesAfterReload(t *testing.T) {
	root, a, b := mtlsTree(t)
	ofA := a.issue(t, root, "clientA")
	b.issue(t, root, "unused")
	r, addrs := runBoth(t, root)
	conf := &tls.Config{ServerName: "cert.test", InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(0),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return ofA, nil }}
	dial := func() (*tls.Conn, *bufio.Reader) {
		t.Helper()
		c, err := tls.Dial("tcp", addrs["S"], conf)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience))
		return c, bufio.NewReader(c)
	}
	ask := func(c *tls.Conn, br *bufio.Reader) int {
		t.Helper()
		io.WriteString(c, "GET /x.txt HTTP/1.1\r\nHost: cert.test\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return 0
		}
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	kept, br := dial()
	if s := ask(kept, br); s != 200 {
		t.Fatal(s)
	}
	list, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour),
		RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: ofA.Leaf.SerialNumber, RevocationTime: time.Now()}}}, a.pair.Leaf, a.pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	put(t, root, "a.crl", string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: list})))
	site := "<virtualHostConfig><docRoot>html</docRoot><vhssl><certFile>cert.test.crt</certFile><keyFile>cert.test.key</keyFile><clientVerify>2</clientVerify>%s</vhssl></virtualHostConfig>"
	for _, change := range []string{"<CACertFile>caA.crt</CACertFile><crlFile>a.crl</crlFile>", "<CACertFile>caB.crt</CACertFile>"} {
		put(t, root, "conf/cert.test.xml", fmt.Sprintf(site, change))
		if line := r.reload(t); !strings.Contains(line, "published") {
			t.Fatal(line)
		}
		k := kept
		if k != nil {
			if s := ask(k, br); s != 421 {
				t.Errorf("%s: a kept connection is answered %d", change, s)
			}
			kept = nil // it was closed
		}
		if c, err := tls.Dial("tcp", addrs["S"], conf); err == nil {
			if s := ask(c, bufio.NewReader(c)); s != 0 {
				t.Errorf("%s: %d, resumed %v", change, s, c.ConnectionState().DidResume)
			}
			c.Close()
		}
	}
}

// A requirement that cannot be built closes its host, and a reload that would bring
// that is refused by what it takes away.
func TestClientCertificatesThatCannotBeAsked(t *testing.T) {
	for _, ssl := range []string{"", "<CACertFile>none.crt</CACertFile>", "<CACertFile>html/x.txt</CACertFile>", "<CACertPath>html</CACertPath>",
		"<CACertFile>caA.crt</CACertFile><crlFile>html/x.txt</crlFile>", "<CACertFile>caA.crt</CACertFile><crlFile>b.crl</crlFile>"} {
		root, a, b := mtlsTree(t)
		ofA := a.issue(t, root, "clientA")
		list, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)},
			b.pair.Leaf, b.pair.PrivateKey.(*ecdsa.PrivateKey))
		if err != nil {
			t.Fatal(err)
		}
		put(t, root, "b.crl", string(list))
		put(t, root, "conf/cert.test.xml", "<virtualHostConfig><docRoot>html</docRoot><vhssl><certFile>cert.test.crt</certFile><keyFile>cert.test.key</keyFile><clientVerify>2</clientVerify>"+ssl+"</vhssl></virtualHostConfig>")
		r, addrs := runBoth(t, root)
		if status, _, err := tlsAnswer(addrs["S"], "http/1.1", "cert.test", "cert.test", "/x.txt", ofA); status == 200 {
			t.Errorf("%s: %d %v", ssl, status, err)
		}
		req, _ := http.NewRequest("GET", r.base+"/x.txt", nil)
		req.Host = "cert.test"
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil || resp.StatusCode != 503 {
			t.Errorf("%s: plain %v %v", ssl, resp, err)
		}
		resp.Body.Close()
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
}
