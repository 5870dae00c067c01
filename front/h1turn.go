package front

import "httpjet/rawio"

// left says where a turn has left the loop of the connection, which goes on there.
type left int

const (
	atIdle         left = iota // nowhere: the connection waits, or its wait has failed
	behindBytes                // behind the first bytes of a head
	behindHead                 // behind head
	behindExchange             // behind exchange, with what follows in then
)

// sureAfter is how many requests a connection has sent before its end is not looked
// for behind each: a client that asks once and ends its side at once, as netcat does, is
// answered with the end of the connection. One that does so later waits until the
// connection rests.
const sureAfter = 2

// waitHere waits for the first byte of the next request. On a plain connection it
// serves that and what follows where it waits, see takeTurn, and returns only with what
// has no place there: left tells.
func (c *h1conn) waitHere() error {
	if c.tls != nil || c.restPeriod() == 0 || c.n < sureAfter {
		return c.r.Wait()
	}
	if c.onTurn == nil {
		c.onTurn = c.takeTurn
	}
	c.sock.held.Store(true)
	defer c.sock.held.Store(false)
	c.failed = nil
	if err := c.sock.raw.Hold(c.onTurn); err != nil {
		return err
	}
	return c.failed
}

// takeTurn reads what has come and serves it while the reading side of the socket is
// held (rawio.Socket.Hold). This spares each request the read that finds nothing, a
// tenth of what a small answer costs. It returns false to wait, and true to leave: for
// whatever reads from the connection but heads, and before anything closes it.
func (c *h1conn) takeTurn() (leave bool) {
	for {
		err := c.r.Wait()
		if err == rawio.Nothing {
			return false
		}
		if err != nil {
			c.failed = err
			return true
		}
		emptied := c.sock.raw.Emptied()
		if !c.state.CompareAndSwap(connIdle, connActive) {
			return true
		}
		for c.r.Buffered() > 0 {
			if !c.r.HasHead() {
				c.left = behindBytes
				return true
			}
			c.head()
			if c.headErr != nil || c.info.Framing != 0 || c.info.ExpectContinue || c.changes() {
				c.left = behindHead
				return true
			}
			if c.then = c.exchange(); c.then != goesOn {
				c.left = behindExchange
				return true
			}
		}
		if !c.idle() {
			c.then, c.left = ends, behindExchange
			return true
		}
		if emptied {
			return false
		}
	}
}

// changes reports whether the request may make the connection something else.
func (c *h1conn) changes() bool {
	return c.x.Req.Method == "CONNECT" || c.x.Req.Fields.Has("Upgrade")
}
