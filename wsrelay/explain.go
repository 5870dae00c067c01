package wsrelay

import (
	"httpjet/exchange"
	"httpjet/forward"
)

// Explain notes the handshake that would go to the backend, and who might get it
// (exchange.Explainer).
func (h *Handler) Explain(x *exchange.Exchange) error {
	f, target, err := h.handshake(x)
	if err != nil {
		return err
	}
	forward.Explain(x, "GET", target, h.Forward.Host(x), f, 0)
	if err := h.Group.Explain(x); err != nil {
		return err
	}
	if _, ok := h.Group.Client(0).(Dialer); !ok { // a group has one protocol
		return errUnsupported()
	}
	return nil
}
