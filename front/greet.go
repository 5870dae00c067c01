package front

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"

	"httpjet/access"
)

// Clients is what is asked of a connection before anything of HTTP or TLS is read.
type Clients struct {
	// Known remembers client addresses over generations; nil: nobody is counted.
	Known  *access.Clients
	Limits access.ClientLimits
	Exempt func(netip.Addr) bool // who is never refused

	// Proxies are the peers that may send a PROXY header, as its trusted entries; nil:
	// nobody looks for one. Others who send one are cut off (G68).
	Proxies *access.List
}

// greet is done once for a connection, before its first byte is anybody else's. False:
// it is to be closed.
func (c *conn) greet() bool {
	c.greeted = true
	g := &c.srv.Current().Limits().Clients
	if g.Proxies != nil && c.h3 == nil {
		if err := c.introduce(g); err != nil {
			c.srv.strangers.Add(1)
			c.srv.logger().Debug("PROXY header", "listener", c.lis.Name(), "remote", c.remote, "err", err)
			return false
		}
	}
	if a := c.remote.Addr(); g.Known != nil && g.Limits.Connections() && a.IsValid() && !g.exempt(a) {
		if !g.Known.Open(a, &g.Limits, time.Now()) {
			return false
		}
		c.counted = g.Known
	}
	return true
}

// exempt reports whether a is never refused.
func (g *Clients) exempt(a netip.Addr) bool {
	return access.Exempt(a) || g.Exempt != nil && g.Exempt(a)
}

// misbehaved notes a malformed request.
func (c *conn) misbehaved(l *Limits) {
	if g := &l.Clients; c.counted != nil {
		c.counted.Bad(c.remote.Addr(), &g.Limits, time.Now())
	}
}

const (
	proxyV1     = "PROXY "
	proxyV2     = "\r\n\r\n\x00\r\nQUIT\n"
	maxProxyV1  = 107 // bytes, by the protocol
	headProxyV2 = 16
	maxProxyV2  = 4096 // bytes behind the head: addresses and what is said beside them
)

var (
	errStranger  = errors.New("PROXY header of a peer that may send none")
	errNoHeader  = errors.New("no PROXY header")
	errLongProxy = errors.New("PROXY header is too long")
)

// introduce reads a PROXY header, if there is one, within the connection timeout. What
// comes behind it, or instead of it, is read again by whoever serves the connection.
func (c *conn) introduce(g *Clients) error {
	c.sock.SetReadDeadline(time.Now().Add(c.srv.Current().Limits().connTimeout()))
	buf := make([]byte, 0, 512)
	n := 0
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, headProxyV2+maxProxyV2), buf...)
		}
		m, err := c.sock.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+m]
		if n, err = proxyHeader(buf, err); err != nil || n > 0 {
			if errors.Is(err, errNoHeader) {
				c.sock.ahead = buf
				c.sock.SetReadDeadline(time.Time{})
				return nil
			}
			if err != nil {
				return err
			}
			break
		}
	}
	c.sock.SetReadDeadline(time.Time{})
	if !g.Proxies.Trusted(c.remote.Addr()) {
		return errStranger
	}
	c.sock.ahead = buf[n:]
	return c.rename(buf[:n])
}

// proxyHeader returns how long the header is with which b begins, 0 if more of it is to
// come. readErr is that of the read that came last.
func proxyHeader(b []byte, readErr error) (int, error) {
	switch {
	case len(b) == 0:
		return 0, orEOF(readErr)
	case begins(b, proxyV2):
		if len(b) < headProxyV2 {
			return 0, readErr
		}
		n := int(binary.BigEndian.Uint16(b[headProxyV2-2:]))
		if n > maxProxyV2 {
			return 0, errLongProxy
		}
		if n += headProxyV2; len(b) >= n {
			return n, nil
		}
		return 0, readErr
	case begins(b, proxyV1):
		if i := bytes.IndexByte(b, '\n'); i >= 0 && i < maxProxyV1 && len(b) >= len(proxyV1) {
			return i + 1, nil
		}
		if len(b) >= maxProxyV1 {
			return 0, errLongProxy
		}
		return 0, readErr
	}
	return 0, errNoHeader
}

// begins reports whether b is the begin of a header with that signature, as far as it
// goes.
func begins(b []byte, signature string) bool {
	n := min(len(b), len(signature))
	return string(b[:n]) == signature[:n]
}

func orEOF(err error) error {
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// rename gives the connection the addresses that its header says. One that was made by
// the peer itself, such as a health check, keeps its own (LOCAL, UNKNOWN), and so does
// one whose client has none.
func (c *conn) rename(header []byte) error {
	h, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(header), len(header)+1))
	if err != nil {
		return err
	}
	if h.Command == proxyproto.LOCAL {
		return nil
	}
	if src, dst, ok := h.TCPAddrs(); ok {
		from, to := addrPort(src), addrPort(dst)
		if !from.Addr().IsValid() || !to.Addr().IsValid() {
			return errors.New("PROXY header without addresses")
		}
		c.remote, c.local = from, to
	}
	return nil
}
