package extproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// peerConn is a connection that only knows if it is closed.
type peerConn struct {
	net.Conn
	at     netip.AddrPort
	closed bool
}

func (c *peerConn) Close() error { c.closed = true; return nil }

// R-DNS-3, RFC 8305: addresses are dialled in turn, 250 ms apart or as soon as one
// has failed; the first connection wins and the others are closed.
func TestRace(t *testing.T) {
	// Each address is what its dial does: "ok DELAY", "refused DELAY".
	f := func(limit time.Duration, want string, took time.Duration, dialled int, plan ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var addrs []netip.Addr
			for i := range plan {
				addrs = append(addrs, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
			}
			var mu sync.Mutex
			var conns []*peerConn
			tries, open := 0, 0
			count := func(dials, now int) {
				mu.Lock()
				defer mu.Unlock()
				tries, open = tries+dials, open+now
			}
			began := time.Now()
			dial := func(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
				count(1, 1)
				defer count(0, -1)
				what, delay, _ := strings.Cut(plan[at.Addr().As4()[3]], " ")
				d, err := time.ParseDuration(delay)
				if err != nil {
					t.Error(err)
				}
				if what != "deaf" {
					if !sleep(ctx, d) {
						return nil, ctx.Err()
					}
				} else if sleep(context.WithoutCancel(ctx), d) {
					what = "ok" // connected as it was cancelled
				}
				if what == "refused" {
					return nil, errors.New("refused")
				}
				c := &peerConn{at: at}
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, c)
				return c, nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			conn, err := race(ctx, addrs, 80, dial)
			got := fmt.Sprint(err)
			if err == nil {
				got = conn.(*peerConn).at.String()
			}
			if got != want || time.Since(began) != took || tries != dialled || open != 0 {
				t.Errorf("%v: %s after %v, %d dials, %d of them left open", plan, got, time.Since(began), tries, open)
			}
			for _, c := range conns {
				if c.closed == (conn == net.Conn(c)) {
					t.Errorf("%v: connection to %v closed: %v", plan, c.at, c.closed)
				}
			}
		})
	}
	const ms = time.Millisecond
	f(time.Minute, "192.0.2.0:80", 10*ms, 1, "ok 10ms")
	f(time.Minute, "192.0.2.0:80: refused", 10*ms, 1, "refused 10ms")
	f(time.Minute, "192.0.2.0:80", 240*ms, 1, "ok 240ms", "ok 1ms")
	f(time.Minute, "192.0.2.1:80", 260*ms, 2, "ok 1h", "ok 10ms", "ok 1ms")
	f(time.Minute, "192.0.2.1:80", 30*ms, 2, "refused 10ms", "ok 20ms")
	f(time.Minute, "192.0.2.0:80", 300*ms, 2, "ok 300ms", "ok 100ms")
	f(time.Minute, "192.0.2.2:80", 600*ms, 3, "ok 10s", "ok 5s", "ok 100ms", "ok 1ms")
	f(time.Minute, "192.0.2.0:80", 400*ms, 3, "ok 400ms", "refused 1ms", "ok 200ms") // the failure moves the third up
	f(time.Minute, "192.0.2.2:80: refused", 3*ms, 3, "refused 1ms", "refused 1ms", "refused 1ms")
	f(time.Minute, "192.0.2.1:80", 400*ms, 2, "deaf 400ms", "ok 20ms")
	f(time.Second, "192.0.2.0:80: context deadline exceeded", time.Second, 2, "ok 1h", "refused 1ms")
	f(100*ms, "192.0.2.0:80: context deadline exceeded", 100*ms, 1, "ok 1h", "ok 1ms")
}
