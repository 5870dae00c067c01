package extproc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
)

// Stages of a pump.
const (
	pumpReading int32 = iota // waits for the client
	pumpWriting              // waits for the upstream
	pumpLast                 // writes the end of the body
	pumpSent                 // all of it is written
	pumpRefused              // the upstream takes no more; it may still answer
	pumpFailed               // the client's side failed: the call is over
)

// Layout of a pump's buffer: the size line of a chunk, its bytes, its end.
const (
	chunkHead = 16
	pumpBuf   = 64 << 10
)

var pumpBufs = sync.Pool{New: func() any { return new([chunkHead + pumpBuf + 64]byte) }}

// pump moves the request body to the upstream. One goroutine runs pumpBody; the
// call watches it through stage and progress, and reads the other fields after
// done is closed, or err once stage is pumpFailed.
type pump struct {
	req   *Call
	conn  *h1conn
	began time.Time
	moved atomic.Int64 // last progress, nanoseconds after began
	stage atomic.Int32
	err   error
	done  chan struct{}
}

func newPump(c *h1call) *pump {
	p := &pump{req: c.req, conn: c.conn, began: c.sent, done: make(chan struct{})}
	// The call watches for progress; a deadline of the head must not strike.
	p.conn.nc.SetWriteDeadline(time.Time{})
	p.conn.writeBy = time.Time{}
	return p
}

func (p *pump) touch()              { p.moved.Store(int64(time.Since(p.began))) }
func (p *pump) progress() time.Time { return p.began.Add(time.Duration(p.moved.Load())) }

// pumpBody runs until the body is sent or one side has failed, and then wakes
// the call if it waits for the reply: another deadline counts from now on.
func (p *pump) pumpBody() {
	defer close(p.done)
	stage, err := p.copy()
	p.err = err
	p.touch()
	p.stage.Store(stage)
	p.conn.nc.SetReadDeadline(longAgo)
}

func (p *pump) copy() (int32, error) {
	buf := pumpBufs.Get().(*[chunkHead + pumpBuf + 64]byte)
	defer pumpBufs.Put(buf)
	left := p.req.Length // of a declared length; -1: chunked
	for left != 0 {
		data := buf[chunkHead : chunkHead+pumpBuf]
		if left > 0 && left < int64(len(data)) {
			data = data[:left] // never more than was declared
		}
		p.stage.Store(pumpReading)
		n, err := p.req.Body.Read(data)
		if err != nil && err != io.EOF {
			return pumpFailed, bodyError(err)
		}
		p.touch()
		out, last := data[:n], false
		if left > 0 {
			left -= int64(n)
			if err == io.EOF && left > 0 {
				return pumpFailed, bodyError(io.ErrUnexpectedEOF)
			}
			last = left == 0
		} else {
			if out = buf[chunkHead:chunkHead]; n > 0 {
				out = asChunk(buf, n)
			}
			if last = err == io.EOF; last {
				out, left = h1.AppendLastChunk(out, p.trailers()), 0
			}
		}
		if last {
			p.stage.Store(pumpLast)
		} else {
			p.stage.Store(pumpWriting)
		}
		if _, err := p.conn.Write(out); err != nil {
			return pumpRefused, err
		}
		p.touch()
	}
	return pumpSent, nil
}

// asChunk frames n bytes in buf as a chunk, in place.
func asChunk(buf *[chunkHead + pumpBuf + 64]byte, n int) []byte {
	var b [chunkHead]byte
	line := h1.AppendChunkSize(b[:0], int64(n))
	start := chunkHead - len(line)
	copy(buf[start:], line)
	return append(buf[start:chunkHead+n], '\r', '\n')
}

func (p *pump) trailers() *exchange.Fields {
	if p.req.Trailers == nil {
		return nil
	}
	return p.req.Trailers()
}

// bodyError says what a failed read of the client's body is. Limits are the
// exchange's own errors and pass.
func bodyError(err error) error {
	if _, ok := errors.AsType[*exchange.Error](err); ok || errors.Is(err, exchange.ErrClientGone) {
		return err
	}
	if isTimeout(err) {
		return exchange.Fail(408, "request_stalled", "read request body: %w", err)
	}
	return fmt.Errorf("%w: read request body: %v", exchange.ErrClientGone, err)
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// join ends the pump and reports whether the body was sent whole. A pump that
// still moves bytes has been answered early: its client is told to stop, and its
// writes fail. If only the end of the body is being written, that may have
// happened already, so the client is left alone; one that has done its work is
// only waited for.
func (p *pump) join() bool {
	switch p.stage.Load() {
	case pumpReading, pumpWriting:
		if p.req.StopBody != nil {
			p.req.StopBody()
		}
		fallthrough
	case pumpLast:
		p.conn.nc.SetWriteDeadline(longAgo)
		<-p.done
		p.conn.nc.SetWriteDeadline(time.Time{})
	default:
		<-p.done
	}
	p.conn.readBy = time.Time{} // the pump has moved the deadline
	return p.stage.Load() == pumpSent
}
