package generation

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"httpjet/contexts"
	"httpjet/exchange"
	"httpjet/rewrite"
	"httpjet/xmlconf"
)

// maxRuleFile is the largest file that RewriteFile reads.
const maxRuleFile = 1 << 20

// buildRules compiles the rules of a virtual host (reference 1: once for every
// request, right behind the access check).
func (b *builder) buildRules(h *host) {
	r := &h.Conf.Rewrite
	h.out.RulesHost = &rewrite.Host{Name: h.Name, DocRoot: h.Conf.DocRoot, Admin: strings.Join(h.Conf.AdminEmails, ","), Software: "httpjet"}
	h.out.Targets = map[*rewrite.Target]*contexts.Target{}
	h.maps = map[string]*rewrite.Map{}
	h.out.RulesOn = r.Enable
	if allowed, _ := b.readsHtaccess(h.Host); !r.Enable && !anyRules(h.Conf.Contexts) && allowed == 0 {
		return
	}
	for _, m := range r.Maps {
		out, err := rewrite.NewMap(m.Location, b.cfg.Root)
		if err != nil {
			b.fs.Error("E-REWRITE", m.At("location"), "use txt:FILE, rnd:FILE or int:tolower and its like",
				"virtual host %q: map %q: %v; look-ups give their default until it can be used", h.Name, m.Name, err)
		}
		h.maps[m.Name] = out
	}
	if r.Enable && r.Rules != "" {
		h.out.Rules = b.compileRules(h, r, rewrite.Source{Dir: h.Conf.DocRoot})
	}
}

func anyRules(list []*xmlconf.Context) bool {
	for _, c := range list {
		if c.Rewrite != nil && c.Rewrite.Rules != "" {
			return true
		}
	}
	return false
}

// compileRules compiles the rules of a block, nil if none of them runs.
func (b *builder) compileRules(h *host, r *xmlconf.Rewrite, src rewrite.Source) *rewrite.Program {
	at := r.TextAt("rules")
	src.Text, src.File, src.Line, src.Column = r.Rules, at.File, at.Line, at.Column
	src.Base, src.Maps, src.Dynamic, src.AnyHost = r.Base, h.maps, r.AllowDynamicProxy, r.AllowDynamicProxy && r.AllowAdHocProxy
	src.Include = func(name string) (string, string, error) { return b.ruleFile(h, name) }
	p, problems := rewrite.Compile(src)
	if !ruled(h, r, p) {
		return nil
	}
	for _, q := range problems {
		place := at
		place.File, place.Line, place.Column = q.File, q.Line, q.Column
		switch {
		case q.Closes:
			b.fs.Error("E-CLOSED", place, q.Hint, "virtual host %q: %s", h.Name, q.Text)
		case q.Severity == rewrite.Fault:
			b.fs.Error("E-REWRITE", place, q.Hint, "virtual host %q: %s", h.Name, q.Text)
		case q.Severity == rewrite.Doubt:
			b.fs.Warn("W-REWRITE", place, q.Hint, "virtual host %q: %s", h.Name, q.Text)
		default:
			b.fs.Info("I-REWRITE", place, q.Hint, "virtual host %q: %s", h.Name, q.Text)
		}
	}
	if p.Empty() {
		return nil
	}
	for _, t := range p.Targets() {
		place := at
		place.File, place.Line, place.Column = t.File, t.Line, t.Column
		if t.Dynamic && r.AllowDynamicProxy {
			if h.dynamic = true; t.AnyHost {
				b.reportAnyHost(h, place)
			}
			if t.AnyHost && h.out.AnyHost == nil {
				h.out.AnyHost = b.anyHost(h)
			}
			continue
		}
		h.out.Targets[t] = b.buildTarget(h, r, t, place)
	}
	return p
}

