package wsrelay

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"httpjet/exchange"
	"httpjet/groups"
	"httpjet/rawio"
	"httpjet/tunnels"
)

// relay is one tunnel: bytes go up, from the client to the peer, and down. Until it
// is left behind with the exchange it is owned by the handler, then by whoever calls
// Run; Close may be called by anybody and unblocks both directions.
//
// Life: dial, handshake, open → Run: two copies until both directions have ended, or
// until no byte moves: then both copies end too, and all that is left is this
// struct, until Run is called again → End.
type relay struct {
	handler *Handler
	x       *exchange.Exchange
	res     groups.Reservation
	sets    [3]*tunnels.Set
	permit  func() // gives the permit of the peer's connection back

	peer net.Conn
	sock *rawio.Socket   // of peer; nil if bytes go through TLS
	own  syscall.RawConn // of the socket below peer; nil: there is none, so that it cannot rest

	up, down direction
	moves    atomic.Uint64 // what the directions tell each other, see the constants
	lastByte atomic.Int64  // when any byte moved, Unix nanoseconds; kept up if there is an idle timeout

	mu     sync.Mutex
	client exchange.Duplex // nil until the client's connection is ours
	closed bool
	err    error // the first failure that was not our close
}

// direction is one of the two copies. It belongs to the goroutine that copies.
type direction struct {
	bytes int64  // sent
	over  bool   // the source has ended, and what it is copied to knows
	again bool   // it has stopped for a rest that has come to nothing
	held  []byte // read, but not written before that rest
}

// Parts of relay.moves. The directions rest only together, because one that waits
// cannot see whether the other has bytes that nobody takes: one of them proposes,
// when nothing has changed for the whole of its wait and neither has bytes in its
// hands; the other finds out when it is woken, or when it has read something in
// that moment, which it then keeps for the next run.
const (
	handsUp   = 1 << iota // the upward direction has bytes in its hands, or an end
	handsDown             // the downward one
	resting               // agreed; both leave
	oneMove   = 1 << 8    // counts what has been moved
)

func newRelay(h *Handler, x *exchange.Exchange, peer net.Conn, permit func()) *relay {
	r := &relay{handler: h, x: x, peer: peer, permit: permit}
	if r.sock = rawio.New(peer); r.sock != nil {
		r.own = r.sock.Raw()
	} else if tc, ok := peer.(*tls.Conn); ok {
		if sc, ok := tc.NetConn().(syscall.Conn); ok {
			r.own, _ = sc.SyscallConn() // fails only for a closed one, which cannot rest either
		}
	}
	return r
}

// open gives the relay the client's connection.
func (r *relay) open(client exchange.Duplex, early []byte) {
	r.mu.Lock()
	r.client = client
	closed := r.closed
	r.mu.Unlock()
	r.down.held = early
	r.touch()
	if closed {
		client.Close()
	}
}

// Run implements exchange.Tunnel. A FIN of either side ends its direction, our own
// close both; neither is a failure.
func (r *relay) Run(rest time.Duration) (exchange.Rest, bool) {
	if r.own == nil {
		rest = 0
	}
	if idle := r.handler.IdleTimeout; idle > 0 {
		timer := idleTimer{r: r, after: idle}
		timer.start()
		defer timer.stop()
	}
	for {
		r.both(rest)
		switch {
		case r.ended():
			r.Close()
			return exchange.Rest{}, false
		case !r.up.again && !r.down.again:
			return r.waits(), true
		}
	}
}

// both runs the directions that have not ended.
func (r *relay) both(rest time.Duration) {
	hands := uint64(0)
	if r.up.held != nil {
		hands |= handsUp
	}
	if r.down.held != nil {
		hands |= handsDown
	}
	r.moves.Store(hands)
	r.wake(r.client, rest) // before one could wake the other
	r.wake(r.peer, rest)
	var up chan struct{}
	if !r.up.over {
		up = make(chan struct{})
		go r.copyUp(rest, up)
	}
	if !r.down.over {
		r.copyDown(rest)
	}
	if up != nil {
		<-up
	}
}

// ended reports whether there is nothing left to relay.
func (r *relay) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed || r.up.over && r.down.over
}

// waits is what ends the rest: a direction whose source has ended waits for nothing.
func (r *relay) waits() exchange.Rest {
	w := exchange.Rest{Client: !r.up.over}
	if !r.down.over {
		w.Own = r.own
	}
	if idle := r.handler.IdleTimeout; idle > 0 {
		w.Until = time.Unix(0, r.lastByte.Load()).Add(idle)
	}
	return w
}

