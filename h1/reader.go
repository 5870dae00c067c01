package h1

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
)

// smallBuf is the size of a pooled input buffer: most heads fit into it. A larger
// head makes a buffer of its own, which is dropped with Release.
const smallBuf = 4 << 10

// smallBufs holds the input buffers of connections that are busy.
var smallBufs = sync.Pool{New: func() any { return new([smallBuf]byte) }}

// A LazyReader asks for the memory to read into when there is something to read,
// so that an idle connection holds no buffer. It may call Release to give memory
// back that it asked for too early.
type LazyReader interface {
	ReadLazy(buf func() []byte) (int, error)
}

// Reader reads the messages of one connection. It takes its buffer from a pool
// when it needs one; Release gives it back. It has one user at a time.
type Reader struct {
	src   io.Reader
	lazy  LazyReader      // src, if it is one
	small *[smallBuf]byte // pooled storage behind buf, if buf is of that size
	take  func() []byte   // r.buffer, made once
	buf   []byte          // nil while idle
	r, w  int             // unread bytes are buf[r:w]
	body  Body
}

// NewReader returns a Reader of the bytes of src. A src that is a LazyReader is
// read by that method.
func NewReader(src io.Reader) *Reader {
	r := &Reader{}
	r.Init(src)
	return r
}

// Init makes r, which is zero, a Reader as NewReader does.
func (r *Reader) Init(src io.Reader) {
	r.src = src
	r.lazy, _ = src.(LazyReader)
	r.take = r.buffer
}

// Buffered returns the number of bytes at hand without a read of the source.
func (r *Reader) Buffered() int { return r.w - r.r }

// Take returns the bytes at hand and forgets them. They are valid until the next
// use of r.
func (r *Reader) Take() []byte {
	p := r.buf[r.r:r.w]
	r.r, r.w = 0, 0
	return p
}

// Release gives the buffer back to the pool if no byte is held.
func (r *Reader) Release() {
	if r.r < r.w || r.buf == nil {
		return
	}
	if r.small != nil {
		smallBufs.Put(r.small)
	}
	r.small, r.buf, r.r, r.w = nil, nil, 0, 0
}

// HasHead reports whether a whole head seems to be at hand, so that reading it
// needs no deadline.
func (r *Reader) HasHead() bool {
	p := r.buf[r.r:r.w]
	return bytes.HasSuffix(p, crlfcrlf) || bytes.Contains(p, crlfcrlf) // mostly a head comes alone
}

// Wait returns when at least one byte is at hand, or with the source's error.
func (r *Reader) Wait() error {
	if r.r < r.w {
		return nil
	}
	return r.fill()
}

// buffer returns the free part of the buffer, which it makes if there is none.
func (r *Reader) buffer() []byte {
	if r.buf == nil {
		r.small = smallBufs.Get().(*[smallBuf]byte)
		r.buf = r.small[:]
	}
	return r.buf[r.w:]
}

