package metrics

import "github.com/prometheus/client_golang/prometheus"

// ProxyCache is what the caches of proxied contexts have done, and hold. All but
// Entries and Bytes only grow.
type ProxyCache struct {
	Hits          uint64 // requests answered from a cache, stale or fresh, without the upstream
	Misses        uint64 // requests for which the upstream was asked, validations too
	Revalidations uint64 // answers of the upstream that what is kept still holds
	Evictions     uint64 // responses that had to go for others
	Entries       int64
	Bytes         int64
}

// proxyCacheSeries are the series, with what is read of a ProxyCache.
var proxyCacheSeries = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*ProxyCache) float64
}{
	{proxyCacheDesc("hits_total", "Requests that a proxyCache has answered without its upstream."), prometheus.CounterValue, func(n *ProxyCache) float64 { return float64(n.Hits) }},
	{proxyCacheDesc("misses_total", "Requests for which a proxyCache has asked its upstream, validations included."), prometheus.CounterValue, func(n *ProxyCache) float64 { return float64(n.Misses) }},
	{proxyCacheDesc("revalidations_total", "Answers 304 of upstreams, by which a kept response is fresh again."), prometheus.CounterValue, func(n *ProxyCache) float64 { return float64(n.Revalidations) }},
	{proxyCacheDesc("evictions_total", "Responses that had to make room for others."), prometheus.CounterValue, func(n *ProxyCache) float64 { return float64(n.Evictions) }},
	{proxyCacheDesc("entries", "Responses kept by all proxyCaches."), prometheus.GaugeValue, func(n *ProxyCache) float64 { return float64(n.Entries) }},
	{proxyCacheDesc("bytes", "Memory of the responses kept by all proxyCaches."), prometheus.GaugeValue, func(n *ProxyCache) float64 { return float64(n.Bytes) }},
}

func proxyCacheDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("httpjet_proxycache_"+name, help, nil, nil)
}

// proxyCacheCollector reads Gauges.ProxyCache at every scrape.
type proxyCacheCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *proxyCacheCollector) Describe(ch chan<- *prometheus.Desc) {
	for i := range proxyCacheSeries {
		ch <- proxyCacheSeries[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c *proxyCacheCollector) Collect(ch chan<- prometheus.Metric) {
	var n ProxyCache
	if read := c.m.gauges.Load().ProxyCache; read != nil {
		n = read()
	}
	for i := range proxyCacheSeries {
		s := &proxyCacheSeries[i]
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, s.read(&n))
	}
}
