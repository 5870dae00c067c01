package compress

import (
	"bytes"
	"errors"
	"unsafe"
)

// A small file that package docroot holds in memory is coded once and kept beside it,
// in each coding that clients ask for. Such an answer has a length.

// errOther says that not the file is sent that a copy was taken for.
var errOther = errors.New("another body than the file of the exchange")

// takeCopy finds the coded copy of a file that is held in memory, or makes it.
func (p *part) takeCopy() bool {
	r := &p.x.Resource
	if !p.wish.file || p.x.Failed || r.Copies == nil || p.x.Resp.Length != int64(len(r.Content)) {
		return false
	}
	c := p.wish.choice
	b := r.Copies.Coded(c.Name())
	if b == nil {
		var ok bool
		if b, ok = p.f.o.Encoders.Encode(nil, c, p.levels().of(c), r.Content); !ok {
			return false
		}
		b = bytes.Clone(b) // without room to grow
		r.Copies.KeepCoded(c.Name(), b)
	}
	p.state, p.copy = copied, b
	Mark(p.x, c)
	p.x.Resp.Length = int64(len(b))
	return true
}

// writeCopy sends the copy in the place of the file, which comes in one piece.
func (p *part) writeCopy(b []byte) (int, error) {
	content := p.x.Resource.Content
	if p.closed || len(b) != len(content) || unsafe.SliceData(b) != unsafe.SliceData(content) {
		return 0, errOther
	}
	p.closed = true
	if _, err := p.next.Write(p.copy); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (p *part) closeCopy() error {
	if !p.closed {
		return errOther
	}
	return nil
}
