package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// bounds of all histograms: 16 from 50 µs to 5 s.
var bounds = [...]time.Duration{50e3, 100e3, 250e3, 500e3, 1e6, 2.5e6, 5e6, 10e6, 25e6, 50e6, 100e6, 250e6, 500e6, 1e9, 2.5e9, 5e9}

// durations is a histogram: two additions for each duration. The zero value is
// ready.
type durations struct {
	buckets [len(bounds) + 1]atomic.Uint64 // each without those below; the last is unbounded
	nanos   atomic.Int64                   // sum
}

func (d *durations) add(took time.Duration) { d.addMany(took, 1) }

// addMany adds n that are taken to be alike.
func (d *durations) addMany(took time.Duration, n int) {
	i := 0
	for i < len(bounds) && took > bounds[i] {
		i++
	}
	d.buckets[i].Add(uint64(n))
	d.nanos.Add(int64(took) * int64(n))
}

// total is the number of durations.
func (d *durations) total() (n uint64) {
	for i := range d.buckets {
		n += d.buckets[i].Load()
	}
	return n
}

// histogram collects durations without labels.
type histogram struct {
	desc *prometheus.Desc
	of   *durations
}

// register adds d to r under a name.
func (d *durations) register(r *prometheus.Registry, name, help string) {
	r.MustRegister(&histogram{prometheus.NewDesc(name, help, nil, nil), d})
}

// Describe implements prometheus.Collector.
func (h *histogram) Describe(ch chan<- *prometheus.Desc) { ch <- h.desc }

// Collect implements prometheus.Collector.
func (h *histogram) Collect(ch chan<- prometheus.Metric) {
	var t tally
	t.addDurations(h.of)
	ch <- t.metric(h.desc)
}
