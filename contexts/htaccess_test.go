package contexts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"httpjet/access"
	"httpjet/docroot"
	"httpjet/exchange"
	"httpjet/rewrite"
	"httpjet/static"
)

// answer records what the client of one exchange gets.
type answer struct {
	head exchange.Response
	body bytes.Buffer
}

func (w *answer) Read([]byte) (int, error)                           { return 0, io.EOF }
func (w *answer) Trailers() *exchange.Fields                         { return nil }
func (w *answer) StopRead()                                          {}
func (w *answer) Head(r *exchange.Response, noBody, last bool) error { w.head = *r; return nil }
func (w *answer) Write(p []byte) (int, error)                        { return w.body.Write(p) }
func (w *answer) Flush() error                                       { return nil }
func (w *answer) End(*exchange.Fields) error                         { return nil }
func (w *answer) Abort(error)                                        {}
func (w *answer) Context() context.Context                           { return context.Background() }

// htSite is a virtual host over a tree of files, with a script handler for php and a
// processor "app".
type htSite struct {
	*VHost
	t    testing.TB
	root string
}

func newHtSite(t testing.TB, files map[string]string, list ...*Context) *htSite {
	t.Helper()
	s := &htSite{t: t, root: t.TempDir()}
	for name, text := range files {
		name = filepath.Join(s.root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := docroot.New(docroot.Options{Dir: s.root, Links: docroot.FollowLinks, Index: []string{"index.html"}})
	if err != nil {
		t.Fatal(err)
	}
	tells := func(what string) exchange.Handler {
		return exchange.HandlerFunc(func(x *exchange.Exchange) error {
			_, err := fmt.Fprintf(exchangeWriter{x}, "%s %s %s", what, x.Resource.Name, x.Req.Sent())
			return err
		})
	}
	h := &rewrite.Host{DocRoot: s.root, Name: "site"}
	s.VHost = &VHost{Name: "site", Root: root, RulesHost: h, IsUpgrade: func(*exchange.Exchange) bool { return false },
		Static:  static.New(static.Options{Types: map[string]string{"html": "text/html", "txt": "text/plain", "css": "text/css"}, ETag: 28}),
		Scripts: map[string]*Script{"php": {Handler: tells("php"), Serves: exchange.FastCGI}},
		Named:   map[string]*Target{"app": {Handler: tells("app"), Serves: exchange.Proxy, Group: "app"}},
		Htaccess: rewrite.NewDirs(rewrite.Options{Root: s.root, Override: rewrite.OverrideAll, Host: h,
			Realm: func(users, groups, name, required string) (rewrite.Guard, error) {
				need, err := access.ParseRequired(required)
				return access.NewGuard(access.NewRealm(access.RealmOptions{Users: users, Groups: groups}), name, need), err
			},
			Report: func(list []rewrite.Notice) {
				for _, n := range list {
					t.Logf("%s:%d: %s: %s", strings.TrimPrefix(n.File, s.root), n.Line, n.Directive, n.Why)
				}
			}})}
	s.SetContexts(list)
	return s
}

type exchangeWriter struct{ x *exchange.Exchange }

func (w exchangeWriter) Write(p []byte) (int, error) { return w.x.Write(p) }

// get asks for a target, "POST /x" for another method; fields are "Name: value".
func (s *htSite) get(target string, fields ...string) *answer {
	s.t.Helper()
	method := "GET"
	if m, rest, ok := strings.Cut(target, " "); ok {
		method, target = m, rest
	}
	w := &answer{}
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme, x.Req.Proto = method, target, "a.test", "http", "HTTP/1.1"
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		x.Req.Fields.Add(name, value)
	}
	_ = exchange.Run(x, exchange.HandlerFunc(func(x *exchange.Exchange) error {
		t := &Table{}
		if err := t.cleanPath(x); err != nil {
			return err
		}
		return s.serve(x, t)
	}))
	return w
}

// want compares status, and the body, location or field that comes with it.
func (s *htSite) want(target string, want string, fields ...string) {
	s.t.Helper()
	w := s.get(target, fields...)
	got := fmt.Sprint(w.head.Status)
	switch l := w.head.Fields.Get("Location"); {
	case l != "":
		got += " " + l
	case w.head.Status == 200 || !strings.Contains(w.body.String(), "<!doctype"):
		got += " " + w.body.String()
	}
	if got != want {
		s.t.Errorf("%s %v: %s, want %s", target, fields, got, want)
	}
}

func (s *htSite) field(target, name, want string, fields ...string) {
	s.t.Helper()
	w := s.get(target, fields...)
	var list []string
	for v := range w.head.Fields.Values(name) {
		list = append(list, v)
	}
	if got := strings.Join(list, " | "); got != want {
		s.t.Errorf("%s: %d %s: %q, want %q", target, w.head.Status, name, got, want)
	}
}

const wordPress = "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n" +
	"RewriteBase /\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n# END WordPress\n"

// R-RW-1: rules of .htaccess files run, by the directory in which they stand.
func TestHtaccessRules(t *testing.T) {
	s := newHtSite(t, map[string]string{".htaccess": wordPress, "index.php": "", "a.css": "css", "index.html": "home",
		"blog/.htaccess": "RewriteEngine on\nRewriteRule ^x/(.*)$ $1.txt [L]\nRewriteRule ^out$ /a.css\nRewriteRule ^loop$ /other/loop\nRewriteRule ^p/(.*) http://app/$1 [P]\n" +
			"RewriteRule ^q http://other.test/ [P]\nRewriteRule ^u unix:/tmp/x|/ [P]\nRewriteRule ^gone$ - [G]\nRewriteRule ^r$ to [R=301,L]",
		"blog/one.txt": "one", "blog/sub/two.txt": "two", "blog/sub/x/y.txt": "y",
		"other/.htaccess": "RewriteEngine on\nRewriteRule ^loop$ /blog/loop",
		"off/.htaccess":   "RewriteEngine off\nRewriteRule ^ - [F]", "off/a.txt": "off",
		"in/.htaccess": "RewriteEngine on\nRewriteOptions inherit\nRewriteRule ^never - [F]", "in/a.txt": "in",
		"base/.htaccess": "RewriteEngine on\nRewriteBase /blog\nRewriteRule ^one$ one.txt",
	})
	s.want("/a.css", "200 css")
	s.want("/", "200 home")
	s.want("/2024/05/hello/", "200 php /index.php /index.php")
	s.want("/2024/05/hello/?a=b", "200 php /index.php /index.php?a=b")
	s.want("/index.php/x", "200 php /index.php /index.php/x")
	s.want("/blog/x/one", "200 one")
	s.want("/blog/sub/x/y.txt", "200 y") // rules of the directory above: its path begins with sub/
	s.want("/blog/out", "200 css")
	s.want("/blog/loop", "500")
	s.want("/blog/p/a%20b", "200 app  /a%20b")
	s.want("/blog/q", "502")
	s.want("/blog/u", "502")
	s.want("/blog/gone", "410")
	s.want("/blog/r", "301 http://a.test/blog/to")
	s.want("/off/a.txt", "200 off")
	s.want("/off/none", "404")
	s.want("/in/a.txt", "200 in")
	s.want("/in/none", "200 php /index.php /index.php")
	s.want("/base/one", "200 one")
}

// Rules of contexts and of .htaccess files: the innermost place that has some. They
// never run where the path lies in a context of another type (R-RW-1).
func TestHtaccessRulesAndContexts(t *testing.T) {
	app := exchange.HandlerFunc(func(x *exchange.Exchange) error { _, err := x.Write([]byte("ctx")); return err })
	s := newHtSite(t, map[string]string{".htaccess": "RewriteEngine on\nRewriteRule ^ /root.txt [L]", "root.txt": "root", "a/.htaccess": "RewriteEngine on\nRewriteRule ^b$ /a/file.txt",
		"a/file.txt": "file", "a/c.txt": "c", "d/deep/x.txt": "deep"}, &Context{URI: "/api/", Kind: Proxy, Handler: app}, &Context{URI: "/a/"}, &Context{URI: "/d/deep/"},
		&Context{URI: "/lost/", Kind: Proxy})
	compiled, _ := rewrite.Compile(rewrite.Source{Text: "RewriteRule ^c$ /a/c.txt [L]", Prefix: "/a/", Dir: s.root + "/a"})
	deep, _ := rewrite.Compile(rewrite.Source{Text: "RewriteRule ^y$ x.txt [L]", Prefix: "/d/deep/", Dir: s.root + "/d/deep"})
	for i := range s.contexts.all.prefixes {
		for _, c := range s.contexts.all.prefixes[i].covering("/a/x") {
			if c.URI == "/a/" {
				c.Rules = []*rewrite.Program{compiled}
			}
		}
		for _, c := range s.contexts.all.prefixes[i].covering("/d/deep/x") {
			if c.URI == "/d/deep/" {
				c.Rules = []*rewrite.Program{deep}
			}
		}
	}
	s.want("/api/x", "200 ctx")
	s.want("/x", "200 root")
	s.want("/a/b", "200 file")
	s.want("/a/c", "200 c")
	s.want("/d/deep/y", "200 deep")
	s.want("/lost/x", "200 root") // served as files, so ruled as files
}

// Redirect and RedirectMatch run behind the rules of the same file, on the requested
// path too; no client makes the host of a target.
func TestHtaccessRedirects(t *testing.T) {
	s := newHtSite(t, map[string]string{".htaccess": wordPress + "Redirect 301 /old /new\nRedirectMatch 302 ^/m/(.*)\\.htm$ http://b.test/$1.html\n" +
		"Redirect permanent /abs http://b.test/x\nRedirectMatch ^/open(.*)$ http://b.test$1\nRedirect /q /t?a=b\nRedirect seeother /s /t\nRedirectMatch 308 ^/back(.*)$ $1\nRedirectPermanent /rp /t\nRedirect / http://never",
		"index.php": "", "sub/.htaccess": "Redirect 301 /sub/x /inner"},
		&Context{URI: "/api/", Kind: Proxy, Handler: exchange.HandlerFunc(func(x *exchange.Exchange) error { _, err := x.Write([]byte("api")); return err })})
	s.want("/api/x", "200 api") // it has no directory
	s.want("/old/a%20b?c=d", "301 http://a.test/new/a%20b?c=d")
	s.want("/m/a%0db.htm", "302 http://b.test/a%0Db.html")
	s.want("/abs/y", "301 http://b.test/x/y")
	s.want("/open.evil.test/", "302 http://b.test/.evil.test/")
	s.want("/q/x?c=d", "302 http://a.test/t/x?a=b")
	s.want("/s", "303 http://a.test/t")
	s.want("/back/%5Cevil.test", "308 http://a.test/%5Cevil.test")
	s.want("/backhttp://evil.test/", "308 http://a.test/http:/evil.test/")
	s.want("/rp", "301 http://a.test/t")
	s.want("/sub/x", "301 http://a.test/inner")
	s.want("/else", "302 http://never/else")
}

func TestHtaccessFields(t *testing.T) {
	s := newHtSite(t, map[string]string{".htaccess": `Header set X-A "one two"
Header append X-A three
Header always set X-Always "yes"
Header set X-Env "%{who}e %%" env=who
Header set X-Not no env=!who
Header set X-Expr "host" "expr=%{HTTP_HOST} == 'a.test' && %{REQUEST_URI} =~ m#\.txt$#"
Header unset ETag
Header edit Last-Modified "^(...)," "day $1"
Header set Connection close
Header set X-Split "a%0d%0ab"
SetEnvIfNoCase User-Agent "bad(bot)?" who=$1
SetEnvIf Request_URI "^/shut" shut
SetEnv LATE value
Order allow,deny
Allow from all
Deny from env=shut
ExpiresActive on
ExpiresDefault "access plus 1 hour"
ExpiresByType text/css "access plus 1 day 1 hour"
ExpiresByType text/html A0
AddType text/x-odd .odd
AddCharset utf-8 .txt
AddDefaultCharset utf-16
AddEncoding gzip .svgz
FileETag None
<Files "*.css">
Header set X-Css yes
</Files>
<FilesMatch "\.(?!css)">
Header set X-Other yes
</FilesMatch>
<If "%{QUERY_STRING} == 'if'">
Header set X-If yes
</If>
<IfModule mod_unheard.c>
Header set X-Unheard yes
</IfModule>
<IfModule !mod_headers.c>
Header set X-None yes
</IfModule>
`, "a.txt": "a", "b.css": "b", "c.odd": "c", "d.svgz": "d", "index.html": "i", "force/.htaccess": "ForceType application/octet-stream", "force/a.txt": "f"})
	s.field("/a.txt", "X-A", "one two, three")
	s.field("/none", "X-Always", "yes")
	s.field("/none", "X-A", "")
	s.field("/a.txt", "X-Env", "bot %", "User-Agent: BADbot")
	s.field("/a.txt", "X-Env", "")
	s.field("/a.txt", "X-Not", "no")
	s.field("/a.txt", "X-Expr", "host")
	s.field("/b.css", "X-Expr", "")
	s.field("/a.txt", "ETag", "")
	s.field("/a.txt", "Connection", "")
	s.field("/b.css", "X-Css", "yes")
	s.field("/b.css", "X-Other", "")
	s.field("/a.txt", "X-Other", "yes")
	s.field("/a.txt?if", "X-If", "yes")
	s.field("/a.txt", "X-If", "")
	s.field("/a.txt", "X-Unheard", "")
	s.field("/a.txt", "X-None", "")
	s.field("/shut", "X-Always", "yes")
	s.want("/shut", "403")
	s.field("/a.txt", "Cache-Control", "public, max-age=3600")
	s.field("/b.css", "Cache-Control", "public, max-age=90000")
	s.field("/", "Cache-Control", "public, max-age=0")
	s.field("/a.txt", "Content-Type", "text/plain; charset=utf-8")
	s.field("/", "Content-Type", "text/html; charset=utf-16")
	s.field("/c.odd", "Content-Type", "text/x-odd")
	s.field("/d.svgz", "Content-Encoding", "gzip")
	s.field("/force/a.txt", "Content-Type", "application/octet-stream")
}

// Handlers: files are run by whom a directive or a rule names, and what somebody meant
// to be run is never shown; nor is a script whose handler was taken away (R-STATIC-10).
func TestHtaccessHandlers(t *testing.T) {
	s := newHtSite(t, map[string]string{"a.inc": "source", "add/.htaccess": "AddHandler application/x-httpd-php81 .inc", "add/a.inc": "source", "add/b.txt": "text",
		"type/.htaccess": "AddType application/x-httpd-php .inc", "type/a.inc": "source", "set/.htaccess": "<Files run>\nSetHandler application/x-httpd-lsphp\n</Files>", "set/run": "source", "set/b.txt": "text",
		"off/.htaccess": "php_flag engine off", "off/a.php": "source",
		"mod/.htaccess": "<IfModule php7_module>\nphp_flag engine off\n</IfModule>\n<IfModule php_module>\nphp_flag engine off\n</IfModule>", "mod/a.php": "source",
		"unheard/.htaccess": "<IfModule mod_unheard_of.c>\n<Files *>\nphp_flag engine off\n</Files>\n</IfModule>", "unheard/a.php": "source", "none/.htaccess": "SetHandler none", "none/a.php": "source", "none/b.txt": "text",
		"rm/.htaccess": "RemoveHandler .php", "rm/a.php": "source", "odd/.htaccess": "SetHandler server-status", "odd/b.txt": "text",
		"t/.htaccess": "RewriteEngine on\nRewriteRule ^a\\.inc$ - [T=application/x-httpd-php]\nRewriteRule ^b\\.txt$ - [H=text/x-b]\nRewriteRule ^c\\.php$ - [T=text/plain]",
		"t/a.inc":     "source", "t/b.txt": "text", "t/c.php": "source",
		"force/.htaccess": "ForceType application/x-httpd-php", "force/a.inc": "source", "force/api": "source",
		"force/none/.htaccess": "ForceType none", "force/none/a.inc": "text", "force/odd/.htaccess": "AddType text/plain .inc\nSetHandler none", "force/odd/a.inc": "source",
		"forced/.htaccess": "<Files api>\nForceType application/x-httpd-php\n</Files>", "forced/api": "source", "forced/b.txt": "text",
		"plain/.htaccess": "SetHandler none\nForceType text/plain", "plain/a.php": "source", "plain/b.txt": "text"})
	s.want("/a.inc", "200 source")
	s.want("/force/a.inc", "200 php /force/a.inc /force/a.inc")
	s.want("/force/api", "200 php /force/api /force/api")
	s.want("/force/none/a.inc", "200 text")
	s.want("/force/odd/a.inc", "403")
	s.want("/forced/api", "200 php /forced/api /forced/api")
	s.want("/forced/b.txt", "200 text")
	s.want("/plain/a.php", "403")
	s.want("/plain/b.txt", "200 text")
	s.want("/add/a.inc", "200 php /add/a.inc /add/a.inc")
	s.want("/add/b.txt", "200 text")
	s.want("/type/a.inc/info", "200 php /type/a.inc /type/a.inc/info")
	s.want("/set/run", "200 php /set/run /set/run")
	s.want("/set/b.txt", "200 text")
	s.want("/off/a.php", "403")
	s.want("/mod/a.php", "403")
	s.want("/unheard/a.php", "403")
	s.want("/none/a.php", "403")
	s.want("/none/b.txt", "200 text")
	s.want("/rm/a.php", "403")
	s.want("/odd/b.txt", "503")
	s.want("/t/a.inc", "200 php /t/a.inc /t/a.inc")
	s.want("/t/b.txt", "200 text")
	s.field("/t/b.txt", "Content-Type", "text/x-b")
	s.want("/t/c.php", "200 php /t/c.php /t/c.php")
	s.Scripts = map[string]*Script{}
	s.want("/add/a.inc", "503")
	s.want("/type/a.inc", "503")
	s.want("/forced/api", "503")
	s.want("/t/a.inc", "503")
}

// R-PIPE-10: documents of errors keep the status; what is refused is not shown by them.
func TestHtaccessErrorDocument(t *testing.T) {
	s := newHtSite(t, map[string]string{".htaccess": "ErrorDocument 404 /404.html\nErrorDocument 403 \"go away\nErrorDocument 410 http://b.test/gone\nErrorDocument 400 /none.html\n" +
		"RedirectMatch 410 ^/gone\nRewriteEngine on\nRewriteRule ^f$ - [F]\nHeader always set X-Always yes\nHeader set X-Ok yes",
		"404.html": "lost", "php/.htaccess": "ErrorDocument 404 /err.php", "err.php": "",
		"shut/.htaccess": "Require all denied\nErrorDocument 403 /shut/secret.html", "shut/secret.html": "secret",
		"def/.htaccess": "ErrorDocument 404 default", "hid/.htaccess": "ErrorDocument 404 /.htaccess"})
	s.want("/none", "404 lost")
	s.want("/none", "404 lost", "Range: bytes=0-1", "If-None-Match: *")
	s.want("POST /none", "404 lost")
	s.field("/none", "ETag", "")
	s.field("/none", "X-Always", "yes")
	s.field("/none", "X-Ok", "")
	s.want("/f", "403 go away")
	s.want("/gone", "302 http://b.test/gone")
	s.want("/php/x", "404 php /err.php /err.php")
	s.want("/shut/x", "403")
	s.want("/def/x", "404")
	s.want("/hid/x", "404")
}

func TestHtaccessIndexAndBody(t *testing.T) {
	s := newHtSite(t, map[string]string{"index.html": "home", "other.txt": "other", "d/.htaccess": "DirectoryIndex none.html start.txt\nLimitRequestBody 3", "d/index.html": "no", "d/start.txt": "start",
		"e/.htaccess": "DirectoryIndex disabled", "e/index.html": "no", "p/.htaccess": "DirectoryIndex ../other.txt", "p/index.html": "p"})
	s.want("/", "200 home")
	s.want("/d/", "200 start")
	s.want("/e/", "404")
	s.want("/p/", "200 p")
}

// R-ACL-7: Basic authentication of .htaccess files, for every kind of route.
func TestHtaccessRealms(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/users", []byte("ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=:staff\n"), 0o600); err != nil { // of "secret"
		t.Fatal(err)
	}
	basic := "AuthType Basic\nAuthName \"the \\\"place\\\"\"\nAuthUserFile " + dir + "/users\n"
	proxied := exchange.HandlerFunc(func(x *exchange.Exchange) error { _, err := x.Write([]byte("proxied")); return err })
	s := newHtSite(t, map[string]string{"any/.htaccess": basic + "Require valid-user\nRewriteEngine on\nRewriteRule ^who$ /any/%{REMOTE_USER}-%{AUTH_TYPE}.txt [R]\nRewriteRule ^p$ http://app/ [P]",
		"any/a.txt": "a", "any/a.php": "", "staff/.htaccess": basic + "Require group staff\nRequire user carl", "staff/a.txt": "a",
		"file/.htaccess": basic + "<Files a.txt>\nRequire user ann\n</Files>", "file/a.txt": "a", "file/b.txt": "b",
		"gone/.htaccess": "AuthType Basic\nAuthUserFile " + dir + "/none\nRequire valid-user", "gone/a.txt": "leak",
		"digest/.htaccess": "AuthType Digest\nAuthUserFile " + dir + "/users\nRequire valid-user", "digest/a.txt": "leak",
		"half/.htaccess": basic, "half/a.txt": "leak", "bare/.htaccess": "Require valid-user", "bare/a.txt": "leak",
		"rel/.htaccess": "AuthType Basic\nAuthUserFile users\nRequire valid-user", "rel/a.txt": "leak",
		"not/.htaccess": basic + "<RequireAll>\nRequire all granted\nRequire not user ann\n</RequireAll>", "not/a.txt": "leak",
		"either/.htaccess": basic + "Require valid-user\nOrder deny,allow\nDeny from all\nAllow from env=let\nSatisfy any\nSetEnvIf X-Let 1 let", "either/a.txt": "a",
		"never/.htaccess": basic + "Require valid-user\nOrder allow,deny", "never/a.txt": "leak",
		"api/.htaccess": basic + "Require valid-user"},
		&Context{URI: "/api/", Kind: Proxy, Handler: proxied})
	ann, bob, bad := "Authorization: Basic YW5uOnNlY3JldA==", "Authorization: Basic Ym9iOnNlY3JldA==", "Authorization: Basic YW5uOndyb25n"
	for _, path := range []string{"/any/a.txt", "/any/a.php", "/any/none", "/any/p", "/any/who", "/api/x", "/staff/a.txt", "/file/a.txt"} {
		s.want(path, "401")
		s.want(path, "401", bad)
	}
	s.field("/any/a.txt", "WWW-Authenticate", `Basic realm="the \"place\""`)
	s.want("/any/a.txt", "200 a", ann)
	s.want("/any/who", "302 http://a.test/any/ann-Basic.txt", ann)
	s.want("/any/p", "200 app  /", ann)
	s.want("/api/x", "200 proxied", ann)
	s.want("/staff/a.txt", "401", ann)
	s.want("/staff/a.txt", "200 a", bob)
	s.want("/file/a.txt", "200 a", ann)
	s.want("/file/a.txt", "401", bob)
	s.want("/file/b.txt", "200 b")
	s.want("/either/a.txt", "401")
	s.want("/either/a.txt", "200 a", ann)
	s.want("/either/a.txt", "200 a", "X-Let: 1")
	s.want("/never/a.txt", "403", ann)
	for _, d := range []string{"gone", "digest", "half", "bare", "rel", "not"} {
		s.want("/"+d+"/a.txt", "503", ann)
	}
}
