package rewrite

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2/v2"

	"httpjet/exchange"
)

func program(t testing.TB, text string) *Program {
	t.Helper()
	p, problems := Compile(Source{Text: text, File: "rules", Dir: "/srv/html"})
	for _, q := range problems {
		if q.Severity == Fault {
			t.Fatal(q)
		}
	}
	return p
}

func asked(t testing.TB, first, fields string) *exchange.Exchange {
	t.Helper()
	x, err := newRequest(first, fields)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// tenRules are rules of which none matches "/some/page.html".
const tenRules = `
RewriteRule ^/old/(.*)$ /new/$1 [R=301,L]
RewriteRule ^/shop/item/([0-9]+)$ /shop.php?id=$1 [L,QSA]
RewriteRule \.(php|cgi)$ - [F]
RewriteRule ^/(images|css)/(.*)$ /static/$1/$2 [L]
RewriteCond %{HTTP_HOST} ^www\.(.*)$ [NC]
RewriteRule ^ https://%1%{REQUEST_URI} [R=301,L]
RewriteCond %{HTTPS} !=off
RewriteRule ^(.*)$ http://%{HTTP_HOST}$1 [R]
RewriteCond %{HTTP_USER_AGENT} (bot|spider) [NC]
RewriteRule ^/private - [F]
RewriteRule ^/a/b/c/d$ - [G]
RewriteCond %{QUERY_STRING} ^id=
RewriteRule ^/some/page\.html$ /x [L]
RewriteRule ^/wp-(login|admin) - [F]
`

// No rule that matches, no memory.
func TestNoMatchTakesNoMemory(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("pools forget at random under the race detector")
	}
	p := program(t, tenRules)
	x := asked(t, "GET http://a.test/some/page.html?q=1", "User-Agent: Mozilla/5.0")
	h := &Host{DocRoot: "/srv/html"}
	n := testing.AllocsPerRun(200, func() {
		if out := p.Run(x, h); out.Kind != Unchanged {
			t.Fatal(out)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A pattern that would try for ever is cut by its limit, whatever the client sends;
// the request is answered with 500.
func TestSlowPatternIsCut(t *testing.T) {
	t.Cleanup(regexp2.StopTimeoutClock)
	p := program(t, `RewriteRule ^/((a+)+)+(?=b)$ /x`)
	x := asked(t, "GET /"+strings.Repeat("a", 5000), "")
	began := time.Now()
	out := p.Run(x, &Host{})
	if out.Kind != Failed || exchange.StatusOf(out.Err) != 500 {
		t.Error(describe(&out))
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("it took %v", d)
	}
}

// Bounds on the number of rules, the size of a text, and what a rule makes.
func TestBounds(t *testing.T) {
	f := func(text, request, want string) {
		t.Helper()
		p, problems := Compile(Source{Text: text, File: "rules"})
		x := asked(t, request, "")
		if out := p.Run(x, &Host{}); !strings.Contains(describe(&out), want) {
			t.Errorf("%s, %v", describe(&out), problems)
		}
	}
	f(strings.Repeat("RewriteRule ^/a$ /b\n", maxRules+5), "GET /x", "fails 503 closed: rules:10001: there are too many rules")
	f(strings.Repeat("RewriteCond %{HTTP_HOST} .\n", maxConds+1)+"RewriteRule ^ - [F]", "GET /x", "more than 100 conditions")
	f(strings.Repeat("#\n", maxText), "GET /x", "fails 503 closed: rules:1: its rules are too large")
	f("RewriteRule "+strings.Repeat("x", maxLine)+" /y", "GET /x", "fails 503 closed: rules:1: a directive is too long")
	f("RewriteRule "+strings.Repeat("x", maxPattern+1)+" - [F]", "GET /x", "pattern over 8192 bytes")
	f("RewriteRule ^(.*)$ "+strings.Repeat("$1", 300), "GET /"+strings.Repeat("x", 1000), "fails 500 bad_rewrite: rules:1: a text that a rule makes is too long")
	f("RewriteCond "+strings.Repeat("$1", 300)+" x\nRewriteRule ^(.*)$ /y", "GET /"+strings.Repeat("x", 1000), "fails 500 bad_rewrite")
	f("RewriteRule ^ - [E=a:"+strings.Repeat("%{REQUEST_URI}", 300)+"]", "GET /"+strings.Repeat("x", 1000), "fails 500 bad_rewrite")
}

// A map is read again when its file has changed, at most once a second.
func TestMapFollowsItsFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "m.txt")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("k one\n")
	m, err := NewMap("txt:m.txt", dir)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	h := &Host{Now: func() time.Time { return now }}
	f := func(want string) {
		t.Helper()
		if got, _ := m.find("k", h); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f("one")
	write("k second\n")
	f("one")
	now = now.Add(time.Second)
	f("second")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	f("second") // the last one that could be read
}

func FuzzCompile(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "GET http://a.test/a/b?c=d")
	}
	f.Add("RewriteRule ^(.*)$ $1_ [N]", "GET /a%2Fb")
	f.Fuzz(func(t *testing.T, text, request string) {
		if len(text) > 4096 || len(request) > 1024 || !strings.Contains(request, " /") && !strings.Contains(request, "://") {
			return
		}
		x := request
		if _, rest, ok := strings.Cut(request, "://"); ok && !strings.Contains(rest, "/") {
			x += "/"
		}
		if strings.ContainsAny(x, "\n\r") {
			return
		}
		e, err := newRequest(x, "Cookie: a=b\nUser-Agent: %41")
		if err != nil {
			return
		}
		maps := map[string]*Map{"lower": {function: strings.ToLower}}
		for _, prefix := range []string{"", "/a/"} {
			p, _ := Compile(Source{Text: text, File: "f", Prefix: prefix, Dir: "/nowhere", Maps: maps})
			out := p.Run(e, &Host{DocRoot: "/nowhere", Stat: func(string, bool) Info { return Info{} }})
			// Whatever rules and requests are, no answer ends a line (G51).
			for _, s := range append(out.Cookies, out.Target, out.Location) {
				if i := strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f }); i >= 0 {
					t.Fatalf("%q: a control byte in %q", text, s)
				}
			}
			if strings.ContainsAny(out.Target, " #") || out.Kind == Rewritten && out.Target[0] != '/' {
				t.Fatalf("%q: %q is no target", text, out.Target)
			}
		}
	})
}

