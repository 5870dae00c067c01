package pagecache

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// onDisk is a site whose entries are kept below dir, read as after a start. Close gives
// the directory up.
func onDisk(t testing.TB, dir string, o Options) *Site {
	t.Helper()
	s := newSite(o)
	d, err := s.Cache.Disk(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Disk = d
	d.load(t.Context(), s.Cache)
	return s
}

// files are the entries below dir.
func files(t testing.TB, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, dirName, "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var bodies = map[string]string{"/small": "page", "/middle": strings.Repeat("0123456789", 10<<10), "/big": strings.Repeat("abcdefg", 300<<10)}

// R-CACHE-14: entries survive a restart, of every size.
func TestEntriesSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for round := range 3 {
		s := onDisk(t, dir, Options{MaxBytes: 8 << 20})
		for target, body := range bodies {
			got := s.ask(get{target: target, now: now}, says(200, opted+"X-LiteSpeed-Tag: t\nX-A: \xff\x00 b", body))
			if got.body != body || got.made != (round == 0) {
				t.Fatalf("round %d: %s: made %v, %d bytes", round, target, got.made, len(got.body))
			}
			if round > 0 && (got.cache != "hit" || got.fields.Get("X-A") != "\xff\x00 b" || got.fields.Get("ETag") == "") {
				t.Fatalf("%+v", got.fields)
			}
		}
		s.Cache.Close()
	}
	if n := len(files(t, dir)); n != 3 {
		t.Errorf("%d files", n)
	}
	s := onDisk(t, dir, Options{})
	defer s.Cache.Close()
	for target := range bodies {
		if got := s.ask(get{target: target, now: now.Add(time.Minute + 201*time.Second)}, says(200, "", "new")); got.body != "new" {
			t.Errorf("%s: life began anew with the restart", target)
		}
	}
}

// Private entries never come to a disk.
func TestPrivateEntriesAreNotWritten(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, dir, Options{})
	defer s.Cache.Close()
	for target, body := range bodies {
		s.ask(get{target: target, now: time.Now(), fields: []string{"Cookie: PHPSESSID=1"}}, says(200, "X-LiteSpeed-Cache-Control: private,max-age=60", body))
	}
	if list := files(t, dir); len(list) != 0 {
		t.Errorf("%q", list)
	}
}

// A purge holds over a restart, also one that ended the process before a sweep.
func TestPurgesSurviveARestart(t *testing.T) {
	for purge, want := range map[string]string{"tag=t1": "/2 /3", "t*": "/3", "*": "", "stale,tag=t1": "/2 /3", "/3": "/1 /2", "": "/1 /2 /3"} {
		for _, swept := range []bool{false, true} {
			t.Run(fmt.Sprint(purge, swept), func(t *testing.T) {
				dir := t.TempDir()
				now := time.Now()
				clock := now
				s := onDisk(t, dir, Options{Now: func() time.Time { return clock }})
				for i := 1; i <= 3; i++ {
					tag := fmt.Sprint("X-LiteSpeed-Tag: t", i)
					if i == 3 {
						tag = ""
					}
					s.ask(get{target: fmt.Sprint("/", i), now: now}, says(200, opted+tag, "old"))
				}
				s.ask(get{target: "/p", now: now}, says(200, "X-LiteSpeed-Purge: "+purge, ""))
				if swept {
					for range 4 {
						clock = clock.Add(sweepEvery)
						s.Cache.Sweep(t.Context())
					}
				}
				s.Cache.Close()
				for restart := range 2 {
					s = onDisk(t, dir, Options{})
					var there []string
					for i := 1; i <= 3; i++ {
						target := fmt.Sprint("/", i)
						if got := s.ask(get{target: target, now: now}, says(404, "", "")); got.body == "old" {
							there = append(there, target)
						}
					}
					if got := strings.Join(there, " "); got != want {
						t.Errorf("after start %d there is %q, want %q", restart+1, got, want)
					}
					s.Cache.Close()
				}
			})
		}
	}
}

