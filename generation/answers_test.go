package generation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// LSX 7.3, 7.4: what a context says of fields, types, charset and expiry holds below
// it, and what is nearer goes before.
func TestAnswersOfContexts(t *testing.T) {
	ask, fs := safetyParts{
		server: `<expires><enableExpires>1</enableExpires><expiresByType>image/*=A100, text/css=A200</expiresByType></expires>`,
		vhost: `<expires><expiresDefault>A50</expiresDefault></expires><contextList>
			<context><uri>/</uri><extraHeaders>X-Root: 1
set X-Who root</extraHeaders></context>
			<context><uri>/a/</uri><addDefaultCharset>on</addDefaultCharset><extraHeaders><![CDATA[set X-Who "a b"
RequestHeader set X-Not-Seen 1]]></extraHeaders>
				<addMIMEType>text/x-odd odd .ODD2, image/x-new css2</addMIMEType></context>
			<context><uri>/a/none/</uri><extraHeaders>NONE</extraHeaders><addDefaultCharset>off</addDefaultCharset><enableExpires>0</enableExpires></context>
			<context><uri>/a/kept/</uri><extraHeaders>Cache-Control: no-store</extraHeaders></context>
			<context><uri>/a/force/</uri><forceType>text/plain</forceType><addDefaultCharset>koi8-r</addDefaultCharset><expiresByType>text/plain=M0</expiresByType></context>
			<context><uri>/a/force/off/</uri><forceType>NONE</forceType><defaultType>text/x-other</defaultType></context>
			<context><uri>exp:^/a/re/</uri><forceType>text/x-re</forceType></context>
			</contextList>`,
		files: map[string]string{"p.png": "p", "s.css": "s", "a/x.odd": "x", "a/n.css2": "n", "a/none/x.txt": "x", "a/kept/x.txt": "x",
			"a/force/x.html": "x", "a/force/x.php": "SOURCE", "a/force/off/x.html": "x", "a/force/off/y": "y", "a/re/x.txt": "x"},
	}.site(t)
	if len(fs.All()) > 0 {
		t.Error(fmtAll(fs))
	}
	f := func(path string, want ...string) {
		t.Helper()
		x, _ := ask("GET", path)
		for _, w := range want {
			name, value, _ := strings.Cut(w, ": ")
			if got := x.Resp.Fields.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", path, name, got, value)
			}
		}
	}
	f("/p.png", "X-Root: 1", "X-Who: root", "Content-Type: image/png", "Cache-Control: public, max-age=100")
	f("/s.css", "Cache-Control: public, max-age=200")
	f("/a/x.txt", "X-Root: 1", "X-Who: a b", "Content-Type: text/plain; charset=UTF-8", "Cache-Control: public, max-age=50", "X-Not-Seen: ")
	f("/a/x.odd", "Content-Type: text/x-odd; charset=UTF-8")
	f("/a/n.css2", "Content-Type: image/x-new", "Cache-Control: public, max-age=100")
	f("/a/none/x.txt", "X-Root: ", "X-Who: ", "Content-Type: text/plain", "Cache-Control: ", "Expires: ")
	f("/a/kept/x.txt", "Cache-Control: no-store", "Expires: ", "X-Who: a b")
	f("/a/force/x.html", "Content-Type: text/plain; charset=koi8-r", "Cache-Control: public, max-age=0")
	f("/a/force/off/x.html", "Content-Type: text/html; charset=koi8-r")
	f("/a/force/off/y", "Content-Type: text/x-other; charset=koi8-r")
	f("/a/re/x.txt", "Content-Type: text/x-re", "X-Who: root") // contexts of expressions lie in "/"
	f("/a/missing", "X-Who: a b")                              // errors have the fields too
	if x, body := ask("GET", "/a/force/x.php"); x.Resp.Status != 503 || strings.Contains(body, "SOURCE") {
		t.Errorf("a forced type uncovers a script: %d %q", x.Resp.Status, body)
	}
}

