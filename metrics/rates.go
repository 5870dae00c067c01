package metrics

import "github.com/prometheus/client_golang/prometheus"

// Rate is what a limit of the requests of each client has done (clientRateLimit).
type Rate struct {
	Scope    string // global, vhost:NAME, vhost:NAME:URI
	Rejected uint64 // requests answered 429
	Tracked  int    // clients remembered
}

var (
	rateRejections = prometheus.NewDesc("httpjet_rate_limit_rejections_total",
		"Requests answered 429 because of a clientRateLimit: global, of a virtual host (vhost:NAME), of a context (vhost:NAME:URI).", []string{"scope"}, nil)
	rateTracked = prometheus.NewDesc("httpjet_rate_limit_tracked_clients",
		"Clients that a clientRateLimit remembers.", []string{"scope"}, nil)
)

// rateCollector reads Gauges.Rates at every scrape.
type rateCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *rateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- rateRejections; ch <- rateTracked }

// Collect implements prometheus.Collector. Limits that share a scope are one.
func (c *rateCollector) Collect(ch chan<- prometheus.Metric) {
	read := c.m.gauges.Load().Rates
	if read == nil {
		return
	}
	sums := map[string]Rate{}
	for _, r := range read() {
		s := sums[r.Scope]
		sums[r.Scope] = Rate{Rejected: s.Rejected + r.Rejected, Tracked: s.Tracked + r.Tracked}
	}
	for scope, r := range sums {
		ch <- prometheus.MustNewConstMetric(rateRejections, prometheus.CounterValue, float64(r.Rejected), scope)
		ch <- prometheus.MustNewConstMetric(rateTracked, prometheus.GaugeValue, float64(r.Tracked), scope)
	}
}
