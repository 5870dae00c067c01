package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/coding"
	"httpjet/exchange"
)

// What bounds the making of copies.
const (
	maxMaking = 4           // at once, of one store (R-CACHE-16)
	copyWait  = time.Second // for who makes one
)

// copies are the body of an entry in content codings. They belong to the body: an entry
// that takes the place of another with the same body has them too, and they go with the
// last one. An entry whose body leaves memory for its file gives them up as well.
type copies struct {
	of [len(coding.All)]atomic.Pointer[copyOf]

	mu     sync.Mutex
	making [len(coding.All)]chan struct{} // closed when it is made, or will not be; nil: nobody makes it

	// Guarded by the lock of the shard.
	owner *Entry // the one that counts them
	bytes int64
}

// copyOf is the body in one coding.
type copyOf struct {
	body    []byte
	useless bool
}

// copySize is the memory of a copy beside its bytes, about.
const copySize = 64

// slot is where copies have the coding of that name.
func slot(name string) int {
	for i, c := range coding.All {
		if c.Name() == name {
			return i
		}
	}
	panic("BUG: store: copy in an unknown coding")
}

// copiesOf returns the copies of e, which it makes room for.
func (e *Entry) copiesOf() *copies {
	if c := e.copies.Load(); c != nil {
		return c
	}
	c := &copies{owner: e}
	if !e.copies.CompareAndSwap(nil, c) {
		return e.copies.Load()
	}
	return c
}

// Coded is that of exchange.Kept. What is there costs neither a lock nor memory.
func (e *Entry) Coded(name string) ([]byte, exchange.Copy) {
	p, state, _ := e.coded(slot(name))
	return p, state
}

// AwaitCoded is that of exchange.Kept.
func (e *Entry) AwaitCoded(ctx context.Context, name string) ([]byte, exchange.Copy) {
	for began := time.Now(); ; {
		p, state, made := e.coded(slot(name))
		if made == nil {
			return p, state
		}
		if left := copyWait - time.Since(began); left <= 0 || !waitFor(ctx, made, left) {
			return nil, exchange.CopyNone
		}
	}
}

// coded returns what there is of copy i. If somebody makes it, made is closed at the end
// of that.
func (e *Entry) coded(i int) (p []byte, state exchange.Copy, made chan struct{}) {
	c := e.copiesOf()
	if p, state = c.at(i); state != exchange.CopyNone {
		return p, state, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch p, state = c.at(i); {
	case state != exchange.CopyNone: // since
		return p, state, nil
	case c.making[i] != nil:
		return nil, exchange.CopyNone, c.making[i]
	case e.store.making.Add(1) > maxMaking:
		e.store.making.Add(-1)
		return nil, exchange.CopyNone, nil
	}
	c.making[i] = make(chan struct{})
	return nil, exchange.CopyYours, nil
}

// at returns copy i, if there is one.
func (c *copies) at(i int) ([]byte, exchange.Copy) {
	switch p := c.of[i].Load(); {
	case p == nil:
		return nil, exchange.CopyNone
	case p.useless:
		return nil, exchange.CopyUseless
	default:
		return p.body, exchange.CopyHere
	}
}

func waitFor(ctx context.Context, made chan struct{}, longest time.Duration) bool {
	t := time.NewTimer(longest)
	defer t.Stop()
	select {
	case <-made:
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	return false
}

// KeepCoded is that of exchange.Kept. A copy is kept as long as the entry, and counts with
// it; it is not if the entry has left, or if the copy alone takes an eighth of the memory
// of the store.
func (e *Entry) KeepCoded(name string, p []byte, state exchange.Copy) {
	c, i := e.copiesOf(), slot(name)
	switch {
	case state == exchange.CopyHere && e.store.grow(c, e.hash, int64(cap(p))+copySize):
		c.of[i].Store(&copyOf{body: p})
	case state == exchange.CopyUseless:
		c.of[i].Store(&copyOf{useless: true})
	}
	c.mu.Lock()
	close(c.making[i])
	c.making[i] = nil
	c.mu.Unlock()
	e.store.making.Add(-1)
}

// grow counts n more bytes with the owner of c, which is in the shard of hash, and reports
// whether it is still stored and there is room.
func (s *Store) grow(c *copies, hash uint64, n int64) bool {
	if n > s.opts.MaxBytes/8 {
		return false
	}
	sh := s.shardOf(hash)
	sh.mu.Lock()
	e := c.owner
	if e.gone || e.size+n > s.opts.MaxBytes {
		sh.mu.Unlock()
		return false
	}
	c.bytes += n
	e.size += n
	s.bytes.Add(n)
	if e.Disk > 0 && e.ring == whole { // there is something in memory that it can do without
		s.takeOff(sh, e)
		e.ring = loadable
		s.link(sh, e)
	}
	sh.mu.Unlock()
	s.evict(e)
	return true
}

// inherit takes the copies of an entry whose place e takes, and counts them. It returns
// their bytes. The lock of the shard is held.
func (e *Entry) inherit(old *Entry) int64 {
	c := old.copies.Load()
	if c == nil {
		return 0
	}
	e.copies.Store(c)
	c.owner = e
	e.size += c.bytes
	return c.bytes
}

// Codings returns the names of the codings in which the body of e is in memory.
func (e *Entry) Codings() (names []string) {
	c := e.copies.Load()
	if c == nil {
		return nil
	}
	for i, one := range coding.All {
		if p := c.of[i].Load(); p != nil && !p.useless {
			names = append(names, one.Name())
		}
	}
	return names
}
