package script

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"httpjet/docroot"
	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/groups"
)

// wire records a response; in is the request body.
type wire struct {
	in    io.Reader
	head  exchange.Response
	body  bytes.Buffer
	ended bool
}

func (w *wire) Read(p []byte) (int, error)                         { return w.in.Read(p) }
func (w *wire) Trailers() *exchange.Fields                         { return nil }
func (w *wire) StopRead()                                          {}
func (w *wire) Head(r *exchange.Response, noBody, last bool) error { w.head = *r; return nil }
func (w *wire) Write(p []byte) (int, error)                        { return w.body.Write(p) }
func (w *wire) Flush() error                                       { return nil }
func (w *wire) End(*exchange.Fields) error                         { w.ended = true; return nil }
func (w *wire) Abort(error)                                        {}
func (w *wire) Context() context.Context                           { return context.Background() }

// app is a client that remembers its call and answers with fields and body.
type app struct {
	call   *extproc.Call
	got    string // request body
	fields []exchange.Field
	body   string
	stderr string
	err    error
	closed int
}

func (a *app) Do(_ context.Context, c *extproc.Call) (*extproc.Reply, error) {
	a.call = copyCall(c)
	if c.Body != nil {
		b, err := io.ReadAll(c.Body)
		if err != nil {
			return nil, err
		}
		a.got = string(b)
	}
	if a.stderr != "" && c.Log != nil {
		c.Log(a.stderr)
	}
	if a.err != nil {
		return nil, a.err
	}
	r := &extproc.Reply{Status: 200, Length: int64(len(a.body)), Body: strings.NewReader(a.body),
		Done: func() error { a.closed++; return nil }}
	for _, f := range a.fields {
		r.Fields.Add(f.Name, f.Value)
	}
	return r, nil
}

func (a *app) Retire() {}

// copyCall keeps what the handler takes back when the call is over.
func copyCall(c *extproc.Call) *extproc.Call {
	kept := *c
	kept.Params, kept.Fields = &exchange.Fields{}, &exchange.Fields{}
	for name, value := range c.Params.All() {
		kept.Params.Add(name, value)
	}
	for name, value := range c.Fields.All() {
		kept.Fields.Add(name, value)
	}
	return &kept
}

// newExchange is a plain request of path on a new wire.
func newExchange(path string, fields ...string) (*exchange.Exchange, *wire) {
	w := &wire{in: strings.NewReader("")}
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Proto, x.Req.Scheme = "GET", "HTTP/1.1", "http"
	x.Req.Host, x.Req.Target, x.Req.Path = "example.com:8080", path, path
	x.Req.Remote = netip.MustParseAddrPort("192.0.2.7:4711")
	x.Req.Client = netip.MustParseAddr("198.51.100.9")
	x.Req.Local = netip.MustParseAddrPort("[::ffff:203.0.113.1]:8088")
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		x.Req.Fields.Add(name, value)
	}
	return x, w
}

// resolve gives x the script that its path names below dir.
func resolve(t *testing.T, x *exchange.Exchange, dir string) {
	t.Helper()
	root, err := docroot.New(docroot.Options{Dir: dir, Index: []string{"index.php"}})
	if err != nil {
		t.Fatal(err)
	}
	var verdict docroot.Verdict
	x.Resource, verdict, err = root.Resolve(x.Req.Path, x.Req.Query, func(s string) bool { return s == "php" })
	if err != nil || verdict != docroot.Script {
		t.Fatalf("%q: verdict %d, %v", x.Req.Path, verdict, err)
	}
}

