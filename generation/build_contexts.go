package generation

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"httpjet/contexts"
	"httpjet/exchange"
	"httpjet/forward"
	"httpjet/proxy"
	"httpjet/script"
	"httpjet/tunnels"
	"httpjet/wsrelay"
	"httpjet/xmlconf"
)

func (b *builder) buildContexts(h *host) {
	var list []*contexts.Context
	built := map[*xmlconf.Context]*contexts.Context{}
	seen := map[[2]string][]*xmlconf.Context{} // by match and expression
	for _, c := range h.Conf.Contexts {
		if !c.Enabled {
			continue
		}
		match, expr := c.Match()
		key := [2]string{match, expr}
		if slices.ContainsFunc(seen[key], func(s *xmlconf.Context) bool { return shareMethod(s.Methods, c.Methods) }) {
			b.fs.Error("E-CTX-DUP", c.At("uri"), "merge the two contexts", "context %q is declared twice; the first decides, restrictions of both hold", c.URI)
		}
		seen[key] = append(seen[key], c)
		if out := b.buildContext(h, c); out != nil {
			list = append(list, out)
			built[c] = out
		}
	}
	b.buildContextRates(h, built)
	b.buildContextRules(h, built)
	h.out.SetContexts(list)
	b.reportSticky(h)
}

// shareMethod reports whether a method is in both lists; nil is all methods.
func shareMethod(a, b []string) bool {
	return a == nil || b == nil || slices.ContainsFunc(a, func(m string) bool { return slices.Contains(b, m) })
}

// buildContext resolves one context; nil if it takes no part.
func (b *builder) buildContext(h *host, c *xmlconf.Context) *contexts.Context {
	out := &contexts.Context{URI: c.URI, NoBrowse: !c.AllowBrowse, NoScript: !c.EnableScript, MaxBody: c.MaxReqBodySize, Methods: c.Methods}
	if !b.buildMatch(h, c, out) {
		return nil
	}
	out.Access = b.buildAccess(c.AccessControl)
	if !out.Access.Restricts() {
		out.Access = nil
	}
	b.closeContext(c, out)
	b.buildRealm(h, c, out)
	b.buildAuthorizer(h, c, out)
	a := b.contextAnswers(h, c)
	out.Edits, out.Pages, out.PHP = buildEdits(a), a.pages, a.php
	b.buildContextCache(h, c, out)
	b.checkAnswers(c, out)
	b.checkContextPHP(h, c, out, a)
	b.checkPages(c.ErrorPages)
	if !b.buildKind(h, c, out, a) {
		return nil
	}
	b.reportProxyCache(c, out.Serves == exchange.Proxy)
	return out
}

// buildContextRates gives contexts their limits. One that says nothing shares that of
// the closest context around it, whose bucket holds for everything in it.
func (b *builder) buildContextRates(h *host, built map[*xmlconf.Context]*contexts.Context) {
	for _, c := range h.Conf.Contexts {
		if built[c] == nil {
			continue
		}
		at := c
		for _, around := range slices.Backward(enclosing(h.Conf.Contexts, c)) {
			if at.ClientRateLimit == nil {
				at = around
			}
		}
		built[c].Rate = b.rate("vhost:"+h.Name+":"+at.URI, at.ClientRateLimit)
	}
}

// buildMatch sets which paths the context is about; false drops it.
func (b *builder) buildMatch(h *host, c *xmlconf.Context, out *contexts.Context) bool {
	var err error
	switch match, expr := c.Match(); {
	case match == "regex":
		if out.Regexp, err = regexp.Compile(expr); err != nil {
			b.fs.Error("E-CLOSED", c.At("uri"), "write the pattern in RE2 syntax", "context %q: %v; every path of the virtual host could be meant, so it answers 503", c.URI, err)
			h.out.Closed = "the pattern of a context cannot be compiled"
			return false
		}
	case match == "pattern":
		if out.Regexp, err = contexts.Pattern(expr); err != nil {
			b.fs.Fatal("E-STRICT", c.At("uri"), "", "context %q: uri is no pattern: %v", c.URI, err)
			return false
		}
	case !strings.HasPrefix(c.URI, "/"):
		b.fs.Error("W-SKIPPED", c.At("uri"), "a uri starts with / or exp:", "context %q is left out", c.URI)
		return false
	default:
		out.Exact = match == "exact"
	}
	return true
}

