package front

import (
	"io"
	"os"
	"sync"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
	"httpjet/h2"
)

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

// receive takes body bytes from a DATA frame of length bytes, padding included, or the
// end that trailers make. mu is held.
func (s *h2stream) receive(p []byte, length int, ends bool) error {
	c := s.c
	if length > s.recv {
		c.credit(length)
		return &h2.StreamError{Code: h2.FlowControlError, Msg: "DATA beyond the window of the stream"}
	}
	s.recv -= length
	s.got += int64(len(p))
	if s.declared >= 0 && s.got > s.declared {
		c.credit(length)
		return &h2.StreamError{Code: h2.ProtocolError, Msg: "body longer than Content-Length"}
	}
	if pad := length - len(p); pad > 0 {
		c.credit(pad)
		if s.owed += pad; !ends && s.owed >= s.full/2 { // nobody reads padding
			s.repay()
		}
	}
	if s.deafened() {
		c.credit(len(p))
	} else {
		s.body.put(p)
	}
	if ends {
		s.over = true
		s.short = s.declared >= 0 && s.got < s.declared
	}
	s.wakeReader()
	return nil
}

// deafened reports whether nobody will read the body. A tunnel whose one direction has
// ended has its other one yet; upgraded is set before sentEnd can be. mu is held.
func (s *h2stream) deafened() bool { return s.stopped.Load() || s.sentEnd && !s.upgraded }

// credit gives the client n bytes of the window of the connection, later. mu is held.
func (c *h2conn) credit(n int) {
	if c.owed += n; c.owed >= h2Window/2 {
		c.out = h2.AppendWindowUpdate(c.buffer(), 0, c.owed)
		c.recv += c.owed
		c.owed = 0
	}
}

// consumed notes that n bytes were read. While they are read as fast as they come, the
// window grows, so that it covers longer ways. mu is held.
func (s *h2stream) consumed(n int) {
	c := s.c
	c.credit(n)
	s.owed += n
	if s.over || s.owed < s.full/2 {
		return
	}
	if s.body.n == 0 && s.full < h2Most {
		s.owed += s.full
		s.full *= 2
	}
	s.repay()
}

// repay gives the client what is owed of the window of the stream. mu is held.
func (s *h2stream) repay() {
	s.c.out = h2.AppendWindowUpdate(s.c.buffer(), s.id, s.owed)
	s.recv += s.owed
	s.owed = 0
}

// Read reads the request body. The first call sends the 100 that the client may wait
// for (R-PIPE-6).
func (s *h2stream) Read(p []byte) (int, error) {
	if s.expect {
		s.expect = false
		s.sendContinue()
	}
	if len(p) == 0 {
		return 0, nil
	}
	return s.read(p, nil)
}

func (s *h2stream) sendContinue() {
	c := s.c
	c.mu.Lock()
	wanted := !s.started.Load() && s.got == 0 && !s.over && s.gone == nil
	if wanted {
		at := len(c.buffer())
		c.out = h2.AppendStatus(append(c.buffer(), make([]byte, h2.HeaderSize)...), 100)
		c.endHead(s, at, 0)
	}
	c.mu.Unlock()
}

// read returns body bytes that are there, or waits for some. If take is not nil, they go
// into what it returns once there are some.
func (s *h2stream) read(p []byte, take func() []byte) (int, error) {
	c := s.c
	var timer *time.Timer
	for {
		c.mu.Lock()
		n, err, done := s.tryRead(p, take)
		flush := len(c.out) > 0
		if done {
			c.mu.Unlock()
			if flush && s.own() && n > 0 {
				c.flushSoon(s.x.Crowded)
			}
			return n, err
		}
		if s.readable == nil {
			s.readable = make(chan struct{}, 1)
		}
		ready, by := s.readable, s.readBy
		c.mu.Unlock()
		s.leave()
		if flush {
			c.flush(true)
		}
		wait := s.lim.connTimeout()
		switch {
		case s.upgraded && by.IsZero(), !s.upgraded && s.started.Load():
			// A stream that is answered while it is open is one of messages both ways, on
			// which silence is no fault.
			<-ready
			continue
		case s.upgraded:
			wait = max(time.Until(by), 0)
		}
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-ready:
			continue
		case <-timer.C:
		}
		switch {
		case s.upgraded:
			c.mu.Lock()
			late := !s.readBy.IsZero() && !time.Now().Before(s.readBy) && s.body.n == 0 && !s.over && s.gone == nil
			c.mu.Unlock()
			if late {
				return 0, os.ErrDeadlineExceeded
			}
		case !s.started.Load():
			return 0, &exchange.Error{Status: 408, Reason: "request_stalled", Err: os.ErrDeadlineExceeded, Close: true}
		}
	}
}

// tryRead reads what is there; done: there is something to return. mu is held.
func (s *h2stream) tryRead(p []byte, take func() []byte) (n int, err error, done bool) {
	switch {
	case s.stopped.Load():
		return 0, errStopped, true
	case s.body.n > 0:
		if take != nil {
			p = take()
		}
		n = s.body.read(p)
		s.consumed(n)
		return n, nil, true
	case s.gone != nil:
		return 0, s.gone, true
	case s.short:
		return 0, refusal(&h1.SyntaxError{Status: 400, Msg: "body shorter than Content-Length"}), true
	case s.over:
		return 0, io.EOF, true
	case s.upgraded && !s.readBy.IsZero() && !time.Now().Before(s.readBy):
		return 0, os.ErrDeadlineExceeded, true
	}
	return 0, nil, false
}

// Trailers returns the trailers of the request.
func (s *h2stream) Trailers() *exchange.Fields {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.over || s.gone != nil {
		return nil
	}
	return s.trailers
}

// StopRead makes pending and later reads of the body fail.
func (s *h2stream) StopRead() {
	s.stopped.Store(true)
	s.c.mu.Lock()
	s.c.credit(s.body.free())
	s.wakeReader()
	s.c.mu.Unlock()
}
