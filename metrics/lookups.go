package metrics

import "github.com/prometheus/client_golang/prometheus"

// Lookups counts what was asked about the names of upstreams. A name is no label.
type Lookups struct {
	Success, NotFound, Failure uint64 // by result
	StaleAnswers               uint64 // dials served by an answer that could not be asked again
}

var (
	lookups = prometheus.NewDesc("httpjet_dns_lookups_total",
		"Lookups of names of upstreams, by result: not_found is that the name has no address, failure any other.", []string{"result"}, nil)
	staleAnswers = prometheus.NewDesc("httpjet_dns_stale_answers_total",
		"Dials served by an older answer because the last lookup of the name had failed.", nil, nil)
)

// lookupCollector reads Gauges.Lookups at every scrape.
type lookupCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *lookupCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- lookups
	ch <- staleAnswers
}

// Collect implements prometheus.Collector.
func (c *lookupCollector) Collect(ch chan<- prometheus.Metric) {
	var n Lookups
	if read := c.m.gauges.Load().Lookups; read != nil {
		n = read()
	}
	send := func(v uint64, result string) {
		ch <- prometheus.MustNewConstMetric(lookups, prometheus.CounterValue, float64(v), result)
	}
	send(n.Success, "success")
	send(n.NotFound, "not_found")
	send(n.Failure, "failure")
	ch <- prometheus.MustNewConstMetric(staleAnswers, prometheus.CounterValue, float64(n.StaleAnswers))
}
