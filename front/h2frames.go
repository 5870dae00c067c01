package front

import (
	"errors"
	"runtime"
	"time"

	"httpjet/h2"
)

// frames handles all whole frames at hand. handed: another goroutine is the reader
// now, and the caller has nothing to do with the connection any more. An error ends the
// connection.
func (c *h2conn) frames() (handed bool, err error) {
	if !c.greeted2 {
		n := min(len(h2.Preface), c.w-c.r)
		if n > 0 && string(c.in[c.r:c.r+n]) != h2.Preface[:n] {
			return false, &h2.ConnError{Code: h2.ProtocolError, Msg: "no preface"}
		}
		if n < len(h2.Preface) {
			return false, nil
		}
		c.r += n
		c.greeted2 = true
	}
	c.paced = 0
	if c.ahead.any = false; c.w-c.r > h2.HeaderSize {
		c.ahead.look(c.in[c.r:c.w], c.lastID)
	}
	for c.w-c.r >= h2.HeaderSize {
		h := h2.ParseHeader(c.in[c.r:])
		if err := h.Check(); err != nil {
			return false, err
		}
		if c.w-c.r < h2.HeaderSize+h.Length {
			return false, nil
		}
		p := c.in[c.r+h2.HeaderSize : c.r+h2.HeaderSize+h.Length]
		c.r += h2.HeaderSize + h.Length
		switch {
		case !c.settled && (h.Type != h2.Settings || h.Has(h2.Ack)):
			return false, &h2.ConnError{Code: h2.ProtocolError, Msg: "first frame is not SETTINGS"}
		case c.pieces > 0 && (h.Type != h2.Continuation || h.Stream != c.opening.Stream):
			return false, &h2.ConnError{Code: h2.ProtocolError, Msg: "frame within a field block"}
		}
		if handed, err = c.frame(h, p); handed || err != nil {
			return handed, err
		}
		if c.pieces == 0 {
			c.quiet = time.Time{}
		}
	}
	return false, nil
}

// frame handles one frame. What it answers is bounded: a client that does not read the
// answers is not listened to for ever.
func (c *h2conn) frame(h h2.Header, p []byte) (handed bool, err error) {
	switch h.Type {
	case h2.Data:
		err = c.data(h, p)
	case h2.Headers:
		handed, err = c.headers(h, p)
	case h2.Continuation:
		handed, err = c.continuation(h, p)
	case h2.Priority:
		err = c.priority(h, p)
	case h2.PriorityUpdate:
		err = c.priorityUpdate(p)
	case h2.RSTStream:
		err = c.rst(h)
	case h2.Settings:
		err = c.settings(h, p)
	case h2.Ping:
		err = c.ping(h, p)
	case h2.GoAway:
		err = c.spend(h2.CostFrame) // its streams are served, others it will not begin
	case h2.WindowUpdate:
		err = c.windowUpdate(h, p)
	default: // RFC 9113 §5.5
		err = c.spend(h2.CostFrame)
	}
	if se, ok := errors.AsType[*h2.StreamError](err); ok {
		if c.unbegun(h.Stream) { // no RST_STREAM may name it (RFC 9113 §6.4)
			err = &h2.ConnError{Code: se.Code, Msg: se.Msg}
		} else {
			err = c.refuseStream(h.Stream, se)
		}
	}
	if err == nil && !handed && c.swollen() {
		err = &h2.ConnError{Code: h2.EnhanceYourCalm, Msg: "answers are not read"}
	}
	return handed, err
}

// spend pays for a frame that makes no progress.
func (c *h2conn) spend(n int) error {
	c.mu.Lock()
	ok := c.idle.Spend(n)
	c.mu.Unlock()
	if ok {
		return nil
	}
	return &h2.ConnError{Code: h2.EnhanceYourCalm, Msg: "too many frames without progress"}
}

// spendReset pays for a stream that ends before its answer by the client's doing: by a
// RST_STREAM, or because it makes us send one.
func (c *h2conn) spendReset() error {
	c.mu.Lock()
	ok := c.resets.Spend(1)
	c.mu.Unlock()
	if ok {
		return nil
	}
	return &h2.ConnError{Code: h2.EnhanceYourCalm, Msg: "too many streams reset"}
}

