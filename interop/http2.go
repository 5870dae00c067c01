package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// http2 lets two HTTP/2 clients that share no code with the server speak to the
// TLS listener: curl and h2load, both on nghttp2.
func http2(r *run) error {
	b, err := startBackend()
	if err != nil {
		return err
	}
	defer b.stop()
	small := strings.Repeat("walking house ", 73) + "\n"
	j, err := r.serve(tree{name: "secure", secure: true, vhost: b.vhost(), files: map[string]string{
		"htdocs/small.txt": small,
		"htdocs/big.bin":   string(noise(16 << 20)),
		"upload.bin":       string(noise(8 << 20)),
	}})
	if err != nil {
		return err
	}
	defer r.down(j)
	h := &h2{r: r, j: j}
	base := "https://" + j.https

	r.check("curl-h2-static", func() (string, error) {
		if err := h.curl("2 200 text/plain", "--http2", base+"/small.txt"); err != nil {
			return "", err
		}
		return "certificate verified", h.sameFile("out", "htdocs/small.txt")
	})
	r.check("curl-h2-16M", func() (string, error) {
		if err := h.curl("2 200 application/octet-stream", "--http2", base+"/big.bin"); err != nil {
			return "", err
		}
		return "", h.sameFile("out", "htdocs/big.bin")
	})
	r.check("curl-h2-range", func() (string, error) {
		if err := h.curl("2 206 text/plain", "--http2", "-r", "0-12", base+"/small.txt"); err != nil {
			return "", err
		}
		out, err := os.ReadFile(filepath.Join(j.root, "out"))
		if err != nil {
			return "", err
		}
		return "", same(out, []byte("walking house"))
	})
	r.check("curl-h2-upload-to-proxy", func() (string, error) {
		for _, how := range [][]string{{"-T", filepath.Join(j.root, "upload.bin")}, {"-X", "PUT", "-T", "-"}} {
			if err := h.curl("2 200 application/octet-stream", append([]string{"--http2", base + "/m/echo"}, how...)...); err != nil {
				return "", err
			}
			if err := h.sameFile("out", "upload.bin"); err != nil {
				return "", err
			}
		}
		return "8 MiB echoed, with and without a declared length", nil
	})
	r.check("curl-h1-on-the-same-port", func() (string, error) {
		return "", h.curl("1.1 200 text/plain", "--http1.1", base+"/small.txt")
	})
	r.check("curl-h2c-is-off", func() (string, error) {
		return "", h.curl("1.1 200 text/plain", "--http2", "http://"+j.http+"/small.txt")
	})
	r.check("h2spec", func() (string, error) { return h.spec() })
	n := r.pick(5000, 50_000)
	r.check("h2load-static", func() (string, error) { return h.load(n, base+"/small.txt") })
	r.check("h2load-proxy", func() (string, error) { return h.load(n, base+"/m/small") })
	r.check("rapid-resets", func() (string, error) { return h.resets(r.pick(3, 30)) })
	return nil
}

// h2 is the clients' side of the section.
type h2 struct {
	r *run
	j *jet
}

// specVersion is the pinned version of h2spec.
const specVersion = "v2.2.1+incompatible"

// spec runs h2spec, of which every case has to pass (docs/h2spec.md), against a proxy
// context whose backend takes the whole body and a moment: its cases are about streams
// that are open.
func (h *h2) spec() (string, error) {
	bin := filepath.Join(h.r.dir, "gobin")
	cmd := exec.CommandContext(h.r.ctx, "go", "install", "github.com/summerwind/h2spec/cmd/h2spec@"+specVersion)
	cmd.Env, cmd.Dir = append(os.Environ(), "GOBIN="+bin, "GOFLAGS="), h.r.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install h2spec: %v\n%s", err, tail(out))
	}
	h.r.programs = append(h.r.programs, [2]string{"h2spec", specVersion})
	host, port, err := net.SplitHostPort(h.j.https)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(h.r.ctx, filepath.Join(bin, "h2spec"), "-t", "-k", "-h", host, "-p", port, "-P", "/m/late", "-o", "5").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("h2spec: %v\n%s", err, tail(out))
	}
	sum := regexp.MustCompile(`(\d+) tests, (\d+) passed, 0 skipped, 0 failed`).FindStringSubmatch(string(out))
	if sum == nil || sum[1] != sum[2] || sum[1] == "0" {
		return "", fmt.Errorf("h2spec: %s", tail(out))
	}
	return sum[0], nil
}

// curl fetches into the file "out"; want is protocol version, status and type.
func (h *h2) curl(want string, args ...string) error {
	args = append([]string{
		"-sS", "--max-time", "60", "--cacert", filepath.Join(h.j.root, "conf/cert/cert.pem"),
		"-o", filepath.Join(h.j.root, "out"), "-w", "%{http_version} %{http_code} %{content_type}",
	}, args...)
	cmd := exec.CommandContext(h.r.ctx, "curl", args...)
	in, err := os.Open(filepath.Join(h.j.root, "upload.bin"))
	if err != nil {
		return err
	}
	defer in.Close()
	cmd.Stdin = in
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("curl: %v: %s", err, tail(out))
	}
	if got, _, _ := strings.Cut(string(out), ";"); got != want {
		return fmt.Errorf("curl: %q, want %q", got, want)
	}
	return nil
}

func (h *h2) sameFile(got, want string) error {
	a, err := os.ReadFile(filepath.Join(h.j.root, got))
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(h.j.root, want))
	if err != nil {
		return err
	}
	return same(a, b)
}

// load runs h2load; every request has to succeed.
func (h *h2) load(n int, url string) (string, error) {
	out, err := exec.CommandContext(h.r.ctx, "h2load", "-n", fmt.Sprint(n), "-c", "20", "-m", "10", url).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("h2load: %v: %s", err, tail(out))
	}
	text := string(out)
	if !strings.Contains(text, fmt.Sprintf("%d succeeded, 0 failed, 0 errored, 0 timeout", n)) ||
		!strings.Contains(text, fmt.Sprintf("%d 2xx, 0 3xx, 0 4xx, 0 5xx", n)) ||
		!strings.Contains(text, "Application protocol: h2") {
		return "", fmt.Errorf("h2load: %s", tail(out))
	}
	rate := regexp.MustCompile(`[\d.]+ req/s`).FindString(text)
	return fmt.Sprintf("%d requests on 20 connections of 10 streams, %s", n, rate), nil
}
