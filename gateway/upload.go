package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
)

// uploadBuf is the usual size of a buffer for requests being sent: the head of
// the request and the first part of its body leave in one write.
const uploadBuf = 32 << 10

// upload sends one request. The conversation owns it; while pumpBody runs, only
// the fields marked so may be touched.
type upload struct {
	ctx   context.Context
	call  *extproc.Call
	cn    *conn
	pause time.Duration // longest pause of either side; 0: any
	buf   []byte        // bytes not yet written
	frame *Frame
	full  string        // token for want of room
	src   io.Reader     // the body; nil for none
	left  int64         // body bytes not yet read
	live  bool          // src is the client, which may stall
	pace  budget.Pace   // of a live src
	cv    *conversation // told the end of the upload

	final   atomic.Bool   // any time: the last bytes are being written
	cut     atomic.Bool   // any time: stop ended the upload, which is then nobody's fault
	whole   atomic.Bool   // any time: the request is out, to its last byte
	done    chan struct{} // any time: closed when pumpBody has returned; nil if it was not started
	written int64         // bytes that the socket took
	err     error         // why the request was not sent whole
	fault   error         // the part of err that is the answer, whatever the application says
}

// start sends what can be sent without waiting for a body, and starts the pump
// if there is one. Of a live body nothing is read before the head of the request
// is out: if that fails, another connection may still have the body.
func (u *upload) start(now time.Time) {
	u.cn.writeWithin(u.pause, now)
	if u.src == nil {
		u.buf = append(u.buf, u.frame.End...)
		if u.cn.reused && u.cn.raw != nil && len(u.buf) <= askMax {
			if u.call.Crowded {
				runtime.Gosched()
			}
			u.cn.ask, u.written = u.buf, int64(len(u.buf)) // conn.receive corrects that if it fails
			u.finish(now, nil)
			return
		}
		u.finish(now, u.flush(true))
		return
	}
	if u.live {
		if err := u.flush(false); err != nil {
			u.finish(now, err)
			return
		}
	}
	u.done = make(chan struct{})
	go u.pumpBody()
}

// pumpBody sends the body. It is joined by stop, at the latest in
// Reply.Close.
func (u *upload) pumpBody() {
	defer close(u.done)
	err := u.copyBody()
	u.finish(time.Now(), err)
}

// finish notes how the upload ended. A fault ends the conversation at once; any
// other failure leaves it to the application to say why it stopped reading.
func (u *upload) finish(now time.Time, err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		u.fault = exchange.Fail(504, "request_stalled", "send to the application: %w", err)
	}
	u.err = err
	u.whole.Store(err == nil)
	if u.cut.Load() {
		u.fault = nil
	}
	if u.fault != nil {
		u.cn.nc.Close()
	}
	u.cv.uploaded(now)
}

// copyBody reads exactly left bytes, and proves that none follow before the
// application can have seen the last one.
func (u *upload) copyBody() error {
	header := u.frame.Header
	for {
		if cap(u.buf)-len(u.buf) < 4<<10+header+len(u.frame.End) {
			if err := u.flush(false); err != nil {
				return err
			}
		}
		at := len(u.buf) + header
		part := u.buf[at : cap(u.buf)-len(u.frame.End)]
		if u.frame.Most > 0 {
			part = part[:min(len(part), u.frame.Most)]
		}
		n, err := u.read(part[:min(int64(len(part)), u.left)])
		if err != nil {
			u.fault = err
			return err
		}
		u.left -= int64(n)
		if n > 0 { // a part without content might end the body
			if header > 0 {
				u.frame.Fill(u.buf[at-header:at], n)
			}
			u.buf = u.buf[:at+n]
		}
		if u.left == 0 {
			break
		}
		if u.live {
			if err := u.flush(false); err != nil {
				return err
			}
		}
	}
	if err := u.end(); err != nil {
		u.fault = err
		return err
	}
	u.buf = append(u.buf, u.frame.End...)
	return u.flush(true)
}

// read reads a part of the body. Its error is the answer.
func (u *upload) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, stalled, err := u.readInTime(p)
	switch {
	case n > 0:
		return n, nil // an error comes again
	case stalled:
		return 0, &exchange.Error{Status: 408, Reason: "request_stalled", Close: true,
			Err: fmt.Errorf("no body byte from the client for %v", u.pause)}
	case err == io.EOF:
		return 0, bodyError(u.ctx, fmt.Errorf("%w: %d bytes missing", budget.ErrShort, u.left), u.full)
	case err != nil:
		return 0, bodyError(u.ctx, err, u.full)
	}
	return 0, nil
}

// readInTime is one Read of the body; a live one is stopped after pause.
func (u *upload) readInTime(p []byte) (n int, stalled bool, err error) {
	if !u.live || u.pause <= 0 {
		n, err = u.src.Read(p)
		return n, false, err
	}
	watch := after(u.pause, func() { stopBody(u.call) })
	n, err = u.pace.Read(u.src, p)
	return n, !watch.putOut(), err
}

// end checks that the body is over. What Hold has counted, it has checked.
func (u *upload) end() error {
	if !u.live {
		return nil
	}
	var one [1]byte
	for {
		n, stalled, err := u.readInTime(one[:])
		switch {
		case n > 0:
			return bodyError(u.ctx, budget.ErrLong, u.full)
		case err == io.EOF:
			return nil
		case stalled:
			return &exchange.Error{Status: 408, Reason: "request_stalled", Close: true,
				Err: fmt.Errorf("no end of the body for %v", u.pause)}
		case err != nil:
			return bodyError(u.ctx, err, u.full)
		}
	}
}

// flush writes the buffer. final is set behind the deadline, so that stop may
// shorten it.
func (u *upload) flush(last bool) error {
	if u.done != nil { // in the pump
		u.cn.writeWithin(u.pause, time.Now())
	}
	if last {
		u.final.Store(true)
	}
	n, err := u.cn.Write(u.buf)
	u.written += int64(n)
	u.buf = u.buf[:0]
	return err
}

// stop joins the pump and reports whether the request was sent whole. A clean
// end of the reply may overtake the return of our last write, so that one is
// waited for; anything else is cut off.
func (u *upload) stop(clean bool) bool {
	if u.done != nil {
		if clean && u.final.Load() {
			u.cn.nc.SetWriteDeadline(time.Now().Add(time.Second))
		} else {
			u.cut.Store(true)
			u.cn.nc.Close()
			select {
			case <-u.done:
			default:
				if u.live {
					stopBody(u.call)
				}
			}
		}
		<-u.done
		u.cn.writeBy = longAgo // not what it says
	}
	return u.err == nil
}

// longAgo is a deadline that is never near enough.
var longAgo = time.Unix(1, 0)

// A fuse runs a function once, unless it is put out before. The zero fuse is out.
type fuse struct {
	stop func() bool
	ran  chan struct{}
}

// onDone lights a fuse that burns down when ctx is done.
func onDone(ctx context.Context, f func()) fuse {
	ran := make(chan struct{})
	return fuse{context.AfterFunc(ctx, func() { f(); close(ran) }), ran}
}

// after lights a fuse that burns for d.
func after(d time.Duration, f func()) fuse {
	ran := make(chan struct{})
	return fuse{time.AfterFunc(d, func() { f(); close(ran) }).Stop, ran}
}

// putOut returns when the function is neither running nor going to; false if it
// did run.
func (f fuse) putOut() bool {
	if f.stop == nil || f.stop() {
		return true
	}
	<-f.ran
	return false
}
