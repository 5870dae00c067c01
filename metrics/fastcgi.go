package metrics

import "github.com/prometheus/client_golang/prometheus"

// FastCGI is what was counted of all FastCGI applications together.
type FastCGI struct {
	Idle, Busy, Dialing int               // connections
	Requests            map[string]uint64 // calls that have ended, by outcome
	Poisoned            map[string]uint64 // connections that were closed for what their call was, by reason
	StderrBytes         uint64
}

var (
	fastcgiPool = prometheus.NewDesc("httpjet_fastcgi_pool_connections",
		"Connections to FastCGI applications.", []string{"state"}, nil)
	fastcgiRequests = prometheus.NewDesc("httpjet_fastcgi_requests_total",
		"Calls of FastCGI applications that have ended, by outcome.", []string{"outcome"}, nil)
	fastcgiPoisoned = prometheus.NewDesc("httpjet_fastcgi_poisoned_total",
		"Connections to FastCGI applications that could not be kept after their call, by reason.", []string{"reason"}, nil)
	fastcgiStderr = prometheus.NewDesc("httpjet_fastcgi_stderr_bytes_total",
		"Bytes that FastCGI applications wrote to STDERR, those included that no log has.", nil, nil)
)

// fastcgiCollector reads Gauges.FastCGI at every scrape.
type fastcgiCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *fastcgiCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{fastcgiPool, fastcgiRequests, fastcgiPoisoned, fastcgiStderr} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *fastcgiCollector) Collect(ch chan<- prometheus.Metric) {
	var f FastCGI
	if read := c.m.gauges.Load().FastCGI; read != nil {
		f = read()
	}
	for state, n := range map[string]int{"idle": f.Idle, "busy": f.Busy, "dialing": f.Dialing} {
		ch <- prometheus.MustNewConstMetric(fastcgiPool, prometheus.GaugeValue, float64(n), state)
	}
	for outcome, n := range f.Requests {
		ch <- prometheus.MustNewConstMetric(fastcgiRequests, prometheus.CounterValue, float64(n), outcome)
	}
	for reason, n := range f.Poisoned {
		ch <- prometheus.MustNewConstMetric(fastcgiPoisoned, prometheus.CounterValue, float64(n), reason)
	}
	ch <- prometheus.MustNewConstMetric(fastcgiStderr, prometheus.CounterValue, float64(f.StderrBytes))
}
