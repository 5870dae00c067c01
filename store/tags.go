package store

import (
	"hash/maphash"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// tagSize is the memory of a tag and of its place in the index, about. Every entry is
// counted with all of its own, although they may share them.
const tagSize = 112

// tag is what entries with one tag have in common. Purges raise its numbers; they never
// fall.
type tag struct {
	gone, stale atomic.Uint64 // numbers of the last purges of each kind
	users       atomic.Int64  // entries; changed under the lock of the part of the index
}

// tagIndex finds tags by name. It forgets those without users, but not what their
// purges have been: a fresh one begins with the number of the latest purge forgotten, so
// that what was begun before that is refused, once too often rather than never.
type tagIndex struct {
	// changes counts changes of numbers, each when it is done. It begins at 1.
	changes atomic.Uint64

	seed  maphash.Seed
	parts [maxShards]tagPart
}

type tagPart struct {
	mu     sync.Mutex
	m      map[string]*tag
	gone   uint64 // latest purges of tags that were forgotten
	stale  uint64
	unused int // tags in m that have no users
}

func (x *tagIndex) part(name string) *tagPart {
	return &x.parts[maphash.String(x.seed, name)%maxShards]
}

// get returns the tag for name, made if there is none.
func (p *tagPart) get(name string) *tag {
	t := p.m[name]
	if t == nil {
		if p.m == nil {
			p.m = map[string]*tag{}
		}
		t = &tag{}
		t.gone.Store(p.gone)
		t.stale.Store(p.stale)
		p.m[strings.Clone(name)] = t
		p.unused++
	}
	return t
}

// acquire returns the tags for names, with one user more each.
func (x *tagIndex) acquire(names []string) []*tag {
	if len(names) == 0 {
		return nil
	}
	tags := make([]*tag, len(names))
	for i, name := range names {
		p := x.part(name)
		p.mu.Lock()
		t := p.get(name)
		if t.users.Add(1) == 1 {
			p.unused--
		}
		tags[i] = t
		p.mu.Unlock()
	}
	return tags
}

func (x *tagIndex) release(names []string, tags []*tag) {
	for i, t := range tags {
		p := x.part(names[i])
		p.mu.Lock()
		if t.users.Add(-1) == 0 {
			p.unused++
		}
		p.mu.Unlock()
	}
}

// raise notes a purge with number n.
func (t *tag) raise(n uint64, soft bool) {
	number := &t.gone
	if soft {
		number = &t.stale
	}
	for {
		was := number.Load()
		if was >= n || number.CompareAndSwap(was, n) {
			return
		}
	}
}

// purge marks a tag, which may have no users yet: a response that is being made now
// may get it.
func (x *tagIndex) purge(name string, n uint64, soft bool) {
	p := x.part(name)
	p.mu.Lock()
	p.get(name).raise(n, soft)
	x.changes.Add(1)
	p.mu.Unlock()
	p.forget(maxUnused)
}

// tagStep is how many tags are looked at under one lock: stores wait for who has it.
const tagStep = 64

// walk calls f for every tag under the lock, which others get in between. What they add
// meanwhile may be left out; what was there and stays is not.
func (p *tagPart) walk(f func(name string, t *tag)) {
	n := 0
	p.mu.Lock()
	for name, t := range p.m {
		f(name, t)
		if n++; n%tagStep == 0 {
			p.mu.Unlock()
			runtime.Gosched() // who waits is before the next step
			p.mu.Lock()
		}
	}
	p.mu.Unlock()
}

// purgePrefixes marks every tag that begins with one of the prefixes.
func (x *tagIndex) purgePrefixes(list []prefixPurge) {
	for i := range x.parts {
		x.parts[i].walk(func(name string, t *tag) {
			for j := range list {
				if one := &list[j]; strings.HasPrefix(name, one.prefix) {
					t.raise(one.n, one.soft)
				}
			}
		})
	}
}

// maxUnused is how many tags without entries a part of the index may keep.
const maxUnused = 256

// forget drops the tags without users if there are more than most.
func (p *tagPart) forget(most int) {
	p.mu.Lock()
	enough := p.unused <= most
	p.mu.Unlock()
	if enough {
		return
	}
	p.walk(func(name string, t *tag) {
		if t.users.Load() == 0 {
			p.gone, p.stale = max(p.gone, t.gone.Load()), max(p.stale, t.stale.Load())
			delete(p.m, name)
			p.unused--
		}
	})
}

// forget drops the tags that nobody has any more.
func (x *tagIndex) forget() {
	for i := range x.parts {
		x.parts[i].forget(0)
	}
}

func (x *tagIndex) len() int {
	n := 0
	for i := range x.parts {
		x.parts[i].mu.Lock()
		n += len(x.parts[i].m)
		x.parts[i].mu.Unlock()
	}
	return n
}