// refuseStream ends a stream that the client has used wrongly.
func (c *h2conn) refuseStream(id uint32, se *h2.StreamError) error {
	c.srv.h2.refused.Add(1)
	c.mu.Lock()
	s := c.find(id)
	if s != nil {
		c.drop(s)
		s.kill(clientFailed(se))
	}
	c.out = h2.AppendRST(c.buffer(), id, se.Code)
	c.mu.Unlock()
	c.forget(id)
	if s != nil {
		s.bury()
	}
	return c.spendReset()
}

// forget remembers a stream that we have ended: what the client sent meanwhile is no
// fault.
func (c *h2conn) forget(id uint32) {
	c.mu.Lock()
	c.forgetLocked(id)
	c.mu.Unlock()
}

func (c *h2conn) forgetLocked(id uint32) {
	c.forgot[c.forgets%len(c.forgot)] = id
	c.forgets++
}

// forgotten reports whether id was forgotten not long ago.
func (c *h2conn) forgotten(id uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.forgot {
		if f == id {
			return true
		}
	}
	return false
}

// find returns the stream that frames of id refer to, nil if there is none. mu is
// held.
func (c *h2conn) find(id uint32) *h2stream {
	for i, other := range c.ids {
		if other == id {
			return c.streams[i]
		}
	}
	return nil
}

// drop takes a stream out of those that frames may refer to. mu is held.
func (c *h2conn) drop(s *h2stream) {
	for i, other := range c.streams {
		if other == s {
			last := len(c.streams) - 1
			copy(c.streams[i:], c.streams[i+1:])
			copy(c.ids[i:], c.ids[i+1:])
			c.streams[last] = nil
			c.streams, c.ids = c.streams[:last], c.ids[:last]
			return
		}
	}
}

// late reports whether the client has begun stream id when our last GOAWAY did not
// allow it: what it sends there is ignored (RFC 9113 §6.8).
func (c *h2conn) late(id uint32) bool { return id > c.lastID && id <= c.lateID && id%2 == 1 }

// unbegun reports whether id is of a stream that is idle: the client has not begun it, or
// we would have to.
func (c *h2conn) unbegun(id uint32) bool {
	return id > c.lastID && !c.late(id) || id%2 == 0 && id != 0
}

// data takes bytes of a body (RFC 9113 §6.1). They count against both windows with
// their padding, whatever becomes of them (§6.9).
func (c *h2conn) data(h h2.Header, p []byte) error {
	body, err := h2.Unpad(h, p)
	if err != nil {
		return err
	}
	late := c.late(h.Stream)
	if c.unbegun(h.Stream) {
		return &h2.ConnError{Code: h2.ProtocolError, Msg: "DATA on an idle stream"}
	}
	ends := h.Has(h2.EndStream)
	if len(body) == 0 && !ends || late {
		if err := c.spend(h2.CostFrame); err != nil {
			return err
		}
	}
	c.mu.Lock()
	if h.Length > c.recv {
		c.mu.Unlock()
		return &h2.ConnError{Code: h2.FlowControlError, Msg: "DATA beyond the window of the connection"}
	}
	c.recv -= h.Length
	s := c.find(h.Stream)
	if s == nil || s.over {
		c.credit(h.Length)
		c.mu.Unlock()
		if late || s == nil && c.forgotten(h.Stream) {
			return nil
		}
		return &h2.StreamError{Code: h2.StreamClosed, Msg: "DATA on a closed stream"}
	}
	err = s.receive(body, h.Length, ends)
	c.mu.Unlock()
	return err
}

// headers begins a field block: a request, or the trailers of one.
func (c *h2conn) headers(h h2.Header, p []byte) (handed bool, err error) {
	block, depends, err := h2.Fragment(h, p)
	if err != nil {
		return false, err
	}
	if h.Stream%2 == 0 {
		return false, &h2.ConnError{Code: h2.ProtocolError, Msg: "stream of a client with an even number"}
	}
	selfish := depends == h.Stream && depends != 0
	if h.Has(h2.EndHeaders) {
		return c.section(h, block, selfish)
	}
	c.opening, c.pieces = h, 1
	if selfish {
		c.opening.Flags |= selfDepends
	}
	c.block = append(c.block[:0], block...)
	return false, nil
}

// selfDepends marks a HEADERS frame that depends on itself; no frame has this flag.
const selfDepends = 0x80

