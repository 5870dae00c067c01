package wsrelay

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/exchange"
)

// relay is one tunnel. It is owned by Serve; close may be called by anybody and
// unblocks both directions.
type relay struct {
	peer     net.Conn
	early    []byte       // bytes of the peer that came with its head
	timed    bool         // an idle timer looks at lastByte
	down     atomic.Int64 // bytes sent to the client
	lastByte atomic.Int64 // when any byte moved, Unix nanoseconds

	mu     sync.Mutex
	client exchange.Duplex // nil until the client's connection is ours
	closed bool
	err    error // the first failure that was not our close
}

// open gives the relay the client's connection.
func (r *relay) open(client exchange.Duplex, early []byte) {
	r.mu.Lock()
	r.client, r.early = client, early
	closed := r.closed
	r.mu.Unlock()
	if closed {
		client.Close()
	}
}

// run relays until both directions have ended and returns the first failure; an
// end by either side's FIN, or by our own close, is none.
func (r *relay) run(idle time.Duration) error {
	if idle > 0 {
		r.timed = true
		r.touch()
		timer := idleTimer{r: r, after: idle}
		timer.start()
		defer timer.stop()
	}
	up := make(chan struct{})
	go r.copyUp(up)
	r.copyDown()
	<-up
	r.close()
	return r.err
}

// copyUp moves bytes from the client to the peer.
func (r *relay) copyUp(done chan<- struct{}) {
	defer close(done)
	err := r.pipe(plain(r.peer), r.client, false)
	if err == nil {
		err = closeWrite(r.peer)
	}
	if err != nil {
		r.fail(err)
	}
}

// copyDown moves bytes from the peer to the client, those first that came early.
func (r *relay) copyDown() {
	var err error
	if len(r.early) > 0 {
		_, err = r.client.Write(r.early)
		r.down.Add(int64(len(r.early)))
		r.early = nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %v", exchange.ErrClientGone, err)
	} else {
		err = r.pipe(r.client, plain(r.peer), true)
	}
	if err == nil {
		err = r.client.CloseWrite()
	}
	if err != nil {
		r.fail(err)
	}
}

// pipe copies src to dst until src ends well, or one of them fails. down says that
// src is the peer.
func (r *relay) pipe(dst io.Writer, src io.Reader, down bool) error {
	b := newBuffer(src)
	defer b.free()
	for {
		p, err := b.read()
		if len(p) > 0 {
			r.touch()
			if _, werr := dst.Write(p); werr != nil {
				return r.blame(!down, werr)
			}
			r.touch()
			if down {
				r.down.Add(int64(len(p)))
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return r.blame(down, err)
		}
	}
}

// blame says whose failure err is.
func (r *relay) blame(peer bool, err error) error {
	if peer {
		return exchange.Fail(502, "response_error", "relay of %s: %w", r.peer.RemoteAddr(), err)
	}
	return fmt.Errorf("%w: %v", exchange.ErrClientGone, err)
}

// fail ends both directions because one has failed.
func (r *relay) fail(err error) {
	r.mu.Lock()
	if !r.closed && r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.close()
}

// close closes both connections, raw: no TLS farewell, which might wait, and no
// WebSocket close frame, which is not ours to send.
func (r *relay) close() {
	r.mu.Lock()
	closed, client := r.closed, r.client
	r.closed = true
	r.mu.Unlock()
	if closed {
		return
	}
	if tc, ok := r.peer.(*tls.Conn); ok {
		tc.NetConn().Close()
	} else {
		r.peer.Close()
	}
	if client != nil {
		client.Close()
	}
}

func closeWrite(c net.Conn) error {
	tc, ok := c.(*tls.Conn)
	if ok {
		if err := tc.CloseWrite(); err != nil {
			return err
		}
		c = tc.NetConn()
	}
	if cw, ok := c.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return nil
}

func (r *relay) touch() {
	if r.timed {
		r.lastByte.Store(time.Now().UnixNano())
	}
}

// idleTimer closes a relay on which no byte has moved for a while. It looks once
// per period instead of being moved by each byte.
type idleTimer struct {
	r     *relay
	after time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (t *idleTimer) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(t.after, t.look)
}

func (t *idleTimer) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	idle := time.Since(time.Unix(0, t.r.lastByte.Load()))
	if idle >= t.after {
		t.r.close()
		return
	}
	t.timer.Reset(t.after - idle)
}

// stop joins a look in progress.
func (t *idleTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}
