// Package rawio reads and writes the kernel socket under a net.Conn without
// handing the processor to another goroutine and back for each system call, and
// takes memory for a read only when there is something to read. It knows no
// protocol and no TLS, sets no deadline and closes nothing: that stays with the
// net.Conn, whose deadlines hold for the calls here too.
package rawio

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket is the kernel socket of a connection. One goroutine may read and one
// other may write at the same time.
//
// System calls are made inside the callbacks of the RawConn. The socket is
// non-blocking, so that they never wait, and need not tell the scheduler that
// they might: syscall.RawSyscall, not syscall.Read. On EAGAIN the callback
// returns false and the runtime's poller parks the goroutine. Callbacks are made
// once, and talk through the fields, so that a call allocates nothing.
type Socket struct {
	rc syscall.RawConn

	// Of the read in progress.
	onRead func(fd uintptr) bool
	p      []byte
	mem    Memory // its Take is nil: read into p
	ask    []byte // to be written before the first try
	rn     int
	rerr   syscall.Errno

	// Of the write in progress.
	onWrite func(fd uintptr) bool
	onNow   func(fd uintptr) bool // made when it is first needed
	out     []byte                // not written yet
	before  func()                // see Write
	flags   uintptr
	werr    syscall.Errno

	onPeek func(fd uintptr)
	quiet  bool

	onRoom func(fd uintptr)
	room   int

	// While the reading side is held.
	onTurn func(fd uintptr) bool // made when it is first needed
	turn   func() bool
	held   uintptr // the descriptor and 1; 0: nobody holds it
	all    bool    // the last read took everything that was there
}

// Memory is where lazy reads get theirs.
type Memory struct {
	Take func() []byte // memory to read into, not empty
	Give func()        // nothing came yet: what the last Take returned is free
}

// ErrTalkative says that a socket had something to read before it was asked.
var ErrTalkative = errors.New("bytes or the end of the connection before a request")

// New returns the socket of nc, nil if it has none.
func New(nc net.Conn) *Socket { return new(Socket).Of(nc) }

// Of is New in the memory of s, which may lie in something larger.
func (s *Socket) Of(nc net.Conn) *Socket {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	s.rc = rc
	s.onRead, s.onWrite, s.onPeek, s.onRoom = s.tryRead, s.tryWrite, s.peek, s.measure
	return s
}

// Raw returns the RawConn, for what this package does not offer.
func (s *Socket) Raw() syscall.RawConn { return s.rc }

// Read reads into p, which is not empty.
func (s *Socket) Read(p []byte) (int, error) {
	s.p = p
	return s.read()
}

// ReadLazy reads into memory of m and holds none while it waits.
func (s *Socket) ReadLazy(m Memory) (int, error) {
	s.mem = m
	return s.read()
}

// Ask sends request, not empty, on a socket that nothing should come from by
// itself, and then reads the answer as ReadLazy does. It costs one system call
// less than Silent, Write and Read: nothing can have come before the request has
// gone out, so that the read waits for the poller at once. An *AskError says that
// the request did not go out whole; any other error is that of the read.
func (s *Socket) Ask(request []byte, m Memory) (int, error) {
	s.ask, s.mem = request, m
	n, err := s.read()
	if s.ask == nil {
		return n, err
	}
	sent := len(request) - len(s.ask)
	s.ask = nil
	return 0, &AskError{sent, err}
}

// AskError is a request that Ask could not send whole. Err is ErrTalkative;
// syscall.EAGAIN if the socket does not take more at once; or another failure.
type AskError struct {
	Sent int // bytes
	Err  error
}

func (e *AskError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *AskError) Unwrap() error { return e.Err }

// Nothing is the error of a read, from within a turn of Hold, that found nothing.
const Nothing = syscall.EAGAIN

// Hold holds the reading side of the socket and calls turn: at once, and then each
// time that something may have come, until turn returns true. Meanwhile reads of s do
// not wait, but fail with Nothing, and nobody else may read.
//
// Who reads again and again by Read pays for one read that finds nothing each time,
// because what comes between two of them is not reported. While the side is held it
// is: turn may return false, to wait, as soon as a read has found Nothing or Emptied
// says that one took all that there was.
//
// Close of the net.Conn waits for the end of Hold. So turn must not call it, and whoever
// does so elsewhere, while turn may itself be waiting for something, ends that first.
// The error is that of the wait: the deadline for reads has passed, or the connection
// has been closed.
func (s *Socket) Hold(turn func() bool) error {
	if s.onTurn == nil {
		s.onTurn = s.takeTurn
	}
	s.turn = turn
	err := s.rc.Read(s.onTurn)
	s.turn = nil
	return err
}

func (s *Socket) takeTurn(fd uintptr) bool {
	s.held, s.all = fd+1, false
	defer s.letGo()
	return s.turn()
}

func (s *Socket) letGo() { s.held = 0 }

// Emptied reports, within a turn, whether the last read took all that there was. An
// end of the stream behind it may have come too, or bytes behind urgent ones, which end a
// read: they are found by the next read, whenever that is. So a deadline is to bound the
// wait.
func (s *Socket) Emptied() bool { return s.all }

