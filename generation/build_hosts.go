package generation

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"httpjet/contexts"
	"httpjet/exchange"
	"httpjet/forward"
	"httpjet/rewrite"
	"httpjet/static"
	"httpjet/xmlconf"
)

// host is a virtual host while it is built.
type host struct {
	*xmlconf.Host
	out    *contexts.VHost
	procs  *processors
	static *static.Handler
}

// buildVHost resolves one virtual host. What cannot be honoured closes it.
func (b *builder) buildVHost(h *xmlconf.Host) {
	v := &contexts.VHost{Name: h.Name, IsUpgrade: forward.IsUpgrade, Scripts: map[string]*contexts.Script{}}
	b.hosts[h.Name] = v
	if slices.Contains(b.cfg.Server.SuspendedVhosts, h.Name) {
		v.Suspended = true
	}
	if h.Conf == nil {
		v.Closed = "its file did not load"
		b.g.Degraded = append(b.g.Degraded, "virtual host "+h.Name+" did not load")
		return
	}
	if !h.Conf.Enabled {
		v.Suspended = true
	}
	if fi, err := os.Stat(h.Conf.DocRoot); err != nil || !fi.IsDir() {
		b.fs.Warn("W-DOCROOT-MISSING", h.Conf.At("docRoot"), "create the directory", "docRoot %s is not a directory yet: files answer 404", h.Conf.DocRoot)
	}
	b.closeVHost(h, v)
	v.Access = b.buildAccess(h.Conf.Security.AccessControl)
	v.Htaccess = b.buildHtaccess(h, h.Conf.DocRoot)
	ho := &host{Host: h, out: v}
	ho.static = b.buildStatic(h, "")
	v.Static = ho.static
	if v.Root = b.newRoot(b.rootOptions(h), h.Conf.At("docRoot")); v.Root == nil && v.Closed == "" {
		v.Closed = "its docRoot cannot be used"
	}
	ho.procs = b.buildProcessors("vhost:"+h.Name, h.Conf.ExtProcessors, b.server)
	b.buildScripts(ho)
	b.buildContexts(ho)
	b.buildSockets(ho)
}

// closeVHost closes a host for restrictions that nothing honours yet (R-SAFE-1).
func (b *builder) closeVHost(h *xmlconf.Host, v *contexts.VHost) {
	for _, r := range append(h.Conf.Restrictions(), b.cfg.Server.Restrictions()...) {
		if Honours(r) {
			continue
		}
		b.fs.Error("E-CLOSED", r.At, "remove the element, or keep the host where it is honoured",
			"virtual host %q: %s is not honoured yet; it answers 503", h.Name, r.Element)
		if v.Closed == "" {
			v.Closed = r.Element + " is not honoured yet"
		}
	}
}

// buildHtaccess returns the reader of .htaccess files below dir, nil if the host
// reads none. What the host does not say, the server does.
func (b *builder) buildHtaccess(h *xmlconf.Host, dir string) *rewrite.Dirs {
	s := b.cfg.Server
	override, name := s.HtAccess.AllowOverride, s.HtAccess.AccessFileName
	auto := s.AutoLoadHtaccess || s.Rewrite.AutoLoadHtaccess
	if h.Conf.HtAccess.Written("allowOverride") {
		override = h.Conf.HtAccess.AllowOverride
	}
	if h.Conf.HtAccess.Written("accessFileName") {
		name = h.Conf.HtAccess.AccessFileName
	}
	if h.Conf.Rewrite.Written("autoLoadHtaccess") {
		auto = h.Conf.Rewrite.AutoLoadHtaccess
	}
	if override == 0 && !auto {
		return nil
	}
	log := b.opt.Log
	return rewrite.NewDirs(rewrite.Options{Root: dir, FileName: name, Report: func(ns []rewrite.Notice) {
		for _, n := range ns {
			if n.Restricts {
				log.Warn("directive is not honoured yet", "file", n.File, "line", n.Line, "directive", n.Directive)
			} else {
				log.Info("directive is not honoured yet", "file", n.File, "line", n.Line, "directive", n.Directive)
			}
		}
	}})
}

// buildContextDirs returns the reader of .htaccess files about the files of a
// context: from the document root down where they lie below it, else from the
// context's own directory.
func (b *builder) buildContextDirs(h *host, location string) *rewrite.Dirs {
	dir := filepath.Clean(location)
	if root := h.Conf.DocRoot; dir == root || strings.HasPrefix(dir, strings.TrimSuffix(root, "/")+"/") {
		return h.out.Htaccess
	}
	if fi, err := os.Stat(dir); err == nil && !fi.IsDir() {
		dir = filepath.Dir(dir)
	}
	return b.buildHtaccess(h.Host, dir)
}