// What cannot be used is told where it stands, and a type that would run files
// closes its context (R-SAFE-1).
func TestAnswersThatCannotBeUsed(t *testing.T) {
	ask, fs := safetyParts{
		vhost: `<contextList>
			<context><uri>/a/</uri><extraHeaders>X-Good: 1
set Content-Length 5
X-Also: 2
RequestHeader set X-Forwarded-proto https
RequestHeader set X-Mine 1</extraHeaders><expiresByType>text/css=soon</expiresByType><addMIMEType>text/x-lonely</addMIMEType>
			<errorPage><errCode>200, 404</errCode><url>/e.html</url></errorPage><errorPage><errCode>403</errCode><url>e.html</url></errorPage><errorPage></errorPage></context>
			<context><uri>/run/</uri><addMIMEType>application/x-httpd-php html</addMIMEType></context>
			</contextList>`,
		files: map[string]string{"run/x.html": "SOURCE"},
	}.site(t)
	all := fmtAll(fs)
	for _, want := range []string{"v.xml:3:1: warn W-SKIPPED: extraHeaders: Content-Length frames",
		"v.xml:5:1: warn W-SKIPPED: extraHeaders: RequestHeader X-Forwarded-proto: only scripts see it", `"text/css=soon" is no type`, `"text/x-lonely" is left out`,
		`"200" is no status`, `"e.html" for "403" is left out`, `E-CLOSED`} {
		if !strings.Contains(all, want) {
			t.Errorf("not told: %s\n%s", want, all)
		}
	}
	if n := strings.Count(all, "\n"); n != 7 {
		t.Errorf("%d findings:\n%s", n, all)
	}
	if x, _ := ask("GET", "/a/x.txt"); x.Resp.Fields.Get("X-Good")+x.Resp.Fields.Get("X-Also") != "12" {
		t.Error("the good lines are lost")
	}
	if x, body := ask("GET", "/run/x.html"); x.Resp.Status != 503 || strings.Contains(body, "SOURCE") {
		t.Errorf("%d %q", x.Resp.Status, body)
	}
}

// G66, R-COMP-1: a file that lies beside itself compressed says so in every answer,
// and each coding is a representation with a tag and ranges of its own.
func TestG66SiblingsVary(t *testing.T) {
	p := safetyParts{files: map[string]string{"app.js": "plain text", "app.js.gz": "GZ-BYTES", "app.js.br": "BR", "old.js": "new text", "old.js.gz": "STALE",
		"alone.js": "alone", "dir/index.html": "index", "dir/index.html.zst": "ZST", "x.php.gz": "ARCHIVE", "guard/x.js": "x", "guard/x.js.gz": "GUARDED"},
		vhost:  `<context><uri>/guard/x.js.gz</uri><allowBrowse>0</allowBrowse></context>`,
		server: `<tuning><enableZstdCompress>1</enableZstdCompress></tuning>`}
	ask, _ := p.site(t)
	x, _ := ask("GET", "/old.js.gz")
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(x.Resource.Filename, past, past); err != nil {
		t.Fatal(err)
	}
	tags := map[string]string{}
	for range 3 { // from the disk, then as it is remembered
		f := func(path, accept string, status int, body, encoding, vary string, fields ...string) {
			t.Helper()
			if accept != "" {
				fields = append(fields, "Accept-Encoding: "+accept)
			}
			x, got := ask("GET", path, fields...)
			r := &x.Resp.Fields
			if x.Resp.Status != status || got != body || r.Get("Content-Encoding") != encoding || r.Get("Vary") != vary {
				t.Errorf("%s %q %q: %d %q, coding %q, vary %q; want %d %q %q %q", path, accept, fields, x.Resp.Status, got, r.Get("Content-Encoding"), r.Get("Vary"), status, body, encoding, vary)
			}
			tags[encoding] = r.Get("ETag")
		}
		const ae = "Accept-Encoding"
		f("/app.js", "", 200, "plain text", "", ae)
		plain := tags[""]
		f("/app.js", "gzip, br", 200, "BR", "br", ae)
		f("/app.js", "gzip", 200, "GZ-BYTES", "gzip", ae)
		gz := tags["gzip"]
		if plain == gz || plain == tags["br"] || gz == tags["br"] || !strings.HasSuffix(gz, `;gz"`) {
			t.Fatalf("tags %v", tags)
		}
		f("/app.js", "gzip;q=0, br;q=0", 200, "plain text", "", ae)
		f("/app.js", "gzip", 304, "", "", ae, "If-None-Match: "+gz)
		f("/app.js", "", 304, "", "", ae, "If-None-Match: "+plain)
		f("/app.js", "gzip", 206, "BYTES", "gzip", ae, "Range: bytes=3-")
		f("/app.js", "", 206, "in", "", ae, "Range: bytes=3-4")
		f("/app.js", "gzip", 200, "GZ-BYTES", "gzip", ae, "Range: bytes=3-", "If-Range: "+plain)
		f("/app.js", "gzip", 206, "BYTES", "gzip", ae, "Range: bytes=3-", "If-Range: "+gz)
		f("/old.js", "gzip", 200, "new text", "", "")
		f("/alone.js", "gzip", 200, "alone", "", "")
		f("/dir/", "zstd, gzip", 200, "ZST", "zstd", ae)
		f("/guard/x.js", "gzip", 200, "x", "", ae)
		x, _ := ask("GET", "/app.js", "Accept-Encoding: br")
		if ct := x.Resp.Fields.Get("Content-Type"); ct != "text/javascript" {
			t.Errorf("type of a coded file: %q", ct)
		}
		x, body := ask("GET", "/app.js.gz", "Accept-Encoding: gzip")
		if x.Resp.Fields.Get("Content-Type") != "application/gzip" || x.Resp.Fields.Has("Content-Encoding") || body != "GZ-BYTES" {
			t.Errorf("the archive itself: %v %q", x.Resp.Fields, body)
		}
	}
	p.vhost += `<enableGzip>0</enableGzip>`
	ask, _ = p.site(t)
	if x, body := ask("GET", "/app.js", "Accept-Encoding: gzip"); body != "plain text" {
		t.Errorf("with enableGzip 0: %v %q", x.Resp.Fields, body)
	}
}

