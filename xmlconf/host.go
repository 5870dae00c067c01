package xmlconf

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// hosts loads the declared hosts, then makes the members of templates.
func (l *loader) hosts(s *Server) []*Host {
	var out []*Host
	names := map[string]bool{}
	defer func() { l.dec.scope = "server" }()
	for _, d := range s.VirtualHosts {
		names[d.Name] = true
		l.dec.scope = "vhost:" + d.Name
		out = append(out, l.declared(d))
	}
	for _, t := range s.Templates {
		for _, h := range l.members(t) {
			if names[h.Name] {
				l.fs.Warn("W-SKIPPED", h.Decl.Where, "", "vhTemplate %q: member %q is skipped, a host of that name exists", t.Name, h.Name)
				continue
			}
			names[h.Name] = true
			out = append(out, h)
		}
	}
	return out
}

// declared loads the file of one declaration. A file that cannot be used leaves
// the host without settings (R-CFG-5); strict faults in it fail the load.
func (l *loader) declared(d *VHostDecl) *Host {
	vars := l.dec.vars.With("VH_NAME", d.Name)
	if d.VHUser != "" {
		vars = vars.With("VH_USER", d.VHUser)
	}
	h := &Host{Name: d.Name, Decl: d, Listeners: d.Listeners}
	h.Root, _ = vars.Path(d.VHRoot, l.root)
	if h.Root == "" {
		h.Root = l.root
		l.fs.Warn("W-VHROOT", d.Where, "write vhRoot", "virtualHost %q: vhRoot is missing: $VH_ROOT is the server root", d.Name)
	}
	vars = vars.With("VH_ROOT", h.Root)
	d.VHRoot = h.Root
	d.ConfigFile, _ = vars.Path(d.ConfigFile, l.root)
	if d.ConfigFile == "" {
		l.unloaded(h, d.Where, "configFile is missing")
		return h
	}
	h.File = d.ConfigFile
	n, err := l.parse(h.File, hostRoot)
	if err == nil {
		err = wantRoot(n, hostRoot)
	}
	if err != nil {
		l.report(err, false)
		l.unloaded(h, d.At("configFile"), "file "+l.short(h.File)+" cannot be used")
		return h
	}
	l.settings(h, n, vars, "virtualHostConfig")
	if h.Conf != nil && len(h.Listeners) > 0 {
		h.Domains = l.domains(h, h.Conf.VHDomain, h.Conf.VHAliases)
		if len(h.Domains) == 0 {
			h.Domains = []string{"*"} // LSX 6.1
		}
	}
	return h
}

// unloaded tells that h answers 503: never 404, which would say that there is no
// such host, and never another host's files (R-LSN-6).
func (l *loader) unloaded(h *Host, at Place, why string) {
	l.fs.Error("E-UNLOADED", at, "requests for it answer 503", "virtualHost %q is not loaded: %s", h.Name, why)
}

// settings decodes the tree n of host h. Without a document root the host fails,
// as in LiteSpeed.
func (l *loader) settings(h *Host, n *Node, vars Expander, path string) {
	v := &VHost{}
	l.vhost(n, v, path, vars)
	if v.DocRoot == "" {
		l.unloaded(h, v.Where, "docRoot is missing")
		return
	}
	h.Conf = v
}

// vhost decodes a tree. $DOC_ROOT and $VH_DOMAIN come from the tree itself, so
// they are looked up before the rest is expanded.
func (l *loader) vhost(n *Node, v *VHost, path string, vars Expander) {
	outer := l.dec.vars
	defer func() { l.dec.vars = outer }()
	l.dec.vars = hostVars(n, vars)
	n = l.dec.cacheModule(n, path)
	l.dec.decode(n, v, path)
	modules(v.Modules, l.fs)
	l.settle(v, l.dec.vars)
}

// hostVars adds $VH_DOMAIN and $DOC_ROOT, which stand in the tree n itself.
func hostVars(n *Node, vars Expander) Expander {
	if names := parseList(&element{}, n.value("vhDomain")); len(names) > 0 {
		if first, _ := vars.Expand(names[0]); !strings.Contains(first, "$") {
			vars = vars.With("VH_DOMAIN", first)
		}
	}
	if root, _ := vars.Path(n.value("docRoot"), vars.Root()); root != "" {
		vars = vars.With("DOC_ROOT", root)
	}
	return vars
}