// ruleFile reads a file of rules; a relative name is below the document root. It is
// watched as the configuration is.
func (b *builder) ruleFile(h *host, name string) (file, text string, err error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(h.Conf.DocRoot, name)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		b.input(name, nil)
		return name, "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRuleFile {
		return name, "", errors.New("no regular file of at most 1 MiB")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRuleFile))
	b.input(name, data)
	return name, string(data), err
}

// buildContextRules gives each context of files the rules that run in it: its own
// ones, and behind them, with inherit, those of the contexts around it. A context
// without rules has those of the next one around it that has some.
func (b *builder) buildContextRules(h *host, list map[*xmlconf.Context]*contexts.Context) {
	own := map[*xmlconf.Context]*rewrite.Program{}
	for _, c := range h.Conf.Contexts {
		out := list[c]
		if out == nil {
			continue
		}
		if c.Rewrite != nil && c.Rewrite.Written("enable") {
			if out.Engine = -1; c.Rewrite.Enable {
				out.Engine = 1
			}
		}
		if r := c.Rewrite; r != nil && r.Rules != "" && out.Kind == contexts.Static {
			if p := b.compileRules(h, r, contextSource(h, c, out)); p != nil {
				own[c] = p
			}
		} else if r != nil && r.Rules != "" && r.Enable {
			b.fs.Warn("W-REWRITE", r.At("rules"), "write them at the virtual host", "context %q: rules run in contexts of files alone", c.URI)
		}
	}
	if len(own) == 0 {
		return
	}
	for c, out := range list {
		if out.Kind != contexts.Static || c.Rewrite != nil && c.Rewrite.Written("enable") && !c.Rewrite.Enable && own[c] == nil {
			continue
		}
		for at := c; at != nil; at = around(list, at) {
			if p := own[at]; p != nil {
				out.Rules = append(out.Rules, p)
				if !at.Rewrite.Inherit {
					break
				}
			}
		}
	}
}

// ruled reports whether rules run: their text says so, or the enable beside them, or
// that of the virtual host.
func ruled(h *host, r *xmlconf.Rewrite, p *rewrite.Program) bool {
	if on, written := p.Engine(); written {
		return on
	}
	if r.Written("enable") {
		return r.Enable
	}
	return h.Conf.Rewrite.Enable
}

// contextSource is the place of the rules of a context. One without a prefix has the
// paths from the document root.
func contextSource(h *host, c *xmlconf.Context, out *contexts.Context) rewrite.Source {
	src := rewrite.Source{Prefix: "/", Dir: h.Conf.DocRoot}
	if out.Regexp == nil && !out.Exact {
		src.Prefix = strings.TrimSuffix(c.URI, "/") + "/"
		src.Dir = filepath.Join(h.Conf.DocRoot, c.URI)
	}
	if c.Location != "" && out.Regexp == nil && !out.Exact {
		src.Dir = c.Location
	}
	return src
}

// around returns the context with the longest prefix of files that c lies in.
func around(list map[*xmlconf.Context]*contexts.Context, c *xmlconf.Context) (best *xmlconf.Context) {
	if match, _ := c.Match(); match != "prefix" {
		return nil
	}
	for other, out := range list {
		match, uri := other.Match()
		if match != "prefix" || out.Kind != contexts.Static || other.Methods != nil || len(uri) >= len(c.URI) {
			continue
		}
		dir := strings.TrimSuffix(uri, "/") + "/"
		if strings.HasPrefix(c.URI, dir) && c.URI != dir && (best == nil || len(uri) > len(best.URI)) {
			best = other
		}
	}
	return best
}

