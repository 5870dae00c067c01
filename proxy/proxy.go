// Package proxy serves an exchange from an upstream: it builds the call, and
// relays the reply. It speaks no protocol of its own, and tunnels nothing: a
// WebSocket upgrade goes to another handler.
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
	"httpjet/streaming"
)

// Handler proxies to the peers of a group.
type Handler struct {
	Group       *groups.Group
	Forward     forward.Options  // fields of the hop
	HeadTimeout time.Duration    // overrides the target's when > 0 (R-CTX-10)
	Bodies      *budget.Bodies   // holds small bodies; nil: all are streamed
	BodyTimeout time.Duration    // longest pause of a body that is held; 0: any
	Upgrade     exchange.Handler // serves WebSocket upgrades; nil: they are ordinary requests

	// Answered is told how long an upstream took to the head of its reply; nil: nobody is.
	Answered func(took time.Duration)
}

// Serve answers x from the upstream. The client's method, target and end-to-end
// fields go on as they came.
func (h *Handler) Serve(x *exchange.Exchange) error {
	if h.Upgrade != nil && forward.IsUpgrade(x) {
		return h.Upgrade.Serve(x)
	}
	if m := x.Req.Method; m == "CONNECT" || m == "TRACE" {
		return &exchange.Error{Status: 405, Reason: "method_not_allowed", // R-PIPE-7
			Fields: []exchange.Field{{Name: "Allow", Value: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}}}
	}
	hop := hops.Get().(*hop)
	defer hop.release()
	if err := hop.fill(h, x); err != nil {
		return err
	}
	body, err := h.hold(x, &hop.call)
	if err != nil {
		return err
	}
	if body != nil {
		defer body.Close()
	}
	choice := h.Group.Choice(x)
	var last error
	for {
		res, err := h.Group.Reserve(&choice)
		if err != nil && last != nil {
			return last // every peer was tried (R-GRP-7)
		}
		if err != nil {
			return err
		}
		err = h.attempt(x, &hop.call, &choice, &res)
		if _, unsent := errors.AsType[*extproc.DialError](err); !unsent {
			return failure(err)
		}
		last = failure(err) // nothing of the body was read: the next peer may have it (R-GRP-6)
	}
}

// attempt makes the call to one peer and relays its reply. The reservation ends
// with it, also in a panic, which says nothing about the peer (R-GRP-8).
func (h *Handler) attempt(x *exchange.Exchange, call *extproc.Call, choice *groups.Choice, res *groups.Reservation) (err error) {
	err = groups.ErrUndecided
	defer func() { res.Release(err) }()
	reply, err := res.Client().Do(x.Context(), call)
	call.Now = time.Time{} // the next peer's turn comes later
	if err != nil {
		return err
	}
	if h.Answered != nil && reply.Took > 0 {
		h.Answered(reply.Took)
	}
	res.Answered(reply.Status)
	forward.StripPolicy(&reply.Fields)
	res.Remember(x, choice, &reply.Fields)
	return streaming.Relay(x, reply)
}

// failure is the answer for a call that nobody can take over.
func failure(err error) error {
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
	call   extproc.Call
	fields exchange.Fields
	x      *exchange.Exchange
	inform func(status int, f *exchange.Fields) error // method value, made once
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
		Length: x.Req.Length, Inform: p.inform, HeadTimeout: h.HeadTimeout, Now: x.Recent(),
		TakesTrailers: x.Req.Fields.Has("TE") && x.Req.Fields.HasToken("TE", "trailers")}
	if x.Req.Length != 0 {
		p.call.Body, p.call.StopBody, p.call.Trailers = x.Body(), x.StopBody, p.trailers
	}
	return nil
}

// passInterim gives the client a 103 of the upstream.
func (p *hop) passInterim(status int, f *exchange.Fields) error {
	forward.StripPolicy(f)
	return p.x.Inform(status, f)
}

func (p *hop) trailers() *exchange.Fields {
	f := p.x.BodyTrailers()
	if f != nil {
		extproc.StripTrailers(f)
	}
	return f
}

func (p *hop) release() {
	p.call.Close() // of a body that the last peer has left
	p.fields.Reset()
	p.call, p.x = extproc.Call{}, nil
	hops.Put(p)
}
