package compress

import (
	"errors"

	"httpjet/coding"
	"httpjet/exchange"
)

// state is what a part does with the bytes of a body.
type state uint8

const (
	passing state = iota // as they are
	waiting              // the head is held until it is known which of the others
	encoding
	copied   // in the place of a file a coded copy goes out
	making   // they are coded whole before they go out, and kept
	replaced // they are dropped: what a cache has kept goes out
)

// part is a Filter's share in one exchange, and the sink of its body. It belongs to
// the goroutine that serves the exchange, from Join to Release.
type part struct {
	f     *Filter
	x     *exchange.Exchange
	named coding.Set // coding of the one tag of If-None-Match, which was translated

	state  state
	wish   wish
	coder  *coder // while encoding or making
	copy   []byte // when copied or replaced
	copier copier // while a copy is made for a cache
	next   exchange.Sink
	dirty  bool // bytes were coded since the last flush
	held   int  // bytes of first
	first  [leastBody]byte
	left   int64 // while encoding: bytes to come of the length that was told; -1: it was not
	closed bool
}

// What is told of a body and does not hold. The wire, which would notice, is told no
// length of a coded one.
var (
	errShort = errors.New("response body shorter than its length")
	errLong  = errors.New("response body longer than its length")
)

// ForErrors makes it an exchange.ErrorFilter: pages for errors are text like others.
func (p *part) ForErrors() {}

// Release gives back what p holds, and p itself.
func (p *part) Release() {
	p.copier.end(nil, exchange.CopyNone) // if it has not ended well
	if p.coder != nil {
		p.f.o.Encoders.giveBack(p.coder)
	}
	*p = part{}
	parts.Put(p)
}

// Head decides about the coding of an answer and says so in its head. Of a body whose
// length nobody knows it waits for the first bytes: few of them go out as they are.
func (p *part) Head(x *exchange.Exchange) bool {
	w, kept := p.f.wish(x), x.Kept
	if w.varies {
		Vary(&x.Resp.Fields)
	}
	if x.Resp.Status == 304 {
		p.confirm()
		return false
	}
	if w.choice == 0 {
		return false
	}
	p.wish = w
	switch {
	case p.takeCopy():
		return true
	case x.Req.Method == "HEAD": // as the answer to a GET
		Mark(x, w.choice)
		return false
	case kept != nil && !x.Failed:
		return p.takeKept(kept)
	case x.Resp.Length < 0 && !w.events:
		p.state = waiting
		x.HoldHead()
		return true
	}
	return p.begin()
}

// levels returns how hard the answer is coded.
func (p *part) levels() *Levels {
	if p.wish.file {
		return &p.f.o.FileLevels
	}
	return &p.f.o.Levels
}

// begin takes an encoder and marks the head. Where there is no memory for the one
// that the client likes best, another coding may do, or none.
func (p *part) begin() bool {
	for c, offer := p.wish.choice, p.wish.offer; c != 0; {
		if p.coder = p.f.o.Encoders.lend(c, p.levels().of(c), (*behind)(p)); p.coder != nil {
			p.state, p.left = encoding, p.x.Resp.Length
			Mark(p.x, c)
			return true
		}
		offer &^= c
		c = accepted(&p.x.Req.Fields).Best(offer)
	}
	p.state = passing
	return false
}

// behind is where the coder of a part writes to.
type behind part

func (b *behind) Write(q []byte) (int, error) {
	if b.copier.gather(q) && b.state == making {
		return len(q), nil
	}
	if b.state == making {
		if err := (*part)(b).goOn(); err != nil {
			return 0, err
		}
	}
	return b.next.Write(q)
}

// Wrap is that of exchange.Filter.
func (p *part) Wrap(next exchange.Sink) exchange.Sink {
	p.next = next
	return p
}

// Write takes bytes of the body.
func (p *part) Write(b []byte) (int, error) {
	switch p.state {
	case waiting:
		if p.held+len(b) < len(p.first) {
			p.held += copy(p.first[p.held:], b)
			return len(b), nil
		}
		if err := p.decide(); err != nil {
			return 0, err
		}
		return p.Write(b)
	case encoding, making:
		return p.encode(b)
	case copied:
		return p.writeCopy(b)
	case replaced:
		return len(b), p.sendKept()
	}
	return p.next.Write(b)
}

// encode codes b.
func (p *part) encode(b []byte) (int, error) {
	if p.left >= 0 {
		if int64(len(b)) > p.left {
			return 0, errLong
		}
		p.left -= int64(len(b))
	}
	p.dirty = p.dirty || len(b) > 0
	n, err := p.coder.Write(b)
	if err == nil && p.state == making {
		err = p.made()
	}
	return n, err
}

// decide ends the wait: the body is coded, if there is memory for it.
func (p *part) decide() error {
	p.begin()
	if err := p.x.SendHead(); err != nil {
		return err
	}
	held := p.first[:p.held]
	p.held = 0
	if len(held) == 0 {
		return nil
	}
	_, err := p.Write(held)
	return err
}

// Flush makes everything that was written visible to the client: a stream is live,
// whatever its coding (R-STREAM-2, G39, G41). A handler that flushes has more to come,
// so that a body of unknown length is coded then, however little there is of it.
func (p *part) Flush() error {
	if p.state == waiting {
		if err := p.decide(); err != nil {
			return err
		}
	}
	switch {
	case p.state == making:
		return nil // all of it is at hand
	case p.state == replaced:
		if err := p.sendKept(); err != nil {
			return err
		}
	case p.state == encoding && p.dirty:
		if err := p.coder.Flush(); err != nil {
			return err
		}
		p.dirty = false
	}
	return p.next.Flush()
}

// Close ends the body.
func (p *part) Close() error {
	switch p.state {
	case waiting:
		return p.closeSmall()
	case making: // it ends with its last byte
		if err := p.goOn(); err != nil {
			return err
		}
		return errShort
	case encoding:
		if p.left > 0 {
			return errShort // without the end of the coded body, so that nobody takes it for whole
		}
		if err := p.coder.Close(); err != nil {
			return err
		}
		p.copier.keep()
	case replaced:
		if err := p.sendKept(); err != nil {
			return err
		}
	case copied:
		if err := p.closeCopy(); err != nil {
			return err
		}
	}
	return p.next.Close()
}

// closeSmall sends a body that has ended before there was enough of it, now that its
// length is known. One with trailers stays without a length, which could not carry
// them.
func (p *part) closeSmall() error {
	p.state = passing
	x := p.x
	if x.Trailers.Len() == 0 && !x.Resp.Fields.Has("Trailer") {
		x.Resp.Length = int64(p.held)
	}
	if err := x.SendHead(); err != nil {
		return err
	}
	if p.held > 0 {
		if _, err := p.next.Write(p.first[:p.held]); err != nil {
			return err
		}
	}
	return p.next.Close()
}
