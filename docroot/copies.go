package docroot

import (
	"sync/atomic"
)

// copies are those of one version of a file in memory, by content coding. They count
// with the file: all there is of it leaves with its entry. The entry that renews
// another one without a change has the copies of that one.
type copies struct {
	cache *Cache
	key   key
	by    [3]atomic.Pointer[coded] // each is set once
	bytes int64                    // of all; under the lock of the shard
}

type coded struct {
	name    string
	content []byte
}

// Coded is that of exchange.Copies.
func (c *copies) Coded(name string) []byte {
	for i := range c.by {
		if b := c.by[i].Load(); b != nil && b.name == name {
			return b.content
		}
	}
	return nil
}

// KeepCoded is that of exchange.Copies: p is kept if the file still is, and if there
// is room.
func (c *copies) KeepCoded(name string, p []byte) {
	s := c.cache.shard(c.key.path)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[c.key]
	if e == nil || e.copies != c || s.bytes+int64(len(p)) > c.cache.maxBytes {
		return
	}
	for i := range c.by {
		switch b := c.by[i].Load(); {
		case b == nil:
			c.by[i].Store(&coded{name, p})
			c.bytes += int64(len(p))
			s.bytes += int64(len(p))
			return
		case b.name == name:
			return // somebody was faster
		}
	}
}

// size is what e holds of memory, under the lock of its shard.
func (e *entry) size() int64 {
	n := int64(len(e.content))
	if e.copies != nil {
		n += e.copies.bytes
	}
	return n
}