func BenchmarkTenRules(b *testing.B) {
	p := program(b, tenRules)
	x := asked(b, "GET http://a.test/some/page.html?q=1", "User-Agent: Mozilla/5.0")
	h := &Host{DocRoot: "/srv/html"}
	b.ReportAllocs()
	for b.Loop() {
		p.Run(x, h)
	}
}

func BenchmarkWordPress(b *testing.B) {
	p := program(b, "RewriteRule ^/index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]")
	h := &Host{DocRoot: b.TempDir()}
	if err := os.WriteFile(h.DocRoot+"/a.css", nil, 0o600); err != nil {
		b.Fatal(err)
	}
	for _, path := range []string{"/a.css", "/2024/05/hello/"} {
		b.Run(path, func(b *testing.B) {
			x := asked(b, "GET http://a.test"+path, "")
			b.ReportAllocs()
			for b.Loop() {
				p.Run(x, h)
			}
		})
	}
}

func BenchmarkFiveHundredRules(b *testing.B) {
	var text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&text, "RewriteRule ^/section%d/([^/]+)/([0-9]+)$ /x?a=$1&b=$2 [L]\n", i)
	}
	p := program(b, text.String())
	x := asked(b, "GET http://a.test/section/some/page.html", "")
	h := &Host{}
	b.ReportAllocs()
	for b.Loop() {
		p.Run(x, h)
	}
}

