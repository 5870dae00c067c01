package metrics

import "strconv"

// Probed is what was counted of one peer that has a health check.
type Probed struct {
	Scope, Group string // of the processor
	Peer         int    // its ordinal

	Succeeded, Failed, Skipped uint64 // probes
	Up, Down                   uint64 // transitions
}

// writeProbed tells, at each scrape, the peers that are probed now: no series is
// registered, or forgotten, by a reload.
func (m *Metrics) writeProbed(t *text) {
	read := m.gauges.Load().Probed
	if read == nil {
		return
	}
	probed := read()
	labels := make([][3]string, len(probed))
	for i := range probed {
		p := &probed[i]
		labels[i] = [3]string{label("group", p.Group), label("peer", strconv.Itoa(p.Peer)), label("scope", p.Scope)}
	}
	t.family("httpjet_proxy_peer_probes_total", "counter", "Health checks of a peer; skipped ones were due and not made.")
	for i := range probed {
		p, l := &probed[i], &labels[i]
		t.count(p.Succeeded, l[0], l[1], `result="success"`, l[2])
		t.count(p.Failed, l[0], l[1], `result="failure"`, l[2])
		t.count(p.Skipped, l[0], l[1], `result="skipped"`, l[2])
	}
	t.family("httpjet_proxy_peer_health_transitions_total", "counter", "Times a peer became up or down by its health checks.")
	for i := range probed {
		p, l := &probed[i], &labels[i]
		t.count(p.Up, l[0], l[1], l[2], `to="up"`)
		t.count(p.Down, l[0], l[1], l[2], `to="down"`)
	}
}
