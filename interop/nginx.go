package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"httpjet/internal/peers"
)

const nginxConf = `
daemon off;
worker_processes 1;
pid {{dir}}/nginx.pid;
error_log {{dir}}/nginx-error.log;
events { worker_connections 512; }
http {
  access_log off;
  client_body_temp_path {{dir}}/nginx-body;
  proxy_temp_path {{dir}}/nginx-proxy;
  fastcgi_temp_path {{dir}}/nginx-fastcgi;
  uwsgi_temp_path {{dir}}/nginx-uwsgi;
  scgi_temp_path {{dir}}/nginx-scgi;
  client_max_body_size 64m;
  keepalive_requests 100000;
  types { text/plain txt; application/octet-stream bin; }
  gzip on;
  gzip_types text/plain;
  gzip_proxied any; # the requests carry Via
  gzip_vary on;
  server {
    listen {{addr}};
    root {{dir}}/nginx-root;
    location /up/store/ { dav_methods PUT DELETE; create_full_put_path on; }
    location = /up/echo { default_type text/plain; return 200 "host=$http_host for=$http_x_forwarded_for proto=$http_x_forwarded_proto via=$http_via connection=$http_connection uri=$request_uri\n"; }
    location = /up/teapot { return 418 "short and stout\n"; }
    location = /up/away { return 302 /up/echo?there; }
    location = /up/nothing { return 204; }
  }
  server { listen {{status}}; location / { stub_status; } }
}
`

// An upstream is nginx behind a proxy context at /up/.
type upstream struct {
	*client
	root   string // of its files
	status *client
}

// nginx checks a proxy context against a server with its own opinions about
// ranges, chunks, connections and encodings.
func nginx(r *run) error {
	addr, err := peers.FreePort()
	if err != nil {
		return err
	}
	status, err := peers.FreePort()
	if err != nil {
		return err
	}
	u := &upstream{root: filepath.Join(r.dir, "nginx-root", "up")}
	if err := writeFiles(r.dir, map[string]string{
		"nginx.conf":                strings.NewReplacer("{{dir}}", r.dir, "{{addr}}", addr, "{{status}}", status).Replace(nginxConf),
		"nginx-root/up/small.txt":   "small but served\n",
		"nginx-root/up/text.txt":    strings.Repeat("This line compresses well, line after line.\n", 20_000),
		"nginx-root/up/store/.keep": "",
		"nginx-root/up/a b/%é.txt":  "odd name\n",
		"nginx-root/up/big.bin":     string(noise(r.pick(32, 256) << 20)),
	}); err != nil {
		return err
	}
	if os.Geteuid() == 0 { // nginx's workers run as nobody then, and PUT writes
		if err := r.command("chmod", "-R", "a+rwX", filepath.Join(r.dir, "nginx-root")); err != nil {
			return err
		}
	}
	p, err := r.start("nginx", "-c", filepath.Join(r.dir, "nginx.conf"), "-p", r.dir)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := p.ready(r.ctx, dial("tcp", addr)); err != nil {
		return err
	}
	j, err := r.serve(tree{name: "proxied", vhost: proxied("nginx", addr, "/up/")})
	if err != nil {
		return err
	}
	defer r.down(j)
	u.client, u.status = j.plain(), newClientFor(status)

	r.check("files-and-validators", u.files)
	r.check("ranges", u.ranges)
	r.check("gzip-in-chunks", u.gzipped)
	r.check("big-file", u.big)
	r.check("put-declared-and-chunked", u.put)
	r.check("statuses-verbatim", u.statuses)
	r.check("forwarding-fields", u.forwarded)
	r.check("connections-are-reused", func() (string, error) { return u.reuse(r.pick(500, 5000)) })
	r.check("access-log-moved-aside", func() (string, error) { return u.accessLog(j) })
	r.check("reload-under-load", func() (string, error) { return u.reload(j) })
	r.check("bad-tree-is-refused", func() (string, error) { return u.badTree(j) })
	r.check("upstream-gone-502", func() (string, error) {
		if err := p.stop(); err != nil {
			return "", err
		}
		a, err := u.get("/up/small.txt", 502)
		if err != nil {
			return "", err
		}
		if got := a.Header.Get("X-Httpjet-Proxy-Error"); got != "upstream_transport" {
			return "", fmt.Errorf("X-Httpjet-Proxy-Error is %q", got)
		}
		return "with its reason token", nil
	})
	return nil
}

