package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A purge of a prefix is held against entries before it is written to the tags and
// behind that, and against what was being made at its time in either case.
func TestPurgesOfPrefixesAreWritten(t *testing.T) {
	s := New(Options{})
	hard := s.Put(object("/a", "", "v1/x", "other"), s.Ticket())
	soft := s.Put(object("/b", "", "v2/x"), s.Ticket())
	live := s.Put(object("/c", "", "v3/x", "v"), s.Ticket())
	began := s.Ticket()
	s.PurgePrefix("v1/", false)
	s.PurgePrefix("v2/", true)
	for _, when := range []string{"before", "behind"} {
		if hard.State() != Gone || soft.State() != Stale || live.State() != Live {
			t.Errorf("%s: states %d %d %d, want gone, stale, live", when, hard.State(), soft.State(), live.State())
		}
		if s.Put(object("/n", "", "v1/"+when), began) != nil {
			t.Errorf("%s: stored what was begun before a purge of its tag", when)
		}
		if e := s.Put(object("/n", "", "v2/"+when), began); e == nil || e.State() != Stale {
			t.Errorf("%s: not stale: what was begun before a soft purge of its tag", when)
		}
		if e := s.Put(object("/n", "", "v1/x", "v2/x"), s.Ticket()); e == nil || e.State() != Live {
			t.Errorf("%s: what was begun behind the purges", when)
		}
		s.Sweep(t0)
	}
	if _, from := s.prefixes.unwritten(); from != uint64(s.Ticket()) {
		t.Errorf("a sweep has written purges up to %d of %d", from, s.Ticket())
	}
}

// No purge is lost when more of them come than are remembered, and nobody sweeps.
func TestManyPurgesOfPrefixes(t *testing.T) {
	s := New(Options{})
	const n = 3*maxPrefixes + 5
	var all []*Entry
	for i := range n {
		all = append(all, s.Put(object(fmt.Sprint("/", i), "", fmt.Sprintf("p%03d/x", i)), s.Ticket()))
	}
	for i, e := range all {
		s.PurgePrefix(fmt.Sprintf("p%03d/", i), false)
		if e.State() != Gone {
			t.Fatalf("entry %d is not gone behind its purge", i)
		}
	}
	for i, e := range all {
		e.checked.Store(0) // ask again
		if e.State() != Gone {
			t.Errorf("entry %d has come back", i)
		}
	}
	if l := s.prefixes.list.Load(); len(l.purges) != maxPrefixes || l.before == 0 {
		t.Errorf("%d purges are remembered, want %d", len(l.purges), maxPrefixes)
	}
}

// done is a purge as the reference has it.
type done struct {
	name   string
	prefix bool
	soft   bool
}

// against is the state of an entry behind the purges from number born on: what it is to be.
func against(purges []done, born Ticket, tags []string) State {
	state := Live
	for _, p := range purges[born:] {
		for _, name := range tags {
			switch {
			case name != p.name && (!p.prefix || !strings.HasPrefix(name, p.name)):
			case !p.soft:
				return Gone
			default:
				state = Stale
			}
		}
	}
	return state
}

// Purges of tags and prefixes, sweeps and stores in any order leave every entry in the
// state that a list of all purges gives it. What was begun before a purge may be refused, or
// stale, without need.
func TestPurgesAgainstAReference(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := New(Options{})
		var purges []done
		entries := map[*Entry]bool{}
		name := func() string { return "abc"[:1+r.IntN(3)] + fmt.Sprint(r.IntN(12)) }
		for step := range 4000 {
			switch r.IntN(8) {
			case 0:
				p := done{name: name(), soft: r.IntN(2) == 0}
				s.Purge(p.name, p.soft)
				purges = append(purges, p)
			case 1:
				p := done{name: name(), soft: r.IntN(3) > 0, prefix: true}
				p.name = p.name[:1+r.IntN(len(p.name))]
				s.PurgePrefix(p.name, p.soft)
				purges = append(purges, p)
			case 2:
				if r.IntN(20) == 0 {
					s.Sweep(t0)
				}
			default:
				began := s.Ticket()
				if r.IntN(3) == 0 {
					began -= min(began, Ticket(r.IntN(20)))
				}
				tags := []string{name(), name()}
				e, want := s.Put(object(fmt.Sprint("/", r.IntN(500)), "", tags...), began), against(purges, began, tags)
				if e == nil && began == s.Ticket() {
					t.Fatalf("%d, %d: refused what no purge is about", seed, step)
				}
				if e == nil {
					continue
				}
				if got := e.State(); got < want || began == s.Ticket() && got != Live {
					t.Fatalf("%d, %d: state %d of what was just stored, want %d", seed, step, got, want)
				}
				entries[e] = began == s.Ticket()
			}
		}
		for e, exact := range entries {
			if e.gone {
				continue // swept or replaced: purges are about it no more
			}
			if got, want := e.State(), against(purges, e.Ticket(), e.Tags); got < want || exact && got != want {
				t.Fatalf("%d: state %d of an entry of tags %q, want %d", seed, got, e.Tags, want)
			}
		}
	}
}
