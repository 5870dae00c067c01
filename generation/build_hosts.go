package generation

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"httpjet/contexts"
	"httpjet/domains"
	"httpjet/exchange"
	"httpjet/forward"
	"httpjet/listing"
	"httpjet/rewrite"
	"httpjet/script"
	"httpjet/xmlconf"
)

// host is a virtual host while it is built.
type host struct {
	*xmlconf.Host
	out         *contexts.VHost
	procs       *processors
	maps        map[string]*rewrite.Map // of its rules
	authorizers map[*processor]*script.Authorizer
	adHoc       map[string]*processor // hosts that rules with [P] name, by address
	answers     answers               // where no context says anything
	runners     map[string]runner     // of scripts, by suffix
	dynamic     bool                  // rules with [P] make names of processors of requests
}

// buildVHost resolves one virtual host. What cannot be honoured closes it.
func (b *builder) buildVHost(h *xmlconf.Host) {
	v := &contexts.VHost{Name: h.Name, IsUpgrade: forward.IsUpgrade, Rewrote: b.kept.Metrics.Rewrote, Scripts: map[string]*contexts.Script{}}
	b.hosts[h.Name] = v
	v.Suspended = slices.Contains(b.cfg.Server.SuspendedVhosts, h.Name) || h.Conf != nil && !h.Conf.Enabled
	v.NoQUIC = h.Conf != nil && !h.Conf.EnableQuic
	if h.Conf == nil {
		v.Closed = "its file did not load"
		b.g.Degraded = append(b.g.Degraded, "virtual host "+h.Name+" did not load")
		return
	}
	if fi, err := os.Stat(h.Conf.DocRoot); err != nil || !fi.IsDir() {
		b.fs.Warn("W-DOCROOT-MISSING", h.Conf.At("docRoot"), "create the directory", "docRoot %s is not a directory yet: files answer 404", h.Conf.DocRoot)
	}
	b.closeVHost(h, v)
	v.Compress = b.buildCompress(h.Conf)
	v.Access = b.buildAccess(h.Conf.Security.AccessControl)
	v.Rate = b.rate("vhost:"+h.Name, h.Conf.Security.ClientRateLimit)
	b.buildHotlink(h, v)
	said := b.hostAnswers(h)
	b.checkPages(h.Conf.ErrorPages)
	b.closeForPHP(h, v)
	v.Static, v.Listing, v.Pages, v.PHP = b.buildStatic(said), listing.Handler{}, said.pages, said.php
	o := b.rootOptions(h)
	o.List = said.list
	if v.Root = b.newRoot(o, h.Conf.At("docRoot")); v.Root == nil && v.Closed == "" {
		v.Closed = "its docRoot cannot be used"
	}
	ho := &host{Host: h, out: v, procs: b.buildHostProcessors(h), adHoc: map[string]*processor{}, answers: said}
	b.buildCache(h, v)
	b.buildRules(ho)
	v.Htaccess = b.buildHtaccess(ho, h.Conf.DocRoot, "/")
	b.buildScripts(ho)
	b.buildContexts(ho)
	if v.Htaccess != nil || ho.dynamic {
		b.buildNamed(ho)
	}
	b.buildSockets(ho)
	b.reportShadowed(ho)
}

// closeVHost closes a host for restrictions that nothing honours yet (R-SAFE-1).
func (b *builder) closeVHost(h *xmlconf.Host, v *contexts.VHost) {
	for _, r := range slices.Concat(h.Conf.Restrictions(), h.Decl.Restrictions(), b.cfg.Server.Restrictions()) {
		if Honours(r) {
			continue
		}
		b.fs.Error("E-CLOSED", r.At, r.Hint(), "virtual host %q: %s; it answers 503", h.Name, r.Fault())
		if v.Closed == "" {
			v.Closed = r.Fault()
		}
	}
}

// closeForPHP closes a host of which a setting of PHP that restricts cannot be read.
func (b *builder) closeForPHP(h *xmlconf.Host, v *contexts.VHost) {
	_, unread := b.phpSettings(h.Conf.PHPIniOverride, &h.Conf.Block, false)
	if unread == "" {
		return
	}
	b.fs.Error("E-CLOSED", h.Conf.TextAt("phpIniOverride"), "write php_admin_value NAME VALUE, or php_admin_flag NAME on", "virtual host %q: %s; it answers 503", h.Name, unread)
	if v.Closed == "" {
		v.Closed = unread
	}
}

// readsHtaccess returns what .htaccess files of a host may say, 0 if it reads none.
// What the host does not say, the server does.
func (b *builder) readsHtaccess(h *xmlconf.Host) (allowed rewrite.Override, name string) {
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
	allowed = rewrite.Override(override) & (rewrite.OverrideAll &^ rewrite.OverrideRules)
	if auto {
		allowed |= rewrite.OverrideRules
	}
	return allowed, name
}

