// Package tunnels knows the long-lived answers of a route: WebSocket relays and
// event streams. They outlive the generation that they began with for as long as
// their route and their peer do, and are closed some time after either is gone
// (R-WS-7). It relays nothing and closes nothing by itself: its owner calls Expire.
package tunnels

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Tunnel is what a Set holds. Close may be called by any goroutine and more than
// once; it does not wait.
type Tunnel interface{ Close() }

// Set is the open tunnels of one route, or of one peer. Generations share it by
// the identity of that. A nil Set holds nothing and refuses nobody.
//
// Life: in use → Retire, from when its time runs → closed, or in use again by Stay.
type Set struct {
	key     string
	name    string
	leaving *Leaving

	counted    *Open // of a set that Open.Set made
	generation uint64

	mu     sync.Mutex
	open   map[Tunnel]struct{}
	closed bool
	due    time.Time // when it will be closed; zero: it is in use
}

// Name says what the set belongs to.
func (s *Set) Name() string { return s.name }

// Join adds t to each of the sets, or to none and reports false if one is closed.
func Join(t Tunnel, sets ...*Set) bool {
	for i, s := range sets {
		if !s.add(t) {
			Leave(t, sets[:i]...)
			return false
		}
	}
	return true
}

// Leave takes t out of each of the sets.
func Leave(t Tunnel, sets ...*Set) {
	for _, s := range sets {
		if s != nil {
			s.mu.Lock()
			delete(s.open, t)
			s.mu.Unlock()
		}
	}
}

func (s *Set) add(t Tunnel) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	if s.closed || !s.due.IsZero() && !time.Now().Before(s.due) {
		s.mu.Unlock()
		return false
	}
	if s.open == nil {
		s.open = map[Tunnel]struct{}{}
	}
	s.open[t] = struct{}{}
	first := s.counted != nil && len(s.open) == 1
	late := !s.due.IsZero() // its exchange began before the set was given up
	s.mu.Unlock()
	if first {
		s.counted.list(s)
	}
	if late {
		s.leaving.list(s)
	}
	return true
}

// Len returns the number of open tunnels.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Close closes all tunnels, raw, and refuses those that would still join. It
// returns how many it closed.
func (s *Set) Close() int {
	s.mu.Lock()
	s.closed = true
	open := make([]Tunnel, 0, len(s.open))
	for t := range s.open {
		open = append(open, t)
	}
	s.mu.Unlock()
	for _, t := range open { // each leaves by itself
		t.Close()
	}
	return len(open)
}

// Retire is called when no generation has what the set belongs to any more. One that
// had no tunnels is not listed: reloads that are refused, and rehearsals, make many.
func (s *Set) Retire() {
	due := time.Now().Add(s.leaving.time())
	s.mu.Lock()
	if s.due.IsZero() { // else it was only found again by a generation that never served
		s.due = due
	}
	n := len(s.open)
	s.mu.Unlock()
	if n > 0 {
		s.leaving.list(s)
	}
}

// Stay ends the leave of a set: a generation that has it is published.
func (s *Set) Stay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due, s.closed = time.Time{}, false
}

// left is what List says of s; over is whether its time is.
func (s *Set) left(now time.Time) (l Left, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = Left{s.name, len(s.open), s.due}
	if s.due.IsZero() {
		l.Open = 0
		return l, false
	}
	return l, !now.Before(s.due)
}

// Open counts the open tunnels of the process by the generation that they began with
// (R-RELOAD-7). The zero value is ready. Any number of goroutines may use it.
type Open struct {
	mu   sync.Mutex
	sets []*Set // those that had tunnels when they were last looked at
}

// OpenIn is the open tunnels of one generation.
type OpenIn struct {
	Generation uint64
	Open       int
}

// Set returns a set for the tunnels of a generation, which nobody closes.
func (o *Open) Set(generation uint64) *Set {
	return &Set{name: "generation", counted: o, generation: generation}
}

func (o *Open) list(s *Set) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.sets, s) {
		o.sets = append(o.sets, s)
	}
}

// List returns the generations that have open tunnels, the oldest first. A set that is
// empty is forgotten until a tunnel joins it again, which lists it behind that.
func (o *Open) List() (out []OpenIn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sets = slices.DeleteFunc(o.sets, func(s *Set) bool {
		n := s.Len()
		if n > 0 {
			out = append(out, OpenIn{s.generation, n})
		}
		return n == 0
	})
	slices.SortFunc(out, func(a, b OpenIn) int { return cmp.Compare(a.Generation, b.Generation) })
	return out
}

// Leaving is the sets with tunnels whose time runs. The zero value is ready; tunnels
// then have no time at all.
type Leaving struct {
	mu    sync.Mutex
	delay time.Duration
	sets  []*Set
}

// SetDelay sets how long tunnels live whose route goes from now on.
func (l *Leaving) SetDelay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

func (l *Leaving) time() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay
}

func (l *Leaving) list(s *Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.sets, s) {
		l.sets = append(l.sets, s)
	}
}

// Set returns the set of a key that is about to be closed, else a new one: what it
// belongs to may have come back, as by a rollback, with its tunnels still open. Its
// time runs on until Stay.
func (l *Leaving) Set(key, name string) *Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sets {
		if s.key == key {
			return s
		}
	}
	return &Set{key: key, name: name, leaving: l}
}

// Expire closes the tunnels whose time is over.
func (l *Leaving) Expire(now time.Time) {
	var due []*Set
	l.mu.Lock()
	l.sets = slices.DeleteFunc(l.sets, func(s *Set) bool {
		left, over := s.left(now)
		if over {
			due = append(due, s)
		}
		return over || left.Open == 0
	})
	l.mu.Unlock()
	for _, s := range due {
		s.Close()
	}
}

// Left is a set whose tunnels will be closed.
type Left struct {
	Name string
	Open int
	Due  time.Time
}

// List returns the sets that have tunnels to close, the next one first.
func (l *Leaving) List() (out []Left) {
	l.mu.Lock()
	sets := slices.Clone(l.sets)
	l.mu.Unlock()
	for _, s := range sets {
		if left, _ := s.left(time.Time{}); left.Open > 0 {
			out = append(out, left)
		}
	}
	slices.SortStableFunc(out, func(a, b Left) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Name, b.Name)) })
	return out
}
