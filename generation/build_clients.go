package generation

import (
	"slices"
	"strings"
	"time"

	"httpjet/access"
	"httpjet/contexts"
	"httpjet/xmlconf"
)

// buildClients sets what one client address may have, and who may say which address
// a client has before its first byte (PROXY protocol).
func (b *builder) buildClients() {
	p := &b.cfg.Server.Security.PerClient
	l := access.ClientLimits{Soft: p.SoftLimit, Hard: p.HardLimit, BanBad: p.BlockBadReq,
		Grace: time.Duration(p.GracePeriod) * time.Second, Ban: time.Duration(p.BanPeriod) * time.Second,
		Static: p.StaticReqPerSec, Dynamic: p.DynReqPerSec, Out: roundUp(p.OutBandwidth, 4<<10), In: roundUp(p.InBandwidth, 1<<10)}
	b.g.Limits.Clients = l
	if l.Requests() {
		b.g.table.Throttle = &contexts.Throttle{Clients: &b.kept.Clients, Limits: l}
	}
	t := &b.cfg.Server.Tuning
	b.g.table.Rate = b.rate("global", b.cfg.Server.Security.ClientRateLimit)
	var trusted strings.Builder
	for entry := range strings.FieldsFuncSeq(strings.Join(t.ProxyProtocol, " "), func(c rune) bool { return c == ',' || c <= ' ' }) {
		trusted.WriteString(strings.TrimRight(entry, "Tt") + "T\n")
	}
	if trusted.String() == "" {
		return
	}
	list, problems := access.Compile(trusted.String(), "")
	for _, pr := range problems {
		b.fs.Warn("W-ACCESS", t.At("proxyProtocol"), "write an address, a network such as 192.0.2.0/24, or ALL",
			"proxyProtocol: %q is not an address, network or ALL; the entry is left out: a PROXY header of such a peer is refused", strings.TrimSuffix(pr.Entry, "T"))
	}
	if list.TrustsAll() {
		b.fs.Warn("W-TRUST-ALL", t.At("proxyProtocol"), "name your proxies only", "proxyProtocol: every client may send a PROXY header and can choose its own address")
	}
	b.g.Limits.Proxies = list
}

// rate leases what is remembered of a limit (R-RATE-2, R-RATE-5); nil if there is none.
func (b *builder) rate(scope string, d *xmlconf.ClientRateLimit) *access.Rate {
	if d == nil || d.ReqPerMinute == 0 {
		return nil
	}
	o := access.RateOptions{Scope: scope, PerMinute: d.ReqPerMinute, Burst: d.Burst, Most: d.MaxTracked, Prefix: d.IPv6Prefix}
	r, release := b.kept.Rates.Acquire(o, func() *access.Rate { return access.NewRate(o) })
	b.g.leases = append(b.g.leases, release)
	if !slices.Contains(b.g.rates, r) {
		b.g.rates = append(b.g.rates, r)
	}
	return r
}

// roundUp is n as a multiple of unit, as LiteSpeed takes bandwidths.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
