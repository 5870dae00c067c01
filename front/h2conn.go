package front

import (
	"crypto/tls"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/h2"
)

// Settings of HTTP/2 connections (spec R-H2-1).
const (
	h2Streams = 256      // at once, those included whose client has gone but whose handler has not
	h2Window  = 2 << 20  // of the connection, for bodies of requests
	h2Unread  = 64 << 10 // of a stream: as much is held for a handler that does not read
	h2Most    = 1 << 20  // to which that of a stream grows while its handler keeps up
	h2MinIdle = 90 * time.Second

	h2Block     = 64 << 10 // bytes of a field block, coded
	h2Fragments = 64       // frames of a field block

	// h2ListMin is the least list that is decoded, although a smaller one may be the
	// limit: what can be read is answered 431.
	h2ListMin = 64 << 10

	// h2Spares is how many goroutines that have served an exchange wait for another one.
	h2Spares = 32

	// h2Leave is how long a client has to answer the first GOAWAY of a drain.
	h2Leave = time.Second

	// h2Settle is how long one that has answered may yet send a stream to which it had
	// given a number when it learned of it.
	h2Settle = 100 * time.Millisecond
)

// inSize is room for the rest of a frame and the plaintext of one TLS record.
const inSize = h2.HeaderSize + h2.MaxFrame + 16<<10

var inBufs = sync.Pool{New: func() any { return new([inSize]byte) }}

// h2conn is an HTTP/2 connection.
//
// One goroutine at a time is its reader: it parses all frames at hand, and serves each
// request itself, as far as that needs no waiting; what is answered so goes out
// together, when nothing more is at hand. An exchange that is about to wait, for a
// body, for its client or for an upstream, leaves (h2stream.leave): from then on the
// goroutine is its own, and another one becomes the reader. One that waits without
// saying so loses the role after h2Slow (watch).
//
// The reader's fields belong to whoever is the reader; mu guards what streams and
// the reader share. No input or output is done under mu.
//
// Life: serveConn → serve → read, frame by frame → idle: parked, and on by serveConn
// → end, by the reader → finish of the last stream that is served ends the connection.
type h2conn struct {
	*conn
	tc  *tls.Conn // nil: clear text
	rec *records  // below tc

	// Of the reader.
	dec      h2.Decoder
	in       *[inSize]byte // nil: nothing is in it
	lend     func() []byte // memory, made once, as those that follow
	give     func()        // freeIn
	r, w     int
	greeted2 bool   // the preface has come
	settled  bool   // and the first SETTINGS
	block    []byte // field block whose last frame has not come
	opening  h2.Header
	pieces   int
	lastID   uint32 // highest stream that the client has begun
	lateID   uint32 // highest that it has begun behind lastCall, which is not served
	kept     *h2stream
	now      time.Time // when the frames at hand came
	readBy   time.Time // deadline as last set; zero: none
	quiet    time.Time // of the last whole frame, or of the first byte of one; zero: that is now
	within   bool      // a frame or field block has begun
	resets   h2.Budget
	idle     h2.Budget
	forgot   [64]uint32 // streams that we have ended before the client did, the last ones
	forgets  int
	ahead    h2Ahead // of frames at hand
	paced    int     // exchanges served since others had the processor

	inline atomic.Pointer[h2stream] // what the reader serves itself; nil: nothing
	armed  atomic.Bool              // h2Watch looks at the connection
	seen   uint64                   // place of the exchange that watch saw last; its own

	poked atomic.Bool // the reader is to look at the state instead of waiting

	mu      sync.Mutex
	ids     []uint32    // of streams, in their order
	streams []*h2stream // that frames may refer to and the reader does not serve itself
	active  int         // streams that are served, reset ones too
	peer    h2.Peer
	window  h2.Window // what the client takes
	recv    int       // what it may send
	owed    int       // of what it has sent, what has been read and not been credited
	over    bool      // nothing is served any more
	left    bool      // the reader has left; the last stream finishes the connection
	leaving leaving
	leaveBy time.Time // when the second GOAWAY follows the first
	spares  []*spare  // the last one has the warmest stack
	warm    bool      // exchanges leave the reader: spares are of use

	output

	shutting atomic.Bool // shutdown was called
}

// leaving is how far the end of a connection that is to end well has come.
type leaving uint8

const (
	stays  leaving = iota
	told           // GOAWAY that allows streams under way to begin
	closes         // GOAWAY that allows none; the connection ends with its last stream
)

