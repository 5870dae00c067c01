package accesslog

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// children are programs that this test binary is started as, by HTTPJET_LOG_CHILD.
var children = map[string]func(path string) error{
	"write": childWrites, "full": childOnFullDisk, "descriptors": childWithoutDescriptors, "crash": childInCompression,
}

func TestMain(m *testing.M) {
	if child := children[os.Getenv("HTTPJET_LOG_CHILD")]; child != nil {
		if err := child(os.Getenv("HTTPJET_LOG_PATH")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child starts one of children; it has path, and words for itself.
func child(t *testing.T, name, path string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "HTTPJET_LOG_CHILD="+name, "HTTPJET_LOG_PATH="+path)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// sharers write that many lines each; sharedSize has them rotate often.
const (
	sharedLines = 20_000
	sharedSize  = mebibyte
)

// writeShared writes lines of one writer to the file that it shares: most of them queued, and late ones.
func writeShared(path, who string) error {
	var dropped atomic.Uint64
	s := NewSink(Options{Path: path, RollingSize: sharedSize, KeepDays: 30, Compress: true}, &dropped)
	var fault atomic.Pointer[error]
	s.Start(func(err error) { fault.Store(&err) })
	for i := range sharedLines {
		if i == sharedLines-100 {
			s.Retire()
		}
		io.WriteString(s, sharedLine(who, i))
	}
	if err := fault.Load(); err != nil {
		return *err
	}
	if n := dropped.Load(); n > 0 {
		return fmt.Errorf("%d lines dropped", n)
	}
	return nil
}

func sharedLine(who string, i int) string {
	return fmt.Sprintf("%s %06d %s\n", who, i, strings.Repeat("-x", 40+i%100))
}

func childWrites(path string) error { return writeShared(path, os.Getenv("HTTPJET_LOG_WHO")) }

// logFiles are path and what came of it, and logLines are the lines of all.
func logLines(t *testing.T, path string) (lines map[string]int, files int) {
	t.Helper()
	names, err := filepath.Glob(strings.TrimSuffix(path, ".log") + "*")
	if err != nil {
		t.Fatal(err)
	}
	lines = map[string]int{}
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = f
		if strings.HasSuffix(name, ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				lines[line]++
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		f.Close()
	}
	return lines, len(names)
}

// wantShared looks for the lines of all writers, each once and whole.
func wantShared(t *testing.T, path string, who ...string) {
	t.Helper()
	got, files := logLines(t, path)
	lost, double := 0, 0
	for _, w := range who {
		for i := range sharedLines {
			line := sharedLine(w, i)
			switch n := got[line]; {
			case n == 0:
				lost++
			case n > 1:
				double++
			}
			delete(got, line)
		}
	}
	for line := range got {
		t.Errorf("a broken line, one of %d: %.200q", len(got), line)
		break
	}
	if lost > 0 || double > 0 {
		t.Errorf("%d lines lost, %d there more than once, in %d files", lost, double, files)
	}
	if min := len(who) * sharedLines * 170 / sharedSize; files < min {
		t.Errorf("%d files, want at least %d", files, min)
	}
}

// R-LOG-1: sinks of two generations share a file while the first one ends. Every line
// is there once and whole, whoever rotates.
func TestSinksShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	who := []string{"one", "two", "three"}
	var all sync.WaitGroup
	for _, w := range who {
		all.Go(func() {
			if err := writeShared(path, w); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantShared(t, path, who...)
	wantPacked(t, path)
	wantShared(t, path, who...)
}

// wantPacked does what the ends of sinks have left.
func wantPacked(t *testing.T, path string) {
	t.Helper()
	s := NewSink(Options{Path: path, KeepDays: 30, Compress: true}, new(atomic.Uint64))
	if left, err := s.tidy(time.Now()); left || err != nil {
		t.Errorf("%v, left %v", err, left)
	}
	names, err := filepath.Glob(strings.TrimSuffix(path, ".log") + "-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, "-size.log.gz") {
			t.Errorf("%s is left", name)
		}
	}
}

// R-LOG-1: so do processes, of which one succeeds the other.
func TestProcessesShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	var who []string
	var all sync.WaitGroup
	for i := range 3 {
		w := "process" + strconv.Itoa(i)
		who = append(who, w)
		all.Go(func() {
			if err := child(t, "write", path, "HTTPJET_LOG_WHO="+w).Run(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantShared(t, path, who...)
	wantPacked(t, path)
	wantShared(t, path, who...)
}

// open opens a file that is rotated at limit.
func open(t *testing.T, path string, limit int64) *file {
	t.Helper()
	f, err := openFile(path, limit, make(chan struct{}, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t *testing.T, f *file, text string) {
	t.Helper()
	if n, err := f.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

// contents are what files of a directory hold, by name; times are those of rotations, not real.
func contents(t *testing.T, dir string) (names, texts []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		texts = append(texts, read(t, filepath.Join(dir, e.Name())))
	}
	return names, texts
}

// Whoever does not rotate follows, and nobody follows a file that is moved away before
// a signal. Mode and owner stay.
func TestFileFollows(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	a, b := open(t, path, 10), open(t, path, 10)
	if err := os.Chmod(path, 0o604); err != nil {
		t.Fatal(err)
	}
	write(t, a, "0123456\n")
	write(t, b, "0\n") // has room, to the byte
	write(t, b, "1\n") // has none
	write(t, a, "2\n") // follows
	names, texts := contents(t, dir)
	if len(names) != 2 || texts[0] != "0123456\n0\n" || texts[1] != "1\n2\n" {
		t.Fatalf("%q %q", names, texts)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o604 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if len(b.rotated) != 1 || len(a.rotated) != 0 {
		t.Error("who rotates is told, and nobody else")
	}
	moved := filepath.Join(dir, "a.log.1")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	write(t, a, "3\n")
	if _, err := os.Stat(path); err == nil {
		t.Error("the file came back before the signal")
	}
	write(t, b, "45678\n") // its size is reached: it needs another one, which only its name is missing for
	write(t, a, "9\n")
	if got := read(t, moved); got != "1\n2\n3\n" {
		t.Errorf("moved away: %q", got)
	}
	if got := read(t, path); got != "45678\n9\n" {
		t.Errorf("after it: %q", got)
	}
	write(t, a, strings.Repeat("x", 99)+"\n") // longer than a file may be
	write(t, b, "y\n")
	if names, _ := contents(t, dir); len(names) != 5 {
		t.Errorf("files %q", names)
	}
}

// A file that cannot be rotated stays in use, grows, and is told of once.
func TestRotationFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("n", 240)) // its rotated name is too long for file systems
	s := NewSink(Options{Path: path, RollingSize: 1, KeepDays: 30, Compress: true}, new(atomic.Uint64))
	var said []error
	s.Start(func(err error) { said = append(said, err) })
	line := strings.Repeat("x", 999) + "\n"
	for range 3000 {
		io.WriteString(s, line)
	}
	s.Retire()
	if len(said) != 1 || !errors.Is(said[0], ErrNotRotated) || !errors.Is(said[0], syscall.ENAMETOOLONG) {
		t.Errorf("told %v", said)
	}
	names, texts := contents(t, dir)
	if len(names) != 1 || texts[0] != strings.Repeat(line, 3000) || s.dropped.Load() != 0 {
		t.Errorf("%q, %d dropped", names, s.dropped.Load())
	}
}

// The file has its name again if there cannot be another one.
func TestRotationIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	if err := child(t, "descriptors", filepath.Join(dir, "a.log")).Run(); err != nil {
		t.Fatal(err)
	}
	if names, texts := contents(t, dir); len(names) != 1 || texts[0] != "one\ntwo\n" {
		t.Errorf("%q %q", names, texts)
	}
}

func childWithoutDescriptors(path string) error {
	f, err := openFile(path, 5, nil)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte("one\n")); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{}); err != nil {
		return err
	}
	if n, err := f.Write([]byte("two\n")); n != 4 || !errors.Is(err, ErrNotRotated) || !errors.Is(err, syscall.EMFILE) {
		return fmt.Errorf("%d bytes written, %w", n, err)
	}
	return nil
}

// A write that ends in the middle of a line leaves none of it.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	if err := child(t, "full", path).Run(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != "one\ntwo\nfive\n" {
		t.Errorf("%q", got)
	}
}

func childOnFullDisk(path string) error {
	f, err := openFile(path, 0, nil)
	if err != nil {
		return err
	}
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &lim); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 10, Max: lim.Max}); err != nil {
		return err
	}
	s := NewSink(Options{}, new(atomic.Uint64))
	if err := s.put(f, []byte("one\ntwo\nthree\nfour\n")); !errors.Is(err, syscall.EFBIG) || s.dropped.Load() != 2 {
		return fmt.Errorf("%d dropped, %w", s.dropped.Load(), err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &lim); err != nil {
		return err
	}
	return s.put(f, []byte("five\n"))
}

// A writer that was stopped while it had the lock stops nobody for good.
func TestStoppedWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	a, b := open(t, path, 0), open(t, path, 0)
	if !lock(a.f) || lock(b.f) {
		t.Fatal("the lock is not one")
	}
	synctest.Test(t, func(t *testing.T) { // nobody waits in earnest
		write(t, b, "one\n")
		if err := os.Rename(path, path+".1"); err != nil { // and in a rotation
			t.Fatal(err)
		}
		write(t, b, "two\n")
	})
	if _, texts := contents(t, dir); texts[0] != "two\n" || texts[1] != "one\n" {
		t.Errorf("%q", texts)
	}
}

