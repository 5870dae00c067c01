package store

import "sync/atomic"

// table finds the variants of keys for those who look up, who take no lock and wait for
// nobody; who writes to it has the lock of its shard. Slots are probed one behind the
// other, from the one that the hash names. One that has had an entry keeps its hash as
// long as the table stands, so that the two are never read of different keys. A table that
// is full, or almost empty, is replaced by another.
type table struct {
	slots []slotOf // a power of two
	used  int      // slots that have a hash; at least a quarter has none
	live  int      // those of them that have an entry
}

type slotOf struct {
	entry atomic.Pointer[Entry] // the latest variant of a key; nil: never one, and the end of what is probed
	hash  atomic.Uint64         // written before entry
}

// What pointers say that point to nothing; neither is ever written to.
var (
	nobody    = &Entry{}        // in a slot: its entry has left, go on
	notLatest = new([]*Entry{}) // in Entry.list: another is the latest variant by now
)

const leastSlots = 8

func newTable(slots int) *table { return &table{slots: make([]slotOf, slots)} }

// find returns the slot of a key, with its entry, or nil for both.
func find[K string | []byte](t *table, hash uint64, key K) (*slotOf, *Entry) {
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		e := s.entry.Load()
		if e == nil {
			return nil, nil
		}
		if s.hash.Load() == hash && e != nobody && e.Key == string(key) {
			return s, e
		}
	}
}

// take returns a slot for an entry whose key has none. There is room.
func (t *table) take(hash uint64) *slotOf {
	mask := uint64(len(t.slots) - 1)
	t.live++
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		switch e := s.entry.Load(); {
		case e == nil:
			t.used++
			s.hash.Store(hash)
			return s
		case e == nobody && s.hash.Load() == hash:
			return s
		}
	}
}

// find returns the variants of a key, the latest first. A key that is put, or taken out,
// meanwhile is there or is not; one that was there all the time is found.
func (sh *shard) find(hash uint64, key []byte) (list []*Entry) {
	for again := true; again; {
		list, again = sh.look(sh.table.Load(), hash, key)
	}
	return list
}

// look is find in t, which was the table a moment ago. It has to be done again if that
// does not know: if it finds nothing and there is another table by now, or an entry that is
// not the latest of its key any more, which the slot, or another table, has by now.
func (sh *shard) look(t *table, hash uint64, key []byte) (list []*Entry, again bool) {
	_, e := find(t, hash, key)
	if e == nil {
		return nil, sh.table.Load() != t
	}
	list, ok := e.variants()
	return list, !ok
}

// variants returns all variants of a key; false if e is not the latest of them.
func (e *Entry) variants() (list []*Entry, ok bool) {
	switch p := e.list.Load(); p {
	case nil:
		return e.alone[:], true
	case notLatest:
		return nil, false
	default:
		return *p, true
	}
}

// variantsOf is find for those who have the lock, as for what follows.
func (sh *shard) variantsOf(hash uint64, key string) []*Entry {
	_, e := find(sh.table.Load(), hash, key)
	if e == nil {
		return nil
	}
	list, _ := e.variants()
	return list
}

// set makes list the variants of a key. Lists are not changed, but replaced: readers
// have them. The new one is in place before anybody can find it, and the entry that was
// the latest says so only when there is another: it may stay as one of the older ones, and
// holds nobody.
func (sh *shard) set(hash uint64, key string, list []*Entry) {
	t := sh.table.Load()
	slot, was := find(t, hash, key)
	if len(list) == 0 {
		if slot != nil {
			slot.entry.Store(nobody)
			was.list.Store(notLatest)
			t.live--
			sh.fit(t)
		}
		return
	}
	latest := list[0]
	if len(list) == 1 {
		latest.list.Store(nil)
	} else {
		all := list
		latest.list.Store(&all)
	}
	if slot == nil {
		t = sh.fit(t)
		slot = t.take(hash)
	}
	slot.entry.Store(latest)
	if was != nil && was != latest {
		was.list.Store(notLatest)
	}
}

// fit returns a table that has room for one more: t, or a fresh one in its place, which
// is no larger than it has to be.
func (sh *shard) fit(t *table) *table {
	n := len(t.slots)
	if full := (t.used + 1) > n/4*3; !full && (n == leastSlots || t.live > n/8) {
		return t
	}
	n = leastSlots
	for n < 2*(t.live+1) {
		n *= 2
	}
	next := newTable(n)
	for i := range t.slots {
		s := &t.slots[i]
		if e := s.entry.Load(); e != nil && e != nobody {
			next.take(s.hash.Load()).entry.Store(e)
		}
	}
	sh.table.Store(next)
	return next
}
