package store

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options bound a Store.
type Options struct {
	MaxBytes   int64 // memory of all entries with their bodies, bytes; 0: 128 MiB
	MaxEntries int   // 0: MaxBytes alone is the bound

	// MaxVariants is how many entries one key may have; 0: 64. One more takes the place
	// of one that was not used lately.
	MaxVariants int

	// MaxDisk bounds the sum of Object.Disk, bytes; 0: no bound. An entry that takes
	// bytes elsewhere can do without its body in memory: if memory is short, it loses
	// that first.
	MaxDisk int64

	// Leave is told of every entry that is given out no more: evicted, purged, replaced,
	// swept. No lock is held. An entry that is replaced by itself with another body or
	// head (Replace) does not leave. nil: nobody is told.
	Leave func(e *Entry)
}

const (
	maxShards       = 64
	defaultBytes    = 128 << 20
	defaultVariants = 64
)

// Store keeps entries. Any number of goroutines may use it.
type Store struct {
	opts   Options
	seed   maphash.Seed
	shards []shard
	tags   tagIndex
	ticket atomic.Uint64 // number of the last purge
	bits   uint64        // of hashes that count: all, but in tests of keys with the same hash
	hand   atomic.Uint32 // shard that the next victim comes from
	making atomic.Int32  // copies that are being made

	bytes, disk, entries atomic.Int64
	loadable             atomic.Int64 // entries in rings of that name
	evicted, demoted     atomic.Uint64

	prefixes prefixes
}

// shard is a part of the keys. mu guards all below it, and is of those who write to the
// table.
type shard struct {
	_     [64]byte // two shards share no cache line
	table atomic.Pointer[table]

	mu    sync.Mutex
	rings [2]ring // by Entry.ring
}

// Which ring an entry is in.
const (
	whole    = iota // it goes with all it has
	loadable        // its body is in memory, and elsewhere too
)

// ring has entries in the order of their coming. A hand goes through it, from the oldest
// to the latest, and takes those that were not used since it came by last (SIEVE).
type ring struct {
	root  Entry    // root.next is the latest
	hand  *Entry   // nil: at the oldest
	walks []*place // of those who walk over all entries
}

// place is where somebody goes on who walks over a ring.
type place struct{ next *Entry }

// New returns an empty store.
func New(o Options) *Store {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultBytes
	}
	if o.MaxVariants <= 0 {
		o.MaxVariants = defaultVariants
	}
	n := maxShards
	for n > 1 && o.MaxEntries > 0 && o.MaxEntries/n < 256 {
		n /= 2 // a small store finds the right victim among all
	}
	s := &Store{opts: o, seed: maphash.MakeSeed(), shards: make([]shard, n), bits: ^uint64(0)}
	s.tags.seed = s.seed
	s.tags.changes.Store(1)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.table.Store(newTable(leastSlots))
		for j := range sh.rings {
			root := &sh.rings[j].root
			root.prev, root.next = root, root
		}
	}
	return s
}

// Find returns the variants of a key, the latest first; not to be changed. Purged ones
// are among them (Entry.State). It takes no memory and no lock: nobody who stores, purges
// or sweeps holds it up.
func (s *Store) Find(key []byte) []*Entry {
	h := maphash.Bytes(s.seed, key) & s.bits
	return s.shardOf(h).find(h, key)
}

func (s *Store) shardOf(hash uint64) *shard {
	return &s.shards[hash>>32%uint64(len(s.shards))] // the table takes the low bits
}

// Use notes that e serves a request, which keeps it longer.
func (s *Store) Use(e *Entry) {
	if !e.used.Load() {
		e.used.Store(true)
	}
}

// Ticket is a point in the order of purges. Whoever makes a response takes one before he
// begins; purges from then on are about that response too.
type Ticket uint64

// Ticket returns the present point.
func (s *Store) Ticket() Ticket { return Ticket(s.ticket.Load()) }

// Ticket returns the one that e was put with.
func (e *Entry) Ticket() Ticket { return Ticket(e.born) }

// Put stores o, which is complete, in the place of the variant that is equal. It
// returns nil, and stores nothing, if a purge that came behind t is about o or o does not
// fit.
func (s *Store) Put(o Object, t Ticket) *Entry { return s.put(nil, o, t) }

// Replace puts o in the place of e: the same response with another head or life, or with
// its body in another place. It returns nil, and changes nothing, if e is not in the store any more or a purge that
// came behind t is about o. Key and Variant of o are those of e. Leave is not told; what
// o and e have outside of memory is one thing.
func (s *Store) Replace(e *Entry, o Object, t Ticket) *Entry {
	if o.Key != e.Key || o.Variant != e.Variant {
		panic("BUG: store: an entry replaced by that of another key")
	}
	return s.put(e, o, t)
}

func (s *Store) put(old *Entry, o Object, t Ticket) *Entry {
	e := s.entry(o, uint64(t))
	if e.size > s.opts.MaxBytes || s.opts.MaxDisk > 0 && o.Disk > s.opts.MaxDisk {
		return nil
	}
	e.tags = s.tags.acquire(o.Tags)
	if s.about(e) || e.State() == Gone {
		s.tags.release(o.Tags, e.tags)
		return nil
	}
	left, ok := s.insert(e, old, true)
	if !ok {
		s.tags.release(o.Tags, e.tags)
		return nil
	}
	for _, l := range left {
		s.leave(l, l != old)
	}
	s.evict(e)
	return e
}