func siteWith(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("<?php secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run serves x and returns the variables, sorted, one "NAME=value" a line.
func run(t *testing.T, x *exchange.Exchange, o Options) []string {
	t.Helper()
	a := &app{}
	o.Group = groups.Single(a)
	if err := exchange.Run(x, New(o)); err != nil {
		t.Fatal(err)
	}
	var vars []string
	names := map[string]bool{}
	for name, value := range a.call.Params.All() {
		if names[name] {
			t.Errorf("%s is there twice", name)
		}
		names[name] = true
		vars = append(vars, name+"="+value)
	}
	slices.Sort(vars)
	return vars
}

func value(vars []string, name string) (string, bool) {
	for _, v := range vars {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			return rest, true
		}
	}
	return "", false
}

func wantVars(t *testing.T, vars []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if name, ok := strings.CutSuffix(w, " absent"); ok {
			if v, there := value(vars, name); there {
				t.Errorf("%s is there: %q", name, v)
			}
		} else if !slices.Contains(vars, w) {
			name, _, _ := strings.Cut(w, "=")
			v, there := value(vars, name)
			t.Errorf("want %s; it is %q, there: %v", w, v, there)
		}
	}
}

// R-FCGI-7.
func TestVariablesOfFile(t *testing.T) {
	dir := siteWith(t, "app/index.php")
	x, _ := newExchange("/app/", "Accept: */*", "X-Foo-2: bar")
	x.Req.Target, x.Req.Query = "/old?a=b", "added=1&a=b" // rewritten
	resolve(t, x, dir)
	got := run(t, x, Options{ServerName: "unused"})
	want := []string{
		"DOCUMENT_ROOT=" + dir, "DOCUMENT_URI=/app/index.php", "GATEWAY_INTERFACE=CGI/1.1", "HTTP_ACCEPT=*/*",
		"HTTP_HOST=example.com:8080", "HTTP_X_FOO_2=bar", "QUERY_STRING=added=1&a=b", "REDIRECT_STATUS=200",
		"REMOTE_ADDR=198.51.100.9", "REMOTE_PORT=4711", "REQUEST_METHOD=GET", "REQUEST_SCHEME=http", "REQUEST_URI=/old?a=b",
		"SCRIPT_FILENAME=" + dir + "/app/index.php", "SCRIPT_NAME=/app/index.php", "SERVER_ADDR=203.0.113.1",
		"SERVER_NAME=example.com", "SERVER_PORT=8088", "SERVER_PROTOCOL=HTTP/1.1", "SERVER_SOFTWARE=httpjet",
	}
	if !slices.Equal(got, want) {
		t.Errorf("variables\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestG24PathInfo(t *testing.T) {
	dir := siteWith(t, "lib/javascript.php")
	x, _ := newExchange("/lib/javascript.php/1599824490/lib/in fo/require.min.js")
	x.Req.Target = "/js/1599824490/lib/in%20fo/require.min.js"
	resolve(t, x, dir)
	wantVars(t, run(t, x, Options{}),
		"SCRIPT_NAME=/lib/javascript.php",
		"PATH_INFO=/1599824490/lib/in fo/require.min.js",
		"PATH_TRANSLATED="+dir+"/1599824490/lib/in fo/require.min.js",
		"SCRIPT_FILENAME="+dir+"/lib/javascript.php",
		"DOCUMENT_URI=/lib/javascript.php/1599824490/lib/in fo/require.min.js",
		"REQUEST_URI=/js/1599824490/lib/in%20fo/require.min.js",
	)
}

// A context of type fcgi or lsapi: no file is needed.
func TestVariablesOfContext(t *testing.T) {
	f := func(uri, path string, want ...string) {
		t.Helper()
		x, _ := newExchange(path)
		got := run(t, x, Options{URI: uri, DocRoot: "/srv/www"})
		wantVars(t, got, append(want, "DOCUMENT_ROOT=/srv/www", "DOCUMENT_URI="+path, "SCRIPT_FILENAME absent")...)
	}
	f("/fcx/", "/fcx/some/path", "SCRIPT_NAME=/fcx/", "PATH_INFO=/some/path", "PATH_TRANSLATED=/srv/www/some/path")
	f("/fcx/", "/fcx/", "SCRIPT_NAME=/fcx/", "PATH_INFO absent", "PATH_TRANSLATED absent")
	f("/fcx", "/fcx", "SCRIPT_NAME=/fcx", "PATH_INFO absent")
	f("/fcx", "/fcx/", "SCRIPT_NAME=/fcx", "PATH_INFO=/")
	f("/fcx", "/fcx/a/", "SCRIPT_NAME=/fcx", "PATH_INFO=/a/")
	f("/", "/a/b", "SCRIPT_NAME=/", "PATH_INFO=/a/b")
	f("exp:^/x[0-9]", "/x1/y", "SCRIPT_NAME=/x1/y", "PATH_INFO absent")
}

// G30: the whole set of RFC 3875 §4.1, also where the request gives little.
func TestG30SetIsComplete(t *testing.T) {
	x, _ := newExchange("/app")
	x.Req.Proto, x.Req.Host = "HTTP/1.0", ""
	x.Req.Remote, x.Req.Client, x.Req.Local = netip.AddrPort{}, netip.Addr{}, netip.AddrPort{} // a Unix socket
	wantVars(t, run(t, x, Options{URI: "/app", ServerName: "www.example.com"}),
		"GATEWAY_INTERFACE=CGI/1.1", "QUERY_STRING=", "REMOTE_ADDR=unix:", "REQUEST_METHOD=GET", "SCRIPT_NAME=/app",
		"SERVER_NAME=www.example.com", "SERVER_PORT=80", "SERVER_PROTOCOL=HTTP/1.0", "SERVER_SOFTWARE=httpjet",
		"HTTP_HOST absent", "REMOTE_PORT absent", "SERVER_ADDR absent", "HTTPS absent", "CONTENT_LENGTH absent")
}

// An application of a host with the page cache is told that there is one (LSX 10.2).
func TestApplicationsLearnOfThePageCache(t *testing.T) {
	x, _ := newExchange("/app")
	wantVars(t, run(t, x, Options{URI: "/app"}), "X-LSCACHE absent")
	x, _ = newExchange("/app")
	x.Steered = true
	wantVars(t, run(t, x, Options{URI: "/app"}), "X-LSCACHE=on")
}

// G29: no HTTP_PROXY, whatever the spelling.
func TestG29Httpoxy(t *testing.T) {
	x, _ := newExchange("/app", "Proxy: http://evil:1", "proxy: x", "Proxy_: x", "PROXY: x", "Pr.oxy: x", "_PROXY: x")
	for _, v := range run(t, x, Options{URI: "/app", Env: []exchange.Field{{Name: "HTTP_PROXY", Value: "http://evil"}}}) {
		if strings.Contains(v, "PROXY") || strings.Contains(v, "PR.OXY") {
			t.Error(v)
		}
	}
}

// R-FCGI-7: what of the request's fields reaches the application.
func TestFieldHygiene(t *testing.T) {
	x, _ := newExchange("/app",
		"Cookie: a=1", "Accept: text/html", "cookie: b=2", "X-List: 1", "x-list: 2", "X-LIST: 3", "accept: */*",
		"X_Forwarded_For: 1.2.3.4", "X.Real.Ip: 1.2.3.4", "X-Forwarded-For: 192.0.2.1", "X-Bad: a\x01b", "X-Nl: a\nb",
		"X-List: 4\x00", "X-Tab: a\tb", "X-Empty: ", "Connection: ", "Connection: close, X-Hop", "X-Hop: 1", "HTTP2-Settings: AAMAAABk", "Keep-Alive: 5", "TE: trailers", "Trailer: X-T",
		"Transfer-Encoding: chunked", "Upgrade: websocket", "Proxy-Authorization: Basic eDp5", "Proxy-Connection: close",
		"Authorization: Basic YTpi", "Content-Type: text/plain", "Content-Length: 3")
	x.Req.Length = 3
	x.Req.Method = "POST"
	vars := run(t, x, Options{URI: "/app"})
	wantVars(t, vars, "HTTP_COOKIE=a=1; b=2", "HTTP_ACCEPT=text/html, */*", "HTTP_X_LIST=1, 2, 3",
		"HTTP_X_FORWARDED_FOR=192.0.2.1", "HTTP_X_TAB=a\tb", "HTTP_X_EMPTY=", "HTTP_AUTHORIZATION=Basic YTpi",
		"CONTENT_TYPE=text/plain", "CONTENT_LENGTH=3",
		"HTTP_X_BAD absent", "HTTP_X_NL absent", "HTTP_X_REAL_IP absent", "HTTP_X.REAL.IP absent", "HTTP_CONNECTION absent",
		"HTTP_KEEP_ALIVE absent", "HTTP_TE absent", "HTTP_TRAILER absent", "HTTP_TRANSFER_ENCODING absent",
		"HTTP_X_HOP absent", "HTTP_HTTP2_SETTINGS absent", // G07, G08
		"HTTP_UPGRADE absent", "HTTP_PROXY_AUTHORIZATION absent", "HTTP_PROXY_CONNECTION absent",
		"HTTP_CONTENT_TYPE absent", "HTTP_CONTENT_LENGTH absent")
}

func TestBodyVariables(t *testing.T) {
	f := func(length int64, want string, fields ...string) {
		t.Helper()
		x, _ := newExchange("/app", fields...)
		x.Req.Method, x.Req.Length = "POST", length
		wantVars(t, run(t, x, Options{URI: "/app"}), want)
	}
	f(0, "CONTENT_LENGTH absent")
	f(0, "CONTENT_LENGTH=0", "Content-Length: 0")
	f(12, "CONTENT_LENGTH=12", "Content-Length: 12")
	f(-1, "CONTENT_LENGTH absent", "Transfer-Encoding: chunked") // counted by the protocol's client
	f(0, "CONTENT_TYPE absent")
	f(0, "CONTENT_TYPE absent", "Content-Type: a\x02b")
}

func TestServerName(t *testing.T) {
	f := func(host, want string) {
		t.Helper()
		if got := hostName(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
	f("example.com", "example.com")
	f("example.com:80", "example.com")
	f("[2001:db8::1]", "[2001:db8::1]")
	f("[2001:db8::1]:443", "[2001:db8::1]")
	f("", "")
}

// R-FCGI-7: HTTPS by the effective scheme, SSL_* by the connection.
func TestTLSVariables(t *testing.T) {
	x, _ := newExchange("/app")
	x.Req.Scheme = "https" // behind a trusted proxy
	wantVars(t, run(t, x, Options{URI: "/app"}), "HTTPS=on", "REQUEST_SCHEME=https", "SSL_PROTOCOL absent")

	cert := &x509.Certificate{SerialNumber: big.NewInt(0xbeef),
		Subject: pkix.Name{CommonName: "client"}, Issuer: pkix.Name{CommonName: "ca"}}
	state := &tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, ServerName: "example.com"}
	f := func(want ...string) {
		t.Helper()
		x, _ := newExchange("/app", "SSL-Client-Verify: SUCCESS")
		x.Req.Scheme, x.Req.TLS = "https", state
		wantVars(t, run(t, x, Options{URI: "/app"}), append(want, "SSL_PROTOCOL=TLSv1.3",
			"SSL_CIPHER=TLS_AES_128_GCM_SHA256", "SSL_TLS_SNI=example.com", "HTTP_SSL_CLIENT_VERIFY=SUCCESS")...)
	}
	f("SSL_CLIENT_VERIFY=NONE", "SSL_CLIENT_S_DN absent")
	state.PeerCertificates = []*x509.Certificate{cert}
	f("SSL_CLIENT_VERIFY=GENEROUS", "SSL_CLIENT_S_DN absent")
	state.VerifiedChains = [][]*x509.Certificate{{cert}}
	f("SSL_CLIENT_VERIFY=SUCCESS", "SSL_CLIENT_S_DN=CN=client", "SSL_CLIENT_I_DN=CN=ca", "SSL_CLIENT_M_SERIAL=BEEF")
}

// R-FCGI-8.
func TestEnvOverridesNothing(t *testing.T) {
	x, _ := newExchange("/app", "Accept: */*")
	plain := run(t, x, Options{URI: "/app", DocRoot: "/srv"})
	env := []exchange.Field{{Name: "APP_ENV", Value: "old"}, {Name: "PHP_VALUE", Value: "x=1"}, {Name: "APP_ENV", Value: "prod"},
		{Name: "http_proxy", Value: "http://out"}, {Name: "", Value: "x"}}
	for name := range protected {
		if !setsPHP[name] { // the operator may
			env = append(env, exchange.Field{Name: name, Value: "evil"})
		}
	}
	for _, name := range []string{"HTTP_ACCEPT", "HTTP_PROXY", "HTTP_NEW", "HTTP_AUTHORIZATION", "SSL_CLIENT_VERIFY", "SSL_X"} {
		env = append(env, exchange.Field{Name: name, Value: "evil"})
	}
	x, _ = newExchange("/app", "Accept: */*")
	got := run(t, x, Options{URI: "/app", DocRoot: "/srv", Env: env})
	want := append(plain, "APP_ENV=prod", "PHP_VALUE=x=1", "http_proxy=http://out")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("variables\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A PHP behind FastCGI keeps settings for the requests behind: neither rules nor
// .htaccess files nor authorizers may tell it any.
func TestEnvOfRulesSetsNoPHP(t *testing.T) {
	x, _ := newExchange("/app")
	x.Env = []exchange.Field{{Name: "PHP_VALUE", Value: "auto_prepend_file=/x"}, {Name: "PHP_ADMIN_VALUE", Value: "a=b"}, {Name: "PHP_VALUES", Value: "y"}}
	got := run(t, x, Options{URI: "/app"})
	if list := strings.Join(got, "\n"); strings.Contains(list, "PHP_VALUE=") || strings.Contains(list, "PHP_ADMIN_VALUE=") || !strings.Contains(list, "PHP_VALUES=y") {
		t.Errorf("%s", list)
	}
}

// Whatever the handler derives is in the protected set.
func TestProtectedCoversWhatIsDerived(t *testing.T) {
	x, _ := newExchange("/app/info", "Accept: */*", "Content-Type: a/b", "Content-Length: 0")
	x.Req.Scheme, x.Req.TLS = "https", &tls.ConnectionState{ServerName: "x"}
	resolveTo := siteWith(t, "app")
	f, err := os.Open(resolveTo + "/app")
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	x.Resource = exchange.Resource{File: f, Info: info, Root: resolveTo, Filename: resolveTo + "/app", Name: "/app", PathInfo: "/info"}
	for _, v := range run(t, x, Options{}) {
		if name, _, _ := strings.Cut(v, "="); !Protected(name) {
			t.Errorf("%s is not protected", name)
		}
	}
}

func TestCall(t *testing.T) {
	a := &app{body: "reply", fields: []exchange.Field{{Name: "Content-Type", Value: "text/plain"}}}
	x, w := newExchange("/app/x", "X-A: 1", "Connection: close", "Content-Length: 4", "Proxy: p")
	x.Req.Method, x.Req.Length, w.in = "POST", 4, strings.NewReader("body")
	err := exchange.Run(x, New(Options{Group: groups.Single(a), URI: "/app", HeadTimeout: 7 * time.Second}))
	if err != nil || a.got != "body" || w.head.Status != 200 || w.body.String() != "reply" || !w.ended || a.closed != 1 {
		t.Errorf("%v, got %q, sent %d %q, closed %d times", err, a.got, w.head.Status, w.body.String(), a.closed)
	}
	c := a.call
	if c.Method != "POST" || c.URI != "/app/x" || c.Host != "example.com:8080" || c.Length != 4 || c.HeadTimeout != 7*time.Second ||
		c.StopBody == nil || c.Log != nil {
		t.Errorf("%+v", c)
	}
	if c.Fields.Len() != 1 || c.Fields.Get("X-A") != "1" {
		t.Errorf("fields %+v", c.Fields)
	}
}

// R-STATIC-10, R-FCGI-1: no application, no source.
func TestWithoutClient(t *testing.T) {
	dir := siteWith(t, "x.php")
	f := func(o Options, token string) {
		t.Helper()
		x, w := newExchange("/x.php")
		resolve(t, x, dir)
		err := exchange.Run(x, New(o))
		if exchange.ReasonOf(err) != token || w.head.Status != 503 || w.head.Fields.Get("X-Httpjet-Proxy-Error") != token ||
			strings.Contains(w.body.String(), "secret") {
			t.Errorf("%v: %d %q", err, w.head.Status, w.body.String())
		}
	}
	f(Options{}, "handler_unresolved")
	f(Options{Unavailable: "fcgi_unavailable"}, "fcgi_unavailable")
	f(Options{URI: "/x.php"}, "handler_unresolved")
}

// R-FCGI-3.
func TestWithoutFile(t *testing.T) {
	a := &app{}
	x, w := newExchange("/x.php")
	if err := exchange.Run(x, New(Options{Group: groups.Single(a)})); exchange.ReasonOf(err) != "not_found" || w.head.Status != 404 || a.call != nil {
		t.Errorf("%v, %d, called %v", err, w.head.Status, a.call != nil)
	}
}

func TestErrorsOfTheClient(t *testing.T) {
	dial := &extproc.DialError{Addr: "127.0.0.1:9000", Err: errors.New("connection refused")}
	f := func(err error, status int, token string) {
		t.Helper()
		x, w := newExchange("/app")
		got := exchange.Run(x, New(Options{Group: groups.Single(&app{err: err}), URI: "/app"}))
		if w.head.Status != status || exchange.ReasonOf(got) != token {
			t.Errorf("%v: %d %q", err, w.head.Status, exchange.ReasonOf(got))
		}
	}
	f(dial, 502, "upstream_transport")
	f(&extproc.DialError{Timeout: true, Err: errors.New("timeout")}, 504, "connect_timeout")
	f(&exchange.Error{Status: 503, Reason: "fcgi_unavailable", Err: dial}, 503, "fcgi_unavailable")
	f(exchange.Fail(502, "fcgi_protocol", "bad record"), 502, "fcgi_protocol")
	f(exchange.ErrClientGone, 499, "client_gone")
}

// R-HDR-7, R-HDR-8, R-CACHE-7: what steers the cache stays inside, and no
// application speaks for the proxy.
func TestPolicyFieldsStayInside(t *testing.T) {
	fields := []exchange.Field{{Name: "X-LiteSpeed-Cache-Control", Value: "public"}, {Name: "x-litespeed-tag", Value: "a"},
		{Name: "X-LITESPEED-PURGE", Value: "*"}, {Name: "X-LiteSpeed-Vary", Value: "cookie=x"}, {Name: "LSC-Cookie", Value: "c"},
		{Name: "X-Httpjet-Proxy-Error", Value: "forged"}, {Name: "X-Litespeed", Value: "kept"}, {Name: "Set-Cookie", Value: "a=1"}, {Name: "Set-Cookie", Value: "b=2"}}
	h := New(Options{Group: groups.Single(&app{fields: fields}), URI: "/app"})
	sent := func(serve exchange.HandlerFunc) string {
		t.Helper()
		x, w := newExchange("/app")
		if err := exchange.Run(x, serve); err != nil && !x.Failed {
			t.Fatal(err)
		}
		var list []string
		for name := range w.head.Fields.All() {
			list = append(list, name)
		}
		return strings.Join(list, " ")
	}
	f := func(what, want string, serve exchange.HandlerFunc) {
		t.Helper()
		if got := sent(serve); got != want {
			t.Errorf("%s: sent %s", what, got)
		}
	}
	f("without a page cache", "X-Litespeed Set-Cookie Set-Cookie", h.Serve)
	// A page cache reads what steers it and nothing that is the server's.
	f("for a page cache", "X-LiteSpeed-Cache-Control x-litespeed-tag X-LITESPEED-PURGE X-LiteSpeed-Vary LSC-Cookie X-Litespeed Set-Cookie Set-Cookie",
		func(x *exchange.Exchange) error {
			x.Steered = true
			return h.Serve(x)
		})
	// A page for an error is no answer that a page cache takes part in.
	f("for an error", "X-Litespeed Set-Cookie Set-Cookie", func(x *exchange.Exchange) error {
		x.Steered = true
		return x.Page(exchange.Fail(404, "not_found", "no file"), h)
	})
}

// R-FCGI-11.
func TestStderrGoesToTheLog(t *testing.T) {
	var buf bytes.Buffer
	log := slog.New(slog.NewTextHandler(&buf, nil))
	x, w := newExchange("/app")
	x.Route.VHost = "site"
	if err := exchange.Run(x, New(Options{Group: groups.Single(&app{stderr: "PHP Notice: x", body: "fine"}), URI: "/app", Log: log})); err != nil {
		t.Fatal(err)
	}
	if s := buf.String(); !strings.Contains(s, "PHP Notice: x") || !strings.Contains(s, "vhost=site") || !strings.Contains(s, "script=/app") {
		t.Errorf("logged %q", s)
	}
	if w.body.String() != "fine" {
		t.Errorf("sent %q", w.body.String())
	}
}

func BenchmarkVariables(b *testing.B) {
	x, _ := newExchange("/app", "Accept: */*", "User-Agent: bench", "Accept-Language: en", "Accept-Encoding: gzip", "Cookie: a=1")
	h := New(Options{URI: "/app"})
	t, err := h.target(x)
	if err != nil {
		b.Fatal(err)
	}
	var v exchange.Fields
	b.ReportAllocs()
	for b.Loop() {
		h.variables(&v, x, t)
		v.Reset()
	}
}

// R-ACL-7: an application is told whom a realm has let in, and by nothing that the
// client sends.
func TestVariablesOfUser(t *testing.T) {
	for _, user := range []string{"", "ann"} {
		dir := siteWith(t, "app/index.php")
		x, _ := newExchange("/app/", "Remote-User: eve", "Auth-Type: none")
		x.Req.User = user
		resolve(t, x, dir)
		got := run(t, x, Options{Env: []exchange.Field{}})
		if want := user != ""; slices.Contains(got, "REMOTE_USER="+user) != want || slices.Contains(got, "AUTH_TYPE=Basic") != want {
			t.Errorf("user %q: %s", user, strings.Join(got, "\n"))
		}
		if slices.Contains(got, "REMOTE_USER=eve") {
			t.Error("the client has named itself")
		}
	}
}

// appRoot is where the application has the document root; nothing outside of that
// is run.
func TestAppRoot(t *testing.T) {
	dir := siteWith(t, "app/index.php")
	for _, root := range []string{"/srv/www", "/srv/www/"} {
		x, _ := newExchange("/app/index.php/more")
		resolve(t, x, dir)
		wantVars(t, run(t, x, Options{AppRoot: root}), "SCRIPT_FILENAME=/srv/www/app/index.php", "DOCUMENT_ROOT=/srv/www",
			"PATH_TRANSLATED=/srv/www/more", "SCRIPT_NAME=/app/index.php", "PATH_INFO=/more")
	}
	x, _ := newExchange("/app/index.php")
	resolve(t, x, dir)
	wantVars(t, run(t, x, Options{AppRoot: "/"}), "SCRIPT_FILENAME=/app/index.php")

	x, _ = newExchange("/ctx/more")
	wantVars(t, run(t, x, Options{URI: "/ctx/", DocRoot: dir, AppRoot: "/srv/www"}), "DOCUMENT_ROOT=/srv/www",
		"PATH_TRANSLATED=/srv/www/more", "SCRIPT_FILENAME absent")

	x, w := newExchange("/app/index.php")
	resolve(t, x, dir)
	x.Resource.Filename = dir + "x/index.php" // of a context with a location beside docRoot
	a := &app{}
	err := exchange.Run(x, New(Options{AppRoot: "/srv/www", Group: groups.Single(a)}))
	if w.head.Status != 503 || a.call != nil {
		t.Errorf("%d, called: %v, %v", w.head.Status, a.call != nil, err)
	}
}