// newH2 makes an HTTP/2 connection of c, whose preface is still to be read.
func newH2(c *conn) *h2conn {
	h := &h2conn{conn: c, peer: h2.DefaultPeer, window: 65535, recv: h2Window,
		resets: h2.NewBudget(h2.ResetBudget), idle: h2.NewBudget(h2.IdleBudget)}
	if tc, ok := c.nc.(*tls.Conn); ok {
		h.tc, h.rec = tc, c.sock.records
		h.rec.mu.Lock()
		h.rec.gather = true
		h.rec.mu.Unlock()
		h.rec.lazy = true
	}
	h.lend, h.give, h.blocked = h.memory, h.freeIn, h.mustWait
	c.state.Store(connActive)
	c.sock.keepShort()
	lim := c.srv.Current().Limits()
	h.mu.Lock()
	h.out = h2.AppendSettings(h.buffer(), h2.Own{Streams: h2Streams, Window: h2Unread, List: max(lim.maxHead(), h2ListMin)})
	h.out = h2.AppendWindowUpdate(h.out, 0, h2Window-65535)
	h.mu.Unlock()
	h.now = time.Now()
	h.quiet = h.now
	c.h2.Store(h)
	if c.closing() { // Drain may have looked before
		h.shutdown()
	}
	return h
}

// serve is the connection's work on the goroutine of serveConn, at its beginning
// or after it was parked.
func (c *h2conn) serve() {
	c.now = time.Now()
	readH2(c)
}

// read is the reader, until the connection ends or is parked, or, then it returns true,
// somebody else reads.
func (c *h2conn) read() (handed bool) {
	for {
		handed, err := c.frames()
		if handed {
			return true
		}
		if err == nil {
			c.giveWay()
			c.flush(false)
			c.putKept()
			if err = c.more(); err == errParked {
				return false
			}
		}
		if err != nil {
			c.end(err)
			return false
		}
	}
}

var (
	errParked = errors.New("parked")
	errIdle   = errors.New("nothing to do")
)

// more waits for bytes and reads them behind those that are left.
func (c *h2conn) more() error {
	if c.r == c.w {
		c.freeIn()
	} else if c.r > 0 {
		c.w = copy(c.in[:], c.in[c.r:c.w])
		c.r = 0
	}
	if c.tc == nil {
		return c.wait(func() error {
			n, err := c.sock.readLazy(c.lend, c.give)
			c.w += n
			return err
		}, func() bool { return false })
	}
	for {
		if !c.rec.whole() {
			if err := c.wait(c.rec.fill, c.rec.whole); err != nil {
				return err
			}
		}
		n, err := c.tc.Read(c.memory())
		c.w += n
		c.rec.mu.Lock()
		answered := len(c.rec.out) > 0 // TLS has something to say: new keys
		c.rec.mu.Unlock()
		if answered {
			c.flush(false)
		}
		if n > 0 {
			return nil
		}
		if err != nil && !timedOut(err) { // else it was no data, and the rest is not there
			return err
		}
		c.freeIn()
	}
}

// memory returns where the next bytes go.
func (c *h2conn) memory() []byte {
	if c.in == nil {
		c.in = inBufs.Get().(*[inSize]byte)
	}
	return c.in[c.w:]
}

// freeIn gives the input buffer back if nothing is in it.
func (c *h2conn) freeIn() {
	if c.r != c.w {
		return
	}
	if c.in != nil {
		inBufs.Put(c.in)
	}
	c.in, c.r, c.w = nil, 0, 0
}

// wait reads until there is something to parse, within the time that the client has:
// the connection timeout for a preface and for the rest of a frame or field block, the
// idle timeout without a stream, and any time else.
func (c *h2conn) wait(read func() error, enough func() bool) error {
	began := c.w
	for {
		rests, err := c.patience()
		if err != nil {
			return err
		}
		err = read()
		switch {
		case err == nil && (c.w > began || enough()):
			c.now = time.Now()
			return nil
		case err == nil || !timedOut(err):
		default:
			if c.now = time.Now(); c.now.Before(c.readBy) { // poked, maybe behind the deadline that took it up
				c.readBy = time.Time{}
			}
			c.dismiss()
			if rests && !c.poked.Load() && c.rest() {
				return errParked
			}
			err = nil // patience says whether that was all of it
		}
		if err != nil {
			return err
		}
	}
}

// patience sets the deadline of the next read, or says why there is none. rests: the
// deadline is that for being parked.
func (c *h2conn) patience() (rests bool, err error) {
	c.poked.Store(false)
	c.mu.Lock()
	streams, state, leaveBy := c.active, c.leaving, c.leaveBy
	c.mu.Unlock()
	if c.state.Load() == connClosed || c.broken.Load() {
		return false, errIdle
	}
	if c.quiet.IsZero() {
		c.quiet = c.now
	}
	lim := c.srv.Current().Limits()
	within := !c.settled || c.w > c.r || len(c.block) > 0 || c.rec != nil && c.rec.w > c.rec.r
	if streams > 0 && !within || within && !c.within {
		c.quiet = c.now
	}
	c.within = within
	var by time.Time
	switch {
	case state == closes && streams == 0:
		return false, errIdle
	case within:
		by = c.quiet.Add(lim.connTimeout())
	case state == told:
		by = leaveBy
	case streams == 0:
		by = c.quiet.Add(max(lim.KeepAliveTimeout, h2MinIdle))
	default: // any time; but a look now and then, for nobody tells that the last stream has ended
		c.deadline(c.now.Add(slack), slack)
		return false, nil
	}
	now := c.now
	if !now.Before(by) {
		if state == told && !within {
			c.lastCall()
			return c.patience()
		}
		return false, errIdle
	}
	if rest := c.restPeriod(); rest > 0 && streams == 0 && !within && state == stays && by.Sub(now) > 2*rest {
		c.deadline(now.Add(rest), min(rest, slack))
		return true, nil
	}
	c.deadline(by, min(slack, by.Sub(now)))
	return false, nil
}

