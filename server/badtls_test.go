package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// runMeasured is runBoth with metrics, whose address is "metrics".
func runMeasured(t *testing.T, root string) (r *running, addrs map[string]string) {
	t.Helper()
	return runWith(t, Options{Root: root, HTTPAddr: "127.0.0.1:0", HTTPSAddr: "127.0.0.1:0", MetricsAddr: "127.0.0.1:0"})
}

// metric returns the value of a series, as its line begins; -1 if there is none.
func metric(t *testing.T, addrs map[string]string, series string) float64 {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	text, err := get(c, "http://"+addrs["metrics"]+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// helloBytes are what a client sends first.
func helloBytes(t *testing.T, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	b := make([]byte, 16<<10)
	n, err := server.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// Handshakes that are broken in any way, over TCP and UDP, are counted and told of; other
// connections go on.
func TestBrokenHandshakes(t *testing.T) {
	root := t.TempDir()
	(*authority)(nil).issue(t, root, "own")
	secureTree(t, root, "", "<logging><log><logLevel>DEBUG</logLevel></log></logging><tuning><sslStrictSni>1</sslStrictSni></tuning>")
	r, addrs := runMeasured(t, root)
	over := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{ServerName: "own.test", InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addrs["S"])
		}}}
	defer over.CloseIdleConnections()
	h3, _ := h3Client(t, addrs["S"], &tls.Config{ServerName: "own.test"})
	others := func(when string) {
		t.Helper()
		for _, c := range []*http.Client{over, h3} {
			if body, err := get(c, "https://own.test/x.txt"); body != "text" || err != nil {
				t.Errorf("%s, another connection: %q %v", when, body, err)
			}
		}
	}
	others("before")
	const errors = "httpjet_tls_handshake_errors_total"
	if n := metric(t, addrs, errors); n != 0 {
		t.Errorf("%v failures before", n)
	}
	failed := 0.0
	counted := func(what string) {
		t.Helper()
		failed++
		for end := time.Now().Add(patience); metric(t, addrs, errors) < failed; {
			if time.Now().After(end) {
				t.Fatalf("%s is not counted", what)
			}
		}
		if n := metric(t, addrs, errors); n != failed {
			t.Errorf("%s: %v failures, want %v", what, n, failed)
		}
	}
	hello := helloBytes(t, "own.test")
	send := func(what string, b []byte) {
		t.Helper()
		c, err := net.Dial("tcp", addrs["S"])
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		c.Write(b)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		c.Close()
		counted(what)
		r.log.await(t, "TLS handshake")
	}
	send("nothing", nil)
	for _, n := range []int{1, 4, 5, 6, 43, len(hello) / 2, len(hello) - 1} {
		send(fmt.Sprintf("a hello cut at %d", n), hello[:n])
	}
	send("a hello and no more", hello)
	long := append([]byte{}, hello...)
	long[3], long[4] = 0xff, 0xff
	send("a record that is too long", long)
	short := append([]byte{}, hello...)
	short[6], short[7], short[8] = 0xff, 0xff, 0xff
	send("a message that is too long", short)
	send("an application record first", append([]byte{23}, hello[1:]...))
	send("junk", []byte(strings.Repeat("\xff\x00junk", 100)))
	send("plain HTTP", []byte("GET / HTTP/1.1\r\nHost: own.test\r\n\r\n"))
	send("an unknown name", helloBytes(t, "unknown.test"))
	others("behind them")

	refused := func(what string, conf *tls.Config) {
		t.Helper()
		conf.InsecureSkipVerify = true
		if c, err := quic.DialAddr(t.Context(), addrs["S"], conf, nil); err == nil {
			c.CloseWithError(0, "")
			t.Errorf("%s: a connection", what)
		}
		counted(what)
		r.log.await(t, "QUIC handshake")
	}
	refused("an unknown name over QUIC", &tls.Config{ServerName: "unknown.test", NextProtos: []string{"h3"}})
	refused("another protocol over QUIC", &tls.Config{ServerName: "own.test", NextProtos: []string{"smtp"}})
	udp, err := net.Dial("udp", addrs["S"])
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for _, n := range []int{1, 20, 1200} {
		b := make([]byte, n)
		rand.Read(b)
		udp.Write(b)
		b[0] |= 0xc0 // a long header
		udp.Write(b)
	}
	others("behind junk over UDP")
	if n := metric(t, addrs, "httpjet_quic_connections"); n != 1 {
		t.Errorf("%v connections over QUIC", n)
	}
	if n := metric(t, addrs, "httpjet_bugs_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// issueFor writes a certificate for a name that ends after a time.
func issueFor(t *testing.T, root, file, name string, life time.Duration) (end time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	end = time.Now().Add(life).Truncate(time.Second)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, NotBefore: end.Add(-90 * 24 * time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, root, file+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	put(t, root, file+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
	return end
}

// A certificate that has ended, or is for another name, is told of and shown all the
// same; its end is in the metrics. One whose key is another's is not used: a reload that
// brings it is refused.
func TestEndedAndMismatchedCertificates(t *testing.T) {
	root := t.TempDir()
	end := issueFor(t, root, "own", "own.test", -time.Hour)
	secureTree(t, root, "", "")
	r, addrs := runMeasured(t, root)
	r.log.await(t, "W-CERT-EXPIRY")
	const series = `httpjet_certificate_expiry_timestamp_seconds{name="%s",source="file"}`
	if n := metric(t, addrs, fmt.Sprintf(series, "own.test")); n != float64(end.Unix()) {
		t.Errorf("ends at %v, want %d", n, end.Unix())
	}
	shown := func(name string) {
		t.Helper()
		cs := session(t, addrs["S"], &tls.Config{ServerName: "own.test", InsecureSkipVerify: true})
		if got := cs.PeerCertificates[0].DNSNames[0]; got != name {
			t.Errorf("certificate of %s, want %s", got, name)
		}
	}
	shown("own.test")
	end = issueFor(t, root, "own", "other.test", 80*24*time.Hour)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	r.log.await(t, "W-CERT-NAME")
	r.log.await(t, "INFO published")
	shown("other.test")
	if n := metric(t, addrs, fmt.Sprintf(series, "other.test")); n != float64(end.Unix()) {
		t.Errorf("ends at %v, want %d", n, end.Unix())
	}
	if n := metric(t, addrs, fmt.Sprintf(series, "own.test")); n != -1 {
		t.Errorf("a certificate that is gone ends at %v", n)
	}
	own, err := os.ReadFile(root + "/own.key")
	if err != nil {
		t.Fatal(err)
	}
	issueFor(t, root, "own", "own.test", 80*24*time.Hour)
	put(t, root, "own.key", string(own))
	if line := r.reload(t); !strings.Contains(line, "refused") {
		t.Error(line)
	}
	shown("other.test")
}
