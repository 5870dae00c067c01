package generation

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"slices"
	"strconv"
	"strings"

	"httpjet/extproc"
	"httpjet/fastcgi"
	"httpjet/gateway"
	"httpjet/groups"
	"httpjet/lsapi"
	"httpjet/xmlconf"
)

// groupKey is the identity of a group's state (R-GRP-9): a group whose key changed
// starts fresh, but with the verdicts of the peers that stayed.
type groupKey struct {
	scope, name    string
	kind           xmlconf.ProcessorKind
	peers, weights string
	policy         groups.Policy
	breaker        groups.Breaker
}

// policies are the values of loadBalancePolicy.
var policies = func() map[string]groups.Policy {
	m := map[string]groups.Policy{}
	for p := groups.PrimaryFirst; p <= groups.Sticky; p++ {
		m[p.String()] = p
	}
	return m
}()

// group returns the group of a processor, which all that name it share.
func (b *builder) group(p *processor) *groups.Group {
	if p.group == nil {
		p.group = b.buildGroup(p)
	}
	return p.group
}

// buildGroup leases what a group consists of: a client, a verdict and a seat for
// each peer, and the state of the whole.
func (b *builder) buildGroup(p *processor) *groups.Group {
	d := p.decl
	o := groups.Options{Scope: p.scope, Name: d.Name, Policy: policies[d.LoadBalancePolicy], MaxInFlight: d.MaxInFlight,
		RetryTimeout: d.RetryTimeout, SlowStart: d.SlowStart, MinHealthy: d.MinHealthy, Cookie: stickyCookie(d)}
	if r := d.PeerRateLimit; r != nil {
		o.Rate = groups.Rate{PerSecond: r.ReqPerSec, Burst: r.Burst}
	}
	if p.kind == xmlconf.KindLoadBalancer {
		o.Policy = groups.WeightedLeastActive // LiteSpeed's least load (R-GRP-10)
	}
	key := groupKey{scope: p.scope, name: d.Name, kind: p.kind, policy: o.Policy, breaker: breaker(d.CircuitBreaker)}
	if o.Policy == groups.Sticky {
		o.Key = b.kept.cookieKey()
	}
	u := &upstream{scope: p.scope, name: b.label(p), policy: or(d.LoadBalancePolicy, "primary-first"), decl: d, runs: p.runs}
	if p.kind == xmlconf.KindLoadBalancer {
		u.policy, u.decl = "weighted-least-active", p.peers[0].owner.decl
	}
	for i, pe := range p.peers {
		t, a := pe.target(), pe.owner.decl.Targets[pe.i]
		peer := groups.Peer{ID: a.Scheme + "://" + a.Address, Client: b.peerClient(pe, t), Drained: slices.Contains(d.Drained, i)}
		check, _ := healthCheck(pe.owner)
		m := member{client: peer.Client, address: a, probe: check.Probe, started: pe.starts()}
		peer.Verdict, m.clock = b.verdict(pe, t, peer.Client)
		peer.Seat = b.seat(seatKey{p.scope, d.Name, p.kind, t.Name + " " + peer.ID})
		u.peers = append(u.peers, m)
		o.Peers = append(o.Peers, peer)
		key.peers += strconv.Quote(t.Name) + strconv.Quote(peer.ID)
	}
	for _, w := range d.AddressWeights {
		key.weights += strconv.Itoa(w) + ","
	}
	s, release := b.kept.Groups.Acquire(key, func() *groups.State {
		return groups.NewState(len(p.peers), d.AddressWeights, key.breaker)
	})
	b.g.leases = append(b.g.leases, release)
	o.State = s
	u.group = groups.New(o)
	p.up = u
	b.g.upstreams = append(b.g.upstreams, u)
	if b.g.labels == nil {
		b.g.labels = map[[2]string]bool{}
	}
	b.g.labels[[2]string{u.scope, u.name}] = true
	return u.group
}

// seat leases the seat of a peer.
func (b *builder) seat(key seatKey) *groups.Seat {
	s, release := b.kept.Seats.Acquire(key, func() *groups.Seat { return &groups.Seat{} })
	b.g.leases = append(b.g.leases, release)
	return s
}

// label is the name of a processor, with its type if another one in its scope has
// the name: kinds are apart, labels are not.
func (b *builder) label(p *processor) string {
	name := p.decl.Name
	for b.g.labels[[2]string{p.scope, name}] {
		name = strings.ToLower(p.decl.Type) + "::" + name
	}
	return name
}

