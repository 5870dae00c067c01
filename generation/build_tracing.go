package generation

import (
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"httpjet/exchange"
	"httpjet/trace"
	"httpjet/xmlconf"
)

// buildTracing says who begins traces, leases where their spans go, and says who may
// ask for a timeline. It comes before what reaches upstreams.
func (b *builder) buildTracing() {
	t := b.cfg.Server.Tracing
	if t == nil {
		t = &noTracing
	}
	rate, _ := strconv.ParseFloat(t.SampleRate, 64) // xmlconf has read it
	b.tracer = &trace.Tracer{Rate: rate, Distrust: !t.TrustInbound}
	if t.Exporter != "none" && t.Exporter != "" {
		o := trace.ExporterOptions{Version: b.opt.Version, Query: t.RecordQuery}
		if t.Exporter == "otlphttp" {
			o.Endpoint = endpointOf(t.Endpoint)
		}
		e, release := b.kept.Exporters.Acquire(o, func() *trace.Exporter { return trace.NewExporter(o, &b.kept.Spans) })
		b.g.leases = append(b.g.leases, release)
		b.g.exporter, b.tracer.Out = e, e
	}
	if t.Mode == "span" {
		b.g.table.Tracer = b.tracer
	}
	a := &trace.Audience{}
	for _, text := range t.TimelineFrom {
		if p, err := netip.ParsePrefix(text); err == nil { // others are load errors
			a.Allow = append(a.Allow, unmapped(p))
		}
	}
	if len(a.Allow) == 0 {
		return
	}
	b.g.table.Audience = a
	kept, release := b.kept.Timelines.Acquire(t.TimelineKeep, func() *trace.Timelines { return trace.NewTimelines(t.TimelineKeep) })
	b.g.leases = append(b.g.leases, release)
	b.g.timelines = kept
}

// noTracing is what an absent element means.
var noTracing = xmlconf.Tracing{Mode: "passthrough", SampleRate: "1", Exporter: "none", TrustInbound: true}

// unmapped turns a network of IPv4-mapped addresses into the IPv4 network.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}

// endpointOf is where spans are posted: OTLP says the path for a URL that has none.
func endpointOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text // xmlconf refuses the tree
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String()
}

// buildTrace is how the trace context goes to an upstream: as traceMode says where
// it is written, else as the server does. A host that only a rule names is no upstream
// of ours: it never learns of our spans (R-TRACE-3).
func (b *builder) buildTrace(p *processor, mode string) trace.Options {
	o := trace.Options{Distrust: b.tracer.Distrust}
	if t := b.cfg.Server.Tracing; t != nil {
		mode = or(mode, t.Mode)
	}
	switch {
	case mode == "span" && p.adHoc:
	case mode == "span":
		o.Mode, o.Tracer = trace.Span, b.tracer
	case mode == "inject":
		o.Mode = trace.Inject
	}
	return o
}

// recorded passes on what is known of x, which is over, to those who want to know it.
func (g *Generation) recorded(x *exchange.Exchange, err error, now time.Time) {
	r := trace.NewRecord(x, err, now)
	if x.Trace != nil && x.Trace.Sampled && g.exporter != nil {
		g.exporter.Offer(r)
	}
	if x.Timeline.Asked && g.timelines != nil {
		g.timelines.Keep(r)
	}
	x.Timeline = nil
}

// Timelines are those that clients asked for; nil if nobody may.
func (g *Generation) Timelines() *trace.Timelines { return g.timelines }

// Exporter is where spans go, nil for nowhere.
func (g *Generation) Exporter() *trace.Exporter { return g.exporter }
