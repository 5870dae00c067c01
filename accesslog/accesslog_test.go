package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
)

// wire takes a response and throws it away.
type wire struct{ cut error }

func (w *wire) Read([]byte) (int, error)                  { return 0, io.EOF }
func (w *wire) Trailers() *exchange.Fields                { return nil }
func (w *wire) StopRead()                                 {}
func (w *wire) Head(*exchange.Response, bool, bool) error { return w.cut }
func (w *wire) Write(p []byte) (int, error)               { return len(p), nil }
func (w *wire) Flush() error                              { return nil }
func (w *wire) End(*exchange.Fields) error                { return nil }
func (w *wire) Abort(error)                               {}
func (w *wire) Context() context.Context                  { return context.Background() }

func finished(edit func(x *exchange.Exchange), h exchange.HandlerFunc) (*exchange.Exchange, error) {
	x := &exchange.Exchange{}
	x.Reset(&wire{})
	x.Began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600))
	x.Req.Method, x.Req.Target, x.Req.Proto = "GET", "/a?b", "HTTP/1.1"
	x.Req.ID = "0123456789abcdef0123456789abcdef"
	x.Req.Client = netip.MustParseAddr("192.0.2.1")
	x.Req.Fields.Add("Referer", "https://example.com/")
	x.Req.Fields.Add("User-Agent", "curl/8")
	if edit != nil {
		edit(x)
	}
	return x, exchange.Run(x, h)
}

func hello(x *exchange.Exchange) error {
	_, err := x.Write([]byte("hello"))
	return err
}

// R-LOG-1: combined format and request id, UTC, bytes really sent.
func TestLine(t *testing.T) {
	f := func(format Format, want string, edit func(x *exchange.Exchange), h exchange.HandlerFunc) {
		t.Helper()
		x, err := finished(edit, h)
		if got := string(format.Line(nil, x, err, &Clock{}, time.Unix(0, 0))); got != want+"\n" {
			t.Errorf("\n got %s want %s", got, want)
		}
	}
	const id = " 0123456789abcdef0123456789abcdef"
	const head = `192.0.2.1 - - [04/Mar/2026:04:06:07 +0000] "GET /a?b HTTP/1.1" `
	f(Combined, head+`200 5 "https://example.com/" "curl/8"`+id, nil, hello)
	f(Common, head+`200 5`+id, nil, hello)
	f(Common, `192.0.2.1 - - [01/Jan/1970:00:00:00 +0000] "-" 200 5 -`,
		func(x *exchange.Exchange) { x.Began, x.Req.Method, x.Req.ID = time.Time{}, "", "" }, hello)
	f(Common, head+`204 0`+id, nil, func(x *exchange.Exchange) error { return x.Start(204) })
	f(Common, head+`200 5`+id, nil, func(x *exchange.Exchange) error {
		hello(x)
		return errors.New("cut") // after the head: the status that was sent
	})
	f(Common, `- - - [04/Mar/2026:04:06:07 +0000] "GET /a?b HTTP/1.1" 200 5`+id,
		func(x *exchange.Exchange) { x.Req.Client = netip.Addr{} }, hello)
	f(Common, `198.51.100.1 - - [04/Mar/2026:04:06:07 +0000] "GET /a?b HTTP/1.1" 200 5`+id,
		func(x *exchange.Exchange) {
			x.Req.Client, x.Req.Remote = netip.Addr{}, netip.MustParseAddrPort("[::ffff:198.51.100.1]:5")
		}, hello)
	f(Common, `192.0.2.1 - ann+b\"c\x01 [04/Mar/2026:04:06:07 +0000] "GET /a?b HTTP/1.1" 200 5`+id,
		func(x *exchange.Exchange) { x.Req.User = "ann b\"c\x01" }, hello)
	f(Combined, `192.0.2.1 - - [04/Mar/2026:04:06:07 +0000] "GET /\"\x0d\x0a\xc3\xa9\x7f HTTP/1.1" 200 5 "-" "a\\\x00\x1b[31m"`+id,
		func(x *exchange.Exchange) {
			x.Req.Target = "/\"\r\n\u00e9\x7f"
			x.Req.Fields.Del("Referer")
			x.Req.Fields.Set("User-Agent", "a\\\x00\x1b[31m")
		}, hello)
}

