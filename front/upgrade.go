package front

import (
	"errors"
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
		ctx.stopWatch() // the tunnel reads the socket from now on
	}
	c.out = h1.AppendResponseHead(c.buffer(), r, h1.Framed{Length: -1, Connection: "Upgrade",
		Server: c.lim.ServerHeader, Date: c.srv.dateAt(c.now)})
	if err := c.Flush(); err != nil {
		return nil, err
	}
	c.freeOut()
	c.sock.SetDeadline(time.Time{})
	if c.state.Load() == connClosed {
		c.sock.Close() // cut while the deadline was moved
	}
	if c.tls == nil && c.sock.raw != nil {
		return plainDuplex{duplex{c}}, nil
	}
	return duplex{c}, nil
}

// duplex is an upgraded connection. Read is used by one goroutine, Write and
// CloseWrite by another. It has no deadlines: how long a tunnel may be silent is
// up to its handler.
type duplex struct{ c *h1conn }

func (d duplex) Read(p []byte) (int, error) {
	if d.c.r.Buffered() > 0 {
		return d.c.r.Read(p)
	}
	d.c.r.Release()
	return d.c.nc.Read(p)
}

// plainDuplex is a duplex without TLS.
type plainDuplex struct{ duplex }

// ReadLazy implements exchange.LazyReader.
func (d plainDuplex) ReadLazy(take func() []byte, give func()) (int, error) {
	if d.c.r.Buffered() > 0 {
		return d.Read(take())
	}
	d.c.r.Release()
	return d.c.sock.raw.ReadLazy(rawio.Memory{Take: take, Give: give})
}

func (d duplex) Write(p []byte) (int, error) { return d.c.nc.Write(p) }

// CloseWrite ends what the client receives.
func (d duplex) CloseWrite() error {
	if cw, ok := d.c.nc.(interface{ CloseWrite() error }); ok && d.c.tls != nil {
		if err := cw.CloseWrite(); err != nil {
			return err
		}
	}
	return d.c.sock.closeWrite()
}

// Close ends both directions.
func (d duplex) Close() error {
	d.c.close()
	return nil
}
