package generation

import (
	"os"
	"strings"
	"testing"
)

// linkTree is a host that follows links; below "no/" its .htaccess files say the given
// words of Options. Every name that begins with "l" is a link, or lies behind one, and
// what it leads to says "leak".
func linkTree(options string) safetyParts {
	return safetyParts{
		server: `<htAccess><allowOverride>31</allowOverride></htAccess>`,
		decl:   `<allowSymbolLink>1</allowSymbolLink>`,
		vhost: `<index><useServer>0</useServer><indexFiles>lindex.html</indexFiles></index>
			<extProcessor><type>fcgi</type><name>php</name><address>uds://none.sock</address></extProcessor>
			<scriptHandler><suffix>php</suffix><type>fcgi</type><handler>php</handler></scriptHandler>
			<errorPage><errCode>404</errCode><url>/no/lpage.html</url></errorPage>
			<context><uri>/loc/</uri><location>$DOC_ROOT/no/</location></context>
			<context><uri>/far/</uri><location>$VH_ROOT/far/</location></context>
			<context><uri>exp:^/re/(.*)$</uri><location>$DOC_ROOT/no/$1</location></context>
			<context><uri>/list/</uri><location>$DOC_ROOT/no/list/</location><autoIndex>1</autoIndex></context>
			<context><uri>/cgi/</uri><type>cgi</type><location>$DOC_ROOT/no/</location><handler>php</handler></context>`,
		files: map[string]string{
			"../out/file.txt": "leak", "../out/s.php": "leak", "../out/index.html": "leak", "../out/a.css.gz": "leak", "../out/in/file.txt": "leak",
			"../far/.htaccess": "Options " + options, "../far/l.txt": "-> ../out/file.txt", "../far/own.txt": "own",
			"no/.htaccess": "Options " + options + "\nErrorDocument 410 /no/lpage.html\nRewriteEngine on\nRewriteRule ^gone$ - [G]\nRewriteCond %{DOCUMENT_ROOT}/no/l.txt -f\nRewriteRule ^tested$ l.txt",
			"no/own.txt":   "own", "no/l.txt": "-> ../../out/file.txt", "no/ldir": "-> ../../out", "no/s.php": "-> ../../out/s.php",
			"no/lpage.html": "-> ../../out/index.html", "no/ix/lindex.html": "-> ../../../out/index.html",
			"no/a.css": "own", "no/a.css.gz": "-> ../../out/a.css.gz",
			"no/list/lname.txt": "-> ../../../out/file.txt", "no/list/own.txt": "own",
			"yes/.htaccess": "Options +FollowSymLinks -Indexes", "yes/l.txt": "-> ../../out/file.txt",
			"lno": "-> no", "half/.htaccess": "Options +FollowSymLinks", "half/ldir/.htaccess": "Options " + options, "half/ldir/own.txt": "own", "half/ldir/l.txt": "-> ../../../out/file.txt",
		},
	}
}

// linkPaths are paths that lead through a link of linkTree, one for each way in which
// files are read.
var linkPaths = []string{"/no/l.txt", "/no/ldir/file.txt", "/no/ldir/in/file.txt", "/no/s.php", "/no/s.php/info", "/no/ix/", "/no/ldir/",
	"/no/tested", "/no/gone", "/no/none", "/loc/l.txt", "/loc/ldir/in/file.txt", "/loc/none", "/re/l.txt", "/re/ldir/in/file.txt", "/far/l.txt",
	"/list/", "/list/lname.txt", "/cgi/l.txt", "/half/ldir/l.txt"}

