package status

import (
	"net/netip"
	"slices"
	"time"

	"httpjet/apps"
	"httpjet/extproc"
	"httpjet/generation"
	"httpjet/xmlconf"
)

// State is the process at one moment, as its owner knows it.
type State struct {
	Generation *generation.Generation // in force; nil: none yet
	Version    string
	Started    time.Time
	Draining   bool              // the server is stopping
	Reload     Reload            // the last one
	Listeners  []Listener        // open ones
	Finished   uint64            // requests
	Errors     map[string]uint64 // of the proxy path, by token
	Classes    [6]uint64         // responses by class of status; 0 and 1 are empty
	Active     int               // requests being served
	Open       int               // client connections
	Tunnels    int               // upgraded ones among them
	Leaving    []Leaving         // those that will be closed
	ByAge      []Tunnels         // open ones, the oldest generation first
	Apps       []apps.Info       // that the server starts
	Caches     func() Caches     // nil: not known

	Certificates []Certificate // that clients are shown
	Management   Config        // of the management listener; Addr "": there is none
}

// The documents below are what machines read. Names stay; what is new is added
// (R-API-7).

// Status is /api/v1/status (R-API-4).
type Status struct {
	Version    string            `json:"version"`
	Generation Generation        `json:"generation"`
	Uptime     int64             `json:"uptime_s"`
	Draining   bool              `json:"draining"`
	Listeners  []Listener        `json:"listeners"`
	Requests   Requests          `json:"requests"`
	Conns      Connections       `json:"connections"`
	Caches     map[string]any    `json:"caches"`
	Relays     int               `json:"websocket_relays"`
	Errors     map[string]uint64 `json:"errors"` // of the proxy path, by token; those that have occurred
	Leaving    []Leaving         `json:"tunnels_leaving"`
	Tunnels    []Tunnels         `json:"tunnels"` // WebSockets and event streams, by generation
	Apps       []Application     `json:"applications"`

	Certificates []Certificate `json:"certificates"`
}

// Certificate is one that clients are shown, of a file or issued.
type Certificate struct {
	Name     string     `json:"name"`            // the first that it is for
	Source   string     `json:"source"`          // file or acme
	NotAfter *time.Time `json:"not_after"`       // null: not issued yet
	Error    string     `json:"error,omitempty"` // of the last order
}

// Application is one that the server starts (autoStart).
type Application struct {
	Scope    string `json:"scope"`
	Name     string `json:"name"`
	State    string `json:"state"` // waiting, starting, ready, failed, ending or ended
	PIDs     []int  `json:"pids"`
	Restarts uint64 `json:"restarts"`
	LastExit string `json:"last_exit,omitempty"` // how the last process ended
	Fault    string `json:"fault,omitempty"`     // why it does not serve
}

// Leaving is open tunnels whose route or peer is another one now: they are closed
// when their time is over (R-WS-7).
type Leaving struct {
	Name    string    `json:"name"`
	Open    int       `json:"open"`
	CloseAt time.Time `json:"close_at"`
}

// Tunnels are the open WebSocket relays and event streams that began with a generation
// (R-RELOAD-7).
type Tunnels struct {
	Generation uint64 `json:"generation"`
	Open       int    `json:"open"`
}

// Generation is the configuration in force.
type Generation struct {
	Number   uint64    `json:"number"`
	Hash     string    `json:"hash"` // SHA-256 of the input files
	LoadedAt time.Time `json:"loaded_at"`
	Reload   Reload    `json:"last_reload"`
	Degraded []string  `json:"degraded"` // what it does not serve
}

// Reload is how the last reload ended: success, failure, or none before the first.
type Reload struct {
	Result string     `json:"result"`
	Error  string     `json:"error,omitempty"`
	At     *time.Time `json:"at,omitempty"`
}

// Listener is an address that accepts clients.
type Listener struct {
	Name      string   `json:"name"`
	Address   string   `json:"address"`
	Secure    bool     `json:"secure"`
	Protocols []string `json:"protocols"` // h1, h2, h2c
}

// Requests are those of clients; ByClass counts responses.
type Requests struct {
	Total   uint64            `json:"total"`
	Active  int               `json:"active"`
	ByClass map[string]uint64 `json:"by_class"`
}

// Connections are those of clients.
type Connections struct {
	Active int `json:"active"`
}

// Upstreams is /api/v1/upstreams (R-API-5). No address, URL or credential is in it.
type Upstreams struct {
	Groups []Group `json:"groups"`
}

// Health is /healthz: the groups without their pools (R-API-3).
type Health struct {
	Status string  `json:"status"` // ok or degraded
	Groups []Group `json:"groups"`
}

// Group is one upstream group.
type Group struct {
	Scope      string  `json:"scope"`
	Name       string  `json:"name"`
	Kind       string  `json:"kind"`
	Protocol   string  `json:"protocol"`
	Policy     string  `json:"policy"`
	Routes     []Route `json:"routes"`
	Check      *Check  `json:"health_check"`
	Failovers  uint64  `json:"failovers"`
	NoUpstream uint64  `json:"no_upstream"`
	Peers      []Peer  `json:"peers"`
}