// closeContext closes a context for restrictions that nothing honours (R-SAFE-1).
func (b *builder) closeContext(c *xmlconf.Context, out *contexts.Context) {
	for _, r := range c.Restrictions() {
		if !Honours(r) {
			b.shut(c, out, r.At, r.Hint(), r.Fault())
		}
	}
}

func (b *builder) shut(c *xmlconf.Context, out *contexts.Context, at xmlconf.Place, hint, why string) {
	b.fs.Error("E-CLOSED", at, hint, "context %q: %s; it answers 503", c.URI, why)
	if out.Closed == "" {
		out.Closed = why
	}
}

// buildKind sets what the context does; false drops it.
func (b *builder) buildKind(h *host, c *xmlconf.Context, out *contexts.Context, a answers) bool {
	switch typ := strings.ToLower(c.Type); typ {
	case "", "null", "static":
		return b.buildStaticContext(h, c, out, a)
	case "proxy":
		b.buildProxyContext(h, c, out)
	case "fcgi", "fastcgi", "cgi", "lsapi":
		switch {
		case !h.Decl.EnableScript || !c.EnableScript:
			out.Kind = contexts.App
			out.Handler = answer(403, "access_denied", "context %q: enableScript 0", c.URI)
		case b.stopsPHP(c):
			out.Kind = contexts.App
			out.Handler = answer(403, "access_denied", "context %q: engine off", c.URI)
		case typ == "cgi":
			b.buildCGIContext(h, c, out)
		default:
			out.Kind = contexts.App
			b.buildAppContext(h, c, kindOf(typ), out)
		}
	case "loadbalancer":
		b.buildBalancerContext(h, c, out)
	case "redirect":
		b.buildRedirect(c, out)
	default:
		out.Kind = contexts.App
		out.Handler = answer(503, "handler_unresolved", "context %q: type %s is not implemented", c.URI, c.Type)
		b.fs.Warn("W-CTX-TYPE", c.At("type"), "put the application behind a proxy or fcgi processor", "context %q: type %s is not implemented; it answers 503", c.URI, c.Type)
	}
	return true
}

// buildStaticContext gives a context files of its own where it has a location
// or index files of its own. A location that does not exist drops a context
// that restricts nothing, as in LiteSpeed; one that restricts stays.
func (b *builder) buildStaticContext(h *host, c *xmlconf.Context, out *contexts.Context, a answers) bool {
	if c.Written("responseTimeout") {
		b.fs.Warn("W-NO-EFFECT", c.At("responseTimeout"), "write it at the extProcessor", "context %q: responseTimeout has no effect in a context of files, whose scripts have the processor's", c.URI)
	}
	out.Files = b.buildStatic(a)
	if c.Location == "" && slices.Equal(a.index, h.answers.index) && a.list == h.answers.list {
		return true
	}
	o := b.rootOptions(h.Host)
	o.Index, o.List = a.index, a.list
	dir, uri := h.Conf.DocRoot, c.URI
	if c.Location != "" {
		dir = filepath.Clean(c.Location)
		if out.Regexp != nil {
			if dir, out.Map = mapping(c.Location, out.Regexp); dir == "/" {
				b.shut(c, out, c.At("location"), "begin it with a directory", "the location of an expression could be any file")
				return true
			}
			uri = ""
		}
		if _, err := os.Stat(dir); err != nil && out.Closed == "" && !out.NoBrowse && !out.NoScript && out.Access == nil && out.Realm == nil && out.Authorizer == nil {
			b.fs.Warn("W-SKIPPED", c.At("location"), "create it or correct the path", "context %q is left out: location %s does not exist", c.URI, dir)
			return false
		}
		o.DocRoot, o.Dir, o.Prefix = o.Dir, dir, uri
		b.closeOutside(h, c, out, dir)
	}
	out.Dirs = b.buildContextDirs(h, dir)
	if c.Location != "" && out.Regexp == nil && !out.Exact {
		out.Htaccess = b.buildContextHtaccess(h, c.URI, c.Location)
	}
	if out.Root = b.newRoot(o, c.At("location")); out.Root == nil {
		b.shut(c, out, c.At("location"), "correct the path", "location cannot be used")
	}
	return true
}

