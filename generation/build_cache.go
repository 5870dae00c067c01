package generation

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"httpjet/contexts"
	"httpjet/pagecache"
	"httpjet/xmlconf"
)

// PageCache is what the command line says of the page cache (spec §26).
type PageCache struct {
	On       bool   // for every virtual host that does not say cacheEngine 0
	Mem      int64  // memory, bytes; 0: 128 MiB
	HotMem   int64  // the same, where there are files; 0: 192 MiB
	DiskMem  int64  // files, bytes; 0: 2 GiB
	StoreDir string // directory of files, where a tree names none; "": none
	Admit    int    // see pagecache.Options

	VaryCookies    []string // nil: any
	PrivateCookies []string
	Private        bool   // private entries, by SessionCookie of requests with UserCookie
	SessionCookie  string // needed with Private
	UserCookie     string // likewise
	Shared         []string
	StandardHosts  []string // virtual hosts of which Cache-Control asks for the cache

	Stale, StaleIfError time.Duration // defaults
}

// pages is the one page cache of the process, made by the first generation that has one.
func (b *builder) pages() *pagecache.Cache {
	if b.kept.Pages == nil {
		o := &b.opt.PageCache
		mem := o.Mem
		if o.StoreDir != "" {
			mem = or64(o.HotMem, 192<<20)
		}
		b.kept.Pages = pagecache.New(pagecache.Options{MaxBytes: mem, MaxDisk: o.DiskMem, Admit: o.Admit, LookedUp: b.kept.Metrics.LookedUp, Log: b.opt.Log})
	}
	return b.kept.Pages
}

// buildCache gives a host its page cache, if it has one (R-CACHE-1).
func (b *builder) buildCache(h *xmlconf.Host, v *contexts.VHost) {
	o, server, own := &b.opt.PageCache, &b.cfg.Server.Cache, &h.Conf.Cache
	engine := server.CacheEngine
	if own.Written("cacheEngine") {
		engine = own.CacheEngine
	} else if o.On {
		engine |= 1
	}
	if engine&1 == 0 {
		return
	}
	base := pagecache.Defaults()
	if !server.Written("cacheEngine") && !own.Written("cacheEngine") { // the command line alone
		base.LookUpPrivate, base.MaxStale = o.Private, 0
	}
	if o.Stale > 0 {
		base.MaxStale = o.Stale
	}
	base.StaleIfError = o.StaleIfError
	s := &pagecache.Site{Cache: b.pages(), Name: h.Name, Policy: b.cachePolicy(b.cachePolicy(base, &server.Policy), &own.Policy),
		VaryCookies: o.VaryCookies, PrivateCookies: o.PrivateCookies, Dir: or(own.Storage.CacheStorePath, or(server.Storage.CacheStorePath, o.StoreDir)),
		Standard: slices.Contains(o.StandardHosts, h.Name)}
	if o.Private {
		s.SessionCookie, s.UserCookie, s.Shared = o.SessionCookie, o.UserCookie, o.Shared
	}
	for _, d := range server.NoCacheDomain {
		s.NoHosts = append(s.NoHosts, strings.ToLower(d))
	}
	s.NoPaths = append(splitLines(server.NoCacheURL), splitLines(own.NoCacheURL)...)
	report := server.CacheReport
	if own.Written("cacheReport") {
		report = own.CacheReport
	}
	s.Report = map[string]pagecache.ReportKind{"standard": pagecache.ReportStandard, "off": pagecache.ReportNothing}[report]
	v.Cache, v.Purgers = s, b.buildPurgers(h, own, server)
	b.g.sites = append(b.g.sites, s)
}

