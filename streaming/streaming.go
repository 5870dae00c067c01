// Package streaming relays the reply of an external processor to the client as
// it arrives. It holds no more of a body than one buffer, and that only while
// bytes flow. It neither makes calls nor chooses what the reply's head may say
// to this server.
package streaming

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"httpjet/exchange"
	"httpjet/extproc"
)

// Buffers: a relay starts with a small one. When warm reads in a row have filled
// it, a bulk flows, and it takes a big one, which halves the cost of a byte; it
// gives that back when reads become small again. The process has maxBig of them;
// a relay that gets none goes on with its small one (R-STREAM-3).
//
// Into a big one it reads no more than the client takes at once, so that a write
// from it does not wait. If that is less than worth, it goes on with the small one:
// a client that stalls finds no more than that held for it.
const (
	smallSize = 32 << 10
	bigSize   = 1 << 20
	worth     = 64 << 10
	warm      = 8
	maxBig    = 64
)

var (
	smalls = sync.Pool{New: func() any { return new([smallSize]byte) }}
	bigs   bigPool
)

// bigPool lends out at most maxBig buffers at once.
type bigPool struct {
	pool sync.Pool
	out  atomic.Int32
}

// get returns nil if all buffers are lent out.
func (p *bigPool) get() *[bigSize]byte {
	if p.out.Add(1) > maxBig {
		p.out.Add(-1)
		return nil
	}
	if b, ok := p.pool.Get().(*[bigSize]byte); ok {
		return b
	}
	return new([bigSize]byte)
}

func (p *bigPool) put(b *[bigSize]byte) {
	if b != nil {
		p.pool.Put(b)
		p.out.Add(-1)
	}
}

// Relay sends r as the response of x and closes r. The head goes out with the
// first body bytes if those are at hand, else at once; bytes leave whenever the
// upstream has nothing more at hand, so that an event is live and a bulk needs
// few writes (R-STREAM-1, R-STREAM-2). Trailers follow (R-UP-6).
//
// An error that wraps exchange.ErrClientGone is the client's; any other is an
// *exchange.Error, response_error if the head was sent (R-STREAM-4).
func Relay(x *exchange.Exchange, r *extproc.Reply) error {
	defer r.Close()
	for i := range r.Fields.Len() {
		if fd := r.Fields.At(i); !ownField(fd.Name) || x.Resp.Dated && exchange.EqualName(fd.Name, "Date") {
			x.Resp.Fields.Add(fd.Name, fd.Value)
		}
	}
	x.Resp.Length, x.Resp.Unproven = r.Length, r.Unproven
	if err := x.Start(r.Status); err != nil {
		return clientError(err)
	}
	if err := relayBody(x, r); err != nil {
		return err
	}
	if r.Trailers != nil {
		if f := r.Trailers(); f != nil {
			for name, value := range f.All() {
				x.Trailers.Add(name, value)
			}
		}
	}
	return nil
}

// ownField reports whether the front end writes this field for every response, Date
// unless the response is Dated.
func ownField(name string) bool {
	return exchange.EqualName(name, "Server") || exchange.EqualName(name, "Date")
}

func relayBody(x *exchange.Exchange, r *extproc.Reply) error {
	if r.Next != nil { // a small body is at hand whole
		p, end := r.Next()
		if len(p) > 0 {
			if _, err := x.Write(p); err != nil {
				return clientError(err)
			}
		}
		if end == io.EOF {
			return nil
		}
	}
	return copyBody(x, r)
}

// copyBody relays what comes through a buffer.
func copyBody(x *exchange.Exchange, r *extproc.Reply) error {
	b := buffer{small: smalls.Get().(*[smallSize]byte)}
	defer b.free()
	for {
		if r.Buffered != nil && r.Buffered() == 0 {
			// The next read may wait: what was written must not.
			if err := x.Flush(); err != nil {
				return clientError(err)
			}
		}
		buf := b.next(x)
		n, err := r.Body.Read(buf)
		if n > 0 {
			if _, werr := x.Write(buf[:n]); werr != nil {
				return clientError(werr)
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return upstreamError(err)
		case r.Buffered == nil:
			if err := x.Flush(); err != nil {
				return clientError(err)
			}
		default:
			b.filled(n)
		}
	}
}

// buffer is the memory of one relay.
type buffer struct {
	small *[smallSize]byte
	big   *[bigSize]byte // nil while none is lent to it
	full  int            // reads in a row that filled the small one, warm at most
}

// next returns the memory for the next read.
func (b *buffer) next(x *exchange.Exchange) []byte {
	if b.full < warm {
		return b.small[:]
	}
	room := x.Room()
	if room < worth {
		b.shrink()
		return b.small[:]
	}
	if b.big == nil {
		b.big = bigs.get()
	}
	if b.big == nil {
		return b.small[:]
	}
	return b.big[:min(room, bigSize)]
}

// filled takes note of a read of n bytes.
func (b *buffer) filled(n int) {
	if n < smallSize {
		b.full = 0
		b.shrink()
	} else if b.full < warm {
		b.full++
	}
}

// shrink gives the big buffer back.
func (b *buffer) shrink() {
	bigs.put(b.big)
	b.big = nil
}

func (b *buffer) free() {
	b.shrink()
	smalls.Put(b.small)
}

// clientError marks a failed write to the client as its own.
func clientError(err error) error {
	if _, ok := errors.AsType[*exchange.Error](err); ok || errors.Is(err, exchange.ErrClientGone) {
		return err
	}
	return fmt.Errorf("%w: write response: %v", exchange.ErrClientGone, err)
}

// upstreamError is a reply that ended before its end.
func upstreamError(err error) error {
	if _, ok := errors.AsType[*exchange.Error](err); ok || errors.Is(err, exchange.ErrClientGone) {
		return err
	}
	return exchange.Fail(502, "response_error", "read reply body: %w", err)
}