// closeOutside closes a context with files in dir, where a restrained host may not have
// any: as in LiteSpeed, they are refused.
func (b *builder) closeOutside(h *host, c *xmlconf.Context, out *contexts.Context, dir string) {
	if !h.Decl.Restrained || within(dir, h.Root) {
		return
	}
	b.shut(c, out, c.At("location"), "move the files into vhRoot, remove the context, or set restrained 0",
		"location "+c.Location+" lies outside vhRoot of a restrained virtual host")
}

// within reports whether dir is root or lies below it, wherever links lead.
func within(dir, root string) bool {
	dir, root = filepath.Clean(dir), filepath.Clean(root)
	if d, err := filepath.EvalSymlinks(dir); err == nil {
		if r, err := filepath.EvalSymlinks(root); err == nil {
			dir, root = d, r
		}
	}
	return dir == root || strings.HasPrefix(dir, strings.TrimSuffix(root, "/")+"/")
}

// charset is what addDefaultCharset adds, "" for nothing. It goes into a field.
func charset(c *xmlconf.Context) string {
	name := charsetName(c)
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ';' || r == ',' }) {
		return ""
	}
	return name
}

func charsetName(c *xmlconf.Context) string {
	if strings.EqualFold(c.AddCharset, "off") || c.AddCharset == "0" {
		return ""
	}
	if v := c.AddCharset; !strings.EqualFold(v, "on") && v != "1" && !strings.EqualFold(v, "true") && !strings.EqualFold(v, "yes") {
		return v
	}
	if c.OldCharset != "" && !c.Written("addDefaultCharsetCustomized") {
		return c.OldCharset
	}
	return c.Charset
}

// buildProxyContext resolves the handler of a proxy context; unresolved, the
// context stays without one and its paths fall to files (R-CTX-11, D-27).
func (b *builder) buildProxyContext(h *host, c *xmlconf.Context, out *contexts.Context) {
	out.Kind = contexts.Proxy
	p := h.procs.find(xmlconf.KindProxy, c.Handler)
	if p == nil {
		b.fs.Error("E-CTX-UNRESOLVED", c.At("handler"), "declare an extProcessor of type proxy with this name",
			"context %q: proxy processor %q is not declared%s; files of the docRoot are served instead", c.URI, c.Handler, b.otherKind(h, c.Handler))
		return
	}
	out.Serves, out.Scope, out.Group = exchange.Proxy, p.scope, p.decl.Name
	out.Handler = b.buildProxyCache(h, p, c, b.buildProxy(h, p, c, out.Regexp))
	b.use(h, p, out, c.URI, true)
	b.useRetry(p, c)
}

// buildProxy returns the handler of a proxy processor, for a context (or nil) with
// the expression of its uri (or nil).
func (b *builder) buildProxy(h *host, p *processor, c *xmlconf.Context, uri *regexp.Regexp) exchange.Handler {
	if p.fault != "" {
		return answer(503, "handler_unresolved", "extProcessor %q: %s", p.decl.Name, p.fault)
	}
	out := &proxy.Handler{Group: b.group(p), Forward: b.buildHop(h, p, c), Answered: b.kept.Metrics.Answered,
		Bodies: b.kept.Bodies, BodyTimeout: p.peers[0].owner.decl.BodyTimeout}
	if c != nil {
		out.HeadTimeout, out.Forward.Path = c.ResponseTimeout, b.buildPath(c, uri)
	}
	out.Retry = b.buildRetry(retryOf(p, c))
	buildTimes(out, p, c)
	route := "scripts of " + p.decl.Name
	if c != nil {
		route = c.URI
	}
	out.Generation = b.open
	out.Tunnels, out.Peers = b.routeTunnels(h, route, b.prints.Of(c)), b.peerTunnels(p)
	out.Upgrade = b.buildRelay(p, out.Forward, c, out.Tunnels)
	return out
}

