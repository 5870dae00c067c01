package contexts

import (
	"errors"
	"strings"

	"httpjet/exchange"
	"httpjet/rewrite"
)

// local is what the .htaccess files on the way to the path of one exchange say: those
// of the requested path first, of the rewritten one when it is known, of the file in
// the end. It is the filter by which they edit the answer.
type local struct {
	dirs     *rewrite.Dirs
	path     string // below the root of dirs
	chain    rewrite.Chain
	settings *rewrite.Settings // nil: they say nothing but who may come in
	said     rewrite.Settings  // the first settings
	used     bool              // as a filter
}

// enter looks at the files on the way to path, which is below the root of dirs.
func (l *local) enter(x *exchange.Exchange, dirs *rewrite.Dirs, path string) {
	if l.dirs == dirs && l.path == path {
		return
	}
	into := &l.said
	if l.settings != nil {
		into = &rewrite.Settings{} // somebody still holds what the path before was told
	}
	l.dirs, l.path, l.chain, l.settings = dirs, path, dirs.Walk(path), nil
	if l.chain.Empty() {
		return
	}
	l.chain.Ask(x)
	if l.chain.Settings(into, rewrite.Request{Method: x.Req.Method, Client: x.Req.Client, X: x}) {
		l.settings = into
	}
	if l.settings != nil && !l.used {
		l.used = true
		x.Use(l)
	}
}

// refuses returns the error of who may not come in.
func (l *local) refuses(x *exchange.Exchange) error {
	return l.chain.Verdict(rewrite.Request{Method: x.Req.Method, Client: x.Req.Client, X: x}).Err()
}

// Head is that of exchange.Filter.
func (l *local) Head(x *exchange.Exchange) bool {
	if l.settings != nil {
		l.settings.Head(x)
	}
	return false
}

// Wrap is never called: Head wants no body.
func (l *local) Wrap(next exchange.Sink) exchange.Sink { return next }

// ForErrors makes it an exchange.ErrorFilter: some fields are always there.
func (l *local) ForErrors() {}

// enterContext looks at the files about path as c maps it: below the document root, or
// below the location of c.
func (v *VHost) enterContext(x *exchange.Exchange, l *local, c *Context) {
	if c != nil && c.Root != nil {
		rest, ok := strings.CutPrefix(x.Req.Path, strings.TrimSuffix(c.URI, "/"))
		if c.Htaccess == nil || c.whole() || !ok {
			l.chain, l.settings, l.dirs = rewrite.Chain{}, nil, nil
			return
		}
		if rest == "" || rest[0] != '/' {
			rest = "/" + rest
		}
		l.enter(x, c.Htaccess, rest)
		return
	}
	l.enter(x, v.Htaccess, x.Req.Path)
}

// ofFiles reports whether c leads to files, so that .htaccess files are about it.
func ofFiles(c *Context) bool {
	return c == nil || c.Kind == Static || c.Kind == Proxy && c.Handler == nil
}

// place is where rules stand: in a context, in a .htaccess file, or both.
type place struct {
	context *Context
	file    *rewrite.Program
}

// rulesAt returns the rules for a path that lies in c, in the order in which they run
// (reference 1.1): those of the innermost place that has some. Where the context and
// the .htaccess file are about the same directory, those of the context run first.
func (v *VHost) rulesAt(x *exchange.Exchange, l *local, c *Context, list []*rewrite.Program) ([]*rewrite.Program, place) {
	var at place
	var file rewrite.Rules
	if l != nil && ofFiles(c) {
		v.enterContext(x, l, c)
		on := v.RulesOn
		if c != nil && c.Engine != 0 {
			on = c.Engine > 0
		}
		file = l.chain.Rules(on)
	}
	if c != nil && c.Rules != nil {
		if own := len(c.Rules[0].Place()); file.Program == nil || own >= len(file.Place()) {
			list, at.context = append(list, c.Rules...), c
			if file.Program == nil || own > len(file.Place()) {
				return list, at
			}
		}
	}
	if file.Program == nil {
		return list, at
	}
	at.file = file.Program
	for r := file; r.Program != nil; {
		outer, before := r.Around()
		if !before {
			list = append(list, r.Program)
			r = outer
			continue
		}
		return append(list, outer.Program, r.Program), at
	}
	return list, at
}

