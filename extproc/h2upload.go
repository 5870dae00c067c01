package extproc

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/exchange"
)

// What is kept of a body until its stream is answered: firstPart of one that is
// longer or of unknown length, all of one up to wholePart.
const (
	firstPart = 16 << 10
	wholePart = 64 << 10
)

var (
	firstParts = sync.Pool{New: func() any { return new([firstPart]byte) }}

	errUploadEnded = errors.New("upload ended")
)

// upload is the body of a Call to HTTP/2 peers. A stream may turn out not to have
// been processed while the client is still to send a byte, or after it has sent some:
// what the library has read is then gone, and a read of the body that is pending
// cannot be undone. So a goroutine that the attempts share reads the beginning of the
// body into memory, where each attempt finds it. What is beyond is read by the
// library itself, and then there is no other attempt.
type upload struct {
	call *Call
	fed  chan struct{} // closed when feed has ended

	mu    sync.Mutex
	turn  *sync.Cond // something below has changed, or an attempt's closed
	buf   []byte     // its length is how much there is; nil once it is spent
	part  *[firstPart]byte
	err   error // how the body ended, if it did in buf; io.EOF is its end
	full  bool  // feed is to read no more
	done  bool  // feed reads no more
	given bool  // a byte went to an attempt
	spent bool  // an attempt reads beyond buf, or may
}

// startUpload begins to read the body of c, or goes on with what an attempt that
// was not processed has left.
func startUpload(c *Call) *upload {
	if c.upload != nil {
		return c.upload
	}
	u := &upload{call: c, fed: make(chan struct{})}
	u.turn = sync.NewCond(&u.mu)
	if c.Length > firstPart && c.Length <= wholePart {
		u.buf = make([]byte, 0, c.Length)
	} else {
		u.part = firstParts.Get().(*[firstPart]byte)
		u.buf = u.part[:0]
		if c.Length >= 0 && c.Length < firstPart {
			u.buf = u.part[:0:c.Length] // never more than was declared
		}
	}
	c.upload = u
	go u.feed()
	return u
}

// feed reads the beginning of the body: until there is room for no more, or the
// stream is answered. end joins it.
func (u *upload) feed() {
	defer close(u.fed)
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.err == nil && !u.full {
		room := u.buf[len(u.buf):cap(u.buf)]
		u.mu.Unlock()
		n, err := u.call.Body.Read(room)
		u.mu.Lock()
		u.buf = u.buf[:len(u.buf)+n]
		switch whole := u.call.Length >= 0 && int64(len(u.buf)) == u.call.Length; {
		case whole && (err == nil || err == io.EOF):
			u.err = io.EOF
		case u.call.Length >= 0 && err == io.EOF:
			u.err = io.ErrUnexpectedEOF
		default:
			u.err = err
		}
		u.full = u.full || len(u.buf) == cap(u.buf)
		u.turn.Broadcast()
	}
	u.done = true
	u.turn.Broadcast()
}

// settle ends the keeping: the stream is answered.
func (u *upload) settle() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.full, u.spent = true, true
}

// left tells what another attempt would find: untouched, that no byte went to one
// before; whole, that all which did is still there.
func (u *upload) left() (untouched, whole bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.given, !u.spent
}

// free gives the memory back. It runs under mu, after feed's last read.
func (u *upload) free() {
	if u.buf = nil; u.part != nil {
		firstParts.Put(u.part)
		u.part = nil
	}
}

// end ends the upload; no attempt may have it any more. A read of feed that is
// pending fails.
func (u *upload) end() {
	u.mu.Lock()
	u.full = true
	u.mu.Unlock()
	select {
	case <-u.fed:
	default:
		if u.call.StopBody != nil {
			u.call.StopBody()
		}
		<-u.fed
	}
	u.mu.Lock()
	u.free()
	u.mu.Unlock()
}

// h2body is the body of one attempt: what the library reads from, on a goroutine
// of its own, and closes, on any.
type h2body struct {
	up    *upload
	began time.Time
	moved atomic.Int64 // last progress, nanoseconds after began
	stage atomic.Int32 // pumpReading, pumpWriting, or pumpLast once all was read
	busy  sync.Mutex   // held by Read

	trailer map[string][]string // of the request; filled at the end of the body
	at      int                 // next byte of the body, as far as it is in the upload's buf
	beyond  int64               // bytes of a declared length that are behind at

	// Under up.mu.
	closed  bool
	direct  bool  // Read waits for the client itself
	failure error // of the client's side; the call is over
}

func newH2body(u *upload, began time.Time) *h2body {
	return &h2body{up: u, began: began, beyond: u.call.Length}
}

