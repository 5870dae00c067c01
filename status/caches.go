package status

import "net/http"

// Caches is /api/v1/cache (R-API-6): counts alone, no URL.
type Caches struct {
	PageCache  *PageCache `json:"page_cache"` // null: no virtual host has one
	ProxyCache ProxyCache `json:"proxy_cache"`
}

// PageCache tells of the page cache. Entries, bytes, tags and refreshes are those of
// now, others count since the start.
type PageCache struct {
	Entries    int64  `json:"entries"`
	Private    int64  `json:"private_entries"`
	Bytes      int64  `json:"memory_bytes"`
	DiskBytes  int64  `json:"disk_bytes"`
	DiskMax    int64  `json:"disk_max_bytes"`
	Tags       int64  `json:"tags"`
	Hits       uint64 `json:"hits"`
	StaleHits  uint64 `json:"stale_hits"`
	ErrorHits  uint64 `json:"error_hits"`
	Misses     uint64 `json:"misses"`
	Bypasses   uint64 `json:"bypasses"`
	Stores     uint64 `json:"stores"`
	Purges     uint64 `json:"purges"`
	Evictions  uint64 `json:"evictions"`
	Refreshing int64  `json:"refreshing"`
}

// ProxyCache tells of the caches of proxied contexts together.
type ProxyCache struct {
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"memory_bytes"`
	Hits    uint64 `json:"hits"`
	Misses  uint64 `json:"misses"`

	Contexts []ContextCache `json:"contexts"` // each of them
}

// ContextCache is the cache of one context, known by names of the configuration alone.
type ContextCache struct {
	VHost     string `json:"vhost"`
	Context   string `json:"context"`
	Processor string `json:"processor"`
	Entries   int64  `json:"entries"`
	Bytes     int64  `json:"memory_bytes"`
}

func (a *API) cache(*http.Request) (int, any) {
	if s := a.State(); s.Caches != nil {
		return http.StatusOK, s.Caches()
	}
	return http.StatusOK, Caches{}
}
