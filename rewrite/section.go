package rewrite

import (
	"errors"
	"net/netip"
	"path"
	"slices"
	"strings"

	"httpjet/exchange"
)

// section is the access part of a .htaccess file, or of a container in it that
// holds for some requests only. It is immutable once parsed.
type section struct {
	file  string
	line  int // of the container; 0 for the file
	fault int // status for every request; 0: the rules below decide
	why   string

	match matcher
	kids  []*section
	auth  *auth
	said  *said // beside who may come in; nil: nothing

	prefix, dir string // of the file, for expressions

	require     []node // any of them grants; none: no opinion
	requireLine int
	ordered     bool // Order, Allow or Deny occurs
	allowFirst  bool // Order allow,deny: who is not allowed is refused
	orderLine   int
	allow, deny []predicate
	satisfyAny  bool // Satisfy any: Require or Order is enough
	secure      bool // SSLRequireSSL
	secureLine  int
}

// restricts reports whether anything in s refuses somebody: what lets everybody in does
// not.
func (s *section) restricts() bool {
	open := func(p predicate) bool { return p.kind == everybody }
	required := len(s.require) > 0 && !slices.ContainsFunc(s.require, func(n node) bool { return n.op == leaf && !n.not && open(n.pred) })
	ordered := s.ordered && (!slices.ContainsFunc(s.allow, open) || s.allowFirst && len(s.deny) > 0)
	return s.fault != 0 || required || ordered || s.secure || slices.ContainsFunc(s.kids, (*section).restricts)
}

// answer is yes, no, or not known because something is not modelled.
type answer uint8

const (
	no answer = iota
	yes
	unknown
)

// matcher says for which requests a section holds. Its zero value is all.
type matcher struct {
	unknown bool        // a container that is not modelled
	glob    string      // <Files>
	regex   *pattern    // <FilesMatch>
	below   string      // Redirect: URL path and what lies below it
	url     *pattern    // RedirectMatch: on the URL path
	expr    *expression // <If>
	methods []string    // <Limit>, <LimitExcept>; upper case
	except  bool
}

func (s *section) holds(r *Request) answer {
	m := &s.match
	switch {
	case m.unknown:
		return unknown
	case m.expr != nil:
		return m.expr.ask(r, s)
	case m.glob != "":
		ok, err := path.Match(m.glob, r.Name)
		return known(ok, err == nil)
	case m.regex != nil:
		return r.match(m.regex, r.Name)
	case m.below != "":
		rest, ok := strings.CutPrefix(r.URL, m.below)
		return known(ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(m.below, "/")), true)
	case m.url != nil:
		return r.match(m.url, r.URL)
	case m.methods != nil:
		return known(slices.Contains(m.methods, withGet(r.Method)) != m.except, r.Method != "")
	}
	return yes
}

// match asks a pattern outside of rules. One that takes too long is not known, nor is
// any other of its engine behind it.
func (r *Request) match(p *pattern, text string) answer {
	q := run{spent: r.spent}
	ok, err := q.match(p, text, nil)
	r.spent = q.spent
	return known(ok, err == nil)
}

// ask asks an expression about r. What cannot be worked out is not known.
func (e *expression) ask(r *Request, in *section) answer {
	if r.X == nil || r.host == nil {
		return unknown
	}
	q := run{p: &Program{prefix: in.prefix, dir: in.dir}, x: r.X, host: r.host, path: r.X.Req.Path, query: r.X.Req.Query, spent: r.spent}
	ok, err := e.holds(&q)
	r.spent = q.spent
	return known(ok, err == nil)
}

// withGet makes GET of HEAD: what holds for the one holds for the other.
func withGet(method string) string {
	if method == "HEAD" {
		return "GET"
	}
	return method
}

func known(ok, sure bool) answer {
	switch {
	case !sure:
		return unknown
	case ok:
		return yes
	}
	return no
}

