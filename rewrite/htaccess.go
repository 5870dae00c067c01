package rewrite

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

const (
	maxNesting = 32 // containers in one another
	maxNotices = 64 // of one file
)

// parser reads one .htaccess file. Directives are known by name in any case; what
// it does not know restricts nobody and becomes a Notice.
type parser struct {
	file      string
	override  Override
	line      int // of the directive at hand
	root      *section
	stack     []frame
	restricts bool // some directive that counts refuses or may refuse
	says      bool // some directive says something beside
	asks      bool // SetEnvIf
	guesses   bool // a SetEnvIf that could not be read
	links     bool // Options about symbolic links
	broken    string
	brokenAt  int
	notices   []Notice
	noticed   map[string]bool

	realm  func(users, groups, name, required string) (Guard, error)
	logins []*login
	auths  int // directives of it

	source Source
	rules  *compiler // nil: no directive of rewriting yet
	texts  *compiler // of expressions and values; it makes no rule
}

// frame is an open container.
type frame struct {
	name    string   // lower case
	sec     *section // where directives go
	op      operator // of a Require container
	kids    []node
	discard bool // the condition is false
	pass    bool // the condition is true: belongs to the frame around it
}

// parse reads the file of the directory path. It never fails: a file that is broken is
// closed if it restricts anything.
func (d *Dirs) parse(name, path, text string) (*file, []Notice) {
	src := Source{File: name, Prefix: d.opt.Prefix + path, Dir: strings.TrimSuffix(d.opt.Root+path, "/"), Maps: d.opt.Maps, Htaccess: true}
	p := &parser{file: name, override: d.opt.Override, root: &section{file: name}, noticed: map[string]bool{}, source: src, realm: d.opt.Realm}
	p.root.prefix, p.root.dir = src.Prefix, src.Dir
	p.texts = newCompiler(src)
	p.stack = []frame{{sec: p.root}}
	p.read(text)
	return p.finish()
}

