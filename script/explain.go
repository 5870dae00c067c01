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
	for i, own := 0, vars.Len()-len(h.env); i < vars.Len(); i++ {
		f := vars.At(i)
		if i >= own {
			f.Value = "..." // it is set by env, and may be a secret
		}
		x.Detail("%s=%s", f.Name, f.Value)
	}
	if t.filename != "" && x.Route.Kind == exchange.LSAPI {
		for _, s := range x.PHP { // values may be secrets
			by := "php_value"
			if s.Fixed {
				by = "php_admin_value"
			}
			x.Detail("%s %s=...", by, s.Name)
		}
	}
	return h.o.Group.Explain(x)
}