// ask returns what s and the sections in it say about r: a deny, else a
// closed, else nothing.
func (s *section) ask(r *Request) Verdict {
	holds := s.holds(r)
	if holds == no {
		return Verdict{}
	}
	v := s.own(r)
	for _, kid := range s.kids {
		if denies(v.Status) {
			break
		}
		if w := kid.ask(r); denies(w.Status) || v.Status == 0 {
			v = w
		}
	}
	if holds == unknown && denies(v.Status) {
		v.Status = 503 // a deny under a condition that is not known
		v.Why += " under an unknown condition"
	}
	return v
}

// denies tells a refusal from a closed directory (503) and from nothing (0).
func denies(status int) bool { return status >= 400 && status < 500 }

// own evaluates the section's own directives. Require and the older Order must
// both let r in (Satisfy All).
func (s *section) own(r *Request) Verdict {
	if s.fault != 0 {
		return Verdict{Status: s.fault, File: s.file, Line: s.line, Why: s.why}
	}
	if s.secure && (r.X == nil || r.X.Req.Scheme != "https") {
		return Verdict{Status: 403, File: s.file, Line: s.secureLine, Why: "SSLRequireSSL"}
	}
	required, ordered := pass, yes
	if s.ordered {
		ordered = s.order(r)
	}
	either := s.satisfyAny && s.require != nil && s.ordered
	if either && ordered == yes {
		return Verdict{}
	}
	r.challenge = nil
	if s.require != nil && (ordered != no || either) { // nobody is asked for a password in vain
		required = voteAny(s.require, r)
	}
	if either {
		ordered = yes // Require alone decides
	}
	switch {
	case r.challenge != nil && (required == fail || required == neutral):
		return Verdict{Status: 401, File: s.file, Line: s.requireLine, Why: "Require", challenge: r.challenge}
	}
	switch {
	case required == fail || required == neutral:
		return Verdict{Status: 403, File: s.file, Line: s.requireLine, Why: "Require"}
	case ordered == no:
		return Verdict{Status: 403, File: s.file, Line: s.orderLine, Why: "Order, Allow and Deny"}
	case required == unsure:
		return Verdict{Status: 503, File: s.file, Line: s.requireLine, Why: "Require is not honoured"}
	case ordered == unknown:
		return Verdict{Status: 503, File: s.file, Line: s.orderLine, Why: "Allow or Deny is not honoured"}
	}
	return Verdict{}
}

// order evaluates Order, Allow and Deny of mod_access_compat.
func (s *section) order(r *Request) answer {
	allowed, denied := anyOf(s.allow, r), anyOf(s.deny, r)
	if s.allowFirst { // let in who is allowed and not denied
		switch {
		case allowed == no || denied == yes:
			return no
		case allowed == yes && denied == no:
			return yes
		}
		return unknown
	}
	switch { // refuse who is denied and not allowed
	case denied == no || allowed == yes:
		return yes
	case denied == yes && allowed == no:
		return no
	}
	return unknown
}

func anyOf(ps []predicate, r *Request) answer {
	result := no
	for i := range ps {
		switch ps[i].test(r) {
		case yes:
			return yes
		case unknown:
			result = unknown
		}
	}
	return result
}

// predicate is one condition on a request. Its zero value is not modelled.
type predicate struct {
	kind    kind
	nets    []netip.Prefix
	methods []string
	name    string // of a variable
	expr    *expression
	in      *section // where expr stands
	login   *login
}

type kind uint8

const (
	notModelled kind = iota
	everybody
	nobody
	address
	method
	variableSet
	variableUnset
	expressed
	identified
)

func (p *predicate) test(r *Request) answer {
	switch p.kind {
	case everybody:
		return yes
	case nobody:
		return no
	case address:
		client := r.Client.Unmap().WithZone("")
		inside := slices.ContainsFunc(p.nets, func(n netip.Prefix) bool { return n.Contains(client) })
		return known(inside, client.IsValid())
	case variableSet, variableUnset:
		if r.X == nil {
			return unknown
		}
		set := hasVariable(r.X, p.name)
		if !set && r.guesses {
			return unknown
		}
		return known(set == (p.kind == variableSet), true)
	case identified:
		return p.login.ask(r)
	case expressed:
		return p.expr.ask(r, p.in)
	case method:
		return known(slices.Contains(p.methods, withGet(r.Method)), r.Method != "")
	}
	return unknown
}

