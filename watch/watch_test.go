package watch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
}

func newTree(t *testing.T, o Options, files ...string) *tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o.Quiet, o.Late, o.Poll = time.Millisecond, 20*time.Millisecond, 5*time.Millisecond
	tr := &tree{t, dir, New(o), Sums{}}
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

// told waits until names, and nothing else, have been told.
func (t *tree) told(names ...string) {
	t.Helper()
	var want, got []string
	for _, n := range names {
		want = append(want, t.path(n))
	}
	slices.Sort(want)
	for !slices.Equal(got, want) {
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
