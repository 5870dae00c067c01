package contexts

import (
	"slices"
	"strings"

	"httpjet/coding"
	"httpjet/compress"
	"httpjet/docroot"
	"httpjet/exchange"
	"httpjet/rewrite"
)

// resolve finds the file of the route. found is the path under which the root knows
// it: that of the request, unless the context maps paths by an expression.
func (v *VHost) resolve(x *exchange.Exchange, r *route, l *local, isScript func(string) bool) (res exchange.Resource, verdict docroot.Verdict, found string, err error) {
	if r.context == nil || r.context.Map == nil {
		res, verdict, err = v.resolvePath(x, r, x.Req.Path, l, isScript)
		return res, verdict, res.Name, err
	}
	mapped := r.context.Map(x.Req.Path)
	res, verdict, err = v.resolvePath(x, r, mapped, l, isScript)
	if err != nil {
		if exchange.StatusOf(err) == 301 {
			err = slashRedirect(x) // the directory's own name is not for clients
		}
		return res, 0, "", err
	}
	found = res.Name
	name, ok := strings.CutSuffix(x.Req.Path, res.PathInfo)
	index := strings.TrimPrefix(found, mapped)
	switch {
	case !ok:
		res.Close()
		return exchange.Resource{}, 0, "", exchange.Fail(404, "not_found", "path info that is not in the path")
	case index == found || index == "": // not an index file
		res.Name = name
	case strings.HasSuffix(name, "/"):
		res.Name = name + index
	default:
		res.Name = name + "/" + index
	}
	return res, verdict, found, nil
}

// resolvePath opens the file that path names. What .htaccess files say of index files,
// listings and symbolic links goes by the cache, which knows of none; so does what they
// say of handlers, unless it is not about this file.
func (v *VHost) resolvePath(x *exchange.Exchange, r *route, path string, l *local, isScript func(string) bool) (exchange.Resource, docroot.Verdict, error) {
	if l == nil && x.Req.Media == "" {
		return r.files.ResolveAt(x.Recent(), path, x.Req.Query, isScript)
	}
	var with docroot.With
	said := l != nil && v.with(&with, x, r, path, l)
	handles := x.Req.Media != "" || l != nil && l.settings != nil && l.settings.Handles()
	if !handles {
		if !said {
			return r.files.ResolveAt(x.Recent(), path, x.Req.Query, isScript)
		}
		return r.files.ResolveWith(path, x.Req.Query, with, isScript)
	}
	runs := func(suffix string) bool {
		if isScript(suffix) {
			return true
		}
		_, handler, _ := v.handlerOf(x, l, suffix)
		return handler
	}
	// What is remembered under a path was told to be no script by what this server and
	// the same .htaccess files say; its suffix is asked about again.
	if !said && x.Req.Media == "" && path[len(path)-1] != '/' && path[len(path)-1] != '.' && path[len(path)-1] != ' ' {
		return r.files.ResolveAt(x.Recent(), path, x.Req.Query, runs)
	}
	return r.files.ResolveWith(path, x.Req.Query, with, runs)
}

// with sets what .htaccess files say of how path is opened. It returns false if they say
// nothing beside what the root does.
func (v *VHost) with(w *docroot.With, x *exchange.Exchange, r *route, path string, l *local) (said bool) {
	if s := l.settings; s != nil && strings.HasSuffix(path, "/") {
		w.Index, w.OtherIndex = s.Index()
		if s.Listing() > 0 && !r.files.Lists() && v.Listing != nil {
			w.List = 1
		}
		said = w.OtherIndex || w.List != 0
	}
	w.Links = v.links(x, r, path, l)
	return said || len(w.Links) > 0
}

// links is what .htaccess files say of symbolic links on the way to path, where it is
// stricter than what the root does. Of a context with its own location it is those
// about the files there that count, as for who may have them.
func (v *VHost) links(x *exchange.Exchange, r *route, path string, l *local) (list []docroot.LinksOf) {
	if r.context != nil && r.context.Root != nil {
		dirs := r.context.Dirs
		name, below, ok := r.files.Filename(path)
		if !ok || dirs == nil {
			return nil
		}
		rest, inside := strings.CutPrefix(name, strings.TrimSuffix(dirs.Root(), "/"))
		if !inside {
			return nil // refused by checkFile
		}
		start := len(rest) - len(below)
		if below == "" {
			start++
		}
		if below == "" || strings.HasSuffix(path, "/") {
			rest += "/"
		}
		c := dirs.Walk(rest)
		return linksOf(&c, r.files.Links(), start, x)
	}
	if l.dirs == v.Htaccess && l.path == path {
		return linksOf(&l.chain, r.files.Links(), 1, x)
	}
	c := v.Htaccess.Walk(path)
	return linksOf(&c, r.files.Links(), 1, x)
}

