package front

import (
	"context"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"
)

// Settings of HTTP/2 connections (R-H2-1).
const (
	h2Streams = 256
	h2Window  = 2 << 20
	h2MinIdle = 90 * time.Second

	// http2 adds this to MaxHeaderBytes for the list size that it announces.
	h2ListExtra = 320
	// h2ListMin is the least list that is decoded, although a smaller one may be
	// the limit: a field that cannot be decoded ends the connection with all its
	// streams, one that can is answered 431.
	h2ListMin = 64 << 10
)

// h2Server is the state of net/http that one HTTP/2 connection needs.
type h2Server struct{ hs *http.Server }

// shutdown sends GOAWAY; the connection ends after its streams.
func (h *h2Server) shutdown() { h.hs.Shutdown(context.Background()) }

// serveH2 serves HTTP/2 on nc until the connection ends. Handlers run on
// goroutines of package http2. Each connection has an http.Server of its own,
// because GOAWAY is only to be had for all connections of one: so a listener that
// goes away takes its connections along and no others. The limits are those of
// the generation at hand; they are part of what the client is told in SETTINGS.
func serveH2(c *conn, nc net.Conn) {
	c.state.Store(connActive)
	lim := c.srv.Current().Limits()
	hs := &http.Server{
		MaxHeaderBytes: max(lim.maxHead(), h2ListMin) - h2ListExtra,
		IdleTimeout:    max(lim.KeepAliveTimeout, h2MinIdle),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          h2Streams,
			MaxReceiveBufferPerConnection: h2Window,
			MaxReceiveBufferPerStream:     h2Window,
			MaxReadFrameSize:              16 << 10,
			WriteByteTimeout:              lim.connTimeout(),
		},
	}
	//lint:ignore SA1019 net/http offers no way to serve one connection
	h2 := &http2.Server{}
	//lint:ignore SA1019 it registers the graceful end of connections
	if err := http2.ConfigureServer(hs, h2); err != nil {
		panic("BUG: front: http2.ConfigureServer: " + err.Error())
	}
	c.goAway.Store(&h2Server{hs})
	if c.closing() { // Drain may have looked before goAway was set
		return
	}
	handler := &bridge{srv: c.srv, c: c}
	//lint:ignore SA1019 see above
	h2.ServeConn(nc, &http2.ServeConnOpts{Context: c.context(), BaseConfig: hs, Handler: handler})
	c.cancel() // streams that are left have no client any more
	handler.running.Wait()
}

// replay is a connection whose first bytes have been read already.
type replay struct {
	*sock
	head []byte
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	return r.sock.Read(p)
}
