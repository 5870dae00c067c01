package exchange

import (
	"context"
	"io"
	"os"
	"syscall"
	"time"
)

// Wire is what a front end implements. Calls come from the serving goroutine
// only, except Read, which one other goroutine may call, and StopRead, which
// any may call.
type Wire interface {
	io.Reader                                  // request body, decoded; sends 100-continue when first asked
	Trailers() *Fields                         // request trailers, once Read has returned io.EOF; may be nil
	StopRead()                                 // pending and later reads fail
	Head(r *Response, noBody, last bool) error // a 1xx head (last false), or the final one; noBody: HEAD, 204, 304
	Write(p []byte) (int, error)               // body bytes
	Flush() error                              // all bytes so far leave now
	End(trailers *Fields) error                // body complete
	Abort(cause error)                         // response is cut: RST_STREAM, or close without a terminator
	Context() context.Context                  // done soon after the client is gone
}

// FileSender is implemented by wires that can send a file without copying it
// through user space. Only Exchange asks for it.
type FileSender interface {
	SendFile(f *os.File, off, n int64) (int64, error)
}

// Waiter is implemented by wires whose goroutine serves other exchanges as well. Only
// Exchange asks for it.
type Waiter interface {
	// MayWait says that who serves the exchange may now wait, for something else than the
	// wire: it has to have the goroutine for itself.
	MayWait()
}

// Roomer is implemented by wires that know how much their client takes at once.
// Only Exchange asks for it.
type Roomer interface {
	// Room returns about how many bytes Write takes now without waiting for the
	// client, -1 if that is not known.
	Room() int
}

// Upgrader is implemented by wires that can hand over their connection after a
// 101 head. Only Exchange asks for it.
type Upgrader interface {
	Upgrade(r *Response) (Duplex, error)
}

// Duplex is an upgraded connection: raw bytes both ways. Bytes that the client
// sent behind its request head are read first. Read and Write may run in two
// goroutines; Close may be called from any, but for a turn of its Holder, and unblocks
// both.
type Duplex interface {
	io.Reader
	io.Writer
	SetReadDeadline(t time.Time) error // of Read; zero: none
	Broken() bool                      // the connection has failed, which a reader would be told
	CloseWrite() error                 // half-close towards the client
	Close() error
}

// Tunnel is what an upgraded exchange goes on as when its handler has returned: the
// handler leaves it behind with Detach, and the front end runs it without the
// frames, and the memory, of everything between itself and the handler. Run and End
// are called by one goroutine at a time, which need not be the same each time.
type Tunnel interface {
	// Run moves bytes until both directions have ended or one has failed; then it
	// returns false. If rest is above 0, it also returns, true, when no byte has
	// moved for rest, up to twice as long: it is called again when what it waits
	// for is there. Behind Close it returns false soon.
	Run(rest time.Duration) (r Rest, resting bool)
	Close()     // ends it; any goroutine may call it, more than once
	End() error // gives up what it holds and says how it ended; called once, last
}

// Rest is what a tunnel at rest waits for, whatever comes first.
type Rest struct {
	Client bool            // something to read from the client
	Own    syscall.RawConn // or from the tunnel's own connection; nil: from nowhere else
	Until  time.Time       // zero: no end
}

// LazyReader is implemented by a Duplex that needs no memory while it waits for
// bytes: it asks take for some when there are, and gives it back with give if it
// was wrong. Read and ReadLazy have one user together.
type LazyReader interface {
	ReadLazy(take func() []byte, give func()) (int, error)
}

// Holder is implemented by a Duplex whose reading side can be held: see
// rawio.Socket.Hold, of which this says the same.
type Holder interface {
	Hold(turn func() bool) error
	Emptied() bool
}

// A Sink takes response body bytes on their way to the wire.
type Sink interface {
	io.Writer
	Flush() error
	Close() error // no more bytes; pass on what is held
}

// A Filter takes part in a response. Heads are edited from the handler towards
// the wire, so each filter sees what the one before it decided; sinks are then
// joined from the wire back to the handler.
type Filter interface {
	Head(x *Exchange) (wants bool) // may edit x.Resp; reports if it wants the body
	Wrap(next Sink) Sink           // called only if it does
}

// ErrorFilter is a Filter that also takes part in the answers that Run makes of
// errors, of which other filters are taken off.
type ErrorFilter interface {
	Filter
	ForErrors()
}

// A Releaser is a Filter that holds something for its response: Release is called
// once, behind the last byte or the cut, whatever came of the exchange.
type Releaser interface {
	Filter
	Release()
}

// Copies keep one version of a file in other content codings, in memory, for the
// next exchange with it. Any number of exchanges use them at once.
type Copies interface {
	// Coded returns the file in the coding of that name; nil: it is not there. What
	// it returns is shared and never written to.
	Coded(name string) []byte
	// KeepCoded keeps p, which nobody writes to from now on, if there is room.
	KeepCoded(name string, p []byte)
}

type wireSink struct{ x *Exchange }

func (s *wireSink) Write(p []byte) (int, error) {
	n, err := s.x.wire.Write(p)
	s.x.written += int64(n)
	return n, err
}
func (s *wireSink) Flush() error { return s.x.wire.Flush() }
func (s *wireSink) Close() error { return nil }