var forModes = map[string]forward.ForMode{"auto": forward.ForAuto, "append": forward.ForAppend,
	"replace": forward.ForReplace, "off": forward.ForOff}

// buildHop takes each option from the context (or nil) where it is written there,
// else from the processor (R-CTX-8).
func (b *builder) buildHop(h *host, p *processor, c *xmlconf.Context) forward.Options {
	from := func(option string) *xmlconf.ProxyOptions {
		if c != nil && c.Written(option) {
			return &c.ProxyOptions
		}
		return &p.decl.ProxyOptions
	}
	return forward.Options{Trusted: b.trusts(h.out), PeerHost: !from("preserveHost").PreserveHost,
		For: forModes[from("forwardedFor").ForwardedFor], NoProto: !from("forwardedProto").ForwardedProto,
		NoHost: !from("forwardedHost").ForwardedHost, NoVia: !from("addVia").AddVia,
		Trace: b.buildTrace(p, from("traceMode").TraceMode)}
}

// buildPath is the change of paths of a proxy context, nil for none (R-CTX-7).
func (b *builder) buildPath(c *xmlconf.Context, uri *regexp.Regexp) *forward.Path {
	o := forward.PathOptions{Strip: c.StripPrefix, URI: uri}
	if c.StripPrefix == "" && c.PathRewrite == nil {
		return nil
	}
	at := c.At("stripPrefix")
	if w := c.PathRewrite; w != nil {
		o.Replacement, at = w.Replacement, w.At("replacement")
		var err error
		if o.Pattern, err = regexp.Compile(w.Pattern); err != nil {
			return nil // xmlconf refuses the tree
		}
	}
	p, err := forward.NewPath(o)
	if err != nil {
		b.fs.Fatal("E-STRICT", at, "", "context %q: pathRewrite: %v", c.URI, err)
	}
	return p
}

func (b *builder) otherKind(h *host, name string) string {
	if p := h.procs.known(name); p != nil {
		return " (it is of type " + p.decl.Type + ")"
	}
	if meant := xmlconf.Suggest(name, h.procs.names()); meant != "" {
		return fmt.Sprintf(" (is %q meant?)", meant)
	}
	return ""
}

// buildAppContext sends every path below a fcgi or lsapi context to the
// application; an unresolved one answers 503 (R-CTX-5).
func (b *builder) buildAppContext(h *host, c *xmlconf.Context, kind xmlconf.ProcessorKind, out *contexts.Context) {
	p := h.procs.find(kind, c.Handler)
	if p == nil || p.fault != "" {
		typ, protocol := "fcgi", "FastCGI"
		if kind == xmlconf.KindLSAPI {
			typ, protocol = "lsapi", "LSAPI"
		}
		b.fs.Error("E-CTX-UNRESOLVED", c.At("handler"), "declare an extProcessor of type "+typ+" with this name",
			"context %q: %s processor %q is not declared or not usable%s; it answers 503", c.URI, protocol, c.Handler, b.otherKind(h, c.Handler))
		out.Handler = answer(503, reasonFor(kind), "context %q: processor %q", c.URI, c.Handler)
		return
	}
	out.Serves, out.Scope, out.Group = serves(p), p.scope, p.decl.Name
	if b.refusePHP(h, c, p, out) {
		return
	}
	out.Handler = b.buildApp(h, p, c.URI, c.ResponseTimeout)
	b.use(h, p, out, c.URI, false)
}