func (b *h2body) touch()              { b.moved.Store(int64(time.Since(b.began))) }
func (b *h2body) progress() time.Time { return b.began.Add(time.Duration(b.moved.Load())) }

// Read returns the next bytes of the client's body: io.EOF with the last ones of
// a declared length, so that they end the stream.
func (b *h2body) Read(p []byte) (int, error) {
	b.busy.Lock()
	defer b.busy.Unlock()
	b.touch()
	b.stage.Store(pumpReading)
	n, err := b.read(p)
	b.touch()
	switch err {
	case nil:
		b.stage.Store(pumpWriting)
	case io.EOF:
		b.addTrailers()
		b.stage.Store(pumpLast)
	case errUploadEnded:
	default:
		err = bodyError(err)
		b.up.mu.Lock()
		if !b.closed { // else it is StopBody's work
			b.failure = err
		}
		b.up.mu.Unlock()
	}
	return n, err
}

// read returns kept bytes, or waits for some; then it reads the client itself.
func (b *h2body) read(p []byte) (int, error) {
	u := b.up
	u.mu.Lock()
	for !b.closed && b.at >= len(u.buf) && u.err == nil && !u.done {
		u.turn.Wait()
	}
	switch {
	case b.closed:
		u.mu.Unlock()
		return 0, errUploadEnded
	case b.at < len(u.buf):
		n := copy(p, u.buf[b.at:])
		u.given = true
		b.at += n
		b.beyond -= int64(n)
		ended := b.at == len(u.buf) && u.err == io.EOF
		u.mu.Unlock()
		if ended {
			return n, io.EOF
		}
		return n, nil
	case u.err != nil:
		defer u.mu.Unlock()
		return 0, u.err
	}
	b.direct, u.spent = true, true
	u.free()
	u.mu.Unlock()
	n, err := b.readOn(p)
	u.mu.Lock()
	b.direct = false
	u.mu.Unlock()
	return n, err
}

// readOn reads what is beyond the kept beginning.
func (b *h2body) readOn(p []byte) (int, error) {
	declared := b.up.call.Length >= 0
	if declared && b.beyond < int64(len(p)) {
		p = p[:b.beyond] // never more than was declared
	}
	n, err := b.up.call.Body.Read(p)
	b.beyond -= int64(n)
	switch {
	case declared && b.beyond == 0 && err == nil:
		err = io.EOF
	case declared && b.beyond > 0 && err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// addTrailers gives the library the trailers of the body, which is at its end.
func (b *h2body) addTrailers() {
	if b.trailer == nil || b.up.call.Trailers == nil {
		return
	}
	if f := b.up.call.Trailers(); f != nil {
		addFields(b.trailer, f)
	}
}

// Close makes the read that is pending and all later ones fail. A client that the
// library itself waits for is stopped; one that feed waits for is not.
func (b *h2body) Close() error {
	u := b.up
	u.mu.Lock()
	defer u.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	u.turn.Broadcast()
	if b.direct && u.call.StopBody != nil {
		u.call.StopBody()
	}
	return nil
}

// detach closes the body and returns when no read of it is pending. It reports
// whether all of it was given to the library.
func (b *h2body) detach() (all bool) {
	b.Close()
	b.busy.Lock()
	defer b.busy.Unlock()
	return b.stage.Load() == pumpLast
}

// failed returns the failure of the client's side, nil for none.
func (b *h2body) failed() error {
	b.up.mu.Lock()
	defer b.up.mu.Unlock()
	return b.failure
}

// noFurther is err, of a call that this peer does not take: if a byte of the body
// went to it, no other peer may have the call, although this one has said that it
// has not looked at it.
func (c *Call) noFurther(err error) error {
	e, ok := errors.AsType[*DialError](err)
	if !ok || c.upload == nil {
		return err
	}
	if untouched, _ := c.upload.left(); !untouched {
		f := e.Failure()
		f.Err = e.Err // no dial error: that would go on to the next peer
		return f
	}
	return err
}

// Close ends what a Do that returned a *DialError has left for the next one: the
// body may be being read. Call it when no further Do follows. It does nothing
// after any other end of a call.
func (c *Call) Close() {
	if c.upload != nil {
		c.upload.end()
		c.upload = nil
	}
}

// addFields adds f to a header map of the library.
func addFields(h map[string][]string, f *exchange.Fields) {
	values := make([]string, f.Len())
	for name, value := range f.All() {
		key := canonical(name)
		if list := h[key]; len(list) > 0 {
			h[key] = append(list, value)
			continue
		}
		values[0] = value
		h[key] = values[:1:1] // most have one value: no slice of its own
		values = values[1:]
	}
}
