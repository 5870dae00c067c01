package trace

import (
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"slices"

	"httpjet/exchange"
)

// Tracer begins the traces of exchanges and sends their spans off. It does not change.
type Tracer struct {
	Rate     float64   // share of traces that are recorded, where a trusted proxy has not decided
	Distrust bool      // the trace context of clients that are no trusted proxies counts for nothing
	Out      *Exporter // nil: spans go on to upstreams and nowhere else
}

// Begin gives x its place in the trace that its request names, or in one of its own.
// Whether that is recorded is decided by a trusted proxy, else by us: a client's trace
// id is for correlation alone (R-TRACE-4). A nil Tracer begins none.
func (t *Tracer) Begin(x *exchange.Exchange, trusted bool) {
	if t == nil || x.Trace != nil {
		return
	}
	own := exchange.Trace{Span: newSpan()}
	parent := ""
	if !t.Distrust || trusted {
		parent = known(&x.Req.Fields)
	}
	if parent != "" {
		x.TraceID = parent[3:35]
		hex.Decode(own.Parent[:], []byte(parent[36:52])) // Valid has seen to it
	} else {
		x.TraceID = newTrace(x)
	}
	hex.Decode(own.ID[:], []byte(x.TraceID))
	if parent != "" && trusted {
		var flags [1]byte
		hex.Decode(flags[:], []byte(parent[53:55]))
		own.Sampled = flags[0]&1 != 0
	} else {
		own.Sampled = t.Rate >= 1 || rand.Float64() < t.Rate
	}
	x.Trace = &own
	if own.Sampled && t.Out != nil && x.Timeline == nil {
		x.Timeline = &exchange.Timeline{}
	}
}

// Audience is who may ask for the timeline of a request.
type Audience struct{ Allow []netip.Prefix }

// Ask begins the timeline of x if its client asks for one and may: peer is who opened
// the connection. The client behind it counts only if the peer is a trusted proxy, whatever else
// believes clients about their address. The field is for this server alone.
func (a *Audience) Ask(x *exchange.Exchange, peer netip.Addr, trusted bool) {
	if a == nil || !x.Req.Fields.Has(exchange.TimelineField) {
		return
	}
	client := peer
	if trusted {
		client = x.Req.Client
	}
	if !a.admits(client) {
		return
	}
	x.Req.Fields.Del(exchange.TimelineField)
	if x.Timeline == nil {
		x.Timeline = &exchange.Timeline{}
	}
	x.Timeline.Asked = true
}

func (a *Audience) admits(client netip.Addr) bool {
	client = client.Unmap().WithZone("")
	return client.IsValid() && slices.ContainsFunc(a.Allow, func(p netip.Prefix) bool { return p.Contains(client) })
}
