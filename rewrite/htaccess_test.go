package rewrite

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parse reads text as a .htaccess file whose directives are all allowed.
func parse(file, text string) (*section, []Notice) {
	f, notices := NewDirs(Options{Root: "/", Override: OverrideAll}).parse(file, "/", text)
	if f == nil {
		return nil, notices
	}
	return f.access, notices
}

// ask parses text as the only .htaccess file and asks it.
func ask(text string, r Request) int {
	rules, _ := parse(".htaccess", text)
	if rules == nil {
		return 0
	}
	return rules.ask(&r).Status
}

func request(name string) Request {
	return Request{Name: name, Method: "GET", Client: netip.MustParseAddr("192.0.2.1")}
}

// R-RW-4, R-SAFE-1
func TestAccessDirectives(t *testing.T) {
	f := func(want int, text string) {
		t.Helper()
		text = strings.ReplaceAll(text, " / ", "\n")
		for _, text := range []string{text, strings.ReplaceAll(text, "\n", "\r\n"), strings.ToUpper(text), "\ufeff" + text} {
			if got := ask(text, request("a.php")); got != want {
				t.Errorf("status %d, want %d:\n%s", got, want, text)
			}
		}
	}
	f(0, "")
	f(0, "# Deny from all")
	f(403, "Require all denied")
	f(0, "Require all granted")
	f(403, "  Require\tall  denied  ")
	f(403, `Require all "denied"`)
	f(0, "Require ip 192.0.2.0/24")
	f(0, "Require ip 203.0.113.1 192.0.2")
	f(0, "Require ip 192.0.2.0/255.255.255.0")
	f(403, "Require ip 203.0.113.0/24")
	f(403, "Require ip 2001:db8::/32")
	f(0, "Require all denied / Require ip 192.0.2.1") // lines join with "any"
	f(503, "Require ip 192.0.2.x")
	f(503, "Require not ip 192.0.2.1")
	f(403, "Require local")
	f(0, "Require method GET POST")
	f(403, "Require method POST")
	f(0, "Require valid-user / Require all granted")

	// conditions that are not modelled
	f(503, "Require valid-user")
	f(503, "Require user admin")
	f(503, "Require group staff")
	f(503, "Require host example.com")
	f(503, "Require env let_me_in")
	f(503, "Require expr %{TIME_HOUR} -gt 8")
	f(503, "Require")
	f(503, "Require all")
	f(503, "AuthType Basic")
	f(503, "AuthUserFile /etc/htpasswd")
	f(0, "Satisfy Any")
	f(0, "Deny from all / Require all granted / Satisfy Any")
	f(403, "Deny from all / Require all denied / Satisfy Any")
	f(0, "AuthType Basic / Require valid-user / Allow from all / Satisfy Any")
	f(503, "AuthType Basic / Require valid-user / Deny from all / Satisfy Any")
	f(0, "Satisfy All")
	f(403, "SSLRequireSSL")

	// mod_access_compat
	f(403, "Deny from all")
	f(403, "Order allow,deny / Deny from all")
	f(403, "Order allow,deny")
	f(0, "Order allow,deny / Allow from all")
	f(0, "Order deny,allow")
	f(403, "Order deny,allow / Deny from all")
	f(403, "Order Deny,Allow / Deny from all / Allow from 203.0.113.7")
	f(0, "Order deny,allow / Deny from all / Allow from 192.0.2")
	f(0, "Order deny,allow / Deny from all / Allow from all")
	f(403, "Order allow,deny / Allow from all / Deny from 192.0.2.0/24")
	f(403, "Order mutual-failure / Deny from all")
	f(503, "Order allow,deny / Allow from all / Deny from env=bad_bot")
	f(503, "Order allow,deny / Allow from all / Deny from evil.example")
	f(503, "Deny from all / Allow from .example.com")
	f(503, "Order sometimes")
	f(503, "Deny")
	f(503, "Deny form all")
	f(403, "Require all granted / Deny from all")
	f(403, "Require all denied / Allow from all")

	// containers
	f(403, "<RequireAll> / Require all granted / Require not ip 192.0.2.1 / </RequireAll>")
	f(0, "<RequireAll> / Require all granted / Require not ip 203.0.113.1 / </RequireAll>")
	f(503, "<RequireAll> / Require all granted / Require not env x / </RequireAll>")
	f(503, "<RequireAll> / </RequireAll>")
	f(0, "<RequireAny> / Require ip 203.0.113.1 / Require ip 192.0.2.1 / </RequireAny>")
	f(403, "<RequireAny> / Require ip 203.0.113.1 / Require all denied / </RequireAny>")
	f(503, "<RequireAny> / Require ip 203.0.113.1 / Require valid-user / </RequireAny>")
	f(403, "<RequireNone> / Require ip 203.0.113.1 / </RequireNone>") // grants nothing by itself
	f(403, "<RequireAll> / Require all granted / <RequireNone> / Require ip 192.0.2.1 / </RequireNone> / </RequireAll>")
	f(503, "<RequireAll> / Require all granted / <RequireNone> / Require local / </RequireNone> / </RequireAll>")
	f(503, "<RequireAll> / Require all granted / <If x> / Require all denied / </If> / </RequireAll>")
	f(403, "<RequireAll> / <IfModule mod_authz_core.c> / Require all denied / </IfModule> / </RequireAll>")
	f(403, "<IfModule mod_authz_core.c> / Require all denied / </IfModule> / <IfModule !mod_authz_core.c> / Order allow,deny / Deny from all / </IfModule>")
	f(0, "<IfModule !mod_authz_core.c> / Deny from all / </IfModule>")
	f(0, "<IfModule !mod_authz_core.c> / <Files *> / Deny from all / </Files> / </IfModule>")
	f(403, "<IfModule mod_authz_core.c> / <IfModule authz_host_module> / Require all denied / </IfModule> / </IfModule>")
	f(403, "<IfModule !mod_security.c> / Deny from all / </IfModule>")
	f(0, "<IfModule mod_security.c> / Deny from all / </IfModule>")
	f(503, "<IfModule mod_unheard_of.c> / Deny from all / </IfModule>")
	f(503, "<IfModule !mod_unheard_of.c> / Deny from all / </IfModule>")
	f(0, "<IfModule mod_php7.c> / php_value memory_limit 1G / </IfModule>")
	f(503, "<If x> / Require all denied / </If>")
	f(0, "<If x> / Header set A b / </If>")
	f(0, "<IfVersion < 2.4> / Deny from all / </IfVersion>")
	f(403, "<IfVersion >= 2.4> / Deny from all / </IfVersion>")
	f(403, "<IfVersion !< 2.4.10> / Deny from all / </IfVersion>")
	f(503, "<IfVersion ~ ^2> / Deny from all / </IfVersion>")
	f(503, "<IfVersion > x> / Deny from all / </IfVersion>")
	f(0, "<IfDefine X> / Deny from all / </IfDefine>")
	f(403, "<IfDefine !X> / Deny from all / </IfDefine>")
	f(403, "<Limit GET POST> / Deny from all / </Limit>")
	f(403, "<Limit HEAD> / Deny from all / </Limit>") // HEAD and GET go together
	f(0, "<Limit POST> / Deny from all / </Limit>")
	f(0, "<LimitExcept GET POST> / Deny from all / </LimitExcept>")
	f(403, "<LimitExcept POST> / Deny from all / </LimitExcept>")
	f(503, "<Limit> / Deny from all / </Limit>")

	// broken files are closed if they restrict, else used as far as they go
	f(503, "<Files b.php> / Deny from all")
	f(503, "Deny from all / </Files>")
	f(503, "<Files x / Deny from all / </Files>")
	f(503, strings.Repeat("<Files z> / ", 40)+"Deny from all")
	f(0, "</IfModule>")
	f(0, "<IfModule mod_rewrite.c> / RewriteEngine on")
	f(403, "deny fr\\\nom \\\nall")
	f(0, "# comment \\\ndeny from all")
	f(403, "deny from all\\")
}

