package front

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// h3conn is what a conn has of QUIC instead of a socket.
//
// Life: newH3 → serveH3 → greet → speak until the connection ends, by the client, by
// silence, by cut, or a while after the last request of one that was told to go.
type h3conn struct {
	side *quicSide
	qc   *quic.Conn

	mu      sync.Mutex    // guards the fields below; held for no I/O
	server  *http3.Server // of this connection alone, so that it can be told to go by itself; nil before speak
	active  int           // requests
	leaving bool
	linger  *time.Timer // closes the connection; nil unless it was told to go

	telling sync.WaitGroup // of sayGoAway
}

// newH3 makes the conn of a QUIC connection.
func newH3(q *quicSide, qc *quic.Conn) *conn {
	cs := qc.ConnectionState().TLS
	c := &conn{srv: q.lis.srv, lis: q.lis, tls: &cs, remote: udpAddrPort(qc.RemoteAddr()), local: udpAddrPort(qc.LocalAddr()),
		h3: &h3conn{side: q, qc: qc}}
	c.state.Store(connActive)
	return c
}

func udpAddrPort(a net.Addr) netip.AddrPort {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := u.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// serveH3 serves a QUIC connection until it ends.
func serveH3(c *conn) {
	if c.greet() {
		c.h3.speak(c)
	}
	c.finish()
	c.h3.side.release()
}

// speak serves the requests of the connection. Handlers run on goroutines of package
// http3, which joins them.
func (h *h3conn) speak(c *conn) {
	lim := c.lis.site().Limits()
	handler := &h3Handler{h: h, b: &bridge{srv: c.srv, c: c}}
	server := &http3.Server{Handler: handler, MaxHeaderBytes: max(lim.maxHead(), h2ListMin), IdleTimeout: max(lim.KeepAliveTimeout, h2MinIdle)}
	h.mu.Lock()
	h.server = server
	h.mu.Unlock()
	server.ServeQUICConn(h.qc) // also if it is to go already: linger sees to that
	c.cancel()
	handler.b.running.Wait()
	h.mu.Lock()
	h.server = nil // nobody is told any more: no Add of telling beside its Wait
	h.mu.Unlock()
	h.telling.Wait()
}

// goAway sends GOAWAY: the client makes no more requests on the connection and is to
// close it behind those that there are. One that does not is cut off a little later.
func (h *h3conn) goAway() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leaving {
		return
	}
	h.leaving = true
	if h.server != nil {
		h.telling.Add(1)
		go sayGoAway(h, h.server)
	}
	h.lingerIfIdle()
}

// sayGoAway ends when the connection has.
func sayGoAway(h *h3conn, server *http3.Server) {
	defer h.telling.Done()
	server.Shutdown(context.Background())
}

// lingerIfIdle starts the time in which the client is to close. What was written last
// may be under way still, and a close would overtake it. h.mu is held.
func (h *h3conn) lingerIfIdle() {
	if h.leaving && h.active == 0 && h.linger == nil {
		h.linger = time.AfterFunc(lingerTime, h.close)
	}
}

func (h *h3conn) enter() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active++
	if h.linger != nil && h.linger.Stop() {
		h.linger = nil
	}
}

func (h *h3conn) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active--
	h.lingerIfIdle()
}

// close ends the connection at once. It may be called more than once.
func (h *h3conn) close() { h.qc.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") }

// closed stops the timer of a connection that has ended.
func (h *h3conn) closed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaving = true
	if h.linger == nil {
		h.linger = time.AfterFunc(0, func() {}) // nobody starts another one
	}
	h.linger.Stop()
}

// h3Handler counts the requests of a connection and makes them what the bridge
// expects.
type h3Handler struct {
	h *h3conn
	b *bridge
}

// ServeHTTP serves one exchange.
func (h *h3Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.h.enter()
	defer h.h.leave()
	if r.ContentLength < 0 && !h3Uploads(r.Method) {
		h.settle(w, r)
	}
	h.b.ServeHTTP(w, r)
}

// h3Uploads reports whether requests of a method have a body as a rule. What has none, or
// all of it at once, can be looked at before it is served; a body that comes bit by bit,
// perhaps only when the answer has begun, cannot.
func h3Uploads(method string) bool {
	switch method {
	case "POST", "PUT", "PATCH", "CONNECT":
		return true
	}
	return false
}

// settle finds out whether a request without a declared length has a body. In HTTP/3
// its end may come in a packet of its own, behind the head: without a look at it every
// GET would seem to have a body of unknown length.
func (h *h3Handler) settle(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(h.b.site().Limits().connTimeout()))
	var first [1]byte
	n, err := r.Body.Read(first[:])
	rc.SetReadDeadline(time.Time{})
	switch {
	case n == 0 && err == io.EOF:
		r.Body.Close()
		r.Body, r.ContentLength = http.NoBody, 0
	case n > 0:
		r.Body = &begun{io.MultiReader(bytes.NewReader(first[:n]), &failing{r.Body, err}), r.Body}
	default:
		r.Body = &begun{&failing{r.Body, err}, r.Body}
	}
}

// begun is a body whose first byte has been read.
type begun struct {
	io.Reader
	io.Closer
}

// failing fails with err, if that is not nil, else reads on.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.r.Read(p)
}
