package front

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
)

var (
	errStopped = errors.New("request body stopped")
	errShort   = errors.New("response body shorter than its length")
	errLong    = errors.New("response body longer than its length")
)

// Read reads the request body. The first call sends the 100 that the client
// waits for: whoever answers without the body never asks for it (R-PIPE-6).
func (c *h1conn) Read(p []byte) (int, error) {
	if c.stopped.Load() {
		return 0, errStopped
	}
	if c.cont.Load() == contAsked {
		if err := c.sendContinue(); err != nil {
			return 0, clientFailed(err)
		}
	}
	if c.body.Buffered() == 0 && !c.body.Done() {
		c.extendRead(time.Now(), c.lim.connTimeout())
		if c.stopped.Load() { // StopRead came before the deadline was moved
			c.sock.SetReadDeadline(time.Unix(1, 0))
			return 0, errStopped
		}
	}
	n, err := c.body.Read(p)
	c.bodyLeft.Store(c.body.Left())
	if err != nil && !c.body.Done() {
		err = c.bodyFailed(err)
	}
	return n, err
}

// bodyFailed says what a failed read of the body means for the exchange.
func (c *h1conn) bodyFailed(err error) error {
	if c.stopped.Load() {
		return errStopped
	}
	if se, ok := errors.AsType[*h1.SyntaxError](err); ok {
		return refusal(se)
	}
	if timedOut(err) {
		return &exchange.Error{Status: 408, Reason: "request_stalled", Err: err, Close: true}
	}
	if ctx := c.client.Load(); ctx != nil {
		ctx.cancel()
	}
	return clientFailed(err)
}

// sendContinue sends the 100. A final head that is being sent meanwhile waits,
// see endContinue.
func (c *h1conn) sendContinue() error {
	if !c.cont.CompareAndSwap(contAsked, contSending) {
		return nil
	}
	defer close(c.contSent)
	defer c.cont.Store(contSent)
	c.extendWrite()
	_, err := c.nc.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	return err
}

// endContinue makes sure that no 100 is sent from now on. It reports whether the
// client still waits for one: it will not send the body then, or it will.
func (c *h1conn) endContinue() (waits bool) {
	switch {
	case c.cont.Load() == contNone:
		return false
	case c.cont.CompareAndSwap(contAsked, contNone):
		return true
	}
	<-c.contSent
	return false
}

// Trailers returns the trailers of the request.
func (c *h1conn) Trailers() *exchange.Fields { return c.body.Trailers() }

// StopRead makes pending and later reads of the body fail.
func (c *h1conn) StopRead() {
	c.stopped.Store(true)
	c.sock.SetReadDeadline(time.Unix(1, 0))
}

// Context is done soon after the client is gone. It is made when it is asked for.
// Who waits for it never sees the end of another exchange: only one that nobody
// waits for is used again.
func (c *h1conn) Context() context.Context {
	ctx := c.client.Load()
	if ctx == nil {
		ctx = &clientCtx{c: c}
		c.client.Store(ctx)
	}
	if c.state.Load() == connClosed {
		ctx.cancel()
	}
	return ctx
}

// Head puts a head into the output. An interim one leaves at once; it is not for
// HTTP/1.0 (RFC 9110 §15.2).
func (c *h1conn) Head(r *exchange.Response, noBody, last bool) error {
	if !last {
		if c.x.Req.Proto == "HTTP/1.0" {
			return nil
		}
		if r.Status != 100 && c.cont.Load() == contAsked {
			return nil // a 100 may have to be sent at any time by the reader of the body
		}
		c.endContinue()
		return c.sendInterim(r)
	}
	waits := c.endContinue()
	c.resp.started = true
	fr := h1.Framed{Length: r.Length, Own: c.srv.ownLines(c.now, c.lim.ServerHeader, r.Dated)}
	switch {
	case noBody:
		// A HEAD may tell the length, and a 304 too if it knows it (RFC 9110 §8.6).
		if r.Status == 304 && r.Length == 0 {
			fr.Length = -1
		}
		c.resp.bounded, c.resp.left = true, 0
	case r.Length >= 0:
		c.resp.bounded, c.resp.left = true, r.Length
	case c.x.Req.Proto == "HTTP/1.1":
		c.resp.chunked, fr.Chunked = true, true
	}
	c.resp.keep = c.mayKeep(r, waits)
	fr.Connection = "close"
	if c.resp.keep {
		fr.Connection = "keep-alive"
	}
	if r.Status == 426 { // RFC 9110 section 7.8: its Upgrade is one of this connection
		fr.Connection = "Upgrade, " + fr.Connection
	}
	c.out = h1.AppendResponseHead(c.buffer(), r, fr)
	return nil
}

