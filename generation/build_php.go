package generation

import (
	"path"
	"slices"
	"strings"

	"httpjet/contexts"
	"httpjet/xmlconf"
)

// runsPHP reports whether an LSAPI processor is PHP, as far as the tree tells: by its
// program, by a variable that only PHP has, or because it runs files that are PHP's by
// their suffix.
func (b *builder) runsPHP(h *host, p *processor) bool {
	if p.runs != xmlconf.KindLSAPI {
		return false
	}
	for _, pe := range p.peers { // its own, or those of a balancer's workers
		d := pe.owner.decl
		program, _, _ := strings.Cut(strings.TrimSpace(d.Path), " ")
		if strings.Contains(path.Base(program), "php") || b.runsPHPFiles(h, pe.owner) || slices.ContainsFunc(d.Env, func(e xmlconf.Text) bool {
			return strings.HasPrefix(e.Value, "PHP")
		}) {
			return true
		}
	}
	return b.runsPHPFiles(h, p)
}

// runsPHPFiles reports whether a script handler gives p files of PHP.
func (b *builder) runsPHPFiles(h *host, p *processor) bool {
	for _, list := range [][]*xmlconf.ScriptHandler{b.cfg.Server.ScriptHandlers, h.Conf.ScriptHandlers} {
		for _, sh := range list {
			if sh.Handler == p.decl.Name && kindOf(strings.ToLower(sh.Type)) == p.kind &&
				slices.ContainsFunc(sh.Suffixes, func(s string) bool { return strings.Contains(strings.ToLower(s), "php") }) {
				return true
			}
		}
	}
	return false
}

// refusePHP answers for a context that is to be PHP as a whole: PHP runs files, which
// such a context names none of. Its own answer would be a success that tells of a fatal
// error.
func (b *builder) refusePHP(h *host, c *xmlconf.Context, p *processor, out *contexts.Context) bool {
	if !b.runsPHP(h, p) {
		return false
	}
	b.fs.Warn("W-CTX-PHP", c.At("handler"), "map the suffix php by a scriptHandler, and remove the context",
		"context %q: PHP runs files, and a context of type %s names none; it answers 404", c.URI, c.Type)
	out.Handler = answer(404, "not_found", "context %q names no script for PHP", c.URI)
	return true
}
