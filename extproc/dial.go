package extproc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
)

// Defaults where a Target leaves a duration at zero (spec §39).
const (
	defaultInit = 10 * time.Second
	defaultHead = 60 * time.Second
	defaultBody = 30 * time.Second
)

// A Dialer opens connections for the clients of every protocol, and for probes
// and tunnels. The zero value, and nil, ask the system for a name at every dial.
type Dialer struct {
	Resolver *Resolver // shared by all dials; nil: none
}

// sockets opens single connections with the keepalive of R-POOL-5; Go sets
// TCP_NODELAY.
var sockets = net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
	Enable: true, Idle: 60 * time.Second, Interval: 15 * time.Second}}

// Dial opens a connection as long as ctx lasts. The network is "unix", with the
// path of a socket, or "tcp", with host:port; only a host that is a name is looked
// up, and if it has several addresses they are tried in turn. The error does not
// name the address; see NewDialError.
func (d *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network == "unix" {
		return dialUnix(ctx, address)
	}
	if at, err := netip.ParseAddrPort(address); err == nil {
		return dialTCP(ctx, at)
	}
	if d == nil || d.Resolver == nil {
		nc, err := sockets.DialContext(ctx, network, address)
		return nc, bare(err)
	}
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q is no number", p)
	}
	addrs, err := d.Resolver.Resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	return race(ctx, addrs, uint16(port), dialTCP)
}

// dialTCP opens one connection. DialTCP of net.Dialer would take a port of our own
// first, though told none: one that no other connection can have, whatever its peer.
func dialTCP(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
	nc, err := sockets.DialContext(ctx, "tcp", at.String())
	return nc, bare(err)
}

// dialUnix opens a connection to the socket at path. Linux does not wait for room
// in its backlog, as it does for TCP: so we do.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	nc, err := sockets.DialContext(ctx, "unix", path)
	for wait := time.Millisecond; errors.Is(err, syscall.EAGAIN) && sleep(ctx, wait); wait = min(2*wait, 50*time.Millisecond) {
		nc, err = sockets.DialContext(ctx, "unix", path)
	}
	return nc, bare(err)
}

// sleep waits for d and reports whether ctx lasted so long.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// bare takes off what a dial adds to its error: the address, which DialError says.
func bare(err error) error {
	if oe, ok := errors.AsType[*net.OpError](err); ok && oe.Op == "dial" {
		return oe.Err
	}
	return err
}

// dial opens a connection to t and does the TLS handshake if cfg is not nil. All
// of it together, the name's lookup too, is bound by t.InitTimeout (R-TMO-1,
// R-DNS-3). The error is a *DialError, or wraps exchange.ErrClientGone if ctx ended
// first. Both connections are the same one without TLS.
func (d *Dialer) dial(ctx context.Context, t *Target, cfg *tls.Config) (conn, socket net.Conn, err error) {
	c, cancel := context.WithTimeout(ctx, t.InitTimeout)
	defer cancel()
	if conn, socket, err = d.connect(c, t, cfg); err != nil {
		return nil, nil, dialFailure(ctx, c, t, err)
	}
	return conn, socket, nil
}

// dialFailure is what the failed dial of a call means: ctx is the call's, and wait
// ends with the time that the dial has.
func dialFailure(ctx, wait context.Context, t *Target, err error) error {
	if ctx.Err() != nil {
		return clientGone(ctx)
	}
	return NewDialError(wait, t.Address, err)
}

// connect opens a connection to t and does the TLS handshake if cfg is not nil,
// as long as ctx lasts. The error does not name the address.
func (d *Dialer) connect(ctx context.Context, t *Target, cfg *tls.Config) (conn, socket net.Conn, err error) {
	socket, err = d.Dial(ctx, t.Network, t.Address)
	if err != nil {
		return nil, nil, err
	}
	if cfg == nil {
		return socket, socket, nil
	}
	tc := tls.Client(socket, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		socket.Close()
		return nil, nil, err
	}
	return tc, socket, nil
}

// NewDialError says what it means that a dial to addr ended in err: ctx is what the
// dial had, with its deadline. A name server that does not answer makes a name
// that cannot be resolved (R-DNS-2); only the end of the dial's own time makes a
// timeout of it.
func NewDialError(ctx context.Context, addr string, err error) *DialError {
	late := ctx.Err() != nil
	if _, lookup := errors.AsType[*net.DNSError](err); !lookup {
		// The deadline may strike in the dialer before the context says so.
		ne, ok := errors.AsType[net.Error](err)
		late = late || ok && ne.Timeout()
	}
	return &DialError{Addr: addr, Timeout: late, Err: err}
}

// clientTLS returns the settings for t: the peer's chain and name are verified,
// TLS 1.2 is the least (R-UP-3). base adds roots and certificates; it may be nil.
func clientTLS(t *Target, base *tls.Config, protos ...string) *tls.Config {
	cfg := &tls.Config{}
	if base != nil {
		cfg = base.Clone()
	}
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	cfg.NextProtos = protos
	if t.TLSName != "" {
		cfg.ServerName = t.TLSName
	} else if host, _, err := net.SplitHostPort(t.Address); err == nil && cfg.ServerName == "" {
		cfg.ServerName = host
	}
	return cfg
}

// acquire takes a permit of p for t, waiting as long as a dial may take
// (R-POOL-2), but not beyond by unless that is zero: then it is 504
// connect_timeout, which says nothing about the peer (R-TMO-4).
func acquire(ctx context.Context, p *budget.Permits, t *Target, by time.Time) error {
	err := p.Acquire(ctx, t.patience(by))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, budget.ErrWaited):
		if !by.IsZero() && !time.Now().Before(by) {
			return exchange.Fail(504, "connect_timeout", "%s: all %d connections busy in the time of the attempt", t.Address, t.MaxConns)
		}
		return exchange.Fail(503, "pool_saturated", "%s: all %d connections busy", t.Address, t.MaxConns)
	}
	return clientGone(ctx)
}

func clientGone(ctx context.Context) error {
	return fmt.Errorf("%w: %v", exchange.ErrClientGone, context.Cause(ctx))
}