func TestFiles(t *testing.T) {
	f := func(open, shut, text string) {
		t.Helper()
		text = strings.ReplaceAll(text, " / ", "\n")
		for name := range strings.FieldsSeq(open) {
			if got := ask(text, request(name)); got != 0 {
				t.Errorf("%s: status %d:\n%s", name, got, text)
			}
		}
		for name := range strings.FieldsSeq(shut) {
			if got := ask(text, request(name)); got != 403 {
				t.Errorf("%s: status %d:\n%s", name, got, text)
			}
		}
	}
	f("index.php", "wp-config.php", "<Files wp-config.php> / Require all denied / </Files>")
	f("index.php", "wp-config.php", `<Files "wp-config.php"> / Order allow,deny / Deny from all / </Files>`)
	f("a.html", "a.php b.php", "<Files *.php> / Deny from all / </Files>")
	f("a1", "ab", "<Files a[!0-9]> / Deny from all / </Files>")
	f("index.php README", "debug.log a.sql", `<FilesMatch "\.(log|sql)$"> / Require all denied / </FilesMatch>`)
	f("index.php", "debug.log", `<Files ~ "\.log$"> / Require all denied / </Files>`)
	f("a.php", "b.php", "<Files a.php> / Require all granted / </Files> / <Files b.php> / Require all denied / </Files>")
	f("", "a.php b.php", "Require all denied / <Files a.php> / Require all granted / </Files>") // a deny is not lifted
	f("a.php", "b.php", "<FilesMatch php> / <Files b.*> / Deny from all / </Files> / </FilesMatch>")
	f("x.log", "a.log", "<IfModule mod_authz_core.c> / <Files a.log> / Require all denied / </Files> / </IfModule>")
}

