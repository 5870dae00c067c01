package generation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"httpjet/access"
	"httpjet/contexts"
	"httpjet/extproc"
	"httpjet/gateway"
	"httpjet/groups"
	"httpjet/metrics"
	"httpjet/probes"
	"httpjet/xmlconf"
)

// seatKey is the identity of a peer's seat: its place in the file, its health check
// and all settings of its group may change (R-DRAIN-2).
type seatKey struct {
	scope, name string // of the group
	kind        xmlconf.ProcessorKind
	peer        string
}

// upstream is a group with what status and metrics tell of it.
type upstream struct {
	scope, name string // its labels: together unique
	policy      string
	decl        *xmlconf.ExtProcessor
	runs        xmlconf.ProcessorKind
	group       *groups.Group
	peers       []member // by ordinal
	routes      []route
}

// member is a peer of an upstream beside what its group knows.
type member struct {
	started bool // httpjet starts the application
	client  extproc.Client
	address xmlconf.Address
	probe   extproc.Probe // of its health check; zero: connect
	clock   *probes.Clock // of its health check; nil: none
}

// route is who sends requests to an upstream.
type route struct {
	host    *contexts.VHost
	context *contexts.Context // nil: a script handler or a map
	label   string
	needed  bool // readiness depends on it (R-API-2)
	retry   *xmlconf.Retry
}

// serves reports whether requests can reach the upstream by this way at all.
func (r *route) serves() bool {
	return !r.host.Suspended && r.host.Closed == "" && (r.context == nil || r.context.Closed == "")
}

// use notes that requests of a host go to p; context is nil for script handlers
// and maps. Only proxy contexts and maps decide readiness.
func (b *builder) use(h *host, p *processor, context *contexts.Context, label string, needed bool) {
	if p.up != nil {
		p.up.routes = append(p.up.routes, route{host: h.out, context: context, label: label, needed: needed})
	}
}

// Upstream is a group as status shows it (R-API-5). It tells no address.
type Upstream struct {
	Scope, Name    string
	Kind, Protocol string // proxy, fcgi, lsapi; http, https, h2, h2s, fastcgi, lsapi
	Policy         string
	Routes         []Route
	Check          *xmlconf.HealthCheck // nil: none; of a balancer, its first worker's
	Failovers      uint64
	NoUpstream     uint64
	Peers          []Peer
}

// Route is a virtual host and the uri of a context or map of it, or a suffix.
type Route struct {
	VHost, URI   string
	Retries      int                 // further attempts
	RetryMethods []string            // of the requests that may have them
	Rate         *access.RateOptions // of each client; nil: no limit
}

// Peer is one member of an Upstream.
type Peer struct {
	groups.PeerState
	Pool  extproc.PoolStats
	Probe *probes.Last // nil: none has ended
}

