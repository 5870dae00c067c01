package front

import (
	"errors"
	"os"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
	"httpjet/h2"
)

var (
	errAborted = errors.New("response cut")
	errSlow    = errors.New("the client does not take the response")
)

// Head puts a head into the output.
func (s *h2stream) Head(r *exchange.Response, noBody, last bool) error {
	c := s.c
	s.deaf = s.tunnel != nil && last && !s.upgraded
	if s.deaf { // no tunnel: whatever it is, for an extended CONNECT it is none
		noBody = true
		if r.Status < 300 {
			r.Status = 501
			r.Fields.Reset()
		}
		r.Length = -1
	}
	if last {
		s.started.Store(true)
		s.noBody = noBody
	}
	c.mu.Lock()
	if s.gone != nil {
		c.mu.Unlock()
		return s.gone
	}
	at := len(c.buffer())
	b := append(c.buffer(), make([]byte, h2.HeaderSize)...)
	b = h2.AppendStatus(b, r.Status)
	if last {
		b = append(b, c.srv.ownFields(s.x.Recent(), s.lim.ServerHeader, r.Dated)...)
		if r.Length > 0 || r.Length == 0 && r.Status != 304 { // as in h1conn.Head
			b = h2.AppendLength(b, r.Length)
			s.bounded, s.left = !noBody, r.Length
		}
	}
	c.out = appendFields(b, &r.Fields, last && r.Dated)
	c.endHead(s, at, 0)
	c.mu.Unlock()
	s.wakeDuplex()
	if !last {
		return s.Flush()
	}
	return nil
}

// wakeDuplex lets who reads the body know that it may take its time now.
func (s *h2stream) wakeDuplex() {
	if s.declared == 0 {
		return
	}
	s.c.mu.Lock()
	s.wakeReader()
	s.c.mu.Unlock()
}

// Write appends body bytes to the output, as the client takes them, never more than the
// announced length.
func (s *h2stream) Write(p []byte) (int, error) {
	if s.deaf {
		return len(p), nil
	}
	n := len(p)
	if s.bounded && int64(n) > s.left {
		n = int(s.left)
	}
	sent, err := s.write(p[:n])
	s.left -= int64(sent)
	if err == nil && n < len(p) {
		err = errLong
	}
	return sent, err
}

// write appends p frame by frame.
func (s *h2stream) write(p []byte) (n int, err error) {
	c := s.c
	c.mu.Lock()
	for n < len(p) {
		if s.gone != nil {
			c.mu.Unlock()
			return n, s.gone
		}
		m := c.grant(s, len(p)-n)
		if m == 0 {
			if err := s.await(); err != nil {
				return n, err
			}
			c.mu.Lock()
			continue
		}
		s.lastAt = len(c.buffer())
		s.lastGen = c.gen
		c.out = append(h2.AppendHeader(c.buffer(), m, h2.Data, 0, s.id), p[n:n+m]...)
		s.window -= h2.Window(m)
		c.window -= h2.Window(m)
		c.idle.Earn(4)
		n += m
		if len(c.queue) > 0 {
			c.wakeNext()
		}
	}
	flush := len(c.out) >= outSoon
	c.mu.Unlock()
	if flush {
		c.flush(s.own())
	}
	return n, nil
}

// await waits until s may append something. It is called with mu held, and returns
// without it. The reader does not wait, not even for a socket that takes all: what is
// long is sent on another goroutine, so that others are heard.
func (s *h2stream) await() error {
	c := s.c
	if !s.own() {
		c.mu.Unlock()
		s.leave()
		c.mu.Lock()
	}
	if s.gone != nil {
		c.mu.Unlock()
		return s.gone
	}
	// It is in the queue before it writes: what is less urgent must not go on for as long
	// as it writes for all.
	ready := c.enqueue(s)
	if len(c.out) > 0 && !c.writing {
		c.mu.Unlock()
		c.flush(true)
		c.mu.Lock()
		if s.queued && c.first() == s && c.window > 0 && len(c.out)+c.sending == 0 {
			s.waits = false
			c.mu.Unlock()
			return nil
		}
		if s.gone != nil {
			c.mu.Unlock()
			return s.gone
		}
	}
	c.wakeNext() // it may be the first, and all that it waited for may be there
	sent := c.sent
	c.mu.Unlock()
	timer := time.NewTimer(s.lim.connTimeout())
	defer timer.Stop()
	for {
		select {
		case <-ready:
			c.mu.Lock()
			s.waits = false
			c.mu.Unlock()
			return nil
		case <-timer.C:
		}
		c.mu.Lock()
		if c.sent != sent && s.queued { // others are served meanwhile
			sent = c.sent
			c.mu.Unlock()
			timer.Reset(s.lim.connTimeout())
			continue
		}
		c.dequeue(s)
		c.wakeNext()
		s.waits = false
		c.mu.Unlock()
		return s.giveUp()
	}
}

// giveUp ends a stream whose client takes nothing.
func (s *h2stream) giveUp() error {
	s.reset(h2.Cancel, clientFailed(errSlow))
	return s.gone
}

// reset ends the stream from our side.
func (s *h2stream) reset(code h2.Code, why error) {
	c := s.c
	c.mu.Lock()
	if s.gone == nil {
		c.drop(s)
		s.kill(why)
		c.out = h2.AppendRST(c.buffer(), s.id, code)
		c.forgetLocked(s.id)
	}
	c.mu.Unlock()
	s.bury()
	if s.own() {
		c.flushSoon(s.x.Crowded)
	}
}

// SendFile sends part of a file through a buffer.
func (s *h2stream) SendFile(f *os.File, off, n int64) (sent int64, err error) {
	if n <= 0 {
		return 0, nil
	}
	if s.bounded && n > s.left {
		return 0, errLong
	}
	return copyFile(s, f, off, n)
}

// Flush sends all bytes so far. What the reader serves goes out when it has nothing more
// at hand, which is at once.
func (s *h2stream) Flush() error {
	if s.own() {
		s.c.flushSoon(s.x.Crowded)
	}
	return nil
}

// End completes the response. The end is a flag of the last frame if that has not been
// taken away yet.
func (s *h2stream) End(trailers *exchange.Fields) error {
	if s.bounded && s.left > 0 {
		s.Abort(errShort)
		return errShort
	}
	c := s.c
	c.mu.Lock()
	if s.gone != nil {
		c.mu.Unlock()
		return s.gone
	}
	switch {
	case trailers != nil && trailers.Len() > 0 && !s.noBody:
		at := len(c.buffer())
		c.out = appendTrailers(append(c.buffer(), make([]byte, h2.HeaderSize)...), trailers)
		c.endHead(s, at, h2.EndStream)
	case s.lastGen == c.gen && len(c.out) > s.lastAt:
		c.out[s.lastAt+4] |= h2.EndStream
	default:
		c.out = h2.AppendHeader(c.buffer(), 0, h2.Data, h2.EndStream, s.id)
	}
	s.sentEnd = true
	c.mu.Unlock()
	if s.own() {
		c.flushSoon(s.x.Crowded)
	}
	return nil
}

// appendTrailers appends fields that may be trailers.
func appendTrailers(b []byte, f *exchange.Fields) []byte {
	for name, value := range f.All() {
		if !ofH1(name) && !exchange.EqualName(name, "Trailer") && h1.ValidToken(name) && h1.ValidValue(value) {
			b = h2.AppendField(b, name, value)
		}
	}
	return b
}

// Abort cuts the response: what was sent before is seen, and then that it was cut.
func (s *h2stream) Abort(error) { s.reset(h2.InternalError, clientFailed(errAborted)) }
