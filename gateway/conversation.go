package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
)

// conversation is one request and its reply on one connection. It belongs to
// the goroutine of the caller; only kill and uploaded come from others.
//
// Life of a conversation: open sends and waits for the head; then it ends in
// abandon, or lives on as the Reply's body: Read until io.EOF or a failure, and
// close. In between, the connection is poisoned by the mere fact that nobody has
// put it back.
type conversation struct {
	c      *Client
	ctx    context.Context
	call   *extproc.Call
	cn     *conn
	body   body
	up     upload
	memory *[]byte // of up.buf
	gone   fuse    // cuts the connection when ctx is done; lit once the call has waited

	stderr Stderr
	head   Head
	left   int64 // body bytes that Content-Length still allows, -1: any
	noBody bool  // a body is read and thrown away
	err    error // how the body ended; io.EOF: well
	closed bool

	mu     sync.Mutex
	headBy time.Time // when the head has to be in; zero: the upload goes on
	headIn bool      // the head deadline is over
	overBy time.Time // when the reply has to be over, whatever came of it; zero: whenever
	watch  bool      // gone is lit; read deadlines are exact from then on
	hungry bool      // the place knows that nobody answers

	answer extproc.Reply
}

// newConversation prepares a call on cn; nothing is sent yet.
func (c *Client) newConversation(ctx context.Context, call *extproc.Call, cn *conn, b body) *conversation {
	cv := &conversation{c: c, ctx: ctx, call: call, cn: cn, body: b}
	cn.cv = cv
	cv.stderr.log, cv.stderr.total = call.Log, &c.counts.Stderr
	cn.stream.Begin(&cv.stderr)
	cv.memory = c.buffer()
	cv.up = upload{ctx: ctx, call: call, cn: cn, pause: c.target.BodyTimeout,
		pace: budget.Pace{Pause: c.target.BodyTimeout}, left: b.length, live: b.src != nil, frame: &c.frame, full: c.tokens.Unavailable,
		cv: cv, buf: (*cv.memory)[:0]}
	if b.length > 0 {
		cv.up.src = b.reader()
	}
	return cv
}

// open sends the request, or begins to, and reads the head.
func (cv *conversation) open(now time.Time) error {
	cv.cn.watchSoon(now)
	if most := cv.c.target.MaxTime; most > 0 {
		cv.overBy = now.Add(most) // R-LSAPI-5
	}
	cv.up.start(now)
	h, err := cv.cn.stream.Head()
	cv.fed()
	if err != nil {
		return err
	}
	cv.mu.Lock()
	cv.headIn = true // bodies have no total limit (R-TMO-2), but for overBy
	if !cv.overBy.IsZero() {
		cv.cn.setReadBy(cv.overBy)
	}
	cv.mu.Unlock()
	cv.head, cv.left = h, h.Length
	cv.noBody = cv.call.Method == "HEAD" || h.Status == 204 || h.Status == 304
	return nil
}

// uploaded starts the wait for the head (R-TMO-2).
func (cv *conversation) uploaded(now time.Time) {
	wait := cv.call.HeadTimeout
	if wait <= 0 {
		wait = cv.c.target.HeadTimeout
	}
	cv.mu.Lock()
	defer cv.mu.Unlock()
	cv.headBy = now.Add(wait)
	if !cv.overBy.IsZero() && cv.overBy.Before(cv.headBy) {
		cv.headBy = cv.overBy
	}
	if by := cv.cn.readBy; !cv.headIn && (by.IsZero() || cv.headBy.Before(by)) {
		cv.cn.setReadBy(cv.headBy)
	}
}

// late decides what it means that a read waited to its deadline: nil to wait on.
// The first time that is only watchAfter, and the client is watched from then on.
func (cv *conversation) late() error {
	if !cv.watch {
		cv.gone = onDone(cv.ctx, cv.kill)
	}
	again := cv.starve()
	cv.mu.Lock()
	defer cv.mu.Unlock()
	cv.watch = true
	now, by := time.Now(), cv.headBy
	if cv.headIn || by.IsZero() {
		by = cv.overBy
	}
	if !by.IsZero() && !now.Before(by) {
		return os.ErrDeadlineExceeded
	}
	if again > 0 && (by.IsZero() || now.Add(again).Before(by)) {
		by = now.Add(again)
	}
	cv.cn.setReadBy(by)
	return nil
}

