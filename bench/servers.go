package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"embed"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"

	"httpjet/internal/peers"
)

// conf holds the configuration of each server as templates over values, in a
// folder of its name.
//
//go:embed conf
var conf embed.FS

// memory is where Debian has a tmpfs for everybody.
const memory = "/dev/shm"

// host is the name that every request asks for.
const host = "www.shop.example"

// pagedHost is that of httpjet's host with a page cache.
const pagedHost = "www.paged.example"

// requestsPerConnection is the limit where a server has one: httpjet's largest.
const requestsPerConnection = 32767

// values fill a configuration.
type values struct {
	Dir                  string   // the server's folder
	HTTP, HTTPS, Metrics string   // its addresses
	App, FastCGI         string   // addresses of the upstream
	Group                []string // ten more addresses of App's port: all are the upstream
	Host                 string
	PHP                  string // a folder with the sockets of lsphp and php-fpm, where they run
	Memory               string // a folder in memory, tmpfs, which need not exist
	Workers              int    // processors of the server
	Connections          int    // that it must be able to hold
	Files                int    // descriptors that it may open

	RequestsPerConnection int
	Observed              bool
	Many                  int // groups
}

var functions = template.FuncMap{
	"port":      func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] },
	"addresses": func(plain, secure string) []string { return []string{plain, secure} },
}

// A server is a program and its command line; {{…}} is filled like the files.
type server struct {
	name    string
	command []string
	plain   bool // has no TLS

	// Of httpjet: it tells as much of each request as it can; and it has so many groups
	// of four peers more, each with a context.
	observed bool
	groups   int
}

var (
	nginx   = server{name: "nginx", command: []string{"nginx", "-c", "{{.Dir}}/nginx.conf", "-p", "{{.Dir}}"}}
	haproxy = server{name: "haproxy", command: []string{"haproxy", "-db", "-f", "{{.Dir}}/haproxy.cfg"}}
	caddy   = server{name: "caddy", command: []string{"caddy", "run", "--config", "{{.Dir}}/Caddyfile", "--adapter", "caddyfile"}}
	// Its clients may be idle for as long as those of the others.
	varnish = server{name: "varnish", plain: true, command: []string{"varnishd", "-F", "-a", "{{.HTTP}}", "-f", "{{.Dir}}/default.vcl",
		"-s", "malloc,64m", "-n", "{{.Dir}}/work", "-T", "none", "-p", "timeout_idle=60"}}
	// Plain serve; its metrics are on by default, only their port is another.
	httpjet = server{name: "httpjet", command: []string{"httpjet", "--root", "{{.Dir}}", "serve", "--metrics-addr", "{{.Metrics}}"}}
	// The same with its lines of access log in JSON and traceparent for every request.
	observed = server{name: "observed", command: httpjet.command, observed: true}
	// The same with groups for 8,000 and for 1,000 peers.
	grouped  = server{name: "grouped", command: httpjet.command, groups: 2000}
	thousand = server{name: "thousand", command: httpjet.command, groups: 250}
)

// cores is where the server and everything else run.
type cores struct {
	name         string
	server, load string // lists for taskset; empty: anywhere
	n            int    // processors of the server
	threads      int    // of wrk and h2load
}

// pin puts taskset before a command.
func (c cores) pin(list string, args []string) []string {
	if list == "" {
		return args
	}
	return append([]string{"taskset", "-c", list}, args...)
}

// bothCores is one core for the server and the others for the rest, and no
// pinning at all.
func bothCores() (one, all cores) {
	n := runtime.NumCPU()
	return cores{"one", "0", fmt.Sprintf("1-%d", max(n-1, 1)), 1, min(max(n-1, 1), 4)},
		cores{"all", "", "", n, min(max(n/2, 1), 4)}
}

// A running is a started process.
type running struct {
	name        string
	http, https string // its addresses; no https: it has no TLS
	metrics     string // of httpjet
	behind      bool   // an upstream, which works for whoever is measured
	dir         string
	cmd         *exec.Cmd
	out         *tail
}

// A tail keeps the last of what a process prints.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-4<<10):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// endsWithParent lets no process outlive this one, however it ends.
var endsWithParent = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}

