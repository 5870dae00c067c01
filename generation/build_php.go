package generation

import (
	"maps"
	"path"
	"slices"
	"strings"

	"httpjet/contexts"
	"httpjet/exchange"
	"httpjet/rewrite"
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

// phpSettings reads the phpIniOverride of a block. unread is why a setting that
// restricts cannot be had; "" if all can.
func (b *builder) phpSettings(text string, in *xmlconf.Block, tell bool) (list []exchange.Setting, unread string) {
	list = rewrite.PHPSettings(text, func(line int, fixed bool, err error) {
		if fixed && unread == "" {
			unread = "phpIniOverride: a setting that restricts cannot be read: " + err.Error()
		}
		if !tell || fixed { // who closes what it stands in tells of it
			return
		}
		at := in.TextAt("phpIniOverride")
		if line > 0 {
			at.Line, at.Column = at.Line+line, 1
		}
		b.fs.Warn("W-PHP-INI", at, "write php_value NAME VALUE, or php_flag NAME on", "phpIniOverride: %v; the line is left out", err)
	})
	return list, unread
}

// fastCGIVariables are the settings of a host as PHP behind FastCGI takes them. A worker
// keeps what it is told for the requests behind, so only a processor of the host's own
// is told, and always the same.
func (b *builder) fastCGIVariables(h *host, p *processor) (vars []exchange.Field) {
	if len(h.answers.php) == 0 || p.runs != xmlconf.KindFastCGI || slices.ContainsFunc(p.peers, func(pe peer) bool { return pe.owner.scope != "vhost:"+h.Name }) {
		return nil
	}
	var lines [2]strings.Builder
	for _, s := range h.answers.php {
		i := 0
		if s.Fixed {
			i = 1
		}
		lines[i].WriteString(s.Name + "=" + quoteINI(s.Value) + "\n")
	}
	for i, name := range []string{"PHP_VALUE", "PHP_ADMIN_VALUE"} {
		if lines[i].Len() > 0 {
			vars = append(vars, exchange.Field{Name: name, Value: strings.TrimSuffix(lines[i].String(), "\n")})
		}
	}
	return vars
}

// quoteINI writes a value as PHP reads it out of a file of settings, where nothing of
// it has a meaning.
func quoteINI(v string) string {
	switch {
	case !strings.Contains(v, "'"):
		return "'" + v + "'"
	case !strings.ContainsAny(v, `"\$`):
		return `"` + v + `"`
	}
	panic("BUG: rewrite.PHPSetting lets no such value pass")
}

// runner is who runs the files of a suffix in a host.
type runner struct {
	handler *xmlconf.ScriptHandler
	p       *processor
}

// setRunner notes who runs a suffix; a handler whose processor cannot be had answers 503.
func (h *host) setRunner(suffix string, sh *xmlconf.ScriptHandler) {
	if h.runners == nil {
		h.runners = map[string]runner{}
	}
	delete(h.runners, suffix)
	if p := h.procs.find(kindOf(strings.ToLower(sh.Type)), sh.Handler); p != nil && p.fault == "" {
		h.runners[suffix] = runner{sh, p}
	}
}

// runnersOfPHP returns who runs files that are PHP's by their suffix, each once.
func (h *host) runnersOfPHP() (list []runner) {
	for _, suffix := range slices.Sorted(maps.Keys(h.runners)) {
		php := strings.Contains(suffix, "php") || slices.Contains(sourceSuffixes, suffix)
		if r := h.runners[suffix]; php && !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// checkPHP tells of settings that do not reach the PHP of a script handler, whose files
// answer 503 if one of them is an administrator's.
func (b *builder) checkPHP(h *host) {
	if len(h.answers.php) == 0 {
		return
	}
	for _, r := range h.runnersOfPHP() {
		if r.p.runs == xmlconf.KindLSAPI || b.fastCGIVariables(h, r.p) != nil {
			continue
		}
		const hint = "run PHP behind LSAPI, declare the FastCGI processor in the virtual host, or set them where it is started"
		fixed := slices.IndexFunc(h.answers.php, func(s exchange.Setting) bool { return s.Fixed && s.Name != "engine" })
		if fixed >= 0 {
			b.shutRunner(h, r.p, hint, h.answers.php[fixed].Name)
			continue
		}
		b.fs.Warn("W-PHP-INI", h.Conf.At("phpIniOverride"), hint,
			"virtual host %q: processor %q of its scripts is not told the settings of phpIniOverride: a PHP behind FastCGI keeps them for the requests of others", h.Name, r.handler.Handler)
	}
}

// shutRunner closes the suffixes that p runs in h, because it cannot be told a setting.
func (b *builder) shutRunner(h *host, p *processor, hint, setting string) {
	b.fs.Error("E-CLOSED", h.Conf.TextAt("phpIniOverride"), hint,
		"virtual host %q: phpIniOverride: processor %q of its scripts cannot be told %s: a PHP behind FastCGI keeps it for the requests of others; they answer 503", h.Name, p.decl.Name, setting)
	for suffix, r := range h.runners {
		if r.p == p {
			h.out.Scripts[suffix] = &contexts.Script{Handler: answer(503, "closed", "virtual host %q: processor %q cannot be told %s of phpIniOverride", h.Name, p.decl.Name, setting)}
		}
	}
}

// stopsPHP reports whether a context says that no script runs in it.
func (b *builder) stopsPHP(c *xmlconf.Context) bool {
	own, _ := b.phpSettings(c.PHPIniOverride, &c.Block, false)
	return rewrite.EngineOff(own)
}

// checkContextPHP closes a context of which an administrator's setting does not reach
// who runs its scripts, and tells of others. engine is nobody's to be told: it is seen
// to before anybody is asked.
func (b *builder) checkContextPHP(h *host, c *xmlconf.Context, out *contexts.Context, a answers) {
	own, _ := b.phpSettings(c.PHPIniOverride, &c.Block, false)
	if len(own) == 0 || !h.Decl.EnableScript || !c.EnableScript {
		return
	}
	var procs []*processor
	switch typ := strings.ToLower(c.Type); typ {
	case "", "null", "static":
		for _, r := range h.runnersOfPHP() {
			procs = append(procs, r.p)
		}
	case "fcgi", "fastcgi", "cgi", "loadbalancer":
		if p := h.procs.find(kindOf(typ), c.Handler); p != nil && p.runs == xmlconf.KindFastCGI {
			procs = append(procs, p)
		}
	}
	for _, p := range procs {
		told := p.runs == xmlconf.KindLSAPI
		same := !told && b.fastCGIVariables(h, p) != nil // what the host says, and no more
		for _, s := range a.php {
			if told || s.Name == "engine" || same && slices.Contains(h.answers.php, s) ||
				!slices.ContainsFunc(own, func(o exchange.Setting) bool { return o.Name == s.Name }) {
				continue
			}
			const hint = "run PHP behind LSAPI, or write it in the virtual host, whose FastCGI processors are told"
			if s.Fixed {
				b.shut(c, out, c.TextAt("phpIniOverride"), hint, "phpIniOverride: processor "+p.decl.Name+" cannot be told "+s.Name+" for one context alone")
				return
			}
			b.fs.Warn("W-PHP-INI", c.TextAt("phpIniOverride"), hint,
				"context %q: processor %q of its scripts is not told the settings of phpIniOverride: a PHP behind FastCGI keeps them for the requests of others", c.URI, p.decl.Name)
			break
		}
	}
}

// reserveTypes closes the suffixes to which the MIME table gives a type that runs files:
// they are to run, and never to be shown. A script handler says who runs them.
func (b *builder) reserveTypes(h *host) map[string]*contexts.Script {
	if b.runTypes == nil { // once, for thousands of hosts may follow
		b.runTypes = b.cfg.Mime.Types()
		maps.DeleteFunc(b.runTypes, func(_, typ string) bool { return !runs(typ) })
	}
	reserved := map[string]*contexts.Script{}
	for suffix, typ := range b.runTypes {
		if h.out.Scripts[suffix] == nil {
			reserved[suffix] = &contexts.Script{Handler: answer(503, "handler_unresolved", "no script handler for suffix %q, of type %s", suffix, typ)}
		}
	}
	maps.Copy(h.out.Scripts, reserved)
	return reserved
}

// reportReserved tells of the suffixes of reserveTypes that nobody runs.
func (b *builder) reportReserved(h *host, reserved map[string]*contexts.Script) {
	for _, suffix := range slices.Sorted(maps.Keys(reserved)) {
		if h.out.Scripts[suffix] == reserved[suffix] {
			b.fs.Warn("W-SCRIPT-UNROUTABLE", b.cfg.Server.At("mime"), "name the suffix in a scriptHandler",
				"virtual host %q: the MIME table gives suffix %q to an application, and no scriptHandler does; these files answer 503", h.Name, suffix)
		}
	}
}