const (
	hungryAfter = 250 * time.Millisecond // a new connection without an answer
	hungryAgain = time.Second
)

// starve tells the place of a call that waits on a new connection for the first
// byte of an answer: perhaps no child of the application is free to accept it. It
// returns when it has to be called again, 0 for never.
func (cv *conversation) starve() time.Duration {
	if cv.cn.reused || cv.cn.stream.Begun() {
		return 0
	}
	if !cv.watch { // that is soon: most scripts are only slow
		cv.c.pool.place.evict(&cv.c.pool)
		return hungryAfter - watchAfter
	}
	cv.c.pool.place.starve(!cv.hungry)
	cv.hungry = true
	return hungryAgain
}

// fed ends what starve began.
func (cv *conversation) fed() {
	if cv.hungry {
		cv.hungry = false
		cv.c.pool.place.fed()
	}
}

// kill wakes everybody up when the client is gone, and the application too.
func (cv *conversation) kill() {
	if abort := cv.c.frame.Abort; abort != nil && cv.up.whole.Load() { // nobody else writes
		cv.cn.nc.SetWriteDeadline(time.Now().Add(abortWait))
		cv.cn.nc.Write(abort)
	}
	cv.cn.nc.Close()
	if cv.up.live {
		stopBody(cv.call)
	}
}

// abortWait bounds the write of an abort, which has room unless the application
// reads nothing.
const abortWait = 10 * time.Millisecond

// stale reports whether open failed with err because the application had closed
// a kept connection, and the call may be sent again without harm: no byte of a
// reply came, no body byte is lost, and either the method is idempotent or not
// one byte of the request left (R-FCGI-12, R-POOL-4).
func (cv *conversation) stale(err error) bool {
	if !cv.cn.reused || cv.cn.stream.Begun() || cv.ctx.Err() != nil || isTimeout(err) {
		return false
	}
	if cv.up.live && cv.up.done != nil {
		return false
	}
	cv.up.stop(false)
	return cv.up.fault == nil && (cv.up.written == 0 || idempotent(cv.call.Method))
}

// unread reports whether open failed with err because the application closed the
// connection with the request unread, so that an idempotent one, which is still whole,
// may be sent again: the kernel resets such a connection (R-LSAPI-3).
func (cv *conversation) unread(err error) bool {
	if cv.cn.stream.Begun() || cv.ctx.Err() != nil || cv.call.NoReplay || !idempotent(cv.call.Method) ||
		!errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return false
	}
	if cv.up.live && cv.up.done != nil {
		return false
	}
	cv.up.stop(false)
	return cv.up.fault == nil
}

// abandon ends a conversation that has no head. The caller still owns the permit
// of its connection and the body.
func (cv *conversation) abandon(err error) error {
	err = cv.fail(err)
	cv.gone.putOut()
	cv.stderr.close()
	cv.release()
	return err
}

// fail closes the connection, joins the pump and returns what err means to the
// client.
func (cv *conversation) fail(err error) error {
	cv.cn.nc.Close()
	cv.up.stop(false)
	addr := cv.c.target.Address
	_, refused := errors.AsType[*RefusedError](err)
	_, known := errors.AsType[*exchange.Error](err)
	// Order matters: what the client or its body did explains the broken
	// connection that the application then seems to have caused.
	switch {
	case cv.ctx.Err() != nil:
		return fmt.Errorf("%w: call to %s: %v", exchange.ErrClientGone, addr, err)
	case cv.up.fault != nil:
		return cv.up.fault
	case known:
		return err
	case refused && !cv.headIn:
		return exchange.Fail(503, cv.c.tokens.Unavailable, "%s: %w", addr, err)
	case isTimeout(err) && cv.headIn:
		return exchange.Fail(504, "upstream_timeout", "%s: the reply was not over in time", addr)
	case isTimeout(err):
		return exchange.Fail(504, "upstream_timeout", "%s: no head in time", addr)
	}
	return exchange.Fail(502, cv.c.tokens.Malformed, "%s: %w", addr, err)
}

