package status

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"httpjet/unixsocket"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

var counters = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "x 1\n") })

// R-MGMT-1: a literal address; beyond the loopback only with an allow list.
func TestNew(t *testing.T) {
	f := func(addr string, allow []netip.Prefix, ok bool) {
		t.Helper()
		if _, err := New(Config{Addr: addr, Allow: allow}); (err == nil) != ok {
			t.Errorf("%q %v: %v", addr, allow, err)
		}
	}
	f("127.0.0.1:9090", nil, true)
	f("127.8.8.8:0", nil, true)
	f("[::1]:9090", nil, true)
	f("[::ffff:127.0.0.1]:9090", nil, true)
	f("0.0.0.0:9090", nil, false)
	f("[::]:9090", nil, false)
	f("192.0.2.1:9090", nil, false)
	f("192.0.2.1:9090", []netip.Prefix{}, false)
	f("192.0.2.1:9090", prefixes("192.0.2.0/24"), true)
	f("192.0.2.1:9090", []netip.Prefix{{}}, false)
	f("localhost:9090", nil, false)
	f(":9090", nil, false)
	f("127.0.0.1", nil, false)
	f("[fe80::1%eth0]:9090", prefixes("fe80::/10"), false)
}

func ask(t *testing.T, c Config, method, path, peer string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = peer
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// R-API-1, R-MGMT-2, R-API-7
func TestAnswers(t *testing.T) {
	f := func(method, path string, status int, body string) {
		t.Helper()
		w := ask(t, Config{Addr: "127.0.0.1:0", Metrics: counters}, method, path, "127.0.0.1:5000")
		if w.Code != status || w.Body.String() != body || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: %d %q %v", method, path, w.Code, w.Body, w.Header())
		}
		if strings.HasPrefix(body, "{") && w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: type %q", method, path, w.Header().Get("Content-Type"))
		}
		if allow := w.Header().Get("Allow"); (allow == "GET, HEAD") != (status == 405) {
			t.Errorf("%s %s: Allow %q", method, path, allow)
		}
	}
	f("GET", "/livez", 200, "{\"status\":\"ok\"}\n")
	f("GET", "/livez?verbose", 200, "{\"status\":\"ok\"}\n")
	f("GET", "/metrics", 200, "x 1\n")
	for _, m := range []string{"POST", "PUT", "DELETE", "OPTIONS", "get", "TRACE"} {
		f(m, "/livez", 405, "{\"error\":\"method_not_allowed\"}\n")
		f(m, "/nowhere", 405, "{\"error\":\"method_not_allowed\"}\n")
	}
	for _, p := range []string{"/", "/livez/", "//livez", "/metrics/x", "/a/../livez", "/debug/pprof/"} {
		f("GET", p, 404, "{\"error\":\"not_found\"}\n")
	}
	if w := ask(t, Config{Addr: "127.0.0.1:0"}, "GET", "/metrics", "127.0.0.1:1"); w.Code != 404 {
		t.Errorf("no metrics: %d", w.Code)
	}
}

// R-MGMT-1: the direct peer decides, never a header.
func TestPeers(t *testing.T) {
	f := func(allow []netip.Prefix, peer string, status int) {
		t.Helper()
		w := ask(t, Config{Addr: "127.0.0.1:0", Allow: allow}, "GET", "/livez", peer,
			"X-Forwarded-For", "127.0.0.1", "X-Real-IP", "192.0.2.7", "Forwarded", "for=127.0.0.1")
		if w.Code != status {
			t.Errorf("%v %s: %d, want %d", allow, peer, w.Code, status)
		}
		if status == 403 && (w.Header().Get("Connection") != "close" || w.Body.String() != "{\"error\":\"forbidden\"}\n") {
			t.Errorf("%s: %v %q", peer, w.Header(), w.Body)
		}
	}
	f(nil, "127.0.0.1:1", 200)
	f(nil, "127.9.9.9:1", 200)
	f(nil, "[::1]:1", 200)
	f(nil, "[::ffff:127.0.0.1]:1", 200)
	f(nil, "192.0.2.7:1", 403)
	f(nil, "[::2]:1", 403)
	f(nil, "@", 403)
	list := prefixes("192.0.2.0/24", "::ffff:198.51.100.0/120", "fe80::/10")
	f(list, "192.0.2.7:1", 200)
	f(list, "[::ffff:192.0.2.7]:1", 200)
	f(list, "198.51.100.9:1", 200)
	f(list, "[fe80::1%eth0]:1", 200)
	f(list, "127.0.0.1:1", 403)
}