// buildBalancerContext is a proxy, a fcgi or a lsapi context, as the workers are.
func (b *builder) buildBalancerContext(h *host, c *xmlconf.Context, out *contexts.Context) {
	out.Kind = contexts.App
	p := h.procs.find(xmlconf.KindLoadBalancer, c.Handler)
	switch {
	case p == nil || p.fault != "":
		b.fs.Error("E-CTX-UNRESOLVED", c.At("handler"), "declare an extProcessor of type loadbalancer with this name",
			"context %q: load balancer %q is not declared or not usable%s; it answers 503", c.URI, c.Handler, b.otherKind(h, c.Handler))
		out.Handler = answer(503, "handler_unresolved", "context %q: processor %q", c.URI, c.Handler)
	case p.runs == xmlconf.KindProxy:
		out.Kind, out.Serves, out.Scope, out.Group = contexts.Proxy, exchange.Proxy, p.scope, p.decl.Name
		out.Handler = b.buildProxyCache(h, p, c, b.buildProxy(h, p, c, out.Regexp))
		b.use(h, p, out, c.URI, true)
		b.useRetry(p, c)
	case !h.Decl.EnableScript || !c.EnableScript:
		out.Handler = answer(403, "access_denied", "context %q: enableScript 0", c.URI)
	case b.stopsPHP(c):
		out.Handler = answer(403, "access_denied", "context %q: engine off", c.URI)
	default:
		out.Serves, out.Scope, out.Group = serves(p), p.scope, p.decl.Name
		if b.refusePHP(h, c, p, out) {
			return
		}
		out.Handler = b.buildApp(h, p, c.URI, c.ResponseTimeout)
		b.use(h, p, out, c.URI, false)
	}
}

// buildCGIContext sends regular files to a FastCGI application, or closes the
// files of a context without one (R-CGI-1, D-22).
func (b *builder) buildCGIContext(h *host, c *xmlconf.Context, out *contexts.Context) {
	out.Kind = contexts.CGI
	p := h.procs.find(xmlconf.KindFastCGI, c.Handler)
	if p == nil || p.fault != "" || c.Location == "" || out.Regexp != nil {
		b.fs.Warn("W-CGI-CTX", c.At("handler"), "name an extProcessor of type fcgi, for example fcgiwrap", "context %q: CGI programs are run through FastCGI only; it answers 503", c.URI)
		out.Kind = contexts.App
		out.Handler = answer(503, "handler_unresolved", "cgi context %q has no FastCGI processor", c.URI)
		return
	}
	o := b.rootOptions(h.Host)
	o.DocRoot, o.Dir, o.Prefix, o.Restricted = o.Dir, filepath.Clean(c.Location), c.URI, 0
	b.closeOutside(h, c, out, c.Location)
	if out.Root = b.newRoot(o, c.At("location")); out.Root == nil {
		out.Kind, out.Handler = contexts.App, answer(503, "handler_unresolved", "cgi context %q: location", c.URI)
		return
	}
	out.Dirs = b.buildContextDirs(h, c.Location)
	out.Handler, out.Scope, out.Group = b.buildApp(h, p, "", c.ResponseTimeout), p.scope, p.decl.Name
	b.use(h, p, out, c.URI, false)
}

// buildSockets resolves the WebSocket maps.
func (b *builder) buildSockets(h *host) {
	for _, ws := range h.Conf.WebSockets {
		h.out.Maps = append(h.out.Maps, contexts.SocketMap{URI: ws.URI, Handler: b.buildSocket(h, ws), Scope: "vhost:" + h.Name})
	}
}