// continuation goes on with a field block. It is bounded in bytes and in frames, for
// empty ones cost too (G61).
func (c *h2conn) continuation(h h2.Header, p []byte) (handed bool, err error) {
	if c.pieces == 0 {
		return false, &h2.ConnError{Code: h2.ProtocolError, Msg: "CONTINUATION without HEADERS"}
	}
	c.pieces++
	if len(c.block)+len(p) > h2Block || c.pieces > h2Fragments {
		return false, &h2.ConnError{Code: h2.EnhanceYourCalm, Msg: "field block too long"}
	}
	c.block = append(c.block, p...)
	if !h.Has(h2.EndHeaders) {
		return false, nil
	}
	block, opening := c.block, c.opening
	c.block, c.pieces = nil, 0
	return c.section(opening, block, opening.Flags&selfDepends != 0)
}

// section takes a whole field block. It is decoded whatever becomes of it, because the
// next one depends on it (RFC 9113 §4.3).
func (c *h2conn) section(h h2.Header, block []byte, selfish bool) (handed bool, err error) {
	if h.Stream <= c.lastID {
		return false, c.trailerSection(h, block)
	}
	c.mu.Lock()
	late, many := c.leaving == closes, c.active >= h2Streams
	c.mu.Unlock()
	if late || many || selfish {
		if err := c.dec.Decode(block, nil, 0, false); err != nil {
			return false, err
		}
		if late { // it is above the number in our GOAWAY: the client makes it again
			c.lateID = h.Stream
			return false, c.spend(h2.CostFrame)
		}
		c.lastID = h.Stream
		if selfish {
			return false, &h2.StreamError{Code: h2.ProtocolError, Msg: "stream depends on itself"}
		}
		return false, &h2.StreamError{Code: h2.RefusedStream, Msg: "too many streams"}
	}
	if h.Has(h2.EndStream) && c.ahead.withdrawn(h.Stream) {
		return false, c.withdraw(h.Stream, block)
	}
	c.lastID = h.Stream
	s := c.newStream(h.Stream)
	s.head.Fields = &s.x.Req.Fields
	most := max(s.lim.maxHead(), h2ListMin)
	if err := c.dec.Decode(block, &s.head, most, false); err != nil {
		return false, err
	}
	if s.head.Malformed != "" {
		c.misbehaved(s.lim)
		c.srv.refused.Add(1)
		return false, &h2.StreamError{Code: h2.ProtocolError, Msg: s.head.Malformed}
	}
	if handed = c.begin(s, h.Has(h2.EndStream)); !handed {
		c.pace()
	}
	return handed, nil
}

// pace lets others have the processor now and then while much is served in a row.
func (c *h2conn) pace() {
	if c.paced++; c.paced >= h2Pace {
		c.paced = 0
		runtime.Gosched()
	}
}

