package docroot

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// R-STATIC-2, R-STATIC-8.
func TestLinks(t *testing.T) {
	outside := tree(t, "secret.txt", "d/x.txt")
	dir := tree(t, "in.txt", "sub/y.txt", "passwd -> /etc/passwd", "abs -> "+outside+"/secret.txt", "out -> "+outside+"/d",
		"rel -> in.txt", "subl -> sub", "sub/up -> ../in.txt", "climb -> ../../../../../../../../etc/passwd",
		"loop -> loop", "dangling -> nothing", "self -> .", "two -> rel", "index/index.html -> "+outside+"/secret.txt")
	paths := []string{"/in.txt", "/rel", "/two", "/subl/y.txt", "/sub/up", "/self/self/in.txt", "/passwd", "/climb", "/abs",
		"/out/x.txt", "/loop", "/loop/x", "/dangling", "/index/"}
	want := map[string]string{
		"no":               "1-------------",
		"follow":           "1111111111---1",
		"restrained":       "111111--------",
		"owner":            "1111111111---1",
		"owner-restrained": "111111--------",
	}
	if os.Getuid() != 0 {
		want["owner"] = "111111--11---1" // the link to /etc/passwd is not root's
	}
	allModes(t, Options{Dir: dir, Index: []string{"index.html"}}, func(t *testing.T, r *Root) {
		mode, _, _ := strings.Cut(filepath.Base(t.Name()), "-without")
		for i, path := range paths {
			got := outcome(t, r, path)
			served := strings.HasPrefix(got, "static ")
			if served != (want[mode][i] == '1') {
				t.Errorf("%q: %s", path, got)
			}
			if !served && got != "404" {
				t.Errorf("%q: %s, want 404", path, got)
			}
		}
	})
}

// Restrained links may lead to the directory around the root, as LiteSpeed's
// vhRoot, and not beyond; how they are written does not matter.
func TestRestrainedWithin(t *testing.T) {
	top := tree(t, "vh/html/in.txt", "vh/shared/x.txt", "vh/shared/run.php", "vh/.git/config", "other/secret.txt",
		"vh/html/up -> ../shared", "vh/html/deep -> up/x.txt", "vh/html/out -> ../../other", "vh/html/outs -> ../../other/secret.txt", "vh/html/top -> ../../vh/html/in.txt",
		"vh/html/git -> ../.git", "vh/html/script -> ../shared/run.php", "vh/html/dev -> /dev/null", "vh/html/vh2 -> ../../vh2/x.txt", "vh2/x.txt")
	for name, target := range map[string]string{"abs": "/vh/shared/x.txt", "absin": "/vh/html/in.txt", "absout": "/other/secret.txt"} {
		if err := os.Symlink(top+target, top+"/vh/html/"+name); err != nil {
			t.Fatal(err)
		}
	}
	f := func(within string, want map[string]string) {
		for _, links := range []Links{FollowLinks, OwnerLinks} {
			for _, noKernel := range []bool{false, true} {
				r := newRoot(t, Options{Dir: top + "/vh/html", Links: links, Restrained: true, Within: within})
				r.noKernel = noKernel
				for path, want := range want {
					if got := outcome(t, r, path); got != want {
						t.Errorf("%v %v within %q: %q: %s, want %s", links, noKernel, within, path, got, want)
					}
				}
			}
		}
	}
	f(top+"/vh/", map[string]string{"/in.txt": "static /in.txt", "/up/x.txt": "static /up/x.txt", "/deep": "static /deep", "/abs": "static /abs",
		"/absin": "static /absin", "/top": "static /top", "/up": "301 /up/", "/up/run.php/i": "script /up/run.php /i", "/out/secret.txt": "404",
		"/outs": "404", "/absout": "404", "/git/config": "403", "/script": "403", "/dev": "404", "/vh2": "404"})
	f("", map[string]string{"/in.txt": "static /in.txt", "/absin": "static /absin", "/top": "static /top", "/up/x.txt": "404", "/abs": "404", "/outs": "404"})
	f(top+"/other", map[string]string{"/abs": "404", "/outs": "404", "/absin": "static /absin"})
}

