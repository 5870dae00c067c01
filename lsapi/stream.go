package lsapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"httpjet/exchange"
	"httpjet/gateway"
)

// stream reads the replies of a connection out of its packets. STDERR goes to the
// log on the way. Of a reply it returns io.EOF only behind RESP_END; any error is
// final.
type stream struct {
	br     *bufio.Reader
	stderr *gateway.Stderr
	begun  bool // a byte of the reply was read
	headIn bool
	left   int // content bytes left of the RESP_STREAM at hand
	pid    int // of the child, which tells it once for a connection; 0: not yet
	err    error

	fields exchange.Fields // memory of the replies, one after the other
	head   []byte
}

// Begin, Head and the others are those of a gateway.Stream.
func (s *stream) Begin(log *gateway.Stderr) {
	s.stderr, s.begun, s.headIn, s.left, s.err = log, false, false, 0, nil
}

func (s *stream) PID() int { return s.pid }

func (s *stream) Head() (h gateway.Head, err error) {
	h.Fields = s.fields
	p, err := s.next()
	if err != nil {
		return h, err
	}
	if p.typ != typeHead {
		return h, fmt.Errorf("packet of type %d before the head", p.typ)
	}
	s.headIn = true
	err = s.readHead(&h, p)
	s.fields = h.Fields
	return h, err
}

// next reads up to the content of the next packet that is the reply's: its head,
// a part of its body or its end. A header is looked at before it is taken, so that
// begun tells a connection that died silently from one that had begun to speak.
func (s *stream) next() (header, error) {
	for {
		b, err := s.br.Peek(headerLen)
		s.begun = s.begun || len(b) > 0
		if err != nil {
			return header{}, cut(err)
		}
		p, err := parseHeader(b)
		if err != nil {
			return p, err
		}
		s.br.Discard(headerLen)
		switch p.typ {
		case typeStderr:
			if err := s.log(p); err != nil {
				return p, err
			}
		case typeReceived:
			if s.headIn {
				return p, errors.New("receipt of the request behind the head")
			}
		case typeError:
			return p, &gateway.RefusedError{Err: errors.New("application reports an internal error")}
		case typeClose:
			return p, errors.New("application closes the connection inside a reply")
		default:
			return p, nil
		}
	}
}

// noticeLen is the content of the notice by which a child tells its process id with
// the first request of a connection: NUL "PID" and four bytes. It is no text.
const noticeLen = 8

// log passes a packet of STDERR on, unless it is the notice.
func (s *stream) log(p header) error {
	if p.content == noticeLen {
		b, err := s.br.Peek(noticeLen)
		if err != nil {
			return cut(err)
		}
		if string(b[:4]) == "\x00PID" {
			s.pid = int(p.order.Uint32(b[4:]))
			s.br.Discard(noticeLen)
			return nil
		}
	}
	for n := p.content; n > 0; {
		b, err := s.br.Peek(min(n, max(1, s.br.Buffered())))
		if len(b) == 0 {
			return cut(err)
		}
		b = b[:min(len(b), n)]
		s.stderr.Write(b)
		s.br.Discard(len(b))
		n -= len(b)
	}
	return nil
}

// smallHead is the memory for a head that a connection keeps, in bytes.
const smallHead = 2 << 10

// readHead reads the content of RESP_HEADER: the number of fields, the status, the
// length of each line, and the lines, each with a NUL at its end. Memory is taken
// for no more than maxHead.
func (s *stream) readHead(h *gateway.Head, p header) error {
	if cap(s.head) < p.content {
		s.head = make([]byte, max(smallHead, p.content))
	}
	b := s.head[:p.content]
	if cap(s.head) > 4*smallHead {
		s.head = nil // is rarely needed
	}
	if _, err := io.ReadFull(s.br, b); err != nil {
		return cut(err)
	}
	return parseHead(h, p, b)
}

func parseHead(h *gateway.Head, p header, b []byte) error {
	h.Reset()
	count, status := int64(int32(p.order.Uint32(b))), int64(int32(p.order.Uint32(b[4:])))
	lengths := b[8:]
	if count < 0 || 2*count > int64(len(lengths)) {
		return fmt.Errorf("head of %d bytes with %d fields", len(b), count)
	}
	lines := string(lengths[2*count:])
	for i := range int(count) {
		n := int(p.order.Uint16(lengths[2*i:]))
		if n == 0 || n > len(lines) || lines[n-1] != 0 {
			return fmt.Errorf("field %d of the head with a length of %d", i+1, n)
		}
		name, value, err := gateway.ParseLine(lines[:n-1])
		if err == nil {
			err = h.Add(name, value)
		}
		if err != nil {
			return err
		}
		lines = lines[n:]
	}
	if lines != "" {
		return fmt.Errorf("%d bytes behind the fields of the head", len(lines))
	}
	if h.Status == 0 && status != 0 { // a Status field goes before the packet's
		if status < 200 || status > 599 {
			return fmt.Errorf("status %d", status)
		}
		h.Status = int(status)
	}
	h.Finish()
	return nil
}

func (s *stream) Read(p []byte) (int, error) {
	for s.err == nil && s.left == 0 {
		var h header
		switch h, s.err = s.next(); {
		case s.err != nil:
		case h.typ == typeEnd:
			s.err = io.EOF
		case h.typ == typeHead:
			s.err = errors.New("second head")
		default:
			s.left = h.content
		}
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

// Buffered looks through packets at hand that hold nothing of the body.
func (s *stream) Buffered() int {
	have := s.br.Buffered()
	switch {
	case s.err != nil:
		return 1
	case s.left > 0:
		return min(s.left, have)
	}
	for at := 0; have >= at+headerLen; {
		b, _ := s.br.Peek(at + headerLen)
		p, err := parseHeader(b[at:])
		at += headerLen
		switch {
		case err != nil || p.typ != typeBody && p.typ != typeStderr:
			return 1
		case p.typ == typeBody && p.content > 0:
			return min(p.content, have-at)
		}
		at += p.content
	}
	return 0
}

func (s *stream) Begun() bool { return s.begun }

func (s *stream) End() {
	s.stderr = nil
	s.fields.Reset()
}

// cut names an end of the connection inside a reply; other errors pass.
func cut(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
