package docroot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
)

const large = memoryFile + 1

func newCache() *Cache { return NewCache(CacheOptions{MaxFile: 4 << 20, MaxBytes: 1 << 30}) }

// writeFile writes size bytes c to the file name below dir.
func writeFile(t testing.TB, dir, name string, c byte, size int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte{c}, size), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// served resolves path and returns the name of the file, its first byte and its
// size, or the status; and if the answer was a remembered one.
func served(t testing.TB, r *Root, path string) (what string, cached bool) {
	t.Helper()
	res, _, err := r.Resolve(path, "", isPHP)
	if err != nil {
		e, ok := errors.AsType[*exchange.Error](err)
		if !ok {
			t.Fatal(err)
		}
		return fmt.Sprint(e.Status), false
	}
	defer res.Close()
	b := res.Content
	if b == nil {
		if b, err = io.ReadAll(io.NewSectionReader(res.File, 0, 1<<30)); err != nil {
			t.Fatal(err)
		}
	}
	if int64(len(b)) != res.Info.Size() {
		t.Errorf("%s: %d bytes, said to be %d", path, len(b), res.Info.Size())
	}
	first := "-"
	if len(b) > 0 {
		first = string(b[:1])
		if n := bytes.Count(b, b[:1]); n != len(b) {
			t.Errorf("%s: torn content: %d of %d bytes are %q", path, n, len(b), first)
		}
	}
	return fmt.Sprintf("%s %s %d", res.Name, first, len(b)), res.Content != nil || res.Release != nil
}

// warm asks until the answer is remembered.
func warm(t testing.TB, r *Root, path, want string) {
	t.Helper()
	for range 3 {
		if what, _ := served(t, r, path); what != want {
			t.Fatalf("%s: %s, want %s", path, what, want)
		}
	}
	if _, cached := served(t, r, path); !cached {
		t.Fatalf("%s: nothing is remembered", path)
	}
}

// inTime runs test in a bubble whose clock is ahead of that of the file system, so
// that every file is old, or behind it, so that every file may still change
// within the tick of its times.
func inTime(t *testing.T, test func(t *testing.T)) {
	now := time.Now().Round(0)
	for name, at := range map[string]time.Time{"old files": now.Add(time.Hour), "new files": now.Add(-time.Hour)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(at))
				test(t)
			})
		})
	}
}

