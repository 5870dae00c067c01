package exchange

import "sync/atomic"

// Ready is a list of fields that does not change any more and that many answers begin
// with, as those of an entry of a cache. It remembers how a wire writes them. Any number of
// goroutines may use it.
type Ready struct {
	list  []Field
	lines [2]atomic.Pointer[[]byte]
}

// NewReady returns one of a list that nobody writes to any more.
func NewReady(list []Field) *Ready { return &Ready{list: list} }

// Len returns the number of fields.
func (r *Ready) Len() int { return len(r.list) }

// Lines returns what write has made of the fields, in one of two ways. It is made once.
func (r *Ready) Lines(way int, write func(b []byte, list []Field) []byte) []byte {
	if p := r.lines[way].Load(); p != nil {
		return *p
	}
	p := write(nil, r.list)
	r.lines[way].Store(&p)
	return p
}

// AddReady appends the fields of r.
func (f *Fields) AddReady(r *Ready) {
	if len(f.list) == 0 {
		f.ready = r
	}
	f.list = append(f.list, r.list...)
}

// Ready returns what f begins with, just as it was added; nil if there is no such.
func (f *Fields) Ready() *Ready { return f.ready }

// touch notes that field i is to be changed.
func (f *Fields) touch(i int) {
	if f.ready != nil && i < len(f.ready.list) {
		f.ready = nil
	}
}