// settle finishes what tags cannot say: addresses, locations, bad URIs.
func (l *loader) settle(v *VHost, vars Expander) {
	v.HtAccess.settle(l.fs)
	v.Logging.settle()
	if v.VHSSL != nil {
		v.VHSSL.TLS.settle(&v.VHSSL.Block, "vhssl", l.fs)
	}
	if v.VHSSL != nil && v.VHSSL.CertFile != "" && len(v.AcmeDomains) > 0 {
		l.fs.Fatal("E-STRICT", v.At("acmeDomains"), "remove one", "acmeDomains and vhssl certificates exclude each other")
	}
	acmeNames(v.AcmeDomains, v.At("acmeDomains"), "", l.fs)
	v.ExtProcessors = l.processors(v.ExtProcessors)
	v.Contexts = l.contexts(v, vars)
	v.Security.Realms = distinct(v.Security.Realms, "realm", l.fs, func(r *Realm) (string, string, Place) { return r.Name, r.Name, r.At("name") })
	v.WebSockets = slices.DeleteFunc(v.WebSockets, func(w *WebSocket) bool {
		if strings.HasPrefix(w.URI, "/") {
			return false
		}
		l.fs.Warn("W-SKIPPED", w.At("uri"), "start it with /", "websocket %q: skipped, its uri is the start of a path, no expression", cut(w.URI))
		return true
	})
	v.WebSockets = distinct(v.WebSockets, "websocket", l.fs, func(w *WebSocket) (string, string, Place) { return w.URI, w.URI, w.At("uri") })
	for _, w := range v.WebSockets {
		l.literal("websocket", w.URI, w.At("uri"))
		a, err := ParseAddress(w.Address, WebSocketAddress)
		if err != nil {
			l.fs.Error("E-ADDR", w.At("address"), hintOf(err), "websocket %q: address %q %v", w.URI, redact(w.Address), err)
			continue
		}
		if a.Scheme == "h2" || a.Scheme == "h2s" {
			l.fs.Warn("W-WS-TARGET", w.At("address"), "use http or https", "websocket %q: no WebSocket over %s: requests answer 502", w.URI, a.Scheme)
		}
		w.Target = &a
	}
}

// lose closes v for what restricts in a context that takes no part: nobody can
// say which paths were meant.
func lose(v *VHost, list []Restriction) {
	for _, r := range list {
		r.Lost = true
		v.lost = append(v.lost, r)
	}
}

// unmatchable says why no path can lie in the context; "" if one can. Proxy
// contexts and what is httpjet's own are judged by settle.
func (c *Context) unmatchable() (why, hint string) {
	switch match, _ := c.Match(); {
	case match != "prefix", strings.EqualFold(c.Type, "proxy"):
	case !strings.HasPrefix(c.URI, "/"):
		return "this is no uri", "start it with / or exp:"
	case !plainPath(strings.ReplaceAll(c.URI, " ", "_")):
		return "uri holds a query, fragment, escape, backslash, // or dot segment", "write the decoded path"
	}
	return "", ""
}

// literal tells of what a uri holds that stands for itself and looks as if it did not.
func (l *loader) literal(what, uri string, at Place) {
	if strings.Contains(uri, "*") {
		l.fs.Warn("W-URI", at, "write the part before *, which covers all below it, or exp:", "%s %q: * stands for itself", what, cut(uri))
	}
	if severalPaths.MatchString(uri) {
		l.fs.Warn("W-URI", at, "write one for each path", "%s %q: this is one path, not a list", what, cut(uri))
	}
	for i := range len(uri) {
		if waiting(uri[i:]) {
			l.fs.Warn("W-VAR", at, "write the path", "%s %q: variables stand for themselves in a uri", what, cut(uri))
			break
		}
	}
}

var severalPaths = regexp.MustCompile(`[\s,;]/`)

// contexts drops what can match no path and makes locations absolute. Repeated
// uris stay: methods may tell them apart, and generation decides.
func (l *loader) contexts(v *VHost, vars Expander) []*Context {
	var out []*Context
	for _, c := range v.Contexts {
		if len(c.URI) > 4 && strings.EqualFold(c.URI[:4], "exp:") {
			c.URI = "exp:" + strings.TrimSpace(c.URI[4:])
		}
		if why, hint := c.unmatchable(); why != "" {
			l.fs.Warn("W-SKIPPED", c.At("uri"), hint, "context %q: skipped, %s", cut(c.URI), why)
			if c.Enabled {
				lose(v, c.Restrictions())
			}
			continue
		}
		if match, _ := c.Match(); match == "prefix" {
			l.literal("context", c.URI, c.At("uri"))
		}
		c.settle(l.fs)
		// A redirect's destination is never expanded: $1 belongs to it.
		if !strings.EqualFold(c.Type, "redirect") && c.Location != "" {
			var unknown []string
			c.Location, unknown = vars.Path(c.Location, vars.DocRoot())
			for _, name := range unknown {
				l.fs.Warn("W-VAR", c.At("location"), "", "context %q: location holds the unknown variable $%s, which stays as text", c.URI, cut(name))
			}
		}
		out = append(out, c)
	}
	return out
}