// trusts reports who the host and the server take for a trusted proxy.
func (b *builder) trusts(v *contexts.VHost) func(netip.Addr) bool {
	server := b.g.table.Access
	return func(a netip.Addr) bool { return server.Trusted(a) || v.Access.Trusted(a) }
}

// buildListeners maps names to hosts on every listener and decides which are
// bound.
func (b *builder) buildListeners() {
	s := b.cfg.Server
	plain, secure := "", ""
	seen := map[string]string{}
	for _, l := range s.Listeners {
		spec, ok := b.listenerSpec(l)
		if !ok {
			continue
		}
		if first, dup := seen[spec.Network+spec.Address]; dup {
			b.fs.Error("E-LISTEN-DUP", l.At("address"), "give each listener an address of its own", "listener %q has the address of %q; the first stays", l.Name, first)
			continue
		}
		seen[spec.Network+spec.Address] = l.Name
		hosts := b.mapHosts(l)
		switch {
		case b.opt.HTTPAddr == "" && b.opt.HTTPSAddr == "":
		case l.Secure && secure == "" && b.opt.HTTPSAddr != "":
			secure, spec.Network, spec.Address = l.Name, "tcp", b.opt.HTTPSAddr
		case !l.Secure && plain == "" && b.opt.HTTPAddr != "":
			plain, spec.Network, spec.Address = l.Name, "tcp", b.opt.HTTPAddr
		default:
			continue // not bound under these options
		}
		if l.Secure && !b.buildTLS(l, spec.Key()) {
			b.g.Degraded = append(b.g.Degraded, "secure listener "+l.Name+" has no usable certificate")
			continue
		}
		b.g.table.Listeners[spec.Key()] = hosts
		b.g.Listeners = append(b.g.Listeners, spec)
	}
	b.reportUnmapped()
	if len(b.g.Listeners) == 0 {
		b.fs.Warn("W-NOLISTENER", s.Where, "declare a <listener>, or check the findings about those that are declared", "no listener can be opened")
	}
}

// mapHosts fills the map of a listener: its own maps, then declarations and
// template members that name it (R-LSN-3, LiteSpeed 5.3).
func (b *builder) mapHosts(l *xmlconf.Listener) *contexts.Hosts {
	hosts := &contexts.Hosts{}
	add := func(at xmlconf.Place, name string, domains []string) {
		v := b.hosts[name]
		if v == nil {
			b.fs.Error("E-MAP", at, "declare the virtual host or remove the map", "listener %q maps virtual host %q, which is not declared", l.Name, name)
			return
		}
		for _, d := range domains {
			if !hosts.Add(d, v) {
				b.fs.Error("E-MAP", at, "map each domain to one virtual host", "listener %q maps %q twice; the first virtual host stays", l.Name, d)
			}
		}
	}
	for _, m := range l.Maps {
		add(m.Where, m.VHost, m.Domains)
	}
	for _, h := range b.cfg.VHosts {
		if slices.Contains(h.Listeners, l.Name) {
			add(h.Decl.Where, h.Name, h.Domains)
		}
	}
	for _, r := range l.Restrictions() {
		if Honours(r) {
			continue
		}
		b.fs.Error("E-CLOSED", r.At, "remove it, or keep the listener where it is honoured",
			"listener %q: %s is not honoured yet; its virtual hosts answer 503 on every listener", l.Name, r.Element)
		for _, v := range hosts.All() {
			if v.Closed == "" {
				v.Closed = r.Element + " of a listener is not honoured yet"
			}
		}
	}
	return hosts
}

// reportUnmapped warns of hosts without an exact name (R-CHECK-5).
func (b *builder) reportUnmapped() {
	for _, h := range b.cfg.VHosts {
		exact := slices.ContainsFunc(h.Domains, isExact)
		for _, l := range b.cfg.Server.Listeners {
			for _, m := range l.Maps {
				exact = exact || m.VHost == h.Name && slices.ContainsFunc(m.Domains, isExact)
			}
		}
		if !exact {
			b.fs.Warn("W-NOEXACT", h.Decl.Where, "map its domain on a listener", "virtual host %q has no exact domain on any listener", h.Name)
		}
	}
}

func isExact(domain string) bool { return domain != "" && !strings.ContainsAny(domain, "*?") }

// answer is a handler that refuses everything in one way.
func answer(status int, reason, format string, args ...any) exchange.Handler {
	return exchange.HandlerFunc(func(*exchange.Exchange) error { return exchange.Fail(status, reason, format, args...) })
}