// peerClient leases the client of a peer. Connections to a started application are
// its own: one that replaces it has other clients.
func (b *builder) peerClient(pe peer, t extproc.Target) extproc.Client {
	if !pe.starts() {
		return b.client(t, pe.owner.tls)
	}
	a := b.startOf(pe, t)
	t.Start = b.startKey(pe)
	return b.application(t, a.Dial)
}

// client leases the client of a target; base is the TLS that t names by its TLSID.
func (b *builder) client(t extproc.Target, base *tls.Config) extproc.Client {
	if t.Kind != extproc.KindProxy {
		return b.application(t, b.kept.Dialer.Dial)
	}
	if base == nil { // of a host that nothing describes
		base, t.TLSID = b.trust.of(t.Scheme)
	}
	c, release := b.kept.Proxies.Acquire(t, func() ProxyClient { return newProxyClient(&b.kept.Dialer, t, base) })
	b.g.leases = append(b.g.leases, release)
	return c
}

// application leases the client of an application.
func (b *builder) application(t extproc.Target, dial func(ctx context.Context, network, address string) (net.Conn, error)) extproc.Client {
	c, release := b.kept.Apps.Acquire(t, func() *gateway.Client {
		if t.Kind == extproc.KindLSAPI {
			o := gateway.Options{Bodies: b.kept.Bodies, Counts: &b.kept.LSAPI, Places: &b.kept.Places, Dial: dial}
			if b.kept.Metrics != nil {
				o.Timed = b.kept.Metrics.LSAPITimes()
			}
			return lsapi.New(t, o)
		}
		return fastcgi.New(t, fastcgi.Options{Bodies: b.kept.Bodies, Counts: &b.kept.FastCGI, Places: &b.kept.Places, Dial: dial})
	})
	b.g.leases = append(b.g.leases, release)
	return c
}

// breaker is the response breaker of a processor; off without an element.
func breaker(c *xmlconf.CircuitBreaker) (out groups.Breaker) {
	if c == nil || c.FailureThreshold == 0 {
		return out
	}
	out = groups.Breaker{Threshold: c.FailureThreshold, Open: c.OpenDuration, HalfOpen: c.HalfOpenMax}
	for _, w := range c.FailOn {
		switch n, _ := strconv.Atoi(w); {
		case w == "transport":
			out.FailOn.Transport = true
		case w == "timeout":
			out.FailOn.Timeout = true
		case w == "5xx":
			for status := 500; status <= 599; status++ {
				out.FailOn.AddStatus(status)
			}
		case n >= 500 && n <= 599: // others are load errors
			out.FailOn.AddStatus(n)
		}
	}
	return out
}

// stickyCookie is the cookie that a policy looks at, with the attributes of one
// that is set.
func stickyCookie(d *xmlconf.ExtProcessor) groups.Cookie {
	out := groups.Cookie{Name: d.CookieName, Path: "/", SameSite: "Lax", HTTPOnly: true}
	if c := d.StickyCookie; c != nil {
		out.Path, out.SameSite, out.HTTPOnly, out.MaxAge = c.Path, c.SameSite, c.HTTPOnly, c.MaxAge
		switch c.Secure {
		case "1":
			out.Secure = groups.SecureAlways
		case "0":
			out.Secure = groups.SecureNever
		}
	}
	return out
}

// cookieKey is the secret of sticky tokens, which lives as long as the process:
// a restart chooses anew for every client.
func (k *Kept) cookieKey() []byte {
	k.secretOnce.Do(func() {
		k.secret = make([]byte, 32)
		rand.Read(k.secret) // never fails
	})
	return k.secret
}

// reportSticky tells of two sticky groups behind paths of one host that a client
// would send one cookie to (R-LB-8).
func (b *builder) reportSticky(h *host) {
	type use struct {
		c *xmlconf.Context
		p *processor
	}
	var seen []use
	for _, c := range h.Conf.Contexts {
		p := h.procs.find(xmlconf.KindProxy, c.Handler)
		if !c.Enabled || !strings.EqualFold(c.Type, "proxy") || p == nil || p.group == nil || p.decl.LoadBalancePolicy != "sticky" {
			continue
		}
		for _, s := range seen {
			one, other := stickyCookie(s.p.decl), stickyCookie(p.decl)
			if s.p != p && one.Name == other.Name && (strings.HasPrefix(one.Path, other.Path) || strings.HasPrefix(other.Path, one.Path)) {
				b.fs.Warn("W-STICKY-COOKIE", p.decl.At("loadBalancePolicy"), "write another cookieName, or a stickyCookie path for each",
					"extProcessor %q: its cookie %s is that of %q too: a client of both is moved at each request", p.decl.Name, other.Name, s.p.decl.Name)
				return
			}
		}
		seen = append(seen, use{c, p})
	}
}