// R-STATIC-11: whatever happens to a file, its directory, or a link to it is seen
// after one second at most.
func TestRememberedAnswerLastsASecond(t *testing.T) {
	big := fmt.Sprintf("/d/big b %d", large)
	tests := []struct {
		name       string
		o          Options
		path, want string // before
		change     func(t *testing.T, dir string)
		then       string
	}{
		{"content, same size", Options{}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			writeFile(t, dir, "d/a", 'x', 100)
		}, "/d/a x 100"},
		{"shorter", Options{}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			must(t, os.Truncate(dir+"/d/a", 10))
		}, "/d/a a 10"},
		{"empty", Options{}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			must(t, os.Truncate(dir+"/d/a", 0))
		}, "/d/a - 0"},
		{"replaced by rename", Options{}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			writeFile(t, dir, "d/new", 'n', 100)
			must(t, os.Rename(dir+"/d/new", dir+"/d/a"))
		}, "/d/a n 100"},
		{"grown too large for memory", Options{}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			writeFile(t, dir, "d/a", 'l', large)
		}, fmt.Sprintf("/d/a l %d", large)},
		{"deleted", Options{}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/d/a"))
		}, "404"},
		{"mode", Options{Required: 0o004}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			must(t, os.Chmod(dir+"/d/a", 0o640))
		}, "403"},
		{"mode of the directory", Options{RestrictedDir: 0o002}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			must(t, os.Chmod(dir+"/d", 0o777))
		}, "403"},
		{"replaced by a link", Options{}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			must(t, os.Rename(dir+"/d/a", dir+"/d/real"))
			must(t, os.Symlink("real", dir+"/d/a"))
		}, "404"},
		{"directory replaced by a link", Options{}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			must(t, os.Rename(dir+"/d", dir+"/real"))
			must(t, os.Symlink("real", dir+"/d"))
		}, "404"},
		{"link swapped", Options{Links: FollowLinks}, "/l", "/l a 100", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/l"))
			must(t, os.Symlink("d/b", dir+"/l"))
		}, "/l b 100"},
		{"link now leads out", Options{Links: FollowLinks, Restrained: true}, "/l", "/l a 100", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/l"))
			must(t, os.Symlink("/etc/passwd", dir+"/l"))
		}, "404"},
		{"link now leads to a script", Options{Links: FollowLinks}, "/l", "/l a 100", func(t *testing.T, dir string) {
			writeFile(t, dir, "d/x.php", 'p', 10)
			must(t, os.Remove(dir+"/l"))
			must(t, os.Symlink("d/x.php", dir+"/l"))
		}, "403"},
		{"link now leads to a hidden file", Options{Links: FollowLinks}, "/l", "/l a 100", func(t *testing.T, dir string) {
			writeFile(t, dir, "d/.htpasswd", 'p', 10)
			must(t, os.Remove(dir+"/l"))
			must(t, os.Symlink("d/.htpasswd", dir+"/l"))
		}, "403"},
		{"file is a directory now", Options{}, "/d/a", "/d/a a 100", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/d/a"))
			must(t, os.Mkdir(dir+"/d/a", 0o755))
		}, "301"},
		{"index file appears", Options{Index: []string{"index.htm", "index.html"}}, "/", "/index.html i 50", func(t *testing.T, dir string) {
			writeFile(t, dir, "index.htm", 'j', 50)
		}, "/index.htm j 50"},
		{"index file renamed", Options{Index: []string{"index.htm", "index.html"}}, "/", "/index.html i 50", func(t *testing.T, dir string) {
			must(t, os.Rename(dir+"/index.html", dir+"/index.htm"))
		}, "/index.htm i 50"},
		{"index file goes", Options{Index: []string{"index.html"}}, "/", "/index.html i 50", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/index.html"))
		}, "404"},
		{"large file replaced by rename", Options{}, "/d/big", big, func(t *testing.T, dir string) {
			writeFile(t, dir, "d/new", 'n', large)
			must(t, os.Rename(dir+"/d/new", dir+"/d/big"))
		}, fmt.Sprintf("/d/big n %d", large)},
		{"large file deleted", Options{}, "/d/big", big, func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/d/big"))
		}, "404"},
		{"large file replaced by a link", Options{}, "/d/big", big, func(t *testing.T, dir string) {
			must(t, os.Rename(dir+"/d/big", dir+"/d/real"))
			must(t, os.Symlink("real", dir+"/d/big"))
		}, "404"},
		{"directory of a large file replaced", Options{}, "/d/big", big, func(t *testing.T, dir string) {
			must(t, os.Rename(dir+"/d", dir+"/real"))
			must(t, os.Symlink("real", dir+"/d"))
		}, "404"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inTime(t, func(t *testing.T) {
				dir := tree(t, "d/", "l -> d/a")
				writeFile(t, dir, "d/a", 'a', 100)
				writeFile(t, dir, "d/b", 'b', 100)
				writeFile(t, dir, "d/big", 'b', large)
				writeFile(t, dir, "index.html", 'i', 50)
				tc.o.Dir, tc.o.Cache = dir, newCache()
				r := newRoot(t, tc.o)
				warm(t, r, tc.path, tc.want)
				time.Sleep(life - 1) // asked for at the last moment, so that it is fresh
				warm(t, r, tc.path, tc.want)
				tc.change(t, dir)
				time.Sleep(time.Second)
				if what, _ := served(t, r, tc.path); what != tc.then {
					t.Errorf("%s, want %s", what, tc.then)
				}
				tc.o.Cache.Close()
			})
		})
	}
}

