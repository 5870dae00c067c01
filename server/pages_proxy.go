package server

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"httpjet/generation"
	"httpjet/pagecache"
	"httpjet/proxycache"
	"httpjet/status"
)

// PageEntry is an entry of the page cache, or a response that the cache of a proxied
// context keeps.
type PageEntry struct {
	pagecache.Listed
	Context   string `json:"context,omitempty"`   // uri of the proxied context; "": it is the page cache's
	Processor string `json:"processor,omitempty"` // that answers for it
}

var errNoContext = errors.New("no context of that uri and processor has a proxyCache")

// proxied are the caches of proxied contexts that a request is about.
func (s *Server) proxied(in *PagesRequest, vhost string) []generation.ProxyCache {
	return s.current.Load().Generation.ProxyCaches(vhost, in.Context, in.Processor)
}

// oneContext reports whether a request is about caches of proxied contexts alone.
func (in *PagesRequest) oneContext() bool { return in.Context != "" || in.Processor != "" }

// pageEntries are entries of the page cache.
func pageEntries(list []pagecache.Listed) (out []PageEntry) {
	for _, l := range list {
		out = append(out, PageEntry{Listed: l})
	}
	return out
}

// proxyEntries are responses of the cache of a context.
func proxyEntries(c *generation.ProxyCache, list []proxycache.Listed) (out []PageEntry) {
	for _, l := range list {
		state := "fresh"
		if !l.Fresh {
			state = "stale"
		}
		e := PageEntry{Context: c.Context, Processor: c.Processor, Listed: pagecache.Listed{VHost: c.VHost, URL: l.URL, Status: l.Status, Bytes: l.Bytes,
			State: state, Age: int64(l.Age / time.Second), Fresh: int64(l.Left / time.Second), Codings: l.Codings}}
		for _, name := range l.Vary {
			e.Vary = append(e.Vary, "field "+name)
		}
		out = append(out, e)
	}
	return out
}

// listAll lists all caches that a request is about, the largest entries first.
func (s *Server) listAll(in *PagesRequest) (list []PageEntry, all int) {
	if c := s.pages.Load(); c != nil && !in.oneContext() {
		entries, n := c.List(in.VHost, in.Path, in.Most)
		list, all = pageEntries(entries), n
	}
	for _, c := range s.proxied(in, in.VHost) {
		entries, n := c.Cache.List(in.Path, in.Most)
		list, all = append(list, proxyEntries(&c, entries)...), all+n
	}
	slices.SortStableFunc(list, func(a, b PageEntry) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list[:min(len(list), in.Most)], all
}

// purgeAll purges items of the page cache of a host, nil for none, and of caches of its
// contexts. Tags are the page cache's alone: they are no mistake where there is one.
func purgeAll(site *pagecache.Site, vhost string, proxied []generation.ProxyCache, items string, dry bool) (n int, bad []string) {
	if site != nil {
		n, bad = site.Cache.PurgeItems(vhost, items, dry)
	}
	for _, c := range proxied {
		entries, unknown := c.Cache.Purge(items, dry)
		if n += entries; site == nil {
			bad = unknown
		}
	}
	return n, bad
}

// contextCaches are the caches of contexts as /api/v1/cache has them.
func (s *Server) contextCaches() []status.ContextCache {
	list := []status.ContextCache{}
	for _, c := range s.proxied(&PagesRequest{}, "") {
		u := c.Cache.Usage()
		list = append(list, status.ContextCache{VHost: c.VHost, Context: c.Context, Processor: c.Processor, Entries: u.Entries, Bytes: u.Bytes})
	}
	return list
}
