package front

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
	"httpjet/rawio"
)

var errBodyLeft = errors.New("upgrade before the request body was read")

// Upgrade sends the 101 and returns the raw connection, with the bytes that the
// client sent early. The permit of the exchange is given back: a tunnel is not a
// request in flight (R-LSN-9).
func (c *h1conn) Upgrade(r *exchange.Response) (exchange.Duplex, error) {
	if c.bodyLeft.Load() != 0 {
		// The rest of a body must not become the first bytes of the tunnel.
		return nil, errBodyLeft
	}
	c.endContinue()
	c.resp.upgraded, c.resp.started = true, true
	c.srv.inFlight.release()
	c.srv.tunnels.Add(1)
	if ctx := c.client.Load(); ctx != nil {
		ctx.unwatch() // in a tunnel a half-close is no end
	}
	c.out = h1.AppendResponseHead(c.buffer(), r, h1.Framed{Length: -1, Connection: "Upgrade",
		Own: c.srv.ownLines(c.now, c.lim.ServerHeader, false)})
	if err := c.Flush(); err != nil {
		return nil, err
	}
	c.freeOut()
	d := duplex{c: c.conn, early: bytes.Clone(c.r.Take())}
	c.r.Release()
	c.sock.give = nil // nobody reads into the buffer of a request any more
	c.sock.SetDeadline(time.Time{})
	if c.state.Load() == connClosed {
		c.sock.Close() // cut while the deadline was moved
	}
	if c.tls == nil && c.sock.raw != nil {
		return &plainDuplex{d}, nil
	}
	return &d, nil
}

// asUpgrade makes the request of an extended CONNECT the GET by which HTTP/1 opens a
// WebSocket (RFC 8441 section 5, RFC 9220): its client has sent no key, and the backend
// wants one.
func asUpgrade(q *exchange.Request) {
	q.Method, q.Length = "GET", 0
	q.Fields.Del("Sec-WebSocket-Key")
	var key [16]byte
	binary.LittleEndian.PutUint64(key[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(key[8:], rand.Uint64())
	q.Fields.Add("Connection", "Upgrade")
	q.Fields.Add("Upgrade", "websocket")
	q.Fields.Add("Sec-WebSocket-Key", base64.StdEncoding.EncodeToString(key[:]))
}

// become keeps the tunnel that a handler has left behind, for carry. err is how the
// handler ended: unless that is well, the tunnel has nothing to do but to end.
func (c *h1conn) become(t exchange.Tunnel, err error) {
	c.tun, c.body = t, nil
	c.tunnel.Store(c)
	if err != nil || c.state.Load() == connClosed { // cut may have looked before
		t.Close()
	}
}

// carry runs the tunnel that an exchange has become, on little stack, until it ends
// or has been parked: then it returns true, and another goroutine may have it.
func (c *h1conn) carry() (parked bool) {
	c.r = nil // nothing is left in it
	rest := c.restPeriod()
	for {
		r, resting := c.srv.runTunnel(&c.x, c.tun, c.cut, rest)
		if !resting {
			break
		}
		socks := [2]syscall.RawConn{r.Own}
		if r.Client {
			socks[1] = c.sock.raw.Raw()
		}
		if c.park(socks, r.Until) {
			return true
		}
		rest = 0 // it goes on as it is
	}
	c.tunnel.Store(nil)
	err := c.tun.End()
	c.srv.tunnels.Add(-1)
	c.srv.finished(c.site, &c.x, err)
	return false
}

// runTunnel runs what x has become and recovers a panic, which cuts it.
func (s *Server) runTunnel(x *exchange.Exchange, t exchange.Tunnel, cut func(), rest time.Duration) (r exchange.Rest, resting bool) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked("panic in tunnel", x, p)
			cut()
			resting = false
		}
	}()
	return t.Run(rest)
}

// duplex is an upgraded connection. Read is used by one goroutine, Write and
// CloseWrite by another. How long a tunnel may be silent is up to its handler.
type duplex struct {
	c     *conn
	early []byte // what the client sent behind its request
}

func (d *duplex) Read(p []byte) (int, error) {
	if len(d.early) > 0 {
		n := copy(p, d.early)
		if d.early = d.early[n:]; len(d.early) == 0 {
			d.early = nil
		}
		return n, nil
	}
	return d.c.nc.Read(p)
}

// plainDuplex is a duplex without TLS.
type plainDuplex struct{ duplex }

// ReadLazy implements exchange.LazyReader.
func (d *plainDuplex) ReadLazy(take func() []byte, give func()) (int, error) {
	if len(d.early) > 0 {
		return d.Read(take())
	}
	return d.c.sock.raw.ReadLazy(rawio.Memory{Take: take, Give: give})
}

// Hold and Emptied implement exchange.Holder.
func (d *plainDuplex) Hold(turn func() bool) error { return d.c.sock.raw.Hold(turn) }

func (d *plainDuplex) Emptied() bool { return d.c.sock.raw.Emptied() }

func (d *duplex) Write(p []byte) (int, error) { return d.c.nc.Write(p) }

// SetReadDeadline bounds reads.
func (d *duplex) SetReadDeadline(t time.Time) error { return d.c.sock.SetReadDeadline(t) }

// Broken reports whether the connection has failed, without reading it.
func (d *duplex) Broken() bool { return d.c.sock.raw != nil && rawio.Broken(d.c.sock.raw.Raw()) }

// CloseWrite ends what the client receives.
func (d *duplex) CloseWrite() error {
	if cw, ok := d.c.nc.(interface{ CloseWrite() error }); ok && d.c.tls != nil {
		if err := cw.CloseWrite(); err != nil {
			return err
		}
	}
	return d.c.sock.closeWrite()
}

// Close ends both directions, of a tunnel at rest too.
func (d *duplex) Close() error {
	if d.c.tls == nil {
		// A close waits for who holds the reading side, who may wait for a write.
		d.c.sock.SetWriteDeadline(time.Unix(1, 0))
	}
	d.c.close()
	d.c.awake()
	return nil
}
