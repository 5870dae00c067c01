package metrics

import "github.com/prometheus/client_golang/prometheus"

// HTTP2 counts what goes wrong on clients' HTTP/2 connections. All only grow.
type HTTP2 struct {
	Resets  uint64            // streams that clients have reset
	Refused uint64            // streams reset because of what the client did
	Ended   map[string]uint64 // connections ended because of what the client did, by error code
}

var (
	h2Streams = prometheus.NewDesc("httpjet_http2_streams_reset_total",
		"Streams of clients' HTTP/2 connections that ended before their answer: canceled by the client, or refused because the client broke the protocol or opened too many.",
		[]string{"result"}, nil)
	h2Ended = prometheus.NewDesc("httpjet_http2_connections_ended_total",
		"Clients' HTTP/2 connections that were ended because of what the client did, by the error code of RFC 9113; enhance_your_calm is a flood.",
		[]string{"code"}, nil)
)

// http2Collector reads Gauges.HTTP2 at every scrape.
type http2Collector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *http2Collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- h2Streams
	ch <- h2Ended
}

// Collect implements prometheus.Collector.
func (c *http2Collector) Collect(ch chan<- prometheus.Metric) {
	var n HTTP2
	if read := c.m.gauges.Load().HTTP2; read != nil {
		n = read()
	}
	ch <- prometheus.MustNewConstMetric(h2Streams, prometheus.CounterValue, float64(n.Resets), "canceled")
	ch <- prometheus.MustNewConstMetric(h2Streams, prometheus.CounterValue, float64(n.Refused), "refused")
	for code, v := range n.Ended {
		ch <- prometheus.MustNewConstMetric(h2Ended, prometheus.CounterValue, float64(v), code)
	}
}