// One caller looks again from half of the second on; the others go on with what
// is known, but not beyond the second, however long it takes.
func TestOneCallerLooksAgain(t *testing.T) {
	inTime(t, func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, dir, "a", 'a', 100)
		c := newCache()
		r := newRoot(t, Options{Dir: dir, Cache: c})
		warm(t, r, "/a", "/a a 100")
		writeFile(t, dir, "a", 'x', 100)
		time.Sleep(renewAfter - 1)
		if what, _ := served(t, r, "/a"); what != "/a a 100" {
			t.Errorf("%s before it is time to look again", what)
		}
		time.Sleep(1 * time.Nanosecond)
		e, ok := c.find(key{r, "/a"}, time.Since(c.start))
		if ok {
			t.Fatal("nobody looks again")
		}
		// This test is the one that looks, and takes its time.
		if what, _ := served(t, r, "/a"); what != "/a a 100" {
			t.Errorf("%s while somebody looks", what)
		}
		time.Sleep(life - renewAfter - 1)
		if what, _ := served(t, r, "/a"); what != "/a a 100" {
			t.Errorf("%s while somebody looks", what)
		}
		time.Sleep(1 * time.Nanosecond)
		if what, _ := served(t, r, "/a"); what != "/a x 100" {
			t.Errorf("%s after a second", what)
		}
		// A look that is late has found something older: it does not count.
		late := &entry{key: e.key, born: e.born, ready: true, content: e.content, info: e.info, name: e.name}
		if c.put(late) {
			t.Error("an older answer replaces a newer one")
		}
		if what, _ := served(t, r, "/a"); what != "/a x 100" {
			t.Errorf("%s after a late look", what)
		}
	})
}

// A change in place of a file that is held open is seen at once.
func TestLargeFileChangesInPlace(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "big", 'b', 2*large)
	r := newRoot(t, Options{Dir: dir, Required: 0o004, Cache: newCache()})
	warm(t, r, "/big", fmt.Sprintf("/big b %d", 2*large))
	must(t, os.Truncate(dir+"/big", large))
	if what, _ := served(t, r, "/big"); what != fmt.Sprintf("/big b %d", large) {
		t.Errorf("truncated: %s", what)
	}
	warm(t, r, "/big", fmt.Sprintf("/big b %d", large))
	must(t, os.Chmod(dir+"/big", 0o600))
	if what, _ := served(t, r, "/big"); what != "403" {
		t.Errorf("mode changed: %s", what)
	}
}

// Content that is known to be the same is not read again, nor described again; a
// file that changed a moment ago is.
func TestSameVersionIsKept(t *testing.T) {
	inTime(t, func(t *testing.T) {
		old := strings.Contains(t.Name(), "old_files")
		dir := t.TempDir()
		writeFile(t, dir, "a", 'a', 100)
		r := newRoot(t, Options{Dir: dir, Cache: newCache()})
		resolve := func() exchange.Resource {
			res, _, err := r.Resolve("/a", "", isPHP)
			must(t, err)
			return res
		}
		warm(t, r, "/a", "/a a 100")
		before := resolve()
		time.Sleep(life)
		after := resolve()
		if same := &before.Content[0] == &after.Content[0]; same != old {
			t.Errorf("content kept: %v, want %v", same, old)
		}
		if same := before.Memo == after.Memo; same != old {
			t.Errorf("memo kept: %v, want %v", same, old)
		}
	})
}

// What is asked for once takes no memory and no descriptor.
func TestFirstRequestIsOnlyNoted(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a", 'a', 100)
	writeFile(t, dir, "big", 'b', large)
	c := newCache()
	r := newRoot(t, Options{Dir: dir, Cache: c})
	for _, path := range []string{"/a", "/big"} {
		if _, cached := served(t, r, path); cached {
			t.Errorf("%s is remembered after one request", path)
		}
	}
	if n, bytes, open := c.held(); n != 2 || bytes != 0 || open != 0 {
		t.Errorf("%d entries, %d bytes, %d descriptors", n, bytes, open)
	}
}

// held counts what c holds.
func (c *Cache) held() (entries int, bytes int64, open int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		entries, bytes, open = entries+len(s.entries), bytes+s.bytes, open+s.open
		s.mu.Unlock()
	}
	return entries, bytes, open
}