// Whatever happens to the files: never a wrong or a cut body, and others are still there.
func TestDamagedFiles(t *testing.T) {
	damage := map[string]func(t *testing.T, path string){
		"cut":              func(t *testing.T, p string) { truncate(t, p, 10) },
		"empty":            func(t *testing.T, p string) { truncate(t, p, 0) },
		"a byte less":      func(t *testing.T, p string) { truncate(t, p, -1) },
		"byte of the body": func(t *testing.T, p string) { flip(t, p, 1) },
		"byte of the head": func(t *testing.T, p string) { flip(t, p, -footLen-20) },
		"byte of the foot": func(t *testing.T, p string) { flip(t, p, -3) },
		"longer": func(t *testing.T, p string) {
			f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteString("more")
			f.Close()
		},
		"that of another": func(t *testing.T, p string) {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			copy(b, bytes.ToUpper(b[:100]))
			os.WriteFile(p+"~", b, 0o600)
			os.Rename(p+"~", p)
		},
		"gone":        func(t *testing.T, p string) { os.Remove(p) },
		"a directory": func(t *testing.T, p string) { os.Remove(p); os.Mkdir(p, 0o700) },
		"a link": func(t *testing.T, p string) {
			os.Rename(p, p+".x")
			os.Symlink(p+".x", p)
		},
		"a fifo-like name beside it": func(t *testing.T, p string) { os.WriteFile(filepath.Dir(p)+"/README", []byte("x"), 0o600) },
		"a foreign file of our name": func(t *testing.T, p string) {
			os.WriteFile(filepath.Join(filepath.Dir(p), filepath.Base(filepath.Dir(p))+strings.Repeat("0", 22)), bytes.Repeat([]byte("x"), 5000), 0o600)
		},
	}
	for name, hurt := range damage {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprint(name, running), func(t *testing.T) {
				dir := t.TempDir()
				now := time.Now()
				s := onDisk(t, dir, Options{})
				s.ask(get{target: "/hurt", now: now}, says(200, opted, bodies["/big"]))
				hurtFile := files(t, dir)[0]
				s.ask(get{target: "/whole", now: now}, says(200, opted, bodies["/big"]))
				if !running {
					s.Cache.Close()
				}
				hurt(t, hurtFile)
				if !running {
					s = onDisk(t, dir, Options{})
				}
				defer s.Cache.Close()
				got := s.ask(get{target: "/hurt", now: now}, says(200, opted, bodies["/middle"]))
				if got.cut || got.err != nil || got.body != bodies["/big"] && got.body != bodies["/middle"] {
					t.Errorf("%d bytes, %v", len(got.body), got.err)
				}
				if got := s.ask(get{target: "/whole", now: now}, says(200, "", "x")); got.body != bodies["/big"] {
					t.Errorf("the other one: %d bytes", len(got.body))
				}
				if fi, err := os.Stat(filepath.Dir(hurtFile) + "/README"); strings.Contains(name, "README") && (err != nil || fi.Size() != 1) {
					t.Error("a foreign file was touched")
				}
			})
		}
	}
}

func truncate(t *testing.T, path string, n int64) {
	t.Helper()
	if n < 0 {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		n += fi.Size()
	}
	if err := os.Truncate(path, n); err != nil {
		t.Fatal(err)
	}
}

// flip changes the byte at off, from the end if that is negative.
func flip(t *testing.T, path string, off int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if off < 0 {
		off += len(b)
	}
	b[off] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour) // clocks of file systems may stand still meanwhile
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
}