// End implements exchange.Tunnel. The reservation was held to the end of the tunnel
// (R-GRP-8).
func (r *relay) End() error {
	tunnels.Leave(r, r.sets[:]...)
	r.x.CountUpgraded(r.down.bytes)
	r.permit()
	r.res.End(r.x, r.err)
	return r.err
}

// copyUp moves bytes from the client to the peer.
func (r *relay) copyUp(rest time.Duration, done chan<- struct{}) {
	defer close(done)
	p := pipe{r: r, d: &r.up, hands: handsUp, src: r.client, dst: r.peer, from: r.client, other: r.peer, rest: rest}
	if r.sock != nil {
		p.dst = socket{r.sock}
	}
	p.end = func() error { return closeWrite(r.peer) }
	p.held, p.lost = handsDown, func() bool { return r.own != nil && rawio.Broken(r.own) }
	p.copy()
}

// copyDown moves bytes from the peer to the client, those first that came early.
func (r *relay) copyDown(rest time.Duration) {
	p := pipe{r: r, d: &r.down, hands: handsDown, src: r.peer, dst: r.client, from: r.peer, other: r.client, rest: rest}
	if r.sock != nil {
		p.src = socket{r.sock}
	}
	p.end = r.client.CloseWrite
	p.held, p.lost = handsUp, r.client.Broken
	p.copy()
}

// wakeable is a connection whose reads can be interrupted.
type wakeable interface{ SetReadDeadline(t time.Time) error }

// wake interrupts a read of c after d, or never if d is 0.
func (r *relay) wake(c wakeable, d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	c.SetReadDeadline(at) // a connection that is closed needs none
}

var errLost = errors.New("connection reset, or its peer is silent")

// pipe copies one direction.
type pipe struct {
	r     *relay
	d     *direction
	hands uint64
	src   io.Reader
	dst   io.Writer
	end   func() error // tells dst's owner that src has ended
	from  wakeable     // of src
	other wakeable     // source of the other direction
	rest  time.Duration

	held uint64      // the hands of the other direction
	lost func() bool // the connection of its source has failed

	b      *buffer
	holder exchange.Holder // src, if it is one
	onTurn func() bool     // turn
	bytes  []byte          // of the last read in a turn, as err
	err    error
	reads  int   // in turns
	over   bool  // a turn has stopped the direction
	fault  error // of a write
}

// copy copies until src has ended, one of both has failed, or the relay rests.
func (p *pipe) copy() {
	d := p.d
	d.again = false
	if held := d.held; held != nil {
		d.held = nil
		if err := p.write(held); err != nil {
			p.r.fail(err)
			return
		}
		p.r.moves.Add(oneMove - p.hands)
	}
	p.b = newBuffer(p.src)
	defer p.b.free()
	if p.rest > 0 { // else nobody would look for an end that came with the bytes before it
		p.holder, _ = p.src.(exchange.Holder)
		p.onTurn = p.turn
	}
	seen := p.r.moves.Load()
	for {
		bytes, err := p.read()
		if len(bytes) == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			if p.leaves(&seen) {
				return
			}
			continue
		}
		if p.over || !p.pass(bytes) || err != nil && !p.ended(err) {
			if p.fault != nil {
				p.r.fail(p.fault)
			}
			return
		}
		p.r.moves.Add(oneMove - p.hands)
		if err != nil {
			return
		}
	}
}

// read returns bytes that have not been passed on yet, or what the source ends with. What
// comes before that is passed on where it waits, see turn.
func (p *pipe) read() ([]byte, error) {
	if p.holder == nil {
		return p.b.read()
	}
	p.bytes, p.err = nil, nil
	if err := p.holder.Hold(p.onTurn); err != nil {
		return nil, err
	}
	return p.bytes, p.err
}

// sureAfter is how many reads a direction has made before it waits without another
// look at its source behind each.
const sureAfter = 3

// turn passes on what has come while the reading side of the source is held
// (rawio.Socket.Hold), which spares each message the read that finds nothing. It
// returns false to wait, and true to leave: with what read returns, or, if over is set,
// because the direction has stopped. Nothing is closed here: that would wait for the end
// of the turn.
func (p *pipe) turn() (leave bool) {
	for {
		p.bytes, p.err = p.b.read()
		if p.err == rawio.Nothing {
			return false
		}
		if p.err != nil {
			return true
		}
		if !p.pass(p.bytes) {
			p.over = true
			return true
		}
		p.r.moves.Add(oneMove - p.hands)
		if p.reads++; p.reads > sureAfter && p.holder.Emptied() && !closes(p.bytes) {
			p.b.idle()
			return false
		}
	}
}

