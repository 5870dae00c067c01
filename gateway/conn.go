package gateway

import (
	"bufio"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"httpjet/exchange"
	"httpjet/rawio"
)

const (
	// watchAfter is how long a call waits before it watches for its client to go
	// away: quick replies never pay for that (R-STREAM-5).
	watchAfter = 50 * time.Millisecond

	// askMax is the longest request that goes out with the first read of its
	// reply: a kept connection has room for it, so that it leaves in one piece.
	askMax = 32 << 10
)

// conn is one connection to the application. Whoever took it from the pool owns
// it, and must put or drop it. While a pump runs, cv.mu guards readBy.
//
// Deadlines are moved when they are not near enough, not for every call: moving
// one costs more than meeting it early, which late then puts right.
type conn struct {
	nc     net.Conn
	raw    *rawio.Socket // nil if nc is no socket
	br     *bufio.Reader // of the conn
	since  time.Time     // when it became idle
	reused bool
	cv     *conversation // that has it out

	ask  []byte // a request that goes out with the next read; nil: none
	into []byte // of the read in progress
	mem  rawio.Memory

	readBy, writeBy time.Time // deadlines as last set; zero: none

	stream Stream // of the replies, one after the other

	// Method values, made once.
	buffered func() int
	done     func() error
}

func newConn(nc net.Conn, stream func(*bufio.Reader) Stream) *conn {
	c := &conn{nc: nc, raw: rawio.New(nc)}
	c.br = bufio.NewReaderSize(c, 8<<10)
	c.stream = stream(c.br)
	c.mem.Take = func() []byte { return c.into }
	c.buffered = func() int { return c.cv.buffered() }
	c.done = func() error { return c.cv.close() }
	return c
}

// Read sends the request that waits in ask, if there is one, and reads.
func (c *conn) Read(p []byte) (int, error) {
	for {
		n, err := c.receive(p)
		if n > 0 || err == nil || !isTimeout(err) {
			return n, err
		}
		if err = c.cv.late(); err != nil {
			return 0, err
		}
	}
}

func (c *conn) receive(p []byte) (int, error) {
	switch {
	case c.raw == nil:
		return c.nc.Read(p)
	case c.ask == nil:
		return c.raw.Read(p)
	}
	request := c.ask
	c.into = p
	n, err := c.raw.Ask(request, c.mem)
	ae, failed := err.(*rawio.AskError)
	switch {
	case !failed:
		c.ask = nil
		return n, err
	case ae.Sent == 0 && errors.Is(ae.Err, os.ErrDeadlineExceeded):
		return 0, ae.Err // nothing has happened yet: it is asked again
	}
	c.ask = nil
	c.cv.up.written = int64(ae.Sent)
	if !errors.Is(ae.Err, syscall.EAGAIN) {
		return 0, ae
	}
	m, err := c.raw.Write(request[ae.Sent:], nil)
	c.cv.up.written += int64(m)
	if err != nil {
		return 0, exchange.Fail(504, "request_stalled", "send to the application: %w", err)
	}
	return c.raw.Read(p)
}

// Write writes all of p, or returns how much was written before the error.
func (c *conn) Write(p []byte) (int, error) {
	if c.raw == nil || len(p) > 2*uploadBuf {
		return c.nc.Write(p)
	}
	return c.raw.Write(p, nil)
}

// quiet reports whether an idle connection is alive and has nothing to read:
// bytes, or an end, that come between two requests belong to neither. It does
// not block.
func (c *conn) quiet() bool { return c.raw == nil || c.raw.Silent() }

// setReadBy sets the read deadline; zero: none.
func (c *conn) setReadBy(t time.Time) {
	c.nc.SetReadDeadline(t)
	c.readBy = t
}

// watchSoon makes a pending read come to late after half of watchAfter to all
// of it.
func (c *conn) watchSoon(now time.Time) {
	if ahead := c.readBy.Sub(now); ahead < watchAfter/2 || ahead > watchAfter {
		c.setReadBy(now.Add(watchAfter))
	}
}

// setWriteBy sets the write deadline; zero: none.
func (c *conn) setWriteBy(t time.Time) {
	c.nc.SetWriteDeadline(t)
	c.writeBy = t
}

// writeWithin bounds the writes that follow by d to 2d from now; 0: by nothing.
func (c *conn) writeWithin(d time.Duration, now time.Time) {
	ahead := c.writeBy.Sub(now)
	switch {
	case d > 0 && (ahead < d || ahead > 2*d):
		c.setWriteBy(now.Add(2 * d))
	case d <= 0 && !c.writeBy.IsZero():
		c.setWriteBy(time.Time{})
	}
}
