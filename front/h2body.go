package front

import "sync"

// bodyBlock is a piece of a body that waits for its handler.
type bodyBlock [16 << 10]byte

var bodyBlocks = sync.Pool{New: func() any { return new(bodyBlock) }}

// h2Body holds what has come of the body of a request and was not read. Flow control
// bounds it.
type h2Body struct {
	blocks []*bodyBlock
	from   int // of the first block
	to     int // of the last one
	n      int // bytes
}

// put appends p.
func (b *h2Body) put(p []byte) {
	b.n += len(p)
	for len(p) > 0 {
		if len(b.blocks) == 0 || b.to == len(bodyBlock{}) {
			b.blocks = append(b.blocks, bodyBlocks.Get().(*bodyBlock))
			b.to = 0
		}
		m := copy(b.blocks[len(b.blocks)-1][b.to:], p)
		b.to += m
		p = p[m:]
	}
}

// read takes bytes from the beginning.
func (b *h2Body) read(p []byte) (n int) {
	for n < len(p) && b.n > 0 {
		end := len(bodyBlock{})
		if len(b.blocks) == 1 {
			end = b.to
		}
		m := copy(p[n:], b.blocks[0][b.from:end])
		n += m
		b.n -= m
		if b.from += m; b.from == end {
			b.shift()
		}
	}
	return n
}

// shift gives the first block back.
func (b *h2Body) shift() {
	bodyBlocks.Put(b.blocks[0])
	last := len(b.blocks) - 1
	copy(b.blocks, b.blocks[1:])
	b.blocks[last] = nil
	b.blocks = b.blocks[:last]
	b.from = 0
}

// free drops all and returns how much that was.
func (b *h2Body) free() (n int) {
	n = b.n
	for len(b.blocks) > 0 {
		b.shift()
	}
	*b = h2Body{blocks: b.blocks}
	return n
}
