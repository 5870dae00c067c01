package compress

import (
	"bytes"

	"httpjet/exchange"
)

// A body that a cache keeps whole is coded once in each coding, by the exchange that
// sends it first, and the cache keeps the copy beside it (exchange.Kept).

const (
	// wholeFirst is up to which length of a body its copy is made before it goes out, so
	// that those who wait for it do not wait for one client's connection, and the first
	// answer has a length too. A longer body goes out as it is coded.
	wholeFirst = 1 << 20
	// maxCopy is the longest copy that is gathered.
	maxCopy = 8 << 20
)

// takeKept decides about the answer with a body that a cache keeps.
func (p *part) takeKept(kept exchange.Kept) bool {
	x, c := p.x, p.wish.choice
	size := x.Resp.Length
	if size < 0 {
		return p.begin()
	}
	b, state := kept.Coded(c.Name())
	if state == exchange.CopyNone && size <= wholeFirst {
		x.MayWait()
		b, state = kept.AwaitCoded(x.Context(), c.Name())
	}
	switch state {
	case exchange.CopyHere:
		p.state, p.copy, x.Copied = replaced, b, true
		Mark(x, c)
		x.Resp.Length = int64(len(b))
		return true
	case exchange.CopyUseless:
		return false
	case exchange.CopyNone:
		return p.begin()
	}
	p.copier = copier{kept: kept, name: c.Name(), size: size}
	x.MayWait()
	if !p.begin() || p.coder.coding != c { // no memory for an encoder
		p.copier.end(nil, exchange.CopyNone)
		return p.state == encoding
	}
	if size <= wholeFirst {
		p.state = making
		x.HoldHead()
	}
	return true
}

// copier gathers a copy for a cache. The zero value gathers nothing.
type copier struct {
	kept exchange.Kept // nil: nobody waits for a copy, or not any more
	name string
	size int64 // of the body as it is
	buf  []byte
}

// gather takes coded bytes, if there is to be a copy of them.
func (c *copier) gather(p []byte) bool {
	if c.kept == nil {
		return false
	}
	switch n := int64(len(c.buf) + len(p)); {
	case n >= c.size:
		c.end(nil, exchange.CopyUseless)
	case n > maxCopy:
		c.end(nil, exchange.CopyNone)
	default:
		c.buf = append(c.buf, p...)
	}
	return c.kept != nil
}

// keep gives the copy, which is complete, to the cache, and returns it.
func (c *copier) keep() []byte {
	if c.kept == nil {
		return nil
	}
	b := c.buf
	if cap(b)-len(b) > len(b)/8 {
		b = bytes.Clone(b)
	}
	c.end(b, exchange.CopyHere)
	return b
}

// end tells the cache what came of it, once.
func (c *copier) end(b []byte, state exchange.Copy) {
	if c.kept != nil {
		c.kept.KeepCoded(c.name, b, state)
		c.kept = nil
	}
}

// goOn gives up to make a copy before it goes out: what there is of it goes out now.
func (p *part) goOn() error {
	held := p.copier.buf
	p.state, p.copier.buf = encoding, nil
	if err := p.x.SendHead(); err != nil || len(held) == 0 {
		return err
	}
	_, err := p.next.Write(held)
	return err
}

// made ends the making of a copy when the last byte of its body has come.
func (p *part) made() error {
	if p.left > 0 {
		return nil
	}
	if err := p.coder.Close(); err != nil {
		return err
	}
	if p.state != making { // it has become too long at its end, and has gone out
		p.state = passing
		return nil
	}
	p.state, p.copy = replaced, p.copier.keep()
	p.x.Resp.Length = int64(len(p.copy))
	if err := p.x.SendHead(); err != nil {
		return err
	}
	return p.sendKept()
}

// sendKept sends the copy, once.
func (p *part) sendKept() error {
	if p.closed {
		return nil
	}
	p.closed = true
	_, err := p.next.Write(p.copy)
	return err
}
