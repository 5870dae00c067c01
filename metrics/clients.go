package metrics

import "github.com/prometheus/client_golang/prometheus"

// Clients counts what the limits of client addresses have done. All only grow.
type Clients struct {
	Refused   uint64 // connections closed at once
	Banned    uint64 // bans
	Delayed   uint64 // requests that waited for their second
	Limited   uint64 // requests answered 429
	Strangers uint64 // connections closed because of their PROXY header
}

var clientLimits = prometheus.NewDesc("httpjet_client_limits_total",
	"What limits of client addresses have done: refused and proxy_header are connections closed at once, banned is bans, delayed and limited are requests that waited or were answered 429.",
	[]string{"result"}, nil)

// clientCollector reads Gauges.Clients at every scrape.
type clientCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *clientCollector) Describe(ch chan<- *prometheus.Desc) { ch <- clientLimits }

// Collect implements prometheus.Collector.
func (c *clientCollector) Collect(ch chan<- prometheus.Metric) {
	var n Clients
	if read := c.m.gauges.Load().Clients; read != nil {
		n = read()
	}
	for action, v := range map[string]uint64{"refused": n.Refused, "banned": n.Banned, "delayed": n.Delayed, "limited": n.Limited, "proxy_header": n.Strangers} {
		ch <- prometheus.MustNewConstMetric(clientLimits, prometheus.CounterValue, float64(v), action)
	}
}
