package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

//go:embed assets/build-lsphp.sh
var buildLSPHP string

//go:embed assets/lsapi.php
var lsapiPHP string

// canary stands in the source of assets/lsapi.php and nowhere in what it prints.
const canary = "SOURCE-OF-LSAPI"

// phpWorkers is the number of lsphp's children, and of PHP-FPM's beside it.
const phpWorkers = 4

// lsphp runs PHP behind LSAPI: a suite of requests, DokuWiki, a storm of requests
// while children die, and the same script behind PHP-FPM of the same build.
func lsphp(r *run) error {
	dir, err := r.lsphpDir()
	if err != nil {
		return err
	}
	s := &lsapiSuite{r: r, dir: dir, sock: filepath.Join(r.dir, "lsapi", "suite.sock")}
	if err := s.up(); err != nil {
		return err
	}
	defer s.down()
	r.check("variables", s.variables)
	r.check("fields-of-the-request", s.fields)
	r.check("bodies-of-exact-length", s.bodies)
	r.check("chunked-body-is-complete", s.chunked)
	r.check("unread-body-leaves-the-connection-clean", s.unread)
	r.check("big-variables-431", s.long)
	r.check("long-response-fields", s.longAnswer)
	r.check("early-close-is-502", s.early)
	r.check("children-die-at-random", s.killed)
	r.check("figures", s.figures)
	if err := keeps(r, filepath.Join(dir, "lsphp")); err != nil {
		return err
	}
	w := &wiki{r: r, lsphp: filepath.Join(dir, "lsphp"), dir: filepath.Join(r.dir, "lswiki"), conf: filepath.Join(r.dir, "lsfpm.conf"), sock: filepath.Join(r.dir, "lsapi", "wiki.sock")}
	return w.all()
}

// lsphpDir returns the folder of lsphp, which is built if it is not there: in
// HTTPJET_LSPHP_CACHE, or in the user's cache. The folder is named by how it was
// built.
func (r *run) lsphpDir() (string, error) {
	to := filepath.Join(r.dir, "lsapi")
	if there(filepath.Join(to, "lsphp")) {
		return to, nil // an earlier section has it
	}
	base := os.Getenv("HTTPJET_LSPHP_CACHE")
	if base == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(cache, "httpjet-lsphp")
	}
	sum := sha256.Sum256([]byte(buildLSPHP))
	dir := filepath.Join(base, hex.EncodeToString(sum[:6]))
	began := time.Now()
	if !there(filepath.Join(dir, "lsphp")) {
		fmt.Println("-- building lsphp from Debian's source of PHP, once; it takes some minutes")
		if err := os.MkdirAll(base, 0o755); err != nil {
			return "", err
		}
		if err := r.command("/bin/sh", "-c", buildLSPHP, "build-lsphp", dir); err != nil {
			return "", err
		}
	}
	out, err := exec.CommandContext(r.ctx, filepath.Join(dir, "lsphp"), "-v").Output()
	if err != nil {
		return "", err
	}
	version, _, _ := bytes.Cut(out, []byte(" ("))
	r.report("program", fmt.Sprintf("lsphp, %s, ready after %.0f s", version, time.Since(began).Seconds()), nil)
	// Workers that are another user have to get at it.
	return to, r.command("/bin/sh", "-c", `set -e; mkdir -p "$2" && cp "$1"/lsphp "$1"/php-fpm "$2"/
[ "$(id -u)" -ne 0 ] || chown www-data "$2"`, "copy", dir, to)
}

// startLSPHP starts a pool with settings of the suite.
func (r *run) startLSPHP(program, sock string, children int) (*process, error) {
	ini := filepath.Join(r.dir, "lsapi", "php.ini")
	sessions := filepath.Join(r.dir, "sessions")
	if err := os.MkdirAll(sessions, 0o777); err != nil {
		return nil, err
	}
	text := "session.save_path = " + sessions + "\nupload_max_filesize = 16M\npost_max_size = 16M\nlog_errors = 1\n"
	if err := os.WriteFile(ini, []byte(text), 0o644); err != nil {
		return nil, err
	}
	if err := os.Chmod(sessions, 0o777); err != nil {
		return nil, err
	}
	return r.startLSPHPWith(program, sock, children, ini)
}