func (s *Store) entry(o Object, born uint64) *Entry {
	e := &Entry{Object: o, store: s, size: sizeOf(&o), born: born, hash: maphash.String(s.seed, o.Key) & s.bits}
	e.alone[0] = e
	return e
}

// insert puts e into its shard, in the place of old if that is not nil, with the copies of
// its body if they stay. It returns who had to go, and false if old was not there.
func (s *Store) insert(e, old *Entry, stay bool) (left []*Entry, ok bool) {
	sh := s.shardOf(e.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if old != nil && old.gone {
		return nil, false
	}
	was := sh.variantsOf(e.hash, e.Key)
	list := append(e.alone[:0], e) // more are elsewhere: alone stays as it is
	for _, v := range was {
		if v.Variant == e.Variant {
			left = append(left, v)
		} else {
			list = append(list, v)
		}
	}
	if len(list) > s.opts.MaxVariants {
		i := len(list) - 1
		for j := i; j > 0; j-- { // the oldest that nobody uses
			if !list[j].used.Load() {
				i = j
				break
			}
		}
		left = append(left, list[i])
		list = slices.Delete(list, i, i+1)
	}
	for _, v := range left {
		e.used.Store(e.used.Load() || v == old && v.used.Load())
		s.unlink(sh, v)
	}
	sh.set(e.hash, e.Key, list)
	spare := e.Body.n
	if old != nil && stay {
		spare += e.inherit(old)
	}
	if e.Disk > 0 && spare > 0 {
		e.ring = loadable
	}
	s.link(sh, e)
	s.bytes.Add(e.size)
	s.disk.Add(e.Disk)
	s.entries.Add(1)
	return left, true
}

// link puts e into its ring, as the latest. The lock is held.
func (s *Store) link(sh *shard, e *Entry) {
	if e.ring == loadable {
		s.loadable.Add(1)
	}
	root := &sh.rings[e.ring].root
	e.prev, e.next = root, root.next
	e.prev.next, e.next.prev = e, e
}

// takeOff takes e off its ring. The lock is held.
func (s *Store) takeOff(sh *shard, e *Entry) {
	r := &sh.rings[e.ring]
	if r.hand == e {
		r.hand = e.prev
	}
	for _, w := range r.walks {
		if w.next == e {
			w.next = e.prev
		}
	}
	if e.ring == loadable {
		s.loadable.Add(-1)
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// unlink takes e off the ring and the counts, not off the keys. The lock is held.
func (s *Store) unlink(sh *shard, e *Entry) {
	s.takeOff(sh, e)
	e.gone = true
	s.bytes.Add(-e.size)
	s.disk.Add(-e.Disk)
	s.entries.Add(-1)
}

// leave gives up what an entry has that is out of the shard.
func (s *Store) leave(e *Entry, tell bool) {
	s.tags.release(e.Tags, e.tags)
	if tell && s.opts.Leave != nil {
		s.opts.Leave(e)
	}
}

// Remove takes e out, and reports whether it was there.
func (s *Store) Remove(e *Entry) bool {
	sh := s.shardOf(e.hash)
	sh.mu.Lock()
	ok := s.remove(sh, e)
	sh.mu.Unlock()
	if ok {
		s.leave(e, true)
	}
	return ok
}

func (s *Store) remove(sh *shard, e *Entry) bool {
	if e.gone {
		return false
	}
	was := sh.variantsOf(e.hash, e.Key)
	s.unlink(sh, e)
	if len(was) == 1 {
		sh.set(e.hash, e.Key, nil)
		return true
	}
	list := make([]*Entry, 0, len(was)-1)
	for _, v := range was {
		if v != e {
			list = append(list, v)
		}
	}
	sh.set(e.hash, e.Key, list)
	return true
}

// Delete takes all variants of a key out, and returns how many there were. A response
// that is being made may still be stored; Purge is what forbids that.
func (s *Store) Delete(key string) int {
	h := maphash.String(s.seed, key) & s.bits
	sh := s.shardOf(h)
	sh.mu.Lock()
	list := sh.variantsOf(h, key)
	sh.set(h, key, nil)
	for _, e := range list {
		s.unlink(sh, e)
	}
	sh.mu.Unlock()
	for _, e := range list {
		s.leave(e, true)
	}
	return len(list)
}

// evict makes room until the bounds hold. keep stays.
func (s *Store) evict(keep *Entry) {
	for {
		memory := s.bytes.Load() > s.opts.MaxBytes
		disk := s.opts.MaxDisk > 0 && s.disk.Load() > s.opts.MaxDisk
		many := s.opts.MaxEntries > 0 && s.entries.Load() > int64(s.opts.MaxEntries)
		switch {
		case disk || many:
			first := int(s.hand.Load() & 1)
			if !s.evictOne(keep, first) && !s.evictOne(keep, 1-first) {
				return
			}
		case memory && s.loadable.Load() > 0 && s.demoteOne(keep):
		case !memory || !s.evictOne(keep, whole):
			return
		}
	}
}

// evictOne takes an entry out of one of the rings called which, and reports whether
// there was one.
func (s *Store) evictOne(keep *Entry, which int) bool {
	for range s.shards {
		sh := &s.shards[s.hand.Add(1)%uint32(len(s.shards))]
		sh.mu.Lock()
		e := sh.rings[which].victim(keep)
		if e != nil {
			s.remove(sh, e)
		}
		sh.mu.Unlock()
		if e != nil {
			s.evicted.Add(1)
			s.leave(e, true)
			return true
		}
	}
	return false
}

// demoteOne takes the body, and its copies, of one entry that has it elsewhere too, and
// reports whether there was one.
func (s *Store) demoteOne(keep *Entry) bool {
	for range s.shards {
		sh := &s.shards[s.hand.Add(1)%uint32(len(s.shards))]
		sh.mu.Lock()
		e := sh.rings[loadable].victim(keep)
		sh.mu.Unlock()
		if e != nil {
			o := e.Object
			o.Body = Body{}
			s.demote(e, o)
			return true
		}
	}
	return false
}

// demote puts o in the place of e, without making room for it.
func (s *Store) demote(e *Entry, o Object) {
	d := s.entry(o, e.born)
	d.tags = s.tags.acquire(o.Tags)
	left, ok := s.insert(d, e, false)
	if !ok {
		s.tags.release(o.Tags, d.tags)
		return
	}
	for _, l := range left {
		s.leave(l, l != e)
	}
	s.demoted.Add(1)
}

// victim is the next entry that the hand would take, nil if there is none but keep.
func (r *ring) victim(keep *Entry) *Entry {
	e := r.hand
	for rounds := 0; rounds < 3; {
		if e == nil || e == &r.root {
			if e = r.root.prev; e == &r.root {
				return nil
			}
			rounds++ // the second finds what the first has made unused
		}
		switch {
		case e == keep:
		case e.used.Load() && e.State() != Gone:
			e.used.Store(false)
		default:
			r.hand = e.prev
			return e
		}
		e = e.prev
	}
	return nil // but keep, or others use all of them at once
}

// Purge makes every entry with the tag gone, or stale if soft, and every one that is
// being made since a Ticket from before. Its time does not depend on their number.
func (s *Store) Purge(tag string, soft bool) { s.tags.purge(tag, s.ticket.Add(1), soft) }

// Sweep takes out what is purged or too old at a time, and returns how many entries
// those were. Look-ups and writers go on.
func (s *Store) Sweep(now time.Time) int {
	s.fold()
	n := 0
	s.walk(func(e *Entry) bool {
		if (!now.Before(e.Until) || e.State() == Gone) && s.Remove(e) {
			n++
		}
		return true
	})
	s.tags.forget()
	return n
}

// Clear takes everything out.
func (s *Store) Clear() {
	s.walk(func(e *Entry) bool {
		s.Remove(e)
		return true
	})
}

// Each calls f for every entry, in no order, until it returns false. No lock is held
// then: some may have left by now.
func (s *Store) Each(f func(e *Entry) bool) { s.walk(f) }

// walkStep is how many entries are looked at under one lock: stores wait for who has it.
const walkStep = 64

// walk calls f for every entry until it returns false. What comes in meanwhile may be
// among them.
func (s *Store) walk(f func(e *Entry) bool) {
	var list [walkStep]*Entry
	for i := range s.shards {
		for j := range s.shards[i].rings {
			if !s.shards[i].walk(&s.shards[i].rings[j], list[:], f) {
				return
			}
		}
	}
}

func (sh *shard) walk(r *ring, list []*Entry, f func(e *Entry) bool) bool {
	at := &place{}
	sh.mu.Lock()
	at.next = r.root.prev
	r.walks = append(r.walks, at)
	sh.mu.Unlock()
	defer func() {
		sh.mu.Lock()
		r.walks = slices.DeleteFunc(r.walks, func(w *place) bool { return w == at })
		sh.mu.Unlock()
	}()
	for {
		n := 0
		sh.mu.Lock() // place.next is written
		for ; n < len(list) && at.next != &r.root; n++ {
			list[n], at.next = at.next, at.next.prev
		}
		sh.mu.Unlock()
		if n == 0 {
			return true
		}
		for _, e := range list[:n] {
			if !f(e) {
				return false
			}
		}
	}
}

// Bytes returns the memory of all entries, bytes.
func (s *Store) Bytes() int64 { return s.bytes.Load() }

// Counts tells what a store holds and has done.
type Counts struct {
	Entries, Bytes, Disk int64 // what is stored now; Bytes: memory
	Tags                 int
	Evicted, Demoted     uint64 // since New
}

// Counts returns them. Tags are counted one part after the other.
func (s *Store) Counts() Counts {
	return Counts{s.entries.Load(), s.bytes.Load(), s.disk.Load(), s.tags.len(), s.evicted.Load(), s.demoted.Load()}
}
