package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// PageCache is what the page cache has done and holds. What is not a gauge only grows.
type PageCache struct {
	Hits, StaleHits, ErrorHits, Misses, Bypasses                         uint64
	Stored, StoredPrivate, Rejected, Refused                             uint64 // refused: a purge had overtaken them
	ByRule, NotAsked, Private, NoStore, Other                            uint64 // why answers were not stored
	Purges, Expired, Swept, Evicted, ReadErrors, WriteErrors, FullErrors uint64
	Entries, Bytes, DiskBytes, DiskMax, Tags, Refreshing                 int64 // gauges
}

type pageSeries struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*PageCache) float64
}

func pageDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("httpjet_"+name, help, nil, nil)
}

func ratio(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func (n *PageCache) hits() uint64 { return n.Hits + n.StaleHits + n.ErrorHits }

// pageCounters are the series that only grow, pageGauges the others.
var pageCounters = []struct {
	name, help string
	read       func(*PageCache) uint64
}{
	{"cache_hits", "Requests that the page cache has answered with a fresh entry.", func(n *PageCache) uint64 { return n.Hits }},
	{"cache_stale_serves", "Requests that it has answered with a stale entry, which is made anew.", func(n *PageCache) uint64 { return n.StaleHits }},
	{"cache_sie_serves", "Requests that it has answered with a stale entry in the place of a server error.", func(n *PageCache) uint64 { return n.ErrorHits }},
	{"cache_misses", "Requests for which it had no entry.", func(n *PageCache) uint64 { return n.Misses }},
	{"cache_bypass", "Requests in which it had no part.", func(n *PageCache) uint64 { return n.Bypasses }},
	{"cache_admitted", "Answers that were stored.", func(n *PageCache) uint64 { return n.Stored + n.StoredPrivate }},
	{"cache_rejected", "Answers that were not stored because they were not asked for often enough.", func(n *PageCache) uint64 { return n.Rejected }},
	{"disp_store_public", "Answers that were stored for everybody.", func(n *PageCache) uint64 { return n.Stored }},
	{"disp_store_private", "Answers that were stored for one user.", func(n *PageCache) uint64 { return n.StoredPrivate }},
	{"disp_env_no_cache", "Requests that rules kept out of the page cache.", func(n *PageCache) uint64 { return n.ByRule }},
	{"disp_not_opted_in", "Answers that nobody asked to be stored.", func(n *PageCache) uint64 { return n.NotAsked }},
	{"disp_private", "Answers that may be one user's and were not stored.", func(n *PageCache) uint64 { return n.Private }},
	{"disp_no_store", "Answers that forbade to be stored.", func(n *PageCache) uint64 { return n.NoStore }},
	{"disp_other", "Answers that were not stored for another reason.", func(n *PageCache) uint64 { return n.Other }},
	{"pagecache_hits_total", "Requests that the page cache has answered.", (*PageCache).hits},
	{"pagecache_misses_total", "Requests for which the page cache had no entry.", func(n *PageCache) uint64 { return n.Misses }},
	{"pagecache_stores_total", "Answers that were stored.", func(n *PageCache) uint64 { return n.Stored + n.StoredPrivate }},
	{"pagecache_purges_total", "Tags, URLs and the like that were purged.", func(n *PageCache) uint64 { return n.Purges }},
	{"pagecache_expired_misses_total", "Misses for which there was an entry that was too old.", func(n *PageCache) uint64 { return n.Expired }},
	{"pagecache_swept_expired_total", "Entries that were swept because they were purged or too old.", func(n *PageCache) uint64 { return n.Swept }},
	{"pagecache_store_purge_rejections_total", "Answers that were not stored because a purge had overtaken them.", func(n *PageCache) uint64 { return n.Refused }},
	{"pagecache_evictions_total", "Entries that had to make room for others.", func(n *PageCache) uint64 { return n.Evicted }},
	{"pagecache_disk_read_errors_total", "Files of entries that could not be used.", func(n *PageCache) uint64 { return n.ReadErrors }},
	{"pagecache_disk_write_errors_total", "Files of entries that could not be written.", func(n *PageCache) uint64 { return n.WriteErrors }},
	{"pagecache_disk_full_errors_total", "Those of them for which there was no room.", func(n *PageCache) uint64 { return n.FullErrors }},
}

var pageGauges = []struct {
	name, help string
	read       func(*PageCache) float64
}{
	{"pagecache_entries", "Entries of the page cache.", func(n *PageCache) float64 { return float64(n.Entries) }},
	{"pagecache_memory_bytes", "Memory of the entries.", func(n *PageCache) float64 { return float64(n.Bytes) }},
	{"pagecache_disk_bytes", "Files of the entries.", func(n *PageCache) float64 { return float64(n.DiskBytes) }},
	{"pagecache_disk_max_bytes", "Most that files of entries may take.", func(n *PageCache) float64 { return float64(n.DiskMax) }},
	{"pagecache_tag_keys", "Tags and URLs by which entries can be purged.", func(n *PageCache) float64 { return float64(n.Tags) }},
	{"pagecache_refresh_inflight", "Stale entries that are being made anew.", func(n *PageCache) float64 { return float64(n.Refreshing) }},
	{"pagecache_hit_ratio", "Hits of all look-ups since the start.", func(n *PageCache) float64 { return ratio(n.hits(), n.hits()+n.Misses) }},
	{"cache_hit_ratio_real", "Hits of all requests to hosts with a page cache, those it had no part in included.", func(n *PageCache) float64 { return ratio(n.hits(), n.hits()+n.Misses+n.Bypasses) }},
	{"cache_admit_ratio", "Stored answers of those that could have been.", func(n *PageCache) float64 {
		return ratio(n.Stored+n.StoredPrivate, n.Stored+n.StoredPrivate+n.Rejected)
	}},
}

// pageCacheCollector reads Gauges.PageCache at every scrape.
type pageCacheCollector struct {
	m      *Metrics
	series []pageSeries
}

func newPageCacheCollector(m *Metrics) *pageCacheCollector {
	c := &pageCacheCollector{m: m}
	for _, s := range pageCounters {
		kind := prometheus.CounterValue
		if !strings.HasSuffix(s.name, "_total") { // as in traffic.register
			kind = prometheus.UntypedValue
		}
		c.series = append(c.series, pageSeries{pageDesc(s.name, s.help), kind, func(n *PageCache) float64 { return float64(s.read(n)) }})
	}
	for _, s := range pageGauges {
		c.series = append(c.series, pageSeries{pageDesc(s.name, s.help), prometheus.GaugeValue, s.read})
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *pageCacheCollector) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.series {
		ch <- c.series[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c *pageCacheCollector) Collect(ch chan<- prometheus.Metric) {
	var n PageCache
	if read := c.m.gauges.Load().PageCache; read != nil {
		n = read()
	}
	for i := range c.series {
		ch <- prometheus.MustNewConstMetric(c.series[i].desc, c.series[i].kind, c.series[i].read(&n))
	}
}