func (b *builder) buildSocket(h *host, ws *xmlconf.WebSocket) exchange.Handler {
	if ws.Target == nil {
		return answer(502, "bad_target", "websocket %q has no usable address", ws.URI)
	}
	if s := ws.Target.Scheme; s == "h2" || s == "h2s" {
		return answer(502, "upgrade_unsupported", "websocket %q has an h2 target", ws.URI)
	}
	d := &xmlconf.ExtProcessor{Name: "websocket:" + ws.URI, MaxConns: 10000, InitTimeout: 60 * time.Second,
		ResponseTimeout: 60 * time.Second,
		ProxyOptions:    xmlconf.ProxyOptions{PreserveHost: true, ForwardedFor: "auto", ForwardedProto: true, ForwardedHost: true, AddVia: true}}
	d.Targets = []xmlconf.Address{*ws.Target}
	p := &processor{decl: d, kind: xmlconf.KindProxy, runs: xmlconf.KindProxy, scope: "vhost:" + h.Name}
	p.peers = []peer{{p, 0}}
	relay := b.buildRelay(p, b.buildHop(h, p, nil), nil, b.routeTunnels(h, ws.URI, b.prints.Of(ws)))
	b.use(h, p, nil, ws.URI, true)
	return relay
}

// buildScripts gives suffixes to applications: the server's list, then the
// host's, suffix by suffix. A suffix whose application is missing answers 503:
// it is reserved, its source is never served (R-FCGI-1, R-STATIC-10).
func (b *builder) buildScripts(h *host) {
	for _, s := range sourceSuffixes {
		h.out.Scripts[s] = &contexts.Script{Handler: answer(503, "handler_unresolved", "no script handler for suffix %q", s)}
	}
	reserved := b.reserveTypes(h)
	for _, list := range [][]*xmlconf.ScriptHandler{b.cfg.Server.ScriptHandlers, h.Conf.ScriptHandlers} {
		scripts := map[string]bool{} // of this list
		for _, sh := range list {
			for _, suffix := range sh.Suffixes {
				suffix = strings.ToLower(strings.TrimPrefix(suffix, "."))
				switch {
				case strings.ContainsFunc(suffix, notOfSuffix) && !strings.EqualFold(sh.Type, "static"):
					b.reserve(h, sh, suffix, scripts)
				case !strings.EqualFold(sh.Type, "static"):
					h.out.Scripts[suffix], scripts[suffix] = b.buildScript(h, sh), true
					h.setRunner(suffix, sh)
				case scripts[suffix]:
					b.fs.Error("E-DUPNAME", sh.At("suffix"), "remove one", "scriptHandler %s: the same list makes it a script and static: it stays a script", suffix)
				default:
					delete(h.out.Scripts, suffix)
					delete(h.runners, suffix)
				}
			}
		}
	}
	b.reportReserved(h, reserved)
	b.checkPHP(h)
	if !h.Decl.EnableScript {
		for suffix := range h.out.Scripts {
			h.out.Scripts[suffix] = &contexts.Script{Handler: answer(403, "access_denied", "virtual host %q has enableScript 0", h.Name)}
		}
	}
}

// notOfSuffix reports what no suffix of files may hold (LSX 4).
func notOfSuffix(r rune) bool {
	return r != '_' && r != '-' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
}

// reserve closes the suffixes that a text may be meant to be, as in php;inc: no file has
// it as a whole, and whose suffix is a part of it would be sent as it is (R-SAFE-1).
// Those that the list has already given to an application stay with it.
func (b *builder) reserve(h *host, sh *xmlconf.ScriptHandler, text string, given map[string]bool) {
	b.fs.Error("E-CLOSED", sh.At("suffix"), "write letters, digits, _ and -, with a comma between two suffixes",
		"scriptHandler: %q is no suffix; files of the suffixes in it that nothing else runs answer 503", text)
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r != '.' && notOfSuffix(r) }) {
		part = part[strings.LastIndexByte(part, '.')+1:] // as that of a file
		if part == "" || given[part] {
			continue
		}
		h.out.Scripts[part] = &contexts.Script{Handler: answer(503, "handler_unresolved", "suffix %q stands in %q, which is no suffix", part, text)}
	}
}

