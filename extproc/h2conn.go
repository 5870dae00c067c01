//lint:file-ignore SA1019 the library's successor in net/http offers no PING, and no connection of one's own dial

package extproc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
)

// Bounds of a connection (R-UP-4, R-STREAM-3). The window of the connection holds
// those of all its streams, so that a reply that nobody reads stops no other one.
const (
	h2Streams   = 100
	h2Window    = 64 << 10
	h2AllWindow = h2Streams * h2Window
	h2Silence   = 30 * time.Second // then a PING
	h2Answer    = 15 * time.Second // for its answer
)

// ErrNotHTTP2 says that what a dial reached does not speak HTTP/2.
var ErrNotHTTP2 = errors.New("peer does not speak HTTP/2")

// ErrUnread says that the peer has refused requests without having looked at them.
var ErrUnread = errors.New("peer takes no request")

// ErrReset says that the peer has ended one stream of a connection.
var ErrReset = errors.New("stream reset by the peer")

// h2conn is one connection. Its client's mu guards the fields at the end.
type h2conn struct {
	cc     *http2.ClientConn
	socket net.Conn        // below TLS
	raw    syscall.RawConn // of socket; nil if it has none
	served atomic.Bool     // has carried a reply

	calls     int // that have it
	idleSince time.Time
}

// newH2transport makes what turns dialled connections into HTTP/2: it dials
// nothing and keeps none. headList bounds the field lists of replies, counted as
// in RFC 9113 §6.5.2; writeStall is how long a write may make no progress.
func newH2transport(headList uint32, writeStall time.Duration) *http2.Transport {
	t, err := http2.ConfigureTransports(&http.Transport{
		DisableCompression: true, // neither Accept-Encoding nor a body is ours to change
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     h2Window,
			MaxReceiveBufferPerConnection: h2AllWindow,
			SendPingTimeout:               h2Silence,
			PingTimeout:                   h2Answer,
			WriteByteTimeout:              writeStall,
		},
	})
	if err != nil {
		panic("BUG: extproc: http2.ConfigureTransports: " + err.Error())
	}
	t.MaxHeaderListSize = headList
	return t
}

// openH2 dials t as long as ctx lasts and begins HTTP/2. It returns once the peer
// has answered a PING: so its settings are known, and what does not speak HTTP/2
// has failed before a request was spent on it.
func (d *Dialer) openH2(ctx context.Context, t *Target, cfg *tls.Config, tr *http2.Transport) (*h2conn, error) {
	nc, socket, err := d.connect(ctx, t, cfg)
	if err != nil {
		return nil, err
	}
	if tc, ok := nc.(*tls.Conn); ok && tc.ConnectionState().NegotiatedProtocol != "h2" {
		socket.Close()
		return nil, fmt.Errorf("%w: it has not chosen h2 by ALPN", ErrNotHTTP2)
	}
	cc, err := tr.NewClientConn(nc)
	if err != nil {
		socket.Close()
		return nil, err
	}
	c := &h2conn{cc: cc, socket: socket}
	if sc, ok := socket.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	if err := cc.Ping(ctx); err != nil {
		c.close()
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %v", ErrNotHTTP2, err)
	}
	return c, nil
}

// ended reports whether the peer has ended its side, also if the library is still
// to read so far.
func (c *h2conn) ended() bool {
	if c.raw == nil {
		return false
	}
	var p [1]unix.PollFd
	n := 0
	c.raw.Control(func(fd uintptr) {
		p[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLRDHUP}
		n, _ = unix.Poll(p[:], 0)
	})
	return n > 0
}

// reserve makes room for one stream; false if the peer allows no more, or the
// connection takes none any more. A stream that is reserved is to be used.
func (c *h2conn) reserve() bool { return c.cc.ReserveNewRequest() }

// open reports whether the connection takes further streams.
func (c *h2conn) open() bool { return c.cc.CanTakeNewRequest() }

func (c *h2conn) roundTrip(r *http.Request) (*http.Response, error) { return c.cc.RoundTrip(r) }

// close ends the connection and its streams. The socket goes first: a connection
// that is given up owes nobody a close_notify, and must not wait to write one.
func (c *h2conn) close() {
	c.socket.Close()
	c.cc.Close()
}

// Texts of errors for which the library has no exported name. In the first three
// cases nobody has looked at the request of the stream.
const (
	h2GoAway         = "http2: Transport received Server's graceful shutdown GOAWAY"
	h2Unusable       = "http2: client conn not usable"
	h2NotEstablished = "http2: client conn could not be established"
	h2LargeHead      = "http2: response header list larger than advertised limit"
	h2FromPeer       = "received from peer"
)

// unprocessed reports whether the peer has said, or it is plain, that a stream
// was not processed (RFC 9113 §8.7): it may go anywhere again.
func unprocessed(err error) bool {
	if e, ok := errors.AsType[http2.StreamError](err); ok {
		return e.Code == http2.ErrCodeRefusedStream
	}
	switch err.Error() {
	case h2GoAway, h2Unusable, h2NotEstablished:
		return true
	}
	return false
}

// cancelled reports whether the peer has ended a stream by CANCEL: it, or who it
// works for, does not want the request any more.
func cancelled(err error) bool {
	e, ok := errors.AsType[http2.StreamError](err)
	return ok && e.Code == http2.ErrCodeCancel && e.Cause != nil && e.Cause.Error() == h2FromPeer
}

// ofStream tells what went wrong with a stream: that its head was too large, or
// that the peer has reset it. ok is false for an error of the whole connection.
func ofStream(err error) (tooLarge, ok bool, cause error) {
	e, ok := errors.AsType[http2.StreamError](err)
	switch {
	case !ok:
		return false, false, err
	case e.Cause == nil:
		return false, true, err
	case e.Cause.Error() == h2LargeHead:
		return true, true, e.Cause
	case e.Cause.Error() == h2FromPeer:
		return false, true, fmt.Errorf("%w: %v", ErrReset, e.Code)
	}
	return false, true, e.Cause
}