// closes reports whether bytes end with the frame that closes a WebSocket (RFC 6455
// section 5.5.1): the end of the stream may be in the socket already.
func closes(bytes []byte) bool {
	for i := max(len(bytes)-2-4-125, 0); i+1 < len(bytes); i++ {
		if bytes[i] != 0x88 {
			continue
		}
		size := 2 + int(bytes[i+1]&0x7f)
		if bytes[i+1]&0x80 != 0 {
			size += 4 // the mask
		}
		if i+size == len(bytes) {
			return true
		}
	}
	return false
}

// pass writes bytes, or keeps them if the relay rests. It reports whether the direction
// goes on; fault says if it has failed.
func (p *pipe) pass(bytes []byte) bool {
	if p.r.moves.Add(p.hands)&resting != 0 {
		p.d.again, p.d.held = true, slices.Clone(bytes) // an end comes again
		return false
	}
	if len(bytes) > 0 {
		p.fault = p.write(bytes)
	}
	return p.fault == nil
}

// leaves is asked when nothing has come for a while, and decides whether both
// directions rest. seen is what moves were at the beginning of the wait.
func (p *pipe) leaves(seen *uint64) bool {
	m := &p.r.moves
	now := m.Load()
	if now == *seen && now&(handsUp|handsDown|resting) == 0 && m.CompareAndSwap(now, now|resting) {
		p.other.SetReadDeadline(time.Unix(1, 0))
		return true
	}
	if now&p.held != 0 && p.lost() {
		// It waits for a receiver that takes nothing, and reads no more: so it
		// cannot know.
		p.r.fail(p.r.blame(p.d == &p.r.up, errLost))
		return false
	}
	p.r.wake(p.from, p.rest)
	// Only now: the other one may have proposed, and woken us, before we moved the
	// deadline by which it did.
	*seen = m.Load()
	return *seen&resting != 0
}

// write writes bytes; its error is the relay's.
func (p *pipe) write(bytes []byte) error {
	p.r.touch()
	if _, err := p.dst.Write(bytes); err != nil {
		return p.r.blame(p.d == &p.r.up, err)
	}
	p.r.touch()
	p.d.bytes += int64(len(bytes))
	return nil
}

// ended passes the end of src on and reports whether it is one; else the relay has
// failed.
func (p *pipe) ended(err error) bool {
	if err != io.EOF {
		p.r.fail(p.r.blame(p.d == &p.r.down, err))
		return false
	}
	if err := p.end(); err != nil {
		p.r.fail(p.r.blame(p.d == &p.r.up, err)) // who should have been told
		return false
	}
	p.d.over = true
	return true
}

// blame says whose failure err is.
func (r *relay) blame(peer bool, err error) error {
	if peer {
		return exchange.Fail(502, "response_error", "relay of %s: %w", r.peer.RemoteAddr(), err)
	}
	return fmt.Errorf("%w: %v", exchange.ErrClientGone, err)
}

// fail ends both directions because one has failed.
func (r *relay) fail(err error) {
	r.mu.Lock()
	if !r.closed && r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.Close()
}

// Close implements exchange.Tunnel. It closes both connections, raw: no TLS farewell, which might wait, and no
// WebSocket close frame, which is not ours to send.
func (r *relay) Close() {
	r.mu.Lock()
	closed, client := r.closed, r.client
	r.closed = true
	r.mu.Unlock()
	if closed {
		return
	}
	own := r.peer
	if tc, ok := own.(*tls.Conn); ok {
		own = tc.NetConn()
	}
	// A close waits for the direction that holds what it reads from, which must not
	// wait for a write: that to the peer ends here, and that to the client with its
	// connection.
	own.SetWriteDeadline(time.Unix(1, 0))
	if client != nil {
		client.Close()
	}
	own.Close()
}

func closeWrite(c net.Conn) error {
	tc, ok := c.(*tls.Conn)
	if ok {
		if err := tc.CloseWrite(); err != nil {
			return err
		}
		c = tc.NetConn()
	}
	if cw, ok := c.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return nil
}

func (r *relay) touch() {
	if r.handler.IdleTimeout > 0 {
		r.lastByte.Store(time.Now().UnixNano())
	}
}

// idleTimer closes a relay on which no byte has moved for a while. It looks once
// per period instead of being moved by each byte.
type idleTimer struct {
	r     *relay
	after time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (t *idleTimer) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(t.after-t.idle(), t.look)
}

func (t *idleTimer) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	idle := t.idle()
	if idle >= t.after {
		t.r.Close()
		return
	}
	t.timer.Reset(t.after - idle)
}

func (t *idleTimer) idle() time.Duration { return time.Since(time.Unix(0, t.r.lastByte.Load())) }

// stop joins a look in progress.
func (t *idleTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}
