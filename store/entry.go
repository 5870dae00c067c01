package store

import (
	"sync/atomic"
	"time"

	"httpjet/exchange"
)

// Object is a response as a cache describes it. What it points to is not changed any
// more once it is given to Put or Replace.
type Object struct {
	Key     string // whole; keys are compared, never only their hashes
	Variant string // tells it from the other entries of its key; an equal one is replaced

	// Vary is what Variant was made from, for whoever has to find the variant that a
	// request may have: names of fields or cookies, as the cache likes.
	Vary []string

	// Tags are what Purge names. A cache puts the namespace into the text.
	Tags []string

	Status int
	Fields []exchange.Field
	Body   Body // in memory; empty if the body lies elsewhere

	Stored time.Time // when the response was begun to be made or validated
	Fresh  time.Time // end of its freshness
	Until  time.Time // when it is of no use any more, not even stale: Sweep drops it

	Disk int64 // bytes that it takes outside of memory, see Options.MaxDisk
	Info any   // the cache's own; immutable, or safe for concurrent use
}

// Entry is an object that is stored. It is immutable, and stays valid for whoever has
// it after it has left the store.
type Entry struct {
	// What every look-up reads stands together, so that it is one line of the CPU's cache:
	// among many entries it is memory that a look-up waits for.
	list    atomic.Pointer[[]*Entry] // all variants, of the latest one of a key; nil: it is alone; notLatest
	alone   [1]*Entry                // e, the list of one that is alone
	checked atomic.Uint64            // what State found: the number of changes of that time, twice shifted, and the State
	store   *Store
	used    atomic.Bool // since the hand of the shard came by
	ring    uint8       // of the shard, like gone, prev and next, guarded by its lock
	gone    bool

	Object

	born       uint64 // ticket of its making: purges with a greater number are about it
	size       int64  // memory, bytes; guarded by the shard
	tags       []*tag
	hash       uint64 // of Key
	prev, next *Entry
	copies     atomic.Pointer[copies]         // of the body; nil: nobody has asked for one
	ready      atomic.Pointer[exchange.Ready] // Fields as they go out; nil: not made yet
}

// State is what purges have made of an entry.
type State uint8

const (
	Live  State = iota
	Stale       // softly purged: to be validated or made anew before it is fresh again
	Gone        // purged: not to be used
)

// State tells if e was purged. It takes no lock, and reads the numbers of e's tags only
// if that of any tag was changed since it was here last.
func (e *Entry) State() State {
	n := e.store.tags.changes.Load() // first: a change behind it is counted behind it
	if was := e.checked.Load(); was>>stateBits == n {
		return State(was & (1<<stateBits - 1))
	}
	state := e.ask()
	e.checked.Store(n<<stateBits | uint64(state))
	return state
}

const stateBits = 2

// ask is State by the tags, and by the purges of prefixes that were not written to them
// yet. The list and what is written of it are read before the tags: a purge that is not
// found in them has been written, or comes behind this.
func (e *Entry) ask() State {
	list, from := e.store.prefixes.unwritten()
	state := Live
	for _, t := range e.tags {
		if t.gone.Load() > e.born {
			return Gone
		}
		if t.stale.Load() > e.born {
			state = Stale
		}
	}
	for i := len(list) - 1; i >= 0 && list[i].n > max(from, e.born); i-- {
		switch one := &list[i]; {
		case !one.about(e.Tags):
		case !one.soft:
			return Gone
		default:
			state = Stale
		}
	}
	return state
}

// Used reports whether e has served a request lately.
func (e *Entry) Used() bool { return e.used.Load() }

// Size returns the memory that e is counted with, bytes.
func (e *Entry) Size() int64 { return e.size }

// entrySize is the memory of an entry and of its place in the store beside the texts
// and the body, about.
const entrySize = 480

// sizeOf counts the memory of o.
func sizeOf(o *Object) int64 {
	n := entrySize + int64(len(o.Key)) + int64(len(o.Variant)) + o.Body.Size()
	for _, f := range o.Fields {
		n += 32 + int64(len(f.Name)+len(f.Value))
	}
	for _, v := range o.Vary {
		n += 16 + int64(len(v))
	}
	for _, t := range o.Tags {
		n += tagSize + int64(len(t))
	}
	return n
}
