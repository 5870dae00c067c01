package generation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"httpjet/contexts"
	"httpjet/exchange"
	"httpjet/forward"
	"httpjet/headers"
	"httpjet/rewrite"
	"httpjet/static"
	"httpjet/xmlconf"
)

// answers is what server, virtual host and the contexts around a path say about the
// answers for files, of which the innermost that says something counts (LSX 7.3).
type answers struct {
	charset  string
	force    string   // forceType
	other    string   // defaultType
	added    []string // of addMIMEType: type and suffixes between blanks
	expires  bool
	keep     string // expiresDefault
	keepType string // expiresByType
	list     bool   // autoIndex
	index    []string
	ops      *headers.Ops
	pages    contexts.Pages
	php      []exchange.Setting
}

// hostAnswers is what holds in a host where no context says anything.
func (b *builder) hostAnswers(h *xmlconf.Host) answers {
	s, v := b.cfg.Server, h.Conf
	a := answers{expires: s.Expires.Enable, keep: s.Expires.Default, keepType: s.Expires.ByType,
		list: s.AutoIndex, index: b.indexFiles(v)}
	if v.Expires.Written("enableExpires") {
		a.expires = v.Expires.Enable
	}
	if v.Expires.Written("expiresDefault") {
		a.keep = v.Expires.Default
	}
	if v.Expires.Written("expiresByType") {
		a.keepType = v.Expires.ByType
	}
	if v.Index.Written("autoIndex") {
		a.list = v.Index.AutoIndex
	}
	a.pages = b.buildPages(nil, v.ErrorPages)
	a.php, _ = b.phpSettings(v.PHPIniOverride, &v.Block, true)
	b.checkExpires(s.Expires.At("expiresByType"), s.Expires.Default, s.Expires.ByType)
	b.checkExpires(v.Expires.At("expiresByType"), v.Expires.Default, v.Expires.ByType)
	return a
}

// contextAnswers is what holds in context c: what the host and the plain contexts
// around it say, then what it says itself. Contexts of whole paths lie in "/" alone.
func (b *builder) contextAnswers(h *host, c *xmlconf.Context) answers {
	a := h.answers
	for _, around := range enclosing(h.Conf.Contexts, c) {
		a = a.in(b, around)
	}
	return a.in(b, c)
}

// enclosing returns the enabled contexts around c, the outermost first.
func enclosing(list []*xmlconf.Context, c *xmlconf.Context) (around []*xmlconf.Context) {
	match, _ := c.Match()
	for _, o := range list {
		kind, _ := o.Match()
		switch {
		case o == c || !o.Enabled || kind != "prefix" || !strings.HasPrefix(o.URI, "/"):
		case o.URI == "/" && c.URI != "/",
			match == "prefix" && len(o.URI) < len(c.URI) && strings.HasPrefix(c.URI, strings.TrimSuffix(o.URI, "/")+"/"):
			around = append(around, o)
		}
	}
	slices.SortStableFunc(around, func(x, y *xmlconf.Context) int { return len(x.URI) - len(y.URI) })
	return around
}

// in returns a as it is inside of c. Findings about c are told when c is built.
func (a answers) in(b *builder, c *xmlconf.Context) answers {
	if c.Written("addDefaultCharset") {
		a.charset = charset(c)
	}
	if c.ForceType != "" {
		a.force = c.ForceType
		if strings.EqualFold(a.force, "NONE") {
			a.force = ""
		}
	}
	if c.DefaultType != "" {
		a.other = c.DefaultType
	}
	for item := range strings.SplitSeq(c.AddMIMEType, ",") {
		if fields := strings.Fields(item); len(fields) > 1 {
			a.added = append(slices.Clip(a.added), strings.Join(fields, " "))
		}
	}
	if c.Written("enableExpires") {
		a.expires = c.EnableExpires
	}
	if c.Written("expiresDefault") {
		a.keep = c.ExpiresDefault
	}
	if c.Written("expiresByType") {
		a.keepType = c.ExpiresByType
	}
	if c.Written("autoIndex") {
		a.list = c.AutoIndex
	}
	if len(c.IndexFiles) > 0 {
		a.index = c.IndexFiles
	}
	ops, _ := headers.Parse(c.ExtraHeaders)
	a.ops = headers.Join(a.ops, ops)
	a.pages = b.buildPages(a.pages, c.ErrorPages)
	php, _ := b.phpSettings(c.PHPIniOverride, &c.Block, false)
	a.php = rewrite.MergePHP(a.php, php...)
	return a
}

