package watch

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A tree is a folder with files, watched as a server does.
type tree struct {
	*testing.T
	dir   string
	w     *Watcher
	files Sums

	mu    sync.Mutex
	known Sums // what the watcher knows
}

func newTree(t *testing.T, o Options, files ...string) *tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o.Quiet, o.Late, o.Poll = time.Millisecond, 20*time.Millisecond, 5*time.Millisecond
	tr := &tree{T: t, dir: dir, w: New(o), files: Sums{}}
	tr.w.compared = tr.knows
	for _, f := range files {
		tr.write(f, "first")
	}
	return tr
}

// start watches paths as they are now.
func (t *tree) start(paths ...string) {
	t.Helper()
	for _, p := range paths {
		t.files[t.path(p)] = Sum(t.path(p))
	}
	t.w.Watch(t.files)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); t.w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

func (t *tree) path(name string) string { return filepath.Join(t.dir, name) }

func (t *tree) write(name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(t.path(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(t.path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (t *tree) rename(from, to string) {
	t.Helper()
	if err := os.Rename(t.path(from), t.path(to)); err != nil {
		t.Fatal(err)
	}
}

// link makes name, which may be a link, point to target.
func (t *tree) link(target, name string) {
	t.Helper()
	if err := os.Symlink(target, t.path(name+".new")); err != nil {
		t.Fatal(err)
	}
	t.rename(name+".new", name)
}

// knows keeps what the watcher knows.
func (t *tree) knows(files Sums) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = maps.Clone(files)
}

// settled reports whether the watcher has seen the last of what was done to paths: a
// write that it has seen half is told twice.
func (t *tree) settled(paths []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.ContainsFunc(paths, func(p string) bool { return t.known[p] != Sum(p) })
}

// told waits until names, and nothing else, have been told.
func (t *tree) told(names ...string) {
	t.Helper()
	var want, got []string
	for _, n := range names {
		want = append(want, t.path(n))
	}
	slices.Sort(want)
	for !slices.Equal(got, want) || !t.settled(want) {
		select {
		case paths := <-t.w.Changed():
			got = append(got, paths...)
			slices.Sort(got)
			got = slices.Compact(got)
			for _, p := range got {
				if !slices.Contains(want, p) {
					t.Fatalf("told %v, want %v", got, want)
				}
			}
		case <-time.After(time.Minute):
			t.Fatalf("told %v, want %v", got, want)
		}
	}
}

// each runs a test with events and without.
func each(t *testing.T, f func(t *testing.T, o Options)) {
	t.Run("events", func(t *testing.T) { f(t, Options{}) })
	t.Run("poll", func(t *testing.T) { f(t, Options{Blind: true}) })
}

// G47: whatever way a file is changed, and however often, it is noticed.
func TestG47EveryWayToChangeAFile(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		tr := newTree(t, o, "conf/a.xml", "conf/b.xml")
		tr.start("conf/a.xml", "conf/b.xml")
		for _, round := range []string{"1", "2", "3"} {
			tr.write("conf/a.xml", "in place "+round)
			tr.told("conf/a.xml")

			tr.write("conf/new", "renamed over "+round)
			tr.rename("conf/new", "conf/a.xml")
			tr.told("conf/a.xml")

			tr.rename("conf/a.xml", "conf/a.xml~") // vim with a backup
			tr.write("conf/a.xml", "moved and created "+round)
			tr.told("conf/a.xml")

			if err := os.Remove(tr.path("conf/a.xml")); err != nil {
				t.Fatal(err)
			}
			tr.told("conf/a.xml")
			tr.write("conf/a.xml", "created again "+round)
			tr.told("conf/a.xml")

			tr.write("conf/x", "twice at once, one "+round)
			tr.write("conf/y", "twice at once, two "+round)
			tr.rename("conf/x", "conf/a.xml")
			tr.rename("conf/y", "conf/a.xml")
			tr.told("conf/a.xml")

			tr.write("conf/b.xml", "another file "+round)
			tr.told("conf/b.xml")
		}
	})
}

// G47: what a link leads to may change by the file, by the link, or by a link on
// the way, as the ..data of a config map.
func TestG47Links(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		tr := newTree(t, o, "..v1/a.xml", "..v2/a.xml", "..v3/a.xml", "far/off/b.xml")
		tr.write("..v2/a.xml", "second")
		tr.write("..v3/a.xml", "third")
		tr.link("..v1", "..data")
		tr.link("..data/a.xml", "a.xml")
		tr.link(tr.path("far/off/b.xml"), "b.xml")
		tr.start("a.xml", "b.xml")
		tr.link("..v2", "..data")
		tr.told("a.xml")
		tr.link("..v3", "..data") // whose target was not watched at first
		tr.told("a.xml")
		tr.write("..v3/a.xml", "the file itself")
		tr.told("a.xml")
		tr.write("far/off/b.xml", "far off")
		tr.told("b.xml")
		tr.write("c", "c")
		tr.link("c", "b.xml")
		tr.told("b.xml")
		tr.link("nowhere", "b.xml")
		tr.told("b.xml")
		tr.write("nowhere", "somewhere")
		tr.told("b.xml")
	})
}

