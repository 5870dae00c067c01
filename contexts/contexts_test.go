package contexts

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"httpjet/access"
	"httpjet/docroot"
	"httpjet/domains"
	"httpjet/exchange"
	"httpjet/rewrite"
)

// R-CTX-2, R-CTX-5: whole segments, the longest uri wins, patterns go first.
func TestFindContext(t *testing.T) {
	s := newSearch([]*Context{
		{URI: "/"}, {URI: "/api"}, {URI: "/api/v2/"}, {URI: "/px/"}, {URI: "/static/"}, {URI: "/api"},
		{URI: `exp:^/old/(\d+)$`, Regexp: regexp.MustCompile(`^/old/(\d+)$`)},
	})
	f := func(path, want string, slash bool) {
		t.Helper()
		c, got := s.find(path, "GET")
		if c == nil || c.URI != want || got != slash {
			t.Errorf("%s: %v %v", path, c, got)
		}
	}
	f("/api", "/api", false)
	f("/api/x", "/api", false)
	f("/apikeys", "/", false)
	f("/api/v2/x", "/api/v2/", false)
	f("/api/v2", "/api/v2/", true)
	f("/px", "/px/", true)
	f("/pxy", "/", false)
	f("/static/a.css", "/static/", false)
	f("/old/17", `exp:^/old/(\d+)$`, false)
	f("/old/x", "/", false)
}

// R-CTX-3 to R-CTX-5: contexts about whole paths go first, in the order of the
// file; one of another method is no candidate.
func TestFindByMatchAndMethod(t *testing.T) {
	pattern := func(uri string) *Context {
		re, err := Pattern(uri)
		if err != nil {
			t.Fatal(err)
		}
		return &Context{URI: uri, Regexp: re}
	}
	s := newSearch([]*Context{
		{URI: "/"}, {URI: "/api/users/me/settings"}, pattern("/api/users/:id/*"), pattern("/api/users/:id"), {URI: "/api/users/me", Exact: true},
		{URI: "/dir/", Exact: true}, {URI: "/w/", Methods: []string{"POST", "PUT"}}, {URI: "/w", Exact: true, Methods: []string{"GET"}},
		{URI: "/w/x", Methods: []string{"GET"}},
	})
	f := func(request, want string, slash bool) {
		t.Helper()
		method, path, _ := strings.Cut(request, " ")
		c, got := s.find(path, method)
		if c == nil || c.URI != want || got != slash {
			t.Errorf("%s: %v %v", request, c, got)
		}
	}
	f("GET /api/users/me", "/api/users/:id", false) // it stands before the exact one
	f("GET /api/users/", "/", false)                // :id is not empty
	f("GET /api/users/5/", "/api/users/:id/*", false)
	f("GET /api/users/me/settings", "/api/users/:id/*", false)
	f("GET /api/users/5\n/x\ny", "/api/users/:id/*", false)
	f("GET /dir/", "/dir/", false)
	f("GET /dir", "/", false) // no redirect to what is exact
	f("GET /dir/x", "/", false)
	f("POST /w/x", "/w/", false)
	f("GET /w/x", "/w/x", false)
	f("GET /w/y", "/", false)
	f("get /w/x", "/", false)
	f("GET /w", "/w", false)
	f("PUT /w", "/w/", true)
	f("DELETE /w", "/", false)
	for _, uri := range []string{"", "x", "/:", "/:a-b", "/:a/:a", "/*/x", "/a*", "/:rest/*", "/:1a"} {
		if re, err := Pattern(uri); err == nil {
			t.Errorf("%q: %v", uri, re)
		}
	}
	if re, err := Pattern("/a.b/(x)/:y"); err != nil || re.MatchString("/axb/(x)/1") || !re.MatchString("/a.b/(x)/1") {
		t.Error(re, err)
	}
}

