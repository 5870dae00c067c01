package store

import "time"

// LookedUp is told of n look-ups of a cache, of which the last took so long.
type LookedUp func(took time.Duration, n int)

// timedEach is how many look-ups there are for each that is timed: to read the clock twice
// costs more than to look up.
const timedEach = 16

// Timed chooses the look-ups that are timed: the first, and then one of 16. It stands in
// memory that one goroutine at a time has. The zero value is ready.
type Timed struct {
	since uint8
	begun bool // the first one was timed
}

// Next counts a look-up. It returns 0 for one that is not to be timed, else the number of
// those since the last one that was, this one included.
func (t *Timed) Next() (n int) {
	t.since++
	if t.begun && t.since < timedEach {
		return 0
	}
	n = int(t.since)
	t.since, t.begun = 0, true
	return n
}
