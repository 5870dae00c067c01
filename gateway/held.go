package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
)

// HeldMax is the longest declared body, in bytes, that is read whole before a
// connection is acquired, so that a slow client occupies no worker (R-FCGI-6).
const HeldMax = budget.MemoryMax

// body is the request body of one call.
type body struct {
	length int64         // exact, 0 for none
	held   *budget.Spool // nil: none, or src is the client
	src    io.Reader     // the client
	own    bool          // held is closed with the call
	// declared: the client announced a body, be it empty.
	declared bool
}

// reader returns the body from its first byte.
func (b body) reader() io.Reader {
	if b.held != nil {
		return b.held.Reader()
	}
	return b.src
}

func (b body) close() {
	if b.own {
		b.held.Close()
	}
}

// heldBody is a Call.Body that Hold has made.
type heldBody struct {
	io.Reader
	spool *budget.Spool
}

// Hold reads the body of call into bodies if it must be complete before a
// connection is acquired, and sets call.Length to its exact length (R-FCGI-6).
// Any number of clients may then be tried with call, until release is called. pause
// is as BodyTimeout of their target, full their Tokens.Unavailable.
func Hold(ctx context.Context, call *extproc.Call, bodies *budget.Bodies, pause time.Duration, full string) (release func(), err error) {
	b, err := takeBody(ctx, call, bodies, pause, full)
	if err != nil || !b.own {
		return func() {}, err
	}
	call.Body, call.Length = &heldBody{b.reader(), b.held}, b.length
	return func() { b.held.Close() }, nil
}

// takeBody decides how the body travels (R-FCGI-6): small or of unknown length,
// it is held; longer, it stays with the client and streams.
func takeBody(ctx context.Context, call *extproc.Call, bodies *budget.Bodies, pause time.Duration, full string) (body, error) {
	if ctx.Err() != nil {
		return body{}, exchange.ErrClientGone
	}
	if h, ok := call.Body.(*heldBody); ok {
		return body{length: h.spool.Len(), held: h.spool, declared: true}, nil
	}
	switch {
	case call.Length == 0 || call.Body == nil:
		return body{}, nil
	case call.Length > HeldMax:
		return body{length: call.Length, src: call.Body, declared: true}, nil
	}
	watch := onDone(ctx, func() { stopBody(call) })
	s, err := bodies.Hold(budget.Paced(call.Body, pause), call.Length)
	watch.putOut()
	if err != nil {
		return body{}, bodyError(ctx, err, full)
	}
	return body{length: s.Len(), held: s, own: true, declared: true}, nil
}

// bodyError is the answer for a request body that cannot be had; full is the token
// for want of room.
func bodyError(ctx context.Context, err error, full string) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: request body: %v", exchange.ErrClientGone, err)
	case errors.Is(err, budget.ErrNoRoom):
		return &exchange.Error{Status: 503, Reason: full, Err: err, Close: true}
	}
	return extproc.BodyError(err)
}

// stopBody makes a pending read of the client's body return.
func stopBody(call *extproc.Call) {
	if call.StopBody != nil {
		call.StopBody()
	}
}
