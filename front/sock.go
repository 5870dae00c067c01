package front

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"httpjet/rawio"
)

// sock is the connection of a client below TLS, with what net.Conn does not
// offer: cheap system calls, reading into memory that is taken once there is
// something to read, and sendfile at an offset.
type sock struct {
	net.Conn
	raw    *rawio.Socket // nil if Conn is not a socket, in tests
	memory rawio.Socket  // behind raw
	ahead  []byte        // read from the socket, and to be read first

	give func() // gives the memory of ReadLazy back; set by its user

	held atomic.Bool // its reading side is (rawio.Socket.Hold): a close would wait for the exchange

	records *records // between this socket and TLS, in a handshake and over HTTP/2; else nil
}

// rawMost is the most that a write hands to the kernel without telling the
// scheduler: copying it takes some 10 µs.
const rawMost = 64 << 10

func (s *sock) init(nc net.Conn) {
	s.Conn, s.raw = nc, s.memory.Of(nc)
}

// ReadLazy reads into the memory that take returns and holds none while it waits
// (h1.LazyReader).
func (s *sock) ReadLazy(take func() []byte) (int, error) {
	return s.readLazy(take, s.give)
}

// readLazy is ReadLazy for who gives memory back by himself.
func (s *sock) readLazy(take func() []byte, give func()) (int, error) {
	if len(s.ahead) > 0 {
		return s.readAhead(take()), nil
	}
	if s.raw == nil {
		return s.Conn.Read(take())
	}
	return s.raw.ReadLazy(rawio.Memory{Take: take, Give: give})
}

// Read reads as net.Conn does.
func (s *sock) Read(p []byte) (int, error) {
	if s.records != nil {
		return s.records.Read(p)
	}
	if len(s.ahead) > 0 {
		return s.readAhead(p), nil
	}
	if s.raw == nil || len(p) == 0 {
		return s.Conn.Read(p)
	}
	return s.raw.Read(p)
}

// readAhead reads what was read before.
func (s *sock) readAhead(p []byte) int {
	n := copy(p, s.ahead)
	if s.ahead = s.ahead[n:]; len(s.ahead) == 0 {
		s.ahead = nil
	}
	return n
}

// Write writes as net.Conn does.
func (s *sock) Write(p []byte) (int, error) {
	if s.records != nil && s.records.keep(p) {
		return len(p), nil
	}
	if s.raw == nil || len(p) > rawMost {
		return s.Conn.Write(p)
	}
	return s.raw.Write(p, nil)
}

// writeSoon writes as Write does, and calls before each time that it has to wait, to
// set a deadline. more: other bytes follow at once.
func (s *sock) writeSoon(p []byte, more bool, before func()) (int, error) {
	switch {
	case s.raw == nil:
		before()
		return s.Conn.Write(p)
	case more:
		return s.raw.WriteMore(p, before)
	}
	return s.raw.Write(p, before)
}

// sendFile sends up to n bytes of f from offset off with sendfile(2) and
// returns how many went out. It returns with progress, or at a deadline.
func (s *sock) sendFile(f *os.File, off, n int64) (sent int64, err error) {
	src, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var werr, serr error
	err = src.Control(func(in uintptr) {
		werr = s.raw.Raw().Write(func(out uintptr) bool {
			for sent < n {
				at := off + sent
				m, e := unix.Sendfile(int(out), int(in), &at, int(min(n-sent, 1<<30)))
				switch {
				case e == unix.EINTR:
					continue
				case e == unix.EAGAIN:
					return sent > 0 // the caller renews the deadline after progress
				case e != nil:
					serr = os.NewSyscallError("sendfile", e)
					return true
				case m == 0:
					serr = io.ErrUnexpectedEOF // the file shrank
					return true
				}
				sent += int64(m)
			}
			return true
		})
	})
	switch {
	case err != nil:
		return sent, err
	case serr != nil:
		return sent, serr
	}
	return sent, werr
}

// closeWrite ends the sending side.
func (s *sock) closeWrite() error {
	if cw, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return net.ErrClosed
}

// linger ends the sending side and waits a little for the peer's end, reading what
// it sends meanwhile.
func (s *sock) linger() {
	if s.closeWrite() != nil {
		return
	}
	s.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, s.Conn, lingerSize)
}

// cut closes the socket, or ends both its sides if it is held: then whoever serves the
// connection finds that, and closes it.
func (s *sock) cut() {
	if s.held.Load() {
		s.raw.Raw().Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) })
		return
	}
	s.Conn.Close()
}

// reset makes the next close a reset.
func (s *sock) reset() {
	if l, ok := s.Conn.(interface{ SetLinger(int) error }); ok {
		l.SetLinger(0)
	}
}

// watched is the socket as a parked connection waits for it.
func (s *sock) watched() [2]syscall.RawConn { return [2]syscall.RawConn{s.raw.Raw()} }

// keepShort makes the socket take few bytes that do not go out at once: what is in the
// kernel cannot be overtaken by what is more urgent.
func (s *sock) keepShort() {
	if s.raw != nil {
		s.raw.Raw().Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, notSent) })
	}
}

const notSent = 128 << 10
