package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

var dials atomic.Int64 // of all clients over HTTP/3

// h3Client is a client that speaks HTTP/3 to one address, whatever the URL says.
func h3Client(t *testing.T, addr string, conf *tls.Config) (*http.Client, *http3.Transport) {
	t.Helper()
	if conf == nil {
		conf = &tls.Config{}
	}
	conf.InsecureSkipVerify = true
	tr := &http3.Transport{TLSClientConfig: conf, Dial: func(ctx context.Context, _ string, c *tls.Config, qc *quic.Config) (*quic.Conn, error) {
		dials.Add(1)
		return quic.DialAddr(ctx, addr, c, qc)
	}}
	t.Cleanup(func() { tr.Close() })
	return &http.Client{Transport: tr, Timeout: patience}, tr
}

func getH3(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// R-H3-1: HTTP/3 at the port of a secure listener, told over TLS; a reload keeps the
// connections, and one that switches it off ends them without loss.
func TestHTTP3(t *testing.T) {
	root := t.TempDir()
	(*authority)(nil).issue(t, root, "own")
	secureTree(t, root, "", "")
	r, addrs := runBoth(t, root)
	_, port, _ := net.SplitHostPort(addrs["S"])
	c, _ := h3Client(t, addrs["S"], nil)
	f := func(proto, path string, status int, body string) {
		t.Helper()
		resp, got := getH3(t, c, "https://own.test"+path)
		if resp.Proto != proto || resp.StatusCode != status || !strings.Contains(got, body) || resp.Header.Get("Connection") != "" {
			t.Errorf("%s %s %q %v", resp.Proto, resp.Status, got, resp.Header)
		}
	}
	f("HTTP/3.0", "/x.txt", 200, "text")
	f("HTTP/3.0", "/none", 404, "404")
	over, err := tls.Dial("tcp", addrs["S"], &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	ask := func() http.Header {
		t.Helper()
		resp, err := rawGet(over, "own.test")
		if err != nil {
			t.Fatal(err)
		}
		return resp.Header
	}
	if got := ask().Get("Alt-Svc"); got != `h3=":`+port+`"; ma=86400` {
		t.Errorf("Alt-Svc %q", got)
	}
	plain, err := http.Get(r.base + "/x.txt")
	if err != nil {
		t.Fatal(err)
	}
	plain.Body.Close()
	if plain.Header.Get("Alt-Svc") != "" {
		t.Error("Alt-Svc in clear text")
	}
	put(t, root, "html/x.txt", "other")
	if line := r.reload(t); !strings.Contains(line, "published") {
		t.Fatal(line)
	}
	before := dials.Load()
	f("HTTP/3.0", "/x.txt", 200, "other")
	if dials.Load() != before {
		t.Error("a reload has ended the connection")
	}
	// The host's own switch: it is not told, and works still.
	put(t, root, "conf/one.xml", `<virtualHostConfig><docRoot>html</docRoot><enableQuic>0</enableQuic></virtualHostConfig>`)
	if line := r.reload(t); !strings.Contains(line, "published") {
		t.Fatal(line)
	}
	if got := ask().Get("Alt-Svc"); got != "" {
		t.Errorf("Alt-Svc %q of a host without HTTP/3", got)
	}
	f("HTTP/3.0", "/x.txt", 200, "other")
	for _, off := range []struct{ ssl, more string }{{"<enableQuic>0</enableQuic>", ""}, {"<enableSpdy>4</enableSpdy>", ""}, {"<sslProtocol>8</sslProtocol>", ""},
		{"", "<tuning><quicEnable>0</quicEnable></tuning>"}, {"", "<quic><quicEnable>0</quicEnable></quic>"}} {
		secureTree(t, root, "", "")
		if line := r.reload(t); !strings.Contains(line, "published") {
			t.Fatal(line)
		}
		again, tr := h3Client(t, addrs["S"], nil)
		getH3(t, again, "https://own.test/x.txt")
		secureTree(t, root, off.ssl, off.more)
		if line := r.reload(t); !strings.Contains(line, "published") {
			t.Fatal(line)
		}
		tr.Close()
		// Nobody is at the port, or will be: a client that waits finds out by its own time.
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if conn, err := quic.DialAddr(ctx, addrs["S"], &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}, ServerName: "own.test"}, nil); err == nil {
			t.Errorf("%s%s: HTTP/3 is there", off.ssl, off.more)
			conn.CloseWithError(0, "")
		}
		cancel()
		if got := ask().Get("Alt-Svc"); got != "" {
			t.Errorf("%s%s: Alt-Svc %q", off.ssl, off.more, got)
		}
		waitUntilFree(t, addrs["S"])
	}
}

// waitUntilFree waits until nobody has a UDP port any more.
func waitUntilFree(t *testing.T, addr string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		pc, err := net.ListenPacket("udp", addr)
		if err == nil {
			pc.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// rawGet asks for /x.txt over a connection that is kept.
func rawGet(c net.Conn, host string) (*http.Response, error) {
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "GET /x.txt HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	return resp, err
}

// Client certificates and the rules about them hold over HTTP/3 as over TCP (R-TLS-2,
// G67), and so do names.
func TestG67OverHTTP3(t *testing.T) {
	root, a, b := mtlsTree(t)
	ofA, ofB := a.issue(t, root, "clientA"), b.issue(t, root, "clientB")
	_, addrs := runBoth(t, root)
	f := func(sni, host string, cert *tls.Certificate, status int) {
		t.Helper()
		conf := &tls.Config{ServerName: sni}
		if cert != nil {
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
		}
		c, tr := h3Client(t, addrs["S"], conf)
		defer tr.Close()
		req, _ := http.NewRequest("GET", "https://"+host+"/x.txt", nil)
		resp, err := c.Do(req)
		if err != nil {
			if status != 0 {
				t.Errorf("%s, %s: %v", sni, host, err)
			}
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("name %s, host %s: %d, want %d", sni, host, resp.StatusCode, status)
		}
		if n := resp.TLS.PeerCertificates[0].Subject.CommonName; n != sni {
			t.Errorf("name %s: certificate of %s", sni, n)
		}
	}
	f("open.test", "open.test", nil, 200)
	f("cert.test", "cert.test", nil, 403)
	f("cert.test", "cert.test", ofA, 200)
	f("cert.test", "cert.test", ofB, 0)
	f("cert.test", "twin.test", ofA, 200)
	f("open.test", "cert.test", nil, 421)
	f("cert.test", "open.test", ofA, 421)
	f("any.test", "any.test", ofB, 200)
}

// A drain lets requests over HTTP/3 end and tells their clients to go; the key file is
// kept for the own user, and used by the next process.
func TestHTTP3DrainAndKeys(t *testing.T) {
	root := t.TempDir()
	(*authority)(nil).issue(t, root, "own")
	secureTree(t, root, "", "")
	file := filepath.Join(root, "run/quic.key")
	var kept string
	for i := range 2 {
		r, addrs := runBoth(t, root)
		c, _ := h3Client(t, addrs["S"], nil)
		getH3(t, c, "https://own.test/x.txt")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(file)
		if err != nil || fi.Mode().Perm() != 0o600 || fi.Size() != 32 {
			t.Fatal(fi, err)
		}
		data, _ := os.ReadFile(file)
		if i == 1 && string(data) != kept {
			t.Error("another key after a restart")
		}
		kept = string(data)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, filepath.Join(root, "html"), filepath.Join(root, "html/x.txt/k")} {
		secret, err := keepSecret(name)
		if len(secret) != 32 || string(secret) == kept || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
