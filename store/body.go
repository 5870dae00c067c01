package store

import (
	"bytes"
	"errors"
	"io"
)

// chunkSize is the size of all chunks of a body but the last.
const chunkSize = 64 << 10

// Body is the content of an object in memory: immutable, shared by all readers. The
// zero value is empty.
type Body struct {
	chunks [][]byte
	n      int64
}

// Bytes is a body of b, which is not written to any more.
func Bytes(b []byte) Body {
	if len(b) == 0 {
		return Body{}
	}
	return Body{chunks: [][]byte{b}, n: int64(len(b))}
}

// Len returns the number of bytes.
func (b *Body) Len() int64 { return b.n }

// WriteRange writes the n bytes from offset off on, which lie within the body.
func (b *Body) WriteRange(w io.Writer, off, n int64) error {
	if off < 0 || n < 0 || off+n > b.n {
		panic("BUG: store: a range outside of its body")
	}
	for _, c := range b.chunks {
		if n == 0 {
			return nil
		}
		if off >= int64(len(c)) {
			off -= int64(len(c))
			continue
		}
		c = c[off:min(int64(len(c)), off+n)]
		if _, err := w.Write(c); err != nil {
			return err
		}
		off, n = 0, n-int64(len(c))
	}
	return nil
}

// Reader reads the body from its beginning.
func (b *Body) Reader() io.Reader {
	parts := make([]io.Reader, len(b.chunks))
	for i, c := range b.chunks {
		parts[i] = bytes.NewReader(c)
	}
	return io.MultiReader(parts...)
}

// Size returns the memory that the body takes, bytes.
func (b *Body) Size() int64 {
	n := int64(0)
	for _, c := range b.chunks {
		n += int64(cap(c))
	}
	return n + int64(len(b.chunks))*24
}

// ErrTooLarge is the error of a Builder for the byte beyond its limit.
var ErrTooLarge = errors.New("body over the limit of the cache")

// Builder takes a body as it arrives. Limit bounds it, in bytes.
type Builder struct {
	Limit int64

	body Body
}

// Write appends a copy of p. Beyond Limit it takes nothing and returns ErrTooLarge;
// what it has is then of no use, and Reset gives it up.
func (b *Builder) Write(p []byte) (int, error) {
	if b.body.n+int64(len(p)) > b.Limit {
		return 0, ErrTooLarge
	}
	n := len(p)
	for len(p) > 0 {
		last := len(b.body.chunks) - 1
		if last < 0 || len(b.body.chunks[last]) == chunkSize {
			b.body.chunks = append(b.body.chunks, make([]byte, 0, min(chunkSize, max(len(p), 512))))
			last++
		}
		c := b.body.chunks[last]
		k := min(len(p), chunkSize-len(c))
		b.body.chunks[last] = append(c, p[:k]...)
		p = p[k:]
		b.body.n += int64(k)
	}
	return n, nil
}

// Len returns the number of bytes so far.
func (b *Builder) Len() int64 { return b.body.n }

// Body returns what was written, and leaves the builder empty. Memory beyond an
// eighth of the last chunk is given back.
func (b *Builder) Body() Body {
	body := b.body
	b.body = Body{}
	for i, c := range body.chunks {
		if cap(c)-len(c) > len(c)/8 {
			body.chunks[i] = append(make([]byte, 0, len(c)), c...)
		}
	}
	return body
}

// Reset drops what was written.
func (b *Builder) Reset() { b.body = Body{} }
