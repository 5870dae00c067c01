package extproc

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"httpjet/h1"
)

var longAgo = time.Unix(1, 0)

// h1conn is one connection. It belongs to the call that has it out, or to the
// idle list. The pump of that call may Write and set deadlines.
//
// Without TLS the socket is read and written inside the callbacks of its
// RawConn: the system calls cannot block there, so they skip the scheduler, and
// a buffer is asked for only when the socket is tried.
type h1conn struct {
	nc     net.Conn
	socket net.Conn // below TLS; nc itself without
	raw    syscall.RawConn
	br     *h1.Reader
	used   bool // has carried a call
	call   *h1call

	idleSince time.Time
	readBy    time.Time // read deadline that is set; zero: none, or not known
	writeBy   time.Time // the same for writes

	// Of a read in a callback, so that no closure is made for each.
	onRead func(fd uintptr) bool
	take   func() []byte // nil: read into p
	p      []byte
	n      int
	errno  syscall.Errno

	onPeek func(fd uintptr)
	quiet  bool // as of the last peek

	// Of a write in a callback.
	onWrite func(fd uintptr) bool
	out     []byte // not written yet
	werrno  syscall.Errno
}

func newH1conn(nc, socket net.Conn) *h1conn {
	c := &h1conn{nc: nc, socket: socket}
	if sc, ok := socket.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	c.onRead, c.onWrite, c.onPeek = c.tryRead, c.tryWrite, c.peek
	if nc == socket && c.raw != nil {
		c.br = h1.NewReader((*lazyConn)(c))
	} else {
		c.br = h1.NewReader(c)
	}
	return c
}

// lazyConn is an h1conn whose socket can be read before memory is taken.
type lazyConn h1conn

func (c *lazyConn) Read(p []byte) (int, error) { return (*h1conn)(c).readRaw(p, nil) }

func (c *lazyConn) ReadLazy(buf func() []byte) (int, error) { return (*h1conn)(c).readRaw(nil, buf) }

func (c *h1conn) readRaw(p []byte, take func() []byte) (int, error) {
	c.p, c.take = p, take
	for {
		err := c.raw.Read(c.onRead)
		if err == nil {
			break
		}
		if err = c.late(err); err != nil {
			return 0, err
		}
	}
	c.p, c.take = nil, nil
	switch {
	case c.errno != 0:
		return 0, os.NewSyscallError("read", c.errno)
	case c.n == 0:
		return 0, io.EOF
	}
	return c.n, nil
}

// tryRead reads once and returns false if it must be called again when the
// socket is readable.
func (c *h1conn) tryRead(fd uintptr) bool {
	p := c.p
	if c.take != nil {
		p = c.take()
	}
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch errno {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		case 0:
			c.n, c.errno = int(n), 0
		default:
			c.n, c.errno = 0, errno
		}
		return true
	}
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
	if c.nc != c.socket || c.raw == nil {
		return c.nc.Write(p)
	}
	c.out, c.werrno = p, 0
	err := c.raw.Write(c.onWrite)
	n := len(p) - len(c.out)
	c.out = nil
	if err == nil && c.werrno != 0 {
		err = os.NewSyscallError("write", c.werrno)
	}
	return n, err
}

// tryWrite writes what it can and returns false if it must be called again when
// the socket takes more.
func (c *h1conn) tryWrite(fd uintptr) bool {
	for len(c.out) > 0 {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&c.out[0])), uintptr(len(c.out)))
		switch errno {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		case 0:
			c.out = c.out[n:]
		default:
			c.werrno = errno
			return true
		}
	}
	return true
}

// silent reports whether nothing waits to be read, without waiting for it.
func (c *h1conn) silent() bool {
	if c.raw == nil || c.br.Buffered() > 0 {
		return false
	}
	c.quiet = false
	if err := c.raw.Control(c.onPeek); err != nil || !c.quiet {
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

// peek looks at the socket without taking a byte from it.
func (c *h1conn) peek(fd uintptr) {
	var b [1]byte
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1,
		syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	c.quiet = errno == syscall.EAGAIN
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

// rest prepares c for the idle list.
func (c *h1conn) rest() {
	c.call, c.used = nil, true
	c.br.Release()
}

func (c *h1conn) close() {
	// A TLS connection that is given up owes nobody a close_notify, and must
	// not wait to write one.
	c.socket.Close()
	c.br.Release()
}
