package front

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// Settings of HTTP/3 connections (R-H3-1).
const (
	h3UniStreams = 16
	h3Window     = 2 << 20
	h3MinWindow  = 256 << 10

	// h3Unproven handshakes may be under way before clients have to show that their
	// address is theirs (RFC 9000 section 8.1.2), h3Handshakes altogether.
	h3Unproven   = 64
	h3Handshakes = 1024
)

// QUIC says how HTTP/3 is served. The zero value is useful.
type QUIC struct {
	// ResetKey tells clients of a server before this one that their connections are gone,
	// and TokenKey makes tokens by which a client that comes again need not prove its
	// address: both outlive the process. Zero: of this process only.
	ResetKey, TokenKey [32]byte

	HandshakeTimeout time.Duration // 10 s
	IdleTimeout      time.Duration // of a connection without a packet; 30 s
	MaxStreams       int           // requests of a connection at once; 256
}

// A QUICSite also chooses settings for QUIC. A server of one that does not serves no
// HTTP/3.
type QUICSite interface {
	// QUIC returns the settings for a QUIC connection to the listener of that name.
	QUIC(listener string, hello *tls.ClientHelloInfo) (*tls.Config, error)
}

// quicSide is what a Listener has besides TCP: the UDP socket of the same address, and the
// QUIC connections that came by it.
//
// Life: BindQUIC → ServeQUIC → acceptQUIC gives each connection that has shaken hands a
// goroutine → stop: no more of them, GOAWAY to those there are → with the last one the
// socket is closed.
type quicSide struct {
	lis       *Listener
	udp       *net.UDPConn
	transport quic.Transport
	ln        *quic.Listener  // nil before ServeQUIC
	quit      context.Context // done when no connection is accepted any more
	stop      context.CancelFunc
	accept    sync.WaitGroup
	shaking   atomic.Int64 // handshakes under way

	mu     sync.Mutex // guards the fields below; held for no I/O
	conns  int
	closed bool
}

// BindQUIC binds the UDP port of l's address and does nothing else: no connection is
// accepted before ServeQUIC. It does nothing if l has one already.
func (l *Listener) BindQUIC() error {
	if l.quic.Load() != nil {
		return nil
	}
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok || !l.Key.Secure {
		return fmt.Errorf("no HTTP/3 at %s", l.Addr())
	}
	udp, err := net.ListenUDP("udp"+strings.TrimPrefix(l.Key.Network, "tcp"), &net.UDPAddr{IP: at.IP, Port: at.Port, Zone: at.Zone})
	if err != nil {
		return err
	}
	l.AdoptQUIC(udp)
	return nil
}

// AdoptQUIC is BindQUIC for a socket that is bound already. l closes it.
func (l *Listener) AdoptQUIC(udp *net.UDPConn) {
	q := &quicSide{lis: l, udp: udp}
	q.quit, q.stop = context.WithCancel(context.Background())
	l.quic.Store(q)
}

// QUICFile returns the UDP socket for another process, nil if l has none. The caller
// closes it. Only one process can read from it at a time.
func (l *Listener) QUICFile() (*os.File, error) {
	if q := l.quic.Load(); q != nil {
		return q.udp.File()
	}
	return nil, nil
}

// ServeQUIC starts accepting on the UDP port of l and reports whether it did: not
// if it does already, or l is closed. The goroutine is joined by StopQUIC, which l.Close
// calls.
func (s *Server) ServeQUIC(l *Listener, o QUIC) (bool, error) {
	s.lock()
	defer s.mu.Unlock()
	q := l.quic.Load()
	if q == nil || q.ln != nil || s.draining.Load() || l.closed.Load() {
		return false, nil
	}
	q.transport = quic.Transport{Conn: q.udp, ConnectionIDLength: 8, ConnContext: q.begin,
		VerifySourceAddress: func(net.Addr) bool { return q.shaking.Load() >= h3Unproven }}
	if o.ResetKey != ([32]byte{}) {
		q.transport.StatelessResetKey = (*quic.StatelessResetKey)(&o.ResetKey)
	}
	if o.TokenKey != ([32]byte{}) {
		q.transport.TokenGeneratorKey = (*quic.TokenGeneratorKey)(&o.TokenKey)
	}
	ln, err := q.transport.Listen(&tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{http3.NextProtoH3}, GetConfigForClient: q.choose}, o.config())
	if err != nil {
		return false, err
	}
	q.ln = ln
	q.accept.Add(1)
	go acceptQUIC(q)
	return true, nil
}