// domains joins names and aliases; one that holds a variable without a value
// names nothing.
func (l *loader) domains(h *Host, names, aliases []string) []string {
	var out []string
	for _, d := range append(append([]string{}, names...), aliases...) {
		if strings.Contains(d, "$") {
			l.fs.Warn("W-VAR", h.Decl.Where, "", "virtualHost %q: domain %q holds a variable without a value and is left out", h.Name, cut(d))
			continue
		}
		out = append(out, d)
	}
	return out
}

// members makes the hosts of a template (LSX 9). The tree is decoded once for
// each member, with the member's variables.
func (l *loader) members(t *TemplateDecl) []*Host {
	file, _ := l.dec.vars.Path(t.TemplateFile, l.root)
	n, err := l.parse(file, templateRoot)
	if err == nil {
		err = wantRoot(n, templateRoot)
	}
	if err == nil && n.child("virtualHostConfig") == nil {
		err = &ParseError{"E-XML", n.Pos, "template holds no <virtualHostConfig>", ""}
	}
	if err != nil {
		return l.broken(t, file, err)
	}
	if len(t.Members) == 0 {
		l.dec.scope = "template:" + t.Name
		l.document(n) // a template without members does nothing; its faults are told
	}
	var out []*Host
	for _, m := range t.Members {
		l.dec.scope = "vhost:" + m.VHName
		out = append(out, l.member(t, m, file, n))
	}
	return out
}

// broken reports a template that cannot be used; its members are declared and
// not loaded. Distributions name examples that are not there, so without members
// it is a warning only.
func (l *loader) broken(t *TemplateDecl, file string, err error) []*Host {
	if len(t.Members) == 0 {
		why := err.Error()
		if pe, ok := errors.AsType[*ParseError](err); ok {
			why = pe.Msg
		}
		l.fs.Warn("W-SKIPPED", t.At("templateFile"), "", "vhTemplate %q has no members and is skipped, file %s cannot be used: %s", t.Name, l.short(file), why)
		return nil
	}
	l.report(err, false)
	var out []*Host
	for _, m := range t.Members {
		h := &Host{Name: m.VHName, Template: t.Name, File: file, Listeners: t.Listeners}
		h.Decl = &VHostDecl{Block: m.Block, Name: h.Name, HostSwitches: HostSwitches{EnableScript: true, AllowSymbolLink: -1}}
		h.Domains = l.domains(h, m.domains(), m.VHAliases)
		l.unloaded(h, m.Where, "template "+l.short(file)+" cannot be used")
		out = append(out, h)
	}
	return out
}

// domains are the member's; without any its name is one (LSX 9).
func (m *Member) domains() []string {
	if len(m.VHDomain) == 0 {
		return []string{m.VHName}
	}
	return m.VHDomain
}

// member makes one host. Two passes over the tree, the switches first, because
// the template's user is $VH_USER of the settings.
func (l *loader) member(t *TemplateDecl, m *Member, file string, n *Node) *Host {
	vars := l.dec.vars.With("VH_NAME", m.VHName)
	domains := expandAll(m.domains(), vars)
	vars = vars.With("VH_DOMAIN", domains[0])
	raw := m.VHRoot
	if raw == "" {
		raw = n.value("vhRoot")
	}
	h := &Host{Name: m.VHName, Template: t.Name, File: file, Listeners: t.Listeners}
	h.Root, _ = vars.Path(raw, l.root)
	if h.Root == "" {
		h.Root = l.root
	}
	vars = vars.With("VH_ROOT", filepath.Clean(h.Root))

	// The switches of the template are those of each member's declaration.
	outer := l.dec.vars
	l.dec.vars = vars
	tmpl := &Template{}
	switches := *n
	switches.Children = nil
	config := n.child("virtualHostConfig")
	for _, c := range n.Children {
		switch {
		case !strings.EqualFold(c.Name, config.Name):
			switches.Children = append(switches.Children, c)
		case c != config:
			l.dec.duplicate(c, config, config.Name, &element{}, &tmpl.Block, scope{path: "virtualHostTemplate"})
		}
	}
	l.dec.decode(&switches, tmpl, "virtualHostTemplate")
	l.dec.vars = outer
	h.Decl = &VHostDecl{Block: tmpl.Block, Name: h.Name, VHRoot: h.Root, HostSwitches: tmpl.HostSwitches}
	h.Decl.lost = slices.Concat(tmpl.lost, m.lost, t.lost)
	h.Decl.Where = m.Where
	if tmpl.VHUser != "" {
		vars = vars.With("VH_USER", tmpl.VHUser)
	}
	l.settings(h, config, vars, "virtualHostTemplate/virtualHostConfig")
	h.Domains = l.domains(h, domains, expandAll(m.VHAliases, vars))
	return h
}

func expandAll(list []string, vars Expander) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i], _ = vars.Expand(s)
	}
	return out
}