// R-LOG-2: one object whose members are always there; a text is one whatever a client
// sent.
func TestJSON(t *testing.T) {
	f := func(format Format, want string, edit func(x *exchange.Exchange), h exchange.HandlerFunc) {
		t.Helper()
		x, err := finished(func(x *exchange.Exchange) {
			x.Ended = x.Began.Add(1234567 * time.Nanosecond)
			if edit != nil {
				edit(x)
			}
		}, h)
		got := format.Line(nil, x, err, &Clock{}, time.Unix(0, 0))
		if string(got) != want+"\n" || !json.Valid(got) {
			t.Errorf("\n got %s want %s", got, want)
		}
	}
	const id = `"request_id":"0123456789abcdef0123456789abcdef"`
	f(Completion, `{"level":"info","msg":"request_completed","time":"2026-03-04T04:06:07.000Z",`+id+`,"vhost":"","method":"GET","route":"unmatched","group":"","peer":null,"status":403,"bytes":270,"duration_ms":1.234,"attempts":0,"outcome":"no_attempt","error":"access_denied","queue_ms":0.000,"dial_ms":0.000,"head_ms":0.000,"rest_ms":1.234,"trace_id":""}`,
		nil, func(x *exchange.Exchange) error { return exchange.Fail(403, "access_denied", "no") })
	f(Completion, `{"level":"info","msg":"request_completed","time":"2026-03-04T04:06:07.000Z",`+id+`,"vhost":"site","method":"GET","route":"/app/","group":"app","peer":2,"status":200,"bytes":5,"duration_ms":1.234,"attempts":3,"outcome":"success","error":"","queue_ms":0.100,"dial_ms":0.020,"head_ms":1.003,"rest_ms":0.111,"trace_id":"4bf9"}`,
		func(x *exchange.Exchange) {
			x.Route = exchange.Route{VHost: "site", Label: "/app/", Group: "app"}
			x.TraceID = "4bf9"
			x.Attempts = exchange.Attempts{N: 3, Peer: 2, Outcome: "success", Phases: exchange.Phases{
				Queue: 100 * time.Microsecond, Dial: 20 * time.Microsecond, Head: 1003 * time.Microsecond}}
		}, hello)
	f(JSON, `{"time":"2026-03-04T04:06:07.000Z",`+id+`,"client":"192.0.2.1","user":"","vhost":"","method":"GET","target":"/\"\\\u000d\u000a\u007f\u0085é\ufffd","protocol":"HTTP/1.1","route":"unmatched","group":"","peer":null,"status":200,"bytes":5,"duration_ms":1.234,"attempts":0,"outcome":"no_attempt","error":"","queue_ms":0.000,"dial_ms":0.000,"head_ms":0.000,"rest_ms":1.234,"trace_id":"","referer":"https://example.com/","user_agent":"curl/8"}`,
		func(x *exchange.Exchange) { x.Req.Target = "/\"\\\r\n\x7f\u0085é\xff" }, hello)
	x, err := finished(nil, hello)
	buf := make([]byte, 0, 1024)
	var c Clock
	if n := testing.AllocsPerRun(100, func() { buf = JSON.Line(buf[:0], x, err, &c, time.Time{}) }); n != 0 {
		t.Errorf("%v allocations per line", n)
	}
}

func TestStatus(t *testing.T) {
	f := func(want int, cut error, h exchange.HandlerFunc) {
		t.Helper()
		x := &exchange.Exchange{}
		x.Reset(&wire{cut})
		err := exchange.Run(x, h)
		if got := x.LoggedStatus(err); got != want {
			t.Errorf("status %d, want %d (%v)", got, want, err)
		}
	}
	fails := func(err error) exchange.HandlerFunc { return func(*exchange.Exchange) error { return err } }
	f(200, nil, hello)
	f(403, nil, fails(exchange.Fail(403, "access_denied", "no")))
	f(500, nil, fails(errors.New("oops")))
	f(499, nil, fails(fmt.Errorf("reading: %w", exchange.ErrClientGone)))
	f(499, exchange.ErrClientGone, fails(exchange.ErrClientGone))
	x := &exchange.Exchange{}
	x.Reset(&wire{})
	if got := x.LoggedStatus(exchange.Fail(431, "request_head_too_large", "x")); got != 431 {
		t.Errorf("status of an exchange that never started: %d", got)
	}
}

func TestLineNoAllocation(t *testing.T) {
	x, err := finished(nil, hello)
	buf := make([]byte, 0, 1024)
	var c Clock
	if n := testing.AllocsPerRun(100, func() { buf = Combined.Line(buf[:0], x, err, &c, time.Time{}) }); n != 0 {
		t.Errorf("%v allocations per line", n)
	}
}

