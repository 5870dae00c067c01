package front

// A spare is a goroutine that has read, left, and served its exchange, and waits until
// a reader is needed again. Its stack has the size that an exchange needs: to copy that
// of a new goroutine until it fits would cost a third of a proxied request.
type spare struct {
	wake chan bool // true: it is the reader; false: nobody needs it. One value has room
}

// readH2 goes on as the reader, as often as that is asked of its goroutine.
func readH2(c *h2conn) {
	w := &spare{wake: make(chan bool, 1)}
	for c.read() && c.stand(w) {
	}
}

// stand waits as a spare and reports whether it is the reader now.
func (c *h2conn) stand(w *spare) bool {
	c.mu.Lock()
	stays := c.warm && len(c.spares) < h2Spares
	if stays {
		c.spares = append(c.spares, w)
	}
	c.mu.Unlock()
	return stays && <-w.wake
}

// takeSpare returns the last spare, nil if there is none. mu is held.
func (c *h2conn) takeSpare() *spare {
	n := len(c.spares)
	if n == 0 {
		return nil
	}
	w := c.spares[n-1]
	c.spares[n-1] = nil
	c.spares = c.spares[:n-1]
	return w
}

// dismiss ends the spares.
func (c *h2conn) dismiss() {
	c.mu.Lock()
	all := c.spares
	c.spares, c.warm = nil, false
	c.mu.Unlock()
	for _, w := range all {
		w.wake <- false
	}
}
