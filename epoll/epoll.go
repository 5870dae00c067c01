// Package epoll waits for sockets on behalf of owners that have no goroutine to
// wait with: connections at rest, and calls whose client may leave. One watcher
// with one goroutine serves the whole process.
//
// It reads and writes nothing, closes nothing of others, and is no event loop:
// when something happens it says so once and forgets the socket. The poller of
// the Go runtime keeps its own registration of every socket; this is a second one.
package epoll

import (
	"container/heap"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Reason says why an owner is woken.
type Reason uint8

const (
	Ready  Reason = iota // a socket has what was waited for, or has broken
	Late                 // Until has passed
	Closed               // the watcher ends
)

// An Owner of a Watch is told once that it is over. Woken runs on the goroutine of
// the watcher: it must not wait for anything, and usually starts a goroutine.
// The watch is the owner's again and may be added anew, from Woken too.
type Owner interface{ Woken(why Reason) }

// Watch is what one owner waits for: whichever comes first. It is set up by its
// owner, who leaves it alone from Add until Woken, or until Remove returns true.
type Watch struct {
	Owner Owner

	// Socks are watched until bytes or the peer's end can be read from one of them;
	// nil: not used. Whoever closes such a socket meanwhile is not told: it
	// must Remove the watch after that.
	Socks [2]syscall.RawConn

	// HangUp makes the peer's end, or a broken socket, the only thing that counts.
	HangUp bool

	Until time.Time // zero: for ever

	id    uint64 // of this stay with the watcher, 0: it does not have it
	place int    // in the queue, if Until is not zero
}

// Watcher watches sockets. The zero value is of no use: see New.
//
// Life of a watch: Add registers its sockets → something happens, Until passes, or
// Remove is called: one of them takes it out and takes its sockets back from the
// kernel → if it was not Remove, the owner is woken. All of taking out happens
// under mu, so that exactly one of several wins.
type Watcher struct {
	fd   int             // of the epoll instance
	file *os.File        // around it: the runtime's poller waits for it, so that no thread has to
	wait syscall.RawConn // of file

	// The calls of epoll_ctl are made under mu, which is no wait for anybody outside:
	// so a socket is registered exactly while its watch is known, and a late
	// registration of one stay cannot spoil the next one.
	mu     sync.Mutex
	known  map[uint64]*Watch // by id, which is never used again: an event that was under way finds nothing
	queue  queue             // those with an end
	last   uint64            // id
	armed  time.Time         // when the wait is interrupted; zero: not
	closed bool
}

// New makes a watcher, which watches nothing before Run. It fails if there is no
// descriptor for it.
func New() (*Watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // then the runtime's poller takes it
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &Watcher{fd: fd, file: os.NewFile(uintptr(fd), "epoll"), known: map[uint64]*Watch{}}
	w.wait, err = w.file.SyscallConn()
	if err == nil {
		err = w.file.SetReadDeadline(time.Time{})
	}
	if err != nil {
		w.file.Close()
		return nil, err
	}
	return w, nil
}

// Add gives x to the watcher. False means that it cannot be watched: a socket has
// been closed or is of a kind that cannot, the kernel has no room, or the watcher
// has ended. Then it is still the caller's. What has come before Add counts: the
// owner may be woken before Add returns.
func (w *Watcher) Add(x *Watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.id != 0 {
		panic("BUG: epoll: a watch was added twice")
	}
	if w.closed {
		return false
	}
	w.last++
	x.id = w.last
	for i := range x.Socks {
		if x.Socks[i] != nil && !w.register(x, i) {
			w.release(x, i)
			x.id = 0
			return false
		}
	}
	w.known[x.id] = x
	if !x.Until.IsZero() {
		heap.Push(&w.queue, x)
		if w.armed.IsZero() || x.Until.Before(w.armed) {
			w.arm()
		}
	}
	return true
}

// Remove takes x back and reports whether it was there: then its owner will not
// be woken. Else it has been, or is being, or it never was added.
func (w *Watcher) Remove(x *Watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.id == 0 {
		return false
	}
	w.take(x)
	return true
}

// Len returns the number of watches.
func (w *Watcher) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.known)
}