// A directory is replaced with all that is in it, or comes into being later.
func TestDirectories(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		tr := newTree(t, o, "site/conf/a.xml")
		tr.start("site/conf/a.xml", "later/conf/b.xml")
		tr.rename("site/conf", "site/old")
		tr.told("site/conf/a.xml")
		tr.write("site/conf/a.xml", "in a new directory")
		tr.told("site/conf/a.xml")
		tr.write("site/conf/a.xml", "and again")
		tr.told("site/conf/a.xml")
		tr.rename("site", "elsewhere")
		tr.told("site/conf/a.xml")
		tr.rename("elsewhere", "site")
		tr.told("site/conf/a.xml")
		if err := os.RemoveAll(tr.path("site")); err != nil {
			t.Fatal(err)
		}
		tr.told("site/conf/a.xml")
		tr.write("later/conf/b.xml", "at last")
		tr.told("later/conf/b.xml")
	})
}

// What a pattern matches may come and go, in directories that come and go.
func TestPatterns(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		tr := newTree(t, o, "parts/a.conf", "hosts/one/x.conf", "odd[1]/a.xml")
		tr.start("parts/*.conf", "hosts/*/x.conf", "none/*.conf", "parts/a.conf", "odd[1]/a.xml", "odd[1]/b.xml")
		tr.write("parts/remark.txt", "matches nothing")
		tr.write("parts/b.conf", "new")
		tr.told("parts/*.conf")
		if err := os.Remove(tr.path("parts/b.conf")); err != nil {
			t.Fatal(err)
		}
		tr.told("parts/*.conf")
		tr.write("parts/a.conf", "second")
		tr.told("parts/a.conf")
		tr.write("hosts/two/x.conf", "new")
		tr.told("hosts/*/x.conf")
		tr.write("hosts/three/y.conf", "matches nothing")
		tr.rename("hosts/three/y.conf", "hosts/three/x.conf") // in a directory that was there before
		tr.told("hosts/*/x.conf")
		tr.write("none/a.conf", "new")
		tr.told("none/*.conf")
		tr.write("odd[1]/a.xml", "second")
		tr.told("odd[1]/a.xml")
		tr.write("odd[1]/b.xml", "new")
		tr.told("odd[1]/b.xml")
		if SumOfNames(nil) != Sum(tr.path("gone/*")) || SumOfNames([]string{tr.path("none/a.conf")}) != Sum(tr.path("none/*")) {
			t.Error("the sum of a pattern is not that of its names")
		}
	})
}

// When the kernel gives no more watches, files are polled, however many they are.
func TestNoMoreWatches(t *testing.T) {
	tr := newTree(t, Options{})
	var files []string
	for i := range 1500 {
		name := fmt.Sprintf("site%d/conf/a.xml", i)
		tr.write(name, "first")
		files = append(files, name)
	}
	tr.w.o.Poll = time.Second
	tr.w.refuse = func(string) error { return syscall.ENOSPC }
	tr.start(files...)
	tr.write("site1234/conf/a.xml", "second")
	tr.told("site1234/conf/a.xml")
	if err := os.Remove(tr.path("site7/conf/a.xml")); err != nil {
		t.Fatal(err)
	}
	tr.told("site7/conf/a.xml")
}

// Only contents count, and what Watch said about them.
func TestOnlyContentsCount(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		tr := newTree(t, o, "a", "b", "c", "d")
		tr.files[tr.path("d")] = Sum(tr.path("d"))
		tr.write("d", "written after it was used and before it was watched")
		tr.start("a", "b")
		tr.told("d")
		tr.write("a", "first")
		if err := os.Chtimes(tr.path("a"), time.Now(), time.Now()); err != nil {
			t.Fatal(err)
		}
		tr.write("c", "not watched")
		tr.write("b", "second")
		tr.told("b")

		// Another set: b is not in it any more.
		tr.w.Watch(Sums{tr.path("a"): Sum(tr.path("a")), tr.path("c"): "something else"})
		tr.told("c")
		tr.write("b", "third")
		tr.write("a", "second")
		tr.told("a")
	})
}

// What is no regular file is never waited for.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	if s := Sum(dir); s != "" {
		t.Errorf("sum of a directory is %q", s)
	}
	if s := Sum(filepath.Join(dir, "missing")); s != "" {
		t.Errorf("sum of a missing file is %q", s)
	}
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	if steps, _ := way(filepath.Join(dir, "loop", "x")); len(steps) == 0 || Sum(filepath.Join(dir, "loop")) != "" {
		t.Error("a link to itself has contents")
	}
}

func TestWayOfEveryPath(t *testing.T) {
	f := func(path string) {
		t.Helper()
		steps, _ := way(path)
		for _, s := range steps {
			if !filepath.IsAbs(s.dir) || s.name == "" || strings.Contains(s.name, "/") {
				t.Errorf("%q: step %+v", path, s)
			}
		}
	}
	f("/")
	f("/etc")
	f("/etc/../etc//passwd")
	f("/proc/self/exe")
	f("/no/such/place")
}
