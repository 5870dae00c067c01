package store

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A hit waits for nobody: stores, purges and sweeps hold the locks of shards and tags.
func TestALookUpTakesNoLock(t *testing.T) {
	s := New(Options{})
	s.Put(object("/a", "x", "t"), 0)
	s.Put(object("/a", "y", "t"), 0)
	for i := range s.shards {
		s.shards[i].mu.Lock()
	}
	for i := range s.tags.parts {
		s.tags.parts[i].mu.Lock()
	}
	list := s.Find([]byte("/a"))
	if len(list) != 2 || list[0].Variant != "y" || list[1].State() != Live {
		t.Errorf("found %v", list)
	}
	s.Use(list[0])
	if s.Find([]byte("/b")) != nil {
		t.Error("found what nobody put")
	}
}

// What is there all the time is found all the time, with all its variants, whatever
// becomes of other keys in the same table: they come, go, and have it replaced by larger
// and smaller ones.
func TestLookUpsFindWhatStays(t *testing.T) {
	for _, bits := range []uint64{0, 7, ^uint64(0)} {
		s := New(Options{MaxEntries: 1 << 20})
		s.bits = bits
		if bits == ^uint64(0) {
			s.shards = s.shards[:1]
		}
		const stay = 4
		for i := range stay {
			s.Put(object(fmt.Sprint("/", i), "a"), 0)
			s.Put(object(fmt.Sprint("/", i), "b"), 0)
		}
		var stop atomic.Bool
		var readers, writers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				key := []byte("/0")
				for i := 0; !stop.Load(); i++ {
					key[1] = '0' + byte(i%stay)
					list := s.Find(key)
					switch seen := variantsIn(list, string(key)); seen {
					case "ba", "ab", "cba", "cab":
					default:
						t.Errorf("bits %x: of %s %q were found", bits, key, seen)
						return
					}
					if i%64 == 0 {
						runtime.Gosched()
					}
				}
			})
		}
		for g := range 2 {
			writers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), bits))
				keep := fmt.Sprint("/", g) // each has a key of its own whose variants it puts
				for range 60 {
					n := r.IntN(100)
					for i := range n {
						s.Put(object(fmt.Sprint("/w", g, i), ""), 0)
					}
					s.Put(object(keep, "c"), 0)
					s.Remove(s.Find([]byte(keep))[0])
					last := s.Find([]byte(keep))[1]
					s.Replace(last, last.Object, last.Ticket()) // the latest now
					for i := range n {
						s.Delete(fmt.Sprint("/w", g, i))
					}
				}
			})
		}
		writers.Wait()
		stop.Store(true)
		readers.Wait()
	}
}

// variantsIn are the names of variants of a key that are in a list.
func variantsIn(list []*Entry, key string) string {
	var names strings.Builder
	for _, e := range list {
		if e.Key == key {
			names.WriteString(e.Variant)
		}
	}
	return names.String()
}

// Who looks up and is overtaken, by another table or by another entry of his key, looks
// again.
func TestLookUpsThatAreOvertaken(t *testing.T) {
	s := New(Options{})
	s.shards = s.shards[:1]
	sh := &s.shards[0]
	first := s.Put(object("/a", "x"), 0)
	old := sh.table.Load()
	for i := range leastSlots {
		s.Put(object(fmt.Sprint("/", i), ""), 0)
	}
	late := s.Put(object("/late", ""), 0)
	if old == sh.table.Load() {
		t.Fatal("the table was not replaced: this tries nothing")
	}
	look := func(in *table, e *Entry) string {
		list, again := sh.look(in, e.hash, []byte(e.Key))
		return fmt.Sprint(len(list), again)
	}
	now := sh.table.Load()
	if got := look(old, first) + ", " + look(old, late) + ", " + look(now, late); got != "1 false, 0 true, 1 false" {
		t.Errorf("found %s", got)
	}
	second := s.Put(object("/a", "y"), 0)
	if got := look(old, first) + ", " + look(now, first); got != "0 true, 2 false" {
		t.Errorf("of an entry that is not the latest: %s", got)
	}
	s.Remove(second)
	if got := look(now, first); got != "1 false" {
		t.Errorf("of one that is the latest again: %s", got)
	}
	s.Remove(first)
	if got := look(old, first) + ", " + look(now, first); got != "0 true, 0 false" {
		t.Errorf("of one that has left: %s", got)
	}
}

// A table is no larger than its keys need, when many have come and when they have left.
func TestTablesGrowAndShrink(t *testing.T) {
	s := New(Options{MaxEntries: 1 << 20})
	s.shards = s.shards[:1]
	size := func() int { return len(s.shards[0].table.Load().slots) }
	const n = 5000
	for i := range n {
		s.Put(object(fmt.Sprint("/", i), ""), 0)
		if got := size(); got > 4*(i+1)+leastSlots {
			t.Fatalf("%d slots for %d keys", got, i+1)
		}
	}
	for round := range 3 { // the same keys again, and others in their place
		for i := range n {
			s.Delete(fmt.Sprint("/", i+round*n))
			s.Put(object(fmt.Sprint("/", i+(round+1)*n), ""), 0)
		}
	}
	for i := range n {
		if len(s.Find(fmt.Appendf(nil, "/%d", i+3*n))) != 1 {
			t.Fatalf("key %d was lost", i)
		}
	}
	if got := size(); got > 4*n+leastSlots {
		t.Errorf("%d slots for %d keys", got, n)
	}
	for i := range n {
		s.Delete(fmt.Sprint("/", i+3*n))
	}
	if got := size(); got != leastSlots {
		t.Errorf("%d slots for no key", got)
	}
}
