package front

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Key is what a bound socket is known by across generations; a listener may get
// another name, but with another key it is another socket.
type Key struct {
	Network string // "tcp", "tcp4" or "tcp6"
	Address string // "host:port"
	Secure  bool   // TLS
}

// Listener is one bound address. Its owner calls Close, or Retire if it is kept.
// It outlives generations: what belongs to one of them, its name, can be changed,
// and certificates are asked for with each handshake.
type Listener struct {
	Key Key

	srv  *Server
	ln   net.Listener
	name atomic.Pointer[string]
	tls  *tls.Config // base of all handshakes: holds the ticket keys

	quic atomic.Pointer[quicSide] // nil: no HTTP/3

	closed atomic.Bool
	last   atomic.Pointer[Site] // serves what is left of it; nil: the current one does
	quit   chan struct{}        // closed by Close
	once   sync.Once
	unbind sync.Once
	accept sync.WaitGroup
}

// Listen binds an address for the listener of that name and does nothing else:
// no connection is accepted before Serve.
func (s *Server) Listen(name string, k Key) (*Listener, error) {
	ln, err := net.Listen(k.Network, k.Address)
	if err != nil {
		return nil, err
	}
	return s.Adopt(name, k, ln), nil
}

// Adopt is Listen for a socket that is bound already.
func (s *Server) Adopt(name string, k Key, ln net.Listener) *Listener {
	l := &Listener{Key: k, srv: s, ln: ln, quit: make(chan struct{})}
	l.SetName(name)
	if k.Secure {
		l.tls = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return l.site().TLS(l.Name(), hello)
		}}
	}
	return l
}

// Name returns the listener's name in the current generation.
func (l *Listener) Name() string { return *l.name.Load() }

// SetName gives the listener another name; exchanges that begin later have it.
func (l *Listener) SetName(name string) { l.name.Store(&name) }

// StayWith makes all exchanges of l's connections those of site from now on, whatever
// is published. It is for a listener that the next generation has no more: call it
// before that one is published, and Close after.
func (l *Listener) StayWith(site Site) { l.last.Store(&site) }

// site returns the Site that serves an exchange which begins now.
func (l *Listener) site() Site {
	if last := l.last.Load(); last != nil {
		return *last
	}
	return l.srv.Current()
}

// Addr returns the bound address.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Share returns the bound socket for another Listener, which keeps it bound when
// l is closed. What waits to be accepted goes to either.
func (l *Listener) Share() (net.Listener, error) {
	f, err := l.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

// File returns the bound socket for another process. The caller closes it.
func (l *Listener) File() (*os.File, error) { return l.ln.(*net.TCPListener).File() }

// Serve starts accepting on l; the goroutine is joined by l.Close.
func (s *Server) Serve(l *Listener) {
	s.lock()
	defer s.mu.Unlock()
	if s.draining.Load() || l.closed.Load() {
		return
	}
	s.lists[l] = struct{}{}
	l.accept.Add(1)
	go accept(l)
}

// accept takes connections while there is a permit for another one; beyond that
// they wait in the kernel's queue (R-LSN-9).
func accept(l *Listener) {
	defer l.accept.Done()
	defer l.unbound()
	s := l.srv
	pause, empty := time.Duration(0), 0
	for left := backlog; left > 0; {
		if l.closed.Load() { // what has connected already is not turned away
			left--
			l.expect()
		}
		if place, _ := s.conns.take(); place != nil {
			select {
			case <-place:
			case <-l.quit:
				s.conns.leave(place)
				return
			}
		}
		nc, err := l.ln.Accept()
		if err != nil {
			s.conns.release()
			switch {
			case timedOut(err) && empty < backlogLooks: // its time may have passed before it looked
				empty++
				continue
			case l.closed.Load() || errors.Is(err, net.ErrClosed):
				return
			}
			// Out of descriptors or memory: it will pass.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.logger().Error("accept", "listener", l.Name(), "err", err)
			select {
			case <-time.After(pause):
			case <-l.quit:
				return
			}
			continue
		}
		pause, empty = 0, 0
		s.accepted.Add(1)
		c := newConn(s, l, nc)
		s.add(c)
		go serveConn(c)
	}
}

// Of a listener that is being closed: connections that it takes nevertheless, because
// the kernel has told their clients that they are there, how long it waits for another
// one, and how often it finds none before it ends.
const (
	backlog      = 1024
	backlogTime  = 2 * time.Millisecond
	backlogLooks = 3
)

// expect makes the next Accept fail soon.
func (l *Listener) expect() {
	if d, ok := l.ln.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(time.Now().Add(backlogTime))
		return
	}
	l.unbound()
}

func (l *Listener) unbound() { l.unbind.Do(func() { l.ln.Close() }) }

// Close unbinds the address and joins the accepting goroutine. Connections
// finish the request they are in; idle ones stay until their time is over, and whoever
// asks on one is answered and told that it ends. It may be called more than once.
func (l *Listener) Close() {
	l.once.Do(func() {
		l.closed.Store(true)
		close(l.quit)
		l.srv.lock()
		_, accepts := l.srv.lists[l]
		l.srv.mu.Unlock()
		if accepts {
			l.expect() // accept closes the socket
		} else {
			l.unbound()
		}
	})
	l.StopQUIC()
	l.accept.Wait() // from here on no connection of l can be added
	l.srv.lock()
	delete(l.srv.lists, l)
	l.srv.mu.Unlock()
	for _, c := range l.srv.snapshot() {
		if c.lis == l {
			c.retire()
		}
	}
}

// Retire is Close, for keep.Map.
func (l *Listener) Retire() { l.Close() }
