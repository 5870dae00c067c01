package front

import "sync"

// gate is a number of permits that a new generation may change, with a first-come
// waiting line: who comes while others wait does not overtake them. A limit of 0
// is no limit. Lowering it takes no permit back.
type gate struct {
	mu    sync.Mutex
	limit int
	used  int
	many  int             // see take
	line  []chan struct{} // closed when its permit is given
}

// take returns nil if a permit was free, else a place in the line: it is closed
// when the permit is there. A place that is not waited for any more must be
// given to leave. many says whether at least g.many permits are in use.
func (g *gate) take() (place <-chan struct{}, many bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.line) == 0 && (g.limit == 0 || g.used < g.limit) {
		g.used++
		return nil, g.used >= g.many
	}
	c := make(chan struct{})
	g.line = append(g.line, c)
	return c, true
}

// leave gives up a place in the line, or the permit if it came meanwhile.
func (g *gate) leave(place <-chan struct{}) {
	g.mu.Lock()
	for i, c := range g.line {
		if c == place {
			g.line = append(g.line[:i], g.line[i+1:]...)
			g.mu.Unlock()
			return
		}
	}
	g.mu.Unlock()
	g.release()
}

// release gives a permit back, to the first in the line.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used--
	g.admit()
}

// setLimit changes the number of permits, and which number is many.
func (g *gate) setLimit(n, many int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit, g.many = n, many
	g.admit()
}

// admit gives free permits to the head of the line. g.mu is held.
func (g *gate) admit() {
	for len(g.line) > 0 && (g.limit == 0 || g.used < g.limit) {
		g.used++
		close(g.line[0])
		g.line = g.line[1:]
	}
}

func (g *gate) inUse() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}
