package metrics

import "github.com/prometheus/client_golang/prometheus"

// Buffers is what request bodies that are held take of the process's budgets
// (R-BUD-1, R-BUD-2), and what there was no room for.
type Buffers struct {
	Bytes, MaxBytes   int64 // totalReqBufSize
	Bodies, MaxBodies int   // maxBufferedReqs
	Refused           uint64
}

var (
	bufferBytes    = prometheus.NewDesc("httpjet_request_buffer_bytes", "Bytes of request bodies that are held, in memory and in files.", nil, nil)
	bufferMax      = prometheus.NewDesc("httpjet_request_buffer_max_bytes", "Most of them: totalReqBufSize.", nil, nil)
	bufferBodies   = prometheus.NewDesc("httpjet_request_buffers", "Request bodies that are held.", nil, nil)
	bufferMost     = prometheus.NewDesc("httpjet_request_buffers_max", "Most of them: maxBufferedReqs.", nil, nil)
	bufferRefusals = prometheus.NewDesc("httpjet_request_buffer_refusals_total", "Request bodies for which a budget had no room: answered 503, or, kept for a retry, sent once.", nil, nil)
)

// bufferCollector reads Gauges.Buffers at every scrape.
type bufferCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *bufferCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{bufferBytes, bufferMax, bufferBodies, bufferMost, bufferRefusals} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *bufferCollector) Collect(ch chan<- prometheus.Metric) {
	var b Buffers
	if read := c.m.gauges.Load().Buffers; read != nil {
		b = read()
	}
	for d, v := range map[*prometheus.Desc]float64{bufferBytes: float64(b.Bytes), bufferMax: float64(b.MaxBytes), bufferBodies: float64(b.Bodies), bufferMost: float64(b.MaxBodies)} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	ch <- prometheus.MustNewConstMetric(bufferRefusals, prometheus.CounterValue, float64(b.Refused))
}
