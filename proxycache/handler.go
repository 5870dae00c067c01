package proxycache

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
	"httpjet/store"
)

// Handler answers from its cache, or has Next answer.
type Handler struct {
	Cache   *Cache
	Next    exchange.Handler // asks the upstream
	Rules   freshness.Rules
	MaxBody int64        // longest body that is kept, bytes
	Log     *slog.Logger // of refreshes; nil: nowhere

	LookedUp store.LookedUp // is told what look-ups for requests took; nil: nobody
}

// look is a look-up with the memory it needs.
type look struct {
	key   []byte // primary key
	sel   []byte // values of selecting fields
	wants freshness.Directives

	conditional, ranged bool // the request has conditions, or a Range
	tunnel              bool // it wants to become something else than HTTP
	hides               bool // the upstream does not see all of its fields

	timed store.Timed // look-ups with this memory
}

var looks = sync.Pool{New: func() any { return &look{} }}

func (l *look) release() {
	l.wants = freshness.Directives{}
	looks.Put(l)
}

// fill reads what the request asks of a cache. Fields are passed once: most requests
// have none of those that matter.
func (l *look) fill(x *exchange.Exchange) {
	l.key = appendKey(l.key[:0], &x.Req, x.Req.Sent())
	l.sel = l.sel[:0]
	l.conditional, l.ranged, l.tunnel, l.hides = false, false, false, false
	control := false
	for i := range x.Req.Fields.Len() {
		name := x.Req.Fields.At(i).Name
		switch len(name) {
		case 5:
			l.ranged = l.ranged || exchange.EqualName(name, "Range")
		case 6:
			control = control || exchange.EqualName(name, "Pragma")
		case 7:
			l.tunnel = l.tunnel || exchange.EqualName(name, "Upgrade")
		case 10:
			l.hides = l.hides || exchange.EqualName(name, "Connection") && freshness.HidesFields(&x.Req.Fields)
		case 13:
			control = control || exchange.EqualName(name, "Cache-Control")
			l.conditional = l.conditional || exchange.EqualName(name, "If-None-Match")
		case 17:
			l.conditional = l.conditional || exchange.EqualName(name, "If-Modified-Since")
		}
	}
	if control {
		l.wants = freshness.ParseRequest(&x.Req.Fields)
	}
}

// appendKey appends the primary key (R-PCACHE-4). The virtual host and the context are
// those of the cache.
func appendKey(b []byte, q *exchange.Request, target string) []byte {
	b = append(b, q.Scheme...)
	b = append(b, 0)
	b = append(exchange.AppendLower(b, q.Host), 0)
	b = append(b, q.UpstreamHost...)
	b = append(b, 0)
	return append(b, target...)
}

// flightKey is what requests have in common of which one asks for all: the key, and
// the values that have selected the latest response.
func (l *look) flightKey(x *exchange.Exchange) string {
	return string(l.key) + "\x00" + string(l.sel)
}

// kept is what the cache knows of a stored response beside its bytes.
type kept struct {
	life   freshness.Life
	head   freshness.Head
	said   said
	target string // as the client asked for it
}

// find returns the latest response that matches, nil for none, and then whether there
// are others for the same target.
func (h *Handler) find(x *exchange.Exchange, l *look) (e *store.Entry, others bool) {
	var names []string // that sel was made with
	l.sel = l.sel[:0]
	selected := false
	for _, e := range h.Cache.store.Find(l.key) {
		if e.State() != store.Live {
			continue
		}
		if !selected || !sameNames(names, e.Vary) {
			var ok bool
			if l.sel, ok = freshness.AppendSelecting(l.sel[:0], e.Vary, &x.Req.Fields); !ok {
				continue
			}
			names, selected = e.Vary, true
		}
		if string(l.sel) == e.Variant {
			return e, true
		}
		others = true
	}
	return nil, others
}

// timedFind is find for a request, which is counted.
func (h *Handler) timedFind(x *exchange.Exchange, l *look) (e *store.Entry, others bool) {
	n := l.timed.Next()
	if h.LookedUp == nil || n == 0 {
		return h.find(x, l)
	}
	began := time.Now()
	e, others = h.find(x, l)
	h.LookedUp(time.Since(began), n)
	return e, others
}