// start renders the files of s, starts it, and waits until it answers.
func (b *bench) start(ctx context.Context, s server, c cores) (*running, error) {
	dir, err := os.MkdirTemp(b.dir, s.name+"-")
	if err != nil {
		return nil, err
	}
	v, err := b.values(dir, c)
	if err != nil {
		return nil, err
	}
	v.Observed, v.Many = s.observed, s.groups
	folder := s.name
	if s.command[0] == httpjet.command[0] {
		folder = httpjet.name
	}
	if err := b.files(folder, dir, v); err != nil {
		return nil, err
	}
	args := make([]string, len(s.command))
	for i, a := range s.command {
		if args[i], err = render(a, v); err != nil {
			return nil, err
		}
	}
	if args[0], err = b.program(args[0]); err != nil {
		return nil, err
	}
	r := &running{name: s.name, http: v.HTTP, https: v.HTTPS, metrics: v.Metrics, dir: dir, out: &tail{}}
	if s.plain {
		r.https = ""
	}
	r.cmd = command(r.out, dir, c.pin(c.server, args)...)
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	if err := r.ready(ctx, "/app/1k"); err != nil {
		r.stop()
		return nil, fmt.Errorf("%s: %v\n%s", s.name, err, r.out)
	}
	return r, nil
}

func (b *bench) values(dir string, c cores) (values, error) {
	v := values{
		Dir: dir, App: b.app, FastCGI: b.fastcgi, Group: group(b.app), Host: host, PHP: filepath.Join(b.dir, "php"),
		Memory: filepath.Join(memory, filepath.Base(b.dir), filepath.Base(dir)), Workers: c.n, Connections: b.idle + 1000, Files: b.descriptors, RequestsPerConnection: requestsPerConnection,
	}
	for _, a := range []*string{&v.HTTP, &v.HTTPS, &v.Metrics} {
		var err error
		if *a, err = peers.FreePort(); err != nil {
			return v, err
		}
	}
	return v, nil
}

// files writes what a server needs into dir: its configuration, what it serves,
// and its certificate.
func (b *bench) files(name, dir string, v values) error {
	root := "conf/" + name
	err := fs.WalkDir(conf, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := conf.ReadFile(path)
		if err != nil {
			return err
		}
		filled, err := render(string(text), v)
		if err != nil {
			return fmt.Errorf("%s: %v", path, err)
		}
		return write(filepath.Join(dir, strings.TrimPrefix(path, root)), filled)
	})
	for name, text := range map[string]string{
		"www/1k.txt":        string(payload),
		"www/100k.txt":      strings.Repeat(string(payload), 100),
		"www/zip/page.html": page,
		"www/hello.php":     "<?php echo 'hello';\n",
		"www/hello.fpm":     "<?php echo 'hello';\n",
		"cert.pem":          b.cert, "key.pem": b.key, "both.pem": b.cert + b.key,
	} {
		if err == nil {
			err = write(filepath.Join(dir, name), text)
		}
	}
	folders := []string{"www/assets"}
	for n := range 19 { // of the hosts that are not asked
		folders = append(folders, fmt.Sprintf("sites/%d/html/assets", n))
	}
	for _, folder := range folders {
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, folder), 0o755)
		}
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, 0o755) // workers run as other users
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func render(text string, v any) (string, error) {
	t, err := template.New("").Funcs(functions).Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = t.Execute(&out, v)
	return out.String(), err
}

// command is a process whose output is kept and that does not outlive this one.
func command(out *tail, dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	cmd.SysProcAttr = endsWithParent
	return cmd
}

