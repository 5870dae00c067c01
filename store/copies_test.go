package store

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"httpjet/exchange"
)

// grow keeps a small copy of e, if nobody else makes or has one.
func grow(_ *Store, e *Entry) {
	if _, state := e.Coded("gzip"); state == exchange.CopyYours {
		e.KeepCoded("gzip", make([]byte, 10), exchange.CopyHere)
	}
}

// keep makes a copy of n bytes.
func keep(t *testing.T, e *Entry, name string, n int) []byte {
	t.Helper()
	if b, state := e.Coded(name); state != exchange.CopyYours || b != nil {
		t.Fatalf("%s: %v", name, state)
	}
	b := bytes.Repeat([]byte{1}, n)
	e.KeepCoded(name, b, exchange.CopyHere)
	return b
}

func has(e *Entry, name string) bool {
	_, state := e.Coded(name)
	if state == exchange.CopyYours {
		e.KeepCoded(name, nil, exchange.CopyNone)
	}
	return state == exchange.CopyHere
}

// R-CACHE-16: copies count with their entry, go with it, and stay when it is validated.
func TestCopiesGoWithTheirEntry(t *testing.T) {
	s := New(Options{})
	e := s.Put(object("/", ""), s.Ticket())
	before := s.Bytes()
	keep(t, e, "gzip", 1000)
	keep(t, e, "br", 500)
	if n := s.Bytes() - before; n != 1500+2*copySize || e.Size() != s.Bytes() {
		t.Errorf("%d bytes more, entry %d of %d", n, e.Size(), s.Bytes())
	}
	if !has(e, "gzip") || !has(e, "br") || has(e, "zstd") || fmt.Sprint(e.Codings()) != "[br gzip]" {
		t.Errorf("copies: %v", e.Codings())
	}
	o := e.Object
	o.Fresh = o.Fresh.Add(1)
	r := s.Replace(e, o, s.Ticket())
	if !has(r, "gzip") || r.Size() != s.Bytes() {
		t.Errorf("validated: %v, %d of %d bytes", r.Codings(), r.Size(), s.Bytes())
	}
	// Who has begun before, with the older entry, gives it to the later one.
	keep(t, e, "zstd", 100)
	if !has(r, "zstd") || r.Size() != s.Bytes() {
		t.Errorf("%v, %d of %d bytes", r.Codings(), r.Size(), s.Bytes())
	}
	other := s.Put(object("/", ""), s.Ticket()) // another response
	if has(other, "gzip") || other.Size() != s.Bytes() {
		t.Errorf("of another response: %v, %d of %d bytes", other.Codings(), other.Size(), s.Bytes())
	}
	s.Remove(other)
	if _, state := other.Coded("gzip"); state != exchange.CopyYours {
		t.Fatal(state)
	}
	other.KeepCoded("gzip", make([]byte, 100), exchange.CopyHere)
	if n := s.Bytes(); n != 0 || has(other, "gzip") {
		t.Errorf("an entry that has left: %d bytes, %v", n, other.Codings())
	}
}

// What would not be smaller is asked for once; what came to nothing may be tried again.
func TestCopiesThatAreNone(t *testing.T) {
	s := New(Options{MaxBytes: 80_000})
	e := s.Put(object("/", ""), s.Ticket())
	for range 2 {
		if _, state := e.Coded("gzip"); state != exchange.CopyYours {
			t.Fatal(state)
		}
		e.KeepCoded("gzip", nil, exchange.CopyNone)
	}
	for range 2 {
		if _, state := e.Coded("gzip"); state != exchange.CopyYours {
			t.Fatal("too large, and kept:", state)
		}
		e.KeepCoded("gzip", make([]byte, 10_001), exchange.CopyHere)
	}
	if _, state := e.Coded("gzip"); state != exchange.CopyYours {
		t.Fatal(state)
	}
	e.KeepCoded("gzip", nil, exchange.CopyUseless)
	if _, state := e.AwaitCoded(context.Background(), "gzip"); state != exchange.CopyUseless {
		t.Fatal(state)
	}
	if n := s.making.Load(); n != 0 {
		t.Errorf("%d are being made", n)
	}
}

