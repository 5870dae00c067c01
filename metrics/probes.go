package metrics

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
	labels := make([]peerLabels, len(probed))
	for i := range probed {
		p := &probed[i]
		labels[i] = labelPeer(label("group", p.Group), label("scope", p.Scope), p.Peer)
	}
	t.family("httpjet_proxy_peer_probes_total", "counter", "Health checks of a peer; skipped ones were due and not made.")
	for i := range probed {
		p, l := &probed[i], &labels[i]
		t.count(p.Succeeded, l.groupPeer, `result="success"`, l.scope)
		t.count(p.Failed, l.groupPeer, `result="failure"`, l.scope)
		t.count(p.Skipped, l.groupPeer, `result="skipped"`, l.scope)
	}
	t.family("httpjet_proxy_peer_health_transitions_total", "counter", "Times a peer became up or down by its health checks.")
	for i := range probed {
		p, l := &probed[i], &labels[i]
		t.count(p.Up, l.all, `to="up"`)
		t.count(p.Down, l.all, `to="down"`)
	}
}