// login is a Require that asks for a user. Its guard is made when the file is read.
type login struct {
	sec      *section
	line     int
	required string
	guard    Guard // nil: none can be had
}

func (l *login) ask(r *Request) answer {
	if l.guard == nil || r.X == nil {
		return unknown
	}
	err := l.guard.Admit(r.X)
	e, ok := errors.AsType[*exchange.Error](err)
	switch {
	case err == nil:
		return yes
	case ok && e.Status == 401:
		r.challenge = e
		return no
	}
	return unknown
}

// auth is what a file, or a container, says of how users prove who they are.
type auth struct {
	basic               bool
	name, users, groups string
	line                int
}

// node is a Require line or container.
type node struct {
	op   operator
	not  bool // Require not: can refuse, cannot grant
	pred predicate
	kids []node
}

type operator uint8

const (
	leaf operator = iota
	all
	anyone
	none
)

// vote is the outcome of a node.
type vote uint8

const (
	neutral vote = iota
	pass
	fail
	unsure
)

func (n *node) vote(r *Request) vote {
	switch {
	case n.op != leaf && len(n.kids) == 0:
		return unsure // Apache refuses such a file
	case n.op == all:
		return voteAll(n.kids, r)
	case n.op == anyone:
		return voteAny(n.kids, r)
	case n.op == none:
		switch voteAny(n.kids, r) {
		case pass:
			return fail
		case unsure:
			return unsure
		}
		return neutral
	}
	switch n.pred.test(r) {
	case yes:
		if n.not {
			return fail
		}
		return pass
	case no:
		if n.not {
			return neutral
		}
		return fail
	}
	return unsure
}

func voteAny(nodes []node, r *Request) vote { return tally(nodes, r, pass, fail) }

func voteAll(nodes []node, r *Request) vote { return tally(nodes, r, fail, pass) }

// tally is decisive as soon as one vote is; else unsure goes before other, which
// goes before neutral.
func tally(nodes []node, r *Request, decisive, other vote) vote {
	var got [4]bool
	for i := range nodes {
		v := nodes[i].vote(r)
		if v == decisive {
			return v
		}
		got[v] = true
	}
	switch {
	case got[unsure]:
		return unsure
	case got[other]:
		return other
	}
	return neutral
}

// parseNets reads the address forms of Require ip, Allow and Deny: address,
// network with length or netmask, leading octets. One bad entry spoils them all.
func parseNets(entries []string) predicate {
	p := predicate{kind: address}
	for _, e := range entries {
		n, ok := parseNet(e)
		if !ok {
			return predicate{}
		}
		p.nets = append(p.nets, n)
	}
	return p
}

func parseNet(s string) (netip.Prefix, bool) {
	host, size, sized := strings.Cut(s, "/")
	if !sized {
		if a, err := netip.ParseAddr(host); err == nil {
			return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), a.Zone() == ""
		}
		host = strings.TrimSuffix(host, ".")
		dots := strings.Count(host, ".")
		p, err := netip.ParsePrefix(host + strings.Repeat(".0", max(0, 3-dots)) + "/" + [3]string{"8", "16", "24"}[min(dots, 2)])
		return p.Masked(), err == nil && dots < 3
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), !p.Addr().Is4In6()
	}
	mask, err := netip.ParseAddr(size)
	if err != nil || !mask.Is4() {
		return netip.Prefix{}, false
	}
	a, err := netip.ParseAddr(host)
	if err != nil || !a.Is4() {
		return netip.Prefix{}, false
	}
	for bits := range 33 {
		full := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), bits).Masked()
		if full.Addr() == mask {
			return netip.PrefixFrom(a, bits).Masked(), true
		}
	}
	return netip.Prefix{}, false
}