func started(t *testing.T) *Server {
	t.Helper()
	s, err := New(Config{Addr: "127.0.0.1:0", Metrics: counters})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return s
}

// raw sends bytes on a connection of its own and returns the status.
func raw(t *testing.T, s *Server, text string) int {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	go io.WriteString(c, text)
	method, _, _ := strings.Cut(text, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// R-MGMT-2: profiles where they are asked for, to the machine itself.
func TestPprof(t *testing.T) {
	f := func(on bool, method, path, peer string, status int, body string) {
		t.Helper()
		w := ask(t, Config{Addr: "192.0.2.1:0", Allow: prefixes("127.0.0.0/8", "192.0.2.0/24"), Pprof: on}, method, path, peer)
		if w.Code != status || !strings.Contains(w.Body.String(), body) {
			t.Errorf("%v %s %s of %s: %d %.80q", on, method, path, peer, w.Code, w.Body)
		}
	}
	f(false, "GET", "/debug/pprof/", "127.0.0.1:1", 404, "not_found")
	f(true, "GET", "/debug/pprof/", "127.0.0.1:1", 200, "goroutine")
	f(true, "GET", "/debug/pprof/goroutine?debug=1", "127.0.0.1:1", 200, "goroutine profile")
	f(true, "GET", "/debug/pprof/cmdline", "127.0.0.1:1", 200, "")
	f(true, "GET", "/debug/pprof/symbol", "127.0.0.1:1", 200, "num_symbols")
	f(true, "GET", "/debug/pprof/nothing", "127.0.0.1:1", 404, "")
	f(true, "GET", "/debug/pprof", "127.0.0.1:1", 404, "not_found")
	f(true, "POST", "/debug/pprof/symbol", "127.0.0.1:1", 405, "")
	f(true, "GET", "/debug/pprof/", "192.0.2.9:1", 403, "forbidden")
}

// A reload changes who may ask without another listener; another address takes one.
func TestUpdate(t *testing.T) {
	s, err := New(Config{Addr: "127.0.0.1:9090"})
	if err != nil {
		t.Fatal(err)
	}
	code := func() int {
		r := httptest.NewRequest("GET", "/livez", nil)
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	f := func(c Config, updates bool, want int) {
		t.Helper()
		if serves := s.Serves(c); serves != updates || s.Update(c) != updates || code() != want {
			t.Errorf("%+v: serves %v, %d", c, serves, code())
		}
	}
	f(Config{Addr: "127.0.0.1:9090", Allow: prefixes("192.0.2.0/24")}, true, 403)
	f(Config{Addr: "127.0.0.1:9091"}, false, 403)
	f(Config{Addr: "127.0.0.1"}, false, 403)
	f(Config{Addr: "127.0.0.1:9090"}, true, 200)
}

func TestOverTheWire(t *testing.T) {
	s := started(t)
	f := func(text string, want int) {
		t.Helper()
		if got := raw(t, s, text); got != want {
			t.Errorf("%.40q: %d, want %d", text, got, want)
		}
	}
	f("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 200)
	f("HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n", 200)
	f("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 405)
	f("GET /livez HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("x", maxHead-100)+"\r\n\r\n", 200)
	f("GET /livez HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("x", maxHead+1)+"\r\n\r\n", 431)
}

// R-MGMT-1: 64 connections; the next one is served when one of them ends.
func TestConnectionLimit(t *testing.T) {
	s := started(t)
	var conns []net.Conn
	for range maxConns {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	late, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	fmt.Fprintf(late, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	late.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	r := bufio.NewReader(late)
	if _, err := r.Peek(1); err == nil {
		t.Fatal("one connection too many is served")
	}
	conns[0].Close()
	late.SetReadDeadline(time.Now().Add(20 * time.Second))
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	}
}

func TestShutdown(t *testing.T) {
	s := started(t)
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /livez HTTP/1.1\r\n") // a head that never ends
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Shutdown(ctx)
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
		c.Close()
		t.Error("still listening")
	}
	s.Shutdown(ctx)
	s, _ = New(Config{Addr: "127.0.0.1:0"})
	s.Shutdown(ctx)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Shutdown(ctx)
}

func TestListenTaken(t *testing.T) {
	s := started(t)
	second, err := New(Config{Addr: s.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Listen(); err == nil {
		t.Error("two listeners on one address")
	}
}

// Beside the address stands a Unix socket: its mode says who may ask, no list; it is
// removed at the end, and one of a server that is gone is replaced.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "management.sock")
	c := Config{Socket: path, Mode: 0o640, Pprof: true, Metrics: counters}
	listen := func() *Server {
		t.Helper()
		s, err := New(c)
		if err == nil {
			err = s.Listen()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Shutdown(context.Background()) })
		return s
	}
	mode := func(want fs.FileMode) {
		t.Helper()
		if fi, err := os.Lstat(path); err != nil || fi.Mode() != fs.ModeSocket|want {
			t.Errorf("%v %v", fi, err)
		}
	}
	s := listen()
	s.Start()
	mode(0o640)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return unixsocket.Dial(ctx, path) }}}
	answers := func(method, at string, want int) {
		t.Helper()
		q, _ := http.NewRequest(method, "http://management"+at, nil)
		resp, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%s %s: %s", method, at, resp.Status)
		}
	}
	answers("GET", "/livez", 200)
	answers("GET", "/metrics", 200)
	answers("GET", "/debug/pprof/cmdline", 200)
	answers("GET", "/none", 404)
	answers("POST", "/livez", 405)
	other, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Listen(); err == nil || !strings.Contains(err.Error(), "another server's") {
		t.Errorf("two servers at one path: %v", err)
	}
	// A reload may change the mode and not the path.
	next := c
	next.Mode, next.Pprof = 0o600, false
	if !s.Serves(next) || !s.Update(next) {
		t.Error("the mode takes another server")
	}
	mode(0o600)
	answers("GET", "/debug/pprof/cmdline", 404)
	if next.Socket += "2"; s.Serves(next) || s.Update(next) {
		t.Error("it serves at another path")
	}
	// Somebody cleans the directory: who comes now does not find it.
	if err := os.Remove(path); err != nil || s.Serves(c) {
		t.Errorf("%v: it is still to be found", err)
	}
	again := listen()
	s.Shutdown(context.Background())
	mode(0o640)
	again.Shutdown(context.Background())
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// Clients of the page, and scrapers, that ask and never read hold nobody else up, nor
// the end; what bounds them is the time that an answer may take (R-MGMT-1).
func TestClientsThatNeverRead(t *testing.T) {
	begun := make(chan struct{}, maxConns)
	page := make([]byte, 1<<20)
	s, err := New(Config{Addr: "127.0.0.1:0", Metrics: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		for range 64 { // more than any socket takes
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if s.http.WriteTimeout != writeTimeout || s.http.ReadTimeout != headTimeout {
		t.Errorf("an answer may take %v, a head %v", s.http.WriteTimeout, s.http.ReadTimeout)
	}
	s.Start()
	at := s.Addr().String()
	for range maxConns - 1 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	for range maxConns - 1 {
		<-begun
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr}).Get("http://" + at + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	s.Shutdown(now) // cuts them, or the test never ends
}