// fill reads once from the source, behind the bytes at hand. The buffer must
// have room, or be empty.
func (r *Reader) fill() error {
	if r.r == r.w {
		r.r, r.w = 0, 0
	}
	for range 100 {
		var n int
		var err error
		if r.buf == nil && r.lazy != nil {
			n, err = r.lazy.ReadLazy(r.take)
		} else {
			n, err = r.src.Read(r.buffer())
		}
		r.w += n
		if n > 0 {
			return nil // an error comes again with the next read
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// room makes space for at least one more byte without losing those at hand;
// the buffer never grows above max bytes.
func (r *Reader) room(max int) bool {
	switch {
	case r.buf == nil || r.w < len(r.buf):
		return true
	case r.r > 0:
		copy(r.buf, r.buf[r.r:r.w])
		r.r, r.w = 0, r.w-r.r
		return true
	case len(r.buf) >= max: // the bound comes before the memory
		return false
	}
	grown := make([]byte, min(2*len(r.buf), max))
	copy(grown, r.buf)
	if r.small != nil {
		smallBufs.Put(r.small)
		r.small = nil
	}
	r.buf = grown
	return true
}

// Read reads raw bytes, those at hand first.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.r == r.w {
		if len(p) >= smallBuf { // large reads go past the buffer
			return r.src.Read(p)
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buf[r.r:r.w])
	r.r += n
	return n, nil
}

// ReadHead reads a head of at most max bytes, its final CRLFCRLF included. It
// returns io.EOF if the peer closed before any byte of it, and
// io.ErrUnexpectedEOF if it closed inside. A bare LF and a head over max are a
// *SyntaxError.
func (r *Reader) ReadHead(max int) (string, error) { return r.readHead(max, false, nil) }

// ReadRequestHead is ReadHead for a server: one empty line before the request is
// skipped (RFC 9112 §2.2), and a first byte that starts no method is refused at
// once, so that a client that speaks something else is not kept waiting. behind is
// put behind the head, in the same piece of memory.
func (r *Reader) ReadRequestHead(max int, behind []byte) (string, error) {
	if err := r.Wait(); err != nil {
		return "", err
	}
	if r.buf[r.r] == '\r' {
		stray := bad("request starts with a bare CR")
		line, err := r.line(2, stray)
		if err != nil {
			return "", err
		}
		if len(line) != 2 {
			return "", stray
		}
		if err := r.Wait(); err != nil {
			return "", err
		}
	}
	if class[r.buf[r.r]]&classToken == 0 {
		return "", bad("request starts with a byte that no method has")
	}
	return r.readHead(max, true, behind)
}

// readHead looks at each line end once, however the bytes arrive. The head is
// copied into a string, the one allocation of a head, so that the buffer may be
// used again while the fields are still in use.
func (r *Reader) readHead(max int, request bool, behind []byte) (string, error) {
	if r.r > 0 && len(r.buf)-r.r < smallBuf/2 {
		copy(r.buf, r.buf[r.r:r.w]) // so that most heads need no second copy
		r.r, r.w = 0, r.w-r.r
	}
	line, seen := 0, 0 // offsets behind r.r: start of the line, bytes searched
	var early partial
	for {
		for {
			i := bytes.IndexByte(r.buf[r.r+seen:r.w], '\n')
			if i < 0 {
				break
			}
			end := seen + i + 1
			if end < 2 || r.buf[r.r+end-2] != '\r' {
				return "", bad("bare LF in head")
			}
			if end > max {
				return "", tooLong(request && line == 0)
			}
			if end-line == 2 {
				return r.takeHead(end, behind), nil
			}
			line, seen = end, end
		}
		seen = r.w - r.r
		if seen >= max || !r.room(max) {
			return "", tooLong(request && line == 0)
		}
		if !request {
			if err := early.check(r.buf[r.r:r.w]); err != nil {
				return "", err
			}
		}
		if err := r.fill(); err != nil {
			return "", inside(err, seen)
		}
	}
}

// takeHead takes n bytes, and puts behind behind them.
func (r *Reader) takeHead(n int, behind []byte) string {
	var head strings.Builder
	head.Grow(n + len(behind))
	head.Write(r.buf[r.r : r.r+n])
	head.Write(behind)
	r.r += n
	return head.String()
}

// tooLong tells a target that is too long from fields that are (R-PIPE-4).
func tooLong(inTarget bool) *SyntaxError {
	if inTarget {
		return &SyntaxError{414, "request line too long"}
	}
	return &SyntaxError{431, "head too large"}
}

// inside turns an io.EOF in the middle of something into what it is.
func inside(err error, have int) error {
	if have > 0 && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// line returns the next line with its CRLF, at most max bytes, valid until the
// next read. A longer line is the error long.
func (r *Reader) line(max int, long *SyntaxError) ([]byte, error) {
	seen := 0
	for {
		if i := bytes.IndexByte(r.buf[r.r+seen:r.w], '\n'); i >= 0 {
			end := seen + i + 1
			if end > max {
				return nil, long
			}
			if end < 2 || r.buf[r.r+end-2] != '\r' {
				return nil, bad("bare LF")
			}
			line := r.buf[r.r : r.r+end]
			r.r += end
			return line, nil
		}
		seen = r.w - r.r
		if seen >= max || !r.room(max) {
			return nil, long
		}
		if err := r.fill(); err != nil {
			return nil, inside(err, 1)
		}
	}
}
