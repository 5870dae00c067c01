package server

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

// secureTree has one host on a plain and a secure listener with the certificate own.crt.
// ssl is what stands in the secure listener besides, more in the server.
func secureTree(t *testing.T, root, ssl, more string) {
	t.Helper()
	maps := "<vhostMap><vhost>one</vhost><domain>own.test</domain></vhostMap>"
	put(t, root, "conf/httpd_config.xml", `<httpServerConfig>`+more+`<virtualHost><name>one</name><vhRoot>.</vhRoot><configFile>conf/one.xml</configFile></virtualHost>
  <listener><name>Default</name><address>127.0.0.1:1</address>`+maps+`</listener>
  <listener><name>S</name><address>127.0.0.1:2</address><secure>1</secure><certFile>own.crt</certFile><keyFile>own.key</keyFile>`+ssl+maps+`</listener></httpServerConfig>`)
	put(t, root, "conf/one.xml", `<virtualHostConfig><docRoot>html</docRoot></virtualHostConfig>`)
	put(t, root, "html/x.txt", "text")
}

// session asks over a new connection and returns its state.
func session(t *testing.T, addr string, conf *tls.Config) tls.ConnectionState {
	t.Helper()
	c, err := tls.Dial("tcp", addr, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	io.WriteString(c, "GET /x.txt HTTP/1.1\r\nHost: own.test\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	io.Copy(io.Discard, resp.Body)
	return c.ConnectionState()
}

// A client resumes its session after a reload, and by the keys of a file also after a
// restart; sslSessionTickets 0 ends that.
func TestSessionsOverReloadAndRestart(t *testing.T) {
	root := t.TempDir()
	own := (*authority)(nil).issue(t, root, "own.test")
	link(t, root, "own.test")
	put(t, root, "tickets", strings.Repeat("k", 48))
	f := func(what, more string, restarted bool) {
		t.Helper()
		secureTree(t, root, "", more)
		roots := x509.NewCertPool()
		roots.AddCert(own.Leaf)
		conf := &tls.Config{ServerName: "own.test", RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
		r, addrs := runBoth(t, root)
		if session(t, addrs["S"], conf).DidResume {
			t.Errorf("%s: the first connection is resumed", what)
		}
		if line := r.reload(t); !strings.Contains(line, "published") {
			t.Fatal(line)
		}
		if !session(t, addrs["S"], conf).DidResume {
			t.Errorf("%s: not resumed after a reload", what)
		}
		r.stop()
		r, addrs = runBoth(t, root)
		if session(t, addrs["S"], conf).DidResume != restarted {
			t.Errorf("%s: resumed after a restart: %v", what, !restarted)
		}
		secureTree(t, root, "<sslSessionTickets>0</sslSessionTickets>", more)
		if line := r.reload(t); !strings.Contains(line, "published") {
			t.Fatal(line)
		}
		if session(t, addrs["S"], conf).DidResume {
			t.Errorf("%s: resumed although tickets are off", what)
		}
		r.stop()
	}
	f("random keys", "", false)
	f("keys of a file", "<tuning><sslSessionTicketKeyFile>tickets</sslSessionTicketKeyFile></tuning>", true)
}

// link makes own.crt and own.key links to the pair of that name, as certbot does.
func link(t *testing.T, root, name string) {
	t.Helper()
	for _, ext := range []string{".crt", ".key"} {
		tmp := filepath.Join(root, "tmp"+ext)
		if err := os.Symlink(name+ext, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(root, "own"+ext)); err != nil {
			t.Fatal(err)
		}
	}
}

// R-TLS-3: a renewal that turns links to other files is in force after a reload; one
// that leaves a pair which does not match is refused, and the old certificate stays.
func TestCertificateRenewedByLinks(t *testing.T) {
	root := t.TempDir()
	(*authority)(nil).issue(t, root, "first")
	(*authority)(nil).issue(t, root, "second")
	link(t, root, "first")
	secureTree(t, root, "", "")
	r, addrs := runBoth(t, root)
	f := func(want string) {
		t.Helper()
		cs := session(t, addrs["S"], &tls.Config{ServerName: "own.test", InsecureSkipVerify: true})
		if got := cs.PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("certificate of %s, want %s", got, want)
		}
	}
	f("first")
	link(t, root, "second")
	if line := r.reload(t); !strings.Contains(line, "published") {
		t.Fatal(line)
	}
	f("second")
	if err := os.Remove(filepath.Join(root, "own.key")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("first.key", filepath.Join(root, "own.key")); err != nil {
		t.Fatal(err)
	}
	if line := r.reload(t); !strings.Contains(line, "reload refused") {
		t.Fatal(line)
	}
	f("second")
}

// enableStapling: the response of the authority's responder is sent along once it is
// there; a responder that fails changes nothing but that.
func TestStapledResponse(t *testing.T) {
	root := t.TempDir()
	ca := &authority{(*authority)(nil).issue(t, root, "ca")}
	own := ca.issue(t, root, "own.test")
	chain, _ := os.ReadFile(filepath.Join(root, "own.test.crt"))
	issuer, _ := os.ReadFile(filepath.Join(root, "ca.crt"))
	put(t, root, "own.crt", string(chain)+string(issuer))
	key, _ := os.ReadFile(filepath.Join(root, "own.test.key"))
	put(t, root, "own.key", string(key))
	answered := make(chan struct{}, 10)
	responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		der, err := ocsp.CreateResponse(ca.pair.Leaf, ca.pair.Leaf, ocsp.Response{Status: ocsp.Good, SerialNumber: own.Leaf.SerialNumber,
			ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour)}, ca.pair.PrivateKey.(*ecdsa.PrivateKey))
		if err != nil {
			t.Error(err)
		}
		w.Write(der)
		answered <- struct{}{}
	}))
	defer responder.Close()
	secureTree(t, root, fmt.Sprintf("<enableStapling>1</enableStapling><ocspResponder>%s</ocspResponder>", responder.URL), "")
	_, addrs := runBoth(t, root)
	<-answered
	deadline := time.Now().Add(patience)
	for {
		cs := session(t, addrs["S"], &tls.Config{ServerName: "own.test", InsecureSkipVerify: true})
		if len(cs.OCSPResponse) > 0 {
			if _, err := ocsp.ParseResponseForCert(cs.OCSPResponse, own.Leaf, ca.pair.Leaf); err != nil {
				t.Error(err)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no response is stapled")
		}
	}
}

// ciphers and sslDefaultCiphers choose the suites of TLS 1.2, and only theirs.
func TestCiphersOfListeners(t *testing.T) {
	root := t.TempDir()
	(*authority)(nil).issue(t, root, "own")
	f := func(ssl, more string, suite uint16, ok bool) {
		t.Helper()
		secureTree(t, root, ssl, more)
		r, addrs := runBoth(t, root)
		c, err := tls.Dial("tcp", addrs["S"], &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}})
		if (err == nil) != ok {
			t.Errorf("%s%s: %s: %v", ssl, more, tls.CipherSuiteName(suite), err)
		}
		if err == nil {
			c.Close()
		}
		r.stop()
	}
	const a, b = tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
	f("", "", b, true)
	f("<ciphers>EECDH+AESGCM</ciphers>", "", b, false)
	f("<ciphers>EECDH+AESGCM</ciphers>", "<tuning><sslDefaultCiphers>CHACHA20</sslDefaultCiphers></tuning>", a, true)
	f("", "<tuning><sslDefaultCiphers>CHACHA20</sslDefaultCiphers></tuning>", a, false)
}
