package h1

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"

	"httpjet/exchange"
)

// Framing says how the end of a body is found (RFC 9112 §6.3): a length in
// bytes if >= 0, else one of the constants.
type Framing int64

const (
	Chunked    Framing = -1
	UntilClose Framing = -2 // responses only
)

// Body reads one message body of a Reader. It returns io.EOF only at an end that
// the framing proves; a connection that ends before is io.ErrUnexpectedEOF, and
// broken framing a *SyntaxError. Errors are final.
type Body struct {
	r        *Reader
	framing  Framing
	left     int64 // bytes left of the body or of the chunk
	inChunk  bool  // between a chunk's size line and its closing CRLF
	err      error
	trailers exchange.Fields
}

// Body starts the body of the message whose head was read last. It is valid
// until the next call of Body.
func (r *Reader) Body(f Framing) *Body {
	b := &r.body
	b.trailers.Reset()
	b.r, b.framing, b.left, b.inChunk, b.err = r, f, max(0, int64(f)), false, nil
	if f == 0 {
		b.err = io.EOF
	}
	return b
}

// Read reads decoded bytes of the body.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	var n int
	switch b.framing {
	case UntilClose:
		n, b.err = b.r.Read(p)
	case Chunked:
		n, b.err = b.readChunked(p)
	default:
		n, b.err = b.readFixed(p)
	}
	if n > 0 && !errors.Is(b.err, io.EOF) {
		return n, nil // what came before an error is good; the error comes next
	}
	return n, b.err
}

// readFixed returns io.EOF together with the last byte, so that nobody has to
// ask again.
func (b *Body) readFixed(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.payload(p)
	if err == nil && b.left == 0 {
		err = io.EOF
	}
	return n, err
}

// payload reads up to len(p) <= b.left bytes, past the buffer if it is empty.
func (b *Body) payload(p []byte) (n int, err error) {
	if b.r.Buffered() == 0 && b.framing != Chunked {
		n, err = b.r.src.Read(p) // no byte of the next message can be among them
	} else {
		n, err = b.r.Read(p)
	}
	b.left -= int64(n)
	if n > 0 {
		return n, nil
	}
	return n, inside(err, 1)
}

// readChunked returns bytes of as many chunks as are at hand, so that small
// chunks do not mean small reads. It never waits while it has bytes to return.
func (b *Body) readChunked(p []byte) (n int, err error) {
	for {
		for b.left == 0 {
			if n > 0 && !b.sizeAtHand() {
				return n, nil
			}
			if err := b.nextChunk(); err != nil {
				return n, err
			}
		}
		if n == len(p) || n > 0 && b.r.Buffered() == 0 {
			return n, nil
		}
		q := p[n:]
		if int64(len(q)) > b.left {
			q = q[:b.left]
		}
		m, err := b.payload(q)
		n += m
		if err != nil {
			return n, err
		}
	}
}

// sizeAtHand reports whether nextChunk would return without reading the source.
// It may err towards false.
func (b *Body) sizeAtHand() bool {
	p := b.r.buf[b.r.r:b.r.w]
	if b.inChunk {
		if len(p) < 2 {
			return false
		}
		p = p[2:]
	}
	_, after, ok := bytes.Cut(p, []byte{'\n'})
	if !ok {
		return false
	}
	// A zero may be the last chunk: its trailers must be at hand too.
	return p[0] != '0' || bytes.HasPrefix(after, crlf) || bytes.Contains(after, crlfcrlf)
}

var crlf, crlfcrlf = []byte("\r\n"), []byte("\r\n\r\n")

// nextChunk reads the end of the current chunk and the next size line. At the
// last chunk it reads the trailers and returns io.EOF.
func (b *Body) nextChunk() error {
	if b.inChunk {
		line, err := b.r.line(2, bad("chunk longer than its size"))
		if err != nil {
			return err
		}
		if len(line) != 2 {
			return bad("chunk longer than its size")
		}
		b.inChunk = false
	}
	line, err := b.r.line(maxChunkLine, bad("chunk-size line too long"))
	if err != nil {
		return err
	}
	size, err := chunkSize(line[:len(line)-2])
	if err != nil {
		return err
	}
	if size > 0 {
		b.left, b.inChunk = size, true
		return nil
	}
	if err := b.readTrailers(); err != nil {
		return err
	}
	return io.EOF
}