func sameNames(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Serve answers x: from the cache, or by one request upstream for all that ask for the
// same at once.
func (h *Handler) Serve(x *exchange.Exchange) error {
	switch m := x.Req.Method; {
	case x.Route.Foreign: // R-LSN-4: both ways
		return h.bypass(x, freshness.Bypass)
	case m != "GET" && m != "HEAD":
		x.Use(&passage{h: h, fwd: freshness.Method})
		return h.Next.Serve(x)
	case x.Req.Length != 0 || x.Route.Foreign:
		return h.bypass(x, freshness.Bypass)
	}
	l := looks.Get().(*look)
	defer l.release()
	l.fill(x)
	switch {
	case l.tunnel:
		return h.Next.Serve(x)
	case l.hides || l.wants.Any(freshness.NoStore):
		return h.bypass(x, freshness.Bypass)
	}
	return h.serve(x, l)
}

// serve looks up, and waits for others that ask for the same at most maxWait in all.
func (h *Handler) serve(x *exchange.Exchange, l *look) error {
	now := x.Recent()
	waited := time.Duration(0)
	for {
		o := fetchOptions{fwd: freshness.URIMiss, collapsed: waited > 0}
		e, others := h.timedFind(x, l)
		alone := x.Req.Method == "HEAD" || l.ranged || l.conditional
		switch {
		case e != nil:
			life := &e.Info.(*kept).life
			use, byRequest := life.Decide(&l.wants, now)
			if use != freshness.Validate {
				if use == freshness.Refresh {
					h.refresh(x, l)
				}
				ready := e.Head() // before it is used: nil for the first request
				h.Cache.store.Use(e)
				return h.answer(x, l, e, &answerOptions{now: now, collapsed: waited > 0, ready: ready})
			}
			o.fwd = freshness.StaleMiss
			if byRequest {
				o.fwd = freshness.RequestMiss
			}
			// Nobody else can use the answer to who insists on a new one, or a response
			// that is never fresh.
			alone = byRequest || life.Validate || life.Lifetime <= life.Age
		case others:
			o.fwd = freshness.VaryMiss
		}
		if l.wants.Any(freshness.OnlyIfCached) { // RFC 9111 §5.2.1.7
			return exchange.Fail(504, "not_cached", "only-if-cached, and nothing is kept that may be used")
		}
		if alone || waited >= maxWait || h.Cache.passes.has(l.key, now) {
			return h.fetch(x, l, e, o)
		}
		flight, leads := h.Cache.flights.Join(l.flightKey(x))
		if leads {
			o.flight = flight
			return h.fetch(x, l, e, o)
		}
		began := time.Now()
		flight.Wait(x.Context(), maxWait-waited)
		if err := x.Context().Err(); err != nil {
			return fmt.Errorf("%w: while another request asked for the same: %v", exchange.ErrClientGone, err)
		}
		now = time.Now()
		waited += max(now.Sub(began), 1)
	}
}

// bypass has Next answer, and keeps nothing of it.
func (h *Handler) bypass(x *exchange.Exchange, fwd freshness.Fwd) error {
	x.Use(&passage{fwd: fwd})
	return h.Next.Serve(x)
}

// passage is the filter of requests that the cache takes no part in, but for what they
// change upstream.
type passage struct {
	h   *Handler // nil: they change nothing
	fwd freshness.Fwd
}

// Head invalidates what an unsafe request has changed, and tells of the passage.
func (p *passage) Head(x *exchange.Exchange) bool {
	if p.h != nil && freshness.Invalidates(x.Req.Method, x.Resp.Status) {
		p.h.invalidate(x)
	}
	s := freshness.Status{Fwd: p.fwd}
	x.Resp.Fields.Add("Cache-Status", string(s.Append(nil)))
	return false
}

// Wrap is never called: Head wants no body.
func (p *passage) Wrap(next exchange.Sink) exchange.Sink { return next }

// invalidate drops what a successful unsafe request has changed: its target, and what
// Location and Content-Location name of the same origin (RFC 9111 §4.4).
func (h *Handler) invalidate(x *exchange.Exchange) {
	q := &x.Req
	h.Cache.invalidate(string(appendKey(nil, q, q.Sent())))
	for _, name := range [...]string{"Location", "Content-Location"} {
		if target, ok := freshness.Affected(q.Scheme, q.Host, q.Sent(), x.Resp.Fields.Get(name)); ok {
			h.Cache.invalidate(string(appendKey(nil, q, target)))
		}
	}
}

// Explain notes what is kept for x, and what would be sent upstream
// (exchange.Explainer).
func (h *Handler) Explain(x *exchange.Exchange) error {
	l := looks.Get().(*look)
	defer l.release()
	l.fill(x)
	e, others := h.find(x, l)
	switch m := x.Req.Method; {
	case x.Route.Foreign || m != "GET" && m != "HEAD" || x.Req.Length != 0 || l.tunnel || l.hides || l.wants.Any(freshness.NoStore):
		x.Note("cache", "the proxy cache takes no part in this request")
	case e == nil && others:
		x.Note("cache", "responses are kept for this target, but none for the values of the fields that select them")
	case e == nil:
		x.Note("cache", "nothing is kept for %s", strings.ReplaceAll(string(l.key), "\x00", " "))
	default:
		use, _ := e.Info.(*kept).life.Decide(&l.wants, time.Now())
		what := [...]string{"it answers", "it is stale, but the client takes it", "it is stale, and answers while it is made anew", "it is validated first"}[use]
		x.Note("cache", "a response with status %d is kept: %s; freshness left: %s", e.Status, what, e.Info.(*kept).life.TTL(time.Now()).Truncate(time.Second))
	}
	return x.ServeOrExplain(h.Next)
}
