package fastcgi

import (
	"fmt"
	"io"
	"time"

	"httpjet/exchange"
)

// leastRate is how many bytes of a body a client must send in a second on
// average, once it has used up the pause that it is allowed. An application sees
// nothing of a body before it is complete, or has a worker waiting for it, so that
// one that trickles is no better than one that stands still (G63). A body relayed
// to an HTTP upstream may be live; there each byte is progress (R-TMO-3).
const leastRate = 1 << 10

// pace is how fast a client sends one body. Time in which nobody asked it for
// bytes does not count.
type pace struct {
	pause  time.Duration // most of its waits that is not paid for by bytes; 0: any
	waited time.Duration
	got    int64
}

// read is one read of src, unless the client has been too slow before it. The last
// byte is never too late.
func (p *pace) read(src io.Reader, b []byte) (int, error) {
	if p.pause <= 0 {
		return src.Read(b)
	}
	if allowed := p.pause + time.Duration(p.got/leastRate)*time.Second; p.waited > allowed {
		return 0, &exchange.Error{Status: 408, Reason: "request_stalled", Close: true,
			Err: fmt.Errorf("client sent %d bytes of its body in %v", p.got, p.waited.Round(time.Second))}
	}
	asked := time.Now()
	n, err := src.Read(b)
	p.waited += time.Since(asked)
	p.got += int64(n)
	return n, err
}

// pacedBody is a body that is read at the pace of its client.
type pacedBody struct {
	src io.Reader
	pace
}

func (b *pacedBody) Read(p []byte) (int, error) { return b.pace.read(b.src, p) }
