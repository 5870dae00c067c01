package store

import (
	"context"
	"sync"
	"time"
)

// Flights lets one of those who need the same response make it while the others wait.
// The zero value is ready.
type Flights struct {
	mu sync.Mutex
	m  map[string]*Flight
}

// Flight is the making of one response.
type Flight struct {
	flights *Flights
	key     string
	done    chan struct{}
	once    sync.Once
}

// Join returns the flight for a key, and whether the caller is the one who makes the
// response: he calls Land, in any case.
func (f *Flights) Join(key string) (flight *Flight, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if flight = f.m[key]; flight != nil {
		return flight, false
	}
	if f.m == nil {
		f.m = map[string]*Flight{}
	}
	flight = &Flight{flights: f, key: key, done: make(chan struct{})}
	f.m[key] = flight
	return flight, true
}

// Len returns the number of flights.
func (f *Flights) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.m)
}

// Land ends the flight, stored or not: all that wait look again. It may be called more
// than once.
func (f *Flight) Land() {
	f.once.Do(func() {
		f.flights.mu.Lock()
		delete(f.flights.m, f.key)
		f.flights.mu.Unlock()
		close(f.done)
	})
}

// Wait returns when the flight has landed, true, or at the end of ctx or after the
// longest time, false.
func (f *Flight) Wait(ctx context.Context, longest time.Duration) bool {
	t := time.NewTimer(longest)
	defer t.Stop()
	select {
	case <-f.done:
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	return false
}