// Route is who sends requests to a group.
type Route struct {
	VHost        string   `json:"vhost"`
	URI          string   `json:"uri"`
	Retries      int      `json:"retries"`       // further attempts
	RetryMethods []string `json:"retry_methods"` // of the requests that may have them

	RateLimit *RateLimit `json:"rate_limit"` // of each client; null: none
}

// RateLimit is a clientRateLimit of a context.
type RateLimit struct {
	PerMinute int `json:"requests_per_minute"`
	Burst     int `json:"burst"`
}

// Check is the health check of a group.
type Check struct {
	Mode     string  `json:"mode"`
	Interval float64 `json:"interval_s"`
	Timeout  float64 `json:"timeout_s"`
	Rise     int     `json:"rise"`
	Fall     int     `json:"fall"`
}

// Peer is one member of a group, known by its ordinal.
type Peer struct {
	Ordinal    int    `json:"ordinal"`
	Weight     int    `json:"weight"`
	State      string `json:"state"` // cold, eligible, down, broken or draining
	Healthy    bool   `json:"healthy"`
	Successes  int    `json:"consecutive_successes"`
	Failed     int    `json:"consecutive_failures"`
	Probe      *Probe `json:"last_probe"`
	History    string `json:"probe_history,omitempty"` // of the latest 30, that last one last: + success, - failure
	Dial       string `json:"dial_breaker"`            // closed, open or half_open
	Response   string `json:"response_breaker"`        // likewise
	Active     int    `json:"active"`
	Selections uint64 `json:"selections"`
	Attempts   uint64 `json:"attempts"` // that ended
	Failures   uint64 `json:"failures"` // of them: all but success and canceled
	Draining   bool   `json:"draining"`
	Pool       *Pool  `json:"pool,omitempty"`
}

// Probe is how the last health check of a peer ended.
type Probe struct {
	At     time.Time `json:"at"`
	Result string    `json:"result"` // success or failure
	Reason string    `json:"reason,omitempty"`
}

// Pool is the connections to a peer.
type Pool struct {
	Idle    int `json:"idle"`
	Busy    int `json:"busy"`
	Dialing int `json:"dialing"`
	Waiting int `json:"waiting"` // requests that wait for one
}

// Settings is /api/v1/config: what holds, whether it is written or not (R-API-6).
// Durations are seconds, sizes bytes, names those of the configuration.
type Settings struct {
	Generation uint64         `json:"generation"`
	Hash       string         `json:"hash"`
	Tuning     map[string]any `json:"tuning"`
	Management *Management    `json:"management"` // null: there is none
	Tracing    map[string]any `json:"tracing"`
}

// Management is where the management listener is, and for whom.
type Management struct {
	Address string         `json:"address"`
	Allowed []netip.Prefix `json:"allowedCIDRs"`
	Pprof   bool           `json:"pprof"`
}

// Readiness is /readyz (R-API-2).
type Readiness struct {
	Status  string   `json:"status"` // ready or not_ready
	Reasons []Reason `json:"reasons,omitempty"`
}

// Reason is why the server is not ready: starting, draining or no_eligible_peer.
type Reason struct {
	VHost  string `json:"vhost,omitempty"`
	Route  string `json:"route,omitempty"`
	Reason string `json:"reason"`
}

// statusOf makes the document of a state.
func statusOf(s *State, now time.Time) Status {
	out := Status{Version: s.Version, Uptime: int64(now.Sub(s.Started) / time.Second), Draining: s.Draining,
		Listeners: s.Listeners, Requests: Requests{Total: s.Finished, Active: s.Active, ByClass: map[string]uint64{}},
		Conns: Connections{s.Open}, Caches: map[string]any{}, Relays: s.Tunnels}
	if out.Listeners == nil {
		out.Listeners = []Listener{}
	}
	out.Leaving = append([]Leaving{}, s.Leaving...)
	out.Tunnels = append([]Tunnels{}, s.ByAge...)
	if s.Caches != nil {
		c := s.Caches()
		out.Caches["page_cache"], out.Caches["proxy_cache"] = c.PageCache, c.ProxyCache
	}
	out.Certificates = firstToEnd(s.Certificates)
	out.Apps = []Application{}
	for _, a := range s.Apps {
		out.Apps = append(out.Apps, Application{Scope: a.Scope, Name: a.Name, State: a.State.String(),
			PIDs: append([]int{}, a.PIDs...), Restarts: a.Restarts, LastExit: a.LastExit, Fault: a.Fault})
	}
	out.Errors = map[string]uint64{}
	for token, n := range s.Errors {
		if n > 0 {
			out.Errors[token] = n
		}
	}
	for class, name := range [...]string{2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"} {
		if name != "" {
			out.Requests.ByClass[name] = s.Classes[class]
		}
	}
	out.Generation = Generation{Reload: s.Reload, Degraded: []string{}}
	if g := s.Generation; g != nil {
		out.Generation.Number, out.Generation.Hash, out.Generation.LoadedAt = g.Number, g.Hash, g.Built.UTC()
		out.Generation.Degraded = append(out.Generation.Degraded, g.Degraded...)
	}
	return out
}