func (u *upstream) files() (string, error) {
	a, err := u.get("/up/small.txt", 200)
	if err != nil {
		return "", err
	}
	if err := same(a.body, []byte("small but served\n")); err != nil {
		return "", err
	}
	if _, err := u.get("/up/small.txt", 304, "If-None-Match: "+a.Header.Get("ETag")); err != nil {
		return "", err
	}
	if _, err := u.get("/up/small.txt", 304, "If-Modified-Since: "+a.Header.Get("Last-Modified")); err != nil {
		return "", err
	}
	if _, err := u.get("/up/small.txt", 412, `If-Match: "other"`); err != nil {
		return "", err
	}
	a, err = want(200)(u.send("HEAD", "/up/small.txt", nil, 0))
	if err != nil {
		return "", err
	}
	if a.ContentLength != 17 || len(a.body) != 0 {
		return "", fmt.Errorf("HEAD: length %d, %d body bytes", a.ContentLength, len(a.body))
	}
	a, err = u.get("/up/a%20b/%25%C3%A9.txt", 200)
	if err != nil {
		return "", err
	}
	return "200, HEAD, 304 by both validators, 412, an escaped name", same(a.body, []byte("odd name\n"))
}

func (u *upstream) ranges() (string, error) {
	text, err := os.ReadFile(filepath.Join(u.root, "text.txt"))
	if err != nil {
		return "", err
	}
	for spec, piece := range map[string][2]int{"0-99": {0, 100}, "500000-": {500_000, len(text)}, "-7": {len(text) - 7, len(text)}} {
		a, err := u.get("/up/text.txt", 206, "Range: bytes="+spec)
		if err != nil {
			return "", err
		}
		if got, want := a.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/%d", piece[0], piece[1]-1, len(text)); got != want {
			return "", fmt.Errorf("range %s: Content-Range %q, want %q", spec, got, want)
		}
		if err := same(a.body, text[piece[0]:piece[1]]); err != nil {
			return "", fmt.Errorf("range %s: %v", spec, err)
		}
	}
	a, err := u.get("/up/text.txt", 206, "Range: bytes=0-3,10-13")
	if err != nil {
		return "", err
	}
	if got := a.Header.Get("Content-Type"); !strings.HasPrefix(got, "multipart/byteranges; boundary=") {
		return "", fmt.Errorf("two ranges: content type %q", got)
	}
	if err := holds(a, "bytes 0-3/", "bytes 10-13/"); err != nil {
		return "", err
	}
	_, err = u.get("/up/text.txt", 416, "Range: bytes=99999999-")
	return "first, middle, last, two at once, 416", err
}

func (u *upstream) gzipped() (string, error) {
	text, err := os.ReadFile(filepath.Join(u.root, "text.txt"))
	if err != nil {
		return "", err
	}
	a, err := u.get("/up/text.txt", 200, "Accept-Encoding: gzip")
	if err != nil {
		return "", err
	}
	if got := a.Header.Get("Content-Encoding"); got != "gzip" {
		return "", fmt.Errorf("Content-Encoding %q", got)
	}
	if a.ContentLength != -1 {
		return "", fmt.Errorf("nginx compresses on the fly and sends chunks, yet a length of %d arrived", a.ContentLength)
	}
	z, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		return "", err
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d bytes as %d", len(plain), len(a.body)), same(plain, text)
}

func (u *upstream) big() (string, error) {
	file, err := os.ReadFile(filepath.Join(u.root, "big.bin"))
	if err != nil {
		return "", err
	}
	a, err := u.get("/up/big.bin", 200)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d MiB", len(file)>>20), same(a.body, file)
}

func (u *upstream) put() (string, error) {
	data := noise(8 << 20)
	for name, length := range map[string]int64{"declared": int64(len(data)), "chunked": -1} {
		body := io.Reader(bytes.NewReader(data))
		if length < 0 {
			body = unsized(data)
		}
		if _, err := want(201)(u.send("PUT", "/up/store/"+name+".bin", body, length)); err != nil {
			return "", err
		}
		a, err := u.get("/up/store/"+name+".bin", 200)
		if err != nil {
			return "", err
		}
		if err := same(a.body, data); err != nil {
			return "", fmt.Errorf("%s: %v", name, err)
		}
		if _, err := want(204)(u.send("DELETE", "/up/store/"+name+".bin", nil, 0)); err != nil {
			return "", err
		}
	}
	return "8 MiB each, read back, deleted", nil
}

func (u *upstream) statuses() (string, error) {
	a, err := u.get("/up/teapot", 418)
	if err != nil {
		return "", err
	}
	if err := same(a.body, []byte("short and stout\n")); err != nil {
		return "", err
	}
	if a, err = u.get("/up/missing", 404); err != nil {
		return "", err
	}
	if err := holds(a, "<center>nginx"); err != nil {
		return "", err
	}
	if a.Header.Get("X-Httpjet-Proxy-Error") != "" {
		return "", errors.New("the upstream's own 404 carries a proxy error")
	}
	if _, err := u.get("/up/nothing", 204); err != nil {
		return "", err
	}
	_, err = u.get("/up/away", 302)
	return "418, 404, 204, 302", err
}

