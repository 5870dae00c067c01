package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The index knows how many of its tags have no users: they are what it looks for when
// there are too many, which it would do in vain, or never, by a wrong number.
func TestTagsWithoutUsersAreCounted(t *testing.T) {
	s := New(Options{MaxEntries: 300})
	r := rand.New(rand.NewPCG(3, 4))
	var names []string // all of one part, so that there are soon too many
	for i := 0; len(names) < 2000; i++ {
		if name := fmt.Sprint("t", i); s.tags.part(name) == &s.tags.parts[0] {
			names = append(names, name)
		}
	}
	dropped := 0
	for step := range 5000 {
		tag := names[r.IntN(len(names))]
		before := s.tags.len()
		switch r.IntN(8) {
		case 0, 1, 2:
			s.Put(object(fmt.Sprint("/", r.IntN(1000)), "", tag, "all"), s.Ticket())
		case 3:
			s.Delete(fmt.Sprint("/", r.IntN(1000)))
		default:
			s.Purge(tag, r.IntN(2) == 0)
		}
		if s.tags.len() < before {
			dropped++
		}
		if step%100 == 99 {
			countUnused(t, s)
		}
	}
	if dropped == 0 {
		t.Error("no purge had the unused tags dropped: this tries nothing")
	}
	s.Sweep(t0)
	countUnused(t, s)
	for i := range s.tags.parts {
		if n := s.tags.parts[i].unused; n != 0 {
			t.Errorf("part %d: %d tags without users behind a sweep", i, n)
		}
	}
}

func countUnused(t *testing.T, s *Store) {
	t.Helper()
	for i := range s.tags.parts {
		p := &s.tags.parts[i]
		n := 0
		for _, one := range p.m {
			if one.users.Load() == 0 {
				n++
			}
		}
		if p.unused != n {
			t.Fatalf("part %d: %d tags without users, %d are counted", i, n, p.unused)
		}
	}
}