// rotatedThen is the path of a file that was rotated so many days ago.
func rotatedThen(t *testing.T, path string, days int, text string) string {
	t.Helper()
	name := rotatedName(path, time.Now().AddDate(0, 0, -days))
	if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return name
}

// Rotated files are found by the names that they have always had.
func TestRotatedName(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.FixedZone("", 3600))
	for path, want := range map[string]string{
		"/l/a.log":    "/l/a-2026-03-04T04-06-07.089-size.log",
		"/l/x.y.log":  "/l/x.y-2026-03-04T04-06-07.089-size.log",
		"/l.d/access": "/l.d/access-2026-03-04T04-06-07.089-size",
		"/l/.dot":     "/l/-2026-03-04T04-06-07.089-size.dot",
	} {
		if got := rotatedName(path, at); got != want {
			t.Errorf("%s: %s", path, got)
		}
		if got, ok := rotatedAt(path, want); !ok || !got.Equal(at) {
			t.Errorf("%s: %v %v", want, got, ok)
		}
	}
	for _, name := range []string{"/l/a.log", "/l/a-.log", "/l/a-b-2026-03-04T04-06-07.089-size.log", "/l/a-2026-03-04T04-06-07.089-size", "/l/a-2026-03-04T04-06-07-size.log", "/m/a-2026-03-04T04-06-07.089-size.log"} {
		if _, ok := rotatedAt("/l/a.log", name); ok {
			t.Errorf("%s is taken for a rotated file", name)
		}
	}
	path := filepath.Join(t.TempDir(), "a.log") // no two have one name
	for i := range 3 {
		name, err := freeName(path, at)
		if want := rotatedName(path, at.Add(time.Duration(i)*time.Millisecond)); name != want || err != nil {
			t.Errorf("%s, want %s; %v", name, want, err)
		}
		if err := os.WriteFile(name+[]string{"", ".gz", ""}[i], nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// R-LOG-1: rotated files are compressed, keep mode and time, and go after keepDays. No
// other file is touched.
func TestTidy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	if err := os.WriteFile(path, []byte("in use\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a long line\n", 100_000)
	young := rotatedThen(t, path, 29, long)
	then := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := errors.Join(os.Chmod(young, 0o604), os.Chtimes(young, then, then)); err != nil {
		t.Fatal(err)
	}
	older := rotatedThen(t, path, 28, "gz there already\n") // what a crash before the removal leaves
	keep := []string{path, young + ".gz", older + ".gz",
		rotatedThen(t, filepath.Join(dir, "a-b.log"), 99, "of another log\n"),
		rotatedThen(t, filepath.Join(dir, "a.txt"), 99, "of another log\n")}
	for name, text := range map[string]string{older + ".gz": "half", older + ".gz.tmp": "half", rotatedName(path, then) + ".gz.tmp": "half, and its file is gone",
		rotatedThen(t, path, 31, "old\n") + ".gz": "old", rotatedThen(t, path, 32, "old\n") + ".gz.tmp": "old"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(elsewhere, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	link, linked := rotatedName(path, then.AddDate(0, 0, -1)), rotatedName(path, then.AddDate(0, 0, -2))
	if err := errors.Join(os.Symlink(elsewhere, link), os.Link(path, linked), syscall.Mkfifo(rotatedName(path, then.AddDate(0, 0, -3)), 0o600)); err != nil {
		t.Fatal(err)
	}
	keep = append(keep, link, linked, rotatedName(path, then.AddDate(0, 0, -3)))

	s := NewSink(Options{Path: path, KeepDays: 30, Compress: true}, new(atomic.Uint64))
	if left, err := s.tidy(time.Now()); !left || err != nil { // the hard link is in use
		t.Errorf("%v, left %v", err, left)
	}
	got, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keep)
	if !slices.Equal(got, keep) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(keep, "\n"))
	}
	if info, err := os.Stat(young + ".gz"); err != nil || info.Mode() != 0o604 || !info.ModTime().Equal(then) || info.Size() > 10_000 {
		t.Errorf("%v %v", info, err)
	}
	lines, _ := logLines(t, filepath.Join(dir, "a-20.log"))
	if lines["a long line\n"] != 100_000 || lines["gz there already\n"] != 1 {
		t.Errorf("%d long lines", lines["a long line\n"])
	}
	if got := read(t, elsewhere); got != "secret" {
		t.Errorf("what a link leads to is %q", got)
	}
}

// Without a log that has the name nobody knows who writes to rotated files.
func TestTidyWithoutLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	name := rotatedThen(t, path, 1, "text\n")
	s := NewSink(Options{Path: path, Compress: true}, new(atomic.Uint64))
	if left, err := s.tidy(time.Now()); !left || err != nil {
		t.Errorf("%v, left %v", err, left)
	}
	if got := read(t, name); got != "text\n" {
		t.Errorf("%q", got)
	}
}