// R-SAFE-1: what a context restricts is restricted for every method, and for the
// paths of every kind of match.
func TestGuardsWhateverTheMethod(t *testing.T) {
	s := newSite(t)
	re, err := Pattern("/app/:id/secret")
	if err != nil {
		t.Fatal(err)
	}
	s.v.SetContexts([]*Context{
		{URI: "/app/", Kind: Proxy, Handler: says("proxy")},
		{URI: "/app/in/", Kind: Proxy, Handler: says("leak"), Methods: []string{"POST"}, NoBrowse: true},
		{URI: "/app/one", Kind: Proxy, Handler: says("leak"), Exact: true, Closed: "realm"},
		{URI: "/app/:id/secret", Kind: Proxy, Handler: says("leak"), Regexp: re, Closed: "realm"},
	})
	f := func(request string, want int) {
		t.Helper()
		if got, body, _ := s.ask(t, "192.0.2.1", request); got != want {
			t.Errorf("%q: %d %q, want %d", request, got, body, want)
		}
	}
	f("GET /app/in/x", 403)
	f("POST /app/in/x", 403)
	f("GET /app/in;v=1/x", 403)
	f("GET /app/one", 503)
	f("GET /app/one;v=1", 503)
	f("GET /app/%6Fne", 503)
	f("GET /app/one/more", 200)
	f("GET /app/5/secret", 503)
	f("GET /app/5/secrets", 200)
}

// wire is a front end that records the answer.
type wire struct{ body strings.Builder }

func (w *wire) Read([]byte) (int, error)                           { return 0, io.EOF }
func (w *wire) Trailers() *exchange.Fields                         { return nil }
func (w *wire) StopRead()                                          {}
func (w *wire) Head(r *exchange.Response, noBody, last bool) error { return nil }
func (w *wire) Write(p []byte) (int, error)                        { return w.body.Write(p) }
func (w *wire) Flush() error                                       { return nil }
func (w *wire) End(*exchange.Fields) error                         { return nil }
func (w *wire) Abort(error)                                        {}
func (w *wire) Context() context.Context                           { return context.Background() }

// says is a handler that names itself and the file it got.
func says(name string) exchange.Handler {
	return exchange.HandlerFunc(func(x *exchange.Exchange) error {
		_, err := fmt.Fprintf(x, "%s %s%s", name, x.Resource.Name, x.Resource.PathInfo)
		return err
	})
}

type site struct {
	*Table
	v   *VHost
	dir string
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	for name, body := range map[string]string{
		"index.html": "home", "a.txt": "text", "app.php": "<?php secret", "sub/index.php": "<?php secret",
		"shut/x.txt": "no", "shut/.htaccess": "Require all denied\n", ".htsecret": "no", ".git/config": "no",
		"other/f.txt": "f", "cgi/run.cgi": "#!",
	} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root := func(o docroot.Options) *docroot.Root {
		r, err := docroot.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	list := func(allow, deny string) *access.List {
		l, problems := access.Compile(allow, deny)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return l
	}
	v := &VHost{
		Name: "v", Static: says("static"), IsUpgrade: func(x *exchange.Exchange) bool { return x.Req.Fields.Has("Upgrade") },
		Root:     root(docroot.Options{Dir: dir, Index: []string{"index.html", "index.php"}, Links: docroot.FollowLinks}),
		Htaccess: rewrite.NewDirs(rewrite.Options{Root: dir}),
		Scripts:  map[string]*Script{"php": {Handler: says("script")}},
		Maps:     []SocketMap{{URI: "/ws", Handler: says("socket")}, {URI: "/ws/long/", Handler: says("long")}},
	}
	v.SetContexts([]*Context{
		{URI: "/app/", Kind: Proxy, Handler: says("proxy")},
		{URI: "/lost/", Kind: Proxy},
		{URI: "/app/files/", Kind: Static},
		{URI: "/alias/", Kind: Static, Root: root(docroot.Options{Dir: filepath.Join(dir, "other"), Prefix: "/alias/"})},
		{URI: "/fc/", Kind: App, Handler: says("app")},
		{URI: "/cgi/", Kind: CGI, Handler: says("cgi"), Root: root(docroot.Options{Dir: filepath.Join(dir, "cgi"), Prefix: "/cgi/"})},
		{URI: "/closed/", Kind: Proxy, Handler: says("leak"), Closed: "realm"},
		{URI: "/closed/inner/", Kind: Proxy, Handler: says("leak")},
		{URI: "/nobrowse/", NoBrowse: true},
		{URI: "/ws/guarded", Kind: Static, Closed: "realm"},
		{URI: "/deny/", Kind: Proxy, Handler: says("proxy"), Access: list("ALL", "10.0.0.0/8")},
		{URI: "/noscript/", NoScript: true, Root: root(docroot.Options{Dir: dir, Prefix: "/noscript/"})},
	})
	hosts := &domains.Map[*VHost]{}
	hosts.Add("v.test", v)
	hosts.Add("gone.test", &VHost{Name: "gone", Closed: "its file did not load"})
	hosts.Add("off.test", &VHost{Name: "off", Suspended: true})
	return &site{&Table{Listeners: map[string]*domains.Map[*VHost]{"l": hosts}, MaxURL: 64, MaxBody: 100}, v, dir}
}

// ask returns status and body of a request written as "METHOD target" with field lines.
func (s *site) ask(t *testing.T, client, request string) (int, string, *exchange.Exchange) {
	t.Helper()
	w := &wire{}
	x := &exchange.Exchange{}
	x.Reset(w)
	lines := strings.Split(request, "\n")
	x.Req.Method, x.Req.Target, _ = strings.Cut(lines[0], " ")
	x.Req.Host, x.Req.Listener, x.Req.Scheme = "v.test", "l", "http"
	x.Req.Remote = netip.MustParseAddrPort(client + ":1")
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			x.Req.Host = value
			continue
		}
		x.Req.Fields.Add(name, value)
	}
	err := exchange.Run(x, s.Table)
	if err != nil && !x.Started() {
		t.Fatal(err)
	}
	return x.Resp.Status, w.body.String(), x
}

