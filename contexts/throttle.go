package contexts

import (
	"net/netip"
	"strconv"
	"time"

	"httpjet/access"
	"httpjet/docroot"
	"httpjet/exchange"
)

// Throttle bounds what one client may ask for and how fast bodies move (LSX 2.6).
type Throttle struct {
	Clients *access.Clients // outlives the generation
	Limits  access.ClientLimits
}

// throttle applies the limits of clients to an exchange whose route is chosen: it
// waits for its second, and its bodies move at their rate. Trusted clients are exempt,
// and so are tunnels once they are open.
func (t *Table) throttle(x *exchange.Exchange, v *VHost, r *route) error {
	h := t.Throttle
	if h == nil || x.Explaining() || x.Background || !x.Req.Client.IsValid() || access.Exempt(x.Req.Client) || t.trusts(x.Req.Client, v) {
		return nil
	}
	if err := h.delay(x, r.kind != exchange.Files || v.isScript(docroot.Suffix(x.Req.Path))); err != nil {
		return err
	}
	if h.Limits.In > 0 && x.Req.Length != 0 {
		client := x.Req.Client
		x.Pace = func(n int) error { return h.spend(x, client, true, n) }
	}
	if h.Limits.Out > 0 {
		x.UseAtWire(&slowly{h: h, x: x, client: x.Req.Client})
	}
	return nil
}

// limitRate takes a token of the client of x (clientRateLimit, R-RATE-4); nil limits
// nothing.
func limitRate(x *exchange.Exchange, r *access.Rate) error {
	if r == nil || x.Explaining() || x.Background {
		return nil
	}
	wait, ok := r.Take(x.Req.Client, x.Recent())
	if ok {
		return nil
	}
	e := exchange.Fail(429, "rate_limited", "clientRateLimit of %s: over %d requests a minute", r.Options().Scope, r.Options().PerMinute)
	e.Fields = []exchange.Field{{Name: "Retry-After", Value: strconv.Itoa(int((wait + time.Second - 1) / time.Second))}}
	return e
}

// rateOf is the limit of the context that x goes to. A WebSocket map stands before
// contexts, but not outside their limits.
func (v *VHost) rateOf(x *exchange.Exchange, r *route) *access.Rate {
	c := r.context
	if c == nil && r.kind == exchange.WebSocket {
		c, _ = v.contexts.find(x.Req.Path, x.Req.Method)
	}
	if c == nil {
		return nil
	}
	return c.Rate
}

// delay waits until the exchange is in a second that has room for it.
func (h *Throttle) delay(x *exchange.Exchange, dynamic bool) error {
	wait, ok := h.Clients.Delay(x.Req.Client, &h.Limits, dynamic, time.Now())
	if !ok {
		e := exchange.Fail(429, "rate_limited", "too many requests of one client")
		e.Fields = []exchange.Field{{Name: "Retry-After", Value: strconv.Itoa(int(wait/time.Second) + 1)}}
		return e
	}
	return pause(x, wait)
}

func (h *Throttle) spend(x *exchange.Exchange, client netip.Addr, in bool, n int) error {
	return pause(x, h.Clients.Spend(client, &h.Limits, in, n, time.Now()))
}

// pause waits, or returns an error when the client has gone.
func pause(x *exchange.Exchange, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	x.MayWait()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-x.Context().Done():
		return exchange.ErrClientGone
	}
}

// slowly is a filter that passes the body on at a rate.
type slowly struct {
	h      *Throttle
	x      *exchange.Exchange
	client netip.Addr
	next   exchange.Sink
}

// Head is that of exchange.Filter.
func (s *slowly) Head(*exchange.Exchange) bool { return true }

// Wrap is that of exchange.Filter.
func (s *slowly) Wrap(next exchange.Sink) exchange.Sink {
	s.next = next
	return s
}

// maxPiece is how much is passed on without a look at the rate.
const maxPiece = 16 << 10

func (s *slowly) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		piece := p[:min(len(p), maxPiece)]
		if err := s.h.spend(s.x, s.client, false, len(piece)); err != nil {
			return n, err
		}
		m, err := s.next.Write(piece)
		if n += m; err != nil {
			return n, err
		}
		if p = p[len(piece):]; len(p) > 0 || len(piece) == maxPiece {
			if err := s.next.Flush(); err != nil { // what has waited is not to wait for more
				return n, err
			}
		}
	}
	return n, nil
}

func (s *slowly) Flush() error { return s.next.Flush() }
func (s *slowly) Close() error { return s.next.Close() }
