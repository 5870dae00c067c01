package generation

import (
	"strconv"
	"time"

	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/metrics"
	"httpjet/probes"
	"httpjet/xmlconf"
)

// peerKey is the identity of a peer's verdict and of the clock of its probes
// (R-GRP-9). Its health check is part of it: with another one it begins cold.
type peerKey struct {
	scope, name      string
	kind             extproc.Kind
	scheme           extproc.Scheme
	network, address string
	tlsName, tlsID   string
	check            probes.Check
	health           groups.Health
}

// countKey is what the probes of a peer are counted by, whatever its address and
// its check (R-MET-2, R-MET-3).
type countKey struct {
	scope, name string
	ordinal     int
}

// verdict leases the verdict of a peer, whose pool is that of t and of client. With
// a health check it is probed once the generation is published, by the clock that is
// returned. A load balancer shares the verdicts of its workers, and they are probed
// once.
func (b *builder) verdict(pe peer, t extproc.Target, client extproc.Client) (*groups.Verdict, *probes.Clock) {
	check, health := healthCheck(pe.owner)
	key := peerKey{t.Scope, t.Name, t.Kind, t.Scheme, t.Network, t.Address, t.TLSName, t.TLSID, check, health}
	v, release := b.kept.Verdicts.Acquire(key, func() *groups.Verdict { return groups.NewVerdict(health, time.Now) })
	b.g.leases = append(b.g.leases, release)
	if health == (groups.Health{}) {
		return v, nil
	}
	clock, release := b.kept.Clocks.Acquire(key, func() *probes.Clock { return &probes.Clock{} })
	b.g.leases = append(b.g.leases, release)
	if b.probed[key] {
		return v, clock
	}
	prober, ok := client.(probes.Prober)
	if !ok {
		panic("BUG: a client without probes has a health check")
	}
	b.probed[key] = true
	counts, release := b.kept.Counts.Acquire(countKey{t.Scope, t.Name, pe.i}, func() *probes.Counts { return &probes.Counts{} })
	b.g.leases = append(b.g.leases, release)
	b.peers = append(b.peers, probes.Peer{Scope: t.Scope, Group: b.label(pe.owner), Ordinal: pe.i, Check: check,
		Client: prober, Verdict: v, Clock: clock, Counts: counts})
	return v, clock
}

// healthCheck is how the peers of p are probed; zero without an element.
func healthCheck(p *processor) (check probes.Check, health groups.Health) {
	h := p.decl.HealthCheck
	if h == nil || p.kind != xmlconf.KindProxy { // elsewhere it is a load error
		return check, health
	}
	check = probes.Check{Interval: h.Interval, Timeout: h.Timeout}
	if h.Mode != "connect" {
		check.Probe = extproc.Probe{Method: h.Mode, Path: h.Path, Host: h.Host}
		check.Probe.Status, _ = strconv.Atoi(h.ExpectedStatus) // 2xx: 0
	}
	return check, groups.Health{Rise: h.Rise, Fall: h.Fall}
}

// buildProbes makes the scheduler of the peers that have a health check.
func (b *builder) buildProbes() {
	if b.fs.Failed() {
		b.peers = nil // it is not published, and what is wrong may be their times
	}
	b.g.peers = b.peers
	b.g.probes = probes.New(probes.Options{Peers: b.peers, Permits: b.kept.Probes, Log: b.opt.Log})
}

// StartProbes begins to probe: called when g is published, after the probes of the
// generation before have ended.
func (g *Generation) StartProbes() { g.probes.Start() }

// StopProbes ends the probes of g, and returns when none is in flight. It may be
// called more than once.
func (g *Generation) StopProbes() { g.probes.Stop() }

// Probed returns what was counted of the peers that are probed.
func (g *Generation) Probed() []metrics.Probed {
	out := make([]metrics.Probed, len(g.peers))
	for i, p := range g.peers {
		out[i] = metrics.Probed{Scope: p.Scope, Group: p.Group, Peer: p.Ordinal,
			Succeeded: p.Counts.Succeeded.Load(), Failed: p.Counts.Failed.Load(), Skipped: p.Counts.Skipped.Load(),
			Up: p.Counts.Up.Load(), Down: p.Counts.Down.Load()}
	}
	return out
}