// chunkSize reads 1*HEXDIG [ chunk-ext ] (RFC 9112 §7.1). The extension is not
// looked into but for bytes that have no place in a line; white space before it
// is refused, although the grammar's BWS allows it, because parsers disagree.
func chunkSize(line []byte) (int64, error) {
	var n int64
	i := 0
	for ; i < len(line); i++ {
		d := unhex(line[i])
		if d < 0 {
			break
		}
		if i == 16 || n >= 1<<59 { // n<<4 must stay below 2^63 (G06)
			return 0, bad("chunk size too large")
		}
		n = n<<4 | int64(d)
	}
	if i == 0 || i < len(line) && line[i] != ';' {
		return 0, bad("malformed chunk size")
	}
	for _, c := range line[i:] {
		if class[c]&classValue == 0 {
			return 0, bad("control byte in chunk extension")
		}
	}
	return n, nil
}

// unhex returns the value of a hex digit, -1 for another byte.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// readTrailers reads field lines up to the empty line. Fields that frame or
// route a message are dropped (RFC 9110 §6.5.1).
func (b *Body) readTrailers() error {
	left := maxTrailerBytes
	for {
		line, err := b.r.line(left, &SyntaxError{431, "trailers too large"})
		if err != nil {
			return err
		}
		if len(line) == 2 {
			return nil
		}
		left -= len(line)
		name, value, err := parseField(string(line[:len(line)-2]))
		if err != nil {
			return err
		}
		if b.trailers.Len() == maxTrailers {
			return &SyntaxError{431, "too many trailers"}
		}
		if !forbiddenTrailer(name) {
			b.trailers.Add(name, value)
		}
	}
}

// forbiddenTrailer reports whether a field may not come behind a body, because it
// would change how the message is framed, routed, authorised or read.
func forbiddenTrailer(name string) bool {
	switch strings.ToLower(name) {
	case "transfer-encoding", "content-length", "host", "connection", "keep-alive", "upgrade",
		"trailer", "te", "content-encoding", "content-type", "content-range", "authorization",
		"set-cookie", "expect", "proxy-authorization", "proxy-connection":
		return true
	}
	return false
}

// Trailers returns the trailers that came behind a chunked body, once Read has
// returned io.EOF; nil if there are none.
func (b *Body) Trailers() *exchange.Fields {
	if b.trailers.Len() == 0 || !errors.Is(b.err, io.EOF) {
		return nil
	}
	return &b.trailers
}

// Buffered returns the number of body bytes that the next Read returns without
// a read of the source. 0 tells a relay that it should flush: the next Read may
// wait, or the body has ended.
func (b *Body) Buffered() int {
	n := b.r.Buffered()
	if b.err != nil {
		return 0
	}
	if b.framing != UntilClose && int64(n) > b.left {
		return int(b.left)
	}
	return n
}

// Next returns the Buffered bytes themselves, valid until the next use of the
// Reader; with the last of them, or behind it, io.EOF. It may return none.
func (b *Body) Next() ([]byte, error) {
	n := b.Buffered()
	if n == 0 {
		return nil, b.err
	}
	p := b.r.buf[b.r.r : b.r.r+n]
	b.r.r += n
	b.left -= int64(n)
	if b.framing > 0 && b.left == 0 {
		b.err = io.EOF
	}
	return p, b.err
}

// Resume lets reads go on behind one that a deadline has ended. In the midst of trailers
// there is no going on: the next read fails.
func (b *Body) Resume() {
	if errors.Is(b.err, os.ErrDeadlineExceeded) {
		b.err = nil
	}
}

// Done reports whether Read has returned io.EOF, or would without reading.
func (b *Body) Done() bool { return errors.Is(b.err, io.EOF) }

// Left returns how many bytes are still to come, -1 if unknown.
func (b *Body) Left() int64 {
	if b.Done() {
		return 0
	}
	if b.framing < 0 {
		return -1
	}
	return b.left
}