func (u *upstream) forwarded() (string, error) {
	a, err := u.get("/up/echo?a=b&c", 200, "X-Forwarded-For: 192.0.2.9", "X-Forwarded-Proto: https", "Connection: X-Dropped", "X-Dropped: 1")
	if err != nil {
		return "", err
	}
	host := strings.TrimPrefix(u.base, "http://")
	re := regexp.MustCompile(`^host=` + regexp.QuoteMeta(host) + ` for=127\.0\.0\.1 proto=http via=1\.1 httpjet connection=(keep-alive)? uri=/up/echo\?a=b&c\n$`)
	if !re.Match(a.body) {
		return "", fmt.Errorf("nginx saw %q", a.body)
	}
	return "Host kept, a stranger's X-Forwarded-* replaced", nil
}

// newClientFor speaks to nginx itself.
func newClientFor(addr string) *client { return (&jet{http: addr}).plain() }

// accepted is how many connections nginx has accepted on all its listeners.
func (u *upstream) accepted() (int, error) {
	a, err := u.status.get("/", 200)
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(a.body)) // Active connections: N server accepts handled requests A H R
	if len(f) < 8 {
		return 0, fmt.Errorf("stub_status says %q", a.body)
	}
	return strconv.Atoi(f[7])
}

// reuse sends many requests one after the other and counts the connections
// that nginx saw for them.
func (u *upstream) reuse(n int) (string, error) {
	before, err := u.accepted()
	if err != nil {
		return "", err
	}
	for range n {
		if _, err := u.get("/up/small.txt", 200); err != nil {
			return "", err
		}
	}
	after, err := u.accepted()
	if err != nil {
		return "", err
	}
	if used := after - before; used > 2 {
		return "", fmt.Errorf("%d new connections for %d requests in turn", used, n)
	}
	return fmt.Sprintf("%d requests in turn, %d new connections", n, after-before), nil
}

// reload publishes new generations while requests run, on kept connections and
// on new ones: not one may fail.
func (u *upstream) reload(j *jet) (string, error) {
	const reloads = 5
	done := make(chan struct{})
	errs := make([]error, 4)
	var count atomic.Int64
	var all sync.WaitGroup
	for i := range errs {
		c := j.plain()
		c.Transport.(*http.Transport).DisableKeepAlives = i%2 == 0
		all.Go(func() {
			for errs[i] == nil {
				select {
				case <-done:
					return
				default:
				}
				_, errs[i] = c.get("/up/text.txt", 200)
				count.Add(1)
			}
		})
	}
	for range reloads {
		time.Sleep(300 * time.Millisecond)
		j.cmd.Process.Signal(syscall.SIGHUP)
	}
	time.Sleep(300 * time.Millisecond)
	close(done)
	all.Wait()
	if n := strings.Count(j.out.String(), "published generation"); n < 1+reloads {
		errs = append(errs, fmt.Errorf("%d generations published, want %d:\n%s", n, 1+reloads, j.out.String()))
	}
	return fmt.Sprintf("%d requests over %d reloads", count.Load(), reloads), errors.Join(errs...)
}

// badTree breaks the server file and reloads: the running generation stays, and
// the log says where the fault is.
func (u *upstream) badTree(j *jet) (string, error) {
	file := filepath.Join(j.root, "conf/httpd_config.xml")
	good, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	defer os.WriteFile(file, good, 0o644)
	if err := os.WriteFile(file, bytes.Replace(good, []byte("</virtualHostList>"), nil, 1), 0o644); err != nil {
		return "", err
	}
	j.cmd.Process.Signal(syscall.SIGHUP)
	position := regexp.MustCompile(`httpd_config\.xml:\d+`)
	if err := j.ready(context.Background(), func() error {
		_, after, _ := strings.Cut(j.out.String(), "refused")
		if !position.MatchString(after) {
			return errors.New("no refusal with a position in the log")
		}
		return nil
	}); err != nil {
		return "", err
	}
	_, err = u.get("/up/small.txt", 200)
	return "", err
}

// accessLog moves the log away as logrotate does, asks for a new one, and finds
// the next request there in the combined format with its request id (R-LOG-1).
func (u *upstream) accessLog(j *jet) (string, error) {
	file := filepath.Join(j.root, "logs", "access.log")
	if err := os.Rename(file, file+".1"); err != nil {
		return "", err
	}
	j.cmd.Process.Signal(syscall.SIGUSR1)
	line := regexp.MustCompile(`(?m)^127\.0\.0\.1 - - \[[^]]+\] "GET /up/small\.txt\?logged HTTP/1\.1" 200 17 "http://from\.example/" "by interop" [0-9a-f]{32}$`)
	err := j.ready(context.Background(), func() error { // the log is written behind the answer
		if _, err := u.get("/up/small.txt?logged", 200, "User-Agent: by interop", "Referer: http://from.example/"); err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !line.Match(text) {
			return fmt.Errorf("no combined line for the request; the log is\n%s", tail(text))
		}
		return nil
	})
	return "combined format and request id, reopened by SIGUSR1", err
}
