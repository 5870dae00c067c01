package rawio

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair returns the two ends of a TCP connection.
func pair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestReadAndWrite(t *testing.T) {
	a, b := pair(t)
	s := New(a)
	sent := bytes.Repeat([]byte("0123456789"), 1<<20)
	done := make(chan error, 1)
	go func() {
		_, err := s.Write(sent, func() { a.SetWriteDeadline(time.Now().Add(time.Minute)) })
		a.(*net.TCPConn).CloseWrite()
		done <- err
	}()
	got, err := io.ReadAll(readerOf(New(b)))
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes of %d, %v", len(got), len(sent), err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

type reader struct{ s *Socket }

func readerOf(s *Socket) io.Reader          { return reader{s} }
func (r reader) Read(p []byte) (int, error) { return r.s.Read(p) }

// memory counts what a lazy read holds.
type memory struct {
	buf  [64]byte
	held int
}

func (m *memory) lazy() Memory {
	return Memory{Take: func() []byte { m.held++; return m.buf[:] }, Give: func() { m.held-- }}
}

func TestLazyReadHoldsNothingWhileItWaits(t *testing.T) {
	a, b := pair(t)
	s := New(a)
	var m memory
	a.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := s.ReadLazy(m.lazy()); !errors.Is(err, os.ErrDeadlineExceeded) || m.held != 0 {
		t.Fatalf("%v, %d buffers held", err, m.held)
	}
	a.SetReadDeadline(time.Time{})
	b.Write([]byte("x"))
	if n, err := s.ReadLazy(m.lazy()); n != 1 || err != nil || m.held != 1 {
		t.Fatalf("%d, %v, %d buffers held", n, err, m.held)
	}
}

func TestAsk(t *testing.T) {
	a, b := pair(t)
	s := New(a)
	go func() {
		io.ReadFull(b, make([]byte, 4))
		b.Write([]byte("pong"))
	}()
	var m memory
	n, err := s.Ask([]byte("ping"), m.lazy())
	if err != nil || string(m.buf[:n]) != "pong" || m.held != 1 {
		t.Fatalf("%q, %v, %d buffers held", m.buf[:n], err, m.held)
	}
}

// TestAskAfterATimeout: the request is out, the answer late.
func TestAskAfterATimeout(t *testing.T) {
	a, b := pair(t)
	s := New(a)
	var m memory
	a.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := s.Ask([]byte("ping"), m.lazy())
	ae, unsent := errors.AsType[*AskError](err)
	if !errors.Is(err, os.ErrDeadlineExceeded) || unsent && ae.Sent != 0 {
		t.Fatal(err)
	}
	if !unsent {
		io.ReadFull(b, make([]byte, 4))
	}
}

func TestAskOnATalkativeSocket(t *testing.T) {
	f := func(what string, do func(b net.Conn)) {
		t.Helper()
		a, b := pair(t)
		s := New(a)
		do(b)
		for s.Silent() { // until it is there
		}
		var m memory
		_, err := s.Ask([]byte("ping"), m.lazy())
		if ae, ok := errors.AsType[*AskError](err); !ok || ae.Sent != 0 || !errors.Is(err, ErrTalkative) {
			t.Errorf("%s: %v", what, err)
		}
	}
	f("bytes", func(b net.Conn) { b.Write([]byte("x")) })
	f("end", func(b net.Conn) { b.Close() })
}

func TestAskMoreThanTheSocketTakes(t *testing.T) {
	a, b := pair(t)
	s := New(a)
	request := make([]byte, 32<<20)
	var m memory
	_, err := s.Ask(request, m.lazy())
	ae, ok := errors.AsType[*AskError](err)
	if !ok || !errors.Is(err, syscall.EAGAIN) || ae.Sent <= 0 || ae.Sent >= len(request) {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b, make([]byte, ae.Sent)); err != nil {
		t.Fatal(err)
	}
}

// TestRoom: what Room says goes out at once but for a little, and a peer that does not read
// leaves none.
func TestRoom(t *testing.T) {
	a, b := pair(t)
	s := New(a)
	least := 1 << 30
	for range 1000 {
		n := s.Room()
		if least = min(least, n); n < 4<<10 {
			break
		}
		// Whatever else the machine's memory is short of, what waits is little (R-STREAM-3).
		a.SetWriteDeadline(time.Time{})
		if m, err := s.Write(make([]byte, n), func() { a.SetWriteDeadline(time.Unix(1, 0)) }); err != nil && n-m >= 64<<10 {
			t.Fatalf("%d bytes of room, %d written, %v", n, m, err)
		}
	}
	if least < 0 || least >= 4<<10 {
		t.Errorf("%d bytes of room though nobody reads", least)
	}
	go io.Copy(io.Discard, b)
	for end := time.Now().Add(20 * time.Second); s.Room() < 64<<10; {
		if time.Now().After(end) {
			t.Fatalf("%d bytes of room though all is read", s.Room())
		}
		<-time.After(time.Millisecond)
	}
	a.Close()
	if n := s.Room(); n != -1 {
		t.Errorf("%d bytes of room in a closed socket", n)
	}
}

func TestFailures(t *testing.T) {
	a, b := pair(t)
	s := New(a)
	b.Close()
	if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Error(n, err)
	}
	a.Close()
	if _, err := s.Write([]byte("x"), nil); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if s.Silent() {
		t.Error("a closed socket is silent")
	}
	if p, _ := net.Pipe(); New(p) != nil {
		t.Error("a pipe has no socket")
	}
}