func (p *parser) read(text string) {
	n, first := 0, 0
	var joined strings.Builder
	going := false // the line before ended with a backslash
	for row := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		if !going {
			first = n
		}
		row, going = strings.CutSuffix(strings.TrimRight(row, "\r\n"), `\`)
		joined.WriteString(row)
		if going {
			continue
		}
		p.line = first
		p.directive(strings.TrimSpace(joined.String()))
		joined.Reset()
	}
	p.line = first
	p.directive(strings.TrimSpace(joined.String())) // "" unless the last line goes on
	if len(p.stack) > 1 {
		p.fail("<" + p.top().name + "> is not closed")
	}
}

// finish makes the file of what was read, nil if it says nothing.
func (p *parser) finish() (*file, []Notice) {
	p.guards()
	if p.broken != "" && p.restricts {
		p.root.fault, p.root.why, p.root.line = 503, p.broken, p.brokenAt
		p.closes(p.brokenAt, "file", p.broken+"; it restricts, so what is below it answers 503")
	} else if p.broken != "" {
		p.tell(p.brokenAt, "file", p.broken, false)
	}
	out := &file{asks: p.asks, guesses: p.guesses, links: p.links}
	if p.restricts {
		out.access = p.root
	}
	if p.says {
		out.say = p.root
	}
	if p.rules != nil {
		var problems []Problem
		out.rules, problems = p.rules.finish()
		for _, q := range problems {
			if why := q.Text + "; " + q.Hint; q.Closes {
				p.closes(q.Line, "rewriting", why)
			} else {
				p.tell(q.Line, "rewriting", why, false)
			}
		}
	}
	if !p.restricts && !p.says && p.rules == nil && !p.guesses {
		return nil, p.notices
	}
	return out, p.notices
}

func (p *parser) top() *frame { return &p.stack[len(p.stack)-1] }

// owner is the innermost frame that takes directives.
func (p *parser) owner() *frame {
	for i := len(p.stack) - 1; ; i-- {
		if !p.stack[i].pass {
			return &p.stack[i]
		}
	}
}

// fail notes that the file is broken.
func (p *parser) fail(why string) {
	if p.broken == "" {
		p.broken, p.brokenAt = why, p.line
	}
}

// close makes the section at hand answer 503 (R-SAFE-1).
func (p *parser) close(why string) {
	o := p.owner()
	if o.discard {
		return
	}
	p.restricts = true
	p.closes(p.line, why, "it is not honoured, so what it guards answers 503")
	if s := o.sec; s.fault == 0 {
		if s.line == 0 {
			s.line = p.line
		}
		s.fault, s.why = 503, why+" is not honoured"
	}
}

func (p *parser) directive(text string) {
	switch {
	case text == "" || text[0] == '#':
	case strings.HasPrefix(text, "</"):
		p.leave(strings.ToLower(strings.TrimSpace(strings.TrimSuffix(text[2:], ">"))))
	case text[0] == '<':
		p.enter(text)
	case p.top().discard:
	default:
		args := words(text)
		if len(args) > 0 {
			p.plain(args[0], args[1:], text)
		}
	}
}

func (p *parser) plain(name string, args []string, text string) {
	lower := strings.ToLower(name)
	switch {
	case isRewriting[lower]:
		p.rewriting(lower, name, text)
	case lower == "require":
		p.require(args)
	case lower == "order":
		p.order(args)
	case lower == "allow" || lower == "deny":
		p.from(lower == "allow", name, args)
	case lower == "satisfy":
		if len(args) != 1 || !strings.EqualFold(args[0], "all") && !strings.EqualFold(args[0], "any") {
			p.close("Satisfy")
			return
		}
		p.owner().sec.satisfyAny = strings.EqualFold(args[0], "any")
	case lower == "sslrequiressl":
		p.restricts = true
		if o := p.owner(); !o.discard && !o.sec.secure {
			o.sec.secure, o.sec.secureLine = true, p.line
		}
	case isAuth[lower]:
		p.auth(lower, name, args)
	case strings.HasPrefix(lower, "auth") && lower != "authmerging",
		lower == "sslrequire", lower == "sslverifyclient":
		p.close(name)
	case (lower == "redirect" || lower == "redirectmatch") && len(args) > 0 && refusal(args[0]) != 0:
		p.refuse(lower == "redirectmatch", refusal(args[0]), args[1:], name)
	default:
		p.other(lower, name, args)
	}
}

var isAuth = map[string]bool{"authtype": true, "authname": true, "authuserfile": true, "authgroupfile": true, "authbasicprovider": true}

// auth reads how users prove who they are. What is not Basic authentication by files
// closes.
func (p *parser) auth(lower, name string, args []string) {
	o := p.owner()
	if o.discard {
		return
	}
	p.auths++
	s := o.sec
	if s.auth == nil {
		s.auth = &auth{line: p.line}
	}
	value := ""
	if len(args) == 1 {
		value = strings.Clone(args[0])
	}
	isFile := strings.HasPrefix(value, "/") && !strings.Contains(value, "\x00")
	switch {
	case lower == "authtype" && strings.EqualFold(value, "basic"):
		s.auth.basic = true
	case lower == "authname":
		s.auth.name = strings.Clone(strings.Join(args, " "))
	case lower == "authuserfile" && isFile:
		s.auth.users = value
	case lower == "authgroupfile" && isFile:
		s.auth.groups = value
	case lower == "authbasicprovider" && strings.EqualFold(value, "file"):
	default:
		p.close(name)
	}
}

// guards makes the guards of the users that the file asks for. Settings that nobody asks
// for close: what they should guard is not known (R-SAFE-1).
func (p *parser) guards() {
	if p.auths > 0 && len(p.logins) == 0 {
		p.restricts = true
		if r := p.root; r.fault == 0 {
			r.fault, r.line, r.why = 503, 0, "AuthType without a Require that asks for a user is not honoured"
			if r.auth != nil {
				r.line = r.auth.line
			}
			p.closes(r.line, "AuthType", r.why+", so what is below it answers 503")
		}
	}
	for _, l := range p.logins {
		a := l.sec.auth
		if a == nil {
			a = p.root.auth
		}
		err := errors.New("it needs AuthType Basic and an AuthUserFile with its whole path, in the same file")
		if a != nil && a.basic && a.users != "" && p.realm != nil {
			l.guard, err = p.realm(a.users, a.groups, a.name, l.required)
		}
		if err != nil {
			l.guard = nil
			p.closes(l.line, "Require", err.Error()+"; it answers 503")
		} else if err := l.guard.Fault(); err != nil { // it is looked at again, request by request
			p.closes(l.line, "Require", err.Error()+"; it answers 503 until the file can be read")
		}
	}
}

// login is the predicate of a Require that asks for a user.
func (p *parser) login(what string, args []string) predicate {
	l := &login{sec: p.owner().sec, line: p.line, required: strings.Clone(strings.Join(append([]string{what}, args...), " "))}
	p.logins = append(p.logins, l)
	return predicate{kind: identified, login: l}
}

// isRewriting are the directives that belong to rules.
var isRewriting = map[string]bool{"rewriteengine": true, "rewritebase": true, "rewritecond": true, "rewriterule": true,
	"rewriteoptions": true, "rewritemap": true, "rewritefile": true}

// rewriting gives a directive to the compiler of rules. Those inside of a container
// about files, methods or expressions do not run, as in LiteSpeed.
func (p *parser) rewriting(lower, name, text string) {
	if p.override&(OverrideFileInfo|OverrideRules) == 0 {
		p.tell(p.line, name, "allowOverride does not allow it", lower == "rewriterule" && refuses(text))
		return
	}
	if p.rules == nil {
		p.rules = newCompiler(p.source)
	}
	c := p.rules
	c.line, c.column, c.skip = p.line, 1, nil
	for _, f := range p.stack[1:] {
		if f.name != "ifmodule" { // whatever the module, its rules run (LSX 1.2)
			c.skip = []string{f.name}
		}
	}
	c.one(text)
}

// refusal is the status by which Redirect and RedirectMatch refuse, 0 for the
// words and numbers that send the client elsewhere.
func refusal(word string) int {
	if strings.EqualFold(word, "gone") {
		return 410
	}
	if n, err := strconv.Atoi(word); err == nil && n >= 400 && n <= 599 {
		return n
	}
	return 0
}

// refuse reads the rest of "Redirect STATUS PATH" or "RedirectMatch STATUS REGEX".
// A server error is no verdict of ours: it becomes 403.
func (p *parser) refuse(regex bool, status int, args []string, name string) {
	s := &section{file: p.file, line: p.line, fault: status, why: name}
	if !denies(status) {
		s.fault = 403
	}
	switch {
	case len(args) != 1:
		p.close(name)
		return
	case !regex:
		s.match.below = args[0]
	default:
		re, _, err := newPattern(strings.Clone(args[0]), false)
		s.match.url, s.match.unknown = re, err != nil
	}
	p.restricts = true
	o := p.owner()
	o.sec.kids = append(o.sec.kids, s)
}

// refuses tells rewrite rules apart that would refuse requests if they were
// honoured.
func refuses(text string) bool {
	i := strings.LastIndexByte(text, '[')
	if i < 0 {
		return false
	}
	for flag := range strings.SplitSeq(strings.ToLower(strings.Trim(text[i:], "[] \"\r\n\t")), ",") {
		switch flag = strings.TrimSpace(flag); flag {
		case "f", "forbidden", "g", "gone":
			return true
		}
		if strings.HasPrefix(flag, "r=4") || strings.HasPrefix(flag, "redirect=4") {
			return true
		}
	}
	return false
}

// notice tells of a directive that is not modelled, once.
func (p *parser) notice(name string) {
	key := strings.ToLower(name)
	if p.noticed[key] || len(p.notices) >= maxNotices {
		return
	}
	p.noticed[key] = true
	p.notices = append(p.notices, Notice{File: p.file, Line: p.line, Directive: strings.Clone(name), Known: isLooks(key)})
}

// isLooks reports directives about the looks of listings, about compression, and about
// modules that rules of their own steer: without them no answer says anything else.
func isLooks(lower string) bool {
	for _, prefix := range [...]string{"index", "addicon", "addalt", "adddescription", "readmename", "headername", "defaulticon",
		"setoutputfilter", "addoutputfilterbytype", "deflate", "brotli", "modpagespeed", "secrule", "secfilter", "lsphp", "languagepriority", "forcelanguagepriority"} {
		if strings.HasPrefix(lower, prefix) {
			return true
		}
	}
	return false
}

// tell notes what is wrong with one directive.
func (p *parser) tell(line int, name, why string, restricts bool) {
	p.note(Notice{Line: line, Directive: strings.Clone(name), Why: why, Restricts: restricts})
}

// closes notes a directive for which requests answer 503.
func (p *parser) closes(line int, name, why string) {
	p.note(Notice{Line: line, Directive: strings.Clone(name), Why: why, Restricts: true, Closes: true})
}

func (p *parser) note(n Notice) {
	if n.File = p.file; len(p.notices) < maxNotices && !slices.Contains(p.notices, n) {
		p.notices = append(p.notices, n)
	}
}

// require reads "Require [not] WHAT ARGS".
func (p *parser) require(args []string) {
	n := node{}
	if len(args) > 0 && strings.EqualFold(args[0], "not") {
		n.not, args = true, args[1:]
	}
	what := ""
	if len(args) > 0 {
		what, args = strings.ToLower(args[0]), args[1:]
	}
	switch {
	case what == "all" && len(args) == 1 && strings.EqualFold(args[0], "granted"):
		n.pred.kind = everybody
	case what == "all" && len(args) == 1 && strings.EqualFold(args[0], "denied"):
		n.pred.kind = nobody
	case what == "ip" && len(args) > 0:
		n.pred = parseNets(args)
	case !n.not && !p.negated() && (what == "valid-user" && len(args) == 0 || (what == "user" || what == "group") && len(args) > 0):
		n.pred = p.login(what, args)
	case what == "env" && len(args) == 1:
		n.pred = predicate{kind: variableSet, name: strings.Clone(args[0])}
	case what == "expr" && len(args) > 0:
		n.pred = p.expr(strings.Join(args, " "))
	case what == "method" && len(args) > 0:
		n.pred = predicate{kind: method}
		for _, a := range args {
			n.pred.methods = append(n.pred.methods, withGet(a))
		}
	case what == "local" && len(args) == 0 && !n.not && !p.negated():
		// The server's own other addresses count as local too, but are not
		// known here: fine where the predicate grants, not where it refuses.
		n.pred = parseNets([]string{"127.0.0.0/8", "::1"})
	}
	if o := p.owner(); n.not && (o.op == leaf || o.op == anyone) {
		n.pred = predicate{} // Apache refuses a "not" that stands by itself
	}
	if n.pred.kind == notModelled && !p.owner().discard {
		p.closes(p.line, "Require", "it is not honoured: it grants nothing, and where it decides the answer is 503")
	}
	p.add(n)
}

// negated reports whether a <RequireNone> is around.
func (p *parser) negated() bool {
	return slices.ContainsFunc(p.stack, func(f frame) bool { return f.op == none })
}

// add gives a Require line or container to the frame it stands in.
func (p *parser) add(n node) {
	o := p.owner()
	if o.discard {
		return
	}
	p.restricts = true
	if o.op != leaf {
		o.kids = append(o.kids, n)
		return
	}
	if o.sec.require == nil {
		o.sec.requireLine = p.line
	}
	o.sec.require = append(o.sec.require, n)
}

func (p *parser) order(args []string) {
	s := p.owner().sec
	p.ordered(s)
	switch strings.ToLower(strings.Join(args, "")) {
	case "allow,deny", "mutual-failure":
		s.allowFirst = true
	case "deny,allow":
		s.allowFirst = false
	default:
		p.close("Order")
	}
}

func (p *parser) ordered(s *section) {
	p.restricts = true
	if !s.ordered {
		s.ordered, s.orderLine = true, p.line
	}
}

// from reads "Allow from …" and "Deny from …".
func (p *parser) from(allow bool, name string, args []string) {
	s := p.owner().sec
	p.ordered(s)
	var preds []predicate
	if len(args) > 1 && strings.EqualFold(args[0], "from") {
		for _, a := range args[1:] {
			variable, isVariable := strings.CutPrefix(a, "env=")
			switch {
			case strings.EqualFold(a, "all"):
				preds = append(preds, predicate{kind: everybody})
			case isVariable && strings.HasPrefix(variable, "!"):
				preds = append(preds, predicate{kind: variableUnset, name: strings.Clone(variable[1:])})
			case isVariable:
				preds = append(preds, predicate{kind: variableSet, name: strings.Clone(variable)})
			default:
				preds = append(preds, parseNets([]string{a})) // host names are not modelled
			}
		}
	} else {
		preds = []predicate{{}}
	}
	if slices.ContainsFunc(preds, func(q predicate) bool { return q.kind == notModelled }) && !p.owner().discard {
		p.closes(p.line, name, "only addresses, networks, variables and all are honoured: where another name decides, the answer is 503")
	}
	if allow {
		s.allow = append(s.allow, preds...)
	} else {
		s.deny = append(s.deny, preds...)
	}
}

// words splits a directive at blanks; quotes group, a backslash in quotes keeps
// the quote.
func words(s string) []string {
	var list []string
	for s = strings.TrimLeft(s, " \t"); s != ""; s = strings.TrimLeft(s, " \t") {
		q := s[0]
		if q != '"' && q != '\'' {
			i := strings.IndexAny(s, " \t")
			if i < 0 {
				i = len(s)
			}
			list, s = append(list, s[:i]), s[i:]
			continue
		}
		var b strings.Builder
		i := 1
		for ; i < len(s) && s[i] != q; i++ {
			if s[i] == '\\' && i+1 < len(s) && s[i+1] == q {
				i++
			}
			b.WriteByte(s[i])
		}
		list, s = append(list, b.String()), s[min(i+1, len(s)):]
	}
	return list
}