// checkAnswers tells of what context c says and cannot be used, and closes it where
// files could go out that were meant to run.
func (b *builder) checkAnswers(c *xmlconf.Context, out *contexts.Context) {
	ops, bad := headers.Parse(c.ExtraHeaders)
	line := func(n int) xmlconf.Place {
		at := c.TextAt("extraHeaders")
		if n > 1 {
			at.Line, at.Column = at.Line+n-1, 1
		}
		return at
	}
	for n, name := range ops.RequestFields() {
		if forward.Writes(name) {
			b.fs.Warn("W-SKIPPED", line(n), "trust who sends it: accessControl allow ADDRESST", "extraHeaders: RequestHeader %s: only scripts see it, upstreams of a proxy are told what this server knows", name)
		}
	}
	for _, p := range bad {
		at := line(p.Line)
		b.fs.Warn("W-SKIPPED", at, "write an operation, a name and a value, or Name: value", "extraHeaders: %s; the line is left out", p.Text)
	}
	if _, unread := b.phpSettings(c.PHPIniOverride, &c.Block, true); unread != "" {
		b.shut(c, out, c.TextAt("phpIniOverride"), "write php_admin_value NAME VALUE, or php_admin_flag NAME on", unread)
	}
	b.checkExpires(c.At("expiresByType"), c.ExpiresDefault, c.ExpiresByType)
	for _, e := range []struct{ element, types string }{{"forceType", c.ForceType}, {"defaultType", c.DefaultType}, {"addMIMEType", c.AddMIMEType}} {
		for item := range strings.SplitSeq(e.types, ",") {
			fields := strings.Fields(item)
			switch {
			case len(fields) == 0 || e.element == "forceType" && strings.EqualFold(fields[0], "NONE"):
			case runs(fields[0]):
				b.shut(c, out, c.At(e.element), "name the suffix in a scriptHandler", e.element+" gives files to an application")
			case !xmlconf.IsMediaType(fields[0]) || e.element == "addMIMEType" && len(fields) == 1:
				b.fs.Warn("W-SKIPPED", c.At(e.element), "write type/subtype, and behind it the suffixes in addMIMEType", "%s: %q is left out", e.element, strings.Join(fields, " "))
			}
		}
	}
}

// runs reports media types that name a handler of scripts.
func runs(t string) bool {
	t = strings.ToLower(t)
	return strings.HasPrefix(t, "application/x-httpd-") || t == "cgi-script"
}

func (b *builder) checkExpires(at xmlconf.Place, other, byType string) {
	_, bad := headers.NewExpires(other, byType)
	for _, err := range bad {
		b.fs.Warn("W-SKIPPED", at, "write A and seconds, or words such as access plus 1 month", "expires: %v; it is left out", err)
	}
}

// buildPages adds error pages to those of what is around.
func (b *builder) buildPages(outer contexts.Pages, list []*xmlconf.ErrorPage) contexts.Pages {
	if len(list) == 0 {
		return outer
	}
	pages := contexts.Pages{}
	maps.Copy(pages, outer)
	for _, p := range list {
		for _, code := range strings.FieldsFunc(p.ErrCode, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
			if status, err := strconv.Atoi(code); err == nil && status >= 400 && status <= 505 && isPage(p.URL) {
				pages[status] = p.URL
			}
		}
	}
	return pages
}

// isPage accepts a path of this host, and a URL of http.
func isPage(url string) bool {
	if strings.ContainsFunc(url, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) || strings.HasPrefix(url, "//") {
		return false
	}
	lower := strings.ToLower(url)
	return strings.HasPrefix(url, "/") || strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://")
}

// checkPages tells of error pages that are left out.
func (b *builder) checkPages(list []*xmlconf.ErrorPage) {
	for _, p := range list {
		codes := strings.FieldsFunc(p.ErrCode, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' })
		if len(codes) == 0 && p.URL == "" {
			continue
		}
		if len(codes) == 0 || !isPage(p.URL) {
			b.fs.Warn("W-SKIPPED", p.At("url"), "write errCode, and a url that starts with / or http", "errorPage: %q for %q is left out", p.URL, p.ErrCode)
			continue
		}
		for _, code := range codes {
			if status, err := strconv.Atoi(code); err != nil || status < 400 || status > 505 {
				b.fs.Warn("W-SKIPPED", p.At("errCode"), "write a status from 400 to 505", "errorPage: %q is no status of an error; it is left out", code)
			}
		}
	}
}

// buildStatic returns the handler of files for which a holds.
func (b *builder) buildStatic(a answers) *static.Handler {
	o := static.Options{Types: b.cfg.Mime.Types(), ETag: b.cfg.Server.Tuning.FileETag, Charset: a.charset}
	if xmlconf.IsMediaType(a.force) {
		o.Force = a.force
	}
	if xmlconf.IsMediaType(a.other) {
		o.DefaultType = a.other
	}
	for _, item := range a.added {
		fields := strings.Fields(item)
		if !xmlconf.IsMediaType(fields[0]) {
			continue
		}
		for _, suffix := range fields[1:] {
			o.Types[strings.ToLower(strings.TrimPrefix(suffix, "."))] = fields[0]
		}
	}
	// What the operator's own fields say goes before.
	keep := a.expires && !a.ops.Gives("Cache-Control") && !a.ops.Gives("Expires")
	if keep {
		o.Expires, _ = headers.NewExpires(a.keep, a.keepType)
	}
	key := fmt.Sprintf("%q", []any{a.charset, o.Force, o.DefaultType, a.added, keep, a.keep, a.keepType})
	h := b.static[key]
	if h == nil {
		h = static.New(o)
		b.static[key] = h
	}
	return h
}

// buildEdits is what a context changes of fields; nil for nothing.
func buildEdits(a answers) *contexts.Edits {
	if a.ops == nil && a.charset == "" {
		return nil
	}
	return &contexts.Edits{Ops: a.ops, Charset: a.charset}
}