// R-SAFE-1, R-STATIC-8: what Options of a .htaccess file say of symbolic links holds
// for every route that reads files; what is no link is served.
func TestHtaccessLinks(t *testing.T) {
	for _, options := range []string{"-FollowSymLinks", "-followsymlinks +Indexes", "None", "Indexes", "+FollowSymLinks -FollowSymLinks", "All -FollowSymLinks", "-All"} {
		ask, _ := linkTree(options).site(t)
		for _, path := range linkPaths {
			for range 3 { // what is remembered of files is no way in
				x, body := ask("GET", path, "Accept-Encoding: gzip")
				if s := x.Resp.Status; strings.Contains(body, "leak") || strings.Contains(body, "lname") || s != 404 && s != 410 && s != 403 && path != "/list/" && path != "/no/ix/" { // these two are listed
					t.Errorf("Options %s: %s: %d %q", options, path, s, body)
				}
			}
		}
		if x, body := ask("GET", "/no/a.css", "Accept-Encoding: gzip"); body != "own" || x.Resp.Status != 200 {
			t.Errorf("Options %s: a sibling behind a link: %d %q", options, x.Resp.Status, body)
		}
		for _, path := range []string{"/no/own.txt", "/loc/own.txt", "/re/own.txt", "/far/own.txt", "/list/own.txt", "/half/ldir/own.txt", "/lno/own.txt"} {
			if x, body := ask("GET", path); body != "own" {
				t.Errorf("Options %s: %s: %d %q", options, path, x.Resp.Status, body)
			}
		}
		if x, body := ask("GET", "/yes/l.txt"); body != "leak" {
			t.Errorf("another directory: %d %q", x.Resp.Status, body)
		}
	}
	for _, options := range []string{"+FollowSymLinks", "FollowSymLinks", "All", "-Indexes", "+SymLinksIfOwnerMatch", "-SymLinksIfOwnerMatch", "SymLinksIfOwnerMatch -FollowSymLinks"} {
		ask, _ := linkTree(options).site(t) // owner and target are one user's
		for _, path := range []string{"/no/l.txt", "/no/ldir/in/file.txt", "/loc/l.txt", "/re/l.txt", "/far/l.txt", "/no/ix/", "/list/lname.txt"} {
			if x, body := ask("GET", path); body != "leak" {
				t.Errorf("Options %s: %s: %d %q", options, path, x.Resp.Status, body)
			}
		}
	}
}

// An .htaccess file loosens nothing that the virtual host says of links.
func TestHtaccessLinksAreBounded(t *testing.T) {
	for _, decl := range []string{`<allowSymbolLink>0</allowSymbolLink>`, `<allowSymbolLink>1</allowSymbolLink><restrained>1</restrained>`} {
		for _, options := range []string{"+FollowSymLinks", "All", "+SymLinksIfOwnerMatch"} {
			p := linkTree(options)
			p.decl = decl
			p.root = "host"
			p.docRoot = "../html"
			ask, _ := p.site(t)
			for _, path := range []string{"/no/l.txt", "/no/ldir/in/file.txt", "/no/ix/"} {
				if x, body := ask("GET", path); strings.Contains(body, "leak") {
					t.Errorf("%s, Options %s: %s: %d %q", decl, options, path, x.Resp.Status, body)
				}
			}
		}
	}
}

// An outer file rules over the link to a directory whose own file would let links be
// followed; it has its say only about names in it.
func TestHtaccessLinksOfEachDirectory(t *testing.T) {
	p := linkTree("-FollowSymLinks")
	p.files["../out/.htaccess"] = "Options +FollowSymLinks"
	p.files["half/no/.htaccess"] = "Options -FollowSymLinks"
	p.files["half/no/in/.htaccess"] = "<If \"%{REQUEST_METHOD} == 'POST'\">\nOptions -FollowSymLinks\n</If>\n<Files x>\nOptions +FollowSymLinks\n</Files>\n<Nobody knows>\nOptions +FollowSymLinks\n</Nobody>"
	p.files["half/no/in/l.txt"] = "-> ../../../../out/file.txt"
	p.files["half/odd/.htaccess"] = "<Nobody knows>\nOptions -FollowSymLinks\n</Nobody>"
	p.files["half/odd/l.txt"] = "-> ../../../out/file.txt"
	p.files["half/if/.htaccess"] = "<If \"%{REQUEST_METHOD} == 'HEAD'\">\nOptions -FollowSymLinks\n</If>"
	p.files["half/if/l.txt"] = "-> ../../../out/file.txt"
	p.files["half/no/lift/.htaccess"] = "Options +FollowSymLinks"
	p.files["half/no/lift/l.txt"] = "-> ../../../../out/file.txt"
	ask, _ := p.site(t)
	for path, want := range map[string]string{"/no/ldir/file.txt": "", "/half/no/in/l.txt": "", "/half/odd/l.txt": "", "/half/if/l.txt": "leak", "/half/no/lift/l.txt": "leak"} {
		if x, body := ask("GET", path); want == "" && strings.Contains(body, "leak") || want != "" && body != want {
			t.Errorf("%s: %d %q", path, x.Resp.Status, body)
		}
	}
	if x, body := ask("HEAD", "/half/if/l.txt"); x.Resp.Status != 404 {
		t.Errorf("HEAD: %d %q", x.Resp.Status, body)
	}
}

