package extproc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
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

// dialer opens connections with the keepalive of R-POOL-5; Go sets TCP_NODELAY.
var dialer = net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
	Enable: true, Idle: 60 * time.Second, Interval: 15 * time.Second}}

// dial opens a connection to t and does the TLS handshake if cfg is not nil. All
// of it together is bound by t.InitTimeout (R-TMO-1). The error is a *DialError,
// or wraps exchange.ErrClientGone if ctx ended first. Both connections are the
// same one without TLS.
func dial(ctx context.Context, t *Target, cfg *tls.Config) (conn, socket net.Conn, err error) {
	c, cancel := context.WithTimeout(ctx, t.InitTimeout)
	defer cancel()
	conn, socket, err = connect(c, t, cfg)
	switch {
	case err == nil:
		return conn, socket, nil
	case ctx.Err() != nil:
		return nil, nil, clientGone(ctx)
	}
	late := c.Err() != nil
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		late = true // the deadline may strike in the dialer before the context says so
	}
	return nil, nil, &DialError{Addr: t.Address, Timeout: late, Err: err}
}

// connect opens a connection to t and does the TLS handshake if cfg is not nil,
// as long as ctx lasts. The error does not name the address.
func connect(ctx context.Context, t *Target, cfg *tls.Config) (conn, socket net.Conn, err error) {
	socket, err = dialer.DialContext(ctx, t.Network, t.Address)
	if err != nil {
		if oe, ok := errors.AsType[*net.OpError](err); ok && oe.Op == "dial" {
			err = oe.Err
		}
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
// (R-POOL-2).
func acquire(ctx context.Context, p *budget.Permits, t *Target) error {
	err := p.Acquire(ctx, t.InitTimeout)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, budget.ErrWaited):
		return exchange.Fail(503, "pool_saturated", "%s: all %d connections busy", t.Address, t.MaxConns)
	}
	return clientGone(ctx)
}

func clientGone(ctx context.Context) error {
	return fmt.Errorf("%w: %v", exchange.ErrClientGone, context.Cause(ctx))
}