// One makes a copy, the others wait for him, but not for longer than copyWait nor their
// own context; and no more than maxMaking are made at once.
func TestCopiesAreMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		e := s.Put(object("/", ""), s.Ticket())
		if _, state := e.Coded("gzip"); state != exchange.CopyYours {
			t.Fatal(state)
		}
		if _, state := e.Coded("gzip"); state != exchange.CopyNone {
			t.Error("somebody makes it:", state)
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if b, state := e.AwaitCoded(t.Context(), "gzip"); state != exchange.CopyHere || string(b) != "coded" {
					t.Errorf("%v %q", state, b)
				}
			})
		}
		gone, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, state := e.AwaitCoded(gone, "gzip"); state != exchange.CopyNone {
				t.Error("a client that is gone:", state)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		e.KeepCoded("gzip", []byte("coded"), exchange.CopyHere)
		wg.Wait()

		if _, state := e.Coded("br"); state != exchange.CopyYours {
			t.Fatal(state)
		}
		if _, state := e.AwaitCoded(t.Context(), "br"); state != exchange.CopyNone { // after copyWait
			t.Error("nobody comes back:", state)
		}
		var makers []*Entry
		for i := range maxMaking - 1 {
			m := s.Put(object(fmt.Sprint(i), ""), s.Ticket())
			if _, state := m.Coded("br"); state != exchange.CopyYours {
				t.Fatal(state)
			}
			makers = append(makers, m)
		}
		one := s.Put(object("one too many", ""), s.Ticket())
		if _, state := one.AwaitCoded(t.Context(), "br"); state != exchange.CopyNone {
			t.Error("one too many:", state)
		}
		makers[0].KeepCoded("br", nil, exchange.CopyNone)
		if _, state := one.AwaitCoded(t.Context(), "br"); state != exchange.CopyYours {
			t.Error("there is room again:", state)
		}
	})
}

// When one that was waited for comes to nothing, one of those who wait is next.
func TestTheNextOneMakesACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		e := s.Put(object("/", ""), s.Ticket())
		e.Coded("gzip")
		var wg sync.WaitGroup
		var mu sync.Mutex
		makers := 0
		for range 5 {
			wg.Go(func() {
				_, state := e.AwaitCoded(t.Context(), "gzip")
				switch state {
				case exchange.CopyYours:
					mu.Lock()
					makers++
					mu.Unlock()
					e.KeepCoded("gzip", []byte("coded"), exchange.CopyHere)
				case exchange.CopyHere:
				default:
					t.Error(state)
				}
			})
		}
		synctest.Wait()
		e.KeepCoded("gzip", nil, exchange.CopyNone)
		wg.Wait()
		if makers != 1 {
			t.Errorf("%d have made it", makers)
		}
	})
}

// If memory is short, an entry whose body lies in a file loses its copies, not itself;
// another one goes with them.
func TestCopiesMakeRoom(t *testing.T) {
	s := New(Options{MaxBytes: 20_000})
	inFile := object("file", "")
	inFile.Body, inFile.Disk = Body{}, 100_000
	e := s.Put(inFile, s.Ticket())
	keep(t, e, "gzip", 2000)
	for i := range 4 {
		o := object(fmt.Sprint(i), "")
		o.Body = Bytes(make([]byte, 4000))
		s.Put(o, s.Ticket())
	}
	list := s.Find([]byte("file"))
	if len(list) != 1 || has(list[0], "gzip") {
		t.Fatalf("%d entries; copies are to go first", len(list))
	}
	if c := s.Counts(); c.Entries != 5 || c.Evicted != 0 || c.Demoted != 1 || c.Bytes > 20_000 {
		t.Errorf("%+v", c)
	}
	keep(t, s.Find([]byte("3"))[0], "gzip", 2000)
	if c := s.Counts(); c.Entries != 4 || c.Evicted != 1 || c.Bytes > 20_000 || len(s.Find([]byte("3"))) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestACopyIsFoundWithoutMemory(t *testing.T) {
	s := New(Options{})
	e := s.Put(object("/", ""), s.Ticket())
	keep(t, e, "zstd", 10)
	if n := testing.AllocsPerRun(100, func() { e.Coded("zstd") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
