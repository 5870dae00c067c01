package front

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
	"httpjet/h2"
)

const (
	// outMost is what bodies may fill of the output that the client has not taken, of
	// all streams together. Heads and answers to frames come on top.
	outMost = 64 << 10
	outSize = outMost + 16<<10

	// outSoon is so much that it is worth a write of its own.
	outSoon = 32 << 10

	// outStuck ends a connection whose client makes us answer and does not read it.
	outStuck = 512 << 10
)

var h2Bufs = sync.Pool{New: func() any { return new([outSize]byte) }}

// output is what an h2conn sends. All of it but the atomics is guarded by mu.
//
// Everybody appends to out. One at a time writes, until out is empty: who finds a writer
// leaves its bytes to it. A stream that has answered lets the other streams run once
// before it writes (soon), so that what they have to say goes out together, in one record
// of TLS and one write.
type output struct {
	out     []byte
	gen     uint64        // counts the times that out was taken away
	sending int           // bytes taken from out and not with the kernel
	sent    uint64        // counts writes that got somewhere
	writing bool          // somebody writes
	silent  bool          // nobody begins to write any more
	written chan struct{} // not nil: closed when nobody writes
	hurried atomic.Bool   // the client has a second left to take what is written
	soon    bool          // somebody is about to write

	queue []*h2stream // that wait for their turn to append to out

	cipher  []byte // what TLS has made; of who writes
	blocked func() // mustWait, made once
	bounded bool   // the write under way has had its deadline set
	broken  atomic.Bool
}

// buffer returns out to append to. mu is held.
func (c *h2conn) buffer() []byte {
	if c.out == nil {
		c.out = h2Bufs.Get().(*[outSize]byte)[:0]
	}
	return c.out
}

// h2Free gives back memory of buffer that has not been outgrown.
func h2Free(b []byte) {
	if cap(b) == outSize {
		h2Bufs.Put((*[outSize]byte)(b[:outSize]))
	}
}

// swollen reports whether too much waits for a client that does not read.
func (c *h2conn) swollen() bool {
	c.mu.Lock()
	n := len(c.out) + c.sending
	c.mu.Unlock()
	if n > outMost {
		c.flush(false)
	}
	return n > outStuck
}

// flush sends what is there. Who waits may be kept by the client; for others a
// goroutine takes over what the client does not take at once.
func (c *h2conn) flush(waits bool) {
	c.mu.Lock()
	c.soon = false
	if c.writing || c.silent || len(c.out) == 0 && c.said() == 0 {
		c.mu.Unlock()
		return
	}
	c.writing = true
	c.mu.Unlock()
	c.write(nil, waits)
}

// said returns how much TLS has to say by itself. mu is held.
func (c *h2conn) said() int {
	if c.rec == nil {
		return 0
	}
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	return len(c.rec.out)
}

// giveWay lets others run if there is something to send.
func (c *h2conn) giveWay() {
	c.mu.Lock()
	some := len(c.out) > 0 && !c.writing
	c.mu.Unlock()
	if some {
		c.srv.way.give()
	}
}

// flushSoon sends what is there, after other streams had the processor.
func (c *h2conn) flushSoon(crowded bool) {
	c.mu.Lock()
	if c.soon || len(c.out) == 0 {
		c.mu.Unlock()
		return
	}
	c.soon = true
	many := c.active > 1
	c.mu.Unlock()
	if many || crowded {
		runtime.Gosched()
	}
	c.flush(true)
}

// writeH2 goes on with a write that the reader could not wait for.
func writeH2(c *h2conn, rest []byte) { c.write(rest, true) }

// write is the writer's work: rest, then out until that is empty. The caller has
// set writing.
func (c *h2conn) write(rest []byte, waits bool) {
	for {
		if len(rest) == 0 {
			if rest = c.nextOut(); rest == nil {
				return
			}
		}
		n, err := c.put(rest, waits)
		rest = rest[n:]
		c.mu.Lock()
		if c.sending = len(rest); n > 0 {
			c.sent++
			c.wakeNext()
		}
		c.mu.Unlock()
		if err != nil {
			c.fail()
			rest = nil
			continue
		}
		if len(rest) > 0 && !waits {
			go writeH2(c, rest)
			return
		}
	}
}