// Entries, bytes and descriptors are bounded. What finds no room is served all
// the same, what is there stays, and all of it goes with its second.
func TestCacheIsBounded(t *testing.T) {
	const files = 300
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for i := range files {
			writeFile(t, dir, fmt.Sprint("a", i), 'a', 1000)
		}
		f := func(name string, o CacheOptions, fill func(c *Cache), check func(n int, bytes int64, open int) bool) {
			t.Helper()
			c := NewCache(o)
			r := newRoot(t, Options{Dir: dir, Cache: c})
			fill(c)
			before, _, _ := c.held()
			for range 3 {
				for i := range files {
					path := fmt.Sprint("/a", i)
					if what, _ := served(t, r, path); what != path+" a 1000" {
						t.Fatalf("%s: %s: %s", name, path, what)
					}
				}
			}
			n, bytes, open := c.held()
			if !check(n-before, bytes, open) {
				t.Errorf("%s: %d more entries, %d bytes, %d descriptors", name, n-before, bytes, open)
			}
			time.Sleep(life)
			c.Expire(time.Now())
			if n, bytes, open = c.held(); n != 0 || bytes != 0 || open != 0 {
				t.Errorf("%s: after a second %d entries, %d bytes, %d descriptors", name, n, bytes, open)
			}
		}
		all := CacheOptions{MaxFile: 1 << 20, MaxBytes: 1 << 30}
		f("room for all", all, func(*Cache) {}, func(n int, bytes int64, open int) bool {
			return n == files && bytes == files*1000 && open == 0
		})
		f("full of paths", all, func(c *Cache) {
			for i := range shardCount * shardEntries * 2 {
				c.put(&entry{key: key{nil, fmt.Sprint(i)}, born: time.Since(c.start)})
			}
		}, func(n int, bytes int64, open int) bool { return n == 0 && bytes == 0 && open == 0 })
		f("room for a file in each shard", CacheOptions{MaxFile: 1 << 20, MaxBytes: 1999 * shardCount}, func(*Cache) {}, func(n int, bytes int64, open int) bool {
			return bytes > 0 && bytes <= 1000*shardCount && bytes/1000+int64(open) <= int64(n) // others are kept open
		})
		f("no memory", CacheOptions{}, func(*Cache) {}, func(n int, bytes int64, open int) bool {
			return bytes == 0 && open > shardOpen && open <= shardOpen*shardCount
		})
		f("full of descriptors", CacheOptions{}, func(c *Cache) {
			others := &shared{}
			others.refs.Store(1 << 20)
			for i := range shardCount * shardOpen * 4 {
				c.put(&entry{key: key{nil, fmt.Sprint(i)}, born: time.Since(c.start), shared: others})
			}
		}, func(n int, bytes int64, open int) bool { return bytes == 0 && open == shardOpen*shardCount })
	})
}

// R-STATIC-11: with a limit of 0 nothing is held in memory; descriptors are shared.
func TestNoFileInMemory(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a", 'a', 100)
	c := NewCache(CacheOptions{})
	r := newRoot(t, Options{Dir: dir, Cache: c})
	warm(t, r, "/a", "/a a 100")
	if _, bytes, open := c.held(); bytes != 0 || open != 1 {
		t.Errorf("%d bytes, %d descriptors", bytes, open)
	}
}