// Run watches until Close. It is the body of the watcher's goroutine.
func (w *Watcher) Run() {
	var events [128]unix.EpollEvent
	for {
		n := 0
		err := w.wait.Read(func(uintptr) bool {
			n = poll(w.fd, events[:])
			return n > 0 // else there is nothing, and the runtime tells when there is
		})
		late := errors.Is(err, os.ErrDeadlineExceeded)
		if err != nil && !late {
			break
		}
		for _, e := range events[:n] {
			w.happened(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32)
		}
		w.expire(late)
	}
	for {
		x := w.any()
		if x == nil {
			return
		}
		x.Owner.Woken(Closed)
	}
}

// Close ends Run, which wakes all owners that are left.
func (w *Watcher) Close() {
	w.mu.Lock()
	closed := w.closed
	w.closed = true
	w.mu.Unlock()
	if !closed {
		w.file.Close()
	}
}

// poll returns how many events there are, without waiting for one.
func poll(fd int, events []unix.EpollEvent) int {
	for {
		n, err := unix.EpollWait(fd, events, 0)
		switch err {
		case nil:
			return n
		case unix.EINTR:
		default:
			panic("BUG: epoll: epoll_wait: " + err.Error())
		}
	}
}

// happened wakes the owner of a watch, unless somebody was faster.
func (w *Watcher) happened(id uint64) {
	w.mu.Lock()
	x := w.known[id]
	if x != nil {
		w.take(x)
	}
	w.mu.Unlock()
	if x != nil {
		x.Owner.Woken(Ready)
	}
}

// expire wakes the owners whose time is over. interrupted: the wait has ended
// because of the time, and goes on only once it is moved.
func (w *Watcher) expire(interrupted bool) {
	now := time.Now()
	for {
		w.mu.Lock()
		if len(w.queue) == 0 || w.queue[0].Until.After(now) {
			if interrupted || len(w.queue) > 0 && !w.queue[0].Until.Equal(w.armed) {
				w.arm()
			}
			w.mu.Unlock()
			return
		}
		x := w.queue[0]
		w.take(x)
		w.mu.Unlock()
		x.Owner.Woken(Late)
	}
}

// any takes one watch out, nil if there is none left.
func (w *Watcher) any() *Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.known {
		w.take(x)
		return x
	}
	return nil
}

// arm makes the wait end when the first watch does. w.mu is held.
func (w *Watcher) arm() {
	w.armed = time.Time{}
	if len(w.queue) > 0 {
		w.armed = w.queue[0].Until
	}
	w.file.SetReadDeadline(w.armed) // fails only once the file is closed
}

// take makes x its owner's again. w.mu is held.
func (w *Watcher) take(x *Watch) {
	delete(w.known, x.id)
	if !x.Until.IsZero() {
		heap.Remove(&w.queue, x.place)
	}
	w.release(x, len(x.Socks))
	x.id = 0
}

// register hands a socket of x to the kernel, to be reported once. Control holds
// the descriptor, so that it is nobody else's meanwhile. w.mu is held.
func (w *Watcher) register(x *Watch, i int) bool {
	e := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(x.id), Pad: int32(x.id >> 32)}
	if !x.HangUp {
		e.Events |= unix.EPOLLIN
	}
	var failed error
	err := x.Socks[i].Control(func(fd uintptr) { failed = unix.EpollCtl(w.fd, unix.EPOLL_CTL_ADD, int(fd), &e) })
	return err == nil && failed == nil
}

// release takes the first n sockets of x back. One that was closed is gone from
// the set by itself. w.mu is held.
func (w *Watcher) release(x *Watch, n int) {
	if w.closed {
		return
	}
	for _, s := range x.Socks[:n] {
		if s != nil {
			s.Control(func(fd uintptr) { unix.EpollCtl(w.fd, unix.EPOLL_CTL_DEL, int(fd), nil) })
		}
	}
}

// queue is a heap of watches by their end.
type queue []*Watch

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].Until.Before(q[j].Until) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	w := x.(*Watch)
	w.place = len(*q)
	*q = append(*q, w)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	n := len(old) - 1
	w := old[n]
	old[n] = nil
	*q = old[:n]
	return w
}
