package front

import (
	"encoding/binary"

	"httpjet/h2"
)

// h2Pace is how many requests at hand are served in a row before other goroutines have
// the processor once: clients that send many at once hold up no others.
const h2Pace = 32

// h2Ahead is what the reader knows of frames at hand that it has not come to: which of the
// next streams the client has withdrawn, because the RST_STREAM is there already. To serve
// such a request would be work for nobody (G60).
type h2Ahead struct {
	any  bool
	from uint32    // the last stream that had begun when the frames were looked at
	set  [8]uint64 // bit i: the stream 2i or 2i+1 above from
}

// look notes the streams that frames, the last of which may be cut short, reset.
func (a *h2Ahead) look(frames []byte, begun uint32) {
	a.any, a.from = false, begun
	for len(frames) >= h2.HeaderSize {
		if h2.Type(frames[3]) == h2.RSTStream {
			a.note(binary.BigEndian.Uint32(frames[5:]) &^ (1 << 31))
		}
		n := h2.HeaderSize + int(frames[0])<<16 + int(frames[1])<<8 + int(frames[2])
		frames = frames[min(n, len(frames)):]
	}
}

func (a *h2Ahead) note(id uint32) {
	if i := (id - a.from) / 2; id > a.from && i < uint32(len(a.set)*64) {
		if !a.any {
			a.any, a.set = true, [len(a.set)]uint64{}
		}
		a.set[i/64] |= 1 << (i % 64)
	}
}

// withdrawn reports whether stream id was among them.
func (a *h2Ahead) withdrawn(id uint32) bool {
	if !a.any || id <= a.from {
		return false
	}
	i := (id - a.from) / 2
	return i < uint32(len(a.set)*64) && a.set[i/64]&(1<<(i%64)) != 0
}

// withdraw takes a whole request that the client has withdrawn: it has begun and ended.
func (c *h2conn) withdraw(id uint32, block []byte) error {
	if err := c.dec.Decode(block, nil, 0, false); err != nil {
		return err
	}
	c.lastID = id
	c.forget(id)
	return c.spendReset()
}
