package compress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"httpjet/coding"
)

// Encode appends body to dst in coding c. It does not, and returns false, if there is
// no memory for an encoder, or if the coded body would not be smaller.
func (e *Encoders) Encode(dst []byte, c coding.Set, level int, body []byte) ([]byte, bool) {
	w := &bounded{buf: dst, max: len(dst) + len(body)}
	z := e.lend(c, level, w)
	if z == nil {
		return dst, false
	}
	defer e.giveBack(z)
	if _, err := z.Write(body); err != nil {
		return dst, false
	}
	if err := z.Close(); err != nil {
		return dst, false
	}
	return w.buf, true
}

// bounded is a buffer that takes fewer than max bytes.
type bounded struct {
	buf []byte
	max int
}

func (w *bounded) Write(p []byte) (int, error) {
	if len(w.buf)+len(p) >= w.max {
		return 0, errors.New("not smaller")
	}
	w.buf = append(w.buf, p...)
	return len(p), nil
}

// What is wrong with a coded body.
var (
	// ErrTooLarge says that it holds more than the bound, or so much more than it is
	// long that nobody means well with it.
	ErrTooLarge = errors.New("decoded body too large")
	// ErrCorrupt says that it cannot be decoded, or ends before its end.
	ErrCorrupt = errors.New("coded body is corrupt")
)

// Limits bound what is decoded.
type Limits struct {
	Max   int64 // bytes of the decoded body; 0: nothing is decoded
	Ratio int64 // times the coded bytes, above the first 1 MiB; 0: 200
}

// free is how much may be decoded whatever the ratio: a page of blanks is no attack.
const free = 1 << 20

// Decode appends to dst what body is in coding c. Memory is taken as bytes come out
// of the decoder, never by what the body says of itself. The error is ErrTooLarge or
// ErrCorrupt, wrapped.
func Decode(dst []byte, c coding.Set, body []byte, l Limits) ([]byte, error) {
	r, err := NewReader(c, bytes.NewReader(body), l)
	if err != nil {
		return dst, err
	}
	defer r.Close()
	out := bytes.NewBuffer(dst)
	if _, err := io.Copy(out, r); err != nil {
		return dst, err
	}
	return out.Bytes(), nil
}

// Reader decodes a body. Read fails with ErrTooLarge or ErrCorrupt, wrapped, or with
// the error of the source.
type Reader struct {
	source counted
	dec    io.Reader
	done   func() // gives the decoder up
	l      Limits
	out    int64
	err    error
}

// counted counts what a decoder takes, and remembers how its source failed.
type counted struct {
	r    *bufio.Reader
	n    int64
	full bool // as much is read as is asked for: the decoder takes a body in crumbs for a faulty one
	err  error
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for c.full && err == nil && n < len(p) {
		var m int
		m, err = c.r.Read(p[n:])
		n += m
	}
	if n > 0 && err == io.EOF {
		err = nil
	}
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// ReadByte keeps decoders from putting a buffer of their own before it.
func (c *counted) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	} else if err != io.EOF {
		c.err = err
	}
	return b, err
}

// NewReader decodes what r holds in coding c, Brotli in pieces of 32 KiB: what comes
// of it is not live. Close gives its memory up.
func NewReader(c coding.Set, r io.Reader, l Limits) (*Reader, error) {
	if l.Ratio <= 0 {
		l.Ratio = 200
	}
	d := &Reader{source: counted{r: bufio.NewReader(r)}, l: l, done: func() {}}
	switch c {
	case coding.Gzip:
		z, err := gzip.NewReader(&d.source) // reads the header
		if err != nil {
			return nil, d.cause(err)
		}
		d.dec = z
	case coding.Brotli:
		d.source.full = true
		d.dec = brotli.NewReader(&d.source)
	case coding.Zstd:
		// RFC 9659: no window above 8 MiB.
		z, err := zstd.NewReader(&d.source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, d.cause(err)
		}
		d.dec, d.done = z, z.Close
	default:
		panic("BUG: compress: not one coding")
	}
	return d, nil
}

// Read returns decoded bytes, never more than the limits allow.
func (d *Reader) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	// One byte too many is enough to see, however much memory the caller has at hand.
	n, err := d.dec.Read(p[:min(int64(len(p)), d.l.Max-d.out+1)])
	d.out += int64(n)
	switch {
	case d.out > d.l.Max:
		d.err = fmt.Errorf("%w: over %d bytes", ErrTooLarge, d.l.Max)
	case d.out > free && d.out/d.l.Ratio > d.source.n:
		d.err = fmt.Errorf("%w: over %d times its length", ErrTooLarge, d.l.Ratio)
	case err == io.EOF:
		d.err = d.end()
	case err != nil:
		d.err = d.cause(err)
	}
	if d.err != nil && d.err != io.EOF {
		return 0, d.err
	}
	return n, d.err
}

// end is io.EOF if nothing follows what was decoded.
func (d *Reader) end() error {
	if _, err := d.source.r.Peek(1); err == nil {
		return fmt.Errorf("%w: bytes behind its end", ErrCorrupt)
	}
	if d.source.n == 0 {
		return fmt.Errorf("%w: empty", ErrCorrupt)
	}
	return io.EOF
}

// cause is why decoding failed: the source, or the body.
func (d *Reader) cause(err error) error {
	if d.source.err != nil {
		return d.source.err
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return fmt.Errorf("%w: %v", ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %v", ErrCorrupt, err)
}

// Close gives the memory of the decoder up.
func (d *Reader) Close() error {
	d.done()
	return nil
}
