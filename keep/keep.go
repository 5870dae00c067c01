// Package keep holds values that outlive a configuration generation: pools,
// listeners, log sinks. It knows nothing about what it keeps.
package keep

import "sync"

// A Map shares values between generations. Generations that acquire equal keys
// get the same value; a value is retired when its last lease is released. A key
// carries the whole identity of its value: a changed setting is a new key.
type Map[K comparable, V interface{ Retire() }] struct {
	mu sync.Mutex
	m  map[K]*lease[V]
}

type lease[V any] struct {
	v V
	n int
}

// Acquire returns the value for k, made by make if there is none, and the
// function that gives the lease up, which may be called more than once. make
// must not block or start a goroutine.
func (m *Map[K, V]) Acquire(k K, make func() V) (v V, release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.m[k]
	if l == nil {
		if m.m == nil {
			m.m = map[K]*lease[V]{}
		}
		l = &lease[V]{v: make()}
		m.m[k] = l
	}
	l.n++
	return l.v, sync.OnceFunc(func() { m.release(k, l) })
}

func (m *Map[K, V]) release(k K, l *lease[V]) {
	m.mu.Lock()
	l.n--
	last := l.n == 0
	if last {
		delete(m.m, k)
	}
	m.mu.Unlock()
	if last {
		l.v.Retire()
	}
}

// Len returns the number of values kept.
func (m *Map[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.m)
}

// Values returns the values kept, in no order.
func (m *Map[K, V]) Values() []V {
	m.mu.Lock()
	defer m.mu.Unlock()
	vs := make([]V, 0, len(m.m))
	for _, l := range m.m {
		vs = append(vs, l.v)
	}
	return vs
}