// deepTree is eight directories in one another, each with a .htaccess file.
func deepTree(t testing.TB) (d *Dirs, path string) {
	root := t.TempDir()
	path = "/"
	for i := range 8 {
		if err := os.WriteFile(filepath.Join(root, path, ".htaccess"), []byte("Require all granted\nRewriteEngine on\nRewriteRule ^never$ /x [L]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		path += fmt.Sprintf("d%d/", i)
		if err := os.Mkdir(filepath.Join(root, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().Add(time.Hour)
	return NewDirs(Options{Root: root, Override: OverrideAll, Now: func() time.Time { return now }}), path + "file.html"
}

// BenchmarkHtaccessChain is who may come in by eight files from the cache, and which
// rules run.
func BenchmarkHtaccessChain(b *testing.B) {
	d, path := deepTree(b)
	b.ReportAllocs()
	for b.Loop() {
		c := d.Walk(path)
		if v := c.Verdict(Request{Method: "GET"}); v.Status != 0 || c.Rules(false).Program == nil {
			b.Fatal(v)
		}
	}
}

// A chain of up to eight files takes no memory.
func TestChainAllocations(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector allocates")
	}
	d, path := deepTree(t)
	f := func(path string, most float64) {
		t.Helper()
		if n := testing.AllocsPerRun(100, func() {
			c := d.Walk(path)
			if c.Verdict(Request{Method: "GET"}).Status != 0 {
				t.Fatal("refused")
			}
		}); n > most {
			t.Errorf("%s: %v allocations, at most %v", path, n, most)
		}
	}
	f("/d0/d1/d2/x", 0)
	f(path, 0)
}

// A .htaccess file of 1 MiB is read, one that is larger closes its directory; so do
// nested containers, and a pattern without end costs its bounds and no more.
func TestHtaccessBadInput(t *testing.T) {
	t.Cleanup(regexp2.StopTimeoutClock)
	f := func(text string, want int) {
		t.Helper()
		root := t.TempDir()
		if err := os.WriteFile(root+"/.htaccess", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var notices []Notice
		d := NewDirs(Options{Root: root, Override: OverrideAll, Host: &Host{}, Report: func(list []Notice) { notices = list }})
		x := asked(t, "GET /"+strings.Repeat("a", 3000), "User-Agent: "+strings.Repeat("a", 3000))
		c := d.Walk(x.Req.Path)
		c.Ask(x)
		v := c.Verdict(Request{Method: "GET", Client: x.Req.Client, X: x})
		if v.Status != want || v.Status == 503 && v.File == "" {
			t.Errorf("%.40q: %+v, want %d", text, v, want)
		}
		if len(notices) > maxNotices+1 {
			t.Errorf("%d notices", len(notices))
		}
		if p := c.Rules(true).Program; p != nil {
			p.Run(x, &Host{})
		}
		c.Settings(&Settings{}, Request{Method: "GET", Client: x.Req.Client, X: x})
	}
	line := "Header set X-A b\n"
	f(strings.Repeat(line, (1<<20)/len(line)), 0)
	f(strings.Repeat(line, (1<<20)/len(line)+1), 503)
	f(strings.Repeat("RewriteRule x y [Q]\n", 10000), 0)
	f(strings.Repeat("<Files x>\n", 100), 503)
	f(strings.Repeat("<IfModule mod_rewrite.c>\n", 10)+"Deny from all", 503)
	f("<FilesMatch \"^((a+)+)+(?=b)$\">\nDeny from all\n</FilesMatch>", 503)
	f("SetEnvIf User-Agent \"^((a+)+)+(?=b)$\" bad\nOrder allow,deny\nAllow from all\nDeny from env=bad", 403)
	f("SetEnvIf User-Agent \"(\" bad\nOrder allow,deny\nAllow from all\nDeny from env=bad", 503)
	f("<If \"%{HTTP_USER_AGENT} =~ /^((a+)+)+(?=b)$/\">\nDeny from all\n</If>", 503)
	f(strings.Repeat("<FilesMatch \"^((a+)+)+(?=b)$\">\nDeny from all\n</FilesMatch>\n", 300), 503) // one budget for all of them
	f("<If \"%{NO_SUCH} == 'x'\">\nDeny from all\n</If>", 503)
	f("<If \""+strings.Repeat("(", 5000)+"\">\nDeny from all\n</If>", 503)
	f("<If \""+strings.Repeat("!", 3000)+"true\">\nDeny from all\n</If>", 503)
	f("Require expr "+strings.Repeat("true && ", 400)+"true", 503)
	f("RewriteEngine on\nRewriteFile .htaccess", 0)
	f("\x00", 503)
}