// R-STATIC-8: value 2. Only root can give links away.
func TestOwnerOfLinks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to change owners")
	}
	outside := tree(t, "theirs.txt", "mine.txt", "dir/mine.txt")
	dir := tree(t, "l1 -> "+outside+"/theirs.txt", "l2 -> "+outside+"/mine.txt", "ld -> "+outside+"/dir",
		"sub/plain.txt", "hop -> l1", "chain -> l2", "in -> sub/plain.txt", "own -> sub")
	own := func(uid int, names ...string) {
		for _, name := range names {
			if err := os.Lchown(name, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	own(4001, dir+"/l1", dir+"/l2", dir+"/ld", dir+"/hop", dir+"/chain", dir+"/in", dir+"/own", dir+"/sub", outside+"/mine.txt", outside+"/dir")
	own(4002, outside+"/theirs.txt", dir+"/sub/plain.txt")
	for _, noKernel := range []bool{false, true} {
		for _, restrained := range []bool{false, true} {
			r := newRoot(t, Options{Dir: dir, Links: OwnerLinks, Restrained: restrained})
			r.noKernel = noKernel
			f := func(path string, want bool) {
				t.Helper()
				got := outcome(t, r, path)
				if want != strings.HasPrefix(got, "static ") || !want && got != "404" {
					t.Errorf("%q (restrained %v, without openat2 %v): %s", path, restrained, noKernel, got)
				}
			}
			f("/l1", false)
			f("/l2", !restrained)
			f("/ld/mine.txt", !restrained)
			f("/hop", false)
			f("/chain", !restrained)
			f("/in", false)
			f("/own/plain.txt", true) // the link is to the directory, which is its owner's
			f("/sub/plain.txt", true)
		}
	}
}

// A link in the path of the root is the operator's own.
func TestRootBehindLink(t *testing.T) {
	dir := tree(t, "v1/a.txt", "v2/a.txt", "current -> v1", ".hg/site/a.txt")
	allModes(t, Options{Dir: dir + "/current"}, func(t *testing.T, r *Root) {
		if got := outcome(t, r, "/a.txt"); got != "static /a.txt" {
			t.Error(got)
		}
	})
	r := newRoot(t, Options{Dir: dir + "/current"})
	for _, version := range []string{"v2", "v1"} {
		if err := os.Symlink(version, dir+"/next"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir+"/next", dir+"/current"); err != nil {
			t.Fatal(err)
		}
		res, _, err := r.Resolve("/a.txt", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.File)
		res.File.Close()
		if string(b) != "content of "+version+"/a.txt" {
			t.Errorf("after the switch to %s: %q", version, b)
		}
	}
	// Hidden names above the root are the operator's own, too.
	allModes(t, Options{Dir: dir + "/.hg/site", DenyDirs: []string{"/etc/*"}}, func(t *testing.T, r *Root) {
		if got := outcome(t, r, "/a.txt"); got != "static /a.txt" {
			t.Error(got)
		}
	})
}

// R-STATIC-9: names that are never served, on the request and on the real path.
func TestHiddenFiles(t *testing.T) {
	outside := tree(t, ".git/config")
	dir := tree(t, ".htaccess", "a/.HTPASSWD", ".git/config", ".well-known/token", "plain -> .git/config", "h -> .htaccess",
		"repo -> .git", "ext -> "+outside+"/.git", "x.txt", "w/.htindex")
	r := newRoot(t, Options{Dir: dir, Links: FollowLinks, Index: []string{".htindex"}})
	f := func(path, want string) {
		t.Helper()
		if got := outcome(t, r, path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
	f("/.htaccess", "403")
	f("/.htnone", "403") // not told whether it exists
	f("/a/.HTPASSWD", "403")
	f("/.git/config", "403")
	f("/.git", "403")
	f("/.GIT/", "403")
	f("/plain", "403")
	f("/h", "403")
	f("/repo/config", "403")
	f("/ext/config", "403")
	f("/w/", "403")
	f("/x.txt/.htaccess", "403")
	f("/.well-known/token", "static /.well-known/token")
}

// R-STATIC-9: accessDenyDir.
func TestDenyDirs(t *testing.T) {
	outside := tree(t, "conf/secret", "conf/deep/secret", "open/x", "conf.txt", "alias -> conf")
	dir := tree(t, "a/x", "a/b/x", "c/x", "conf -> "+outside+"/conf", "open -> "+outside+"/open", "t -> "+outside+"/conf.txt")
	f := func(path string, deny string, want bool) {
		t.Helper()
		r := newRoot(t, Options{Dir: dir, Links: FollowLinks, DenyDirs: []string{"/etc/*", deny, "/dev/*", "/"}})
		got := outcome(t, r, path)
		if want != (got == "403") || !want && !strings.HasPrefix(got, "static ") {
			t.Errorf("%q with %q denied: %s", path, deny, got)
		}
	}
	f("/a/x", dir+"/a/*", true)
	f("/a/b/x", dir+"/a/*", true)
	f("/a/x", dir+"/a", true)
	f("/a/x", dir+"/a/", true)
	f("/a/b/x", dir+"/a", false)
	f("/a/b/x", dir+"/a/b/x", true)
	f("/c/x", dir+"/a/*", false)
	f("/c/x", dir+"/*", true)
	f("/c/x", "/*", true)
	f("/a/x", dir+"/a*", true)
	f("/conf/secret", outside+"/conf/*", true)
	f("/conf/deep/secret", outside+"/conf/*", true)
	f("/conf/secret", outside+"/alias/*", true) // denied by the name of a link
	f("/conf/secret", dir+"/conf", true)
	f("/open/x", outside+"/conf/*", false)
	f("/t", outside+"/conf/*", false) // conf.txt is beside conf, not in it

	// With links off the list holds as well.
	r := newRoot(t, Options{Dir: dir, DenyDirs: []string{dir + "/a/*"}})
	if got := outcome(t, r, "/a/b/x"); got != "403" {
		t.Error(got)
	}
}

// R-STATIC-9: nothing but regular files, and no open waits for one.
func TestSpecialFiles(t *testing.T) {
	dir := tree(t, "fifo.php -> pipe")
	if err := unix.Mkfifo(dir+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", dir+"/sock")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.Symlink("/dev/null", dir+"/null"); err != nil {
		t.Fatal(err)
	}
	allModes(t, Options{Dir: dir}, func(t *testing.T, r *Root) {
		f := func(path, want string) {
			t.Helper()
			if got := outcome(t, r, path); got != want {
				t.Errorf("%q: %s, want %s", path, got, want)
			}
		}
		f("/pipe", "403")
		f("/sock", "403")
		f("/pipe/x", "404")
		if r.o.Links == FollowLinks && !r.o.Restrained {
			f("/null", "403")
			f("/fifo.php", "403")
			f("/fifo.php/x", "403")
		}
	})
}

// LiteSpeed's fileAccessControl masks.
func TestPermissionMasks(t *testing.T) {
	dir := tree(t, "open.txt", "closed.txt", "exec.txt", "x.php", "d/y.txt")
	for name, mode := range map[string]os.FileMode{"closed.txt": 0o640, "exec.txt": 0o755, "x.php": 0o700, "d": 0o777} {
		if err := os.Chmod(dir+"/"+name, mode); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Dir: dir, Required: 0o004, Restricted: 0o41111, RestrictedDir: 0o002}
	f := func(path, want string) {
		t.Helper()
		if got := outcome(t, newRoot(t, o), path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
	f("/open.txt", "static /open.txt")
	f("/closed.txt", "403")
	f("/exec.txt", "403")
	f("/x.php", "script /x.php")
	f("/d/y.txt", "403")
	o.RestrictedScript = 0o100
	f("/x.php", "403")
	o = Options{Dir: dir}
	f("/closed.txt", "static /closed.txt")
	f("/exec.txt", "static /exec.txt")
	f("/d/y.txt", "static /d/y.txt")
}

func TestNoDescriptorStaysOpen(t *testing.T) {
	dir := tree(t, "a.txt", "d/index.html", "x.php", "l -> a.txt", "p -> /etc/passwd", "ld -> d", "loop -> loop")
	count := func() map[string]int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		open := map[string]int{}
		for _, fd := range list {
			if at, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
				open[at]++
			}
		}
		return open
	}
	allModes(t, Options{Dir: dir, Index: []string{"index.html"}, DenyDirs: []string{dir + "/d"}}, func(t *testing.T, r *Root) {
		resolve := func() {
			for _, path := range []string{"/", "/a.txt", "/a.txt/x", "/d", "/d/", "/x.php/i", "/l", "/p", "/ld/", "/ld/index.html", "/loop", "/none"} {
				outcome(t, r, path)
			}
		}
		resolve()
		before := count()
		for range 3 {
			resolve()
		}
		for at, n := range count() {
			// Fewer are no leak: a collection may have closed those of other roots meanwhile.
			if n > before[at] && (at == dir || strings.HasPrefix(at, dir+"/") || at == "/etc/passwd") {
				t.Errorf("%s: %d descriptors, %d before", at, n, before[at])
			}
		}
	})
}
