package generation

import (
	"fmt"
	"strings"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
	"httpjet/metrics"
	"httpjet/proxycache"
	"httpjet/xmlconf"
)

// buildProxyCache puts the cache of a context before next, which asks the upstream;
// next alone if it has none.
func (b *builder) buildProxyCache(h *host, p *processor, c *xmlconf.Context, next exchange.Handler) exchange.Handler {
	conf := c.ProxyCache
	if conf == nil || !conf.Enable || p.fault != "" {
		return next
	}
	cache := b.proxyCache(h, p, c)
	b.g.proxyCaches = append(b.g.proxyCaches, ProxyCache{VHost: h.Name, Context: c.URI, Processor: p.decl.Name, Cache: cache})
	out := &proxycache.Handler{Cache: cache, Next: next, MaxBody: conf.MaxBodySize, LookedUp: b.kept.Metrics.LookedUp, Log: b.opt.Log}
	out.Rules = freshness.Rules{Default: time.Duration(conf.DefaultTTL) * time.Second, DefaultForAll: conf.Written("defaultTTL"),
		Max: time.Duration(conf.MaxTTL) * time.Second, StaleWhileRevalidate: time.Duration(conf.StaleWhile) * time.Second,
		StaleIfError: time.Duration(conf.StaleError) * time.Second, NoVary: conf.KeyStrategy != "method-url-vary", Targeted: conf.CDNControl}
	if out.Rules.Max == 0 {
		out.Rules.Max = -1
	}
	if conf.Written("statusCodes") {
		out.Rules.Statuses = conf.StatusCodes
	}
	return out
}

// proxyCache leases the cache of a context. Its identity is all that decides on what
// is in it: the host, the context as it is written, and who answers for it. So what one
// application has answered is never taken for another's.
func (b *builder) proxyCache(h *host, p *processor, c *xmlconf.Context) *proxycache.Cache {
	id := &strings.Builder{}
	fmt.Fprintln(id, h.Name, c.URI, b.prints.Of(c), p.scope, b.prints.Of(p.decl))
	for _, pe := range p.peers {
		fmt.Fprintln(id, pe.target())
	}
	cache, release := b.kept.ProxyCaches.Acquire(id.String(), func() *proxycache.Cache {
		return proxycache.New(proxycache.Options{MaxEntries: c.ProxyCache.MaxEntries, MaxBytes: c.ProxyCache.MaxMemory, Counts: &b.kept.ProxyCached})
	})
	b.g.leases = append(b.g.leases, release)
	return cache
}

// ProxyCache is the cache of a context, with the names by which operators know it.
type ProxyCache struct {
	VHost, Context, Processor string
	Cache                     *proxycache.Cache
}

// ProxyCaches returns the caches of contexts that fit: of one virtual host, and of one
// context and one processor; "" for any.
func (g *Generation) ProxyCaches(vhost, context, processor string) (list []ProxyCache) {
	for _, c := range g.proxyCaches {
		if (vhost == "" || c.VHost == vhost) && (context == "" || c.Context == context) && (processor == "" || c.Processor == processor) {
			list = append(list, c)
		}
	}
	return list
}

// reportProxyCache tells of a cache that no request meets.
func (b *builder) reportProxyCache(c *xmlconf.Context, proxied bool) {
	if c.ProxyCache != nil && c.ProxyCache.Enable && !proxied {
		b.fs.Warn("W-NO-EFFECT", c.At("proxyCache"), "remove it, or make the context one of type proxy", "context %q: proxyCache has no effect in a context that is not proxied", c.URI)
	}
}

// ProxyCacheCounts tells what the caches of proxied contexts have done, and hold.
func (k *Kept) ProxyCacheCounts() metrics.ProxyCache {
	caches := k.ProxyCaches.Values()
	n := metrics.ProxyCache{Hits: k.ProxyCached.Hits.Load(), Misses: k.ProxyCached.Misses.Load(),
		Revalidations: k.ProxyCached.Revalidations.Load(), Evictions: k.ProxyCached.Evicted(caches)}
	for _, c := range caches {
		u := c.Usage()
		n.Entries += u.Entries
		n.Bytes += u.Bytes
	}
	return n
}