// trailerSection takes a field block on a stream that was begun before.
func (c *h2conn) trailerSection(h h2.Header, block []byte) error {
	c.mu.Lock()
	s := c.find(h.Stream)
	open := s != nil && !s.over
	closed := s != nil && s.over && s.sentEnd // its exchange is about to drop it
	c.mu.Unlock()
	head, fields := &h2.Head{}, (*h2.Head)(nil)
	if open {
		head.Fields, fields = newFields(), head
	}
	most := h2ListMin
	if err := c.dec.Decode(block, fields, most, true); err != nil {
		return err
	}
	switch {
	case s == nil && c.forgotten(h.Stream):
		return nil
	case s == nil || closed:
		return &h2.ConnError{Code: h2.StreamClosed, Msg: "HEADERS on a closed stream"}
	case !open:
		return &h2.StreamError{Code: h2.StreamClosed, Msg: "HEADERS on a half-closed stream"}
	case !h.Has(h2.EndStream):
		return &h2.StreamError{Code: h2.ProtocolError, Msg: "trailers that do not end the stream"}
	case head.Malformed != "":
		return &h2.StreamError{Code: h2.ProtocolError, Msg: head.Malformed}
	case head.Large:
		return &h2.StreamError{Code: h2.EnhanceYourCalm, Msg: "trailers too large"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if head.Fields.Len() > 0 {
		s.trailers = head.Fields
	}
	return s.receive(nil, 0, true)
}

// priority reads a PRIORITY frame, which has no effect (RFC 9113 §6.3).
func (c *h2conn) priority(h h2.Header, p []byte) error {
	if len(p) != 5 {
		return &h2.StreamError{Code: h2.FrameSizeError, Msg: "PRIORITY that is not 5 bytes long"}
	}
	if uint32(h2.Increment(p)) == h.Stream {
		return &h2.StreamError{Code: h2.ProtocolError, Msg: "stream depends on itself"}
	}
	return c.spend(h2.CostFrame)
}

// priorityUpdate changes the rank of a stream; of one that has not begun it is not
// kept.
func (c *h2conn) priorityUpdate(p []byte) error {
	id, rank := h2.Update(p)
	if id%2 == 0 { // RFC 9218 §7.1: 0, or a push that there is not
		return &h2.ConnError{Code: h2.ProtocolError, Msg: "PRIORITY_UPDATE of a stream that is none of the client"}
	}
	c.mu.Lock()
	if s := c.find(id); s != nil {
		s.rank = rank
	}
	c.mu.Unlock()
	return c.spend(h2.CostFrame)
}

// rst ends a stream at the client's wish.
func (c *h2conn) rst(h h2.Header) error {
	if c.late(h.Stream) {
		return c.spend(h2.CostFrame)
	}
	if c.unbegun(h.Stream) {
		return &h2.ConnError{Code: h2.ProtocolError, Msg: "RST_STREAM on an idle stream"}
	}
	c.srv.h2.resets.Add(1)
	c.mu.Lock()
	s := c.find(h.Stream)
	if s == nil { // its answer is out
		c.mu.Unlock()
		return c.spend(h2.CostFrame)
	}
	c.drop(s)
	s.kill(clientFailed(errReset))
	c.mu.Unlock()
	s.bury()
	return c.spendReset()
}

var errReset = errors.New("stream reset by the client")

// settings applies the client's settings (RFC 9113 §6.5).
func (c *h2conn) settings(h h2.Header, p []byte) error {
	if h.Has(h2.Ack) {
		if len(p) != 0 {
			return &h2.ConnError{Code: h2.FrameSizeError, Msg: "SETTINGS answer with a payload"}
		}
		return c.spend(h2.CostFrame)
	}
	if err := c.spend(h2.CostSettings); err != nil {
		return err
	}
	c.settled = true
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.peer.Window
	if err := c.peer.Apply(p); err != nil {
		return err
	}
	if d := c.peer.Window - was; d != 0 {
		for _, s := range c.streams {
			if !s.window.Add(d) {
				return &h2.ConnError{Code: h2.FlowControlError, Msg: "window of a stream overflows"}
			}
			s.wakeWriter()
		}
	}
	c.out = h2.AppendSettingsAck(c.buffer())
	return nil
}

// ping answers a PING.
func (c *h2conn) ping(h h2.Header, p []byte) error {
	data := [8]byte(p)
	if h.Has(h2.Ack) {
		if data == farewell {
			c.mu.Lock()
			if by := c.now.Add(h2Settle); by.Before(c.leaveBy) {
				c.leaveBy = by
			}
			c.mu.Unlock()
		}
		return c.spend(h2.CostFrame)
	}
	c.mu.Lock()
	c.out = h2.AppendPing(c.buffer(), true, data)
	c.mu.Unlock()
	return c.spend(h2.CostFrame)
}

// windowUpdate lets us send more (RFC 9113 §6.9).
func (c *h2conn) windowUpdate(h h2.Header, p []byte) error {
	n := h2.Increment(p)
	if c.late(h.Stream) {
		return c.spend(h2.CostFrame)
	}
	if c.unbegun(h.Stream) {
		return &h2.ConnError{Code: h2.ProtocolError, Msg: "WINDOW_UPDATE on an idle stream"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.idle.Spend(h2.CostFrame) {
		return &h2.ConnError{Code: h2.EnhanceYourCalm, Msg: "too many frames without progress"}
	}
	if h.Stream == 0 {
		if n == 0 {
			return &h2.ConnError{Code: h2.ProtocolError, Msg: "WINDOW_UPDATE of 0"}
		}
		if !c.window.Add(n) {
			return &h2.ConnError{Code: h2.FlowControlError, Msg: "window of the connection overflows"}
		}
		c.wakeNext()
		return nil
	}
	s := c.find(h.Stream)
	switch {
	case s == nil:
	case n == 0:
		return &h2.StreamError{Code: h2.ProtocolError, Msg: "WINDOW_UPDATE of 0"}
	case !s.window.Add(n):
		return &h2.StreamError{Code: h2.FlowControlError, Msg: "window of a stream overflows"}
	default:
		s.wakeWriter()
	}
	return nil
}