// config is o for the library. 0-RTT is off: a request in it could be replayed.
func (o *QUIC) config() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout:           or(o.HandshakeTimeout, 10*time.Second),
		MaxIdleTimeout:                 or(o.IdleTimeout, 30*time.Second),
		InitialStreamReceiveWindow:     h3MinWindow,
		MaxStreamReceiveWindow:         h3Window,
		InitialConnectionReceiveWindow: 2 * h3MinWindow,
		MaxConnectionReceiveWindow:     h3Window,
		MaxIncomingStreams:             int64(or(o.MaxStreams, h2Streams)),
		MaxIncomingUniStreams:          h3UniStreams,
		Allow0RTT:                      false,
	}
}

// HasQUIC reports whether l has a UDP port.
func (l *Listener) HasQUIC() bool { return l.quic.Load() != nil }

// StopQUIC accepts no more QUIC connections and tells those that there are to go. It
// may be called more than once.
func (l *Listener) StopQUIC() {
	q := l.quic.Swap(nil)
	if q == nil {
		return
	}
	q.shut()
	q.accept.Wait()
	for _, c := range l.srv.snapshot() {
		if c.h3 != nil && c.h3.side == q {
			c.retire()
		}
	}
}

// shut ends accepting, and the socket once nobody uses it.
func (q *quicSide) shut() {
	q.stop()
	if q.ln != nil {
		q.ln.Close()
	}
	q.mu.Lock()
	q.closed = true
	last := q.conns == 0
	q.mu.Unlock()
	if last {
		q.close()
	}
}

func (q *quicSide) close() {
	if q.ln != nil {
		q.transport.Close()
	}
	q.udp.Close()
}

// use and release count the connections.
func (q *quicSide) use() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.conns++
	q.lis.srv.quic.open.Add(1)
}

func (q *quicSide) release() {
	q.mu.Lock()
	q.conns--
	q.lis.srv.quic.open.Add(-1)
	last := q.conns == 0 && q.closed
	q.mu.Unlock()
	if last {
		q.close()
	}
}

// choose finds the settings of a handshake by its name.
func (q *quicSide) choose(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	site, ok := q.lis.site().(QUICSite)
	if !ok {
		return nil, errors.New("no HTTP/3 here")
	}
	return site.QUIC(q.lis.Name(), hello)
}

// quicCounters count what there is of QUIC, at all listeners.
type quicCounters struct {
	open, shaking, refused atomic.Int64
}

// QUICStats is what there is of QUIC.
type QUICStats struct {
	Open, Shaking int   // connections, handshakes under way
	Refused       int64 // connections refused because too many handshakes were under way
}

func (n *quicCounters) snapshot() QUICStats {
	return QUICStats{int(n.open.Load()), int(n.shaking.Load()), n.refused.Load()}
}

// shake is a handshake that is under way.
type shake struct {
	q    *quicSide
	once sync.Once
}

type shakeKey struct{}

// begin counts a handshake, and refuses it if there are too many.
func (q *quicSide) begin(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
	s := q.lis.srv
	if q.shaking.Add(1) > h3Handshakes {
		q.shaking.Add(-1)
		s.quic.refused.Add(1)
		return nil, errors.New("too many handshakes")
	}
	s.quic.shaking.Add(1)
	h := &shake{q: q}
	remote := client.RemoteAddr
	context.AfterFunc(ctx, func() {
		if h.end(false) {
			s.logger().Debug("QUIC handshake", "listener", q.lis.Name(), "remote", remote, "err", context.Cause(ctx))
		}
	})
	return context.WithValue(ctx, shakeKey{}, h), nil
}

// end is called when the connection is there, or has failed. It reports whether it had
// not been.
func (h *shake) end(done bool) (first bool) {
	h.once.Do(func() {
		first = true
		h.q.shaking.Add(-1)
		h.q.lis.srv.quic.shaking.Add(-1)
		if !done {
			h.q.lis.srv.tlsErrors.Add(1)
		}
	})
	return first
}

// acceptQUIC takes connections; one for which there is no permit waits for it, and those
// behind it wait in the queue of package quic, which is short (R-LSN-9). Unlike that of
// TCP it has no permit while it waits for a client.
func acceptQUIC(q *quicSide) {
	defer q.accept.Done()
	l := q.lis
	s := l.srv
	for {
		qc, err := q.ln.Accept(q.quit)
		if err != nil {
			if q.quit.Err() == nil && !errors.Is(err, quic.ErrServerClosed) {
				s.logger().Error("accept of HTTP/3 ends", "listener", l.Name(), "err", err)
			}
			return
		}
		if h, ok := qc.Context().Value(shakeKey{}).(*shake); ok {
			h.end(true)
		}
		if place, _ := s.conns.take(); place != nil {
			select {
			case <-place:
			case <-qc.Context().Done():
				s.conns.leave(place)
				continue
			case <-q.quit.Done():
				s.conns.leave(place)
				qc.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
				return
			}
		}
		s.accepted.Add(1)
		c := newH3(q, qc)
		s.add(c)
		q.use()
		go serveH3(c)
	}
}
