package store

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// maxPrefixes is how many of the latest purges of prefixes are remembered.
const maxPrefixes = 128

// prefixes are the latest purges of whole prefixes. Such a purge is one line of a list,
// which entries are held against when somebody asks for their state (Entry.ask), so its
// time does not depend on how many tags there are. Store.fold writes it to the tags that
// begin so, for whoever asks from then on. What was being made at that time may have a tag
// that nobody had: it is held against the whole list when it is stored (Store.about).
type prefixes struct {
	mu      sync.Mutex // of who adds
	list    atomic.Pointer[prefixList]
	folding sync.Mutex    // of who writes to the tags
	written atomic.Uint64 // number of the latest purge that all tags know of
}

// prefixList is immutable.
type prefixList struct {
	purges []prefixPurge // by number
	before uint64        // number of the latest that is not among them any more
}

type prefixPurge struct {
	prefix string
	n      uint64
	soft   bool
}

// about reports whether one of the tags begins with the prefix.
func (p *prefixPurge) about(tags []string) bool {
	return slices.ContainsFunc(tags, func(name string) bool { return strings.HasPrefix(name, p.prefix) })
}

// unwritten returns the purges, of which the tags know those up to the number from.
func (p *prefixes) unwritten() (list []prefixPurge, from uint64) {
	if l := p.list.Load(); l != nil {
		list = l.purges
	}
	return list, p.written.Load()
}

// PurgePrefix is Purge for all tags that begin with prefix. Its time does not depend on
// their number; only if many more come than are swept, it looks at every tag.
func (s *Store) PurgePrefix(prefix string, soft bool) {
	prefix = strings.Clone(prefix)
	for !s.addPrefix(prefix, soft) {
		s.fold()
	}
	s.tags.changes.Add(1)
}

// addPrefix notes a purge, unless that would push one out that tags do not know of.
func (s *Store) addPrefix(prefix string, soft bool) bool {
	p := &s.prefixes
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &prefixList{}
	if was := p.list.Load(); was != nil {
		purges := was.purges
		next.before = was.before
		if len(purges) == maxPrefixes {
			if purges[0].n > p.written.Load() {
				return false
			}
			next.before, purges = purges[0].n, purges[1:]
		}
		next.purges = append(make([]prefixPurge, 0, len(purges)+1), purges...)
	}
	next.purges = append(next.purges, prefixPurge{prefix, s.ticket.Add(1), soft})
	p.list.Store(next)
	return true
}

// fold writes the purges of prefixes to the tags. Nobody's state changes by that.
func (s *Store) fold() {
	p := &s.prefixes
	p.folding.Lock()
	defer p.folding.Unlock()
	list, from := p.unwritten()
	list = slices.DeleteFunc(slices.Clone(list), func(one prefixPurge) bool { return one.n <= from })
	if len(list) == 0 {
		return
	}
	s.tags.purgePrefixes(list)
	p.written.Store(list[len(list)-1].n)
}

// about reports whether a purge of a prefix has made e gone, which has its tags and is to
// be stored. A soft one marks the tags; one that is not known any more counts as one that
// does.
func (s *Store) about(e *Entry) bool {
	l := s.prefixes.list.Load()
	if l == nil {
		return false
	}
	if l.before > e.born && len(e.Tags) > 0 {
		return true
	}
	for i := len(l.purges) - 1; i >= 0 && l.purges[i].n > e.born; i-- {
		one := &l.purges[i]
		for j, name := range e.Tags {
			if !strings.HasPrefix(name, one.prefix) {
				continue
			}
			if !one.soft {
				return true
			}
			e.tags[j].raise(one.n, true)
			s.tags.changes.Add(1)
		}
	}
	return false
}