// linksOf is what a chain says that is stricter than outer; what lies below the root
// starts at a byte of its path.
func linksOf(c *rewrite.Chain, outer docroot.Links, start int, x *exchange.Exchange) (list []docroot.LinksOf) {
	if !c.SaysLinks() {
		return nil
	}
	stricter := false
	for _, d := range c.Links(saidLinks[outer], rewrite.Request{Method: x.Req.Method, Client: x.Req.Client, X: x}) {
		links := outer.Stricter(rootLinks[d.Links])
		stricter = stricter || links != outer
		list = append(list, docroot.LinksOf{At: d.End - start, Links: links})
	}
	if !stricter {
		return nil
	}
	return list
}

var saidLinks = [...]rewrite.Links{docroot.NoLinks: rewrite.LinksRefused, docroot.FollowLinks: rewrite.LinksFollowed, docroot.OwnerLinks: rewrite.LinksOfOwner}

var rootLinks = [...]docroot.Links{rewrite.LinksRefused: docroot.NoLinks, rewrite.LinksFollowed: docroot.FollowLinks, rewrite.LinksOfOwner: docroot.OwnerLinks}

// list answers with the listing of a directory: of its names those that the client
// could ask for. "Options -Indexes" takes it away.
func (v *VHost) list(x *exchange.Exchange, r *route, l *local) error {
	if l != nil && l.settings != nil && l.settings.Listing() < 0 {
		return exchange.Fail(404, "not_found", "directory without an index file, and .htaccess files let nobody list it")
	}
	dir := x.Resource.Name
	x.Resource.Listing.Entries = slices.DeleteFunc(x.Resource.Listing.Entries, func(e exchange.Entry) bool {
		path := dir + e.Name
		if e.Dir {
			path += "/"
		}
		return !v.openTo(x, path) || !v.openTo(x, loosePath(path)) || v.refusesFile(x, r.context, x.Resource.Filename+"/"+e.Name, path)
	})
	r.handler = v.Listing
	return nil
}

// openTo reports whether the contexts let the client have another path than its own,
// without asking anybody: a password or an authorizer that its own path did not ask for
// is one that it has not passed.
func (v *VHost) openTo(x *exchange.Exchange, path string) bool {
	return !v.contexts.guards.each(path, func(c *Context) bool {
		if c.refuse(x) != nil {
			return true
		}
		asks := c.Realm != nil || c.Authorizer != nil
		return asks && !v.contexts.guards.each(x.Req.Path, func(o *Context) bool { return o == c })
	})
}

// refusesFile reports whether .htaccess files refuse another file than the one of x.
func (v *VHost) refusesFile(x *exchange.Exchange, c *Context, filename, path string) bool {
	if c != nil && c.Root != nil {
		return c.Dirs != nil && c.Dirs.CheckFile(filename, path, x) != nil
	}
	return v.Htaccess != nil && v.Htaccess.Verdict(rewrite.Request{Path: path, Method: x.Req.Method, Client: x.Req.Client, X: x}).Err() != nil
}

// takeSibling sends the file in a coding that the client likes better, from the file
// beside it. That one passes every rule for itself; where it does not, the file goes
// out as it is.
func (v *VHost) takeSibling(x *exchange.Exchange, r *route, found string, l *local) {
	plain := &x.Resource
	c := coding.Choose(x.Req.Fields.Tokens("Accept-Encoding"), coding.Set(plain.Siblings)&^compress.Refused(x))
	if c == 0 {
		return
	}
	name := plain.Name + c.Suffix()
	if !v.openTo(x, name) || v.refusesFile(x, r.context, plain.Filename+c.Suffix(), name) {
		return
	}
	coded, verdict, err := v.resolvePath(x, r, found+c.Suffix(), l, v.isScript)
	if err != nil {
		return
	}
	if verdict != docroot.Static || coded.PathInfo != "" || coded.Info.ModTime().Unix() < plain.Info.ModTime().Unix() {
		coded.Close()
		return
	}
	coded.Name, coded.Filename, coded.Siblings, coded.Coding = plain.Name, plain.Filename, plain.Siblings, c.Name()
	plain.Close()
	x.Resource = coded
}