func (c *h1conn) sendInterim(r *exchange.Response) error {
	c.out = h1.AppendResponseHead(c.buffer(), r, h1.Framed{Length: -1})
	return c.Flush()
}

// mayKeep decides whether the connection serves another request (RFC 9112 §9.3).
// A client that waits for a 100 in vain may or may not send its body, so that
// what comes next has no certain meaning.
func (c *h1conn) mayKeep(r *exchange.Response, waits bool) bool {
	l := c.lim
	return c.info.KeepAlive && !waits && !c.closing() && !c.stopped.Load() &&
		l.KeepAliveTimeout > 0 && (l.MaxKeepAliveReq == 0 || int(c.n) < l.MaxKeepAliveReq) &&
		(c.resp.bounded || c.resp.chunked) && c.bodyLeft.Load() <= drainLimit &&
		!r.Fields.HasToken("Connection", "close")
}

// Write puts body bytes behind the head: small ones wait for more, large ones
// leave together with what waits. More bytes than the announced length are not
// written: the client would take them for the next response.
func (c *h1conn) Write(p []byte) (int, error) {
	n, over := len(p), false
	if c.resp.bounded {
		if int64(n) > c.resp.left {
			n, over = int(c.resp.left), true
		}
		c.resp.left -= int64(n)
	}
	if n > 0 {
		if err := c.write(p[:n]); err != nil {
			return 0, err
		}
	}
	if over {
		return n, errLong
	}
	return n, nil
}

func (c *h1conn) write(p []byte) error {
	out := c.buffer()
	if c.resp.chunked {
		out = h1.AppendChunkSize(out, int64(len(p)))
	}
	if len(out)+len(p)+2 <= smallOut || c.tls != nil && len(p) <= 16<<10 {
		out = append(out, p...)
		if c.resp.chunked {
			out = append(out, '\r', '\n')
		}
		c.out = out
		if len(out) >= smallOut {
			return c.Flush()
		}
		return nil
	}
	c.out = out
	// One writev for head or size line, bytes, and line end: bytes are not copied,
	// and no part waits for the next write.
	var end []byte
	if c.resp.chunked {
		end = crlf
	}
	return c.send(p, end)
}

var crlf = []byte("\r\n")

// send sends the output, then p and end. A deadline that passes after some
// progress is moved on: a client is cut between one and two times the connection
// timeout after the last byte that it took.
func (c *h1conn) send(p, end []byte) error {
	c.vec = [3][]byte{c.out, p, end}
	c.out = c.out[:0]
	defer clear(c.vec[:])
	switch {
	case c.tls != nil:
		return c.sendTLS()
	case len(p) == 0:
		return c.sendSmall(c.vec[0], false)
	}
	c.bufs = c.vec[:]
	for {
		c.extendWrite()
		n, err := c.bufs.WriteTo(c.sock.Conn)
		if err == nil {
			return nil
		}
		if n == 0 || !timedOut(err) || c.state.Load() == connClosed {
			return c.writeFailed(err)
		}
	}
}

// sendSmall writes bytes that the socket takes at once, nearly always: a deadline
// is set only if it does not, so that nobody looks at the clock before. more: others
// follow at once.
func (c *h1conn) sendSmall(p []byte, more bool) error {
	if c.x.Crowded {
		runtime.Gosched()
	}
	for {
		if !c.writeBy.IsZero() {
			c.extendWrite() // one that was set once must not lie in the past
		}
		n, err := c.sock.writeSoon(p, more, c.blocked)
		if err == nil {
			return nil
		}
		if n == 0 || !timedOut(err) || c.state.Load() == connClosed {
			return c.writeFailed(err)
		}
		p = p[n:]
	}
}