// What compresses is told to end, and leaves the file to the next one.
func TestCompressionIsCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	open(t, path, 0)
	name := rotatedThen(t, path, 1, "text\n")
	s := NewSink(Options{Path: path, Compress: true}, new(atomic.Uint64))
	f, _, err := s.claim(name)
	if f == nil || err != nil {
		t.Fatal(err)
	}
	close(s.quit)
	if err := s.pack(f, name); !errors.Is(err, errEnding) {
		t.Error(err)
	}
	f.Close()
	if left, err := s.tidy(time.Now()); left || err != nil {
		t.Errorf("%v, left %v", err, left)
	}
	if names, texts := contents(t, filepath.Dir(path)); len(names) != 2 || texts[0] != "text\n" {
		t.Errorf("%q %q", names, texts)
	}
	wantPacked(t, path)
}

// A process that dies while it compresses leaves nothing that is in the way, and while
// it lives nobody else compresses the same file.
func TestCrashInCompression(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	open(t, path, 0)
	name := rotatedThen(t, path, 1, "text\n")
	cmd := child(t, "crash", path, "HTTPJET_LOG_ROTATED="+name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	word, err := bufio.NewReader(out).ReadString('\n')
	s := NewSink(Options{Path: path, Compress: true}, new(atomic.Uint64))
	if left, err := s.tidy(time.Now()); !left || err != nil {
		t.Errorf("%v, left %v", err, left)
	}
	if got := read(t, name+".gz.tmp"); got != "half" || word != "half\n" {
		t.Errorf("%q, %q: %v", word, got, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	wantPacked(t, path)
	if lines, _ := logLines(t, path); lines["text\n"] != 1 || len(lines) != 1 {
		t.Errorf("%v", lines)
	}
}

func childInCompression(path string) error {
	s := NewSink(Options{Path: path, Compress: true}, new(atomic.Uint64))
	name := os.Getenv("HTTPJET_LOG_ROTATED")
	f, _, err := s.claim(name)
	if f == nil || err != nil {
		return fmt.Errorf("not claimed: %w", err)
	}
	if err := os.WriteFile(name+".gz.tmp", []byte("half"), 0o600); err != nil {
		return err
	}
	fmt.Println("half")
	_, err = io.Copy(io.Discard, os.Stdin) // until the end
	return err
}

// A sink compresses what it has rotated without being asked.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	s := start(t, Options{Path: path, RollingSize: 1, Compress: true})
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(events), "inotify")
	defer f.Close()
	if _, err := unix.InotifyAddWatch(events, dir, unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", oneWrite-1) + "\n"
	for range mebibyte/oneWrite + 1 {
		io.WriteString(s, line)
	}
	for buf := make([]byte, 4096); ; { // a name with .gz comes
		n, err := f.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(buf[:n]), ".log.gz\x00") {
			break
		}
	}
	s.Retire()
	if names, _ := contents(t, dir); len(names) != 2 {
		t.Errorf("%q", names)
	}
}

// A write costs the same for one line as for many.
func TestFileAllocations(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "a.log"), 1<<40)
	batch := []byte(strings.Repeat("one line\n", 1000))
	one := testing.AllocsPerRun(100, func() { f.Write(batch[:9]) })
	if n := testing.AllocsPerRun(100, func() { f.Write(batch) }); n > one {
		t.Errorf("%v allocations for 1000 lines, %v for one", n, one)
	}
}
