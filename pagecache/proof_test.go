package pagecache

import (
	"errors"
	"os"
	"testing"
	"time"

	"httpjet/store"
)

// R-CACHE-14: bytes that change under a server that runs are not served, whoever has
// written the file. A small body is compared whenever it is read, so that it may even rot
// without a trace.
func TestBodiesThatChange(t *testing.T) {
	now := time.Now()
	for _, target := range []string{"/small", "/middle", "/big"} {
		for _, restarted := range []bool{false, true} {
			dir := t.TempDir()
			s := onDisk(t, dir, Options{})
			s.ask(get{target: target, now: now}, says(200, opted, bodies[target]))
			if restarted {
				s.Cache.Close()
				s = onDisk(t, dir, Options{})
			}
			var e *store.Entry
			s.Cache.store.Each(func(one *store.Entry) bool { e = one; return true })
			o := e.Object
			o.Body = store.Body{} // as if memory had become short
			if e = s.Cache.store.Replace(e, o, e.Ticket()); e == nil {
				t.Fatal("not replaced")
			}
			name := files(t, dir)[0]
			look := func(want error) {
				t.Helper()
				f, err := os.Open(name)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := s.Cache.read(e, f); !errors.Is(err, want) {
					t.Errorf("%s, restarted %v: %v, want %v", target, restarted, err, want)
				}
			}
			look(nil)
			look(nil)
			later := time.Now().Add(time.Hour).Truncate(time.Second)
			os.Chtimes(name, later, later) // touched, and the same
			look(nil)
			if got := *infoOf(e).proven.Load(); got.written != later.UnixNano() {
				t.Errorf("%s: proven as of %v, want %v", target, got.written, later.UnixNano())
			}
			look(nil)
			flip(t, name, 2)
			look(errChanged)
			if target == "/small" {
				fi, err := os.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				infoOf(e).prove(fi) // as if nobody had written to it
				look(errChanged)
				s.Cache.store.Use(e)
				look(errChanged) // on its way into memory
			}
			got := s.ask(get{target: target, now: now}, says(200, opted, "anew"))
			if !got.made || got.body != "anew" {
				t.Errorf("%s, restarted %v: made %v, %.10q", target, restarted, got.made, got.body)
			}
			if n := len(files(t, dir)); n != 1 {
				t.Errorf("%s: %d files", target, n)
			}
			s.Cache.Close()
		}
	}
}