// nextOut takes what is to be sent, as it goes to the socket; nil: nothing, and the
// caller writes no more.
func (c *h2conn) nextOut() []byte {
	c.mu.Lock()
	if len(c.out) == 0 && c.said() == 0 || c.broken.Load() {
		h2Free(c.out)
		h2Free(c.cipher)
		c.out, c.cipher, c.sending = nil, nil, 0
		c.gen++
		c.writing = false
		if c.written != nil {
			close(c.written)
			c.written = nil
		}
		c.mu.Unlock()
		return nil
	}
	plain, memory := c.out, c.cipher
	c.out, c.cipher, c.sending = nil, nil, len(c.out)
	c.gen++
	c.mu.Unlock()
	if c.tc == nil {
		h2Free(memory)
		c.cipher = plain
		return plain
	}
	if memory == nil {
		memory = h2Bufs.Get().(*[outSize]byte)[:]
	}
	c.rec.lend(memory)
	if len(plain) > 0 {
		if _, err := c.tc.Write(plain); err != nil {
			c.fail()
		}
		h2Free(plain)
	}
	if c.cipher = c.rec.swap(); len(c.cipher) == 0 { // TLS refuses; fail has been called
		return c.nextOut()
	}
	return c.cipher
}

// put writes to the socket. A deadline that passes after some progress is moved on; one
// that an earlier write had, and that has passed since, is not this write's.
func (c *h2conn) put(p []byte, waits bool) (sent int, err error) {
	if c.sock.raw == nil {
		c.sock.SetWriteDeadline(time.Now().Add(c.srv.Current().Limits().connTimeout()))
		return c.sock.Conn.Write(p)
	}
	for {
		n := 0
		if c.bounded = false; waits {
			n, err = c.sock.raw.Write(p[sent:], c.blocked)
		} else {
			n, err = c.sock.raw.WriteNow(p[sent:])
		}
		sent += n
		if err == nil || n == 0 && c.bounded || !timedOut(err) || c.hurried.Load() || c.state.Load() == connClosed {
			return sent, err
		}
		if n == 0 {
			c.extendWrite()
			continue
		}
		c.mu.Lock()
		c.sent++
		c.mu.Unlock()
	}
}

// mustWait is told by a write that has to wait.
func (c *h2conn) mustWait() {
	c.bounded = true
	c.extendWrite()
}

// extendWrite bounds a write that has to wait.
func (c *h2conn) extendWrite() {
	wait := c.srv.Current().Limits().connTimeout()
	if c.hurried.Load() {
		wait = min(wait, time.Second)
	}
	c.sock.SetWriteDeadline(time.Now().Add(wait))
	if c.state.Load() == connClosed { // cut while the deadline was moved
		c.sock.SetWriteDeadline(time.Unix(1, 0))
	}
}

// fail makes the connection end after a failed write.
func (c *h2conn) fail() {
	c.broken.Store(true)
	c.mute.Store(true)
	c.poke()
}

// hush lets nobody write any more but TLS itself, for its farewell. Who writes now gets
// a second to come to its end.
func (c *h2conn) hush() {
	c.hurried.Store(true)
	c.mu.Lock()
	c.silent = true
	var written chan struct{}
	if c.writing {
		written = make(chan struct{})
		c.written = written
	}
	c.mu.Unlock()
	if written != nil {
		c.extendWrite()
		<-written
	}
	if c.rec != nil {
		c.rec.mu.Lock()
		c.rec.gather = false
		c.rec.mu.Unlock()
	}
}

// endHead ends a field section that begins at a place of out where room was left for the
// head of its frame. mu is held.
func (c *h2conn) endHead(s *h2stream, at int, flags uint8) {
	n := len(c.out) - at - h2.HeaderSize
	most := min(c.peer.Frame, h2.MaxFrame)
	if n <= most {
		h2.AppendHeader(c.out[:at], n, h2.Headers, flags|h2.EndHeaders, s.id)
	} else {
		c.splitHead(s, at, flags, most)
	}
	s.lastAt, s.lastGen = at, c.gen
}

// splitHead makes a HEADERS and CONTINUATION frames of a section that is too long for
// one.
func (c *h2conn) splitHead(s *h2stream, at int, flags uint8, most int) {
	block := append([]byte(nil), c.out[at+h2.HeaderSize:]...)
	c.out = h2.AppendHeader(c.out[:at], most, h2.Headers, flags, s.id)
	c.out = append(c.out, block[:most]...)
	for block = block[most:]; len(block) > 0; {
		n := min(len(block), most)
		flags = 0
		if n == len(block) {
			flags = h2.EndHeaders
		}
		c.out = append(h2.AppendHeader(c.out, n, h2.Continuation, flags, s.id), block[:n]...)
		block = block[n:]
	}
}

