package extproc

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// attemptDelay is how long an address has before the next one is tried beside it
// (RFC 8305 §5).
const attemptDelay = 250 * time.Millisecond

// dialFunc opens one connection as long as ctx lasts.
type dialFunc func(ctx context.Context, at netip.AddrPort) (net.Conn, error)

// attempt is a dial to one of several addresses.
type attempt struct {
	conn net.Conn
	err  error
}

// race dials addrs in turn and returns the first connection: the next address is
// tried when one has failed, or has not answered for attemptDelay (RFC 8305). If
// all fail the error is that of the last to do so. No dial outlives it.
func race(ctx context.Context, addrs []netip.Addr, port uint16, dial dialFunc) (net.Conn, error) {
	if len(addrs) == 1 { // as nearly always: no goroutine
		return dialNamed(ctx, netip.AddrPortFrom(addrs[0], port), dial)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan attempt, len(addrs))
	running, next := 0, time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			at := netip.AddrPortFrom(addrs[0], port)
			addrs = addrs[1:]
			running++
			go tryAddress(ctx, at, dial, ended)
			if len(addrs) > 0 {
				next.Reset(attemptDelay)
			}
		case a := <-ended:
			running--
			switch {
			case a.err == nil:
				cancel()
				for range running {
					if late := <-ended; late.err == nil {
						late.conn.Close()
					}
				}
				return a.conn, nil
			case len(addrs) > 0 && ctx.Err() == nil:
				next.Reset(0)
			case running == 0:
				return nil, a.err
			case len(addrs) > 0: // out of time: the others end by themselves
				addrs = nil
				next.Stop()
			}
		}
	}
}

// tryAddress is one dial of a race, which joins it.
func tryAddress(ctx context.Context, at netip.AddrPort, dial dialFunc, ended chan<- attempt) {
	conn, err := dialNamed(ctx, at, dial)
	ended <- attempt{conn, err}
}

// dialNamed dials an address that a name has led to, which its error tells.
func dialNamed(ctx context.Context, at netip.AddrPort, dial dialFunc) (net.Conn, error) {
	conn, err := dial(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return conn, nil
}