// sourceSuffixes are never served as text, even where no handler is declared: a
// file that was meant to run holds what was not meant to be read. A script
// handler of type static says otherwise.
var sourceSuffixes = []string{"php", "php3", "php4", "php5", "php7", "php8", "php52", "php53", "php54", "php55", "php56",
	"php70", "php71", "php72", "php73", "php74", "php80", "php81", "php82", "php83", "php84", "php85", "phtml", "pht", "phar"}

func (b *builder) buildScript(h *host, sh *xmlconf.ScriptHandler) *contexts.Script {
	kind := kindOf(strings.ToLower(sh.Type))
	p := h.procs.find(kind, sh.Handler)
	switch {
	case p == nil:
		b.fs.Warn("W-SCRIPT-UNROUTABLE", sh.At("handler"), "declare an extProcessor of type fcgi or lsapi with this name",
			"scriptHandler %s: %s processor %q is not declared%s; these files answer 503", strings.Join(sh.Suffixes, ","), or(sh.Type, "no type:"), sh.Handler, b.otherKind(h, sh.Handler))
		return &contexts.Script{Handler: answer(503, reasonFor(kind), "processor %q is not declared", sh.Handler)}
	case p.fault != "":
		b.fs.Warn("W-SCRIPT-UNROUTABLE", sh.At("handler"), "use an extProcessor of type fcgi or lsapi",
			"scriptHandler %s: processor %q: %s; these files answer 503", strings.Join(sh.Suffixes, ","), sh.Handler, p.fault)
		return &contexts.Script{Handler: answer(503, reasonFor(kind), "processor %q: %s", sh.Handler, p.fault)}
	}
	out := &contexts.Script{Serves: serves(p), Scope: p.scope, Group: p.decl.Name}
	if p.runs == xmlconf.KindProxy {
		out.Handler = b.buildProxy(h, p, nil, nil)
	} else {
		out.Handler = b.buildApp(h, p, "", 0)
	}
	b.use(h, p, nil, "*."+strings.Join(sh.Suffixes, ",*."), false)
	return out
}

// kindOf is the kind of processor that a script handler or context of a type names.
func kindOf(typ string) xmlconf.ProcessorKind {
	switch typ {
	case "cgi", "fcgi", "fastcgi":
		return xmlconf.KindFastCGI
	case "proxy":
		return xmlconf.KindProxy
	case "lsapi":
		return xmlconf.KindLSAPI
	case "loadbalancer":
		return xmlconf.KindLoadBalancer
	}
	return xmlconf.KindUnsupported
}

// serves is the kind of handler that answers with p.
func serves(p *processor) exchange.Kind {
	switch p.runs {
	case xmlconf.KindProxy:
		return exchange.Proxy
	case xmlconf.KindLSAPI:
		return exchange.LSAPI
	}
	return exchange.FastCGI
}

func reasonFor(kind xmlconf.ProcessorKind) string {
	if kind == xmlconf.KindLSAPI {
		return "lsapi_unavailable"
	}
	return "handler_unresolved"
}

// buildApp returns the handler of a FastCGI or LSAPI processor: for files, or for the
// paths of a context. A responseTimeout above 0 goes before the processor's
// (R-CTX-10).
func (b *builder) buildApp(h *host, p *processor, context string, responseTimeout time.Duration) exchange.Handler {
	o := b.appOptions(h, p)
	o.HeadTimeout, o.URI = responseTimeout, context
	for _, v := range b.fastCGIVariables(h, p) {
		i := slices.IndexFunc(o.Env, func(f exchange.Field) bool { return f.Name == v.Name })
		if i < 0 {
			o.Env = append(o.Env, v)
			continue
		}
		o.Env[i].Value += "\n" + v.Value // behind what env says
	}
	return script.New(o)
}