// buildTarget resolves where a rule with [P] sends: to the processor of that name,
// or, where that is allowed, to the host of that name (R-P-3, R-P-4). Others answer
// 502, or 503 if the processor is none of HTTP.
func (b *builder) buildTarget(h *host, r *xmlconf.Rewrite, t *rewrite.Target, at xmlconf.Place) *contexts.Target {
	bad := func(hint, format string, args ...any) *contexts.Target {
		b.fs.Error("E-REWRITE", at, hint, "virtual host %q: "+format+"; the rule answers 502", append([]any{h.Name}, args...)...)
		return &contexts.Target{Handler: answer(502, "bad_target", "rewrite rule at %s:%d", t.File, t.Line)}
	}
	p := h.procs.find(xmlconf.KindProxy, t.Authority)
	if p == nil {
		if q := h.procs.find(xmlconf.KindLoadBalancer, t.Authority); q != nil && q.runs == xmlconf.KindProxy {
			p = q
		}
	}
	switch {
	case t.Dynamic:
		return bad("name a processor, or write <allowDynamicProxy>1</allowDynamicProxy> where what the rule makes is the name of one", "[P] makes its host of the request")
	case t.Scheme == "": // told by the compiler
		return &contexts.Target{Handler: answer(502, "bad_target", "rewrite rule at %s:%d", t.File, t.Line)}
	case p != nil && t.Scheme == "https" && p.fault == "" && !secure(p):
		return bad("write http:// or give the processor an https:// address", "[P] with https to processor %q, which is not reached by TLS", t.Authority)
	case p == nil && t.Scheme != "unix" && h.procs.known(t.Authority) != nil:
		b.fs.Error("E-REWRITE", at, "name a processor of type proxy", "virtual host %q: [P] to processor %q%s; the rule answers 503",
			h.Name, t.Authority, b.otherKind(h, t.Authority))
		return &contexts.Target{Handler: answer(503, "handler_unresolved", "processor %q is not of type proxy", t.Authority)}
	case p == nil && !r.AllowAdHocProxy:
		return bad("declare an extProcessor of type proxy with this name, or write <allowAdHocProxy>1</allowAdHocProxy>",
			"[P] to %q, which is no processor%s", t.Authority, b.otherKind(h, t.Authority))
	case p == nil:
		var err error
		if p, err = b.adHoc(h, t); err != nil {
			return bad("write host:port", "[P] to %q: %v", t.Authority, err)
		}
	}
	b.use(h, p, nil, "[P]", false)
	return &contexts.Target{Handler: b.buildProxy(h, p, nil, nil), Serves: exchange.Proxy, Scope: p.scope, Group: p.decl.Name}
}

// buildNamed makes a target of each processor of HTTP that the host knows, for rules
// with [P] of .htaccess files, which are read later, and for those that make the name of
// the request (R-P-4).
func (b *builder) buildNamed(h *host) {
	h.out.Named = map[string]*contexts.Target{}
	for ps := h.procs; ps != nil; ps = ps.parent {
		for _, k := range slices.SortedFunc(maps.Keys(ps.list), func(a, c processorKey) int { return strings.Compare(a.name, c.name) }) {
			p := ps.list[k]
			if p.runs != xmlconf.KindProxy || h.out.Named[k.name] != nil {
				continue
			}
			b.use(h, p, nil, "[P] by name", false)
			h.out.Named[k.name] = &contexts.Target{Handler: b.buildProxy(h, p, nil, nil), Serves: exchange.Proxy, Scope: p.scope,
				Group: p.decl.Name, Secure: p.fault == "" && secure(p)}
		}
	}
}

func secure(p *processor) bool {
	s := p.peers[0].owner.decl.Targets[0].Scheme
	return s == "https" || s == "h2s"
}

// adHoc is the processor of a host that a rule names and nothing declares: of the
// same host in one virtual host there is one (R-P-3).
func (b *builder) adHoc(h *host, t *rewrite.Target) (*processor, error) {
	address := t.Scheme + "://" + t.Authority
	if t.Scheme == "unix" {
		address = "uds:/" + t.Authority
	}
	if p := h.adHoc[address]; p != nil {
		return p, nil
	}
	target, err := xmlconf.ParseAddress(address, xmlconf.WebSocketAddress)
	if err != nil {
		return nil, err
	}
	p := adHocProcessor(h.Name, address)
	p.decl.Targets = []xmlconf.Address{target}
	p.peers = []peer{{p, 0}}
	h.adHoc[address] = p
	return p, nil
}
