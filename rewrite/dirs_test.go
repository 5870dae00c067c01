package rewrite

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"httpjet/exchange"
)

// tree is a document root with a clock of its own.
type tree struct {
	*Dirs
	t       *testing.T
	root    string
	now     time.Time
	notices int
}

func newTree(t *testing.T) *tree {
	tr := &tree{t: t, root: t.TempDir(), now: time.Now().Add(time.Hour)}
	tr.Dirs = NewDirs(Options{Root: tr.root, Now: func() time.Time { return tr.now },
		Report: func(n []Notice) { tr.notices += len(n) }})
	return tr
}

func (tr *tree) write(name, text string) {
	tr.t.Helper()
	name = filepath.Join(tr.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) want(path string, status int) {
	tr.t.Helper()
	v := tr.Verdict(Request{Path: path, Method: "GET", Client: netip.MustParseAddr("192.0.2.1")})
	if v.Status != status {
		tr.t.Errorf("%s: %+v, want %d", path, v, status)
	}
}

// R-RW-4: any deny in the chain wins; the chain ends at the document root.
func TestChain(t *testing.T) {
	tr := newTree(t)
	tr.write("private/.htaccess", "Require all denied")
	tr.write("private/open/.htaccess", "Require all granted\nAllow from all")
	tr.write("auth/.htaccess", "AuthType Basic\nRequire valid-user")
	tr.write("auth/never/.htaccess", "Deny from all")
	tr.write("site/.htaccess", "<Files secret.php>\nDeny from all\n</Files>")
	tr.write("site/deep/secret.php", "x")
	tr.write("site/index.php", "x")
	tr.write("site/secret.php", "x")
	tr.want("/", 0)
	tr.want("/index.html", 0)
	tr.want("/private/", 403)
	tr.want("/private/a", 403)
	tr.want("/private/open/a", 403)
	tr.want("/private/nowhere/a", 403)
	tr.want("/privateer/a", 0)
	tr.want("/auth/a", 503)
	tr.want("/auth/never/a", 403)
	tr.want("/site/index.php", 0)
	tr.want("/site/secret.php", 403)
	tr.want("/site/deep/secret.php", 403)
	tr.want("/site/secret.php/path/info", 403) // the file on the way is the one meant
	tr.want("/site/index.php/secret", 0)
	tr.want("/missing/secret.php", 0)
	tr.want("/"+strings.Repeat("x", 300)+"/a", 0)
	tr.want("/private/../site/", 503)
	tr.want("relative", 503)
	tr.want("/site/\x00/a", 403)
	if v := tr.Verdict(Request{Path: "/site/", Name: "secret.php", Method: "GET"}); v.Status != 403 {
		t.Errorf("index file: %+v", v)
	}
}

// R-RW-5: the chain of a rewritten path is its own.
func TestRewrittenPath(t *testing.T) {
	tr := newTree(t)
	tr.write("b/.htaccess", "Deny from all")
	tr.want("/a/x", 0)
	tr.want("/b/x", 403)
}

func TestErr(t *testing.T) {
	tr := newTree(t)
	tr.write("d/.htaccess", "\nDeny from all")
	tr.write("c/.htaccess", "AuthName x")
	f := func(path string, status int, reason, detail string) {
		t.Helper()
		err := tr.Check(path, asked(t, "GET /", ""))
		if err == nil {
			if status != 0 {
				t.Errorf("%s is let in", path)
			}
			return
		}
		if exchange.StatusOf(err) != status || exchange.ReasonOf(err) != reason || !strings.Contains(err.Error(), detail) {
			t.Errorf("%s: %v", path, err)
		}
	}
	f("/a", 0, "", "")
	f("/d/a", 403, "access_denied", "d/.htaccess:2: Order, Allow and Deny")
	f("/c/a", 503, "closed", "c/.htaccess:1: AuthType without a Require")
}

func TestUnusableFiles(t *testing.T) {
	tr := newTree(t)
	tr.write("dir/.htaccess/x", "")
	tr.write("big/.htaccess", strings.Repeat("#", 1<<20+1))
	tr.write("full/.htaccess", strings.Repeat("#", 1<<20))
	tr.write("wide/.htaccess", "D\x00e\x00n\x00y\x00")
	tr.want("/dir/a", 503)
	tr.want("/big/a", 503)
	tr.want("/full/a", 0)
	tr.want("/wide/a", 503)
	tr.write("pipe/x", "")
	if err := syscall.Mkfifo(filepath.Join(tr.root, "pipe/.htaccess"), 0o644); err != nil {
		t.Fatal(err)
	}
	tr.want("/pipe/a", 503)
	tr.write("loop/x", "")
	if err := os.Symlink(".htaccess", filepath.Join(tr.root, "loop/.htaccess")); err != nil {
		t.Fatal(err)
	}
	tr.want("/loop/a", 403) // unreadable
	tr.write("lost/x", "")
	if err := os.Symlink("nowhere", filepath.Join(tr.root, "lost/.htaccess")); err != nil {
		t.Fatal(err)
	}
	tr.want("/lost/a", 403) // a file that is not mounted today must not open the directory
	if os.Getuid() != 0 {
		tr.write("dark/.htaccess", "Allow from all")
		if err := os.Chmod(filepath.Join(tr.root, "dark/.htaccess"), 0); err != nil {
			t.Fatal(err)
		}
		tr.want("/dark/a", 403)
	}
}

// Files of a context are found by their place on disk, whatever path they have.
func TestCheckFile(t *testing.T) {
	tr := newTree(t)
	tr.write("shut/.htaccess", "Require all denied")
	tr.write("part/.htaccess", "<Files x.txt>\nDeny from all\n</Files>\nRedirectMatch 403 ^/alias/y")
	f := func(file, url string, status int) {
		t.Helper()
		err := tr.CheckFile(file, url, asked(t, "GET /", ""))
		e, _ := errors.AsType[*exchange.Error](err)
		if status == 0 && err != nil || status != 0 && (e == nil || e.Status != status) {
			t.Errorf("%s as %s: %v, want %d", file, url, err, status)
		}
	}
	f(tr.root+"/shut/in/x", "/alias/x", 403)
	f(tr.root+"/part/x.txt", "/one", 403)
	f(tr.root+"/part/y", "/alias/y", 403)
	f(tr.root+"/part/y", "/other/y", 0)
	f(tr.root+"/x", "/x", 0)
	f(tr.root+"x/y", "/x", 503)
	f("/elsewhere/x", "/x", 503)
}

// Names that no directory can have are not kept: a client could fill the memory
// with them.
func TestLongNamesAreForgotten(t *testing.T) {
	tr := newTree(t)
	tr.write(".htaccess", "Require all denied")
	name := strings.Repeat("d", 255)
	tr.write(name+"/x", "")
	tr.want("/"+name+"/x", 403)
	before := len(tr.dirs)
	tr.want("/"+name+"d/x", 403)
	tr.want("/"+strings.Repeat("long", 2000)+"/x", 403)
	if len(tr.dirs) != before || before != 2 {
		t.Errorf("%d directories remembered, then %d", before, len(tr.dirs))
	}
}

func TestTooDeep(t *testing.T) {
	tr := newTree(t)
	deep := strings.Repeat("d/", maxDepth)
	tr.write(deep+"e/x", "")
	tr.want("/"+deep+"x", 0)
	tr.want("/"+deep+"e/x", 503)
}

// R-RW-1: files are looked at again after a second, not before.
func TestRevalidate(t *testing.T) {
	tr := newTree(t)
	tr.write("d/x", "")
	steps := []struct {
		text   string
		before int
		after  int
	}{
		{"Deny from all", 0, 403},
		{"Allow from all", 403, 0},
		{"AuthType x", 0, 503},
		{"", 503, 0},
		{"Deny from all", 0, 403},
	}
	tr.want("/d/x", 0)
	for _, s := range steps {
		tr.write("d/.htaccess", s.text)
		tr.now = tr.now.Add(fresh - 1)
		tr.want("/d/x", s.before)
		tr.now = tr.now.Add(1)
		tr.want("/d/x", s.after)
	}
	os.Remove(filepath.Join(tr.root, "d/.htaccess"))
	tr.now = tr.now.Add(fresh)
	tr.want("/d/x", 0)
	tr.write("new/.htaccess", "Deny from all") // a directory that was missing appears
	tr.want("/new/x", 403)
	tr.want("/later/x", 0)
	tr.write("later/.htaccess", "Deny from all")
	tr.want("/later/x", 0)
	tr.now = tr.now.Add(fresh)
	tr.want("/later/x", 403)
}

// A change that leaves size and modification time alone is seen by inode or
// change time.
func TestRevalidateSameTimeAndSize(t *testing.T) {
	tr := newTree(t)
	tr.write("d/.htaccess", "Deny  from all")
	name := filepath.Join(tr.root, "d/.htaccess")
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	tr.want("/d/x", 403)
	tr.write("d/new", "Allow from all")
	if err := os.Chtimes(filepath.Join(tr.root, "d/new"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(tr.root, "d/new"), name); err != nil {
		t.Fatal(err)
	}
	tr.now = tr.now.Add(fresh)
	tr.want("/d/x", 0)
}

func TestReportOncePerChange(t *testing.T) {
	tr := newTree(t)
	tr.now = time.Now() // the file is fresh, so it is read twice
	tr.write("d/.htaccess", "IndexIgnore a\nXBitHack on")
	for range 3 {
		tr.want("/d/x", 0)
		tr.now = tr.now.Add(2 * fresh)
	}
	if tr.notices != 2 {
		t.Errorf("%d notices, want 2", tr.notices)
	}
	tr.write("d/.htaccess", "IndexIgnore a")
	tr.want("/d/x", 0)
	if tr.notices != 3 {
		t.Errorf("%d notices after the change, want 3", tr.notices)
	}
}

// R-RW-1: at most 16384 directories are remembered, missing ones included.
func TestBound(t *testing.T) {
	tr := newTree(t)
	for i := range maxDirs + 100 {
		tr.want("/"+strconv.Itoa(i)+"/x", 0)
	}
	if n := len(tr.dirs); n > maxDirs {
		t.Errorf("%d directories remembered", n)
	}
}

func TestCheapWithoutFiles(t *testing.T) {
	tr := newTree(t)
	tr.write("a/b/c/x", "")
	x := asked(t, "GET /", "")
	tr.want("/a/b/c/x", 0)
	if n := testing.AllocsPerRun(100, func() {
		if tr.Check("/a/b/c/x", x) != nil {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestConcurrent(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, ".htaccess"), []byte("Deny from all"), 0o644); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	now := time.Now()
	d := NewDirs(Options{Root: root, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(fresh / 3)
		return now
	}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				if d.Check("/"+strconv.Itoa(i%7)+"/x", &exchange.Exchange{}) == nil {
					t.Error("let in")
				}
			}
		})
	}
	wg.Wait()
}