// appOptions are the options of all that speaks to a FastCGI application.
func (b *builder) appOptions(h *host, p *processor) script.Options {
	o := script.Options{Group: b.group(p), Bodies: b.kept.Bodies, Unavailable: "fcgi_unavailable", DocRoot: h.Conf.DocRoot,
		ServerName: b.cfg.Server.ServerName, Log: b.opt.Log, Slow: b.slowLog(h),
		Spans: b.cfg.Server.Tracing != nil && b.cfg.Server.Tracing.Mode == "span"}
	if p.runs == xmlconf.KindLSAPI {
		o.Unavailable = "lsapi_unavailable"
	}
	first := p.peers[0].owner.decl // of a balancer, the first worker
	o.BodyTimeout, o.AppRoot = first.BodyTimeout, first.AppRoot
	for _, e := range first.Env {
		if name, value, ok := strings.Cut(e.Value, "="); ok {
			o.Env = append(o.Env, exchange.Field{Name: name, Value: value})
		}
	}
	return o
}

// buildAuthorizer sets who is asked whether a context may be had (LSX 7.5). One that
// is not there closes it.
func (b *builder) buildAuthorizer(h *host, c *xmlconf.Context, out *contexts.Context) {
	if c.Authorizer == "" {
		return
	}
	p := h.procs.find(xmlconf.KindAuthorizer, c.Authorizer)
	switch {
	case p == nil:
		b.shut(c, out, c.At("authorizer"), "declare an extProcessor of type fcgiauth with this name", "authorizer "+c.Authorizer+" is not declared"+b.otherKind(h, c.Authorizer))
		return
	case p.fault != "":
		b.shut(c, out, c.At("authorizer"), "correct the extProcessor", "authorizer "+c.Authorizer+": "+p.fault)
		return
	}
	if h.authorizers[p] == nil { // one for all contexts, so that it is asked once
		if h.authorizers == nil {
			h.authorizers = map[*processor]*script.Authorizer{}
		}
		h.authorizers[p] = script.NewAuthorizer(b.appOptions(h, p))
	}
	out.Authorizer = h.authorizers[p]
	b.use(h, p, out, c.URI, true)
}

// buildRelay returns the handler of WebSocket upgrades to a processor, for a
// context (or nil), or to a map.
func (b *builder) buildRelay(p *processor, hop forward.Options, c *xmlconf.Context, route *tunnels.Set) exchange.Handler {
	out := &wsrelay.Handler{Group: b.group(p), Forward: hop, InitTimeout: p.decl.InitTimeout, IdleTimeout: p.decl.WSIdleTimeout,
		Tunnels: route, Peers: b.peerTunnels(p), Generation: b.open}
	if c != nil && c.Written("wsIdleTimeout") {
		out.IdleTimeout = c.WSIdleTimeout
	}
	return out
}

// routeTunnels leases the tunnels of a context or map. Its identity is all that is
// written in it, and who the host lets in: tunnels of a route that has changed end
// (R-WS-7).
func (b *builder) routeTunnels(h *host, label, fingerprint string) *tunnels.Set {
	return b.tunnelSet("route "+h.Name+" "+label, b.prints.Of(&h.Conf.Security)+fingerprint)
}

// peerTunnels leases the tunnels of each peer of p, by ordinal. A peer is known by
// its address, wherever it stands in the list.
func (b *builder) peerTunnels(p *processor) (sets []*tunnels.Set) {
	for _, pe := range p.peers {
		t := pe.target()
		sets = append(sets, b.tunnelSet("peer of "+t.Scope+"/"+t.Name,
			fmt.Sprintln(t.Kind, t.Scheme, t.Network, t.Address, t.TLSName)))
	}
	return sets
}

func (b *builder) tunnelSet(name, identity string) *tunnels.Set {
	key := name + "\x00" + identity
	if s := b.g.tunnels[key]; s != nil {
		return s
	}
	s, release := b.kept.Tunnels.Acquire(key, func() *tunnels.Set { return b.kept.Leaving.Set(key, name) })
	b.g.leases = append(b.g.leases, release)
	b.g.tunnels[key] = s
	return s
}
