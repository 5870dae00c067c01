package proxy

import (
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
)

// heldMax is the longest declared body, in bytes, that is complete before a peer is
// chosen, so that clients that send a few bytes slowly, or none, occupy no
// connection of anybody (G63). It is what may be held of any request (R-STREAM-3);
// longer bodies, and those of unknown length, which may be live, are streamed.
const heldMax = 64 << 10

// hold reads a small body of x into memory and makes it the call's; nil if it
// streams. The caller closes the Spool when the call is over.
func (h *Handler) hold(x *exchange.Exchange, call *extproc.Call) (*budget.Spool, error) {
	if h.Bodies == nil || call.Length <= 0 || call.Length > heldMax {
		return nil, nil
	}
	s, err := h.Bodies.Hold(budget.Paced(call.Body, h.BodyTimeout), call.Length)
	if err != nil {
		return nil, extproc.BodyError(err)
	}
	// The client has done its part: nothing stops its connection any more.
	call.Body, call.StopBody, call.Trailers, call.Now = s.Reader(), nil, nil, time.Time{}
	return s, nil
}