// The dispatch order, row by row, with the client at 192.0.2.1.
func TestDispatch(t *testing.T) {
	s := newSite(t)
	f := func(request string, status int, body string) {
		t.Helper()
		got, b, _ := s.ask(t, "192.0.2.1", request)
		if got != status || body != "" && b != body {
			t.Errorf("%q: %d %q, want %d %q", request, got, b, status, body)
		}
		if strings.Contains(b, "secret") || strings.Contains(b, "leak") {
			t.Errorf("%q leaks %q", request, b)
		}
	}
	f("GET /\nHost: nobody.test", 404, "")
	f("GET /\nHost: gone.test", 503, "")
	f("GET /\nHost: off.test", 403, "")
	f("TRACE /", 405, "")
	f("CONNECT v.test:443", 405, "")
	f("OPTIONS *", 200, "")
	f("GET /"+strings.Repeat("x", 64), 414, "")
	f("GET /%00", 400, "")
	f("GET /%zz", 400, "")
	f("GET http", 400, "")
	f("GET /", 200, "static /index.html")
	f("GET /a.txt?q", 200, "static /a.txt")
	f("GET /missing", 404, "")
	f("GET /app.php/x/y", 200, "script /app.php/x/y")
	f("GET /sub/", 200, "script /sub/index.php")
	f("GET /.htsecret", 403, "")
	f("GET /.git/config", 403, "")
	f("GET /app/.git/config", 403, "")
	f("GET /shut/x.txt", 403, "")
	f("GET /app/x", 200, "proxy ")
	f("GET /app", 301, "")
	f("GET /app/files/x", 404, "")
	f("GET /lost/x", 404, "") // an unresolved proxy context falls to files
	f("GET /alias/f.txt", 200, "static /alias/f.txt")
	f("GET /fc/any/thing", 200, "app ")
	f("GET /cgi/run.cgi", 200, "cgi /cgi/run.cgi")
	f("GET /cgi/run.cgi/path/info", 200, "cgi /cgi/run.cgi/path/info")
	f("GET /cgi/missing", 404, "")
	f("GET /closed/x", 503, "")
	f("GET /closed/inner/x", 503, "") // an outer restriction guards what lies inside
	f("GET /nobrowse/x", 403, "")
	f("GET /nobrowse;a=1/x", 403, "")
	f("GET /closed%3b/x", 503, "")
	f("GET /;a/closed;b/x", 503, "")
	f(`GET /closed\x`, 503, "")
	f("GET /closed;", 503, "")
	f("GET /app/;/x", 200, "proxy ")
	f("GET /noscript/app.php", 403, "")
	f("GET /ws\nUpgrade: websocket", 200, "socket ")
	f("GET /ws/long/x\nUpgrade: websocket", 200, "long ")
	f("GET /wsx\nUpgrade: websocket", 404, "")
	f("GET /ws", 404, "")
	f("GET /ws/guarded\nUpgrade: websocket", 503, "") // restrictions hold for socket maps (D-38)
}