// What a process that was killed leaves half written, and a journal that is cut or gone,
// is not believed.
func TestAJournalThatIsNotWhole(t *testing.T) {
	for name, hurt := range map[string]func(path string) error{
		"gone":    os.Remove,
		"cut":     func(p string) error { return os.Truncate(p, 30) },
		"foreign": func(p string) error { return os.WriteFile(p, []byte("x\ny\n"), 0o600) },
		"half a line": func(p string) error {
			b, err := os.ReadFile(p)
			return errorsOr(err, os.WriteFile(p, append(b, "tag 99"...), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			now := time.Now()
			s := onDisk(t, dir, Options{})
			s.ask(get{target: "/", now: now}, says(200, opted, "old"))
			s.Cache.Close()
			if err := hurt(filepath.Join(dir, dirName, "purges")); err != nil {
				t.Fatal(err)
			}
			os.WriteFile(filepath.Join(dir, dirName, tempName+"123"), []byte("half"), 0o600)
			past := now.Add(-time.Hour)
			os.Chtimes(filepath.Join(dir, dirName, tempName+"123"), past, past)
			s = onDisk(t, dir, Options{})
			if got := s.ask(get{target: "/", now: now}, says(200, opted, "new")); got.body != "new" {
				t.Errorf("%+v", got)
			}
			if _, err := os.Stat(filepath.Join(dir, dirName, tempName+"123")); err == nil {
				t.Error("a half written file stays")
			}
			s.Cache.Close()
			s = onDisk(t, dir, Options{}) // what was stored since is believed
			if got := s.ask(get{target: "/", now: now}, says(200, opted, "newer")); got.body != "new" {
				t.Errorf("%+v", got)
			}
			s.Cache.Close()
		})
	}
}

func errorsOr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// A clock that is set back makes entries of the future, one that is set forward old ones:
// neither is served as fresh.
func TestClockJumpsOverARestart(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, time.Hour, 10 * 365 * 24 * time.Hour} {
		dir := t.TempDir()
		s := onDisk(t, dir, Options{})
		now := time.Now()
		s.ask(get{target: "/", now: now}, says(200, opted, "old"))
		s.Cache.Close()
		s = newSite(Options{Now: func() time.Time { return now.Add(jump) }})
		d, err := s.Cache.Disk(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.Disk = d
		d.load(t.Context(), s.Cache)
		if got := s.ask(get{target: "/", now: now.Add(jump)}, says(200, "", "new")); got.body != "new" {
			t.Errorf("jump of %v: %+v", jump, got)
		}
		s.Cache.Close()
	}
}

// A disk that is full: answers go out whole, entries stay in memory, files come back when
// there is room.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, dir, Options{})
	now := time.Now()
	ours := filepath.Join(dir, dirName)
	os.Rename(ours, ours+".away") // nothing can be made there
	for target, body := range bodies {
		if got := s.ask(get{target: target, now: now}, says(200, opted, body)); got.body != body || got.cut {
			t.Fatalf("%s: %d bytes", target, len(got.body))
		}
		got := s.ask(get{target: target, now: now}, says(200, opted, body))
		if got.body != body || got.made != (target == "/big") { // which is too long to be in memory while it is made
			t.Errorf("%s: made again %v", target, got.made)
		}
	}
	s.ask(get{target: "/p", now: now}, says(200, "X-LiteSpeed-Purge: /small", ""))
	os.Rename(ours+".away", ours)
	if s.Cache.Totals().Get(WriteErrors) == 0 {
		t.Error("nothing was counted")
	}
	s.ask(get{target: "/later", now: now}, says(200, opted, "x"))
	if len(files(t, dir)) != 1 {
		t.Errorf("%q", files(t, dir))
	}
	s.Cache.Close()
}

