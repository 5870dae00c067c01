package contexts

import (
	"errors"
	"slices"
	"strings"
	"time"

	"httpjet/access"
	"httpjet/compress"
	"httpjet/docroot"
	"httpjet/exchange"
	"httpjet/pagecache"
	"httpjet/rewrite"
)

// VHost is one virtual host, resolved.
type VHost struct {
	Name      string
	Suspended bool         // enabled 0 or in suspendedVhosts: 403 for everything
	Closed    string       // why it answers 503: its file did not load, or R-SAFE-1; "" if it does not
	Access    *access.List // nil: no restriction
	Hotlink   *Hotlink     // nil: every page may show its files
	Rate      *access.Rate // of the requests of each client; nil: no limit
	NoQUIC    bool         // clients are not told of HTTP/3
	CertPort  int          // of the secure listener that requires certificates of its clients; 0: none does

	Root     *docroot.Root
	Htaccess *rewrite.Dirs // nil: .htaccess files are not read
	Static   exchange.Handler
	Scripts  map[string]*Script // by suffix in lower case; an unusable one answers 503
	Maps     []SocketMap
	Listing  exchange.Handler   // of directories that are to be listed; nil where none are
	Pages    Pages              // the operator's error pages; nil: none
	PHP      []exchange.Setting // of PHP, where no context decides
	Compress *compress.Filter   // codes answers; nil: they go out as they are

	Rules     *rewrite.Program // nil: none
	RulesHost *rewrite.Host    // what rules may ask; never nil where there are rules
	RulesOn   bool             // .htaccess files inherit it as long as none says RewriteEngine
	Targets   map[*rewrite.Target]*Target
	Named     map[string]*Target // processors that [P] in .htaccess files may name
	// AnyHost is where rules that may name any host send (rewrite.Target.AnyHost); nil:
	// there are none. An error is an exchange.Error, or says what is wrong with the name.
	AnyHost func(scheme, authority string) (*Target, error)

	Cache   *pagecache.Site // nil: none
	Purgers *access.Guard   // of users who may purge a URL; nil: nobody by his password

	// Rewrote is told what the rules of a request took; nil: nobody.
	Rewrote func(took time.Duration)

	contexts search
	isScript func(suffix string) bool // IsScript, bound once
	rules    bool                     // some context has rules
	hasPages bool                     // there are error pages

	// IsUpgrade reports whether a request asks for a WebSocket.
	IsUpgrade func(x *exchange.Exchange) bool
}

// Script is what answers for files with a suffix.
type Script struct {
	Handler      exchange.Handler // never nil
	Serves       exchange.Kind
	Scope, Group string // of the application, for logs
}

// SetContexts fixes the contexts of v. The builder calls it once, for every host
// that serves.
func (v *VHost) SetContexts(list []*Context) {
	v.contexts, v.isScript = newSearch(list), v.IsScript
	v.rules = slices.ContainsFunc(list, func(c *Context) bool { return c.Rules != nil })
	v.hasPages = len(v.Pages) > 0 || slices.ContainsFunc(list, func(c *Context) bool { return len(c.Pages) > 0 })
}

// IsScript reports whether files with suffix (lower case, no dot) are scripts.
func (v *VHost) IsScript(suffix string) bool { return v.Scripts[suffix] != nil }

// route is where an exchange goes: chosen by choose, run by serve.
type route struct {
	kind    exchange.Kind
	handler exchange.Handler
	context *Context // the winning context; nil for none
	label   string
	files   *docroot.Root // where the path names a file; nil if the route needs none
	target  string        // what [P] sends upstream; "" for others
}

// open answers for a virtual host that is suspended or closed (R-LSN-6, R-SAFE-1).
func (v *VHost) open() error {
	switch {
	case v.Suspended:
		return exchange.Fail(403, "vhost_suspended", "virtual host %q is suspended", v.Name)
	case v.Closed != "":
		return exchange.Fail(503, "closed", "virtual host %q: %s", v.Name, v.Closed)
	}
	return nil
}