// startLSPHPWith starts a pool, as www-data if this is root, with the environment that
// is given to it and no other, for scripts see it all. With LSAPI_ACCEPT_NOTIFY it
// acknowledges connections, not each request: that is a write and a wake-up less.
func (r *run) startLSPHPWith(program, sock string, children int, ini string) (*process, error) {
	args := []string{"env", "-i", "PATH=/usr/bin:/bin", "PHP_LSAPI_CHILDREN=" + strconv.Itoa(children), "LSAPI_ACCEPT_NOTIFY=1", program, "-b", sock, "-c", ini}
	if os.Geteuid() == 0 {
		args = append([]string{"setpriv", "--reuid=www-data", "--regid=www-data", "--clear-groups"}, args...)
	}
	p, err := r.start(args[0], args[1:]...)
	if err != nil {
		return nil, err
	}
	return p, p.ready(r.ctx, dial("unix", sock))
}

// A lsapiSuite is httpjet with one script behind lsphp, and the same behind FastCGI.
type lsapiSuite struct {
	r         *run
	dir, sock string
	php       *process
	j         *jet
	*client
}

func (s *lsapiSuite) up() (err error) {
	if s.php, err = s.r.startLSPHP(filepath.Join(s.dir, "lsphp"), s.sock, phpWorkers); err != nil {
		return err
	}
	processor := func(name, kind, sock string) string {
		return strings.NewReplacer("{{name}}", name, "{{kind}}", kind, "{{sock}}", sock, "{{conns}}", strconv.Itoa(phpWorkers)).Replace(`
    <extProcessor>
      <type>{{kind}}</type>
      <name>{{name}}</name>
      <address>uds:/{{sock}}</address>
      <maxConns>{{conns}}</maxConns>
      <initTimeout>20</initTimeout>
      <retryTimeout>0</retryTimeout>
      <persistConn>1</persistConn>
      <pcKeepAliveTimeout>60</pcKeepAliveTimeout>
      <autoStart>0</autoStart>
    </extProcessor>`)
	}
	handler := func(suffix, kind, name string) string {
		return "<scriptHandler><suffix>" + suffix + "</suffix><type>" + kind + "</type><handler>" + name + "</handler></scriptHandler>"
	}
	s.j, err = s.r.serve(tree{name: "lsapi", vhost: `
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList>` + processor("lsphp", "lsapi", s.sock) + processor("fpm", "fcgi", s.fpmSock()) + `
  </extProcessorList>
  <scriptHandlerList>` + handler("php", "lsapi", "lsphp") + handler("fpm", "fcgi", "fpm") + `</scriptHandlerList>`,
		files: map[string]string{"htdocs/t.php": lsapiPHP, "htdocs/hello.php": "<?php echo 'hello';\n", "htdocs/hello.fpm": "<?php echo 'hello';\n"}})
	if err == nil {
		s.client = s.j.plain()
	}
	return err
}

func (s *lsapiSuite) fpmSock() string { return filepath.Join(s.r.dir, "lsapi", "fpm.sock") }

func (s *lsapiSuite) down() {
	if s.j != nil {
		s.r.down(s.j)
	}
	s.r.report("lsphp-ends", "", s.php.stop())
}

// holdLines asks for a path and wants lines in the answer.
func (s *lsapiSuite) holdLines(method, path string, body io.Reader, length int64, header []string, lines ...string) error {
	a, err := want(200)(s.send(method, path, body, length, header...))
	if err != nil {
		return err
	}
	for i := range lines {
		lines[i] += "\n"
	}
	return holds(a, lines...)
}

func (s *lsapiSuite) variables() (string, error) {
	return "", s.holdLines("GET", "/t.php/a%20b/c?x=1&y=%2F", nil, 0, []string{"X-Odd-Name: v", "Cookie: a=b", "Authorization: Basic dTpw"},
		"SCRIPT_NAME=/t.php", "PATH_INFO=/a b/c", "QUERY_STRING=x=1&y=%2F", "REQUEST_URI=/t.php/a%20b/c?x=1&y=%2F", "REQUEST_METHOD=GET",
		"SCRIPT_FILENAME="+filepath.Join(s.j.root, "htdocs/t.php"), "REMOTE_ADDR=127.0.0.1", "GATEWAY_INTERFACE=CGI/1.1",
		"HTTP_X_ODD_NAME=v", "HTTP_COOKIE=a=b", "cookie a=b", "user u p", "HTTP_PROXY=(unset)", "CONTENT_LENGTH=(unset)", "HOME=(unset)")
}