// Restrictions count where allowOverride has no Options; grants do not.
func TestHtaccessOptionsNotAllowed(t *testing.T) {
	p := linkTree("-FollowSymLinks")
	p.server = `<htAccess><allowOverride>12</allowOverride></htAccess>`
	p.files["yes/.htaccess"] = "Options -FollowSymLinks"
	p.files["yes/in/.htaccess"] = "Options +FollowSymLinks +Indexes"
	p.files["yes/in/l.txt"] = "-> ../../../out/file.txt"
	ask, _ := p.site(t)
	for _, path := range []string{"/no/l.txt", "/yes/l.txt", "/yes/in/l.txt", "/yes/in/"} {
		if x, body := ask("GET", path); x.Resp.Status != 404 || strings.Contains(body, "leak") {
			t.Errorf("%s: %d %q", path, x.Resp.Status, body)
		}
	}
}

// Options Indexes switches listings both ways, within what the host would list.
func TestHtaccessIndexes(t *testing.T) {
	files := map[string]string{"on/.htaccess": "Options +Indexes", "on/a.txt": "a", "on/.hid": "", "on/off/.htaccess": "Options -Indexes", "on/off/a.txt": "a",
		"on/none/.htaccess": "Options FollowSymLinks", "on/none/a.txt": "a", "plain/a.txt": "a"}
	for auto, want := range map[string]int{"0": 404, "1": 200} {
		p := safetyParts{server: `<htAccess><allowOverride>31</allowOverride></htAccess><autoIndex>` + auto + `</autoIndex>`, files: files}
		ask, _ := p.site(t)
		for path, want := range map[string]int{"/on/": 200, "/on/off/": 404, "/on/none/": 404, "/plain/": want} {
			x, body := ask("GET", path)
			if x.Resp.Status != want || want == 200 && !strings.Contains(body, "a.txt") || strings.Contains(body, ".h") {
				t.Errorf("autoIndex %s: %s: %d %q", auto, path, x.Resp.Status, body)
			}
		}
	}
}

// R-STATIC-8, of .htaccess files: SymLinksIfOwnerMatch. Only root can give links away.
func TestHtaccessLinksOfOwners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to change owners")
	}
	for _, options := range []string{"+SymLinksIfOwnerMatch", "SymLinksIfOwnerMatch", "FollowSymLinks SymLinksIfOwnerMatch", "-FollowSymLinks +SymLinksIfOwnerMatch"} {
		ask, _ := linkTree(options).site(t)
		x, _ := ask("GET", "/no/own.txt")
		root := strings.TrimSuffix(x.Resource.Filename, "/no/own.txt")
		for _, name := range []string{"/no/l.txt", "/no/ldir", "/no/ix/lindex.html", "/no/list/lname.txt", "/../far/l.txt", "/no/s.php", "/no/lpage.html"} {
			if err := os.Lchown(root+name, 4001, 4001); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range linkPaths {
			if x, body := ask("GET", path); strings.Contains(body, "leak") && path != "/half/ldir/l.txt" || strings.Contains(body, "lname") {
				t.Errorf("Options %s: %s: %d %q", options, path, x.Resp.Status, body)
			}
		}
	}
}

// forceStrictOwnership: only files of the document root's owner are served, by whatever
// route. Only root can give files away.
func TestStrictOwnership(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to change owners")
	}
	p := linkTree("+Indexes")
	p.server += `<security><fileAccessControl><forceStrictOwnership>1</forceStrictOwnership></fileAccessControl></security>`
	ask, fs := p.site(t)
	for _, f := range fs.All() {
		if f.Code == "E-CLOSED" {
			t.Error(f)
		}
	}
	x, body := ask("GET", "/no/own.txt")
	if body != "own" {
		t.Fatalf("%d %q", x.Resp.Status, body)
	}
	root := strings.TrimSuffix(x.Resource.Filename, "/no/own.txt")
	for _, name := range []string{"/no/own.txt", "/../out/file.txt", "/../out/s.php", "/../out/a.css.gz", "/no/list/own.txt", "/../out/index.html"} {
		if err := os.Chown(root+name, 4001, 4001); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/no/own.txt", "/no/l.txt", "/no/s.php", "/no/ix/", "/loc/own.txt", "/re/l.txt", "/far/l.txt", "/list/own.txt", "/cgi/l.txt"} {
		if x, body := ask("GET", path); x.Resp.Status != 403 || strings.Contains(body, "leak") {
			t.Errorf("%s: %d %q", path, x.Resp.Status, body)
		}
	}
	if x, body := ask("GET", "/list/"); x.Resp.Status != 200 || strings.Contains(body, "own.txt") || strings.Contains(body, "lname") {
		t.Errorf("listing: %d %q", x.Resp.Status, body)
	}
	if x, body := ask("GET", "/no/a.css", "Accept-Encoding: gzip"); body != "own" {
		t.Errorf("sibling: %d %q", x.Resp.Status, body)
	}
	if x, body := ask("GET", "/far/own.txt"); body != "own" {
		t.Errorf("%d %q", x.Resp.Status, body)
	}
}