// Upstreams returns the groups as they are, those of the server first, then by
// virtual host, by name.
func (g *Generation) Upstreams() []Upstream {
	out := make([]Upstream, 0, len(g.upstreams))
	for _, u := range g.upstreams {
		out = append(out, u.view())
	}
	slices.SortFunc(out, func(a, b Upstream) int { // "server" is less than "vhost:..."
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (u *upstream) view() Upstream {
	v := Upstream{Scope: u.scope, Name: u.name, Kind: "proxy", Protocol: "http", Policy: u.policy, Check: u.decl.HealthCheck}
	if u.runs == xmlconf.KindFastCGI {
		v.Kind, v.Protocol = "fcgi", "fastcgi"
	} else if u.runs == xmlconf.KindLSAPI {
		v.Kind, v.Protocol = "lsapi", "lsapi"
	} else if len(u.peers) > 0 && u.peers[0].address.Scheme != "" {
		v.Protocol = u.peers[0].address.Scheme
	}
	for _, r := range u.routes {
		route := Route{VHost: r.host.Name, URI: r.label}
		if r.retry != nil && r.retry.Retries > 0 {
			route.Retries, route.RetryMethods = r.retry.Retries, r.retry.RetryMethods
		}
		if r.context != nil && r.context.Rate != nil {
			o := r.context.Rate.Options()
			route.Rate = &o
		}
		v.Routes = append(v.Routes, route)
	}
	v.Failovers, v.NoUpstream = u.group.Totals()
	states := u.group.Snapshot()
	v.Peers = make([]Peer, len(states))
	for i, s := range states {
		p := Peer{PeerState: s, Pool: u.pool(i)}
		if c := u.peers[i].clock; c != nil {
			p.Probe = c.Last()
		}
		v.Peers[i] = p
	}
	return v
}

// pool returns the state of the connections to the peer i.
func (u *upstream) pool(i int) extproc.PoolStats {
	if c, ok := u.peers[i].client.(interface{ Stats() extproc.PoolStats }); ok {
		return c.Stats()
	}
	return extproc.PoolStats{}
}

// Unready says why an upstream keeps the server from being ready.
type Unready struct{ VHost, Route string }

// Unready returns the proxy contexts and WebSocket maps whose group has no eligible
// peer (R-API-2). One that a breaker tries counts as eligible, a cold one does not.
func (g *Generation) Unready() (out []Unready) {
	for _, u := range g.upstreams {
		states := u.group.Snapshot()
		if slices.ContainsFunc(states, func(p groups.PeerState) bool { return p.Eligible() }) {
			continue
		}
		for i := range u.routes {
			if r := &u.routes[i]; r.needed && r.serves() {
				out = append(out, Unready{r.host.Name, r.label})
			}
		}
	}
	return out
}

// Groups returns what metrics tell of the groups.
func (g *Generation) Groups() metrics.Groups {
	out := metrics.Groups{Reasons: causes, Outcomes: results, All: make([]metrics.Group, 0, len(g.upstreams))}
	for _, u := range g.upstreams {
		states := u.group.Snapshot()
		m := metrics.Group{Scope: u.scope, Name: u.name, Peers: make([]metrics.Peer, len(states))}
		m.Failovers, m.NoUpstream = u.group.Totals()
		for i := range states {
			p, pool := &states[i], u.pool(i)
			m.Peers[i] = metrics.Peer{Healthy: p.Healthy, Draining: p.Draining, Active: p.Active, Selections: p.Picks,
				Replies: p.Replies, Failures: p.Failures[:], Attempts: p.Results[:], Dial: breakerStates[p.Dial], Response: breakerStates[p.Response],
				DialTrips: p.DialTrips, ResponseTrips: p.ResponseTrips, Retries: p.Repeats, RateLimited: p.RateLimited, Timed: p.Timed, Took: p.Took,
				Idle: pool.Idle, Busy: pool.Busy, Dialing: pool.Dialing}
		}
		out.All = append(out.All, m)
	}
	return out
}

// The words of metrics for causes and results.
var (
	causes  = words(groups.Cause(groups.Causes))
	results = words(groups.Result(groups.Results))
)

// words are the names of all values below n.
func words[T interface {
	~uint8
	String() string
}](n T) (all []string) {
	for i := range n {
		all = append(all, i.String())
	}
	return all
}

// LiteSpeedApps returns the groups as the names of LiteSpeed's exporter tell of them.
func (g *Generation) LiteSpeedApps() []metrics.LiteSpeedApp {
	out := make([]metrics.LiteSpeedApp, 0, len(g.upstreams))
	for _, u := range g.upstreams {
		v := u.view()
		a := metrics.LiteSpeedApp{Type: map[string]string{"fcgi": "FCGI", "lsapi": "LSAPI"}[v.Kind], Name: v.Name, MaxConns: u.decl.MaxConns * len(v.Peers)}
		if a.Type == "" {
			a.Type = "PROXY"
		}
		a.VHost, _ = strings.CutPrefix(v.Scope, "vhost:")
		if v.Scope == "server" {
			a.VHost = ""
		}
		for _, p := range v.Peers {
			a.Idle, a.Busy, a.Waiting = a.Idle+p.Pool.Idle, a.Busy+p.Pool.Busy, a.Waiting+p.Pool.Waiting
			a.Requests += p.Picks
		}
		out = append(out, a)
	}
	return out
}

// Rates returns the limits of clients, of the server, of virtual hosts, of contexts.
func (g *Generation) Rates() []metrics.Rate {
	out := make([]metrics.Rate, 0, len(g.rates))
	for _, r := range g.rates {
		out = append(out, metrics.Rate{Scope: r.Options().Scope, Rejected: r.Rejected(), Tracked: r.Tracked()})
	}
	return out
}

// FastCGI returns what metrics tell of all FastCGI applications; n is what was counted.
func (g *Generation) FastCGI(n *gateway.Counts) metrics.Gateway {
	return g.gateway(xmlconf.KindFastCGI, n)
}

// LSAPI is FastCGI for applications behind LSAPI.
func (g *Generation) LSAPI(n *gateway.Counts) metrics.Gateway {
	return g.gateway(xmlconf.KindLSAPI, n)
}

func (g *Generation) gateway(kind xmlconf.ProcessorKind, n *gateway.Counts) metrics.Gateway {
	out := metrics.Gateway{Requests: map[string]uint64{}, Poisoned: map[string]uint64{}, StderrBytes: n.Stderr.Load(),
		Unfit: n.Unfit.Load(), Resets: n.Resets.Load(), Redials: n.Redials.Load()}
	for i := range n.Requests {
		out.Requests[gateway.Outcomes[i]] = n.Requests[i].Load()
	}
	for i := range n.Poisoned {
		out.Poisoned[gateway.Reasons[i]] = n.Poisoned[i].Load()
	}
	seen := map[extproc.Client]bool{} // several groups may share one
	for _, u := range g.upstreams {
		if u.runs != kind {
			continue
		}
		for _, p := range u.peers {
			if c, ok := p.client.(interface{ Stats() extproc.PoolStats }); ok && !seen[p.client] {
				seen[p.client] = true
				s := c.Stats()
				out.Idle, out.Busy, out.Dialing = out.Idle+s.Idle, out.Busy+s.Busy, out.Dialing+s.Dialing
			}
		}
	}
	return out
}

var breakerStates = map[string]int{"closed": 0, "open": 1, "half_open": 2}

// Drained is the outcome of a run-time drain, or of its end.
type Drained struct {
	Scope, Group string
	Ordinal      int
	Address      string // of the peer
	Draining     bool   // now
	Active       int    // requests that are with it; 0: it may be stopped
	Eligible     int    // peers of the group that can have requests
}

// Drain sets or clears the run-time drain of a peer (R-DRAIN-2). The group is named
// as "group" or "scope/group" where another one has its name; the peer by ordinal or
// address. An error is for people.
func (g *Generation) Drain(group, peer string, drain bool) (Drained, error) {
	u, err := g.findUpstream(group)
	if err != nil {
		return Drained{}, err
	}
	i, err := u.findPeer(peer)
	if err != nil {
		return Drained{}, err
	}
	u.group.Drain(i, drain)
	states := u.group.Snapshot()
	d := Drained{Scope: u.scope, Group: u.name, Ordinal: i, Address: u.peers[i].address.Address, Draining: states[i].Draining, Active: states[i].Active}
	for _, s := range states {
		if s.Eligible() {
			d.Eligible++
		}
	}
	if !drain && states[i].Fixed {
		return d, fmt.Errorf("peer %d of %s/%s is drained by addressDrain in the configuration: remove it there and reload", i, u.scope, u.name)
	}
	return d, nil
}

func (g *Generation) findUpstream(name string) (*upstream, error) {
	var found []*upstream
	for _, u := range g.upstreams {
		if u.scope+"/"+u.name == name {
			return u, nil
		}
		if u.name == name {
			found = append(found, u)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		var names []string
		for _, u := range g.upstreams {
			names = append(names, u.scope+"/"+u.name)
		}
		if meant := xmlconf.Suggest(name, names); meant != "" {
			return nil, fmt.Errorf("no group %q is in use (is %q meant?)", name, meant)
		}
		return nil, fmt.Errorf("no group %q is in use: httpjet status lists them", name)
	}
	var names []string
	for _, u := range found {
		names = append(names, u.scope+"/"+u.name)
	}
	return nil, fmt.Errorf("%d groups are called %q: name one of %s", len(found), name, strings.Join(names, ", "))
}

// findPeer accepts an ordinal, or an address as the configuration has it.
func (u *upstream) findPeer(name string) (int, error) {
	n, err := strconv.Atoi(name)
	if err != nil {
		n = -1
		use := xmlconf.ProxyAddress
		if u.runs != xmlconf.KindProxy {
			use = xmlconf.AppAddress
		}
		if a, err := xmlconf.ParseAddress(name, use); err == nil {
			n = slices.IndexFunc(u.peers, func(m member) bool { return m.address.Network == a.Network && m.address.Address == a.Address })
		}
	}
	if n < 0 || n >= len(u.peers) {
		return 0, fmt.Errorf("%s/%s has no peer %q: write an ordinal from 0 to %d, or an address as in the configuration", u.scope, u.name, name, len(u.peers)-1)
	}
	return n, nil
}