// appendFields appends what may be sent of fields and does not belong to an HTTP/1
// connection (RFC 9113 §8.2.2); Date is among it if dated.
func appendFields(b []byte, f *exchange.Fields, dated bool) []byte {
	for i := range f.Len() {
		if fd := f.At(i); (!ofH1(fd.Name) || dated && exchange.EqualName(fd.Name, "Date")) && h1.ValidToken(fd.Name) && h1.ValidValue(fd.Value) {
			b = h2.AppendField(b, fd.Name, fd.Value)
		}
	}
	return b
}

// ofH1 reports whether the wire writes the field by itself, or not at all. The length
// is looked at first: most names are decided by it.
func ofH1(name string) bool {
	switch len(name) {
	case 4:
		return exchange.EqualName(name, "Date")
	case 6:
		return exchange.EqualName(name, "Server")
	case 7:
		return exchange.EqualName(name, "Upgrade")
	case 10:
		return exchange.EqualName(name, "Connection") || exchange.EqualName(name, "Keep-Alive")
	case 14:
		return exchange.EqualName(name, "Content-Length")
	case 16:
		return exchange.EqualName(name, "Proxy-Connection")
	case 17:
		return exchange.EqualName(name, "Transfer-Encoding")
	}
	return false
}

// grant returns how many of n body bytes s may append now: within both windows, and as
// much as one frame holds, so that other streams get their turn. 0: it has to wait.
// mu is held.
func (c *h2conn) grant(s *h2stream, n int) int {
	switch {
	case len(c.queue) == 0:
	case s.queued && c.first() != s, !s.queued && c.yields(s):
		return 0
	}
	room := outMost - len(c.out) - c.sending
	m := min(n, int(s.window), int(c.window), room, c.peer.Frame, h2.MaxFrame)
	if m <= 0 || m < n && m == room && room < 1<<10 { // no crumbs
		return 0
	}
	c.dequeue(s) // the next one is behind the others
	return m
}

// yields reports whether a stream that waits goes before s (RFC 9218 §10): one that is
// more urgent, or as urgent, unless both are sent one after the other and s is the
// first.
func (c *h2conn) yields(s *h2stream) bool {
	for _, q := range c.queue {
		switch {
		case q.rank.Urgency > s.rank.Urgency:
		case q.rank.Urgency < s.rank.Urgency, s.rank.Incremental, q.rank.Incremental, q.id < s.id:
			return true
		}
	}
	return false
}

// enqueue makes s wait for its turn, unless it waits for its own window, and returns
// the channel that tells. mu is held.
func (c *h2conn) enqueue(s *h2stream) <-chan struct{} {
	if s.writable == nil {
		s.writable = make(chan struct{}, 1)
	}
	s.waits = true
	if s.window <= 0 {
		c.dequeue(s)
	} else if !s.queued {
		s.queued = true
		c.queue = append(c.queue, s)
	}
	return s.writable
}

// dequeue takes s out of the queue. mu is held.
func (c *h2conn) dequeue(s *h2stream) {
	if !s.queued {
		return
	}
	s.queued = false
	for i, q := range c.queue {
		if q == s {
			copy(c.queue[i:], c.queue[i+1:])
			c.queue[len(c.queue)-1] = nil
			c.queue = c.queue[:len(c.queue)-1]
			return
		}
	}
}

// first returns the stream of the queue, which is not empty, whose turn it is. mu is
// held.
func (c *h2conn) first() *h2stream {
	first := c.queue[0]
	for _, q := range c.queue[1:] {
		if q.rank.Urgency < first.rank.Urgency ||
			q.rank.Urgency == first.rank.Urgency && !q.rank.Incremental && !first.rank.Incremental && q.id < first.id {
			first = q
		}
	}
	return first
}

// wakeNext wakes the stream whose turn it is, if something can be sent. It stays in the
// queue until it has taken its turn, so that nobody who runs already is faster. mu is
// held.
func (c *h2conn) wakeNext() {
	if len(c.queue) > 0 && c.window > 0 && outMost-len(c.out)-c.sending >= 1<<10 {
		c.first().signal()
	}
}