func TestAllocations(t *testing.T) {
	a, b := pair(t)
	s, peer := New(a), New(b)
	var m memory
	lazy := m.lazy()
	p := make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := peer.Write(p, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ReadLazy(lazy); err != nil {
			t.Fatal(err)
		}
		s.Room()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A connection is broken by a reset, also behind bytes that nobody reads, and not
// by an end.
func TestBroken(t *testing.T) {
	f := func(what string, do func(a, b *net.TCPConn), want bool) {
		t.Helper()
		a, b := pair(t)
		rc := New(a).Raw()
		if Broken(rc) {
			t.Errorf("%s: broken before", what)
		}
		do(a.(*net.TCPConn), b.(*net.TCPConn))
		for end := time.Now().Add(20 * time.Second); want && !Broken(rc); {
			if time.Now().After(end) {
				t.Errorf("%s: never broken", what)
				return
			}
		}
		for range 1000 {
			if Broken(rc) != want {
				t.Errorf("%s: broken is %v", what, !want)
				return
			}
		}
	}
	reset := func(c *net.TCPConn) {
		c.SetLinger(0)
		c.Close()
	}
	f("bytes", func(a, b *net.TCPConn) { b.Write([]byte("x")) }, false)
	f("an end", func(a, b *net.TCPConn) { b.CloseWrite() }, false)
	f("two ends", func(a, b *net.TCPConn) { b.CloseWrite(); a.CloseWrite() }, false)
	f("a reset", func(a, b *net.TCPConn) { reset(b) }, true)
	f("a reset behind bytes", func(a, b *net.TCPConn) { b.Write([]byte("x")); reset(b) }, true)
	f("a reset behind an end", func(a, b *net.TCPConn) { b.CloseWrite(); reset(b) }, true)
	f("our own close", func(a, b *net.TCPConn) { a.Close() }, true)
}

// A hold ends with the deadline for reads, with a panic, which lets others read, and with
// the close of the connection. Its turn is called at once, but not beyond a deadline.
func TestHold(t *testing.T) {
	c, peer := pair(t)
	s, turns := New(c), 0
	read := func() bool {
		turns++
		if _, err := s.Read(make([]byte, 4)); err != Nothing {
			t.Error(err)
		}
		return false
	}
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	for range 2 {
		if err := s.Hold(read); !errors.Is(err, os.ErrDeadlineExceeded) || turns != 1 {
			t.Errorf("%v after %d turns", err, turns)
		}
	}
	c.SetReadDeadline(time.Time{})
	func() {
		defer func() { recover() }()
		s.Hold(func() bool { panic("in a turn") })
	}()
	io.WriteString(peer, "on")
	if n, err := s.Read(make([]byte, 4)); n != 2 || err != nil {
		t.Error(n, err)
	}
	held, ended := make(chan bool, 1), make(chan error)
	go func() {
		ended <- s.Hold(func() bool {
			select {
			case held <- true:
			default:
			}
			return read()
		})
	}()
	<-held
	c.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