// mostCertificates bounds the list of a document.
const mostCertificates = 500

// firstToEnd returns those that need a look first: what is not issued yet, then what ends
// first.
func firstToEnd(list []Certificate) []Certificate {
	until := func(c Certificate) time.Time {
		if c.NotAfter == nil {
			return time.Time{}
		}
		return *c.NotAfter
	}
	list = slices.SortedStableFunc(slices.Values(list), func(a, b Certificate) int { return until(a).Compare(until(b)) })
	return append([]Certificate{}, list[:min(len(list), mostCertificates)]...)
}

// groupsOf makes the documents of the groups with a scope and a name, "" for any.
func groupsOf(g *generation.Generation, scope, name string, pools bool) []Group {
	out := []Group{}
	if g == nil {
		return out
	}
	for _, u := range g.Upstreams() {
		if scope != "" && u.Scope != scope || name != "" && u.Name != name {
			continue
		}
		d := Group{Scope: u.Scope, Name: u.Name, Kind: u.Kind, Protocol: u.Protocol, Policy: u.Policy, Routes: []Route{},
			Check: checkOf(u.Check), Failovers: u.Failovers, NoUpstream: u.NoUpstream, Peers: []Peer{}}
		for _, r := range u.Routes {
			route := Route{VHost: r.VHost, URI: r.URI, Retries: r.Retries, RetryMethods: append([]string{}, r.RetryMethods...)}
			if r.Rate != nil {
				route.RateLimit = &RateLimit{r.Rate.PerMinute, r.Rate.Burst}
			}
			d.Routes = append(d.Routes, route)
		}
		for i := range u.Peers {
			d.Peers = append(d.Peers, peerOf(i, &u.Peers[i], pools))
		}
		out = append(out, d)
	}
	return out
}

func checkOf(h *xmlconf.HealthCheck) *Check {
	if h == nil {
		return nil
	}
	return &Check{h.Mode, h.Interval.Seconds(), h.Timeout.Seconds(), h.Rise, h.Fall}
}

func peerOf(i int, p *generation.Peer, pools bool) Peer {
	d := Peer{Ordinal: i, Weight: p.Weight, State: p.Standing(), Healthy: p.Healthy, Successes: p.Successes, Failed: p.Failed,
		Dial: p.Dial, Response: p.Response, Active: p.Active, Selections: p.Picks, Draining: p.Draining}
	d.Attempts, d.Failures = p.Attempts()
	if l := p.Probe; l != nil {
		d.Probe = &Probe{l.At.UTC(), "success", l.Reason}
		d.History = l.History()
		if !l.OK {
			d.Probe.Result = "failure"
		}
	}
	if pools {
		d.Pool = poolOf(p.Pool)
	}
	return d
}

func poolOf(s extproc.PoolStats) *Pool { return &Pool{s.Idle, s.Busy, s.Dialing, s.Waiting} }

// healthOf says whether every peer is healthy and no breaker is open.
func healthOf(g *generation.Generation) Health {
	h := Health{"ok", groupsOf(g, "", "", false)}
	for _, group := range h.Groups {
		for _, p := range group.Peers {
			if !p.Healthy || p.Dial == "open" || p.Response == "open" {
				h.Status = "degraded"
			}
		}
	}
	return h
}

// readinessOf says whether requests should come here.
func readinessOf(s *State) Readiness {
	var reasons []Reason
	switch {
	case s.Generation == nil:
		reasons = append(reasons, Reason{"", "", "starting"})
	case s.Draining:
		reasons = append(reasons, Reason{"", "", "draining"})
	}
	if s.Generation != nil {
		for _, u := range s.Generation.Unready() {
			reasons = append(reasons, Reason{u.VHost, u.Route, "no_eligible_peer"})
		}
	}
	if len(reasons) > 0 {
		return Readiness{"not_ready", reasons}
	}
	return Readiness{Status: "ready"}
}

// configOf makes the document of what holds.
func configOf(s *State) Settings {
	out := Settings{Tuning: map[string]any{}, Tracing: map[string]any{"mode": "passthrough", "trustInbound": true}}
	if g := s.Generation; g != nil {
		out.Generation, out.Hash, out.Tuning = g.Number, g.Hash, xmlconf.Effective(&g.Config.Server.Tuning)
		if t := g.Config.Server.Tracing; t != nil {
			out.Tracing = xmlconf.Effective(t)
		}
	}
	if _, r, err := s.Management.resolve(); err == nil {
		out.Management = &Management{s.Management.Addr, r.allow, r.pprof}
	}
	return out
}
