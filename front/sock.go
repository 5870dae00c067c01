package front

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sock is the kernel socket of a connection, with what net.Conn does not offer:
// reading into memory that is taken once there is something to read, watching
// for the peer's end without consuming bytes, and sendfile at an offset.
type sock struct {
	net.Conn
	rc syscall.RawConn // nil if Conn is not a socket, in tests

	give func() // gives the memory of ReadLazy back; set by its user

	// One ReadLazy in progress; the callback is made once.
	take func() []byte
	n    int
	err  error
	lazy func(fd uintptr) bool
}

func newSock(nc net.Conn) *sock {
	s := &sock{Conn: nc}
	if sc, ok := nc.(syscall.Conn); ok {
		s.rc, _ = sc.SyscallConn()
	}
	s.lazy = s.readNow
	return s
}

// ReadLazy reads into the memory that take returns and holds none while it waits
// (h1.LazyReader).
func (s *sock) ReadLazy(take func() []byte) (int, error) {
	if s.rc == nil {
		return s.Conn.Read(take())
	}
	s.take, s.n, s.err = take, 0, nil
	if err := s.rc.Read(s.lazy); err != nil {
		return 0, err
	}
	switch {
	case s.err != nil:
		return 0, os.NewSyscallError("read", s.err)
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// readNow reads once without blocking; false means that there is nothing yet, and
// lets the runtime park the goroutine. It must try first: an edge that came before
// the call is not reported again.
func (s *sock) readNow(fd uintptr) bool {
	p := s.take()
	for {
		s.n, s.err = unix.Read(int(fd), p)
		if s.err != unix.EINTR {
			break
		}
	}
	if s.err == unix.EAGAIN {
		s.n, s.err = 0, nil
		s.give()
		return false
	}
	s.n = max(s.n, 0)
	return true
}

// watch returns true when the peer has gone, false when a read deadline ends the
// watch. Bytes do not: a client may send its next request, and the last ones of
// TLS are a farewell.
func (s *sock) watch() (gone bool) {
	err := s.rc.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		for err == unix.EINTR { // the end is signalled once: it must not be missed
			n, err = unix.Poll(p, 0)
		}
		gone = err == nil && n > 0 && p[0].Revents != 0
		return gone
	})
	return gone || err != nil && !timedOut(err)
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
		werr = s.rc.Write(func(out uintptr) bool {
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

// reset makes the next close a reset.
func (s *sock) reset() {
	if l, ok := s.Conn.(interface{ SetLinger(int) error }); ok {
		l.SetLinger(0)
	}
}
