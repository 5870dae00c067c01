package docroot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"httpjet/exchange"
)

// tree writes files below a new directory: "name" → content, "name/" a
// directory, "name -> target" a link.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		link, target, isLink := strings.Cut(name, " -> ")
		path := filepath.Join(dir, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		switch {
		case isLink:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte("content of "+name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func newRoot(t *testing.T, o Options) *Root {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func isPHP(suffix string) bool { return suffix == "php" }

// outcome resolves path and puts the result in one line: "static NAME",
// "script NAME INFO" with what the file holds checked, or the status.
func outcome(t *testing.T, r *Root, path string) string {
	t.Helper()
	res, verdict, err := r.Resolve(path, "", isPHP)
	if err != nil {
		if res.File != nil {
			t.Errorf("Resolve(%q): file and error", path)
		}
		e, ok := errors.AsType[*exchange.Error](err)
		if !ok {
			t.Fatalf("Resolve(%q): %v", path, err)
		}
		s := map[int]string{301: "301", 403: "403", 404: "404"}[e.Status]
		if s == "" {
			t.Fatalf("Resolve(%q): %v", path, err)
		}
		if len(e.Fields) > 0 {
			s += " " + e.Fields[0].Value
		}
		return s
	}
	defer res.File.Close()
	if res.Name+res.PathInfo != path && !strings.HasSuffix(path, "/") {
		t.Errorf("Resolve(%q): name %q and path info %q", path, res.Name, res.PathInfo)
	}
	byName, err := os.Stat(res.Filename)
	if err != nil || !os.SameFile(byName, res.Info) {
		t.Errorf("Resolve(%q): filename %q is not the opened file: %v", path, res.Filename, err)
	}
	switch verdict {
	case Static:
		return strings.TrimSpace("static " + res.Name + " " + res.PathInfo)
	case Script:
		return strings.TrimSpace("script " + res.Name + " " + res.PathInfo)
	}
	t.Fatalf("Resolve(%q): verdict %d", path, verdict)
	return ""
}

// allModes runs test for every treatment of links, with and without openat2.
func allModes(t *testing.T, o Options, test func(t *testing.T, r *Root)) {
	for _, mode := range []struct {
		name       string
		links      Links
		restrained bool
	}{
		{"no", NoLinks, false}, {"follow", FollowLinks, false}, {"restrained", FollowLinks, true},
		{"owner", OwnerLinks, false}, {"owner-restrained", OwnerLinks, true},
	} {
		for _, noKernel := range []bool{false, true} {
			name := mode.name
			if noKernel {
				name += "-without-openat2"
			}
			t.Run(name, func(t *testing.T) {
				o.Links, o.Restrained = mode.links, mode.restrained
				r := newRoot(t, o)
				r.noKernel = noKernel
				test(t, r)
			})
		}
	}
}

// R-STATIC-3, R-STATIC-10, R-FCGI-3.
func TestResolve(t *testing.T) {
	dir := tree(t, "index.html", "a.txt", "app/index.php", "app/x.php", "empty/", "b/sub/home.html",
		"dir.php/in.txt", "both/index.html/", "both/index.php", "é b/c\\d.txt", "deep/x.PHP", "y.php.txt")
	o := Options{Dir: dir, Index: []string{"index.html", "index.php", "sub/home.html"}}
	allModes(t, o, func(t *testing.T, r *Root) {
		f := func(path, want string) {
			t.Helper()
			if got := outcome(t, r, path); got != want {
				t.Errorf("%q: %s, want %s", path, got, want)
			}
		}
		f("/", "static /index.html")
		f("/a.txt", "static /a.txt")
		f("/a.txt/", "404")
		f("/a.txt/x", "404")
		f("/index.html/extra", "404")
		f("/none", "404")
		f("/none/x", "404")
		f("/none/", "404")
		f("/app", "301 /app/")
		f("/app/", "script /app/index.php")
		f("/app/x.php", "script /app/x.php")
		f("/app/x.php/", "script /app/x.php /")
		f("/app/x.php/info/y.php", "script /app/x.php /info/y.php")
		f("/app/none.php", "404")
		f("/app/none.php/x", "404")
		f("/deep/x.PHP/i", "script /deep/x.PHP /i")
		f("/dir.php/in.txt", "static /dir.php/in.txt") // a directory is no script
		f("/dir.php", "301 /dir.php/")
		f("/dir.php/none", "404")
		f("/empty/", "404")
		f("/b/", "static /b/sub/home.html")
		f("/both/", "script /both/index.php") // index.html is a directory there
		f("/é b", "301 /%C3%A9%20b/")
		f(`/é b/c\d.txt`, `static /é b/c\d.txt`)
		f("/y.php.txt", "static /y.php.txt")
		f("/app/x.php/"+strings.Repeat("long/", 1500), "script /app/x.php /"+strings.Repeat("long/", 1500))
		f("/"+strings.Repeat("x", 300), "404")
		f("/"+strings.Repeat("x/", 4000), "404")
		// A path that a rewrite left unclean reaches nothing.
		f("/../"+filepath.Base(dir)+"/a.txt", "404")
		f("/app/../a.txt", "404")
		f("/a.txt\x00", "404")
		f("no-slash", "404")
	})
}

// R-STATIC-10: nothing that looks like a script's name uncovers its source.
func TestScriptSourceNeverStatic(t *testing.T) {
	dir := tree(t, "x.php", "X2.PHP", "y.php.bak", "z.php.", "z.php. ", "z.txt.", "t.txt -> x.php", "d.txt -> sub", "sub/z.php", "sub/plain.txt")
	allModes(t, Options{Dir: dir}, func(t *testing.T, r *Root) {
		f := func(target, want string) {
			t.Helper()
			path, _, err := CleanPath(target)
			if err != nil {
				t.Fatal(err)
			}
			if got := outcome(t, r, path); got != want {
				t.Errorf("%q: %s, want %s", target, got, want)
			}
		}
		f("/x.php", "script /x.php")
		f("/x%2ephp", "script /x.php")
		f("/x.php/", "script /x.php /")
		f("/x.php//", "script /x.php /")
		f("/x.php/.", "script /x.php /")
		f("/x.php%2f", "script /x.php /")
		f("/x.php%20", "404")
		f("/x.php.", "404")
		f("/x.php...", "404")
		f("/z.php.", "403") // x.php on a file system that drops the dot
		f("/z.php.%20", "403")
		f("/z.txt.", "static /z.txt.")
		f("/x.php%5c", "404")
		f("/x.php::$DATA", "404")
		f("/x.PHP", "404") // another file on this file system
		f("/X2.PHP", "script /X2.PHP")
		f("/y.php.bak", "static /y.php.bak") // not a mapped suffix
		if r.o.Links == NoLinks {
			f("/t.txt", "404")
			f("/d.txt/z.php", "404")
			f("/d.txt/plain.txt", "404")
		} else {
			f("/t.txt", "403")
			f("/d.txt/z.php", "script /d.txt/z.php")
			f("/d.txt/plain.txt", "static /d.txt/plain.txt")
		}
	})
}

func TestG24PathInfoBehindRewrittenScript(t *testing.T) {
	dir := tree(t, "lib/javascript.php")
	r := newRoot(t, Options{Dir: dir})
	// The table resolves the rewritten path; a file inside the path info that
	// looks like one changes nothing.
	res, verdict, err := r.Resolve("/lib/javascript.php/1599824490/lib/requirejs/require.min.js", "", isPHP)
	if err != nil {
		t.Fatal(err)
	}
	defer res.File.Close()
	if verdict != Script || res.Name != "/lib/javascript.php" || res.PathInfo != "/1599824490/lib/requirejs/require.min.js" ||
		res.Filename != dir+"/lib/javascript.php" || res.Root != dir {
		t.Errorf("verdict %d, %+v", verdict, res)
	}
}

func TestG26SplitOnOriginalBytes(t *testing.T) {
	dir := tree(t, "ȺȺȺȺx.php.txt", "ȺȺȺȺshell.php", "ȺȺȺȺshell.php.txt", "KELVIN.PHP", "k.phP")
	r := newRoot(t, Options{Dir: dir})
	f := func(target, want string) {
		t.Helper()
		path, _, err := CleanPath(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := outcome(t, r, path); got != want {
			t.Errorf("%q: %s, want %s", target, got, want)
		}
	}
	f("/%C8%BA%C8%BA%C8%BA%C8%BAx.php.txt/.php", "404")
	f("/%C8%BA%C8%BA%C8%BA%C8%BAshell.php.txt/.php", "404")
	f("/%C8%BA%C8%BA%C8%BA%C8%BAshell.php.txt/x.php", "404")
	f("/%C8%BA%C8%BA%C8%BA%C8%BAshell.php.txt", "static /ȺȺȺȺshell.php.txt")
	f("/%C8%BA%C8%BA%C8%BA%C8%BAshell.php/.php", "script /ȺȺȺȺshell.php /.php")
	f("/KELVIN.PHP/x", "script /KELVIN.PHP /x")
	f("/k.phP", "script /k.phP")
	f("/%E2%84%AA.php", "404") // the Kelvin sign is not a k
}

// R-STATIC-3: the redirect keeps the query and cannot leave the origin.
func TestDirectoryRedirect(t *testing.T) {
	dir := tree(t, "a/", `\evil.example/`, "q ?#%/")
	r := newRoot(t, Options{Dir: dir})
	f := func(path, query, want string) {
		t.Helper()
		_, _, err := r.Resolve(path, query, nil)
		e, ok := errors.AsType[*exchange.Error](err)
		if !ok || e.Status != 301 || e.Fields[0] != (exchange.Field{Name: "Location", Value: want}) {
			t.Errorf("%q: %v %+v, want %q", path, err, e, want)
		}
	}
	f("/a", "", "/a/")
	f("/a", "x=1&y=%2F", "/a/?x=1&y=%2F")
	f("/a", "x=\r\nSet-Cookie:é", "/a/?x=%0D%0ASet-Cookie:%C3%A9")
	f(`/\evil.example`, "", "/%5Cevil.example/")
	f("/q ?#%", "", "/q%20%3F%23%25/")
}

// R-STATIC-7: a context's location stands for its prefix.
func TestPrefix(t *testing.T) {
	dir := tree(t, "a.txt", "sub/index.html", "index.html", "run.php", "to-run -> run.php")
	site := tree(t)
	f := func(o Options, path, want string) {
		t.Helper()
		o.Index = []string{"index.html"}
		if got := outcome(t, newRoot(t, o), path); got != want {
			t.Errorf("%q at %q: %s, want %s", path, o.Prefix, got, want)
		}
	}
	docs := Options{Dir: dir, Prefix: "/docs/"}
	f(docs, "/docs/a.txt", "static /docs/a.txt")
	f(docs, "/docs/", "static /docs/index.html")
	f(docs, "/docs", "301 /docs/")
	f(docs, "/docs/sub", "301 /docs/sub/")
	f(docs, "/docs/run.php/x", "script /docs/run.php /x")
	f(docs, "/docsa.txt", "404")
	f(docs, "/a.txt", "404")
	file := Options{Dir: dir + "/a.txt", Prefix: "/only"}
	f(file, "/only", "static /only")
	f(file, "/only/x", "404")
	f(file, "/only/", "404")
	script := Options{Dir: dir + "/run.php", Prefix: "/run.php"}
	f(script, "/run.php", "script /run.php")
	f(script, "/run.php/x/y", "script /run.php /x/y")
	f(Options{Dir: dir + "/none"}, "/a.txt", "404")
	f(Options{Dir: dir + "/none"}, "/", "404")
	// What the URL calls the file makes no script of it, nor hides that it is one
	// (R-STATIC-10).
	alias := Options{Dir: dir + "/run.php", Prefix: "/run"}
	f(alias, "/run", "script /run")
	f(alias, "/run/x", "script /run /x")
	alias.Prefix = "/run.txt"
	f(alias, "/run.txt", "script /run.txt")
	f(Options{Dir: dir + "/a.txt", Prefix: "/a.php"}, "/a.php", "static /a.php")
	for _, links := range []Links{NoLinks, FollowLinks, OwnerLinks} {
		f(Options{Dir: dir + "/to-run", Prefix: "/run", Links: links}, "/run", "403")
	}

	res, _, err := newRoot(t, Options{Dir: dir, Prefix: "/docs/", DocRoot: site}).Resolve("/docs/a.txt", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.File.Close()
	if res.Root != site || res.Filename != dir+"/a.txt" {
		t.Errorf("%+v", res)
	}
}

func TestNewRefuses(t *testing.T) {
	f := func(o Options) {
		t.Helper()
		if _, err := New(o); err == nil {
			t.Errorf("New(%+v): no error", o)
		}
	}
	f(Options{})
	f(Options{Dir: "rel"})
	f(Options{Dir: "/srv", Prefix: "docs"})
	f(Options{Dir: "/srv", Index: []string{"../x"}})
	f(Options{Dir: "/srv", Index: []string{"/x"}})
	f(Options{Dir: "/srv", Index: []string{""}})
	f(Options{Dir: "/srv", DenyDirs: []string{"conf/*"}})
	f(Options{Dir: "/srv", DenyDirs: []string{"/a/*/b"}})
}

func TestNoIndex(t *testing.T) {
	r := newRoot(t, Options{Dir: tree(t, "index.html", "-"), Index: []string{"-"}})
	if got := outcome(t, r, "/"); got != "404" {
		t.Error(got)
	}
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := tree(t, "a.txt", "d/b.txt")
	t.Cleanup(func() { os.Chmod(dir+"/d", 0o755) })
	if err := errors.Join(os.Chmod(dir+"/a.txt", 0), os.Chmod(dir+"/d", 0o311)); err != nil {
		t.Fatal(err)
	}
	r := newRoot(t, Options{Dir: dir})
	for path, want := range map[string]string{"/a.txt": "403", "/d": "301 /d/", "/d/b.txt": "static /d/b.txt"} {
		if got := outcome(t, r, path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(dir+"/a.css", nil, 0o644); err != nil {
		b.Fatal(err)
	}
	r, err := New(Options{Dir: dir, DenyDirs: []string{"/etc/*"}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		res, _, err := r.Resolve("/a.css", "", nil)
		if err != nil {
			b.Fatal(err)
		}
		res.File.Close()
	}
}
