package generation

import (
	"crypto/tls"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"httpjet/apps"
	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/xmlconf"
)

// processor is a declared <extProcessor> with what it is.
type processor struct {
	decl  *xmlconf.ExtProcessor
	kind  xmlconf.ProcessorKind
	scope string
	runs  xmlconf.ProcessorKind // what it speaks: its kind, or that of a balancer's workers
	peers []peer                // its addresses, or those of a balancer's workers
	group *groups.Group         // once something names it
	up    *upstream             // likewise
	adHoc bool                  // a rule names its host, and nothing declares it
	fault string                // why it cannot be routed to although it resolves; "" if it can
	start *apps.Options         // what its program is started with; nil: it is not
	host  *xmlconf.Host         // that it stands in, or whose programs are its own; nil: the server
	tls   *tls.Config           // what its <upstreamTLS> says; nil without one
	tlsID string                // and what it is known by
}

// peer is one address of a processor.
type peer struct {
	owner *processor
	i     int // in the owner's Targets
}

type processorKey struct {
	kind xmlconf.ProcessorKind
	name string
}

// processors is the registry of one scope. A host's own list goes before the
// server's (R-CFG-10); kinds are apart, as in LiteSpeed.
type processors struct {
	list   map[processorKey]*processor
	parent *processors
}

// find returns the processor of a kind and name, nil if there is none.
func (ps *processors) find(kind xmlconf.ProcessorKind, name string) *processor {
	for ; ps != nil; ps = ps.parent {
		if p := ps.list[processorKey{kind, name}]; p != nil {
			return p
		}
	}
	return nil
}

// known returns a processor of any kind that has the name, to say in a finding
// what it is instead.
func (ps *processors) known(name string) *processor {
	for ; ps != nil; ps = ps.parent {
		for k, p := range ps.list {
			if k.name == name {
				return p
			}
		}
	}
	return nil
}

// names returns all names of ps and its parents.
func (ps *processors) names() []string {
	var out []string
	for ; ps != nil; ps = ps.parent {
		for k := range ps.list {
			out = append(out, k.name)
		}
	}
	return out
}

func (b *builder) buildProcessors(scope string, decls []*xmlconf.ExtProcessor, parent *processors) *processors {
	ps := &processors{list: map[processorKey]*processor{}, parent: parent}
	for _, d := range decls {
		p := &processor{decl: d, kind: d.Kind(), scope: scope, host: b.host}
		ps.list[processorKey{p.kind, d.Name}] = p // xmlconf leaves no two of one name
		b.describe(p)
	}
	for _, d := range decls { // once all that a balancer may name are known
		if p := ps.list[processorKey{xmlconf.KindLoadBalancer, d.Name}]; p != nil && p.decl == d {
			b.describeBalancer(ps, p)
		}
	}
	return ps
}

// describe says what keeps the processor from being routed to; xmlconf reported
// what is wrong with it.
func (b *builder) describe(p *processor) {
	d := p.decl
	switch p.kind {
	case xmlconf.KindProxy, xmlconf.KindFastCGI, xmlconf.KindLSAPI, xmlconf.KindAuthorizer:
	case xmlconf.KindLoadBalancer:
		return // its workers come first
	default:
		p.fault = "processors of type " + d.Type + " are not routed to"
		return
	}
	if p.runs = p.kind; p.kind == xmlconf.KindAuthorizer {
		p.runs = xmlconf.KindFastCGI
	}
	if len(d.Targets) == 0 {
		p.fault = "it has no usable address"
		return
	}
	if p.runs == xmlconf.KindFastCGI || p.runs == xmlconf.KindLSAPI {
		b.describeApplication(p)
		b.describeStart(p)
	}
	for i := range d.Targets {
		p.peers = append(p.peers, peer{p, i})
	}
	switch secure := p.kind == xmlconf.KindProxy && isSecure(schemes[d.Targets[0].Scheme]); {
	case d.UpstreamTLS != nil:
		b.buildUpstreamTLS(p)
	case secure:
		p.fault = b.trust.fault
		p.tls, p.tlsID = b.trust.conf, b.trust.id
	}
}