func (s *Socket) read() (int, error) {
	s.rn, s.rerr = 0, 0
	var err error
	if s.held == 0 {
		err = s.rc.Read(s.onRead)
	} else if !s.tryRead(s.held - 1) {
		err = Nothing
	}
	s.p, s.mem = nil, Memory{}
	switch {
	case err != nil:
		return 0, err
	case s.rerr != 0 && s.ask != nil && !s.quiet:
		return 0, ErrTalkative
	case s.rerr != 0 && s.ask != nil:
		return 0, os.NewSyscallError("write", s.rerr)
	case s.rerr != 0:
		return 0, os.NewSyscallError("read", s.rerr)
	case s.rn == 0:
		return 0, io.EOF
	}
	return s.rn, nil
}

// tryRead reads once; false means that there is nothing yet. It must try first:
// what came before the runtime was told of the read is not reported again. Ask
// has looked after that, and then sent what is to be answered.
func (s *Socket) tryRead(fd uintptr) bool {
	if s.ask != nil {
		return !s.sendAsk(fd)
	}
	p := s.p
	if s.mem.Take != nil {
		p = s.mem.Take()
	}
	n, errno := receive(fd, p, 0)
	s.all = n < len(p)
	if errno == syscall.EAGAIN {
		if s.mem.Give != nil {
			s.mem.Give()
		}
		return false
	}
	s.rn, s.rerr = n, errno
	return true
}

// sendAsk reports whether the request went out; else rerr says why.
func (s *Socket) sendAsk(fd uintptr) bool {
	if s.peek(fd); !s.quiet {
		s.rerr = syscall.EPROTO
		return false
	}
	for len(s.ask) > 0 {
		n, errno := send(fd, s.ask, 0)
		if errno != 0 {
			s.rerr = errno
			return false
		}
		s.ask = s.ask[n:]
	}
	s.ask = nil
	return true
}

// Write writes all of p, or returns how much was written before the error. before,
// if not nil, is called each time that the socket takes no more for now: it may
// set the deadline that bounds the wait.
func (s *Socket) Write(p []byte, before func()) (int, error) {
	return s.write(p, before, 0)
}

// WriteMore is Write of bytes that others follow at once: the kernel may keep them
// back until then (MSG_MORE), and sends them in one segment.
func (s *Socket) WriteMore(p []byte, before func()) (int, error) {
	return s.write(p, before, unix.MSG_MORE)
}

func (s *Socket) write(p []byte, before func(), flags uintptr) (int, error) {
	s.out, s.before, s.flags, s.werr = p, before, flags, 0
	err := s.rc.Write(s.onWrite)
	n := len(p) - len(s.out)
	s.out, s.before = nil, nil
	if err == nil && s.werr != 0 {
		err = os.NewSyscallError("write", s.werr)
	}
	return n, err
}

// tryWrite writes what it can and returns false if it must be called again when
// the socket takes more.
func (s *Socket) tryWrite(fd uintptr) bool {
	for len(s.out) > 0 {
		n, errno := send(fd, s.out, s.flags)
		if errno == syscall.EAGAIN {
			if s.before != nil {
				s.before()
			}
			return false
		}
		s.out, s.werr = s.out[n:], errno
		if errno != 0 {
			return true
		}
	}
	return true
}

// Silent reports whether nothing waits to be read, neither bytes nor the peer's
// end. It does not wait for the answer. The caller reads from s.
func (s *Socket) Silent() bool {
	s.quiet = false
	return s.rc.Control(s.onPeek) == nil && s.quiet
}

// peek looks at the socket without taking a byte from it.
func (s *Socket) peek(fd uintptr) {
	var b [1]byte
	_, errno := receive(fd, b[:], syscall.MSG_PEEK)
	s.quiet = errno == syscall.EAGAIN
}

// Broken reports whether a connection has failed: by a reset, or because its peer
// answers no more. It does not wait, needs no reader, and takes the failure from
// none. A connection whose peer has ended its side, or both, has not failed.
func Broken(rc syscall.RawConn) bool {
	broken := false
	err := rc.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(p, 0)
		for err == unix.EINTR {
			n, err = unix.Poll(p, 0)
		}
		broken = err == nil && n > 0 && p[0].Revents&unix.POLLERR != 0
	})
	return broken || err != nil
}

// Room returns how many bytes a write would take now without waiting, rounded down
// by an eighth, because the kernel counts what it needs to keep them too; -1 if it
// does not tell. The caller writes to s.
func (s *Socket) Room() int {
	s.room = -1
	s.rc.Control(s.onRoom)
	return s.room
}

// measure takes what the kernel holds for the peer from what it would.
func (s *Socket) measure(fd uintptr) {
	var mem [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(mem))
	_, _, errno := syscall.RawSyscall6(syscall.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&mem)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return
	}
	held := max(mem[unix.SK_MEMINFO_WMEM_ALLOC], mem[unix.SK_MEMINFO_WMEM_QUEUED])
	free := int(mem[unix.SK_MEMINFO_SNDBUF]) - int(held)
	s.room = max(free-free/8, 0)
}

// receive and send are recv(2) and send(2) on a non-blocking descriptor, which are
// a little cheaper than read(2) and write(2), because they know of no files. The
// unsafe pointers are the price of a system call that the scheduler is not told
// of; nothing but the call itself sees them, as package unsafe allows. In the
// prototype of this technique, a kibibyte through the proxy cost about a tenth
// more without; here it was measured only together with other changes.
func receive(fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	return call(syscall.SYS_RECVFROM, fd, p, flags)
}

func send(fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	return call(syscall.SYS_SENDTO, fd, p, flags|syscall.MSG_NOSIGNAL)
}

func call(trap, fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0)
		switch errno {
		case syscall.EINTR:
		case 0:
			return int(n), 0
		default:
			return 0, errno
		}
	}
}