// reply hands the conversation over to the caller.
func (cv *conversation) reply() *extproc.Reply {
	cv.answer = extproc.Reply{
		Status: cv.head.Status, Fields: cv.head.Fields, Length: cv.head.Length,
		Body: cv, Buffered: cv.cn.buffered, Done: cv.cn.done, PID: cv.cn.stream.PID(),
	}
	return &cv.answer
}

// Read reads the body of the reply: io.EOF only behind a clean end and
// as many bytes as Content-Length said.
func (cv *conversation) Read(p []byte) (int, error) {
	if cv.closed {
		return 0, net.ErrClosed
	}
	if cv.err != nil {
		return 0, cv.err
	}
	n, err := cv.readBody(p)
	if err != nil && err != io.EOF {
		err = cv.fail(err)
	}
	cv.err = err
	return n, err
}

// readBody reads behind the head and holds it against Content-Length. Its error is
// raw: what broke, or io.EOF.
func (cv *conversation) readBody(p []byte) (int, error) {
	if cv.noBody { // HEAD, 204, 304: read, so that the connection can be kept
		_, err := io.Copy(io.Discard, struct{ io.Reader }{cv.cn.stream})
		if err == nil {
			err = io.EOF
		}
		return 0, err
	}
	n, err := gather(cv.cn.stream, p)
	if cv.left < 0 {
		return n, err
	}
	if int64(n) > cv.left {
		n, cv.left = int(cv.left), 0
		return n, fmt.Errorf("body over its Content-Length of %d", cv.head.Length)
	}
	cv.left -= int64(n)
	if err == io.EOF && cv.left > 0 {
		err = fmt.Errorf("body %d bytes short of its Content-Length", cv.left)
	}
	return n, err
}

// gather reads the parts of a body that are at hand, and waits only for the first one.
func gather(s Stream, p []byte) (int, error) {
	n, err := s.Read(p)
	for err == nil && n < len(p) && s.Buffered() > 0 {
		var m int
		m, err = s.Read(p[n:])
		n += m
	}
	if n > 0 {
		return n, nil // the error comes again
	}
	return n, err
}

// buffered tells how much Read gives without waiting.
func (cv *conversation) buffered() int {
	if cv.noBody {
		return 0 // the next Read waits for the end of the reply
	}
	return cv.cn.stream.Buffered()
}

// close ends the use of the connection. It goes back to the pool only if both
// directions came to their end and nothing is left over on it.
func (cv *conversation) close() error {
	if cv.closed {
		return nil
	}
	cv.closed = true
	clean := cv.err == io.EOF // the end was read, and every check before it passed
	sent := cv.up.stop(clean)
	alive := cv.gone.putOut()
	cv.stderr.close()
	cv.release()
	cv.body.close()
	keep := clean && sent && alive && cv.cn.br.Buffered() == 0
	cv.c.counts.ended(cv.head.Status, cv.err, clean || cv.noBody && cv.err == nil, keep)
	if keep {
		cv.c.pool.put(cv.cn)
	} else {
		cv.c.pool.drop(cv.cn)
	}
	return nil
}

// buffer returns a buffer for a request.
func (c *Client) buffer() *[]byte {
	if b, ok := c.bufs.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, uploadBuf)
	return &b
}

// release gives the buffer back. One that large variables made grow is let go.
func (cv *conversation) release() {
	if cv.memory != nil && cap(cv.up.buf) <= 2*uploadBuf {
		*cv.memory = cv.up.buf
		cv.c.bufs.Put(cv.memory)
	}
	cv.memory, cv.up.buf = nil, nil
}

// idempotent tells the methods that may be sent twice (RFC 9110 §9.2.2).
func idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}

// isTimeout tells a deadline of ours that passed.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