// A descriptor stays open for whom it was given to, and is closed by the last one.
func TestSharedDescriptor(t *testing.T) {
	f := func(end func(c *Cache, dir string)) {
		t.Helper()
		dir := t.TempDir()
		writeFile(t, dir, "big", 'b', large)
		c := newCache()
		r := newRoot(t, Options{Dir: dir, Cache: c})
		warm(t, r, "/big", fmt.Sprintf("/big b %d", large))
		res, _, err := r.Resolve("/big", "", nil)
		must(t, err)
		file := res.File
		end(c, dir)
		var b [10]byte
		if n, err := file.ReadAt(b[:], large-10); n != 10 || b[9] != 'b' {
			t.Errorf("in use: %d bytes, %v", n, err)
		}
		if _, _, open := c.held(); open != 0 {
			t.Errorf("the cache holds %d descriptors", open)
		}
		res.Close()
		res.Close()
		if _, err := file.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("given back: %v", err)
		}
	}
	f(func(c *Cache, _ string) { c.Close() })
	f(func(c *Cache, _ string) { c.Expire(time.Now().Add(life)) })
	f(func(c *Cache, dir string) { // gone: the next look-up drops it
		must(t, os.Remove(dir+"/big"))
		for k, e := range c.shard("/big").entries {
			e.born -= life
			if what, _ := served(t, k.root, "/big"); what != "404" {
				t.Error(what)
			}
		}
	})
}

// A closed cache remembers nothing: exchanges of a generation that was replaced
// go on without it.
func TestClosedCache(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a", 'a', 100)
	writeFile(t, dir, "big", 'b', large)
	c := newCache()
	r := newRoot(t, Options{Dir: dir, Cache: c})
	warm(t, r, "/a", "/a a 100")
	c.Close()
	for range 4 {
		for path, want := range map[string]string{"/a": "/a a 100", "/big": fmt.Sprintf("/big b %d", large)} {
			if what, cached := served(t, r, path); what != want || cached {
				t.Errorf("%s: %s, remembered %v", path, what, cached)
			}
		}
	}
	if n, _, _ := c.held(); n != 0 {
		t.Errorf("%d entries", n)
	}
}

// Roots with other rules share the bounds, not the answers.
func TestRootsShareNoAnswers(t *testing.T) {
	dir := tree(t, "d/", "l -> d/a")
	writeFile(t, dir, "d/a", 'a', 100)
	c := newCache()
	open := newRoot(t, Options{Dir: dir, Links: FollowLinks, Cache: c})
	strict := newRoot(t, Options{Dir: dir, Cache: c})
	warm(t, open, "/l", "/l a 100")
	if what, _ := served(t, strict, "/l"); what != "404" {
		t.Errorf("strict root: %s", what)
	}
}

// Files are replaced while they are served: every answer is one version, whole,
// and no descriptor is left.
func TestReplaceWhileServed(t *testing.T) {
	before := openDescriptors(t)
	dir := t.TempDir()
	writeFile(t, dir, "a", 'a', 100)
	writeFile(t, dir, "big", 'a', large)
	c := newCache()
	r := newRoot(t, Options{Dir: dir, Cache: c})
	var readers, writer sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			for name, size := range map[string]int{"a": 100, "big": large} {
				writeFile(t, dir, "new", byte('a'+i%2), size+i%2)
				if err := os.Rename(dir+"/new", filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
			c.Expire(time.Now().Add(life)) // everything is looked up anew, again and again
		}
	})
	for range 4 {
		readers.Go(func() {
			for range 150 {
				for _, path := range []string{"/a", "/big"} {
					if what, _ := served(t, r, path); !strings.HasPrefix(what, path) {
						t.Errorf("%s: %s", path, what)
					}
				}
			}
		})
	}
	readers.Wait()
	close(stop)
	writer.Wait()
	c.Close()
	// Fewer are no leak: a collection may have closed those of earlier tests meanwhile.
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors are open, before it were %d", after, before)
	}
}

func openDescriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

