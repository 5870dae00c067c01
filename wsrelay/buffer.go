package wsrelay

import (
	"io"
	"sync"

	"httpjet/exchange"
	"httpjet/rawio"
)

// Buffers: a direction reads into a small one, and takes a big one while reads
// fill what they are given. While it waits it holds none, if its source can say
// when there is something to read.
const (
	quietSize = 4 << 10
	slowSize  = 1 << 10 // of a direction that must hold one
	busySize  = 64 << 10
)

var (
	quietBufs = sync.Pool{New: func() any { return new([quietSize]byte) }}
	busyBufs  = sync.Pool{New: func() any { return new([busySize]byte) }}
)

// buffer is the memory of one direction.
type buffer struct {
	src   io.Reader
	lazy  exchange.LazyReader // src, if it is one
	take  func() []byte       // method values, made once
	give  func()
	own   []byte // of a source that is not lazy
	quiet *[quietSize]byte
	busy  *[busySize]byte
	full  bool // the last read filled what it was given
	bytes []byte
}

func newBuffer(src io.Reader) *buffer {
	b := &buffer{src: src}
	if b.lazy, _ = src.(exchange.LazyReader); b.lazy == nil {
		b.own = make([]byte, slowSize)
	}
	b.take, b.give = b.taken, b.idle
	return b
}

// read returns the next bytes, which are valid until the next call.
func (b *buffer) read() (p []byte, err error) {
	b.free()
	var n int
	if b.lazy != nil {
		n, err = b.lazy.ReadLazy(b.take, b.give)
	} else {
		n, err = b.src.Read(b.taken())
	}
	b.full = n > 0 && n == len(b.bytes)
	return b.bytes[:n], err
}

// taken returns memory to read into.
func (b *buffer) taken() []byte {
	switch {
	case b.full:
		b.busy = busyBufs.Get().(*[busySize]byte)
		b.bytes = b.busy[:]
	case b.own != nil:
		b.bytes = b.own
	default:
		b.quiet = quietBufs.Get().(*[quietSize]byte)
		b.bytes = b.quiet[:]
	}
	return b.bytes
}

// idle gives back what was taken too early: who waits has no bulk.
func (b *buffer) idle() {
	b.full = false
	b.free()
}

// free gives back what is held.
func (b *buffer) free() {
	if b.quiet != nil {
		quietBufs.Put(b.quiet)
	}
	if b.busy != nil {
		busyBufs.Put(b.busy)
	}
	b.quiet, b.busy, b.bytes = nil, nil, nil
}

// socket is a plain connection to a peer, read and written cheaply.
type socket struct{ *rawio.Socket }

// ReadLazy implements exchange.LazyReader.
func (s socket) ReadLazy(take func() []byte, give func()) (int, error) {
	return s.Socket.ReadLazy(rawio.Memory{Take: take, Give: give})
}

// Write implements io.Writer. Nobody bounds how long a peer may take.
func (s socket) Write(p []byte) (int, error) { return s.Socket.Write(p, nil) }