// R-PIPE-10: errors of our own have the operator's page under their status; it is
// asked for like any other path, and one that fails is not used.
func TestErrorPages(t *testing.T) {
	page := func(code, url string) string {
		return "<errorPage><errCode>" + code + "</errCode><url>" + url + "</url></errorPage>"
	}
	ask, fs := safetyParts{
		vhost: `<expires><enableExpires>1</enableExpires><expiresDefault>A1000</expiresDefault></expires><customErrorPages>` + page("404, 403", "/e/missing.html") + page("405", "/e/none.html") + page("416", "http://other.test/416") + `</customErrorPages><contextList>
			<context><uri>/shut/</uri><allowBrowse>0</allowBrowse></context>
			<context><uri>/in/</uri><customErrorPages>` + page("404", "/e/in.html?x=1") + `</customErrorPages></context>
			<context><uri>/in/own/</uri><customErrorPages>` + page("404", "/shut/x.html") + `</customErrorPages></context>
			<context><uri>/in/app/</uri><customErrorPages>` + page("404", "/e/app.php") + `</customErrorPages></context>
			<context><uri>/in/dir/</uri><customErrorPages>` + page("404", "/e") + `</customErrorPages></context>
			</contextList>`,
		files: map[string]string{"e/missing.html": "own page", "e/in.html": "inner page", "shut/x.html": "SHUT", "e/app.php": "SOURCE"},
	}.site(t)
	if len(fs.All()) > 0 {
		t.Error(fmtAll(fs))
	}
	f := func(method, path string, status int, text string, fields ...string) {
		t.Helper()
		x, body := ask(method, path, fields...)
		if x.Resp.Status != status || !strings.Contains(body, text) || strings.Contains(body, "SHUT") || strings.Contains(body, "SOURCE") {
			t.Errorf("%s %s: %d %q, want %d %q", method, path, x.Resp.Status, body, status, text)
		}
		if x.Req.Method != method {
			t.Errorf("the log sees method %s", x.Req.Method)
		}
		if x.Resp.Fields.Has("Expires") != (status == 200) {
			t.Errorf("%s %s: %v", method, path, x.Resp.Fields)
		}
	}
	f("GET", "/nothing", 404, "own page")
	f("GET", "/nothing", 404, "own page", "Range: bytes=0-2", "If-None-Match: *", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT")
	f("HEAD", "/nothing", 404, "")
	f("GET", "/shut/x.html", 403, "own page")
	f("POST", "/nothing", 404, "own page")
	f("GET", "/in/nothing", 404, "inner page")
	f("GET", "/in/.git/x", 403, "own page")
	f("GET", "/in/own/x", 404, "Not Found") // its page is closed
	f("GET", "/in/app/x", 404, "Not Found") // its page needs an application
	f("GET", "/in/dir/x", 404, "Not Found") // its page is a directory
	f("POST", "/a/x.txt", 405, "Method Not Allowed")
	f("GET", "/a/x.txt", 200, "text")
	f("GET", "/%00", 400, "Bad Request")
	if x, _ := ask("GET", "/a/x.txt", "Range: bytes=99-"); x.Resp.Status != 302 || x.Resp.Fields.Get("Location") != "http://other.test/416" {
		t.Errorf("%d %v", x.Resp.Status, x.Resp.Fields)
	}
	if x, _ := ask("POST", "/a/x.txt"); x.Resp.Fields.Get("Allow") == "" {
		t.Error("fields of the error are lost with its page")
	}
}

// LSX 7.2: redirects by prefix and by expression, and those that no client sees.
func TestRedirectContexts(t *testing.T) {
	context := func(uri, location, more string) string {
		return "<context><type>redirect</type><uri>" + uri + "</uri><location>" + location + "</location>" + more + "</context>"
	}
	const inside = "<externalRedirect>0</externalRedirect>"
	ask, fs := safetyParts{
		vhost: `<contextList>` +
			context("/old/", "/a/", "<statusCode>301</statusCode>") + context("/any/", "/", "") + context("/bare", "https://new.test", "") +
			context(`exp:^/re/(.*)$`, "https://new.test/$1", "<statusCode>307</statusCode>") + context(`exp:^/sub/(.*)$`, "https://$1.new.test/&amp;", "") +
			context(`exp:^/esc/(.*)$`, `/q?a=\&amp;b=$1`, "") + context(`exp:^/all(.*)$`, "$1", "") + context(`exp:^/bs(.*)$`, "/$1", "") +
			context("/in/", "/a/", inside) + context("/in2/", "/in/", inside) + context("/loop/", "/loop/x/", inside) +
			context("/to-shut/", "/shut/", inside) + context("/ht/", "/a/.htaccess", inside) +
			`<context><type>redirect</type><uri>/gone/</uri><statusCode>410</statusCode></context>` +
			`<context><type>redirect</type><uri>/odd/</uri><statusCode>399</statusCode><location>/a/</location></context>` +
			`<context><uri>/shut/</uri><allowBrowse>0</allowBrowse></context></contextList>`,
		files: map[string]string{"shut/x.txt": "SHUT"},
	}.site(t)
	if n := len(fs.All()); n != 1 { // 399
		t.Error(fmtAll(fs))
	}
	f := func(target string, status int, want string) {
		t.Helper()
		x, body := ask("GET", target)
		got := x.Resp.Fields.Get("Location")
		if got == "" {
			got = body
		}
		if x.Resp.Status != status || !strings.HasPrefix(got, want) || strings.Contains(body, "SHUT") {
			t.Errorf("%s: %d %q, want %d %q", target, x.Resp.Status, got, status, want)
		}
	}
	f("/old/x?q=1", 301, "/a/x?q=1")
	f("/gone/x", 410, "")
	f("/odd/x", 302, "/a/x")
	f("/re/x/y?q=1", 307, "https://new.test/x/y?q=1")
	f("/re/a%20b%0dX:1", 307, "https://new.test/a%20b%0DX:1")
	f("/sub/www", 302, "https://www.new.test//sub/www")
	f("/sub/evil.test%2f", 404, "")
	f("/sub/evil.test%5c", 404, "")
	f("/sub/a@b", 404, "")
	f("/esc/x", 302, "/q?a=&b=x")
	f("/all//evil.test", 302, "/evil.test")
	f("/all%2f%2fevil.test", 302, "/evil.test")
	f("/allx", 302, "/x")
	f("/bs/x", 302, "/x")
	f("/bs%5cevil.test", 302, "/%5Cevil.test")
	f("/any//evil.test/", 302, "/evil.test/")
	f("/any/%5cevil.test/", 302, "/%5cevil.test/")
	f("/bare/x", 302, "https://new.test/x")
	f("/in/x.txt?q", 200, "text")
	f("/in2/x.txt", 200, "text")
	f("/loop/x", 500, "")
	f("/to-shut/x.txt", 403, "")
	f("/in/../shut/x.txt", 403, "")
	f("/ht/", 403, "")
}

// LSX 7.1: a location under an expression takes what was captured, and no capture
// leads out of the directory that it begins with.
func TestLocationOfExpressions(t *testing.T) {
	ask, fs := safetyParts{
		vhost: `<contextList>
			<context><uri>exp:^/u/([^/]+)/(.*)$</uri><location>$VH_ROOT/homes/$1/public/$2</location></context>
			<context><uri>exp:^/w/(.*)$</uri><location>$VH_ROOT/homes/$1</location><indexFiles>x.txt</indexFiles></context>
			<context><uri>exp:^/all(.*)$</uri><location>$1</location></context>
			</contextList>`,
		files: map[string]string{"../homes/ann/public/x.txt": "ann's", "../homes/ann/public/d/y.txt": "deep", "../homes/ann/secret.txt": "SECRET",
			"../homes/ann/public/x.php": "SOURCE", "../homes/x.txt": "homes"},
	}.site(t)
	if all := fmtAll(fs); strings.Count(all, "\n") > 1 {
		t.Error(all)
	}
	f := func(target string, status int, want string) {
		t.Helper()
		x, body := ask("GET", target)
		got := body
		if l := x.Resp.Fields.Get("Location"); l != "" {
			got = l
		}
		if x.Resp.Status != status || !strings.Contains(got, want) || strings.Contains(body, "SECRET") || strings.Contains(body, "SOURCE") {
			t.Errorf("%s: %d %q, want %d %q", target, x.Resp.Status, got, status, want)
		}
	}
	f("/u/ann/x.txt", 200, "ann's")
	f("/u/ann/d", 301, "/u/ann/d/")
	f("/u/ann/d/y.txt", 200, "deep")
	f("/u/ann/../ann/x.txt", 200, "ann's")
	f("/u/ann/..%2fsecret.txt", 404, "")
	f("/u/..%2f/x.txt", 404, "")
	f("/u/ann/%2e%2e/secret.txt", 404, "")
	f("/u/ann/x.php", 503, "")
	f("/u/bob/x.txt", 404, "")
	f("/w/", 200, "homes")
	f("/w/x.txt", 200, "homes")
	f("/all/etc/passwd", 404, "")
}

// R-SAFE-1: who may have the files under an expression is said by the .htaccess files
// from the directory down that its location begins with.
func TestHtaccessUnderExpressions(t *testing.T) {
	ask, fs := safetyParts{
		vhost: `<htAccess><allowOverride>31</allowOverride></htAccess><context><uri>exp:^/u/([^/]+)/(.*)$</uri><location>$VH_ROOT/homes/$1/public/$2</location></context>`,
		files: map[string]string{"../homes/ann/public/x.txt": "ann's", "../homes/bob/.htaccess": "Require all denied", "../homes/bob/public/x.txt": "bob's"},
	}.build(t)
	for path, want := range map[string]int{"/u/ann/x.txt": 200, "/u/bob/x.txt": 403, "/u/ann/none": 404} {
		if got, _ := ask(path); got != want {
			t.Errorf("%s: %d, want %d: %v", path, got, want, fs.All())
		}
	}
}

// R-STATIC-3: listings are made where autoIndex says so, of what a client could ask
// for, escaped, in the order that is asked for.
func TestListing(t *testing.T) {
	p := safetyParts{
		server: `<autoIndex>1</autoIndex><htAccess><allowOverride>31</allowOverride></htAccess><security><accessDenyDir><dir>html/d/denied/*</dir></accessDenyDir></security>`,
		vhost: `<contextList>
			<context><uri>/d/shut/</uri><allowBrowse>0</allowBrowse></context><context><uri>/d/shut.txt</uri><allowBrowse>0</allowBrowse></context>
			<context><uri>/off/</uri><autoIndex>0</autoIndex></context><context><uri>/off/on/</uri><autoIndex>1</autoIndex></context>
			</contextList>`,
		decl: `<allowSymbolLink>0</allowSymbolLink>`,
		files: map[string]string{"d/b.txt": "1234567890", "d/a.txt": "1", "d/sub/x": "x", "d/shut/x": "x", "d/shut.txt": "x", "d/.hidden": "x", "d/.ht-x": "x",
			"d/.git/config": "x", "d/link": "-> /etc/passwd", "d/denied/x": "x", "d/<b>&\"'.txt": "x", "d/javascript:alert(1)": "x", "d/ä\\?#%.txt": "x",
			"d/.htaccess": "<Files ht.txt>\nRequire all denied\n</Files>", "d/ht.txt": "x", "off/x": "x", "off/on/y": "y", "ix/index.html": "index", "d/zz.php": "x"},
	}
	ask, _ := p.site(t)
	x, body := ask("GET", "/d/")
	if x.Resp.Status != 200 || x.Resp.Fields.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %v", x.Resp.Status, x.Resp.Fields)
	}
	for _, want := range []string{`href="./a.txt"`, `href="./sub/"`, `href="../"`, `href="./javascript:alert(1)"`, `href="./%C3%A4%5C%3F%23%25.txt"`,
		`&lt;b&gt;&amp;&#34;&#39;.txt`, `href="./zz.php"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	for _, not := range []string{"shut", "hidden", ".ht", ".git", "link", "denied", "<b>", "ht.txt"} {
		if strings.Contains(body, not) {
			t.Errorf("%s is told", not)
		}
	}
	before := func(query, a, b string) {
		t.Helper()
		_, body := ask("GET", "/d/?"+query)
		if i, j := strings.Index(body, "./"+a), strings.Index(body, "./"+b); i < 0 || j < 0 || i > j {
			t.Errorf("%q: %s at %d, %s at %d", query, a, i, b, j)
		}
	}
	before("", "a.txt", "b.txt")
	before("", "sub/", "a.txt")
	before("C=N;O=D", "b.txt", "a.txt")
	before("C=S&O=D", "b.txt", "a.txt")
	before("C=S", "a.txt", "b.txt")
	before("<script>", "a.txt", "b.txt")
	f := func(method, path string, status int, want string) {
		t.Helper()
		if x, body := ask(method, path); x.Resp.Status != status || !strings.Contains(body, want) {
			t.Errorf("%s %s: %d %q", method, path, x.Resp.Status, body)
		}
	}
	f("GET", "/ix/", 200, "index")
	f("GET", "/off/", 404, "")
	f("GET", "/off/on/", 200, "./y")
	f("POST", "/d/", 405, "")
	f("GET", "/d", 301, "")
	f("GET", "/d/shut/", 403, "")
	f("GET", "/d/denied/", 403, "")
	f("GET", "/d/.git/", 403, "")
	f("HEAD", "/d/", 200, "")
	f("GET", "/d/nothing/", 404, "")
	p.vhost = `<index><autoIndex>0</autoIndex></index>`
	ask, _ = p.site(t)
	f("GET", "/d/", 404, "")
}

// A large directory is listed in part, and says so.
func TestListingIsBounded(t *testing.T) {
	p := safetyParts{vhost: `<index><autoIndex>1</autoIndex></index>`, files: map[string]string{}}
	ask, _ := p.site(t)
	x, _ := ask("GET", "/a/x.txt")
	dir := filepath.Dir(x.Resource.Filename)
	for i := range 5200 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%05d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, body := ask("GET", "/a/")
	if n := strings.Count(body, "<tr>"); n != 5002 || !strings.Contains(body, "more names") {
		t.Errorf("%d rows", n)
	}
}

// No target of a client leads a redirect of a directory to another origin, and none
// of these bytes reaches a file.
func TestHostileTargets(t *testing.T) {
	ask, _ := safetyParts{vhost: `<index><autoIndex>1</autoIndex></index>`,
		files: map[string]string{"evil.test/x": "x", "a/d/x": "x", `b\evil.test/x`: "x", "../secret.txt": "SECRET"}}.site(t)
	f := func(target string, status int, location string) {
		t.Helper()
		x, body := ask("GET", target)
		if got := x.Resp.Fields.Get("Location"); x.Resp.Status != status || got != location || strings.Contains(body, "SECRET") {
			t.Errorf("%s: %d %q, want %d %q", target, x.Resp.Status, got, status, location)
		}
	}
	f("//evil.test", 301, "/evil.test/")
	f("/%2fevil.test", 301, "/evil.test/")
	f("///evil.test?q=//x", 301, "/evil.test/?q=//x")
	f("/%2f%2fevil.test", 301, "/evil.test/")
	f(`/b%5cevil.test`, 301, "/b%5Cevil.test/")
	f(`/b\evil.test`, 301, "/b%5Cevil.test/")
	f(`/\evil.test`, 404, "")
	f("/%5c%5cevil.test", 404, "")
	f("/./evil.test", 301, "/evil.test/")
	f("/a/..//evil.test", 301, "/evil.test/")
	f("/evil.test%00", 400, "")
	f("/a%00/x", 400, "")
	f("/..%2fsecret.txt", 400, "")
	f("/a/..%2f..%2fsecret.txt", 400, "")
	f("/%2e%2e/secret.txt", 400, "")
	f(`/..\secret.txt`, 404, "")
	f("/..%5csecret.txt", 404, "")
	f("/%c0%ae%c0%ae/secret.txt", 400, "")
	f("/a/%c0%afd", 400, "")
	f("/%e0%80%af", 400, "")
	f("/a/%ff", 400, "")
	f("/a/d%0d%0aX:1", 404, "")
	f("/%", 400, "")
	f("/%zz", 400, "")
	f("evil.test", 400, "")
}
