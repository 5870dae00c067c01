package proxy

import (
	"errors"
	"io"
	"sync"

	"httpjet/budget"
)

// Sizes of the blocks that hold a body.
const (
	firstBlock = 4 << 10
	maxBlock   = 64 << 10
)

// errStopped is what a reader of a body reports whose attempt is over.
var errStopped = errors.New("attempt is over")

// replay keeps a request body while it streams to the first peer, so that another
// peer can have it from its first byte (R-RETRY-6). It is never ahead of the peer
// by more than one read. A body that outgrows its bounds is not kept any longer: it
// goes on to the peer that has it, and to no other.
//
// The client's side of an exchange cannot be read again once a pending read of it
// was stopped. So a goroutine of its own reads there, feed, which an attempt that
// ends leaves alone: the next one finds what it has read. It is started by the
// first read and joined by close.
type replay struct {
	src    io.Reader
	stop   func() // makes reads of src fail, for good
	left   int64  // of a declared length, -1 if there is none
	max    int64
	bodies *budget.Bodies

	mu      sync.Mutex
	turn    *sync.Cond // something below has changed
	blocks  [][]byte
	size    int64 // bytes in blocks
	charged int64 // bytes of memory
	counted bool  // as one of the bodies
	err     error // how src has ended
	lost    bool  // not all that was read is in blocks
	asked   bool  // a reader waits for bytes
	reading bool  // feed reads src
	closed  bool
	fed     chan struct{} // closed when feed has ended; nil before it began
}

// newReplay is a replay of src, of n bytes or -1.
func newReplay(r *Retry, src io.Reader, stop func(), n int64) *replay {
	p := &replay{src: src, stop: stop, left: n, max: r.BufSize, bodies: r.Bodies}
	if p.bodies == nil {
		p.bodies = &budget.Bodies{}
	}
	p.turn = sync.NewCond(&p.mu)
	return p
}

// whole reports whether another attempt can have the body from its first byte. A
// nil replay is of a request without a body.
func (p *replay) whole() bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.lost && (p.err == nil || p.err == io.EOF)
}

// close ends feed and gives the memory back. No attempt may be under way.
func (p *replay) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.closed = true
	reading, fed := p.reading, p.fed
	p.turn.Broadcast()
	p.mu.Unlock()
	if reading {
		p.stop()
	}
	if fed != nil {
		<-fed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free()
}

// free drops the blocks. It runs under mu.
func (p *replay) free() {
	p.blocks = nil
	p.bodies.Bytes.Give(p.charged)
	p.charged = 0
	if p.counted && p.bodies.Count != nil {
		p.bodies.Count.Release()
	}
	p.counted = false
}

// feed reads src whenever a reader asks for bytes, until src ends or its bytes
// cannot be kept.
func (p *replay) feed() {
	defer close(p.fed)
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil && !p.lost {
		for !p.asked && !p.closed {
			p.turn.Wait()
		}
		if p.closed {
			return
		}
		if room := p.room(); room == nil {
			p.lost = true
		} else {
			p.reading = true
			p.mu.Unlock()
			n, err := p.src.Read(room)
			p.mu.Lock()
			p.reading = false
			last := len(p.blocks) - 1
			p.blocks[last] = p.blocks[last][:len(p.blocks[last])+n]
			p.size += int64(n)
			p.err = err
		}
		p.asked = false
		p.turn.Broadcast()
	}
}

// room is where the next bytes go; nil if there is none for them. Memory is charged
// before it is taken.
func (p *replay) room() []byte {
	n := int64(firstBlock)
	if last := len(p.blocks) - 1; last >= 0 {
		b := p.blocks[last]
		if len(b) < cap(b) {
			return b[len(b):cap(b)]
		}
		n = min(2*int64(cap(b)), maxBlock)
	}
	if p.left >= 0 {
		n = min(p.left-p.size, maxBlock)
	}
	n = min(n, p.max-p.size)
	if n <= 0 {
		return nil
	}
	if !p.counted && p.bodies.Count != nil && !p.bodies.Count.TryAcquire() {
		p.bodies.Refuse()
		return nil
	}
	p.counted = true
	if !p.bodies.Bytes.Take(n) {
		p.bodies.Refuse()
		return nil
	}
	p.charged += n
	p.blocks = append(p.blocks, make([]byte, 0, n))
	return p.blocks[len(p.blocks)-1][:n]
}

// replayed reads a body from its first byte, for one attempt.
type replayed struct {
	p       *replay
	block   int // next byte
	at      int
	stopped bool // guarded by p.mu
}

// Read returns kept bytes, or waits for feed. Once the body is not kept any longer
// it reads the client itself.
func (r *replayed) Read(b []byte) (int, error) {
	p := r.p
	if len(b) == 0 {
		return 0, nil
	}
	p.mu.Lock()
	for {
		n := r.copy(b)
		switch {
		case r.stopped:
			p.mu.Unlock()
			return 0, errStopped
		case n > 0:
			p.mu.Unlock()
			return n, nil
		case p.err != nil:
			p.mu.Unlock()
			return 0, p.err
		case p.size == p.left: // nobody reads on behind a declared length
			p.mu.Unlock()
			return 0, io.EOF
		case p.lost:
			p.free()
			p.mu.Unlock()
			return p.src.Read(b)
		}
		p.ask()
		p.turn.Wait()
	}
}

// ask lets feed read, and starts it if it has not begun.
func (p *replay) ask() {
	p.asked = true
	if p.fed == nil {
		p.fed = make(chan struct{})
		go p.feed()
	}
	p.turn.Broadcast()
}

// copy takes bytes that are kept.
func (r *replayed) copy(b []byte) int {
	blocks := r.p.blocks
	for r.block < len(blocks) {
		if n := copy(b, blocks[r.block][r.at:]); n > 0 {
			r.at += n
			return n
		}
		if r.block == len(blocks)-1 {
			break
		}
		r.block, r.at = r.block+1, 0
	}
	return 0
}

// stop makes a pending and every later read fail.
func (r *replayed) stop() {
	p := r.p
	p.mu.Lock()
	r.stopped = true
	lost := p.lost
	p.turn.Broadcast()
	p.mu.Unlock()
	if lost {
		p.stop()
	}
}
