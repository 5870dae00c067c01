package tunnels

import (
	"slices"
	"sync"
	"testing"
)

// R-RELOAD-7: tunnels are counted by the generation that they began with, as long as
// they are open, whatever becomes of the generation.
func TestOpenByGeneration(t *testing.T) {
	var o Open
	first, second, unused := o.Set(1), o.Set(2), o.Set(3)
	a, b, c := new(tunnel), new(tunnel), new(tunnel)
	want := func(list ...OpenIn) {
		t.Helper()
		if got := o.List(); !slices.Equal(got, list) {
			t.Errorf("%v, want %v", got, list)
		}
	}
	want()
	Join(b, second)
	Join(a, first, nil)
	Join(c, second)
	want(OpenIn{1, 1}, OpenIn{2, 2})
	Leave(b, second)
	Leave(a, first)
	want(OpenIn{2, 1})
	Join(a, first) // late: its exchange began before
	want(OpenIn{1, 1}, OpenIn{2, 1})
	Leave(a, first)
	Leave(c, second)
	want()
	if len(o.sets) != 0 || unused.Len() != 0 {
		t.Errorf("%d empty sets are remembered", len(o.sets))
	}
}

func TestOpenUnderConcurrency(t *testing.T) {
	var o Open
	s := o.Set(1)
	keep := new(tunnel)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				x := new(tunnel)
				Join(x, s)
				o.List()
				Leave(x, s)
			}
		})
	}
	wg.Wait()
	Join(keep, s)
	if got := o.List(); len(got) != 1 || got[0].Open != 1 {
		t.Errorf("%v", got)
	}
}