// deadline makes reads fail at by or up to slack later; it is moved only if the one
// that is set does not do.
func (c *h2conn) deadline(by time.Time, slack time.Duration) {
	if c.readBy.Before(by) || c.readBy.After(by.Add(slack)) {
		c.readBy = by.Add(slack)
		c.sock.SetReadDeadline(c.readBy)
	}
	if c.poked.Load() { // since just now
		c.readBy = time.Unix(1, 0)
		c.sock.SetReadDeadline(c.readBy)
	}
}

// poke makes the reader look at what has changed. Anybody may call it.
func (c *h2conn) poke() {
	c.poked.Store(true)
	c.sock.SetReadDeadline(time.Unix(1, 0))
}

// rest parks an idle connection and reports whether it is: then another goroutine
// may have it already.
func (c *h2conn) rest() bool {
	c.mu.Lock()
	may := c.active == 0 && c.leaving == stays && len(c.out) == 0 && !c.writing
	c.mu.Unlock()
	if !may {
		return false
	}
	until := c.quiet.Add(max(c.srv.Current().Limits().KeepAliveTimeout, h2MinIdle))
	until = until.Add(time.Second - time.Duration(until.Nanosecond())) // together, see parkIdle
	c.readBy = time.Time{}
	c.sock.SetDeadline(time.Time{})
	if !c.park(c.sock.watched(), until) {
		return false
	}
	if c.shutting.Load() || c.conn.state.Load() == connClosed {
		c.awake() // who shut it down may have looked before it was parked
	}
	return true
}

// shutdown begins the end of the connection: the client is told, and may still begin
// what it cannot know to be too late (RFC 9113 §6.8). Any goroutine may call it.
func (c *h2conn) shutdown() {
	c.mu.Lock()
	if c.leaving != stays || c.over {
		c.mu.Unlock()
		return
	}
	c.leaving, c.leaveBy = told, time.Now().Add(h2Leave)
	c.out = h2.AppendGoAway(c.buffer(), 1<<31-1, h2.NoError, "")
	c.out = h2.AppendPing(c.out, false, farewell)
	c.mu.Unlock()
	c.shutting.Store(true)
	c.flush(false)
	c.poke()
	c.awake()
}

// farewell is the PING behind the first GOAWAY: its answer says that the client has
// read that.
var farewell = [8]byte{'f', 'a', 'r', 'e', 'w', 'e', 'l', 'l'}

// lastCall is the second GOAWAY: streams that begin later are not served.
func (c *h2conn) lastCall() {
	c.mu.Lock()
	if c.leaving == told {
		c.leaving = closes
		c.out = h2.AppendGoAway(c.buffer(), c.lastID, h2.NoError, "")
	}
	c.mu.Unlock()
	c.flush(false)
}

// end is the end of the reader: the client is told why, and what is served has no
// client any more.
func (c *h2conn) end(err error) {
	ce, wrong := errors.AsType[*h2.ConnError](err)
	c.mu.Lock()
	c.over = true
	all := c.streams
	c.ids, c.streams = nil, nil
	dead := c.killAll(all, err)
	leaves := err == errIdle && c.leaving == closes && !c.broken.Load()
	switch {
	case wrong:
		c.out = h2.AppendGoAway(c.buffer(), c.lastID, ce.Code, ce.Msg)
	case err == errIdle && c.leaving != closes:
		c.out = h2.AppendGoAway(c.buffer(), c.lastID, h2.NoError, "")
	}
	c.mu.Unlock()
	for _, s := range dead {
		s.bury()
	}
	if wrong {
		c.srv.h2.broken(ce.Code)
		c.misbehaved(c.srv.Current().Limits())
		c.srv.logger().Debug("HTTP/2 connection ended", "listener", c.lis.Name(), "remote", c.remote, "err", err)
	}
	c.flush(false)
	c.hush()
	if (wrong || leaves) && c.state.Load() != connClosed {
		// Bytes that nobody reads would become a reset that overtakes what was sent.
		c.sock.SetWriteDeadline(time.Now().Add(time.Second))
		if c.tc != nil && !c.mute.Load() {
			c.tc.CloseWrite()
		}
		c.sock.linger()
	}
	c.r = c.w
	c.freeIn()
	if c.rec != nil {
		c.rec.rest()
	}
	c.putKept()
	c.dismiss()
	c.mu.Lock()
	c.left = true
	last := c.active == 0
	c.mu.Unlock()
	if last {
		c.finish()
	}
}
