package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Probed is what was counted of one peer that has a health check.
type Probed struct {
	Scope, Group string // of the processor
	Peer         int    // its ordinal

	Succeeded, Failed, Skipped uint64 // probes
	Up, Down                   uint64 // transitions
}

// probeCollector reads, at each scrape, the peers that are probed now: no series
// is registered, or forgotten, by a reload.
type probeCollector struct {
	read           func() func() []Probed
	probes, health *prometheus.Desc
}

func newProbeCollector(read func() func() []Probed) *probeCollector {
	return &probeCollector{read: read,
		probes: prometheus.NewDesc("httpjet_proxy_peer_probes_total", "Health checks of a peer; skipped ones were due and not made.",
			[]string{"scope", "group", "peer", "result"}, nil),
		health: prometheus.NewDesc("httpjet_proxy_peer_health_transitions_total", "Times a peer became up or down by its health checks.",
			[]string{"scope", "group", "peer", "to"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *probeCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.probes
	ch <- c.health
}

// Collect implements prometheus.Collector.
func (c *probeCollector) Collect(ch chan<- prometheus.Metric) {
	read := c.read()
	if read == nil {
		return
	}
	for _, p := range read() {
		send := func(d *prometheus.Desc, n uint64, label string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), p.Scope, p.Group, strconv.Itoa(p.Peer), label)
		}
		send(c.probes, p.Succeeded, "success")
		send(c.probes, p.Failed, "failure")
		send(c.probes, p.Skipped, "skipped")
		send(c.health, p.Up, "up")
		send(c.health, p.Down, "down")
	}
}
