package contexts

import (
	"errors"
	"strings"
	"time"

	"httpjet/docroot"
	"httpjet/exchange"
	"httpjet/rewrite"
)

// maxPasses is how often the rules of contexts may lead to another context (R-RW-2).
const maxPasses = 10

// labelProxied is the label of what a rule with [P] sends upstream.
const labelProxied = "[P]"

// Target is where rules with [P] send, resolved.
type Target struct {
	Handler      exchange.Handler // never nil
	Serves       exchange.Kind
	Scope, Group string
	Secure       bool // reached by TLS
}

// proxied is a decision of [P]: it counts when the contexts were asked (R-P-2).
type proxied struct {
	to     *Target
	target string // path and query, encoded
}

// rewrite runs the rules of the virtual host, then those of contexts, and asks again
// who may have the path that comes of it (dispatch rows 10 and 11). Upgrade requests
// with a socket map are not rewritten (row 8b).
func (v *VHost) rewrite(x *exchange.Exchange, socket *SocketMap, l *local) (*proxied, error) {
	if v.Rules == nil && !v.rules && l == nil || socket != nil {
		if x.Explaining() {
			v.explainNoRules(x, socket)
		}
		return nil, nil
	}
	if v.Rewrote == nil {
		return v.runRules(x, l)
	}
	began := time.Now()
	p, err := v.runRules(x, l)
	v.Rewrote(time.Since(began))
	return p, err
}

// runRules is rewrite where there are rules.
func (v *VHost) runRules(x *exchange.Exchange, l *local) (*proxied, error) {
	before, query := x.Req.Path, x.Req.Query
	var asked *rewrite.Settings
	if l != nil {
		asked = l.settings
	}
	p, end, err := v.runHost(x)
	if err == nil && p == nil && !end && (v.rules || l != nil) {
		p, err = v.runContexts(x, l)
	}
	if err == nil && asked != nil && v.redirects(before, x.Req.Method) {
		err = asked.Redirect(x, before, query)
	}
	if err != nil || x.Req.Path == before {
		return p, err
	}
	if err = v.hidden(x, l); err == nil && l != nil && l.settings != nil && v.redirects(x.Req.Path, x.Req.Method) {
		err = l.settings.Redirect(x, x.Req.Path, x.Req.Query)
	}
	return p, err
}

// redirects reports whether Redirect of .htaccess files is about path: a context of
// another type than files has no directory (reference 7.1).
func (v *VHost) redirects(path, method string) bool {
	c, _ := v.contexts.find(path, method)
	return ofFiles(c)
}

// runHost runs the rules of the virtual host, once.
func (v *VHost) runHost(x *exchange.Exchange) (p *proxied, end bool, err error) {
	if v.Rules == nil {
		return nil, false, nil
	}
	if x.Explaining() {
		x.Note("rewrite", "rules of the virtual host")
	}
	out := v.Rules.Run(x, v.RulesHost)
	p, err = v.take(x, &out)
	return p, out.End, err
}

// runContexts runs the rules of the place in which the path lies, of a context or a
// .htaccess file, and if that leads to another place, those of that. Rules of a place
// do not run twice in a row.
func (v *VHost) runContexts(x *exchange.Exchange, l *local) (*proxied, error) {
	var last place
	for pass := 0; ; pass++ {
		c, addSlash := v.contexts.find(x.Req.Path, x.Req.Method)
		var room [4]*rewrite.Program
		list, at := room[:0], place{}
		if !addSlash {
			list, at = v.rulesAt(x, l, c, list)
		}
		if len(list) == 0 || at == last {
			if pass == 0 && v.Rules == nil && x.Explaining() {
				x.Note("rewrite", "no rule is asked: there is none where the path lies")
			}
			return nil, nil
		}
		if pass == maxPasses {
			return nil, exchange.Fail(500, "bad_rewrite", "rules have led from place to place over %d times, last from %s", maxPasses, x.Req.Path)
		}
		last = at
		if x.Explaining() {
			at.explain(x)
		}
		for _, rules := range list {
			out := rules.Run(x, v.RulesHost)
			p, err := v.take(x, &out)
			if p != nil || err != nil || out.End {
				return p, err
			}
			if out.Last {
				break
			}
		}
	}
}

func (at place) explain(x *exchange.Exchange) {
	switch {
	case at.context != nil && at.file != nil:
		x.Note("rewrite", "rules of context %s, then of %s", at.context.URI, at.file.File())
	case at.context != nil:
		x.Note("rewrite", "rules of context %s", at.context.URI)
	default:
		x.Note("rewrite", "rules of %s", at.file.File())
	}
}

// upstreamHost is the Host that a variable Proxy-Host of the rules asks for, in any
// case; "" if there is none, or none that is a host.
func upstreamHost(x *exchange.Exchange) string {
	for i := range x.Env {
		if exchange.EqualName(x.Env[i].Name, "Proxy-Host") {
			if host := x.Env[i].Value; !strings.ContainsFunc(host, notOfHosts) {
				return host
			}
		}
	}
	return ""
}

func notOfHosts(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-._:[]", c))
}

// take makes an outcome count: a new path for all that follows, an answer, or a
// target for later.
func (v *VHost) take(x *exchange.Exchange, out *rewrite.Outcome) (*proxied, error) {
	if out.Type != "" {
		x.Req.Media = out.Type
	}
	switch out.Kind {
	case rewrite.Rewritten:
		if err := v.goOn(x, out.Target); err != nil {
			return nil, err
		}
	case rewrite.Proxied:
		to := v.Targets[out.Proxy]
		if to == nil && !out.Proxy.Htaccess && !out.Proxy.Dynamic {
			panic("BUG: contexts: a target of [P] that was not built")
		}
		if to == nil {
			var err error
			if to, err = v.named(out); err != nil {
				return nil, err
			}
		}
		setCookies(x, out.Cookies)
		return &proxied{to, out.Target}, nil
	}
	err := out.AsError()
	if e, ok := errors.AsType[*exchange.Error](err); ok {
		for _, c := range out.Cookies {
			e.Fields = append(e.Fields, exchange.Field{Name: "Set-Cookie", Value: c})
		}
		return nil, e
	}
	setCookies(x, out.Cookies)
	return nil, nil
}

// goOn makes target the path and query of x. It is cleaned as a client's is, so that
// what is matched from here on and what is sent do not differ (R-RW-7).
func (v *VHost) goOn(x *exchange.Exchange, target string) error {
	path, query, err := docroot.CleanPath(target)
	if err != nil {
		return err
	}
	x.Req.Path, x.Req.Query, x.Req.Rewritten = path, query, target
	return nil
}

// cookies adds the cookies of rules to an answer.
type cookies []string

func setCookies(x *exchange.Exchange, list []string) {
	if len(list) > 0 {
		x.Use(cookies(list))
	}
}

// Head is that of exchange.Filter.
func (c cookies) Head(x *exchange.Exchange) bool {
	for _, s := range c {
		x.Resp.Fields.Add("Set-Cookie", s)
	}
	return false
}

// Wrap is never called: Head wants no body.
func (c cookies) Wrap(next exchange.Sink) exchange.Sink { return next }
