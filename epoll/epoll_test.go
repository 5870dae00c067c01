package epoll

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// waiter is an owner that passes on why it was woken.
type waiter chan Reason

func (w waiter) Woken(why Reason) { w <- why }

// is checks why the owner is woken next.
func (w waiter) is(t *testing.T, what string, want Reason) {
	t.Helper()
	select {
	case why := <-w:
		if why != want {
			t.Errorf("%s: woken for reason %d, want %d", what, why, want)
		}
	case <-time.After(patience):
		t.Fatalf("%s: never woken", what)
	}
}

// still checks that the owner has not been woken by anything before now: a watch
// that is added now, of a socket that is ready, is reported behind it.
func (w waiter) still(t *testing.T, on *Watcher, what string) {
	t.Helper()
	a, b := pair(t)
	a.Write([]byte("x"))
	last := make(waiter, 1)
	if !on.Add(&Watch{Owner: last, Socks: [2]syscall.RawConn{raw(t, b)}}) {
		t.Fatal("not added")
	}
	last.is(t, what, Ready)
	select {
	case why := <-w:
		t.Errorf("%s: woken for reason %d", what, why)
	default:
	}
}

// running returns a watcher that runs until the test ends.
func running(t testing.TB) *Watcher {
	t.Helper()
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); w.Run() }()
	t.Cleanup(func() {
		w.Close()
		<-done
		if n := w.Len(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
	return w
}

// pair returns two ends of a connection.
func pair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		ends[i] = c.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

func raw(t testing.TB, c syscall.Conn) syscall.RawConn {
	t.Helper()
	rc, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return rc
}

func TestWakes(t *testing.T) {
	w := running(t)
	f := func(what string, happens func(peer *net.UnixConn), hangUp, early bool) {
		t.Helper()
		peer, c := pair(t)
		got := make(waiter, 1)
		x := &Watch{Owner: got, Socks: [2]syscall.RawConn{raw(t, c)}, HangUp: hangUp}
		if early {
			happens(peer)
		}
		if !w.Add(x) {
			t.Fatal(what, "not added")
		}
		if !early {
			happens(peer)
		}
		got.is(t, what, Ready)
		if w.Remove(x) {
			t.Error(what, "removed after it was woken")
		}
		got.still(t, w, what)
	}
	byte1 := func(p *net.UnixConn) { p.Write([]byte("x")) }
	for _, early := range []bool{false, true} {
		f("a byte", byte1, false, early)
		f("a half-close", func(p *net.UnixConn) { p.CloseWrite() }, false, early)
		f("an end", func(p *net.UnixConn) { p.Close() }, false, early)
		f("a half-close, which alone counts", func(p *net.UnixConn) { p.CloseWrite() }, true, early)
		f("an end behind bytes", func(p *net.UnixConn) { byte1(p); p.Close() }, true, early)
	}
}

// TestReset is TestWakes for a TCP connection that breaks.
func TestReset(t *testing.T) {
	w := running(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, hangUp := range []bool{false, true} {
		peer, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got := make(waiter, 1)
		if !w.Add(&Watch{Owner: got, Socks: [2]syscall.RawConn{raw(t, c.(*net.TCPConn))}, HangUp: hangUp}) {
			t.Fatal("not added")
		}
		peer.(*net.TCPConn).SetLinger(0)
		peer.Close()
		got.is(t, "reset", Ready)
		c.Close()
	}
}

func TestBytesAreNoHangUp(t *testing.T) {
	w := running(t)
	peer, c := pair(t)
	got := make(waiter, 1)
	x := &Watch{Owner: got, Socks: [2]syscall.RawConn{raw(t, c)}, HangUp: true}
	if !w.Add(x) {
		t.Fatal("not added")
	}
	peer.Write([]byte("next request"))
	got.still(t, w, "bytes")
	if !w.Remove(x) {
		t.Error("not there")
	}
}

// TestTwoSockets: either wakes, both together wake once, and a new stay is not
// touched by what is left of the one before.
func TestTwoSockets(t *testing.T) {
	w := running(t)
	peer1, c1 := pair(t)
	peer2, c2 := pair(t)
	got := make(waiter, 2)
	x := &Watch{Owner: got, Socks: [2]syscall.RawConn{raw(t, c1), raw(t, c2)}}
	buf := make([]byte, 10)
	for range 100 {
		for _, peers := range [][]*net.UnixConn{{peer1}, {peer2}, {peer1, peer2}} {
			if !w.Add(x) {
				t.Fatal("not added")
			}
			for _, p := range peers {
				p.Write([]byte("x"))
			}
			got.is(t, "two sockets", Ready)
			for _, c := range []*net.UnixConn{c1, c2} {
				c.SetReadDeadline(time.Now().Add(patience))
				if len(peers) == 2 || c == c1 && peers[0] == peer1 || c == c2 && peers[0] == peer2 {
					c.Read(buf)
				}
			}
		}
	}
	got.still(t, w, "two sockets")
}

func TestRemove(t *testing.T) {
	w := running(t)
	peer, c := pair(t)
	got := make(waiter, 1)
	x := &Watch{Owner: got, Socks: [2]syscall.RawConn{raw(t, c)}, Until: time.Now().Add(time.Hour)}
	if w.Remove(x) {
		t.Error("removed before it was added")
	}
	for range 3 {
		if !w.Add(x) {
			t.Fatal("not added")
		}
		if !w.Remove(x) || w.Remove(x) {
			t.Error("not removed exactly once")
		}
	}
	peer.Write([]byte("x"))
	got.still(t, w, "removed")
}

// TestUntil: ends come in their order, whatever the order of adding, a removed
// one and one whose socket was faster not at all; and without sockets a watch is
// a timer.
func TestUntil(t *testing.T) {
	w := running(t)
	now := time.Now()
	var mu sync.Mutex
	var order []int
	done := make(chan struct{}, 20)
	add := func(i int, socks ...syscall.RawConn) *Watch {
		t.Helper()
		x := &Watch{Owner: woken(func(why Reason) {
			mu.Lock()
			defer mu.Unlock()
			if why == Late {
				order = append(order, i)
			}
			done <- struct{}{}
		}), Until: now.Add(time.Duration(i) * 5 * time.Millisecond)}
		copy(x.Socks[:], socks)
		if !w.Add(x) {
			t.Fatal("not added")
		}
		return x
	}
	peer, c := pair(t)
	far, gone := add(1000_000), add(1000)
	add(8)
	add(2)
	add(4)
	add(6)
	add(999, raw(t, c))
	w.Remove(gone)
	peer.Write([]byte("x"))
	for range 5 {
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("not woken")
		}
	}
	mu.Lock()
	if len(order) != 4 || order[0] != 2 || order[1] != 4 || order[2] != 6 || order[3] != 8 {
		t.Errorf("order %v", order)
	}
	mu.Unlock()
	if !w.Remove(far) {
		t.Error("the last one is gone")
	}
	add(-1) // is over already
	<-done
}

// woken is an owner that is a function.
type woken func(why Reason)

func (f woken) Woken(why Reason) { f(why) }

// TestAddFromWoken: an owner may go on waiting at once.
func TestAddFromWoken(t *testing.T) {
	w := running(t)
	n, done := 0, make(chan struct{})
	x := &Watch{Until: time.Now()}
	x.Owner = woken(func(Reason) {
		if n++; n == 100 {
			close(done)
			return
		}
		x.Until = time.Now()
		w.Add(x)
	})
	w.Add(x)
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("never done")
	}
}

// TestCloseWakes: nobody is forgotten when the watcher ends, and nobody is taken
// afterwards.
func TestCloseWakes(t *testing.T) {
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	_, c := pair(t)
	got := make(waiter, 10)
	for i := range 10 {
		x := &Watch{Owner: got}
		if i == 0 {
			x.Socks[1] = raw(t, c)
		}
		if i%2 == 0 {
			x.Until = time.Now().Add(time.Hour)
		}
		if !w.Add(x) {
			t.Fatal("not added")
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); w.Run() }()
	w.Close()
	w.Close() // again
	<-done
	for range 10 {
		got.is(t, "close", Closed)
	}
	if w.Add(&Watch{Owner: got}) {
		t.Error("added to a watcher that has ended")
	}
}

// TestClosedSocket: one that was closed cannot be added, and if it is closed
// later its descriptor can serve a new connection that is watched in peace.
func TestClosedSocket(t *testing.T) {
	w := running(t)
	_, c := pair(t)
	rc := raw(t, c)
	got := make(waiter, 1)
	old := &Watch{Owner: got, Socks: [2]syscall.RawConn{rc}}
	if !w.Add(old) {
		t.Fatal("not added")
	}
	c.Close()
	peer, next := pair(t) // one of the two has the descriptor of c
	x, y := make(waiter, 1), make(waiter, 1)
	if !w.Add(&Watch{Owner: x, Socks: [2]syscall.RawConn{raw(t, next)}}) || !w.Add(&Watch{Owner: y, Socks: [2]syscall.RawConn{raw(t, peer)}}) {
		t.Fatal("the descriptor is not free")
	}
	peer.Write([]byte("x"))
	next.Write([]byte("x"))
	x.is(t, "new connection", Ready)
	y.is(t, "its other end", Ready)
	if !w.Remove(old) {
		t.Error("the closed one is not there")
	}
	if w.Add(old) {
		t.Error("a closed socket was added")
	}
	got.still(t, w, "closed")
	_, open := pair(t)
	old.Socks = [2]syscall.RawConn{raw(t, open), rc}
	if w.Add(old) {
		t.Error("a closed second socket was added")
	}
	old.Socks[1] = nil
	if !w.Add(old) || !w.Remove(old) {
		t.Error("what was left of the refusal is in the way")
	}
}

// TestCrowd: a thousand are woken by one batch of bytes, each once.
func TestCrowd(t *testing.T) {
	const n = 1000
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil || lim.Cur < 2*n+100 {
		t.Skipf("%d descriptors may be open, %v", lim.Cur, err)
	}
	w := running(t)
	var all sync.WaitGroup
	var peers [n]*net.UnixConn
	for i := range peers {
		peer, c := pair(t)
		peers[i] = peer
		all.Add(1) // a second Done panics
		if !w.Add(&Watch{Owner: woken(func(Reason) { all.Done() }), Socks: [2]syscall.RawConn{raw(t, c)}, Until: time.Now().Add(time.Hour)}) {
			t.Fatal("not added")
		}
	}
	for _, p := range peers {
		p.Write([]byte("x"))
	}
	all.Wait()
}

// TestExactlyOne: of an event, an end and a Remove that come together one wins,
// however they meet.
func TestExactlyOne(t *testing.T) {
	w := running(t)
	var wait sync.WaitGroup
	for range 4 {
		peer, c := pair(t)
		peer2, c2 := pair(t)
		rc, rc2 := raw(t, c), raw(t, c2)
		wait.Go(func() {
			var buf [1]byte
			wins, over := atomic.Int32{}, make(chan Reason, 1)
			x := &Watch{Socks: [2]syscall.RawConn{rc, rc2}}
			x.Owner = woken(func(why Reason) { wins.Add(1); over <- why })
			for i := range 2000 {
				x.Until = time.Now().Add(time.Duration(i%50) * time.Microsecond)
				if !w.Add(x) {
					t.Error("not added")
					return
				}
				peer.Write([]byte("x"))
				if i%3 == 0 {
					peer2.Write([]byte("x"))
				}
				if i%2 == 0 && w.Remove(x) {
					wins.Add(1)
				} else {
					<-over
				}
				if n := wins.Swap(0); n != 1 {
					t.Errorf("%d winners", n)
					return
				}
				c.Read(buf[:])
				if i%3 == 0 {
					c2.Read(buf[:])
				}
			}
		})
	}
	wait.Wait()
}

func BenchmarkAddRemove(b *testing.B) {
	w := running(b)
	_, c := pair(b)
	x := &Watch{Owner: make(waiter), Socks: [2]syscall.RawConn{raw(b, c)}, Until: time.Now().Add(time.Hour)}
	b.ReportAllocs()
	for b.Loop() {
		w.Add(x)
		w.Remove(x)
	}
}