// What looks at eight bytes at once finds every byte at every place.
func TestPlain(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				s := strings.Repeat("~", at) + string([]byte{byte(c)}) + strings.Repeat(" ", n-at-1)
				if got, want := plain(s), c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; got != want {
					t.Fatalf("%q: %v, want %v", s, got, want)
				}
			}
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add("/", "-", "x")
	f.Add("/\n", "\"", "\x00\xff")
	f.Fuzz(func(t *testing.T, target, referer, agent string) {
		x, err := finished(func(x *exchange.Exchange) {
			x.Req.Target = target
			x.Req.Fields.Set("Referer", referer)
			x.Req.Fields.Set("User-Agent", agent)
		}, hello)
		line := Combined.Line(nil, x, err, &Clock{}, time.Time{})
		if bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Fatalf("more than one line: %q", line)
		}
		quotes := 0
		for i := 0; i < len(line)-1; i++ {
			switch c := line[i]; {
			case c < 0x20 || c > 0x7e:
				t.Fatalf("unprintable: %q", line)
			case c == '\\':
				i++
			case c == '"':
				quotes++
			}
		}
		if quotes != 6 {
			t.Fatalf("%d quotes in %q", quotes, line)
		}
	})
}

func start(t *testing.T, opt Options) *Sink {
	t.Helper()
	s := NewSink(opt, new(atomic.Uint64))
	s.Start(func(err error) { t.Error(err) })
	return s
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSinkWrites(t *testing.T) {
	name := filepath.Join(t.TempDir(), "logs", "deep", "a.log") // the directory is made
	s := NewSink(Options{Path: name}, new(atomic.Uint64))
	s.Write([]byte("early\n"))
	for range 2 {
		s.Start(func(err error) { t.Error(err) })
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				s.Write([]byte("line\n"))
			}
		})
	}
	wg.Wait()
	s.Retire()
	if got := read(t, name); got != "early\n"+strings.Repeat("line\n", 4000) || s.dropped.Load() != 0 {
		t.Errorf("%d bytes, %d dropped", len(got), s.dropped.Load())
	}
	s.Write([]byte("late\n"))
	if got := read(t, name); !strings.HasSuffix(got, "line\nlate\n") {
		t.Error("a late line is lost")
	}
}

func TestSinkRetiredBeforeStart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.log")
	s := NewSink(Options{Path: name}, new(atomic.Uint64))
	s.Write([]byte("a\n"))
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	s.Retire()
	if _, err := os.Stat(name); err == nil || s.dropped.Load() != 1 {
		t.Errorf("stat %v, %d dropped", err, s.dropped.Load())
	}
}

func TestSinkUnwritable(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, filepath.Join(dir, "file", "a.log")} {
		s := NewSink(Options{Path: name}, new(atomic.Uint64))
		var said []error
		for range 3 {
			s.Start(func(err error) { said = append(said, err) })
		}
		if len(said) != 1 || !strings.HasPrefix(said[0].Error(), "log file "+name+": ") {
			t.Errorf("%s: told %v, want one line that names the file", name, said)
		}
		s.Retire()
	}
	s := start(t, Options{Path: "/dev/null", RollingSize: 1}) // not rotated away
	s.Write(make([]byte, 2<<20))
	s.Retire()
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode().IsRegular() || s.dropped.Load() != 0 {
		t.Errorf("/dev/null is now %v %v", info, err)
	}
}

// R-LOG-1: the queue holds 65536 lines; more are shed and counted, nobody waits.
func TestSinkSheds(t *testing.T) {
	var dropped atomic.Uint64
	s := NewSink(Options{Path: filepath.Join(t.TempDir(), "a.log")}, &dropped)
	for range maxLines + 3 {
		s.Write([]byte("x\n"))
	}
	if dropped.Load() != 3 {
		t.Errorf("%d dropped, want 3", dropped.Load())
	}
	s.Start(func(err error) { t.Error(err) })
	s.Retire()
	if got := len(read(t, s.opt.Path)); got != 2*maxLines {
		t.Errorf("%d bytes written", got)
	}
	s = NewSink(Options{Path: s.opt.Path}, &dropped)
	for range 5 {
		s.Write(make([]byte, maxBytes/4))
	}
	if dropped.Load() != 4 {
		t.Errorf("%d dropped, want 4: bytes are bounded too", dropped.Load())
	}
}

