package store

import "httpjet/exchange"

// headSize is the memory of a head that is ready beside its lines, about.
const headSize = 96

// Head returns the fields of e in the way in which an answer takes them fastest. Memory is
// spent on it when an entry is asked for that has served a request lately (Use), and counts
// with the entry; nil before that, and of an entry that has left: Fields has them.
func (e *Entry) Head() *exchange.Ready {
	if r := e.ready.Load(); r != nil {
		return r
	}
	if !e.used.Load() || len(e.Fields) == 0 {
		return nil
	}
	return e.store.makeHead(e)
}

// makeHead does so, and makes room for it.
func (s *Store) makeHead(e *Entry) *exchange.Ready {
	n := int64(headSize)
	for _, f := range e.Fields {
		n += int64(len(f.Name) + len(f.Value) + len(": \r\n"))
	}
	sh := s.shardOf(e.hash)
	sh.mu.Lock()
	r := e.ready.Load()
	if r != nil || e.gone || e.size+n > s.opts.MaxBytes {
		sh.mu.Unlock()
		return r
	}
	r = exchange.NewReady(e.Fields)
	e.ready.Store(r)
	e.size += n
	s.bytes.Add(n)
	sh.mu.Unlock()
	s.evict(e)
	return r
}