// R-SAFE-1, dispatch row 13b: what guards a file guards it under every path that
// leads to it, and inner contexts lift nothing.
func TestGuardsOfTheFinalPath(t *testing.T) {
	s := newSite(t)
	deny, _ := access.Compile("ALL", "10.0.0.0/8")
	file := func(name, uri string) *docroot.Root {
		r, err := docroot.New(docroot.Options{Dir: filepath.Join(s.dir, name), Prefix: uri})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	os.WriteFile(filepath.Join(s.dir, "shut/one.txt"), []byte("no"), 0o644)
	s.v.SetContexts([]*Context{
		{URI: "/index.html", Access: deny},
		{URI: `exp:\.php$`, Regexp: regexp.MustCompile(`\.php$`), Access: deny},
		{URI: `exp:^/ws$`, Regexp: regexp.MustCompile(`^/ws$`)},
		{URI: "/ws/", Access: deny},
		{URI: "/other/", NoScript: true},
		{URI: "/other/in/"},
		{URI: "/one", Root: file("shut/one.txt", "/one"), Dirs: s.v.Htaccess},
		{URI: "/run", Root: file("cgi/run.cgi", "/run")},
	})
	s.v.Scripts["cgi"] = &Script{Handler: says("script")}
	os.MkdirAll(filepath.Join(s.dir, "other/in"), 0o755)
	os.WriteFile(filepath.Join(s.dir, "other/in/x.cgi"), []byte("#!"), 0o644)
	f := func(client, request string, want int) {
		t.Helper()
		if got, body, _ := s.ask(t, client, request); got != want {
			t.Errorf("%s %q: %d %q, want %d", client, request, got, body, want)
		}
	}
	f("192.0.2.1", "GET /", 200)
	f("10.0.0.1", "GET /", 403)
	f("10.0.0.1", "GET /sub/", 403)
	f("10.0.0.1", "GET /app.php/x", 403)
	f("10.0.0.1", "GET /app.php", 403)
	f("192.0.2.1", "GET /app.php/x", 200)
	f("10.0.0.1", "GET /ws\nUpgrade: websocket", 403)
	f("192.0.2.1", "GET /other/in/x.cgi", 403)
	f("192.0.2.1", "GET /one", 403) // .htaccess of the directory on disk
	if _, body, _ := s.ask(t, "192.0.2.1", "GET /run"); body != "script /run" {
		t.Errorf("a file that a context names is no script: %q", body)
	}
}

func TestAccessLists(t *testing.T) {
	s := newSite(t)
	f := func(client, request string, status int) {
		t.Helper()
		if got, _, _ := s.ask(t, client, request); got != status {
			t.Errorf("%s %q: %d, want %d", client, request, got, status)
		}
	}
	f("10.1.2.3", "GET /deny/x", 403)
	f("192.0.2.1", "GET /deny/x", 200)
	s.v.Access, _ = access.Compile("ALL, 192.0.2.1T", "192.0.2.9")
	s.Identity = access.Identity{Mode: access.TrustedOnly}
	f("192.0.2.9", "GET /a.txt", 403)
	// A trusted proxy names the client; the list is about the client.
	f("192.0.2.1", "GET /a.txt\nX-Forwarded-For: 192.0.2.9", 403)
	f("198.51.100.1", "GET /a.txt\nX-Forwarded-For: 192.0.2.9", 200)
	_, _, x := s.ask(t, "192.0.2.1", "GET /a.txt\nX-Forwarded-For: 198.51.100.7\nX-Forwarded-Proto: https")
	if x.Req.Client.String() != "198.51.100.7" || x.Req.Scheme != "https" {
		t.Errorf("client %v, scheme %s", x.Req.Client, x.Req.Scheme)
	}
	_, _, x = s.ask(t, "198.51.100.1", "GET /a.txt\nX-Forwarded-Proto: https")
	if x.Req.Scheme != "http" {
		t.Error("an untrusted peer chose the scheme")
	}
}

// What the server's list refuses stays refused: a virtual host cannot make a
// trusted proxy of it.
func TestServerListIsAboutThePeerToo(t *testing.T) {
	s := newSite(t)
	s.Access, _ = access.Compile("ALL", "192.0.2.9")
	s.v.Access, _ = access.Compile("192.0.2.9T", "")
	for _, mode := range []access.Mode{access.TrustedOnly, access.Always, access.AlwaysLast} {
		s.Identity = access.Identity{Mode: mode}
		if status, _, _ := s.ask(t, "192.0.2.9", "GET /a.txt\nX-Forwarded-For: 198.51.100.1"); status != 403 {
			t.Errorf("mode %d: %d", mode, status)
		}
	}
}

// R-LSN-7, dispatch row 4: plain requests go to https at the same name, if it is
// mapped; nobody chooses another one.
func TestRedirectToHTTPS(t *testing.T) {
	s := newSite(t)
	hosts := s.Listeners["l"]
	hosts.Add("*.wild.test", s.v)
	hosts.Add("[::1]", s.v)
	hosts.Add("*", s.v)
	s.HTTPS = map[string]HTTPS{"l": {Status: 308, Port: 443}}
	f := func(request string, status int, location string) {
		t.Helper()
		got, _, x := s.ask(t, "192.0.2.1", request)
		if l := x.Resp.Fields.Get("Location"); got != status || l != location {
			t.Errorf("%q: %d %q, want %d %q", request, got, l, status, location)
		}
	}
	f("GET /a%2Fb//?x=%20y?", 308, "https://v.test/a%2Fb//?x=%20y?")
	f("POST //evil.test/\\x", 308, "https://v.test//evil.test/\\x")
	f("GET /\nHost: WWW.V.test.:8080", 308, "https://www.v.test/")
	f("GET /\nHost: a.wild.test", 308, "https://a.wild.test/")
	f("GET /\nHost: [::1]:80", 308, "https://[::1]/")
	f("GET /\nHost: evil.test", 404, "")
	f("GET /\nHost: ", 404, "")
	f("GET /\nHost: evil.test/x.wild.test", 404, "")
	f("GET /\nHost: evil.test\\.wild.test", 404, "")
	f("GET /\nHost: u@evil.wild.test", 404, "")
	f("GET /\nHost: [evil.test", 404, "")
	f("GET /a\tb", 400, "")
	f("GET /\nHost: gone.test", 308, "https://gone.test/") // before its state is looked at
	f("GET /.well-known/acme-challenge/token", 404, "")    // served, there is no such file
	f("GET /.well-known/acme-challenge/../../a.txt", 308, "https://v.test/.well-known/acme-challenge/../../a.txt")
	f("TRACE /", 308, "https://v.test/")
	f("CONNECT v.test:443", 405, "")
	f("OPTIONS *", 200, "")
	s.Access, _ = access.Compile("ALL, 192.0.2.1T", "192.0.2.9") // no loop behind a proxy that speaks TLS
	f("GET /a.txt\nX-Forwarded-Proto: https", 200, "")
	f("GET /a.txt\nX-Forwarded-Proto: http", 308, "https://v.test/a.txt")
	s.HTTPS["l"] = HTTPS{Status: 301, Port: 8443}
	f("GET /?q", 301, "https://v.test:8443/?q")
}

func TestSlashRedirectStaysOnOrigin(t *testing.T) {
	s := newSite(t)
	s.v.SetContexts([]*Context{{URI: "/evil.test/", Kind: Proxy, Handler: says("proxy")}, {URI: `/\evil.test/`, Kind: Proxy, Handler: says("proxy")}})
	f := func(target, location string) {
		t.Helper()
		status, _, x := s.ask(t, "192.0.2.1", "GET "+target)
		if got := x.Resp.Fields.Get("Location"); status != 301 || got != location {
			t.Errorf("%s: %d %q, want %q", target, status, got, location)
		}
	}
	f("//evil.test?a=1", "/evil.test/?a=1")
	f("///evil.test", "/evil.test/")
	f(`/\evil.test`, "/%5Cevil.test/")
}

func TestBodyCaps(t *testing.T) {
	s := newSite(t)
	s.v.SetContexts([]*Context{{URI: "/app/", Kind: Proxy, Handler: says("proxy"), MaxBody: 10}, {URI: "/big/", Kind: Proxy, Handler: says("proxy"), MaxBody: 1000}})
	f := func(path string, length int64, want int) {
		t.Helper()
		w := &wire{}
		x := &exchange.Exchange{}
		x.Reset(w)
		x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Listener, x.Req.Length = "POST", path, "v.test", "l", length
		x.Req.Remote = netip.MustParseAddrPort("192.0.2.1:1")
		exchange.Run(x, s.Table)
		if x.Resp.Status != want {
			t.Errorf("%s %d: %d, want %d", path, length, x.Resp.Status, want)
		}
	}
	f("/app/", 10, 200)
	f("/app/", 11, 413)
	f("/big/", 100, 200)
	f("/big/", 101, 413) // a context cannot exceed the server's cap (R-CTX-9)
}
