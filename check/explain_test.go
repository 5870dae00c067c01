package check

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/generation"
	"httpjet/metrics"
)

// askedTree is a tree with a plain and two secure listeners, one of which has nothing to
// show, a proxy, an application and a large file.
func askedTree(t *testing.T) *generation.Generation {
	t.Helper()
	root := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a.test"}, DNSNames: []string{"a.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put("conf/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	put("conf/key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	put("conf/httpd_config.xml", `<httpServerConfig><tuning><sslStrictSni>1</sslStrictSni><maxReqURLLen>500</maxReqURLLen><maxReqHeaderSize>2000</maxReqHeaderSize></tuning>
  <virtualHost><name>a</name><vhRoot>.</vhRoot><configFile>conf/a.xml</configFile></virtualHost>
  <listener><name>Plain</name><address>127.0.0.1:80</address><vhostMap><vhost>a</vhost><domain>a.test, b.test</domain></vhostMap></listener>
  <listener><name>Secure</name><address>127.0.0.1:443</address><secure>1</secure><keyFile>$SERVER_ROOT/conf/key.pem</keyFile><certFile>$SERVER_ROOT/conf/cert.pem</certFile>
    <vhostMap><vhost>a</vhost><domain>a.test</domain></vhostMap></listener>
</httpServerConfig>`)
	put("conf/a.xml", `<virtualHostConfig><docRoot>html</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>127.0.0.1:1</address></extProcessor>
  <extProcessor><type>fcgi</type><name>php</name><address>127.0.0.1:2</address><env>PASSWORD=hidden, word</env></extProcessor>
  <scriptHandler><suffix>php</suffix><type>fcgi</type><handler>php</handler></scriptHandler>
  <extProcessor><type>proxy</type><name>cold</name><address>127.0.0.1:3</address><healthCheck/></extProcessor>
  <extProcessor><type>proxy</type><name>h2</name><address>h2://127.0.0.1:4</address></extProcessor>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>
  <context><type>proxy</type><uri>/cold/</uri><handler>cold</handler></context>
  <context><type>proxy</type><uri>/h2/</uri><handler>h2</handler></context>
</virtualHostConfig>`)
	put("html/a.php", "<?php")
	put("html/big", "")
	if err := os.Truncate(filepath.Join(root, "html/big"), 1<<40); err != nil {
		t.Fatal(err)
	}
	g, err := load(Options{}, root, &generation.Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Retire)
	return g
}

// Questions that no client could ask are told so; they never become another request.
func TestExplainRefusesTheQuestion(t *testing.T) {
	g := askedTree(t)
	f := func(q Question, want string) {
		t.Helper()
		if d, err := Decide(g, q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v %+v, want %s", q, err, d, want)
		}
	}
	f(Question{URL: "a.test/"}, "write http")
	f(Question{URL: "ftp://a.test/"}, "write http")
	f(Question{URL: "http:///x"}, "host")
	f(Question{URL: "http://a b/x"}, "host")
	f(Question{URL: "http://a.test:99999/"}, "port")
	f(Question{URL: "http://user:secret@a.test/"}, "Authorization")
	f(Question{URL: "http://a.test/ HTTP/1.1\r\nX-Forwarded-For: 192.0.2.1\r\nY: "}, "one line")
	f(Question{URL: "http://a.test/\nX: y"}, "one line")
	f(Question{URL: "http://a.test/", Method: "GET /app/ HTTP/1.1\r\nX: y\r\n\r\n"}, "one line")
	f(Question{URL: "http://a.test/", Proto: "quic"}, "use h1, h2 or h3")
	f(Question{URL: "http://a.test/", Fields: []exchange.Field{{Name: "X", Value: "a\r\nY: b"}}}, "field")
	f(Question{URL: "http://a.test/", Fields: []exchange.Field{{Name: "", Value: "a"}}}, "field")
	f(Question{URL: "http://a.test/", Fields: []exchange.Field{{Name: "Host", Value: "a"}, {Name: "host", Value: "b"}}}, "twice")
}

// Requests that a client could send have the status that the front end, or the table,
// gives them.
func TestExplainOddRequests(t *testing.T) {
	g := askedTree(t)
	field := func(name, value string) []exchange.Field { return []exchange.Field{{Name: name, Value: value}} }
	upgrade := []exchange.Field{{Name: "Connection", Value: "Upgrade"}, {Name: "Upgrade", Value: "websocket"}}
	f := func(q Question, status int, reason, group string) {
		t.Helper()
		d, err := Decide(g, q)
		if err != nil || d.Status != status || d.Reason != reason || d.Group != group {
			t.Errorf("%+v: %v %+v", q, err, d)
		}
	}
	f(Question{URL: "http://a.test/app/"}, 0, "", "app")
	f(Question{URL: "http://a.test?x"}, 404, "not_found", "")
	f(Question{URL: "http://a.test/app/#part"}, 0, "", "app")
	f(Question{URL: "http://a.test:/app/"}, 0, "", "app")
	f(Question{URL: "http://[::1]:8080/app/"}, 404, "no_vhost", "")
	f(Question{URL: "http://[::1/"}, 400, "bad_request", "")
	f(Question{URL: "http://\u00e4.test/"}, 400, "bad_request", "")
	f(Question{URL: "http://a.test:x/"}, 400, "bad_request", "")
	f(Question{URL: "http://a.test/a b"}, 400, "bad_request", "")
	f(Question{URL: "http://a.test/", Method: "G T"}, 400, "bad_request", "")
	f(Question{URL: "http://a.test/" + strings.Repeat("x", 600)}, 414, "uri_too_long", "")
	f(Question{URL: "http://a.test/", Fields: field("X", strings.Repeat("x", 2000))}, 431, "request_head_too_large", "")
	f(Question{URL: "http://127.0.0.1/app/", Fields: field("Host", "a.test")}, 0, "", "app")
	f(Question{URL: "http://a.test/app/", Fields: field("HOST", "other.test")}, 404, "no_vhost", "")
	f(Question{URL: "http://a.test/app/", Fields: upgrade}, 426, "bad_request", "app")
	f(Question{URL: "http://a.test/app/", Fields: upgrade, Proto: "h2"}, 400, "bad_request", "")
	f(Question{URL: "http://a.test/app/", Fields: field("TE", "gzip"), Proto: "h2"}, 400, "bad_request", "")
	f(Question{URL: "http://a.test/app/", Fields: field("TE", "trailers"), Proto: "h2"}, 0, "", "app")
	f(Question{URL: "https://a.test/app/"}, 0, "", "app")
	f(Question{URL: "https://127.0.0.1/app/", Fields: field("Host", "a.test")}, 0, "", "app")
}

// A group that can have no request, or carries no WebSocket, says so as it does when it
// serves. Only a tree by itself cannot know what a health check will say.
func TestExplainGroups(t *testing.T) {
	g := askedTree(t)
	upgrade := []exchange.Field{{Name: "Connection", Value: "Upgrade"}, {Name: "Upgrade", Value: "websocket"},
		{Name: "Sec-WebSocket-Version", Value: "13"}, {Name: "Sec-WebSocket-Key", Value: "dGhlIHNhbXBsZSBub25jZQ=="}}
	f := func(q Question, status int, reason, offline string) {
		t.Helper()
		d, err := Decide(g, q)
		if err != nil || d.Status != status || d.Reason != reason {
			t.Errorf("%+v: %v %+v", q, err, d)
		}
		var b bytes.Buffer
		if code, err := Explain(Options{Root: g.Config.Root}, q, &b); code != OK || err != nil || !strings.Contains(b.String(), offline) {
			t.Errorf("%+v: %d %v %s", q, code, err, &b)
		}
	}
	f(Question{URL: "http://a.test/app/", Fields: upgrade}, 0, "", "what vhost:a app answers\n")
	f(Question{URL: "http://a.test/cold/"}, 503, "no_upstream", "what vhost:a cold answers, once a peer has passed")
	f(Question{URL: "http://a.test/cold/", Fields: upgrade}, 503, "no_upstream", "what vhost:a cold answers, once a peer has passed")
	f(Question{URL: "http://a.test/h2/"}, 0, "", "what vhost:a h2 answers\n")
	f(Question{URL: "http://a.test/h2/", Fields: upgrade}, 502, "upgrade_unsupported", "502 upgrade_unsupported")
	if _, err := g.Drain("cold", "0", true); err != nil {
		t.Fatal(err)
	}
	f(Question{URL: "http://a.test/cold/"}, 503, "no_upstream", "once a peer")
}

// A handshake that fails is no answer.
func TestExplainHandshake(t *testing.T) {
	g := askedTree(t)
	f := func(url, step string, answered bool) {
		t.Helper()
		d, err := Decide(g, Question{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(d.Steps, func(s exchange.Step) bool { return s.Name == "handshake" })
		if i < 0 || !strings.Contains(d.Steps[i].Text, step) || (d.Group != "") != answered {
			t.Errorf("%s: %+v", url, d)
		}
		var b bytes.Buffer
		if d.Write(&b, false); strings.Contains(b.String(), "handshake\n") == answered {
			t.Errorf("%s: %s", url, &b)
		}
	}
	f("https://a.test/app/", "the certificate for a.test", true)
	f("https://b.test/app/", `fails for the server name "b.test"`, false)
	d, err := Decide(g, Question{URL: "http://a.test/"})
	if err != nil || slices.ContainsFunc(d.Steps, func(s exchange.Step) bool { return s.Name == "handshake" }) {
		t.Errorf("plain: %v %+v", err, d)
	}
}

// Nothing is read of a file that would be sent, and no value of env is told.
func TestExplainReadsAndTellsNothing(t *testing.T) {
	g := askedTree(t)
	d, err := Decide(g, Question{URL: "http://a.test/big"}) // a TiB takes longer than any test may
	if err != nil || d.Status != 200 {
		t.Errorf("%v %+v", err, d)
	}
	d, err = Decide(g, Question{URL: "http://a.test/a.php"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	d.Write(&b, false)
	if text := b.String(); strings.Contains(text, "hidden") || !strings.Contains(text, "PASSWORD=...\n") ||
		!strings.Contains(text, "REQUEST_METHOD=GET\n") || !strings.Contains(text, "peer 0 127.0.0.1:2,") {
		t.Errorf("%s", text)
	}
}
