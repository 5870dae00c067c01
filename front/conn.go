package front

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/access"
	"httpjet/epoll"
)

// States of a connection as its owner and Drain see it.
const (
	connIdle   = iota // waits for a request; may be closed
	connActive        // in a handshake or an exchange
	connClosed
)

// conn is what all protocol versions share of a client connection, and all that is
// left of one that is parked. It belongs to its serveConn goroutine, or to the
// watcher, except for state, cut, retire and dismiss, which Drain and Listener.Close use.
//
// Who closes it: its own goroutine by close; others only if they win the state
// from connIdle to connClosed (retire, dismiss), or at the end of the budget (cut). After
// either, the goroutine finds its reads failing and leaves; if there is none, because
// the connection is parked, who closes it sees to its end.
type conn struct {
	srv  *Server
	lis  *Listener
	nc   net.Conn // what bytes go through: sock or the TLS connection over it
	sock sock
	tls  *tls.ConnectionState // nil: no TLS, or no handshake yet
	mute atomic.Bool          // TLS says no farewell: what it said before has not gone out whole

	remote, local netip.AddrPort
	greeted       bool            // greet was called
	counted       *access.Clients // where its address is counted; nil: nowhere

	state  atomic.Int32
	n      int32 // HTTP/1 requests read
	closed sync.Once

	life   atomic.Pointer[life]      // its context, if asked for
	client atomic.Pointer[clientCtx] // that of the HTTP/1 exchange, if asked for
	h2     atomic.Pointer[h2conn]    // set once the connection speaks HTTP/2
	tunnel atomic.Pointer[h1conn]    // set while it is a tunnel whose handler has returned

	h3 *h3conn // of one that came over QUIC, which has no sock; else nil

	watch epoll.Watch // while it is parked
	until time.Time   // how long it may be idle, of one that was parked; else zero
}

func newConn(s *Server, l *Listener, nc net.Conn) *conn {
	c := &conn{srv: s, lis: l}
	c.sock.init(nc)
	c.nc = &c.sock
	c.remote, c.local = addrPort(nc.RemoteAddr()), addrPort(nc.LocalAddr())
	if l.Key.Secure {
		c.state.Store(connActive) // the handshake is work that may finish
	}
	return c
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// serveConn serves one client connection until it ends or is parked. The permit of
// the connection is its own from accept on.
func serveConn(c *conn) {
	if parked := c.serve(); !parked {
		c.finish()
	}
}

// serve goes on where the connection is. Once it returns true, somebody else has
// the connection.
func (c *conn) serve() (parked bool) {
	if !c.greeted && !c.greet() {
		return false
	}
	if h := c.h2.Load(); h != nil {
		h.serve()
		return true
	}
	if c.tunnel.Load() == nil {
		if c.lis.Key.Secure && c.tls == nil && !c.handshake() {
			return false
		}
		if c.tls != nil && c.tls.NegotiatedProtocol == "h2" {
			newH2(c).serve()
			return true
		}
		if newH1(c).serve() {
			return true
		}
		if h := c.h2.Load(); h != nil {
			h.serve()
			return true
		}
	}
	if h := c.tunnel.Load(); h != nil {
		return h.carry()
	}
	return false
}

// finish is the end of a connection that nobody serves any more.
func (c *conn) finish() {
	c.close()
	if c.counted != nil {
		c.counted.Close(c.remote.Addr(), time.Now())
		c.counted = nil
	}
	c.srv.remove(c)
	c.srv.conns.release()
}

// handshake completes TLS within the connection timeout. It costs one deadline
// for all of it, so that a client cannot stretch it byte by byte.
func (c *conn) handshake() bool {
	c.sock.records = newRecords(&c.sock)
	tc := tls.Server(&c.sock, c.lis.tls)
	c.sock.SetDeadline(time.Now().Add(c.lis.site().Limits().connTimeout()))
	if err := tc.Handshake(); err != nil { // cut closes the socket, which ends it
		c.srv.tlsErrors.Add(1)
		c.srv.logger().Debug("TLS handshake", "listener", c.lis.Name(), "remote", c.remote, "err", err)
		if re, ok := errors.AsType[tls.RecordHeaderError](err); ok && re.Conn != nil && looksLikeHTTP(re.RecordHeader[:]) {
			c.sock.Write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n" +
				"Content-Length: " + strconv.Itoa(len(speaksTLS)) + "\r\n\r\n" + speaksTLS))
			c.sock.linger() // only a few bytes of the request have been read
		}
		return false
	}
	c.sock.SetDeadline(time.Time{})
	cs := tc.ConnectionState()
	c.tls, c.nc = &cs, tc
	if cs.NegotiatedProtocol != "h2" {
		c.sock.ahead = append(c.sock.records.rest(), c.sock.ahead...)
		c.sock.records = nil
	}
	return true
}

// looksLikeHTTP reports whether the first five bytes of a TLS record are those
// of a request line.
const speaksTLS = "This port speaks TLS: use https://\n"

func looksLikeHTTP(b []byte) bool {
	switch string(b) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

// closing reports whether no further request may be served.
func (c *conn) closing() bool { return c.srv.draining.Load() || c.lis.closed.Load() }

// retire tells an HTTP/2 client to go, and leaves an HTTP/1 connection to end after
// its next response: idle ones wait on. In a hasty drain they wait no longer than
// until they are at rest, and those that are parked end here.
func (c *conn) retire() {
	if c.h3 != nil {
		c.h3.goAway()
		return
	}
	if h := c.h2.Load(); h != nil {
		h.shutdown()
		return
	}
	if !c.srv.hasty.Load() || c.state.Load() != connIdle {
		return
	}
	if c.restPeriod() <= 0 { // it would wait for all of its time
		c.dismiss()
		return
	}
	if !c.unpark() {
		return // its goroutine is about to look
	}
	if c.sock.raw.Silent() && c.state.CompareAndSwap(connIdle, connClosed) {
		c.close()
		c.finish()
		return
	}
	go serveConn(c)
}

// dismiss closes the connection if it is idle.
func (c *conn) dismiss() bool {
	if !c.state.CompareAndSwap(connIdle, connClosed) {
		return false
	}
	c.close()
	if c.unpark() {
		c.finish()
	}
	return true
}

// cut ends the connection and the context of what it serves, now.
func (c *conn) cut() {
	c.state.Store(connClosed)
	if c.h3 != nil {
		c.h3.close()
		c.cancel()
		return
	}
	c.sock.SetDeadline(time.Unix(1, 0)) // a stuck write must not be waited for
	c.mute.Store(true)                  // nor a farewell
	if h := c.tunnel.Load(); h != nil { // else become sees the state
		h.tun.Close() // first: it may hold the socket
	}
	c.sock.cut()
	c.cancel() // then, so that nobody answers because of it
	if x := c.client.Load(); x != nil {
		x.cancel()
	}
	c.awake()
}

// awake starts the goroutine of a parked connection that has been closed from
// outside, so that it ends in an orderly way.
func (c *conn) awake() {
	if c.unpark() {
		go serveConn(c)
	}
}

// close ends the connection. A TLS client is told, unless a write hangs.
func (c *conn) close() {
	c.closed.Do(func() {
		c.state.Store(connClosed)
		c.cancel()
		if c.h3 != nil {
			c.h3.close()
			c.h3.closed()
			return
		}
		if tc, ok := c.nc.(*tls.Conn); ok && !c.mute.Load() {
			c.sock.SetWriteDeadline(time.Now().Add(time.Second))
			tc.Close()
			return
		}
		c.sock.Close()
	})
}
