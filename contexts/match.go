package contexts

import (
	"regexp"
	"slices"
	"strings"

	"httpjet/access"
	"httpjet/docroot"
	"httpjet/exchange"
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
	Serves  exchange.Kind    // of Handler
	Root    *docroot.Root    // files of a Static context with its own location, or of CGI
	Files   exchange.Handler // serves them; nil: the virtual host's Static
	Dirs    *rewrite.Dirs    // .htaccess files about the files of Root; nil: not read

	Access   *access.List // nil: no restriction
	NoBrowse bool         // allowBrowse 0: 403
	NoScript bool         // enableScript 0: 403 for scripts
	Closed   string       // why the context answers 503 (R-SAFE-1); "" if it does not
	MaxBody  int64        // bytes, 0: the server's

	Scope, Group string // of the upstream, for logs
}

// covers reports whether path lies in c, whatever the method: who may not read
// a path may not write it either (R-SAFE-1). "/px" lies in "/px/": what guards
// the directory guards its name.
func (c *Context) covers(path string) bool {
	if c.whole() {
		return c.matches(path)
	}
	return underPrefix(c.URI, path) || lacksSlash(c.URI, path)
}

// whole reports whether c is about whole paths: exact, pattern, regular expression.
func (c *Context) whole() bool { return c.Exact || c.Regexp != nil }

// matches is the match of a context that is about whole paths.
func (c *Context) matches(path string) bool {
	if c.Regexp != nil {
		return c.Regexp.MatchString(path)
	}
	return path == c.URI
}

func (c *Context) serves(method string) bool {
	return c.Methods == nil || slices.Contains(c.Methods, method)
}

// lacksSlash reports whether path is uri but for the slash at its end.
func lacksSlash(uri, path string) bool {
	return len(uri) == len(path)+1 && uri[len(path)] == '/' && uri[:len(path)] == path
}

// underPrefix is the prefix match at a segment boundary (R-CTX-2): "/api"
// covers "/api" and "/api/x", "/api/" only what is below it, "/" everything.
func underPrefix(uri, path string) bool {
	if !strings.HasPrefix(path, uri) {
		return false
	}
	return len(path) == len(uri) || uri[len(uri)-1] == '/' || path[len(uri)] == '/'
}

// search holds the contexts of a virtual host in the order of their search.
type search struct {
	whole    []*Context // exact, pattern and regular expression, in document order
	prefixes []*Context // longest uri first, equal ones in document order
	guards   []*Context // those that restrict, in any order
}

func newSearch(list []*Context) search {
	var s search
	for _, c := range list {
		if c.whole() {
			s.whole = append(s.whole, c)
		} else {
			s.prefixes = append(s.prefixes, c)
		}
		if c.Closed != "" || c.NoBrowse || c.NoScript || c.Access != nil {
			s.guards = append(s.guards, c)
		}
	}
	slices.SortStableFunc(s.prefixes, func(a, b *Context) int { return len(b.URI) - len(a.URI) })
	return s
}

// find returns the context that wins path for a method, nil if none does (R-CTX-5).
// addSlash is true if path plus a slash is the uri of a context that would win
// (R-CTX-2).
func (s *search) find(path, method string) (c *Context, addSlash bool) {
	for _, c := range s.whole {
		if c.matches(path) && c.serves(method) {
			return c, false
		}
	}
	for _, c := range s.prefixes {
		if !c.serves(method) {
			continue
		}
		if underPrefix(c.URI, path) {
			return c, false
		}
		if lacksSlash(c.URI, path) {
			return c, true
		}
	}
	return nil, false
}

// SocketMap is one <websocket>: upgrade requests at or below URI go to Handler.
type SocketMap struct {
	URI     string
	Handler exchange.Handler
	Serves  exchange.Kind // of Handler
	Scope   string
}