// buildHtaccess returns the reader of .htaccess files below dir, which the URL path
// prefix stands for; nil if the host reads none.
func (b *builder) buildHtaccess(h *host, dir, prefix string) *rewrite.Dirs {
	allowed, name := b.readsHtaccess(h.Host)
	if allowed == 0 {
		return nil
	}
	d := rewrite.NewDirs(rewrite.Options{Root: dir, FileName: name, Prefix: prefix, Override: allowed, Maps: h.maps, Host: h.out.RulesHost,
		Realm: (&fileRealms{}).guard, Report: b.reportNotices})
	b.g.htaccess = append(b.g.htaccess, hostDirs{h.Name, d})
	return d
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
	return b.buildHtaccess(h, dir, "/")
}

// buildContextHtaccess returns the reader of the .htaccess files in the directory of a
// context with its own location, of which rules and settings count; nil if the host
// reads none.
func (b *builder) buildContextHtaccess(h *host, uri, location string) *rewrite.Dirs {
	if fi, err := os.Stat(location); err != nil || !fi.IsDir() {
		return nil
	}
	return b.buildHtaccess(h, filepath.Clean(location), uri)
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
	for _, l := range s.Refused {
		b.closeListener(l, b.mapHosts(l))
		b.g.Degraded = append(b.g.Degraded, "listener "+l.Name+" is not opened")
	}
	for _, l := range s.Listeners {
		hosts := b.mapHosts(l)
		b.closeListener(l, hosts)
		spec, ok := b.listenerSpec(l)
		if !ok {
			continue
		}
		if first, dup := seen[spec.Network+spec.Address]; dup {
			b.fs.Error("E-LISTEN-DUP", l.At("address"), "give each listener an address of its own", "listener %q has the address of %q; the first stays", l.Name, first)
			b.g.Degraded = append(b.g.Degraded, "listener "+l.Name+" is not opened")
			continue
		}
		seen[spec.Network+spec.Address] = l.Name
		switch {
		case b.opt.HTTPAddr == "" && b.opt.HTTPSAddr == "":
		case l.Secure && secure == "" && b.opt.HTTPSAddr != "":
			secure, spec.Network, spec.Address, spec.At = l.Name, "tcp", b.opt.HTTPSAddr, xmlconf.Place{}
		case !l.Secure && plain == "" && b.opt.HTTPAddr != "":
			plain, spec.Network, spec.Address, spec.At = l.Name, "tcp", b.opt.HTTPAddr, xmlconf.Place{}
		default:
			continue // not bound under these options
		}
		if l.Secure && !b.buildTLS(l, spec.Key()) {
			b.g.Degraded = append(b.g.Degraded, "secure listener "+l.Name+" has no usable certificate")
			continue
		}
		b.buildRedirectToHTTPS(l, spec.Key(), hosts)
		b.g.table.Listeners[spec.Key()] = hosts
		b.g.Listeners = append(b.g.Listeners, spec)
	}
	b.closeUncertified()
	b.reportOverlaps()
	b.reportUnmapped()
	b.reportShared()
	b.reportUnknownNames()
	if len(b.g.Listeners) == 0 {
		b.fs.Warn("W-NOLISTENER", s.Where, "declare a <listener>, or check the findings about those that are declared", "no listener can be opened")
	}
}

// mapHosts fills the map of a listener (R-LSN-3).
func (b *builder) mapHosts(l *xmlconf.Listener) *domains.Map[*contexts.VHost] {
	hosts := &domains.Map[*contexts.VHost]{}
	for _, m := range b.cfg.Mappings(l) {
		v := b.hosts[m.VHost]
		if v == nil {
			b.fs.Error("E-MAP", m.At, "declare the virtual host or remove the map", "listener %q maps virtual host %q, which is not declared", l.Name, m.VHost)
			continue
		}
		for _, d := range m.Domains {
			if !hosts.Add(d, v) {
				b.fs.Error("E-MAP", m.At, "map each domain to one virtual host", "listener %q maps %q twice; the first virtual host stays", l.Name, d)
			}
		}
	}
	if len(hosts.All()) == 0 {
		b.fs.Warn("W-NOMAP", l.Where, "map virtual hosts on it with <vhostMapList>", "listener %q maps no virtual host: every request gets 404", l.Name)
	}
	return hosts
}

// buildRedirectToHTTPS makes a plain listener send its clients away (R-LSN-7).
func (b *builder) buildRedirectToHTTPS(l *xmlconf.Listener, key string, hosts *domains.Map[*contexts.VHost]) {
	switch {
	case l.HTTPSRedirect == 0:
	case l.Secure:
		b.fs.Warn("W-NO-EFFECT", l.At("httpsRedirect"), "write it in the plain listener", "listener %q is secure: httpsRedirect has no effect", l.Name)
	default:
		b.g.table.HTTPS[key] = contexts.HTTPS{Status: l.HTTPSRedirect, Port: l.HTTPSRedirectPort}
		if !hosts.HasNames() && len(hosts.All()) > 0 {
			b.fs.Warn("W-NOMAP", l.At("httpsRedirect"), "map each domain by its name", "listener %q maps * only: httpsRedirect answers every request with 404", l.Name)
		}
	}
}