// fields is what PHP makes of the block of fields itself.
func (s *lsapiSuite) fields() (string, error) {
	return "", s.holdLines("GET", "/t.php?fields=1", nil, 0, []string{"X-One: 1", "Proxy: evil", "User-Agent: agent"}, "X-One: 1", "User-Agent: agent")
}

func (s *lsapiSuite) bodies() (string, error) {
	for _, n := range []int{0, 1, 8192, 300_000, 5 << 20} {
		b := noise(n)
		lines := []string{fmt.Sprintf("READ=%d", n), fmt.Sprintf("SHA256=%x", sha256.Sum256(b))}
		if n > 0 { // lsphp has no variable for a body of 0 bytes
			lines = append(lines, fmt.Sprintf("CONTENT_LENGTH=%d", n))
		}
		if err := s.holdLines("POST", "/t.php", bytes.NewReader(b), int64(n), []string{"Content-Type: application/octet-stream"}, lines...); err != nil {
			return "", fmt.Errorf("%d bytes: %w", n, err)
		}
	}
	return "0 bytes to 5 MiB", nil
}

func (s *lsapiSuite) chunked() (string, error) {
	b := noise(700_000)
	return "700,000 bytes", s.holdLines("POST", "/t.php", unsized(b), -1, []string{"Content-Type: application/octet-stream"},
		fmt.Sprintf("READ=%d", len(b)), fmt.Sprintf("SHA256=%x", sha256.Sum256(b)), fmt.Sprintf("CONTENT_LENGTH=%d", len(b)))
}

// unread sends bodies to a script that does not look at them. Whatever becomes of
// them, the next request on the connection is not made of them.
func (s *lsapiSuite) unread() (string, error) {
	evil := bytes.Repeat([]byte("LS\x01\x00GET /t.php "), 20_000)
	for i := range 40 {
		if _, err := want(200)(s.send("POST", "/hello.php", bytes.NewReader(evil), int64(len(evil)), "Content-Type: application/json")); err != nil {
			return "", err
		}
		if err := s.holdLines("GET", fmt.Sprintf("/t.php?n=%d", i), nil, 0, nil, fmt.Sprintf("QUERY_STRING=n=%d", i), "REQUEST_METHOD=GET"); err != nil {
			return "", err
		}
	}
	return "40 bodies of 300 kB", nil
}

func (s *lsapiSuite) long() (string, error) {
	if err := s.holdLines("GET", "/t.php", nil, 0, []string{"X-Long: " + strings.Repeat("v", 15_000)}, "REQUEST_METHOD=GET"); err != nil {
		return "", err
	}
	var header []string
	for i := range 8 {
		header = append(header, fmt.Sprintf("X-Long-%d: %s", i, strings.Repeat("v", 9000)))
	}
	a, err := s.send("GET", "/t.php", nil, 0, header...)
	if err != nil {
		return "", err
	}
	if a.StatusCode != 431 {
		return "", fmt.Errorf("status %d", a.StatusCode)
	}
	return "", s.holdLines("GET", "/t.php", nil, 0, nil, "REQUEST_METHOD=GET")
}

// longAnswer is G64 with lsphp: fields of 22,500 and 17,000 bytes.
func (s *lsapiSuite) longAnswer() (string, error) {
	a, err := s.get("/t.php?long=17000", 200)
	if err == nil && len(a.Header.Get("X-Test")) != 17_000 {
		err = fmt.Errorf("X-Test of %d bytes", len(a.Header.Get("X-Test")))
	}
	return "17,000 bytes", err
}

