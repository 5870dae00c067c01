package contexts

import (
	"strings"

	"httpjet/exchange"
	"httpjet/pagecache"
	"httpjet/rewrite"
)

// serveCached is serve for a host with a page cache, which sees all that is said of the
// answer.
func (v *VHost) serveCached(x *exchange.Exchange, t *Table) error {
	run := v.Cache.Begin(x)
	err := error(exchange.ErrPanic)
	defer func() { run.End(err) }()
	err = v.serveWith(x, t, run)
	return err
}

// answer has the handler of the route answer, or the page cache in its place (dispatch
// row 15).
func (v *VHost) answer(x *exchange.Exchange, r *route, t *Table, l *local, run *pagecache.Run) error {
	if v.Compress != nil && x.Explaining() {
		v.Compress.Explain(x)
	}
	if run == nil {
		return x.ServeOrExplain(r.handler)
	}
	local := r.kind == exchange.FastCGI || r.kind == exchange.LSAPI
	if !local && r.kind != exchange.Proxy || v.IsUpgrade(x) {
		return x.ServeOrExplain(r.handler)
	}
	var base *pagecache.Policy
	if r.context != nil {
		base = r.context.Cache
	}
	p := run.At(base)
	if l != nil && l.settings != nil {
		l.settings.Cache(func(d *rewrite.CacheDirective) { apply(p, d, x.Req.Path) })
	}
	if x.Explaining() {
		run.Explain(x, local)
		return x.ServeOrExplain(r.handler)
	}
	q := pagecache.Question{Local: local, Again: t}
	if pagecache.IsPurge(x.Req.Method) {
		if q.Purge = v.mayPurge(x, t); !q.Purge && local && v.Purgers != nil {
			if err := v.Purgers.Admit(x); err != nil {
				return err
			}
			q.Purge = true
		}
	}
	return run.Serve(q, r.handler)
}

// mayPurge reports whether a client may purge a URL by its address: one of this machine
// or one that is trusted (LSX 10.4). All others are asked for a password of purgeRealm,
// where there is one and no upstream that may have a cache, and a password, of its own. What comes by a proxy of this machine that is not trusted to say for whom is
// not of this machine.
func (v *VHost) mayPurge(x *exchange.Exchange, t *Table) bool {
	if x.Req.Client == x.Req.Remote.Addr().Unmap() {
		for _, name := range [...]string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"} {
			if x.Req.Fields.Has(name) {
				return false
			}
		}
	}
	return x.Req.Client.IsLoopback() || t.trusts(x.Req.Client, v)
}

// apply makes a policy of what a .htaccess file says of the cache.
func apply(p *pagecache.Policy, d *rewrite.CacheDirective, path string) {
	if d.Path != "" && !underPrefix(d.Path, path) {
		return
	}
	switch d.Kind {
	case rewrite.CacheLookup:
		p.LookUp, p.LookUpPrivate = d.On, d.On
	case rewrite.CacheEnable:
		if d.Private {
			p.StorePrivate, p.LookUpPrivate = true, true
		} else {
			p.Store, p.LookUp = true, true
		}
	case rewrite.CachePublicStorage:
		p.Store = d.On
	case rewrite.CachePrivateStorage:
		p.StorePrivate = d.On
	case rewrite.CacheDisable:
		if d.Private {
			p.StorePrivate, p.LookUpPrivate = false, false
		} else {
			p.Disabled = "CacheDisable"
		}
	case rewrite.CacheMaxExpire:
		p.MaxLife = d.Time
	case rewrite.CacheMaxStaleAge:
		p.MaxStale = d.Time
	case rewrite.CacheKeyModify:
		p.KeyMod.Add(d.Text)
	case rewrite.CacheIgnoreControl:
		p.IgnoreAnswer = d.On
	}
}

// decache is the filter for foreign hosts: no cache between here and the client may take
// what is said under a name that is not this host's (R-LSN-4). Errors of the server's own say
// so anyway.
type decache struct{}

// Head is that of exchange.Filter.
func (decache) Head(x *exchange.Exchange) bool {
	f := &x.Resp.Fields
	f.DelFunc(func(fd exchange.Field) bool {
		return exchange.EqualName(fd.Name, "Expires") || strings.HasSuffix(strings.ToLower(fd.Name), "cdn-cache-control")
	})
	f.Set("Cache-Control", "private, no-store")
	return false
}

// Wrap is never called: Head wants no body.
func (decache) Wrap(next exchange.Sink) exchange.Sink { return next }