// closeListener closes the hosts of a listener for restrictions that nothing
// honours yet, also where they are reached by another one (R-SAFE-1).
func (b *builder) closeListener(l *xmlconf.Listener, hosts *domains.Map[*contexts.VHost]) {
	for _, r := range l.Restrictions() {
		if Honours(r) {
			continue
		}
		b.fs.Error("E-CLOSED", r.At, r.Hint(), "listener %q: %s; its virtual hosts answer 503 on every listener", l.Name, r.Fault())
		for _, v := range hosts.All() {
			if v.Closed == "" {
				v.Closed = "listener " + l.Name + ": " + r.Fault()
			}
		}
	}
}

// reportOverlaps refuses an address that another listener's "all addresses" of
// the same port holds: the system binds only one of the two.
func (b *builder) reportOverlaps() {
	all := map[string]Listener{} // network and port of those on all addresses
	for _, l := range b.g.Listeners {
		if host, port, _ := net.SplitHostPort(l.Address); host == "" || host == "::" || host == "0.0.0.0" {
			all[l.Network+port] = l
		}
	}
	for _, l := range b.g.Listeners {
		host, port, _ := net.SplitHostPort(l.Address)
		family := "tcp4"
		if strings.Contains(host, ":") {
			family = "tcp6"
		}
		for _, network := range []string{"tcp", family} {
			if w, ok := all[network+port]; ok && w.Name != l.Name && host != "" && host != "::" && host != "0.0.0.0" {
				b.fs.Fatal("E-LISTEN-DUP", l.At, "keep one of the two, with the maps of both",
					"listener %q: %s is covered by listener %q on all addresses of this port", l.Name, l.Address, w.Name)
			}
		}
	}
}

// reportUnknownNames tells of names that lead nowhere: what was to be suspended
// is open, what was to be mapped is not.
func (b *builder) reportUnknownNames() {
	s := b.cfg.Server
	for _, name := range s.SuspendedVhosts {
		if b.hosts[name] == nil {
			b.fs.Error("E-MAP", s.At("suspendedVhosts"), "write the name as the virtual host has it", "suspendedVhosts: virtual host %q is not declared", name)
		}
	}
	known := map[string]bool{}
	for _, l := range slices.Concat(s.Listeners, s.Refused) {
		known[l.Name] = true
	}
	told := map[string]bool{}
	for _, h := range b.cfg.VHosts {
		for _, name := range h.Listeners {
			if !known[name] && !told[h.Template+"\x00"+name] {
				told[h.Template+"\x00"+name] = h.Template != ""
				b.fs.Error("E-MAP", h.Decl.Where, "declare the listener or correct its name", "virtual host %q: listener %q is not declared", h.Name, name)
			}
		}
	}
}

// reportUnmapped warns of hosts without an exact name (R-CHECK-5).
func (b *builder) reportUnmapped() {
	mapped := map[string]bool{}
	for _, l := range b.cfg.Server.Listeners {
		for _, m := range b.cfg.Mappings(l) {
			mapped[m.VHost] = mapped[m.VHost] || slices.ContainsFunc(m.Domains, isExact)
		}
	}
	for _, h := range b.cfg.VHosts {
		if !mapped[h.Name] {
			b.fs.Warn("W-NOEXACT", h.Decl.Where, "map its domain on a listener", "virtual host %q has no exact domain on any listener: it answers where a pattern or * leads to it", h.Name)
		}
	}
}

// reportShared warns of hosts that serve the files of another one (R-CHECK-5).
func (b *builder) reportShared() {
	first := map[string]string{}
	for _, h := range b.cfg.VHosts {
		if h.Conf == nil {
			continue
		}
		dir := filepath.Clean(h.Conf.DocRoot)
		if other, shared := first[dir]; shared {
			b.fs.Warn("W-DOCROOT", h.Conf.At("docRoot"), "give each virtual host a docRoot of its own, unless this is meant",
				"virtual host %q has the docRoot of %q, %s", h.Name, other, dir)
			continue
		}
		first[dir] = h.Name
	}
}

func isExact(domain string) bool { return domain != "" && !strings.ContainsAny(domain, "*?") }

// answer is a handler that refuses everything in one way.
func answer(status int, reason, format string, args ...any) exchange.Handler {
	return exchange.HandlerFunc(func(*exchange.Exchange) error { return exchange.Fail(status, reason, format, args...) })
}