// early is a script whose process ends in the middle.
func (s *lsapiSuite) early() (string, error) {
	a, err := s.send("GET", "/t.php?die=head", nil, 0)
	if err != nil {
		return "", err
	}
	if token := a.Header.Get("X-Httpjet-Proxy-Error"); a.StatusCode != 502 || token != "lsapi_protocol" {
		return "", fmt.Errorf("before the head: %d %s", a.StatusCode, token)
	}
	resp, err := s.Get(s.base + "/t.php?die=body")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		return "", errors.New("a body that was cut ended well")
	}
	return "502 before the head, cut after it, then clean", s.holdLines("GET", "/t.php", nil, 0, nil, "REQUEST_METHOD=GET")
}

// killed makes 10,000 requests while lsphp's children are killed at random moments.
func (s *lsapiSuite) killed() (string, error) {
	t := &storm{j: s.j, path: "/t.php?bytes=40000", canary: canary, kill: func() bool { return killChild(s.php) },
		tokens: []string{"502 lsapi_protocol", "503 lsapi_unavailable", "504 upstream_timeout", "503 no_upstream"}}
	said, err := t.run(phpWorkers)
	if err != nil {
		return "", err
	}
	return said, s.holdLines("GET", "/t.php", nil, 0, nil, "REQUEST_METHOD=GET")
}

// figures compares requests per second of one trivial script behind lsphp and
// behind PHP-FPM of the same build with as many workers, in turns.
func (s *lsapiSuite) figures() (string, error) {
	conf := filepath.Join(s.r.dir, "lsapi", "fpm.conf")
	pool := "[global]\ndaemonize = no\nerror_log = /dev/stderr\n[w]\nlisten = " + s.fpmSock() +
		"\nlisten.mode = 0666\npm = static\npm.max_children = " + strconv.Itoa(phpWorkers) + "\nsecurity.limit_extensions = .fpm\n"
	if os.Geteuid() == 0 {
		pool += "user = www-data\ngroup = www-data\n"
	}
	if err := os.WriteFile(conf, []byte(pool), 0o644); err != nil {
		return "", err
	}
	fpm, err := s.r.start(filepath.Join(s.dir, "php-fpm"), "-n", "-F", "-y", conf)
	if err != nil {
		return "", err
	}
	defer fpm.stop()
	if err := fpm.ready(s.r.ctx, dial("unix", s.fpmSock())); err != nil {
		return "", err
	}
	// A pool that has lost no child, as FPM's.
	if err := s.php.stop(); err != nil {
		return "", err
	}
	if s.php, err = s.r.startLSPHP(filepath.Join(s.dir, "lsphp"), s.sock, phpWorkers); err != nil {
		return "", err
	}
	rounds := s.r.pick(9, 31)
	var ls, fc, ratios []float64
	for range rounds { // short ones in turns: what else the machine does hits both
		a, err := s.rate("/hello.php", 500*time.Millisecond)
		if err != nil {
			return "", err
		}
		b, err := s.rate("/hello.fpm", 500*time.Millisecond)
		if err != nil {
			return "", err
		}
		ls, fc, ratios = append(ls, a), append(fc, b), append(ratios, a/b)
	}
	for _, list := range [][]float64{ls, fc, ratios} {
		slices.Sort(list)
	}
	mid, low, high := rounds/2, rounds/4, rounds-1-rounds/4
	said := fmt.Sprintf("LSAPI %.0f requests/s, FastCGI %.0f, ratio %.2f, half of the rounds %.2f to %.2f (medians of %d paired rounds, %d workers each, LSAPI_ACCEPT_NOTIFY=1)",
		ls[mid], fc[mid], ratios[mid], ratios[low], ratios[high], rounds, phpWorkers)
	if s.r.mode == "full" && ratios[high] < 1 {
		return "", errors.New(said) // beyond what the rounds differ by
	}
	return said, nil
}

// rate is how many requests per second a path serves to 16 connections.
func (s *lsapiSuite) rate(path string, d time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(s.r.ctx, d)
	defer cancel()
	var n atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, 16)
	began := time.Now()
	for i := range errs {
		all.Go(func() {
			c := newClient(s.base, &http.Transport{DisableCompression: true})
			defer c.CloseIdleConnections()
			for ctx.Err() == nil && errs[i] == nil {
				a, err := c.get(path, 200)
				if err == nil && string(a.body) != "hello" {
					err = fmt.Errorf("body %.60q", a.body)
				}
				if errs[i] = err; err == nil {
					n.Add(1)
				}
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}
