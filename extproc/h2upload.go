package extproc

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/exchange"
)

// firstRead is the size of the buffer of a body's first read.
const firstRead = 16 << 10

var (
	firstBufs = sync.Pool{New: func() any { return new([firstRead]byte) }}

	errUploadEnded = errors.New("upload ended")
)

// upload is the body of a Call to HTTP/2 peers. A stream may turn out not to have
// been processed while the client is still to send the first byte; a read of the
// body that is pending then cannot be undone. So the first read is made by a
// goroutine that the attempts share: while none of its bytes was given to an
// attempt, the next one may have them. Later reads are the library's own.
//
// It belongs to the goroutine that makes the attempts, except as said.
type upload struct {
	call  *Call
	first chan struct{} // closed by readFirst
	buf   *[firstRead]byte
	n     int   // bytes of the first read, after first is closed
	err   error // its error
	given bool  // to an attempt; under the attempt's mu, and after detach
}

// startUpload begins to read the body of c, or goes on with what an attempt that
// was not processed has left.
func startUpload(c *Call) *upload {
	if c.upload == nil {
		c.upload = &upload{call: c, first: make(chan struct{}), buf: firstBufs.Get().(*[firstRead]byte)}
		go c.upload.readFirst()
	}
	return c.upload
}

// readFirst makes the first read of the body. end joins it.
func (u *upload) readFirst() {
	defer close(u.first)
	b := u.buf[:]
	if u.call.Length > 0 && u.call.Length < int64(len(b)) {
		b = b[:u.call.Length] // never more than was declared
	}
	for u.n == 0 && u.err == nil { // io.Reader may return 0, nil
		u.n, u.err = u.call.Body.Read(b)
	}
}

// end ends the upload; no attempt may have it any more. A first read that is
// pending fails.
func (u *upload) end() {
	select {
	case <-u.first:
	default:
		if u.call.StopBody != nil {
			u.call.StopBody()
		}
		<-u.first
	}
	if u.buf != nil {
		firstBufs.Put(u.buf)
		u.buf = nil
	}
}

// h2body is the body of one attempt: what the library reads from, on a goroutine
// of its own, and closes, on any.
type h2body struct {
	up    *upload
	began time.Time
	moved atomic.Int64 // last progress, nanoseconds after began
	stage atomic.Int32 // pumpReading, pumpWriting, or pumpLast once all was read

	trailer map[string][]string // of the request; filled at the end of the body
	left    int64               // of a declared length; -1: not declared
	at      int                 // next byte of the first read
	busy    sync.Mutex          // held by Read

	mu      sync.Mutex
	closed  bool
	direct  bool          // Read waits for the client itself
	stop    chan struct{} // closed with closed
	failure error         // of the client's side; the call is over
}

func newH2body(u *upload, began time.Time) *h2body {
	return &h2body{up: u, began: began, left: u.call.Length, stop: make(chan struct{})}
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
	if b.left > 0 {
		b.left -= int64(n)
		if b.left == 0 && err == nil {
			err = io.EOF
		} else if err == io.EOF && b.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	switch err {
	case nil:
		b.stage.Store(pumpWriting)
	case io.EOF:
		b.addTrailers()
		b.stage.Store(pumpLast)
	case errUploadEnded:
	default:
		err = bodyError(err)
		b.mu.Lock()
		if !b.closed { // else it is StopBody's work
			b.failure = err
		}
		b.mu.Unlock()
	}
	return n, err
}

// read reads from the first read while it has bytes, then from the client.
func (b *h2body) read(p []byte) (int, error) {
	if b.left > 0 && b.left < int64(len(p)) {
		p = p[:b.left]
	}
	select {
	case <-b.up.first:
	case <-b.stop:
		return 0, errUploadEnded
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, errUploadEnded
	}
	b.up.given = true
	ended := b.at == b.up.n && b.up.err != nil
	b.direct = b.at == b.up.n && !ended
	b.mu.Unlock()
	switch {
	case ended:
		return 0, b.up.err
	case !b.direct:
		n := copy(p, b.up.buf[b.at:b.up.n])
		if b.at += n; b.at == b.up.n && b.up.err == io.EOF {
			return n, io.EOF
		}
		return n, nil
	}
	n, err := b.up.call.Body.Read(p)
	b.mu.Lock()
	b.direct = false
	b.mu.Unlock()
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
// library waits for is stopped; one of which nothing was given away is not.
func (b *h2body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	close(b.stop)
	if b.direct && b.up.call.StopBody != nil {
		b.up.call.StopBody()
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
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
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
