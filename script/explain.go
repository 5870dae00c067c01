package script

import "httpjet/exchange"

// Explain notes the CGI variables that the application would get, and who might
// run it (exchange.Explainer).
func (h *Handler) Explain(x *exchange.Exchange) error {
	t, err := h.target(x)
	if err != nil {
		return err
	}
	x.Note("application", "%s", t.name)
	var vars exchange.Fields
	h.variables(&vars, x, t)
	for name, value := range vars.All() {
		x.Detail("%s=%s", name, value)
	}
	return h.o.Group.Explain(x)
}