// R-SAFE-1: a condition that cannot be evaluated closes what is denied under it.
func TestUnknownConditionsClose(t *testing.T) {
	f := func(want int, text string, r Request) {
		t.Helper()
		if got := ask(text, r); got != want {
			t.Errorf("status %d, want %d for %+v:\n%s", got, want, r, text)
		}
	}
	client := netip.MustParseAddr("192.0.2.1")
	f(403, "<FilesMatch \"^(?!index)\">\nDeny from all\n</FilesMatch>", request("a.php"))
	f(0, "<FilesMatch \"^(?!index)\">\nAllow from all\n</FilesMatch>", request("a.php"))
	f(503, "<Files [>\nDeny from all\n</Files>", request("a.php"))
	f(503, "<Limit POST>\nDeny from all\n</Limit>", Request{Client: client})
	f(503, "Require method POST", Request{Client: client})
	f(503, "Require ip 192.0.2.1", Request{Method: "GET"})
	f(503, "<RequireAll>\nRequire all granted\nRequire not ip 192.0.2.1\n</RequireAll>", Request{Method: "GET"})
	f(0, "Require ip 192.0.2.1", Request{Method: "GET", Client: netip.MustParseAddr("::ffff:192.0.2.1")})
	f(0, "Require local", Request{Method: "GET", Client: netip.MustParseAddr("::1")})
}

func TestNotices(t *testing.T) {
	_, notices := parse("/d/.htaccess", strings.Join([]string{
		"Options -Indexes", "options +ExecCGI", "RewriteEngine on", "RewriteRule ^a b [L]", `RewriteRule ^\.git - [F,L]`,
		"Require all granted", "<IfModule !mod_headers.c>", "Header set A b", "</IfModule>", "<If x>", "ExpiresActive on", "</If>",
		"RedirectMatch 403 ^/x", "Redirect /a /b",
	}, "\n"))
	want := []Notice{{File: "/d/.htaccess", Line: 2, Directive: "Options", Why: "no effect: +ExecCGI"},
		{File: "/d/.htaccess", Line: 10, Directive: "expression", Why: "expression: a value that is not compared; what would refuse there closes"}}
	if len(notices) != len(want) {
		t.Fatalf("%d notices: %v", len(notices), notices)
	}
	for i := range want {
		if notices[i] != want[i] {
			t.Errorf("notice %d: %+v, want %+v", i, notices[i], want[i])
		}
	}
}

