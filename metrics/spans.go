package metrics

import "github.com/prometheus/client_golang/prometheus"

// Spans counts what became of the spans of traces. All only grow.
type Spans struct {
	Exported uint64 // a collector, or the log, has them
	Dropped  uint64 // they found no room, or no collector took them
	Failures uint64 // requests to a collector that did not succeed
}

var (
	spansExported = prometheus.NewDesc("httpjet_trace_spans_exported_total", "Spans that a collector, or the log, has taken.", nil, nil)
	spansDropped  = prometheus.NewDesc("httpjet_trace_spans_dropped_total", "Spans that were lost: the queue was full, or no collector took them.", nil, nil)
	spanFailures  = prometheus.NewDesc("httpjet_trace_export_failures_total", "Requests to the collector of spans that failed.", nil, nil)
)

// spanCollector reads Gauges.Spans at every scrape.
type spanCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *spanCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{spansExported, spansDropped, spanFailures} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *spanCollector) Collect(ch chan<- prometheus.Metric) {
	var n Spans
	if read := c.m.gauges.Load().Spans; read != nil {
		n = read()
	}
	ch <- prometheus.MustNewConstMetric(spansExported, prometheus.CounterValue, float64(n.Exported))
	ch <- prometheus.MustNewConstMetric(spansDropped, prometheus.CounterValue, float64(n.Dropped))
	ch <- prometheus.MustNewConstMetric(spanFailures, prometheus.CounterValue, float64(n.Failures))
}
