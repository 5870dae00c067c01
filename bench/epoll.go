package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"golang.org/x/sys/unix"
)

// errDone ends a connection that has nothing more to do.
var errDone = errors.New("done")

// A loop serves connections on one thread with epoll, so that what stands behind
// the measured servers costs little beside what the kernel takes. It serves well-
// behaved clients on the loopback interface and is no example of a server.
type loop struct {
	ep        int
	listeners map[int]func(*client) error // by descriptor: the protocol of its clients
	clients   map[int]*client
	buf       []byte // what was just read
}

// A client is one connection of a loop.
type client struct {
	fd       int
	protocol func(*client) error // handles whole messages at the head of in
	in       []byte              // came, not handled yet
	out      []byte              // has to go out
	left     int64               // bytes of a stream to send after out
	last     bool                // close once everything is out
	keep     bool                // FastCGI: the request asked to keep the connection
}

// zeros is what a stream consists of.
var zeros = make([]byte, 1<<20)

func newLoop() (*loop, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return &loop{ep: ep, listeners: map[int]func(*client) error{}, clients: map[int]*client{}, buf: make([]byte, 64<<10)}, err
}

// listen binds address, an IPv4 address with a port.
func (l *loop) listen(address string, protocol func(*client) error) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}); err != nil {
		return fmt.Errorf("bind %s: %v", address, err)
	}
	if err := unix.Listen(fd, 4096); err != nil {
		return err
	}
	l.listeners[fd] = protocol
	return unix.EpollCtl(l.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// run serves until the process is ended.
func (l *loop) run() error {
	runtime.LockOSThread()
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(l.ep, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			fd := int(e.Fd)
			if protocol, ok := l.listeners[fd]; ok {
				l.accept(fd, protocol)
				continue
			}
			c := l.clients[fd]
			if c == nil {
				continue // closed by an earlier event of this batch
			}
			if err := l.serve(c); err != nil {
				delete(l.clients, fd)
				unix.Close(fd)
			}
		}
	}
}

func (l *loop) accept(listener int, protocol func(*client) error) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		l.clients[fd] = &client{fd: fd, protocol: protocol}
		// Edge-triggered for both directions: registered once for good.
		unix.EpollCtl(l.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
			Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff, Fd: int32(fd)})
	}
}

// serve reads what is there, handles it and writes what can be written.
func (l *loop) serve(c *client) error {
	for {
		n, err := unix.Read(c.fd, l.buf)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			return c.flush()
		case err != nil:
			return err
		case n == 0:
			return errDone
		}
		c.in = append(c.in, l.buf[:n]...)
		if err := c.protocol(c); err != nil {
			return err
		}
		if err := c.flush(); err != nil {
			return err
		}
		// A short read has emptied the socket; what comes later is a new event.
		if n < len(l.buf) {
			return nil
		}
	}
}

// take drops what is handled from the head of in.
func (c *client) take(n int) {
	c.in = c.in[:copy(c.in, c.in[n:])]
}

// flush writes until everything is out or the socket is full.
func (c *client) flush() error {
	for len(c.out) > 0 || c.left > 0 {
		from := c.out
		if len(from) == 0 {
			from = zeros[:min(c.left, int64(len(zeros)))]
		}
		n, err := unix.Write(c.fd, from)
		if err == unix.EAGAIN || err == unix.EINTR {
			return nil
		}
		if err != nil {
			return err
		}
		if len(c.out) == 0 {
			c.left -= int64(n)
		} else {
			c.out = c.out[:copy(c.out, c.out[n:])]
		}
	}
	if c.last {
		return errDone
	}
	return nil
}

// head returns the length of the request head at the head of in, 0 if it is not
// complete.
func (c *client) head() int {
	return bytes.Index(c.in, []byte("\r\n\r\n")) + len("\r\n\r\n")
}
