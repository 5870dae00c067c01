package budget

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrSlow says that a body came too slowly.
var ErrSlow = errors.New("request body too slow")

// leastRate is how many bytes of a body a client must send in a second on
// average, once it has used up the pause that it is allowed. Nobody sees anything
// of a body that is held before it is complete, and an application may keep a
// worker for one that is not, so that a client that trickles is no better than one
// that stands still (G63). A body that is relayed as it comes may be live; there
// each byte is progress (R-TMO-3).
const leastRate = 1 << 10

// Pace is how fast a client sends one body. Time in which nobody asked it for
// bytes does not count.
type Pace struct {
	Pause time.Duration // most of its waits that bytes do not make up for; 0: any

	waited time.Duration
	got    int64
}

// Read is one read of src, which is the client's body. It fails with ErrSlow,
// wrapped, if the client has been too slow before; the last byte is never too late.
func (p *Pace) Read(src io.Reader, b []byte) (int, error) {
	if p.Pause <= 0 {
		return src.Read(b)
	}
	if p.waited > p.Pause+time.Duration(p.got/leastRate)*time.Second {
		return 0, fmt.Errorf("%w: %d bytes in %v", ErrSlow, p.got, p.waited.Round(time.Second))
	}
	asked := time.Now()
	n, err := src.Read(b)
	p.waited += time.Since(asked)
	p.got += int64(n)
	return n, err
}

// Paced returns src with a Pace of its own.
func Paced(src io.Reader, pause time.Duration) io.Reader {
	return &paced{src, Pace{Pause: pause}}
}

type paced struct {
	src  io.Reader
	pace Pace
}

func (p *paced) Read(b []byte) (int, error) { return p.pace.Read(p.src, b) }