// sendTLS writes in pieces, because a TLS connection does not survive a write
// that timed out: each piece is progress.
func (c *h1conn) sendTLS() error {
	for _, b := range c.vec {
		for len(b) > 0 {
			n := min(len(b), 64<<10)
			c.extendWrite()
			if _, err := c.nc.Write(b[:n]); err != nil {
				return c.writeFailed(err)
			}
			b = b[n:]
		}
	}
	return nil
}

func (c *h1conn) writeFailed(err error) error {
	if ctx := c.client.Load(); ctx != nil {
		ctx.cancel()
	}
	return clientFailed(err)
}

// SendFile sends part of a file: small ones with the head in one write, others
// by sendfile(2) on plain sockets.
func (c *h1conn) SendFile(f *os.File, off, n int64) (int64, error) {
	if n <= 0 {
		return 0, nil
	}
	if c.resp.bounded && n > c.resp.left {
		return 0, errLong
	}
	if c.tls != nil || c.sock.raw == nil || c.resp.chunked || n <= 16<<10 {
		return copyFile(c, f, off, n)
	}
	if len(c.out) > 0 { // the head, which shares a segment with the first bytes
		head := c.out
		c.out = c.out[:0]
		if err := c.sendSmall(head, true); err != nil {
			return 0, err
		}
	}
	var sent int64
	for sent < n {
		c.extendWrite()
		m, err := c.sock.sendFile(f, off+sent, n-sent)
		sent += m
		c.resp.left -= m
		switch {
		case err == nil || m > 0 && timedOut(err) && c.state.Load() != connClosed:
		case errors.Is(err, io.ErrUnexpectedEOF):
			return sent, err
		default:
			return sent, c.writeFailed(err)
		}
	}
	return sent, nil
}

// copyFile writes part of a file to a wire, by way of a buffer.
func copyFile(w io.Writer, f *os.File, off, n int64) (sent int64, err error) {
	buf := copyBufs.Get().(*[32 << 10]byte)
	defer copyBufs.Put(buf)
	for sent < n {
		m, rerr := f.ReadAt(buf[:min(n-sent, int64(len(buf)))], off+sent)
		k, err := w.Write(buf[:m])
		sent += int64(k)
		if err != nil {
			return sent, err
		}
		if rerr != nil && sent < n {
			if errors.Is(rerr, io.EOF) {
				rerr = io.ErrUnexpectedEOF // the file shrank
			}
			return sent, rerr
		}
	}
	return sent, nil
}

// Flush sends all bytes so far.
func (c *h1conn) Flush() error {
	if len(c.out) == 0 {
		return nil
	}
	return c.send(nil, nil)
}

// End completes the body. A body short of its length is cut instead.
func (c *h1conn) End(trailers *exchange.Fields) error {
	if c.resp.bounded && c.resp.left > 0 {
		c.Abort(errShort)
		return errShort
	}
	if c.resp.chunked {
		c.out = h1.AppendLastChunk(c.buffer(), trailers)
	}
	if err := c.Flush(); err != nil {
		c.resp.aborted = true // nobody is there to keep the connection for
		return err
	}
	return nil
}

// Abort cuts the response so that the client notices: no last chunk, fewer bytes
// than announced, or a reset where the close alone would be the end of the body.
func (c *h1conn) Abort(cause error) {
	if c.resp.aborted {
		return
	}
	c.resp.aborted = true
	if c.resp.started && !errors.Is(cause, exchange.ErrClientGone) {
		c.Flush()
	}
	if c.resp.started && !c.resp.chunked && !c.resp.bounded {
		if c.sock.reset(); c.sock.held.Load() {
			// cut would end the body before the reset does: the close is soon enough.
			c.state.Store(connClosed)
			return
		}
	}
	c.cut()
}

// buffer returns the output to append to.
func (c *h1conn) buffer() []byte {
	if c.out == nil {
		c.small = outBufs.Get().(*[smallOut]byte)
		c.out = c.small[:0]
	}
	return c.out
}

// freeOut gives the output buffer back.
func (c *h1conn) freeOut() {
	if c.small != nil {
		outBufs.Put(c.small)
	}
	c.small, c.out = nil, nil
}
