package front

// Room returns about how many bytes of a body the client's socket takes now
// (exchange.Roomer). What waits in the output and what TLS adds are small beside
// what is left out already.
func (c *h1conn) Room() int {
	if c.sock.raw == nil {
		return -1
	}
	return c.sock.raw.Room()
}