// serve takes x from its clean path to a handler, or to the page of its error.
func (v *VHost) serve(x *exchange.Exchange, t *Table) (err error) {
	if v.Compress != nil && !x.Background { // nobody reads what the server asks for itself
		v.Compress.Join(x) // first: nearest to the wire
	}
	if v.Cache != nil {
		err = v.serveCached(x, t)
	} else {
		err = v.serveWith(x, t, nil)
	}
	if err == errAnswered {
		return nil
	}
	return err
}

func (v *VHost) serveWith(x *exchange.Exchange, t *Table, run *pagecache.Run) error {
	var l *local
	if v.Htaccess != nil {
		l = &local{}
	}
	err := v.route(x, t, l, run)
	if err != nil {
		err = v.page(x, l, err)
	}
	return err
}

// route chooses what answers x and has it answer. l is nil where .htaccess files are
// not read, run where the host has no page cache.
func (v *VHost) route(x *exchange.Exchange, t *Table, l *local, run *pagecache.Run) error {
	if x.Req.Path == "*" {
		x.Resp.Fields.Add("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		x.Resp.Length = 0
		return x.Start(200)
	}
	socket := v.socketMap(x)
	if err := v.hidden(x, l); err != nil {
		return err
	}
	if x.Explaining() {
		v.explainPath(x, socket)
	}
	asked := x.Req.Path
	proxied, err := v.rewrite(x, socket, l)
	if err != nil {
		return err
	}
	if x.Says("blockbot") {
		return &exchange.Error{Status: 403, Reason: "access_denied", Close: true, Err: errBlocked}
	}
	r, err := v.choose(x, socket, proxied, l)
	if err != nil {
		return err
	}
	x.Route.Label = r.label
	if c := r.context; c != nil && c.Edits != nil {
		x.Use(c.Edits)
	}
	if x.Explaining() {
		v.explainChoice(x, &r)
	}
	if err := v.hotlink(x, asked); err != nil {
		return err
	}
	if err := limitRate(x, v.rateOf(x, &r)); err != nil {
		return err
	}
	if err := t.throttle(x, v, &r); err != nil { // before passwords are tried
		return err
	}
	if err := v.guardAll(x, asked); err != nil {
		return err
	}
	if x.Req.Path != asked {
		if err := v.guardAll(x, x.Req.Path); err != nil {
			return err
		}
	}
	if err := v.checkDirectory(x, &r); err != nil {
		return err
	}
	if l != nil {
		v.enterContext(x, l, r.context)
	}
	if err := limitBody(x, r.context, l, t.MaxBody); err != nil {
		return err
	}
	if r.files != nil {
		if err := v.openFile(x, &r, l); err != nil {
			return err
		}
	}
	x.Route.Label, x.Route.Kind = r.label, r.kind
	if r.target != "" {
		x.Req.Rewritten, x.Req.UpstreamHost = r.target, upstreamHost(x)
	}
	if x.Req.Media != "" {
		x.Use(media(x.Req.Media))
	}
	if l != nil && l.settings != nil {
		l.settings.Variables(x)
		l.settings.RequestFields(x)
	}
	if x.Explaining() {
		v.explainRoute(x, &r, t)
	}
	if c := r.context; c != nil && c.Edits != nil {
		c.Edits.Ops.Request(x)
	}
	return v.answer(x, &r, t, l, run)
}

// socketMap remembers the WebSocket map of an upgrade request: the longest uri
// that covers the path (R-WS-1).
func (v *VHost) socketMap(x *exchange.Exchange) *SocketMap {
	if len(v.Maps) == 0 || !v.IsUpgrade(x) {
		return nil
	}
	var best *SocketMap
	for i := range v.Maps {
		m := &v.Maps[i]
		if underPrefix(m.URI, x.Req.Path) && (best == nil || len(m.URI) > len(best.URI)) {
			best = m
		}
	}
	return best
}

// hidden refuses paths through hidden names and what .htaccess files deny, for
// every kind of route (R-STATIC-9, R-RW-1).
func (v *VHost) hidden(x *exchange.Exchange, l *local) error {
	if docroot.Hidden(x.Req.Path) {
		return exchange.Fail(403, "access_denied", "hidden name in the path")
	}
	if isLoose(x.Req.Path) {
		if err := v.hiddenLoosely(x, l); err != nil {
			return err
		}
	}
	if l == nil {
		return nil
	}
	l.enter(x, v.Htaccess, x.Req.Path)
	return l.refuses(x)
}

// hiddenLoosely is hidden for a path as an application may read it.
func (v *VHost) hiddenLoosely(x *exchange.Exchange, l *local) error {
	path := loosePath(x.Req.Path)
	if docroot.Hidden(path) {
		return exchange.Fail(403, "access_denied", "hidden name in the path")
	}
	if l == nil {
		return nil
	}
	return v.Htaccess.Check(path, x)
}

// checkDirectory asks the .htaccess file of the directory that a path may name without
// a slash: files answer it with a redirect, others with what is in it.
func (v *VHost) checkDirectory(x *exchange.Exchange, r *route) error {
	if v.Htaccess == nil || r.files != nil || strings.HasSuffix(x.Req.Path, "/") {
		return nil
	}
	return v.Htaccess.Check(x.Req.Path+"/", x)
}

// choose picks the route without side effects (dispatch rows 13, 16 to 20).
func (v *VHost) choose(x *exchange.Exchange, socket *SocketMap, proxied *proxied, l *local) (route, error) {
	if socket != nil {
		x.Route.Scope, x.Route.Group = socket.Scope, "websocket:"+socket.URI
		return route{kind: exchange.WebSocket, handler: socket.Handler, label: socket.URI}, nil
	}
	c, addSlash := v.contexts.find(x.Req.Path, x.Req.Method)
	if c != nil && c.Inside != nil && !addSlash && proxied == nil {
		var err error
		if c, addSlash, err = v.follow(x, c, l); err != nil {
			return route{}, err
		}
	}
	if x.PHP = v.PHP; c != nil {
		x.PHP = c.PHP
	}
	if addSlash {
		return route{}, slashRedirect(x)
	}
	if proxied != nil && (c == nil || c.Kind == Static || c.Kind == Proxy && c.Handler == nil) {
		t := proxied.to // behind contexts that are no files (D-1, R-P-2)
		x.Route.Scope, x.Route.Group = t.Scope, t.Group
		return route{kind: t.Serves, handler: t.Handler, context: c, label: labelProxied, target: proxied.target}, nil
	}
	if c == nil {
		return route{kind: exchange.Files, handler: v.Static, label: "static", files: v.Root}, nil
	}
	switch {
	case c.Kind == CGI:
		return route{kind: exchange.FastCGI, handler: c.Handler, context: c, label: c.URI, files: c.Root}, nil
	case c.Kind != Static && c.Handler != nil:
		x.Route.Scope, x.Route.Group = c.Scope, c.Group
		return route{kind: c.Serves, handler: c.Handler, context: c, label: c.URI}, nil
	}
	r := route{kind: exchange.Files, handler: v.Static, context: c, label: "static", files: v.Root}
	if c.Kind == Static {
		r.label = c.URI
	}
	if c.Root != nil {
		r.files = c.Root
	}
	if c.Files != nil {
		r.handler = c.Files
	}
	return r, nil
}

// slashRedirect sends "/px" to "/px/" as LiteSpeed does, keeping the query. The
// location is the raw path, so that it stays on this origin: leading slashes
// are folded, a backslash is encoded.
func slashRedirect(x *exchange.Exchange) error {
	path, query, found := strings.Cut(x.Req.Sent(), "?")
	path = "/" + strings.TrimLeft(path, "/")
	location := strings.ReplaceAll(path, `\`, "%5C") + "/"
	if found {
		location += "?" + query
	}
	return exchange.Redirect(301, location)
}

// guardAll guards a path as it is and as an application may read it that takes
// a backslash for a slash or drops the parameters of segments: neither
// "/shut;a=1/x" nor "/;a/shut/x" must reach what "/shut/" guards.
func (v *VHost) guardAll(x *exchange.Exchange, path string) error {
	err := v.guard(x, path)
	if err != nil || v.contexts.guards.empty() || !isLoose(path) {
		return err
	}
	return v.guard(x, loosePath(path))
}

// isLoose reports whether an application may read path in another way.
func isLoose(path string) bool {
	return strings.IndexByte(path, ';') >= 0 || strings.IndexByte(path, '\\') >= 0
}

// loosePath is path in the loosest reading. Dot segments need no care: a path
// in which they appear only then goes to no upstream (R-RW-7).
func loosePath(path string) string {
	var b strings.Builder
	for segment := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
		if segment, _, _ = strings.Cut(segment, ";"); segment != "" {
			b.WriteString("/" + segment)
		}
	}
	if strings.HasSuffix(path, "/") || b.Len() == 0 {
		b.WriteByte('/')
	}
	return b.String()
}

// guard applies every context that covers path, whichever of them won (dispatch
// row 13b): before body, cache and every kind of route.
// The method does not matter: who may not read a path may not write it either
// (R-SAFE-1).
//
// Realms are asked last, so that nobody is asked for a password who would be refused
// with it too. A context with a realm has it instead of that of a context around it,
// as in LiteSpeed: a client has one password for one request. A context that does
// not serve the method takes no other's realm away.
func (v *VHost) guard(x *exchange.Exchange, path string) (err error) {
	realms, authorizers := false, false
	if v.contexts.guards.each(path, func(c *Context) bool {
		realms, authorizers = realms || c.Realm != nil, authorizers || c.Authorizer != nil
		err = c.refuse(x)
		return err != nil
	}) {
		return err
	}
	if realms {
		err = v.askRealms(x, path)
	}
	if authorizers && err == nil {
		err = v.askAuthorizers(x, path)
	}
	return err
}

// askAuthorizers asks the authorizer of the innermost context that has one, as an
// inherited one is replaced in LiteSpeed (LSX 7.5). Contexts of one path are all
// asked, whatever methods they serve. errAnswered: the client has its answer.
func (v *VHost) askAuthorizers(x *exchange.Exchange, path string) (err error) {
	var inner *Context
	v.contexts.guards.each(path, func(c *Context) bool {
		if c.Authorizer == nil || inner != nil && inner.URI != c.URI {
			return false
		}
		if c.serves(x.Req.Method) {
			inner = c
		}
		if slices.Contains(x.Admitted, c.Authorizer) {
			return false
		}
		x.Admitted = append(x.Admitted, c.Authorizer) // or x ends here
		if x.Explaining() {
			x.Note("authorizer", "an application is asked whether context %s may be had; here it is not", c.URI)
			return false
		}
		var in bool
		if in, err = c.Authorizer.Admit(x); err == nil && !in {
			err = errAnswered
		}
		return err != nil
	})
	return err
}

// errBlocked is the refusal of a client for which rules have set the variable blockbot.
var errBlocked = errors.New("rules have set blockbot")

// errAnswered ends the way of an exchange whose client has its answer from a guard.
var errAnswered = errors.New("answered by a guard")

// askRealms asks for the passwords of the contexts that cover path.
func (v *VHost) askRealms(x *exchange.Exchange, path string) (err error) {
	var inner *Context // whose realm goes before that of others
	v.contexts.guards.each(path, func(c *Context) bool {
		if c.Realm == nil || inner != nil && inner.URI != c.URI {
			return false
		}
		if x.Explaining() {
			x.Note("realm", "context %s asks for a user and a password", c.URI)
		}
		if c.serves(x.Req.Method) {
			inner = c
		}
		err = c.Realm.Admit(x)
		return err != nil
	})
	return err
}

// refuse is the answer for a path that lies in c, nil if c lets x have it.
func (c *Context) refuse(x *exchange.Exchange) error {
	switch {
	case !c.Access.Allowed(x.Req.Client):
		return exchange.Fail(403, "access_denied", "client refused by accessControl of context %q", c.URI)
	case c.NoBrowse:
		return exchange.Fail(403, "access_denied", "context %q has allowBrowse 0", c.URI)
	case c.Closed != "":
		return exchange.Fail(503, "closed", "context %q: %s", c.URI, c.Closed)
	}
	return nil
}

func limitBody(x *exchange.Exchange, c *Context, l *local, max int64) error {
	if l != nil && l.settings != nil {
		if n := l.settings.MaxBody(); n > 0 && (max <= 0 || n < max) {
			max = n
		}
	}
	if c != nil && c.MaxBody > 0 && (max <= 0 || c.MaxBody < max) {
		max = c.MaxBody
	}
	if max <= 0 {
		return nil
	}
	return x.LimitBody(max)
}

// openFile finds the file that the path names and lets its suffix decide
// between script and static: a script's source never reaches static
// (dispatch rows 12, 19, 20; R-STATIC-10).
func (v *VHost) openFile(x *exchange.Exchange, r *route, l *local) error {
	isScript, cgi := v.isScript, r.context != nil && r.context.Kind == CGI
	if cgi {
		isScript = func(string) bool { return true }
	}
	if isScript == nil {
		panic("BUG: contexts: virtual host without its contexts") // nothing would be a script
	}
	res, verdict, found, err := v.resolve(x, r, l, isScript)
	if err != nil {
		return err
	}
	x.Resource = res            // Run closes the file, whatever happens from here on
	if res.Name != x.Req.Path { // an index file, or a script before its path info
		if err := v.guard(x, res.Name); err != nil {
			return err
		}
	}
	if err := v.checkFile(x, r.context, l); err != nil {
		return err
	}
	if verdict == docroot.Directory {
		return v.list(x, r, l)
	}
	said, handler, off := v.handlerOf(x, l, docroot.Suffix(res.Filename))
	if handler {
		verdict = docroot.Script
	}
	if verdict != docroot.Script {
		if res.Siblings != 0 {
			v.takeSibling(x, r, found, l)
		}
		return nil
	}
	if off {
		return exchange.Fail(403, "access_denied", "%s: .htaccess files let no script run here", x.Resource.Name)
	}
	if x.Req.Rewritten == "" && !docroot.Named(x.Req.Target, x.Req.Path, res.Name) {
		return exchange.Fail(404, "not_found", "an encoded slash in the path of script %s", res.Name)
	}
	var by *Context
	noScript := func(c *Context) bool {
		by = c
		return c.NoScript
	}
	if v.contexts.guards.each(x.Req.Path, noScript) || v.contexts.guards.each(res.Name, noScript) {
		return exchange.Fail(403, "access_denied", "context %q has enableScript 0", by.URI)
	}
	if cgi {
		return nil
	}
	s := v.Scripts[docroot.Suffix(res.Filename)]
	if handler {
		s = said
	}
	if s == nil {
		return exchange.Fail(503, "handler_unresolved", "%s: the handler that .htaccess files or rules name is not there", x.Resource.Name)
	}
	if l != nil && l.settings != nil {
		x.PHP = l.settings.PHP(x.PHP)
	}
	if rewrite.EngineOff(x.PHP) {
		return exchange.Fail(403, "access_denied", "%s: the settings of PHP let no script run here", x.Resource.Name)
	}
	r.handler, r.kind = s.Handler, s.Serves
	x.Route.Scope, x.Route.Group = s.Scope, s.Group
	if r.label == "static" {
		r.label = "script"
	}
	return nil
}

// checkFile asks the .htaccess files about the file that was opened, where it is
// not the one that the path names by its end: an index file, a script before
// its path info, or a file of a context with its own location. What they say of the
// answer is then about that file.
func (v *VHost) checkFile(x *exchange.Exchange, c *Context, l *local) error {
	if l == nil {
		return nil
	}
	if c != nil && c.Root != nil {
		if c.Dirs == nil {
			return nil
		}
		return c.Dirs.CheckFile(x.Resource.Filename, x.Resource.Name, x)
	}
	if x.Resource.Name == x.Req.Path {
		return nil
	}
	l.enter(x, v.Htaccess, x.Resource.Name)
	return l.refuses(x)
}
