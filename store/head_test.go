package store

import (
	"fmt"
	"sync"
	"testing"

	"httpjet/exchange"
)

// Heads are ready from the second request on, count with their entry and go with it.
func TestReadyHeads(t *testing.T) {
	s := New(Options{})
	o := object("/", "")
	o.Fields = []exchange.Field{{Name: "Content-Type", Value: "text/html"}, {Name: "Vary", Value: "Cookie"}}
	e := s.Put(o, s.Ticket())
	bare := s.Put(object("/bare", ""), s.Ticket())
	before := s.Bytes()
	if e.Head() != nil || s.Bytes() != before {
		t.Error("ready for somebody who may be the only one")
	}
	s.Use(e)
	s.Use(bare)
	r := e.Head()
	if r == nil || r.Len() != 2 || e.Head() != r || bare.Head() != nil {
		t.Errorf("%v, %v", r, bare.Head())
	}
	if n, want := s.Bytes()-before, int64(headSize+len("Content-Type: text/html\r\nVary: Cookie\r\n")); n != want || e.Size()+bare.Size() != s.Bytes() {
		t.Errorf("%d bytes more, want %d; entries %d and %d of %d", n, want, e.Size(), bare.Size(), s.Bytes())
	}
	o.Fields = []exchange.Field{{Name: "Content-Type", Value: "text/plain"}}
	f := s.Replace(e, o, s.Ticket())
	if !f.Used() || f.Head().Len() != 1 {
		t.Error("another head, and the old one is ready")
	}
	s.Remove(f)
	s.Remove(bare)
	if s.Bytes() != 0 {
		t.Errorf("%d bytes of nothing", s.Bytes())
	}
	gone := s.Put(o, s.Ticket())
	s.Use(gone)
	s.Remove(gone)
	if gone.Head() != nil || s.Bytes() != 0 {
		t.Errorf("memory for an entry that has left: %d", s.Bytes())
	}
}

// Heads make room for themselves, and whoever makes them at once makes one.
func TestReadyHeadsWithinBounds(t *testing.T) {
	s := New(Options{MaxBytes: 64 << 10})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 300 {
				o := object(fmt.Sprint("/", i%200), "")
				o.Fields = []exchange.Field{{Name: "Content-Type", Value: "text/html"}}
				if e := s.Put(o, s.Ticket()); e != nil {
					s.Use(e)
					if a, b := e.Head(), e.Head(); a != b && a != nil {
						t.Error("two heads of one entry")
					}
				}
			}
		})
	}
	wg.Wait()
	if n := s.Bytes(); n > 64<<10 || n == 0 {
		t.Errorf("%d bytes", n)
	}
	s.Clear()
	if n := s.Bytes(); n != 0 {
		t.Errorf("%d bytes of nothing", n)
	}
}

// The first look-up is timed, then one of 16, and all are counted.
func TestTimedLookUps(t *testing.T) {
	var one Timed
	sum, times := 0, 0
	for range 1 + 10*timedEach {
		if n := one.Next(); n > 0 {
			sum, times = sum+n, times+1
			if sum == 1 != (times == 1) {
				t.Errorf("%d look-ups behind %d times", sum, times)
			}
		}
	}
	if sum != 1+10*timedEach || times != 11 {
		t.Errorf("%d counted by %d times", sum, times)
	}
}
