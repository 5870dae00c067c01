package extproc

import (
	"net"
	"time"
)

// Stock makes p keep a connection over nc, which is no socket, as if it had
// carried a call. Nothing ever comes over it by itself.
func (p *H1Client) Stock(nc net.Conn) {
	c := newH1conn(nc, nc)
	c.peeker = mute{}
	p.keep(c, time.Now())
}

type mute struct{}

func (mute) Silent() bool { return true }
