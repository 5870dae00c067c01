package metrics

import "github.com/prometheus/client_golang/prometheus"

// Compression counts answers that went out in a content coding. All but Memory only
// grow.
type Compression struct {
	Gzip, Brotli, Zstd uint64 // encoders lent, by coding
	In, Out            uint64 // bytes of bodies before and behind, of answers that have ended
	Refused            uint64 // times that there was no memory for an encoder
	Memory             int64  // bytes of encoders in use
}

var (
	coded = prometheus.NewDesc("httpjet_compressed_total",
		"Bodies compressed, by coding. The copy of a small file in memory is made once and counts once.", []string{"coding"}, nil)
	codedBytes = prometheus.NewDesc("httpjet_compressed_bytes_total",
		"Bytes of bodies that were compressed: in is before, out is behind.", []string{"direction"}, nil)
	noEncoder = prometheus.NewDesc("httpjet_compress_refused_total",
		"Times that compressMemory had no room for an encoder: the answer went out in another coding, or as it was.", nil, nil)
	encoderMemory = prometheus.NewDesc("httpjet_compress_memory_bytes",
		"Memory of the encoders in use.", nil, nil)
)

// compressionCollector reads Gauges.Compression at every scrape.
type compressionCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *compressionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{coded, codedBytes, noEncoder, encoderMemory} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *compressionCollector) Collect(ch chan<- prometheus.Metric) {
	var n Compression
	if read := c.m.gauges.Load().Compression; read != nil {
		n = read()
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	count(coded, n.Gzip, "gzip")
	count(coded, n.Brotli, "br")
	count(coded, n.Zstd, "zstd")
	count(codedBytes, n.In, "in")
	count(codedBytes, n.Out, "out")
	count(noEncoder, n.Refused)
	ch <- prometheus.MustNewConstMetric(encoderMemory, prometheus.GaugeValue, float64(n.Memory))
}