// describeBalancer makes a group of the workers of a load balancer (R-GRP-10): all
// their addresses, the least active first. A worker keeps its own settings and
// pool; what is known of its addresses is known of both.
func (b *builder) describeBalancer(ps *processors, p *processor) {
	d := p.decl
	refuse := func(hint, format string, args ...any) {
		p.fault = fmt.Sprintf(format, args...)
		b.fs.Error("E-LB-WORKERS", d.At("workers"), hint, "extProcessor %q: %s; what names it answers 503", d.Name, p.fault)
	}
	for _, w := range d.Workers {
		typ, name, ok := strings.Cut(w, "::")
		kind := (&xmlconf.ExtProcessor{Type: strings.TrimSpace(typ)}).Kind()
		worker := ps.find(kind, strings.TrimSpace(name))
		if !ok || worker == nil || worker.fault != "" || kind == xmlconf.KindLoadBalancer {
			b.fs.Error("E-LB-WORKERS", d.At("workers"), "write type::name of declared processors of type proxy, fcgi or lsapi",
				"extProcessor %q: worker %q is not declared or not usable; it is left out", d.Name, w)
			continue
		}
		if kind == xmlconf.KindAuthorizer {
			refuse("name the authorizer itself", "worker %q is an authorizer", w)
			return
		}
		if first := p.runs; first != 0 && (worker.runs != first || worker.decl.Targets[0].Scheme != p.peers[0].owner.decl.Targets[0].Scheme) {
			refuse("use workers of one type and protocol", "its workers are of different types or protocols")
			return
		}
		if slices.ContainsFunc(p.peers, func(pe peer) bool { return pe.owner == worker }) {
			continue // named twice
		}
		p.runs, p.peers = worker.runs, append(p.peers, worker.peers...)
	}
	switch {
	case len(p.peers) == 0:
		refuse("write type::name of declared processors of type proxy, fcgi or lsapi", "it has no usable worker")
	case len(p.peers) > groups.MaxPeers:
		refuse("", "its workers have more than %d addresses", groups.MaxPeers)
	default:
		b.fs.Warn("W-LB-MAPPED", d.At("type"), "or write one processor with several addresses",
			"extProcessor %q: the %d addresses of its workers are a group with loadBalancePolicy weighted-least-active", d.Name, len(p.peers))
	}
}

// target is the identity of the peer's pool.
func (pe peer) target() extproc.Target {
	p, d, a := pe.owner, pe.owner.decl, pe.owner.decl.Targets[pe.i]
	t := extproc.Target{Scope: p.scope, Name: d.Name, Kind: extproc.KindFastCGI,
		Network: a.Network, Address: a.Address, TLSName: a.TLSName,
		MaxConns: d.MaxConns, InitTimeout: d.InitTimeout, KeepAlive: d.PcKeepAliveTimeout,
		HeadTimeout: d.ResponseTimeout, BodyTimeout: d.BodyTimeout}
	if p.kind == xmlconf.KindLSAPI {
		t.MaxTime = d.MaxProcessTime
	}
	switch p.kind {
	case xmlconf.KindAuthorizer:
		t.Kind, t.MaxParams, t.Children = extproc.KindAuthorizer, d.MaxParamSize, children(d)
	case xmlconf.KindFastCGI:
		t.MaxParams, t.Children = d.MaxParamSize, children(d)
	case xmlconf.KindLSAPI:
		t.Kind, t.Children = extproc.KindLSAPI, children(d)
	}
	if p.kind == xmlconf.KindProxy {
		t.Kind, t.Scheme, t.TLSID = extproc.KindProxy, schemes[a.Scheme], p.tlsID
		if d.UpstreamTLS != nil && d.UpstreamTLS.ServerName != "" {
			t.TLSName = d.UpstreamTLS.ServerName
		}
	}
	if n := d.Instances; pe.starts() && n > 1 { // each process serves so many at once
		t.MaxConns = min(t.MaxConns, n*max(1, t.Children))
		t.Children *= n
	}
	if !d.PersistConn {
		t.KeepAlive = 0
	} else if d.PcKeepAliveTimeout < 0 {
		t.KeepAlive = 24 * time.Hour // without limit in LiteSpeed; a dead one is noticed at checkout
	} // a written 0 closes at once, as in LiteSpeed
	return t
}

// children is how many requests an application takes at once, as far as its env
// tells: 0 if it does not.
func children(d *xmlconf.ExtProcessor) int {
	for _, e := range d.Env {
		if name, v, ok := strings.Cut(e.Value, "="); ok && slices.Contains(childrenNames[d.Kind()], name) {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			if err == nil && n > 0 && n <= 10000 {
				return n
			}
		}
	}
	return 0
}

// childrenNames are the variables that tell the number of children, by protocol.
var childrenNames = map[xmlconf.ProcessorKind][]string{
	xmlconf.KindFastCGI: {"PHP_FCGI_CHILDREN"}, xmlconf.KindLSAPI: {"PHP_LSAPI_CHILDREN", "LSAPI_CHILDREN"},
}

// describeApplication checks what belongs to applications with children.
func (b *builder) describeApplication(p *processor) {
	d := p.decl
	if n := children(d); n > 0 && d.MaxConns > n {
		b.fs.Warn("W-CHILDREN", d.At("maxConns"), fmt.Sprintf("write maxConns %d, or raise %s", n, childrenNames[p.kind][0]),
			"extProcessor %q: maxConns %d is more than the %d children of the application: further requests wait inside it instead of here", d.Name, d.MaxConns, n)
	}
	if r := d.AppRoot; r != "" && (!strings.HasPrefix(r, "/") || path.Clean(r) != strings.TrimSuffix(r, "/") && r != "/") {
		b.fs.Fatal("E-STRICT", d.At("appRoot"), "write an absolute path without dot segments", "extProcessor %q: appRoot %q is no path of a directory", d.Name, r)
	}
}
