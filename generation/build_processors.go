package generation

import (
	"time"

	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/xmlconf"
)

// processor is a declared <extProcessor> with what it is.
type processor struct {
	decl  *xmlconf.ExtProcessor
	kind  xmlconf.ProcessorKind
	scope string
	group *groups.Group // once something names it
	fault string        // why it cannot be routed to although it resolves; "" if it can
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
		p := &processor{decl: d, kind: d.Kind(), scope: scope}
		ps.list[processorKey{p.kind, d.Name}] = p // xmlconf leaves no two of one name
		b.describe(p)
	}
	return ps
}

// describe says what keeps the processor from being routed to; xmlconf reported
// what is wrong with it.
func (b *builder) describe(p *processor) {
	d := p.decl
	switch p.kind {
	case xmlconf.KindProxy, xmlconf.KindFastCGI:
	case xmlconf.KindLSAPI:
		p.fault = "LSAPI is not supported yet"
		b.fs.Warn("W-NOT-YET", d.At("type"), "use fcgi, for example php-fpm", "extProcessor %q: LSAPI is not supported yet; what names it answers 503", d.Name)
		return
	default:
		p.fault = "processors of type " + d.Type + " are not routed to"
		return
	}
	if len(d.Targets) == 0 {
		p.fault = "it has no usable address"
		return
	}
	if s := d.Targets[0].Scheme; s == "h2" || s == "h2s" {
		p.fault = "HTTP/2 upstreams are not built yet"
		b.fs.Error("E-NOT-YET", d.At("address"), "use http:// or https://", "extProcessor %q: HTTP/2 upstreams are not built yet; what names it answers 503", d.Name)
	}
}

// target is the identity of the pool of one of the processor's peers.
func (p *processor) target(i int) extproc.Target {
	d, a := p.decl, p.decl.Targets[i]
	t := extproc.Target{Scope: p.scope, Name: d.Name, Kind: extproc.KindFastCGI,
		Network: a.Network, Address: a.Address, TLSName: a.TLSName,
		MaxConns: d.MaxConns, InitTimeout: d.InitTimeout, KeepAlive: d.PcKeepAliveTimeout,
		HeadTimeout: d.ResponseTimeout, BodyTimeout: d.BodyTimeout}
	if p.kind == xmlconf.KindProxy {
		t.Kind, t.Scheme = extproc.KindProxy, extproc.H1
		if a.Scheme == "https" {
			t.Scheme = extproc.H1S
		}
	}
	if !d.PersistConn {
		t.KeepAlive = 0
	} else if d.PcKeepAliveTimeout < 0 {
		t.KeepAlive = 24 * time.Hour // without limit in LiteSpeed; a dead one is noticed at checkout
	} // a written 0 closes at once, as in LiteSpeed
	return t
}
