package contexts

import (
	"fmt"
	"net/netip"
	"strings"

	"httpjet/access"
	"httpjet/exchange"
)

// explainHost notes how the virtual host and the client were found.
func (t *Table) explainHost(x *exchange.Exchange, v *VHost, peer netip.Addr) {
	_, named := t.Listeners[x.Req.Listener].Named(x.Req.Host)
	switch {
	case v == nil:
		x.Note("virtual host", "no map of the listener holds %q, and none is *", x.Req.Host)
	case named:
		x.Note("virtual host", "%s: a map of the listener holds %q", v.Name, x.Req.Host)
	default:
		x.Note("virtual host", "%s: no map holds %q, the map * does", v.Name, x.Req.Host)
	}
	if !t.trusts(peer, v) {
		x.Note("client", "%s, the immediate peer; its X-Forwarded-For counts for nothing", x.Req.Client)
	} else {
		x.Note("client", "%s, as the trusted peer %s says", x.Req.Client, peer)
	}
	x.Note("scheme", "%s", x.Req.Scheme)
	if to, ok := t.HTTPS[x.Req.Listener]; ok && x.Req.Scheme != "https" {
		x.Note("https redirect", "the listener sends its clients to https with status %d", to.Status)
	} else {
		x.Note("https redirect", "none")
	}
	x.Note("access", "%s; %s", listText("the server's list", t.Access.Restricts()),
		listText("the virtual host's list", v != nil && v.Access.Restricts()))
}

func listText(what string, restricts bool) string {
	if restricts {
		return what + " is asked"
	}
	return what + " restricts nobody"
}

// explainPath notes what is known before any rule or context is asked.
func (v *VHost) explainPath(x *exchange.Exchange, socket *SocketMap) {
	x.Note("path", "%s", x.Req.Path)
	if x.Req.Query != "" {
		x.Detail("query %s", x.Req.Query)
	}
	v.explainSocket(x, socket)
	if v.Htaccess == nil {
		x.Note(".htaccess", "not read: allowOverride is 0")
	} else {
		x.Note(".htaccess", "the files on the way to %s do not refuse it", x.Req.Path)
	}
}

// explainNoRules notes why no rewrite rule is asked.
func (v *VHost) explainNoRules(x *exchange.Exchange, socket *SocketMap) {
	if socket != nil {
		x.Note("rewrite", "no rule is asked: the WebSocket map has the request")
		return
	}
	x.Note("rewrite", "there are no rules")
}

// explainChoice notes which context won the path, and why no other row of the
// dispatch order did.
func (v *VHost) explainChoice(x *exchange.Exchange, r *route) {
	if x.Req.Rewritten != "" {
		x.Note("rewritten path", "%s", x.Req.Path)
		if x.Req.Query != "" {
			x.Detail("query %s", x.Req.Query)
		}
	}
	if r.kind == exchange.WebSocket && r.context == nil {
		x.Note("context", "not asked: the WebSocket map has the request")
		return
	}
	if r.context == nil {
		x.Note("context", "none matches: the document root")
	} else {
		x.Note("context", "%s (%s)", r.context.URI, r.context.Kind)
	}
	v.contexts.all.each(x.Req.Path, func(c *Context) bool {
		if c.whole() || underPrefix(c.URI, x.Req.Path) {
			x.Detail("%s", v.lost(x, c, r.context))
		}
		return false
	})
}

func (v *VHost) explainSocket(x *exchange.Exchange, socket *SocketMap) {
	switch upgrade := v.IsUpgrade != nil && v.IsUpgrade(x); {
	case socket != nil:
		x.Note("websocket map", "%s is the longest that covers the path", socket.URI)
	case len(v.Maps) == 0:
		x.Note("websocket map", "there is none")
	case !upgrade:
		x.Note("websocket map", "the request is no WebSocket handshake")
	default:
		x.Note("websocket map", "none covers the path")
	}
}

// lost says of a context that matches why it won or did not.
func (v *VHost) lost(x *exchange.Exchange, c, winner *Context) string {
	how := "prefix"
	switch {
	case c.Exact:
		how = "exact"
	case c.Regexp != nil:
		how = "pattern " + c.Regexp.String()
	}
	text := fmt.Sprintf("%s (%s, %s) ", c.URI, c.Kind, how)
	switch {
	case c == winner:
		return text + "wins"
	case !c.serves(x.Req.Method):
		return text + "does not serve " + x.Req.Method + ", only " + strings.Join(c.Methods, ", ")
	case winner != nil && winner.whole() && !c.whole():
		return text + "comes after exact, pattern and regular expression"
	case c.whole(), winner != nil && len(c.URI) == len(winner.URI):
		return text + "stands behind it in the file"
	}
	return text + "is shorter"
}

// explainRoute notes what a request had to pass, and who answers it.
func (v *VHost) explainRoute(x *exchange.Exchange, r *route, t *Table) {
	x.Note("guards", "no context that covers the path refuses the client")
	v.contexts.guards.each(x.Req.Path, func(c *Context) bool {
		x.Detail("%s restricts, and lets it pass", c.URI)
		return false
	})
	for _, r := range []*access.Rate{t.Rate, v.Rate, v.rateOf(x, r)} {
		if r != nil {
			x.Note("rate limit", "%s: each client %d requests a minute, %d at once", r.Options().Scope, r.Options().PerMinute, r.Options().Burst)
		}
	}
	max, who := t.MaxBody, "the server's"
	if r.context != nil && r.context.MaxBody > 0 && (max <= 0 || r.context.MaxBody < max) {
		max, who = r.context.MaxBody, "the context's"
	}
	if max > 0 {
		x.Note("body", "at most %d bytes, %s maxReqBodySize", max, who)
	} else {
		x.Note("body", "no limit")
	}
	if r.files != nil {
		x.Note("file", "%s", x.Resource.Filename)
		x.Detail("document root %s", x.Resource.Root)
		x.Detail("script name %s", x.Resource.Name)
		if x.Resource.PathInfo != "" {
			x.Detail("path info %s", x.Resource.PathInfo)
		}
	}
	if r.target != "" {
		x.Note("proxied by rule", "%s goes upstream", r.target)
	}
	switch local := r.kind == exchange.FastCGI || r.kind == exchange.LSAPI; {
	case v.Cache == nil:
		x.Note("page cache", "the host has none")
	case !local && r.kind != exchange.Proxy || v.IsUpgrade(x):
		x.Note("page cache", "not for routes of this kind")
	}
	x.Note("handler", "%s", r.kind)
	if x.Route.Group != "" {
		x.Detail("processor %s of scope %s", x.Route.Group, x.Route.Scope)
	}
}

func (k Kind) String() string {
	return [...]string{"static", "proxy", "application", "cgi", "redirect"}[k]
}
