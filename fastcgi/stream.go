package fastcgi

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"httpjet/exchange"
	"httpjet/gateway"
)

// stream reads the replies of a connection.
type stream struct {
	out    stdout
	fields exchange.Fields // memory of the replies, one after the other
	head   []byte
	rest   []byte // STDOUT bytes read with the head
}

// Begin, Head and the others are those of a gateway.Stream.
func (s *stream) Begin(log *gateway.Stderr) {
	s.out, s.rest = stdout{br: s.out.br, stderr: log}, nil
}

func (s *stream) Head() (h gateway.Head, err error) {
	if s.head == nil {
		s.head = make([]byte, 0, smallHead)
	}
	h.Fields = s.fields
	s.rest, err = readHead(&s.out, s.head, &h)
	s.fields = h.Fields
	return h, err
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) > 0 {
		n := copy(p, s.rest)
		s.rest = s.rest[n:]
		return n, nil
	}
	return s.out.Read(p)
}

func (s *stream) Buffered() int {
	if len(s.rest) > 0 {
		return len(s.rest)
	}
	return s.out.buffered()
}

func (s *stream) Begun() bool { return s.out.any }

// PID is not told by the protocol.
func (s *stream) PID() int { return 0 }

func (s *stream) End() {
	s.out, s.rest = stdout{br: s.out.br}, nil
	s.fields.Reset()
}

// stdout reads the STDOUT stream of one reply out of its records. STDERR goes
// to the log on the way. io.EOF means a clean END_REQUEST and nothing less; any
// error is final.
type stdout struct {
	br     *bufio.Reader
	stderr *gateway.Stderr

	left    int  // content bytes left of the STDOUT record at hand
	padding int  // padding bytes behind them
	closed  bool // the empty STDOUT record was read
	any     bool // a byte of the reply was read
	err     error
}

// Read returns bytes of one STDOUT record as they come.
func (s *stdout) Read(p []byte) (int, error) {
	for s.err == nil && s.left == 0 {
		s.err = s.next()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.br.Read(p[:min(len(p), s.left)])
	s.left -= n
	if err != nil && n == 0 {
		s.err = cut(err)
		return 0, s.err
	}
	return n, nil
}

// next reads up to the content of the next STDOUT record, or to the end. A
// header is looked at before it is taken, so that any tells a connection that
// died silently from one that had begun to speak.
func (s *stdout) next() error {
	if err := s.skip(s.padding); err != nil {
		return err
	}
	s.padding = 0
	b, err := s.br.Peek(headerLen)
	s.any = s.any || len(b) > 0
	if err != nil {
		return cut(err)
	}
	h, err := parseHeader(b)
	if err != nil {
		return err
	}
	s.br.Discard(headerLen)
	s.padding = h.padding
	switch h.typ {
	case typeStderr:
		return s.log(h.content)
	case typeEnd:
		return s.end()
	}
	if s.closed && h.content > 0 {
		return fmt.Errorf("STDOUT record behind the end of STDOUT")
	}
	s.closed = h.content == 0
	s.left = h.content
	return nil
}

// log passes n bytes of STDERR on.
func (s *stdout) log(n int) error {
	for n > 0 {
		b, err := s.br.Peek(min(n, max(1, s.br.Buffered())))
		if len(b) == 0 {
			return cut(err)
		}
		s.stderr.Write(b)
		s.br.Discard(len(b))
		n -= len(b)
	}
	return nil
}

// end reads the body of END_REQUEST: io.EOF if the request is complete. The
// application's own exit status does not matter to us.
func (s *stdout) end() error {
	b, err := s.br.Peek(endLen)
	if err != nil {
		return cut(err)
	}
	status := b[4]
	s.br.Discard(endLen)
	if err := s.skip(s.padding); err != nil {
		return err
	}
	s.padding = 0
	if status != 0 {
		return &gateway.RefusedError{Err: errors.New("application ended the request: " + protocolStatus(status))}
	}
	return io.EOF
}

// skip throws n bytes away.
func (s *stdout) skip(n int) error {
	if n == 0 {
		return nil
	}
	if _, err := s.br.Discard(n); err != nil {
		return cut(err)
	}
	return nil
}

// buffered returns how many bytes Read gives without touching the socket. Records
// at hand that hold none are looked through; the end of the reply counts as one
// byte, for it too comes without waiting.
func (s *stdout) buffered() int {
	have := s.br.Buffered()
	switch {
	case s.err != nil:
		return 1
	case s.left > 0:
		return min(s.left, have)
	}
	for at := s.padding; have >= at+headerLen; {
		b, _ := s.br.Peek(at + headerLen)
		h, err := parseHeader(b[at:])
		at += headerLen
		switch {
		case err != nil || h.typ == typeEnd && have >= at+endLen+h.padding:
			return 1
		case h.typ == typeStdout && h.content > 0:
			return min(h.content, have-at)
		case h.typ == typeEnd:
			return 0
		}
		at += h.content + h.padding // of STDERR, or an empty STDOUT
	}
	return 0
}

// cut names an end of the connection inside a reply; other errors pass.
func cut(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