// named is where a rule with [P] sends that may name declared processors alone: one of a
// .htaccess file, or one that makes the name of the request (R-P-4).
func (v *VHost) named(out *rewrite.Outcome) (*Target, error) {
	to := out.Proxy
	scheme, name := to.Scheme+out.Scheme, to.Authority+out.Authority
	t := v.Named[name]
	if t == nil && to.AnyHost && scheme != "" && scheme != "unix" {
		return v.anyHost(to, scheme, name)
	}
	if t == nil || scheme == "" || scheme == "unix" || to.Dynamic && to.Htaccess {
		return nil, exchange.Fail(502, "bad_target", "%s:%d: [P] to %q, which is no processor of type proxy", to.File, to.Line, name)
	}
	if scheme == "https" && !t.Secure {
		return nil, exchange.Fail(502, "bad_target", "%s:%d: [P] with https to processor %q, which is not reached by TLS", to.File, to.Line, name)
	}
	return t, nil
}

// anyHost is where a rule sends that may name hosts which are no processors.
func (v *VHost) anyHost(to *rewrite.Target, scheme, authority string) (*Target, error) {
	t, err := v.AnyHost(scheme, authority)
	if _, said := errors.AsType[*exchange.Error](err); err == nil || said {
		return t, err
	}
	return nil, exchange.Fail(502, "bad_target", "%s:%d: [P] to %q: %v", to.File, to.Line, authority, err)
}

// scriptFor returns what runs files of which a directive or a rule says the handler or
// type name. handler is true if the name is that of a handler, whether there is one or
// not: files that somebody meant to be run are not shown.
func (v *VHost) scriptFor(name string) (s *Script, handler bool) {
	lower := strings.ToLower(name)
	rest, isType := strings.CutPrefix(lower, "application/x-httpd-")
	if s = v.Scripts[rest]; isType && s != nil {
		return s, true
	}
	switch {
	case strings.Contains(lower, "php"):
		if s = v.Scripts["php"]; s != nil {
			return s, true
		}
		for suffix, s := range v.Scripts {
			if strings.HasPrefix(suffix, "php") {
				return s, true
			}
		}
		return nil, true
	case lower == "cgi-script", lower == "fcgid-script", lower == "fastcgi-script":
		return v.Scripts["cgi"], true
	}
	return nil, isType
}

// handlerOf is what .htaccess files and rules say of who runs files with a suffix (lower
// case, no dot). off: nobody may.
func (v *VHost) handlerOf(x *exchange.Exchange, l *local, suffix string) (s *Script, handler, off bool) {
	if l != nil && l.settings != nil {
		said, isType, isOff := l.settings.Handler(suffix)
		if off = isOff; said != "" {
			s, handler = v.scriptFor(said)
			handler = handler || !isType
		}
	}
	if x.Req.Media != "" {
		if t, is := v.scriptFor(x.Req.Media); is {
			s, handler = t, true
		}
	}
	return s, handler, off
}

// media is the type that a rule with [T] gives a file.
type media string

// Head is that of exchange.Filter.
func (m media) Head(x *exchange.Exchange) bool {
	f := &x.Resp.Fields
	if old := f.Get("Content-Type"); strings.Contains(string(m), "/") && x.Route.Kind == exchange.Files && old != "" && !strings.HasPrefix(old, "multipart/byteranges") {
		f.Set("Content-Type", string(m))
	}
	return false
}

// Wrap is never called: Head wants no body.
func (m media) Wrap(next exchange.Sink) exchange.Sink { return next }