// R-LOG-1: rotation at the size, compressed, no line lost or cut.
func TestSinkRotates(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Options{Path: filepath.Join(dir, "a.log"), RollingSize: 1 << 20, Compress: true, KeepDays: 30})
	const lines = 40000
	for i := range lines {
		fmt.Fprintf(s, "%08d %s\n", i, strings.Repeat("x", 54))
	}
	s.Retire()
	if left, err := NewSink(s.opt, new(atomic.Uint64)).tidy(time.Now()); left || err != nil { // what Retire did not wait for
		t.Errorf("%v, left %v", err, left)
	}
	names, err := filepath.Glob(filepath.Join(dir, "a*"))
	if err != nil || len(names) < 3 {
		t.Fatalf("files %v %v", names, err)
	}
	seen := map[string]bool{}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = f
		switch info, _ := f.Stat(); {
		case info.Size() > 1<<20:
			t.Errorf("%s has %d bytes", name, info.Size())
		case strings.HasSuffix(name, ".gz"):
			if r, err = gzip.NewReader(f); err != nil {
				t.Fatal(err)
			}
		case filepath.Base(name) != "a.log":
			t.Errorf("%s is not compressed", name)
		}
		for sc := bufio.NewScanner(r); sc.Scan(); {
			if len(sc.Text()) != 63 {
				t.Fatalf("%s: line %q", name, sc.Text())
			}
			seen[sc.Text()[:8]] = true
		}
		f.Close()
	}
	if len(seen) != lines || s.dropped.Load() != 0 {
		t.Errorf("%d lines, %d dropped", len(seen), s.dropped.Load())
	}
}

