// Package proxy serves an exchange from an upstream: it builds the call, makes it
// again with another peer where that is allowed, and relays the reply. It speaks no
// protocol of its own, and tunnels nothing: a WebSocket upgrade goes to another
// handler.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/forward"
	"httpjet/groups"
	"httpjet/tunnels"
)

// Handler proxies to the peers of a group.
type Handler struct {
	Group       *groups.Group
	Forward     forward.Options  // fields of the hop
	HeadTimeout time.Duration    // overrides the target's when > 0 (R-CTX-10)
	Bodies      *budget.Bodies   // holds small bodies; nil: all are streamed
	BodyTimeout time.Duration    // longest pause of a body that is held; 0: any
	Upgrade     exchange.Handler // serves WebSocket upgrades; nil: they are ordinary requests

	AttemptTimeout time.Duration // of each attempt, to the reply head; 0: none
	RequestTimeout time.Duration // of all of them and the pauses between; 0: none
	IdleTimeout    time.Duration // longest pause of a reply's body; 0: any
	Retry          *Retry        // nil: no request is made again once it was sent

	// Where event streams are found while they flow: those of this route, and those of
	// each peer by its ordinal. nil: nowhere.
	Tunnels    *tunnels.Set
	Peers      []*tunnels.Set
	Generation *tunnels.Set // those that began with this generation

	// Answered is told how long an upstream took to the head of its reply; nil: nobody is.
	Answered func(took time.Duration)
}

// methods are those that go on to an upstream.
const methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// Serve answers x from the upstream. The client's method, target and end-to-end
// fields go on as they came.
func (h *Handler) Serve(x *exchange.Exchange) error {
	if h.Upgrade != nil && forward.IsUpgrade(x) {
		return h.Upgrade.Serve(x)
	}
	if m := x.Req.Method; m == "CONNECT" || m == "TRACE" {
		return &exchange.Error{Status: 405, Reason: "method_not_allowed", // R-PIPE-7
			Fields: []exchange.Field{{Name: "Allow", Value: methods}}}
	}
	if n, ok := forward.MaxForwards(x); ok && n == 0 {
		x.Resp.Fields.Set("Allow", methods)
		return x.Start(204)
	}
	hop := hops.Get().(*hop)
	defer hop.release()
	if err := hop.fill(h, x); err != nil {
		return err
	}
	x.MayWait()
	held, err := h.hold(x, &hop.call)
	if err != nil {
		return err
	}
	if held != nil {
		defer held.Close()
	}
	t := tries{h: h, x: x, hop: hop, choice: h.Group.Choice(x), held: held}
	t.prepare()
	defer t.end()
	return failure(t.run())
}

// failure is the answer for a call that nobody can take over.
func failure(err error) error {
	if _, known := errors.AsType[*exchange.Error](err); known || err == nil {
		return err
	}
	if e, ok := errors.AsType[*extproc.DialError](err); ok {
		return e.Failure()
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, exchange.ErrClientGone) {
		return fmt.Errorf("%w: %v", exchange.ErrClientGone, err)
	}
	return err
}

// hop is a call with the memory it needs. Nothing refers to it once the reply is
// closed.
type hop struct {
	call     extproc.Call
	fields   exchange.Fields
	x        *exchange.Exchange
	inform   func(status int, f *exchange.Fields) error // method value, made once
	informed bool                                       // the client has an interim response
}

var hops = sync.Pool{New: func() any {
	h := &hop{}
	h.inform = h.passInterim
	return h
}}

func (p *hop) fill(h *Handler, x *exchange.Exchange) error {
	target, err := h.Forward.Target(x)
	if err != nil {
		return err
	}
	p.x = x
	h.Forward.Fields(x, &p.fields)
	p.call = extproc.Call{Method: x.Req.Method, URI: target, Host: h.Forward.Host(x), Fields: &p.fields,
		Length: x.Req.Length, Inform: p.inform, HeadTimeout: h.HeadTimeout, IdleTimeout: h.IdleTimeout, Now: x.Recent(), Crowded: x.Crowded,
		TakesTrailers: x.Req.Fields.Has("TE") && x.Req.Fields.HasToken("TE", "trailers")}
	if x.Req.Length != 0 {
		p.call.Body, p.call.StopBody, p.call.Trailers = x.Body(), x.StopBody, p.trailers
	}
	return nil
}

// passInterim gives the client a 103 of the upstream.
func (p *hop) passInterim(status int, f *exchange.Fields) error {
	forward.StripPolicy(f)
	p.informed = true
	return p.x.Inform(status, f)
}

func (p *hop) trailers() *exchange.Fields {
	f := p.x.BodyTrailers()
	if f != nil {
		extproc.StripTrailers(f)
		f.DelFunc(func(fd exchange.Field) bool { return p.x.Req.Fields.HasToken("Connection", fd.Name) })
	}
	return f
}

func (p *hop) release() {
	p.fields.Reset()
	p.call, p.x, p.informed = extproc.Call{}, nil, false
	hops.Put(p)
}