// A hit allocates nothing and opens nothing.
func TestHitAllocatesNothing(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a.txt", 'a', 100)
	writeFile(t, dir, "big.txt", 'b', large)
	c := newCache()
	r := newRoot(t, Options{Dir: dir, Links: FollowLinks, Cache: c})
	for _, path := range []string{"/a.txt", "/big.txt"} {
		for range 2 {
			served(t, r, path)
		}
		c.start = time.Now().Add(time.Hour) // stays fresh on a slow machine
		n := testing.AllocsPerRun(100, func() {
			res, _, err := r.Resolve(path, "", isPHP)
			if err != nil || res.Content == nil && res.Release == nil {
				t.Fatalf("%s: not remembered: %v", path, err)
			}
			res.Close()
		})
		c.start = time.Now()
		if n > 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

func BenchmarkResolveCached(b *testing.B) {
	dir := b.TempDir()
	writeFile(b, dir, "a.txt", 'a', 1024)
	writeFile(b, dir, "big.txt", 'b', large)
	for _, path := range []string{"/a.txt", "/big.txt"} {
		b.Run(path[1:], func(b *testing.B) {
			c := newCache()
			r, err := New(Options{Dir: dir, Links: FollowLinks, Cache: c})
			must(b, err)
			b.ReportAllocs()
			for b.Loop() {
				res, _, err := r.Resolve(path, "", isPHP)
				if err != nil {
					b.Fatal(err)
				}
				res.Close()
			}
			c.Close()
		})
	}
}

// Coded copies of a file in memory live as long as its version does, count with it,
// and go with it.
func TestCopiesGoWithTheirFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, dir, "a", 'a', 1000)
		old := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(filepath.Join(dir, "a"), old, old))
		c := NewCache(CacheOptions{MaxFile: 1 << 20, MaxBytes: 2500 * shardCount})
		r := newRoot(t, Options{Dir: dir, Cache: c})
		resolve := func() exchange.Resource {
			t.Helper()
			res, _, err := r.Resolve("/a", "", isPHP)
			must(t, err)
			return res
		}
		warm(t, r, "/a", "/a a 1000")
		kept := func() exchange.Copies {
			t.Helper()
			res := resolve()
			if res.Copies == nil || res.Content == nil {
				t.Fatal("no copies of a file in memory")
			}
			return res.Copies
		}
		first := kept()
		first.KeepCoded("gzip", make([]byte, 300))
		first.KeepCoded("gzip", make([]byte, 200)) // too late
		first.KeepCoded("br", make([]byte, 1201))  // no room
		first.KeepCoded("zstd", make([]byte, 100))
		if n, bytes, _ := c.held(); n != 1 || bytes != 1400 {
			t.Errorf("%d entries, %d bytes", n, bytes)
		}
		if len(kept().Coded("gzip")) != 300 || kept().Coded("br") != nil || len(kept().Coded("zstd")) != 100 {
			t.Error("copies are lost")
		}
		writeFile(t, dir, "a", 'b', 1000)
		time.Sleep(life)
		warm(t, r, "/a", "/a b 1000")
		if kept().Coded("gzip") != nil {
			t.Error("the copy of another version is served")
		}
		first.KeepCoded("br", make([]byte, 10)) // of the other version
		if n, bytes, _ := c.held(); n != 1 || bytes != 1000 {
			t.Errorf("%d entries, %d bytes", n, bytes)
		}
		kept().KeepCoded("br", make([]byte, 10))
		time.Sleep(life)
		c.Expire(time.Now())
		if n, bytes, _ := c.held(); n != 0 || bytes != 0 {
			t.Errorf("%d entries, %d bytes at the end", n, bytes)
		}
	})
}

// The entry that renews another one without a change has its copies.
func TestCopiesAreRenewed(t *testing.T) {
	inTime(t, func(t *testing.T) {
		old := strings.Contains(t.Name(), "old_files")
		dir := t.TempDir()
		writeFile(t, dir, "a", 'a', 1000)
		c := newCache()
		r := newRoot(t, Options{Dir: dir, Cache: c})
		warm(t, r, "/a", "/a a 1000")
		res, _, err := r.Resolve("/a", "", isPHP)
		must(t, err)
		res.Copies.KeepCoded("gzip", make([]byte, 300))
		time.Sleep(life)
		warm(t, r, "/a", "/a a 1000")
		res, _, err = r.Resolve("/a", "", isPHP)
		must(t, err)
		if kept := res.Copies.Coded("gzip") != nil; kept != old {
			t.Errorf("copy kept: %v, want %v", kept, old)
		}
		want := int64(1000)
		if old {
			want = 1300
		}
		if _, bytes, _ := c.held(); bytes != want {
			t.Errorf("%d bytes, want %d", bytes, want)
		}
	})
}
