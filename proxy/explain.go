package proxy

import (
	"httpjet/exchange"
	"httpjet/forward"
)

// Explain notes the request that would go to the upstream, and who might get it
// (exchange.Explainer).
func (h *Handler) Explain(x *exchange.Exchange) error {
	if h.Upgrade != nil && forward.IsUpgrade(x) {
		x.Note("upgrade", "the request is a WebSocket handshake: it becomes a tunnel")
		return x.ServeOrExplain(h.Upgrade)
	}
	hop := hops.Get().(*hop)
	defer hop.release()
	if err := hop.fill(h, x); err != nil {
		return err
	}
	forward.Explain(x, hop.call.Method, hop.call.URI, hop.call.Host, &hop.fields, hop.call.Length)
	return h.Group.Explain(x)
}
