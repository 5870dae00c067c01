package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/quic-go/quic-go/http3"
)

// browsers are what browsers accept, in clear text and over TLS.
var browsers = []struct{ name, accept, want string }{
	{"chrome", "gzip, deflate, br, zstd", "zstd"},
	{"firefox", "gzip, deflate, br, zstd", "zstd"},
	{"safari", "gzip, deflate, br", "br"},
	{"chrome-clear-text", "gzip, deflate", "gzip"},
	{"old", "gzip;q=1.0, deflate;q=0.6, identity;q=0.3", "gzip"},
	{"none", "identity", ""},
}

// compressed measures events through every coding and version of HTTP (R-STREAM-2,
// G39, G41), and asks as curl and browsers do.
func compressed(r *run) error {
	b, err := startBackend()
	if err != nil {
		return err
	}
	defer b.stop()
	page := strings.Repeat("<p>A page with <b>something</b> to say.</p>\n", 500)
	j, err := r.serve(tree{name: "compressed", secure: true, vhost: b.vhost(), files: map[string]string{"htdocs/page.html": page}})
	if err != nil {
		return err
	}
	defer r.down(j)
	h1 := j.plain()
	h2, err := j.secure(false)
	if err != nil {
		return err
	}
	h3, err := j.quic()
	if err != nil {
		return err
	}
	defer h3.Transport.(*http3.Transport).Close()
	for _, c := range []struct {
		name, proto string
		*client
	}{{"h1", "HTTP/1.1", h1}, {"h2", "HTTP/2.0", h2}, {"h3", "HTTP/3.0", h3}} {
		for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
			r.check("sse-"+c.name+"-"+coding, func() (string, error) { return liveEvents(c.client, c.proto, coding) })
		}
	}
	for _, o := range browsers {
		r.check("accepts-as-"+o.name, func() (string, error) { return asBrowser(h1, o.accept, o.want, page) })
	}
	r.check("curl-compressed", func() (string, error) { return r.curl(j, page) })
	return nil
}

// quic is a client of HTTP/3.
func (j *jet) quic() (*client, error) {
	text, err := os.ReadFile(filepath.Join(j.root, "conf/cert/cert.pem"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	c := newClient("https://"+j.https, nil)
	c.Transport = &http3.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: roots, NextProtos: []string{"h3"}}}
	return c, nil
}

// liveEvents reads events in a coding. The head has to be there while the backend
// waits with the first event, and each event soon after it was written: as in measure,
// the slowest is told, and a median above the limit fails.
func liveEvents(c *client, proto, coding string) (string, error) {
	const n = 100
	req, err := http.NewRequest("GET", c.base+fmt.Sprintf("/m/events?n=%d&wait=500", n), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept-Encoding", coding)
	began := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	head := time.Since(began)
	got := resp.Header.Get("Content-Encoding")
	if got == "" {
		got = "identity"
	}
	if resp.Proto != proto || got != coding || resp.Header.Get("Vary") != "Accept-Encoding" {
		return "", fmt.Errorf("%s, coding %q, Vary %q", resp.Proto, got, resp.Header.Get("Vary"))
	}
	if head > 400*time.Millisecond {
		return "", fmt.Errorf("the head came after %v, with the first event", head)
	}
	text, err := decode(coding, resp.Body)
	if err != nil {
		return "", err
	}
	said, err := delays(text, n)
	return fmt.Sprintf("head %.1f ms; %s", head.Seconds()*1e3, said), err
}

// decode reads a coding as it comes.
func decode(coding string, body io.Reader) (io.Reader, error) {
	switch coding {
	case "gzip":
		return gzip.NewReader(body)
	case "br":
		return brotli.NewReader(body), nil
	case "zstd":
		return zstd.NewReader(body, zstd.WithDecoderConcurrency(1))
	}
	return body, nil
}

// asBrowser fetches a page as a browser does, twice, the second time with its tag.
func asBrowser(c *client, accept, want, page string) (string, error) {
	a, err := c.get("/page.html", 200, "Accept-Encoding: "+accept)
	if err != nil {
		return "", err
	}
	if got := a.Header.Get("Content-Encoding"); got != want || a.Header.Get("Vary") != "Accept-Encoding" {
		return "", fmt.Errorf("coding %q instead of %q, Vary %q", got, want, a.Header.Get("Vary"))
	}
	text, err := decode(want, bytes.NewReader(a.body))
	if err != nil {
		return "", err
	}
	plain, err := io.ReadAll(text)
	if err != nil || string(plain) != page {
		return "", fmt.Errorf("%d bytes of %d, %v", len(plain), len(page), err)
	}
	tag := a.Header.Get("ETag")
	second, err := c.get("/page.html", 304, "Accept-Encoding: "+accept, "If-None-Match: "+tag)
	if err != nil {
		return "", err
	}
	if second.Header.Get("ETag") != tag {
		return "", fmt.Errorf("304 with %s for %s", second.Header.Get("ETag"), tag)
	}
	return fmt.Sprintf("%d bytes as %d, tag %s", len(page), len(a.body), tag), nil
}

// curl decodes for itself: a page, and thirty events of which none may wait for the
// next (curl -N).
func (r *run) curl(j *jet, page string) (string, error) {
	out, err := exec.CommandContext(r.ctx, "curl", "-sS", "--compressed", "http://"+j.http+"/page.html").Output()
	if err != nil || string(out) != page {
		return "", fmt.Errorf("%d bytes of %d, %v", len(out), len(page), err)
	}
	cmd := exec.CommandContext(r.ctx, "curl", "-sSN", "--compressed", "http://"+j.http+"/m/events?n=30")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	said, err := delays(pipe, 30)
	return said, errors.Join(err, cmd.Wait())
}
