package h2

import "encoding/binary"

// The Huffman code of RFC 7541 appendix B is canonical: codes of one length follow
// each other in the order of their symbols, and shorter ones come before longer ones.
// So the lengths say all of it.

// eos is the symbol that must not be sent; its code is all ones.
const eos = 256

const (
	longest = 30 // bits of a code
	atOnce  = 10 // bits that are looked up at once: all that is common
)

// codeLengths are those of the symbols, in bits.
var codeLengths = [eos + 1]uint8{
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
	28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
	6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
	5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
	13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
	15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
	6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
	20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
	24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
	22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
	21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
	26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
	19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
	20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
	26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
	30,
}

// huffman is the code as it is decoded.
type huffman struct {
	// fast has for the next bits the symbol that they begin with, and above it how many
	// bits that has; 0: more than are looked at.
	fast [1 << atOnce]uint16

	// Of the codes of one length: what comes behind the last of them, at the top of
	// longest bits, and what is to be added to a code for its place in symbols.
	limit  [longest + 1]uint32
	offset [longest + 1]int32
	symbol [eos + 1]uint16 // in the order of their codes
}

var code = makeHuffman()

// makeHuffman fills the tables once; they are never changed.
func makeHuffman() *huffman {
	h := &huffman{}
	next, place := uint32(0), 0 // code, and its place in symbols
	for n := 1; n <= longest; n++ {
		next <<= 1
		h.offset[n] = int32(place) - int32(next)
		for s := range codeLengths {
			if int(codeLengths[s]) != n {
				continue
			}
			if n <= atOnce {
				for i := range 1 << (atOnce - n) {
					h.fast[int(next)<<(atOnce-n)|i] = uint16(n)<<8 | uint16(s)
				}
			}
			h.symbol[place] = uint16(s)
			place++
			next++
		}
		h.limit[n] = next << (longest - n)
	}
	return h
}

// long returns the symbol of more than atOnce bits that bits begin with, and how many it
// has.
func (h *huffman) long(bits uint64) (symbol uint16, n int) {
	top := uint32(bits >> (64 - longest))
	for n = atOnce + 1; top >= h.limit[n]; n++ { // the limit of the longest ones is beyond all
	}
	return h.symbol[int32(top>>(longest-n))+h.offset[n]], n
}

// append appends what src stands for. It is wrong if it holds the symbol eos, or ends in
// anything but the beginning of that, shorter than a byte (RFC 7541 §5.2).
func (h *huffman) append(dst, src []byte) ([]byte, bool) {
	at := len(dst)
	dst = grow(dst, len(src)*8/5) // no code has less than 5 bits
	var bits uint64               // the next ones, at the top; behind them zeros, or bits that come again
	have := 0
	for {
		if len(src) >= 8 {
			bits |= binary.BigEndian.Uint64(src) >> have
			n := (63 - have) >> 3
			src, have = src[n:], have+n*8
		} else {
			for ; have <= 56 && len(src) > 0; src = src[1:] {
				bits |= uint64(src[0]) << (56 - have)
				have += 8
			}
		}
		if have < longest {
			break // src is at its end
		}
		for have >= longest {
			e := h.fast[bits>>(64-atOnce)]
			symbol, n := e&0xff, int(e>>8)
			if n == 0 {
				if symbol, n = h.long(bits); symbol == eos {
					return dst, false
				}
			}
			dst[at] = byte(symbol)
			at++
			bits <<= n & 63
			have -= n
		}
	}
	return h.last(dst, at, bits, have)
}

// last is the end of append: have bits, less than longest, are left.
func (h *huffman) last(dst []byte, at int, bits uint64, have int) ([]byte, bool) {
	bits |= ^uint64(0) >> have // as if more padding followed
	for have > 0 {
		e := h.fast[bits>>(64-atOnce)]
		symbol, n := e&0xff, int(e>>8)
		if n == 0 {
			symbol, n = h.long(bits)
		}
		if n > have { // no symbol: it must be padding
			return dst[:at], have < 8 && bits == ^uint64(0)
		}
		dst[at] = byte(symbol)
		at++
		bits = bits<<(n&63) | (1<<(n&63) - 1)
		have -= n
	}
	return dst[:at], true
}

// grow returns b longer by n bytes.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b[:len(b)+n]
	}
	return append(b, make([]byte, n)...)
}