// A disk without room says so at any write, in the middle of a body too: ENOSPC of the
// kernel, from /dev/full.
func TestNoSpaceLeft(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, dir, Options{MaxBytes: 64 << 20})
	defer s.Cache.Close()
	now := time.Now()
	room := 0 // files that there is room for
	s.Disk.create = func(dir, pattern string) (*os.File, error) {
		f, err := os.CreateTemp(dir, pattern)
		if err != nil || room > 0 {
			room--
			return f, err
		}
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		defer f.Close()
		fd, err := syscall.Dup(int(full.Fd()))
		return os.NewFile(uintptr(fd), f.Name()), err // so that what is removed is that file
	}
	for target, body := range bodies {
		if got := s.ask(get{target: target, now: now}, says(200, opted, body)); got.body != body || got.cut || got.err != nil {
			t.Errorf("%s: %d of %d bytes, %v", target, len(got.body), len(body), got.err)
		}
		if got := s.ask(get{target: target, now: now}, says(200, opted, body)); got.body != body || got.made != (target == "/big") {
			t.Errorf("%s: again: %d bytes, made %v", target, len(got.body), got.made)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, dirName, tempName+"*"))
	if n := len(files(t, dir)) + len(left); n != 0 || err != nil {
		t.Errorf("%d files, %q", n, left)
	}
	if n := s.Cache.Totals(); n.Get(FullErrors) == 0 || n.Get(FullErrors) != n.Get(WriteErrors) {
		t.Errorf("%d write errors, %d for want of room", n.Get(WriteErrors), n.Get(FullErrors))
	}
	room = 1
	if s.ask(get{target: "/later", now: now}, says(200, opted, "x")); len(files(t, dir)) != 1 {
		t.Error("files do not come back")
	}
}

// Files of what is evicted, purged or replaced go; those that are in use stay until then.
func TestFilesGoWithTheirEntries(t *testing.T) {
	dir := t.TempDir()
	clock := time.Now()
	s := onDisk(t, dir, Options{MaxDisk: 100 << 10, Now: func() time.Time { return clock }})
	defer s.Cache.Close()
	for i := range 100 {
		s.ask(get{target: fmt.Sprint("/", i), now: clock}, says(200, opted, strings.Repeat("x", 4<<10)))
	}
	n := int64(len(files(t, dir)))
	if c := s.Cache.Totals().Stored; n != c.Entries || c.Disk > 100<<10 || n < 10 {
		t.Errorf("%d files, %+v", n, c)
	}
	s.ask(get{target: "/p", now: clock}, says(200, "X-LiteSpeed-Purge: *", ""))
	clock = clock.Add(sweepEvery)
	s.Cache.Sweep(t.Context())
	clock = clock.Add(sweepEvery)
	s.Cache.Sweep(t.Context())
	if list := files(t, dir); len(list) != 0 {
		t.Errorf("%q", list)
	}
}

// Two processes with one directory: the second one has no files as long as the first
// lives, and takes them over then, without what it has purged meanwhile (upgrade).
func TestTheSecondProcessTakesOver(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	first := onDisk(t, dir, Options{})
	for _, target := range []string{"/kept", "/purged", "/soft"} {
		first.ask(get{target: target, now: now}, says(200, opted, "first"))
	}
	second := onDisk(t, dir, Options{})
	if d, err := second.Cache.Disk(dir + "/."); err != nil || d != second.Disk {
		t.Error("the same directory is another disk")
	}
	second.ask(get{target: "/p", now: now}, says(200, "X-LiteSpeed-Purge: /purged, /soft~s, /late", ""))
	first.ask(get{target: "/late", now: now}, says(200, opted, "first")) // begun before or behind that purge: nobody knows
	second.ask(get{target: "/own", now: now}, says(200, opted, "second"))
	second.Cache.Sweep(t.Context())
	if second.Disk.usable() {
		t.Error("two processes have one directory")
	}
	if got := second.ask(get{target: "/own", now: now}, says(200, opted, "again")); got.body != "second" {
		t.Errorf("in memory: %+v", got)
	}
	first.Cache.Close()
	second.Cache.Sweep(t.Context())
	if !second.Disk.usable() {
		t.Fatal("the directory is not taken over")
	}
	second.ask(get{target: "/filed", now: now}, says(200, opted, "second"))
	for restart := range 2 {
		for target, want := range map[string]string{"/kept": "first", "/purged": "none", "/soft": "none", "/late": "none", "/filed": "second"} {
			if got := second.ask(get{target: target, now: now}, says(404, "", "none")); got.body != want {
				t.Errorf("start %d: %s is %q, want %q", restart, target, got.body, want)
			}
		}
		second.Cache.Close()
		second = onDisk(t, dir, Options{})
	}
	second.Cache.Close()
}

