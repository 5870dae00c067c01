package contexts

import (
	"regexp"
	"slices"
	"strings"

	"httpjet/access"
	"httpjet/docroot"
	"httpjet/exchange"
	"httpjet/pagecache"
	"httpjet/rewrite"
)

// Kind is what a context does with a path that it wins.
type Kind uint8

const (
	Static   Kind = iota // files, and scripts among them
	Proxy                // Handler answers; nil falls through to files (R-CTX-11)
	App                  // fcgi, lsapi: Handler answers for every path below, no file needed
	CGI                  // every regular file below Root goes to Handler (R-CGI-1)
	Redirect             // Handler answers
)

// Context is one <context>, resolved.
type Context struct {
	URI     string         // as configured; the label of logs and metrics
	Regexp  *regexp.Regexp // for patterns and regular expressions
	Exact   bool           // URI is the whole path; else, without Regexp, a prefix
	Methods []string       // that it serves: for others it is no candidate (R-CTX-4); nil: all
	Kind    Kind
	Handler exchange.Handler
	Serves  exchange.Kind      // of Handler
	Root    *docroot.Root      // files of a Static context with its own location, or of CGI
	Files   exchange.Handler   // serves them; nil: the virtual host's Static
	Rules   []*rewrite.Program // own ones, then those of contexts around it; nil: none run
	Engine  int8               // rewriting: 1 on, -1 off, 0 as in the virtual host
	Dirs    *rewrite.Dirs      // .htaccess files about who may have the files of Root; nil: not read
	// those in Root itself, of which rules and settings count; nil: not read
	Htaccess *rewrite.Dirs
	Map      func(path string) string          // what of Root a path stands for; nil: the path itself
	Inside   func(x *exchange.Exchange) string // target of a redirect that no client sees; nil: none
	PHP      []exchange.Setting                // of PHP, with those of what is around it
	Edits    *Edits                            // of the fields of answers and requests; nil: none
	Pages    Pages                             // error pages, with those of what is around it; nil: the virtual host's
	Cache    *pagecache.Policy                 // of the page cache; nil: the virtual host's

	Access     *access.List        // nil: no restriction
	Realm      *access.Guard       // of the users that may have it; nil: asks for no password
	Authorizer exchange.Authorizer // asked behind Access and Realm; nil: none
	NoBrowse   bool                // allowBrowse 0: 403
	NoScript   bool                // enableScript 0: 403 for scripts
	Closed     string              // why the context answers 503 (R-SAFE-1); "" if it does not
	Rate       *access.Rate        // of the requests of each client that it or a WebSocket map in it answers; nil: no limit
	MaxBody    int64               // bytes, 0: the server's

	Scope, Group string // of the upstream, for logs
}

// whole reports whether c is about whole paths: exact, pattern, regular expression.
func (c *Context) whole() bool { return c.Exact || c.Regexp != nil }

// restricts reports whether c keeps somebody from what lies in it.
func (c *Context) restricts() bool {
	return c.Closed != "" || c.NoBrowse || c.NoScript || c.Access != nil || c.Realm != nil || c.Authorizer != nil
}

func (c *Context) serves(method string) bool {
	return c.Methods == nil || slices.Contains(c.Methods, method)
}

// underPrefix is the prefix match at a segment boundary (R-CTX-2): "/api"
// covers "/api" and "/api/x", "/api/" only what is below it, "/" everything.
func underPrefix(uri, path string) bool {
	if !strings.HasPrefix(path, uri) {
		return false
	}
	return len(path) == len(uri) || uri[len(uri)-1] == '/' || path[len(uri)] == '/'
}

// search finds contexts of a virtual host by path.
type search struct {
	all    finder
	guards finder // those that restrict
}

func newSearch(list []*Context) search {
	var guards []*Context
	for _, c := range list {
		if c.restricts() {
			guards = append(guards, c)
		}
	}
	return search{newFinder(list), newFinder(guards)}
}

// finder finds the contexts in which a path lies, in the order in which they win.
type finder struct {
	whole    []wholePath // exact, pattern and regular expression, in document order
	prefixes prefixes
}

// wholePath is a context that is about whole paths.
type wholePath struct {
	*Context
	expr *expression // nil: an exact one
}

func newFinder(list []*Context) finder {
	var f finder
	var rest []*Context
	for _, c := range list {
		switch {
		case c.Regexp != nil:
			f.whole = append(f.whole, wholePath{c, newExpression(c.Regexp)})
		case c.Exact:
			f.whole = append(f.whole, wholePath{c, nil})
		default:
			rest = append(rest, c)
		}
	}
	f.prefixes = newPrefixes(rest)
	return f
}

func (f *finder) empty() bool { return len(f.whole)+len(f.prefixes) == 0 }

func (w *wholePath) covers(path string) bool {
	if w.expr != nil {
		return w.expr.match(path)
	}
	return path == w.URI
}

// each calls do with every context in which path lies, until it returns true,
// and reports whether it has. "/px" lies in "/px/": what guards the directory
// guards its name.
func (f *finder) each(path string, do func(*Context) (done bool)) bool {
	for i := range f.whole {
		if f.whole[i].covers(path) && do(f.whole[i].Context) {
			return true
		}
	}
	for i := range f.prefixes {
		if slices.ContainsFunc(f.prefixes[i].covering(path), do) {
			return true
		}
	}
	return false
}

// find returns the context that wins path for a method, nil if none does (R-CTX-5).
// addSlash is true if path plus a slash is the uri of a context that would win
// (R-CTX-2).
func (s *search) find(path, method string) (c *Context, addSlash bool) {
	s.all.each(path, func(covers *Context) bool {
		if covers.serves(method) {
			c = covers
		}
		return c != nil
	})
	return c, c != nil && !c.whole() && len(c.URI) > len(path)
}

// SocketMap is one <websocket>: upgrade requests at or below URI go to Handler.
type SocketMap struct {
	URI     string
	Handler exchange.Handler
	Serves  exchange.Kind // of Handler
	Scope   string
}