// startUpstream starts what stands behind the servers.
func (b *bench) startUpstream(c cores) (*running, error) {
	var err error
	for _, a := range []*string{&b.app, &b.fastcgi} {
		if *a, err = peers.FreePort(); err != nil {
			return nil, err
		}
	}
	r := &running{name: "upstream", behind: true, out: &tail{}}
	r.cmd = command(r.out, b.dir, c.pin(c.load, []string{b.self, helper, "upstream", b.app, b.fastcgi})...)
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	for range 100 {
		conn, err := net.Dial("tcp", b.fastcgi)
		if err == nil {
			return r, conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.stop()
	return nil, fmt.Errorf("upstream: does not listen\n%s", r.out)
}

// group is ten addresses at which the upstream listens beside app: 127.0.0.2 and so
// on, at its port.
func group(app string) []string {
	a := netip.MustParseAddrPort(app) // freePort made it
	all := make([]string, 10)
	ip := a.Addr()
	for i := range all {
		ip = ip.Next()
		all[i] = netip.AddrPortFrom(ip, a.Port()).String()
	}
	return all
}

// ready waits until the server answers with path, through its proxy, at both addresses.
func (r *running) ready(ctx context.Context, path string) error {
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: host}, ForceAttemptHTTP2: true, DisableCompression: true}
	defer t.CloseIdleConnections()
	client := &http.Client{Transport: t, Timeout: 5 * time.Second}
	var err error
	for range 200 {
		if err = answers(client, "http://"+r.http+path, 1); err == nil {
			if r.https == "" {
				return nil
			}
			if err = answers(client, "https://"+r.https+path, 2); err == nil {
				return nil
			}
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
	return err
}

// answers checks that url gives the payload in a major version of HTTP.
func answers(client *http.Client, url string, major int) error {
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return err
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != major || !bytes.Equal(body, payload) {
		return fmt.Errorf("%s is %s %s, not the expected kibibyte", url, resp.Proto, resp.Status)
	}
	return nil
}

// gzips makes sure that path is answered in gzip, and by how much of it.
func (r *running) gzips(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.http+path, nil)
	if err != nil {
		return err
	}
	req.Host = host
	req.Header.Set("Accept-Encoding", "gzip") // and is not taken off again
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if coding := resp.Header.Get("Content-Encoding"); err == nil && (coding != "gzip" || n > int64(len(page))/2) {
		err = fmt.Errorf("%s: coding %q, %d bytes of %d", path, coding, n, len(page))
	}
	return err
}

// hits has a page made and looks that it comes from the page cache then.
func (r *running) hits(ctx context.Context, path string) error {
	said := ""
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.http+path, nil)
		if err != nil {
			return err
		}
		req.Host = pagedHost
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		said = resp.Header.Get("X-Litespeed-Cache")
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || n != 1<<10 {
			return fmt.Errorf("%s: %d bytes, %v", path, n, err)
		}
	}
	if said != "hit" {
		return fmt.Errorf("%s: X-LiteSpeed-Cache %q", path, said)
	}
	return nil
}

// page is 100 KiB of text as a page has it: words that come again, and numbers.
var page = func() string {
	words := strings.Fields(`the server answers a request with <div class="row"> content </div> <a href="/shop/item"> and <span> a price of </span> function return const value`)
	numbers := mathrand.New(mathrand.NewPCG(1, 1))
	var b strings.Builder
	for b.Len() < 100<<10 {
		fmt.Fprintf(&b, "%s ", words[numbers.IntN(len(words))])
		if numbers.IntN(6) == 0 {
			fmt.Fprintf(&b, "%d ", numbers.IntN(100_000))
		}
	}
	return b.String()[:100<<10]
}()

// inEarnest makes sure that httpjet did what the others were spared: it counted
// its requests and logged them.
func (r *running) inEarnest() error {
	if r.name != httpjet.name && r.name != observed.name {
		return nil
	}
	resp, err := http.Get("http://" + r.metrics + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	served, dropped := metric(text, "httpjet_requests_total"), metric(text, "httpjet_log_access_dropped_lines_total")
	if served == 0 || dropped > 0 {
		return fmt.Errorf("httpjet counted %.0f requests and dropped %.0f lines of its access log", served, dropped)
	}
	log, err := os.Stat(filepath.Join(r.dir, "logs", "access.log"))
	if err == nil && log.Size() == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fmt.Errorf("httpjet's access log: %v", err)
	}
	return nil
}

// metric is the value of a metric without labels, 0 if there is none.
func metric(text []byte, name string) float64 {
	_, rest, _ := bytes.Cut(text, []byte("\n"+name+" "))
	value, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.ParseFloat(string(value), 64) // absent: 0
	return n
}

// stop ends the process and waits for it.
func (r *running) stop() {
	r.cmd.Process.Signal(syscall.SIGTERM)
	dead := time.AfterFunc(15*time.Second, func() { r.cmd.Process.Kill() })
	r.cmd.Wait() // how it ends is of no interest here
	dead.Stop()
}

// certificate makes a certificate for host, signed by itself.
func certificate() (cert, key string, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &k.PublicKey, k)
	if err != nil {
		return "", "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return "", "", err
	}
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", private), nil
}

// raise lets this process and its children open as many files as they may.
func raise() (int, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	l.Cur = l.Max
	if big := (syscall.Rlimit{Cur: 1 << 16, Max: 1 << 16}); l.Max < big.Max && syscall.Setrlimit(syscall.RLIMIT_NOFILE, &big) == nil {
		l = big // root may
	} else if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	return int(min(l.Cur, 1<<20)), nil
}

func (b *bench) program(name string) (string, error) {
	switch name {
	case "httpjet":
		return b.bin, nil
	case "caddy":
		return b.caddy, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New(name + " is not installed: " + strconv.Quote(err.Error()))
	}
	return path, nil
}