// Each directive that is not modelled is told once with its line; what would refuse says
// that it closes.
func TestNoticesOfWhatCloses(t *testing.T) {
	f := func(text string, want ...Notice) {
		t.Helper()
		_, got := parse("/f", text)
		for i := range want {
			want[i].File = "/f"
		}
		if len(got) != len(want) {
			t.Errorf("%q: %+v", text, got)
			return
		}
		for i := range got {
			if want[i].Why == "*" {
				want[i].Why = got[i].Why
			}
			if got[i] != want[i] {
				t.Errorf("%q: %+v, want %+v", text, got[i], want[i])
			}
		}
	}
	closes := func(line int, name string) Notice {
		return Notice{Line: line, Directive: name, Why: "*", Restricts: true, Closes: true}
	}
	f("Require all granted\nRequire ip 192.0.2.1\nOrder deny,allow\nAllow from all")
	f("\nRequire ldap-user ann", closes(2, "Require"))
	f("Require not ip 192.0.2.1", closes(1, "Require"))
	f("deny from bad.example\nallow from other.example", closes(1, "deny"), closes(2, "allow"))
	f("AuthType Digest", closes(1, "AuthType"))
	f("\nAuthType Basic", closes(2, "AuthType"))
	f("Order sideways", closes(1, "Order"))
	f("Satisfy", closes(1, "Satisfy"))
	f("Require all denied\n<Files x>", closes(2, "file"))
	f("<Files x>\nHeader set A b", Notice{Line: 2, Directive: "file", Why: "<files> is not closed"})
	f("<RequireAll>\nRequire all granted\n<Strange>\n</Strange>\n</RequireAll>", closes(3, "<strange>"))
	f("IndexIgnore a\nIndexIgnore b\nMadeUp on", Notice{Line: 1, Directive: "IndexIgnore", Known: true}, Notice{Line: 3, Directive: "MadeUp"})
	f("RewriteRule ^x - [F,Q]", closes(1, "rewriting"))
	f("\n<IfModule mod_made_up.c>\n<Files x>\nRequire all denied\n</Files>\n</IfModule>", Notice{Line: 2, Directive: "<ifmodule>"}, closes(2, "<ifmodule>"))
	f("<Else>\nDeny from all\n</Else>", Notice{Line: 1, Directive: "<else>"}, closes(1, "<else>"))
	f("<IfModule mod_made_up.c>\nRequire all granted\nOrder allow,deny\nAllow from all\n</IfModule>", Notice{Line: 1, Directive: "<ifmodule>"})
	f("<IfModule mod_made_up.c>\nOrder allow,deny\nAllow from all\nDeny from 192.0.2.1\n</IfModule>", Notice{Line: 1, Directive: "<ifmodule>"}, closes(1, "<ifmodule>"))
	f("<Else>\nHeader set A b\n</Else>", Notice{Line: 1, Directive: "<else>"})
}

// Redirect and RedirectMatch with an error status refuse by the URL path.
func TestRedirectsThatRefuse(t *testing.T) {
	dir := t.TempDir()
	f := func(want int, prefix, text, path string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, ".htaccess"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		d := NewDirs(Options{Root: dir})
		if got := d.Verdict(Request{Path: path, URL: prefix + path, Method: "GET"}).Status; got != want {
			t.Errorf("%s at %q: %d, want %d", text, path, got, want)
		}
	}
	f(404, "", `RedirectMatch 404 /\.git`, "/x/.git/config")
	f(0, "", `RedirectMatch 404 /\.git`, "/x")
	f(403, "", "<IfModule alias_module>\nRedirectMatch 403 ^/x\n</IfModule>", "/xy")
	f(410, "", "Redirect gone /old", "/old/page")
	f(0, "", "Redirect gone /old", "/older")
	f(410, "/alias", "Redirect 410 /alias/old", "/old")
	f(403, "", `RedirectMatch 403 ^/(?!x)`, "/a")
	f(0, "", `RedirectMatch 403 ^/(?!x)`, "/x")
	f(503, "", `RedirectMatch 403 (x`, "/a") // cannot be evaluated: closed
	f(503, "", "Redirect 403", "/a")
	f(0, "", "Redirect permanent /a /b", "/a")
	f(0, "", "RedirectMatch 301 ^/a /b", "/a")
	f(0, "", "Redirect /a /b", "/a")
}

func TestRefuses(t *testing.T) {
	f := func(rule string, want bool) {
		t.Helper()
		if got := refuses(rule); got != want {
			t.Errorf("%q: %v", rule, got)
		}
	}
	f("RewriteRule ^/a /b [L]", false)
	f("RewriteRule [F] /b [L,NC]", false)
	f("  rewriterule ^/a - [NC,F]\r\n", true)
	f("RewriteRule ^ - [R=403]\t", true)
	f("RewriteRule ^ - [G]", true)
}

// A deny at the start of a file holds whatever follows, unless it allows someone.
func FuzzHtaccess(f *testing.F) {
	for _, s := range []string{"", "Require all granted", "<Files \"a\">", "<IfModule !x>\n</IfModule>", "\"", "<RequireAll>\nRequire ip 1.2.3.4", "a\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ask(text, request("a.php"))
		ask(text, Request{})
		rules, _ := parse("f", text)
		if open, _ := parse("f", text+"\n\n"); (open == nil) != (rules == nil) {
			t.Fatal("blank lines change the meaning")
		}
		if got := ask("Deny from all\n"+text, request("a.php")); got == 0 && !strings.Contains(strings.ToLower(text), "allow") && !strings.Contains(strings.ToLower(text), "satisfy") {
			t.Fatalf("%q lifts a deny", text)
		}
	})
}
