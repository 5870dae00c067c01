package generation

import (
	"sync"
	"time"

	"httpjet/contexts"
	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/proxy"
	"httpjet/wsrelay"
	"httpjet/xmlconf"
)

// maxAnyHosts is how many hosts that requests name a generation knows at once, over all
// virtual hosts (R-P-5).
const maxAnyHosts = 1024

// anyHosts are the hosts to which rules with [P] send that no configuration names: where
// both allowDynamicProxy and allowAdHocProxy are written, requests make them (R-P-4).
// Their number is bounded; the one that was asked for longest ago, and has nothing to
// do, makes room for a new one. Their pools are leased as all others are: equal hosts of
// two generations share theirs.
type anyHosts struct {
	kept  *Kept
	trust trust
	most  int

	mu    sync.Mutex
	list  map[anyHostKey]*anyHost
	clock uint64 // of look-ups
	ended bool
}

type anyHostKey struct{ vhost, address string }

type anyHost struct {
	target  *contexts.Target
	group   *groups.Group
	release func()
	used    uint64
}

// anyHost makes the function by which the rules of h reach hosts that requests name.
// What is the same for all of them is built here.
func (b *builder) anyHost(h *host) func(scheme, authority string) (*contexts.Target, error) {
	if b.anyHosts == nil {
		b.anyHosts = &anyHosts{kept: b.kept, trust: b.trust, most: maxAnyHosts, list: map[anyHostKey]*anyHost{}}
		b.g.leases = append(b.g.leases, b.anyHosts.end)
	}
	p := adHocProcessor(h.Name, "any host")
	hop := b.buildHop(h, p, nil)
	same := proxy.Handler{Forward: hop, Answered: b.kept.Metrics.Answered, Bodies: b.kept.Bodies, Retry: b.buildRetry(retryOf(p, nil)),
		Tunnels: b.routeTunnels(h, p.decl.Name, ""), Generation: b.open}
	buildTimes(&same, p, nil)
	all, name := b.anyHosts, h.Name
	return func(scheme, authority string) (*contexts.Target, error) {
		address, err := xmlconf.ParseAddress(scheme+"://"+authority, xmlconf.WebSocketAddress)
		if err != nil {
			return nil, err
		}
		return all.find(name, address, p.decl, &same)
	}
}

// find returns the target of an address, made if there is none.
func (a *anyHosts) find(vhost string, address xmlconf.Address, d *xmlconf.ExtProcessor, same *proxy.Handler) (*contexts.Target, error) {
	key := anyHostKey{vhost, address.Scheme + "://" + address.Address}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		panic("BUG: a request asks a generation that has ended")
	}
	a.clock++
	if e := a.list[key]; e != nil {
		e.used = a.clock
		return e.target, nil
	}
	if len(a.list) >= a.most && !a.makeRoom() {
		return nil, exchange.Fail(503, "pool_saturated", "[P] to %s: all %d hosts that requests may name are busy", key.address, a.most)
	}
	t := extproc.Target{Scope: "vhost:" + vhost, Name: d.Name, Kind: extproc.KindProxy, Scheme: schemes[address.Scheme],
		Network: address.Network, Address: address.Address, TLSName: address.TLSName,
		MaxConns: d.MaxConns, InitTimeout: d.InitTimeout, KeepAlive: d.PcKeepAliveTimeout, HeadTimeout: d.ResponseTimeout}
	base, id := a.trust.of(t.Scheme)
	t.TLSID = id
	client, release := a.kept.Proxies.Acquire(t, func() ProxyClient { return newProxyClient(&a.kept.Dialer, t, base) })
	e := &anyHost{release: release, used: a.clock}
	e.group = groups.New(groups.Options{Scope: t.Scope, Name: d.Name, State: groups.NewState(1, nil, groups.Breaker{}),
		Peers: []groups.Peer{{ID: key.address, Client: client}}})
	h := *same
	h.Group = e.group
	h.Upgrade = &wsrelay.Handler{Group: e.group, Forward: h.Forward, InitTimeout: d.InitTimeout, IdleTimeout: d.WSIdleTimeout, Tunnels: h.Tunnels}
	e.target = &contexts.Target{Handler: &h, Serves: exchange.Proxy, Scope: t.Scope, Group: d.Name, Secure: isSecure(t.Scheme)}
	a.list[key] = e
	return e.target, nil
}

// makeRoom gives up the host that nobody has asked for longest, and reports whether one
// was free. A request that has been given it and has not come to it yet finds a pool
// that keeps no connection. a.mu is held.
func (a *anyHosts) makeRoom() bool {
	var oldest anyHostKey
	var free *anyHost
	for k, e := range a.list {
		if (free == nil || e.used < free.used) && e.group.Snapshot()[0].Active == 0 {
			oldest, free = k, e
		}
	}
	if free == nil {
		return false
	}
	delete(a.list, oldest)
	free.release()
	return true
}

// end gives all leases up, when the generation has no request any more.
func (a *anyHosts) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for _, e := range a.list {
		e.release()
	}
	clear(a.list)
}

// adHocProcessor has the settings of a processor that nothing declares (R-P-3).
func adHocProcessor(vhost, name string) *processor {
	return &processor{adHoc: true, kind: xmlconf.KindProxy, runs: xmlconf.KindProxy, scope: "vhost:" + vhost, decl: &xmlconf.ExtProcessor{
		Name: "[P] " + name, MaxConns: 100, InitTimeout: 10 * time.Second, ResponseTimeout: time.Minute, PcKeepAliveTimeout: time.Minute,
		ProxyOptions: xmlconf.ProxyOptions{PreserveHost: true, ForwardedFor: "auto", ForwardedProto: true, ForwardedHost: true, AddVia: true}}}
}

// reportAnyHost says what it means that requests name hosts.
func (b *builder) reportAnyHost(h *host, at xmlconf.Place) {
	b.fs.Warn("W-REWRITE", at, "restrict by RewriteCond what the host may be, or leave allowAdHocProxy out",
		"virtual host %q: with allowDynamicProxy and allowAdHocProxy whoever sends a request may reach any address that this server reaches", h.Name)
}
