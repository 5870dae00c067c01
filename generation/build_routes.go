package generation

import (
	"httpjet/exchange"
	"httpjet/metrics"
)

// routeKey is the identity of a route's counters.
type routeKey struct{ vhost, label string }

// unmatched is the label of what was refused before a route was chosen.
const unmatched = "unmatched"

// buildRoutes leases the counters of all routes, so that a finished exchange only
// looks its own up.
func (b *builder) buildRoutes() {
	b.g.routes = map[routeKey]*metrics.Route{}
	b.route(routeKey{"", unmatched})
	for _, h := range b.cfg.VHosts {
		for _, label := range []string{unmatched, "static", "script"} {
			b.route(routeKey{h.Name, label})
		}
		if h.Conf == nil {
			continue
		}
		if v := b.hosts[h.Name]; v != nil && len(v.Targets) > 0 {
			b.route(routeKey{h.Name, "[P]"})
		}
		for _, c := range h.Conf.Contexts {
			if c.Enabled {
				b.route(routeKey{h.Name, c.URI})
			}
		}
		for _, ws := range h.Conf.WebSockets {
			b.route(routeKey{h.Name, ws.URI})
		}
	}
}

func (b *builder) route(key routeKey) {
	if b.g.routes[key] != nil {
		return
	}
	r, release := b.kept.Routes.Acquire(key, func() *metrics.Route { return &metrics.Route{} })
	b.g.leases = append(b.g.leases, release)
	b.g.routes[key] = r
	b.g.routed = append(b.g.routed, metrics.Routed{VHost: key.vhost, Label: key.label, Route: r})
}

// routeOf returns the counters of the route of x.
func (g *Generation) routeOf(x *exchange.Exchange) *metrics.Route {
	if r := g.routes[routeKey{x.Route.VHost, x.Route.Label}]; r != nil {
		return r
	}
	if r := g.routes[routeKey{x.Route.VHost, unmatched}]; r != nil {
		return r
	}
	return g.routes[routeKey{"", unmatched}]
}

// Routed returns the counters of all routes, in the order of the file.
func (g *Generation) Routed() []metrics.Routed { return g.routed }