// splitLines are the lines of a text, without blanks around them and empty ones.
func splitLines(text string) (list []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// buildContextCache gives a context a policy of its own, if it says anything.
func (b *builder) buildContextCache(h *host, c *xmlconf.Context, out *contexts.Context) {
	switch {
	case h.out.Cache == nil:
		return
	case c.ProxyCache != nil && c.ProxyCache.Enable: // R-PCACHE-1
		out.Cache = &pagecache.Policy{Disabled: "proxyCache"}
		return
	case c.CachePolicy == nil:
		return
	}
	p := b.cachePolicy(h.out.Cache.Policy, c.CachePolicy)
	out.Cache = &p
}

// cachePolicy is base with what is written in p.
func (b *builder) cachePolicy(base pagecache.Policy, p *xmlconf.CachePolicy) pagecache.Policy {
	set := func(name string, f func()) {
		if p.Written(name) {
			f()
		}
	}
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	set("enablePublicCache", func() { base.LookUp = p.EnablePublicCache })
	set("checkPublicCache", func() { base.LookUp = p.CheckPublicCache })
	set("checkPrivateCache", func() { base.LookUpPrivate = p.CheckPrivateCache })
	set("enableCache", func() { base.Store = p.EnableCache })
	set("enablePrivateCache", func() { base.StorePrivate = p.EnablePrivateCache })
	set("respectCacheable", func() { base.Respect = p.RespectCacheable })
	set("maxCacheObjSize", func() { base.MaxObject = p.MaxCacheObjSize })
	set("maxStaleAge", func() { base.MaxStale = seconds(p.MaxStaleAge) })
	set("expireInSeconds", func() { base.Life = seconds(p.ExpireInSeconds) })
	set("privateExpireInSeconds", func() { base.PrivateLife = seconds(p.PrivateExpireInSeconds) })
	set("qsCache", func() { base.NoQueries = !p.QSCache })
	set("reqCookieCache", func() { base.NoCookies = !p.ReqCookieCache })
	set("respCookieCache", func() { base.NoSetCookies = !p.RespCookieCache })
	set("ignoreReqCacheCtrl", func() { base.ObeyRequest = !p.IgnoreReqCacheCtrl })
	set("ignoreRespCacheCtrl", func() { base.IgnoreAnswer = p.IgnoreRespCacheCtrl })
	set("cacheStatusCode", func() { base.Statuses = p.CacheStatusCode })
	for _, line := range splitLines(p.CacheKeyMod) {
		if word := base.KeyMod.Add(line); word != "" {
			b.fs.Warn("W-CACHE-KEY", p.At("cacheKeyMod"), "write -qs:NAME, -qs:NAME* or clear", "cacheKeyMod: %q says nothing about the key", word)
		}
	}
	return base
}

// OpenStores opens the files of page caches and returns their directories, not nil. It is called
// before g is published. What cannot be opened is told to log; its entries are then in
// memory alone.
func (g *Generation) OpenStores(log *slog.Logger) (dirs []string) {
	dirs = []string{}
	for _, s := range g.sites {
		if s.Dir == "" {
			continue
		}
		dir, err := filepath.Abs(s.Dir)
		if err == nil {
			s.Disk, err = s.Cache.Disk(dir)
		}
		if err != nil {
			log.Error("page cache has no files; entries stay in memory alone", "vhost", s.Name, "dir", s.Dir, "err", err)
		} else if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// CachedSites are the names of the virtual hosts that have a page cache.
func (g *Generation) CachedSites() (names []string) {
	for _, s := range g.sites {
		names = append(names, s.Name)
	}
	return names
}

// PageCacheOf returns the page cache of a virtual host, by its name, or else by a host
// name that some listener maps to it; nil if it has none. name is "" if there is no such
// virtual host.
func (g *Generation) PageCacheOf(vhost, host string) (site *pagecache.Site, name string) {
	for _, m := range g.table.Listeners {
		for _, v := range m.All() {
			if vhost != "" && v.Name == vhost {
				return v.Cache, v.Name
			}
		}
	}
	if vhost != "" {
		return nil, ""
	}
	for _, m := range g.table.Listeners {
		if v, ok := m.Named(host); ok {
			return v.Cache, v.Name
		}
	}
	for _, m := range g.table.Listeners {
		if v, ok := m.Find(host); ok {
			return v.Cache, v.Name
		}
	}
	return nil, ""
}