func TestSinkReopens(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.log")
	s := NewSink(Options{Path: name}, new(atomic.Uint64))
	var said []error
	s.Start(func(err error) { said = append(said, err) })
	s.Write([]byte("one\n"))
	if err := s.Reopen(); err != nil { // what was queued is on disk
		t.Fatal(err)
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	s.Write([]byte("two\n"))
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	s.Write([]byte("three\n"))
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Reopen(); err == nil {
			t.Error("no error for a directory")
		}
		s.Write([]byte("three\n"))
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	s.Write([]byte("four\n"))
	s.Retire()
	if len(said) != 1 || !errors.Is(said[0], ErrNotRotated) || !errors.Is(said[0], syscall.EISDIR) {
		t.Errorf("told %v, want the directory once", said)
	}
	if got := read(t, name+".1") + read(t, name); got != "one\ntwo\nfour\n" || s.dropped.Load() != 0 {
		t.Errorf("%q, %d dropped", got, s.dropped.Load())
	}
	if err := s.Reopen(); err != nil {
		t.Errorf("after Retire: %v", err)
	}
}

// brokenFile fails while broken is set.
type brokenFile struct {
	broken bool
	got    bytes.Buffer
}

func (b *brokenFile) Write(p []byte) (int, error) {
	if b.broken {
		return 0, errors.New("disk full")
	}
	return b.got.Write(p)
}

func TestPutCountsLostLines(t *testing.T) {
	s := NewSink(Options{}, new(atomic.Uint64))
	b := &brokenFile{broken: true}
	long := strings.Repeat("x", maxWrite+5) + "\n"
	if err := s.put(b, []byte("a\nb\n"+long)); err == nil || s.dropped.Load() != 3 {
		t.Errorf("%v, %d dropped", err, s.dropped.Load())
	}
	b.broken = false
	batch := "a\n" + long + strings.Repeat("b\n", maxWrite) + "end without newline"
	if err := s.put(b, []byte(batch)); err != nil || b.got.String() != batch || s.dropped.Load() != 3 {
		t.Errorf("%v, %d bytes, %d dropped", err, b.got.Len(), s.dropped.Load())
	}
}

// What has gathered until flush comes is one write, and more is cut into few: each takes
// the lock of the file.
func TestPutWritesFewPieces(t *testing.T) {
	s := NewSink(Options{}, new(atomic.Uint64))
	const line = "0123456789abcde\n" // of which 2 KiB make oneWrite
	for size, want := range map[int]int64{len(line): 1, oneWrite: 1, oneWrite + 10*len(line): 1, maxWrite: 1, maxWrite + len(line): 2, 10 * oneWrite: 5} {
		out := &counted{}
		if err := s.put(out, []byte(strings.Repeat(line, size/len(line)))); err != nil || out.writes.Load() != want || out.bytes.Load() != int64(size) {
			t.Errorf("%d bytes: %d in %d writes, want %d; %v", size, out.bytes.Load(), out.writes.Load(), want, err)
		}
	}
}

func TestErrorLog(t *testing.T) {
	var buf bytes.Buffer
	var level slog.LevelVar
	log := NewErrorLog(&level, &buf)
	f := func(want string) {
		t.Helper()
		line := buf.String()
		buf.Reset()
		if want == "" {
			if line != "" {
				t.Errorf("unexpected %q", line)
			}
			return
		}
		stamp, rest, _ := strings.Cut(line, " ")
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", stamp); err != nil || rest != want+"\n" {
			t.Errorf("\n got %q\nwant %q (%v)", rest, want, err)
		}
	}
	log.Info("published generation 7", "hosts", 3, "took", 2*time.Second)
	f("INFO published generation 7 hosts=3 took=2s")
	log.Debug("hidden")
	f("")
	level.Set(slog.LevelDebug)
	log.Debug("shown")
	f("DEBUG shown")
	log.Error(`context "/a/": \` + "\nERROR forged \"")
	f(`ERROR context "/a/": \\\x0aERROR forged "`)
	log.Log(context.Background(), LevelNotice, "n")
	f("NOTICE n")
	log.Error("dial", "err", errors.New(`no "x"`+"\r\nERROR forged"), "empty", "", "path", `a\b`)
	f(`ERROR dial err="no \"x\"\x0d\x0aERROR forged" empty="" path="a\\b"`)
	log.Warn("a\nb")
	f(`WARN a\x0ab`)
	log.With("v", 1).WithGroup("g").With("w", 2).Warn("m", "k", 3, slog.Group("h", "i", 4), slog.Group("", "j", 5))
	f("WARN m v=1 g.w=2 g.k=3 g.h.i=4 g.j=5")
	log.Warn("m", "big", strings.Repeat("x", 10000))
	f("WARN m big=" + strings.Repeat("x", maxValue) + "...")
}

func TestErrorLogToSink(t *testing.T) {
	name := filepath.Join(t.TempDir(), "error.log")
	s := start(t, Options{Path: name})
	var copied bytes.Buffer
	NewErrorLog(slog.LevelWarn, s, &copied).Warn("to both")
	s.Retire()
	if got := read(t, name); got != copied.String() || !strings.HasSuffix(got, "WARN to both\n") {
		t.Errorf("file %q, copy %q", got, copied.String())
	}
}

func TestParseLevel(t *testing.T) {
	f := func(word string, want slog.Level, ok bool) {
		t.Helper()
		if l, good := ParseLevel(word); l != want || good != ok {
			t.Errorf("%q: %v %v", word, l, good)
		}
	}
	f("ERROR", slog.LevelError, true)
	f("warn", slog.LevelWarn, true)
	f("Notice", LevelNotice, true)
	f("INFO", slog.LevelInfo, true)
	f("DEBUG", slog.LevelDebug, true)
	f("WARNING", slog.LevelInfo, false)
	f("", slog.LevelInfo, false)
}

// counted is a file that counts its writes.
type counted struct {
	writes, bytes atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}
func (c *counted) Close() error { return nil }

func TestLinesAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSink(Options{}, new(atomic.Uint64))
		s.running.Store(true)
		var out counted
		go s.flush(&out)
		synctest.Wait()
		line := []byte(strings.Repeat("x", 99) + "\n")
		for range 100 {
			s.Write(line)
			synctest.Wait()
		}
		if out.writes.Load() != 0 {
			t.Errorf("%d writes at once", out.writes.Load())
		}
		time.Sleep(gather)
		synctest.Wait()
		if out.writes.Load() != 1 || out.bytes.Load() != int64(100*len(line)) {
			t.Errorf("%d bytes in %d writes", out.bytes.Load(), out.writes.Load())
		}
		for range oneWrite/len(line) + 1 { // as much as one write takes does not wait
			s.Write(line)
		}
		synctest.Wait()
		if out.writes.Load() < 2 {
			t.Error("a full write waits")
		}
		s.Write(line)
		s.Retire()
		if want := int64((100 + oneWrite/len(line) + 2) * len(line)); out.bytes.Load() != want {
			t.Errorf("%d bytes, want %d", out.bytes.Load(), want)
		}
	})
}

// What a line costs, in each format.
func BenchmarkLine(b *testing.B) {
	x, err := finished(func(x *exchange.Exchange) {
		x.Route = exchange.Route{VHost: "site", Label: "/app/", Group: "app"}
		x.TraceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	}, hello)
	buf := make([]byte, 0, 1024)
	for name, format := range map[string]Format{"combined": Combined, "json": JSON, "completion": Completion} {
		b.Run(name, func(b *testing.B) {
			var c Clock
			for b.Loop() {
				buf = format.Line(buf[:0], x, err, &c, time.Time{})
			}
		})
	}
}
