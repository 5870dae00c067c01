package proxycache

import (
	"context"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
	"httpjet/store"
)

// refresher makes a kept response anew while others are answered from the old one.
// It is an exchange of its own, without a client.
type refresher struct {
	h      *Handler
	x      *exchange.Exchange
	flight *store.Flight
}

// refresh starts one for what x asks for, unless there is one already, or too many
// of this cache.
func (h *Handler) refresh(x *exchange.Exchange, l *look) {
	c := h.Cache
	flight, leads := c.flights.Join(l.flightKey(x))
	if !leads {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired || c.refreshes == maxRefreshes {
		flight.Land()
		return
	}
	c.refreshes++
	r := &refresher{h: h, x: withoutClient(x), flight: flight}
	c.running.Go(r.run)
}

// run asks the upstream. It ends with the cache, or after refreshTime.
func (r *refresher) run() {
	c := r.h.Cache
	ctx, cancel := context.WithTimeout(c.ctx, refreshTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			r.h.log().Error("panic in a refresh", "vhost", r.x.Route.VHost, "route", r.x.Route.Label, "panic", p, "stack", string(debug.Stack()))
		}
		r.flight.Land()
		c.mu.Lock()
		c.refreshes--
		c.mu.Unlock()
	}()
	req, route := r.x.Req, r.x.Route
	r.x.Reset(&nobody{ctx})
	r.x.Req, r.x.Route, r.x.Began = req, route, time.Now()
	if err := exchange.Run(r.x, r); err != nil && ctx.Err() == nil {
		r.h.log().Debug("refresh", "vhost", route.VHost, "route", route.Label, "err", err)
	}
	r.x.EndAttempt(time.Now())
}

// Serve asks for what is kept, whatever has become of it since.
func (r *refresher) Serve(x *exchange.Exchange) error {
	l := looks.Get().(*look)
	defer l.release()
	l.fill(x)
	e, _ := r.h.find(x, l)
	return r.h.fetch(x, l, e, fetchOptions{flight: r.flight, quiet: true})
}

// withoutClient is an exchange with the request of x for the whole, without what its
// client wants of caches, and with nothing that is valid during the service of x only.
func withoutClient(x *exchange.Exchange) *exchange.Exchange {
	q := x.Req
	for _, s := range [...]*string{&q.ID, &q.Proto, &q.Host, &q.Scheme, &q.Target, &q.Path, &q.Query, &q.Rewritten, &q.UpstreamHost, &q.Media, &q.Listener, &q.User} {
		*s = strings.Clone(*s)
	}
	q.Method, q.Length = "GET", 0
	q.Fields = exchange.Fields{}
	for name, value := range x.Req.Fields.All() {
		if !freshness.Conditions(name) && !exchange.EqualName(name, "Cache-Control") && !exchange.EqualName(name, "Pragma") {
			q.Fields.Add(strings.Clone(name), strings.Clone(value))
		}
	}
	return &exchange.Exchange{Req: q, Route: x.Route}
}

func (h *Handler) log() *slog.Logger {
	if h.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return h.Log
}

// nobody is a wire without a client.
type nobody struct{ ctx context.Context }

func (n *nobody) Read([]byte) (int, error)                  { return 0, io.EOF }
func (n *nobody) Trailers() *exchange.Fields                { return nil }
func (n *nobody) StopRead()                                 {}
func (n *nobody) Head(*exchange.Response, bool, bool) error { return nil }
func (n *nobody) Write(p []byte) (int, error)               { return len(p), nil }
func (n *nobody) Flush() error                              { return nil }
func (n *nobody) End(*exchange.Fields) error                { return nil }
func (n *nobody) Abort(error)                               {}
func (n *nobody) Context() context.Context                  { return n.ctx }