// Nothing is believed from before a process that has purged and could not note it.
func TestPurgesThatAreNotNoted(t *testing.T) {
	for name, gap := range map[string]func(t *testing.T, dir string, first *Site){
		"of a second process that ended first": func(t *testing.T, dir string, first *Site) {
			second := onDisk(t, dir, Options{})
			second.ask(get{target: "/p", now: time.Now()}, says(200, "X-LiteSpeed-Purge: *", ""))
			second.Cache.Close()
			first.Cache.Close()
		},
		"of a second process that lives": func(t *testing.T, dir string, first *Site) {
			second, third := onDisk(t, dir, Options{}), onDisk(t, dir, Options{})
			third.ask(get{target: "/p", now: time.Now()}, says(200, "X-LiteSpeed-Purge: *", ""))
			first.Cache.Close()
			second.Cache.Sweep(t.Context())
			second.Cache.Close()
			t.Cleanup(third.Cache.Close)
		},
		"more than are remembered": func(t *testing.T, dir string, first *Site) {
			second := onDisk(t, dir, Options{})
			second.Cache.Purge([]Purge{{Tag: siteTag("v")}})
			for i := range maxPurges + 10 {
				second.Cache.Purge([]Purge{{Tag: fmt.Sprint("other", i)}})
			}
			first.Cache.Close()
			second.Cache.Sweep(t.Context())
			second.Cache.Close()
		},
		"of one that did not use it": func(t *testing.T, dir string, first *Site) {
			first.Cache.Close()
			if err := Distrust(dir); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			now := time.Now()
			s := onDisk(t, dir, Options{})
			s.ask(get{target: "/", now: now}, says(200, opted, "old"))
			gap(t, dir, s)
			for _, want := range []string{"new", "new"} {
				s = onDisk(t, dir, Options{})
				if got := s.ask(get{target: "/", now: now}, says(200, opted, "new")); got.body != want {
					t.Errorf("%+v", got)
				}
				s.Cache.Close()
			}
		})
	}
	if err := Distrust(t.TempDir()); err != nil {
		t.Errorf("where no files are: %v", err)
	}
}

// A site without the cache for a while, over a restart or a reload, has purged what nobody
// has noted.
func TestASiteThatComesBack(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	start := func(sites ...string) *Site {
		s := newSite(Options{})
		d, err := s.Cache.Disk(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.Cache.Serve(sites)
		s.Disk = d
		d.load(t.Context(), s.Cache)
		return s
	}
	expect := func(s *Site, body, want string) {
		t.Helper()
		if got := s.ask(get{target: "/", now: now}, says(200, opted, body)); got.body != want {
			t.Errorf("%q, want %q", got.body, want)
		}
	}
	s := start("v", "w")
	expect(s, "1", "1")
	s.Cache.Serve([]string{"w", "v"})
	expect(s, "2", "1")
	s.Cache.Serve([]string{"w"}) // two reloads
	s.Cache.Serve([]string{"v"})
	expect(s, "3", "3")
	s.Cache.Close()
	s = start("v")
	expect(s, "4", "3")
	s.Cache.Close()
	start("w").Cache.Close()
	s = start("v", "w")
	expect(s, "5", "5")
	s.Cache.Close()
}

func FuzzHead(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, seq, ok := parseHead(b)
		if !ok {
			return
		}
		again := appendHead(nil, &o, seq)
		p, seq2, ok := parseHead(again)
		if !ok || seq2 != seq || p.Key != o.Key || len(p.Fields) != len(o.Fields) || len(p.Tags) != len(o.Tags) {
			t.Errorf("%v became %v", o, p)
		}
	})
}
