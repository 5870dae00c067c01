package extproc

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"

	"httpjet/h1"
	"httpjet/rawio"
)

var longAgo = time.Unix(1, 0)

// h1conn is one connection. It belongs to the call that has it out, or to the
// idle list. The pump of that call may Write and set deadlines.
type h1conn struct {
	nc     net.Conn
	socket net.Conn      // below TLS; nc itself without
	raw    *rawio.Socket // nil behind TLS
	peeker peeker        // nil if socket is none
	br     h1.Reader
	memory rawio.Socket // behind raw or peeker
	used   bool         // has carried a call
	call   h1call       // zero when there is none
	reply  Reply        // of the last call: who has it may still ask for its status

	// Memory that the replies use one after the other, and method values.
	head     h1.Response
	release  func()
	buffered func() int
	next     func() ([]byte, error)
	done     func() error

	ask       []byte // request head that goes out with the first read of its reply
	idleSince time.Time
	readBy    time.Time // read deadline that is set; zero: none, or not known
	writeBy   time.Time // the same for writes
}

// peeker tells whether nothing waits to be read, neither bytes nor the peer's end.
type peeker interface{ Silent() bool }

func newH1conn(nc, socket net.Conn) *h1conn {
	c := &h1conn{nc: nc, socket: socket}
	if s := c.memory.Of(socket); s != nil {
		c.peeker = s
		if nc == socket {
			c.raw = s
		}
	}
	if c.raw != nil {
		c.br.Init((*lazyConn)(c))
	} else {
		c.br.Init(c)
	}
	c.release, c.done = c.br.Release, c.endCall
	body := c.br.Body(0) // and every one after it
	c.buffered, c.next = body.Buffered, body.Next
	return c
}

// lazyConn is an h1conn whose socket can be read before memory is taken.
type lazyConn h1conn

func (c *lazyConn) Read(p []byte) (int, error) {
	for {
		n, err := c.raw.Read(p)
		if err == nil {
			return n, nil
		}
		if err = (*h1conn)(c).late(err); err != nil {
			return 0, err
		}
	}
}

// ReadLazy sends the request that waits in ask, if there is one, before it reads.
func (c *lazyConn) ReadLazy(buf func() []byte) (int, error) {
	m := rawio.Memory{Take: buf, Give: c.release}
	for {
		var n int
		var err error
		if c.ask == nil {
			n, err = c.raw.ReadLazy(m)
		} else {
			n, err = (*h1conn)(c).sendAsk(m)
		}
		if err == nil {
			return n, nil
		}
		if err = (*h1conn)(c).late(err); err != nil {
			return 0, err
		}
	}
}

// sendAsk sends the waiting request and reads. A request that the socket does not
// take at once is written as any other.
func (c *h1conn) sendAsk(m rawio.Memory) (int, error) {
	request := c.ask
	n, err := c.raw.Ask(request, m)
	if ae, failed := err.(*rawio.AskError); failed {
		return c.askLess(request, ae, m)
	}
	c.ask = nil
	return n, err
}

// askLess goes on with a request that did not go out whole.
func (c *h1conn) askLess(request []byte, ae *rawio.AskError, m rawio.Memory) (int, error) {
	full := errors.Is(ae.Err, syscall.EAGAIN) // which calls itself a timeout
	if !full && isTimeout(ae.Err) && ae.Sent == 0 {
		return 0, ae.Err // nothing has happened yet: the call may ask again
	}
	c.ask = nil
	if !full {
		return 0, ae
	}
	if _, err := c.Write(request[ae.Sent:]); err != nil {
		return 0, &rawio.AskError{Sent: max(ae.Sent, 1), Err: err}
	}
	return c.raw.ReadLazy(m)
}

// Read reads through TLS.
func (c *h1conn) Read(p []byte) (int, error) {
	for {
		n, err := c.nc.Read(p)
		if n > 0 || err == nil {
			return n, nil
		}
		if err = c.late(err); err != nil {
			return 0, err
		}
	}
}

// late turns the error of a read that waited to its deadline into the verdict of
// the call, which is nil to wait on. Other errors pass.
func (c *h1conn) late(err error) error {
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		return c.call.late()
	}
	return err
}

// Write writes all of p, or returns how much was written before the error.
func (c *h1conn) Write(p []byte) (int, error) {
	if c.raw == nil {
		return c.nc.Write(p)
	}
	return c.raw.Write(p, nil)
}

// silent reports whether nothing waits to be read, without waiting for it.
func (c *h1conn) silent() bool {
	if c.peeker == nil || c.br.Buffered() > 0 || !c.peeker.Silent() {
		return false
	}
	if tc, ok := c.nc.(*tls.Conn); ok {
		// TLS may hold a record already. A deadline in the past lets a read
		// have that and nothing else; the timeout does no harm to the stream.
		var b [1]byte
		c.setReadBy(longAgo)
		n, err := tc.Read(b[:])
		ne, ok := err.(net.Error)
		return n == 0 && ok && ne.Timeout()
	}
	return true
}

// setReadBy sets the read deadline; zero: none.
func (c *h1conn) setReadBy(t time.Time) {
	c.nc.SetReadDeadline(t)
	c.readBy = t
}

// watchIn makes a pending read come to late after about d. The deadline is left
// alone while it is near enough: setting one costs more than meeting it early.
func (c *h1conn) watchIn(d time.Duration, now time.Time) {
	if ahead := c.readBy.Sub(now); ahead < d/2 || ahead > d {
		c.setReadBy(now.Add(d))
	}
}

// writeWithin bounds the writes that follow by d to 2d from now.
func (c *h1conn) writeWithin(d time.Duration, now time.Time) {
	if ahead := c.writeBy.Sub(now); ahead < d || ahead > 2*d {
		c.writeBy = now.Add(2 * d)
		c.nc.SetWriteDeadline(c.writeBy)
	}
}

// endCall is Reply.Done of the call that has c.
func (c *h1conn) endCall() error { return c.call.close() }

// rest prepares c for the idle list.
func (c *h1conn) rest() {
	c.used = true
	c.call = h1call{}
	c.head.Fields.Reset()
	c.br.Release()
}

func (c *h1conn) close() {
	// A TLS connection that is given up owes nobody a close_notify, and must
	// not wait to write one.
	c.socket.Close()
	c.br.Release()
}
