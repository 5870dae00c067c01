package rewrite

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// enter opens a container.
func (p *parser) enter(text string) {
	inner, ok := strings.CutSuffix(text[1:], ">")
	args := words(inner)
	if !ok || len(args) == 0 {
		p.fail("container without an end")
		return
	}
	if len(p.stack) > maxNesting {
		p.fail("containers are nested too deeply")
		p.restricts = true
		return
	}
	name, args := strings.ToLower(args[0]), args[1:]
	around := *p.owner()
	f := frame{name: name, sec: around.sec, discard: p.top().discard}
	switch {
	case f.discard:
	case name == "ifmodule":
		switch module(args) {
		case yes:
			f.pass = true
		case no:
			f.discard = true
		default:
			p.unmodelled(&f)
		}
	case name == "if" && around.op == leaf && p.override&OverrideFileInfo != 0:
		m := matcher{expr: p.expression(unquoteAll(strings.TrimSpace(inner[len("if"):])))}
		m.unknown = m.expr == nil
		p.section(&f, m)
	case name == "ifdefine" && len(args) == 1: // nothing is defined
		f.pass = strings.HasPrefix(args[0], "!")
		f.discard = !f.pass
	case name == "ifversion" && version(args) != unknown:
		f.pass = version(args) == yes
		f.discard = !f.pass
	case name == "requireall":
		f.op = all
	case name == "requireany":
		f.op = anyone
	case name == "requirenone":
		f.op = none
	case around.op != leaf:
		p.unmodelled(&f)
	case name == "files" || name == "filesmatch":
		p.section(&f, files(name, args))
	case name == "limit" || name == "limitexcept":
		m := matcher{except: name == "limitexcept", methods: []string{}}
		for _, a := range args {
			m.methods = append(m.methods, withGet(strings.ToUpper(a)))
		}
		m.unknown = len(args) == 0
		p.section(&f, m)
	default:
		p.unmodelled(&f)
	}
	p.stack = append(p.stack, f)
}

// unquoteAll takes the quotes off that stand around all of s.
func unquoteAll(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') && strings.IndexByte(s[1:n-1], s[0]) < 0 {
		return s[1 : n-1]
	}
	return s
}

// expression reads the condition of an <If>; nil, and told, if it cannot be asked.
func (p *parser) expression(text string) *expression {
	e, err := p.texts.readExpression(text)
	if len(p.texts.unknown) > 0 && err == nil {
		e, err = nil, fmt.Errorf("there is no variable %%{%.60s}", p.texts.unknown[0])
	}
	p.texts.unknown, p.texts.slow = nil, nil
	if err != nil {
		p.tell(p.line, "expression", err.Error()+"; what would refuse there closes", false)
		return nil
	}
	return e
}

// expr is the condition of a Require expr; not modelled if it cannot be asked.
func (p *parser) expr(text string) predicate {
	e := p.expression(unquoteAll(text))
	if e == nil {
		return predicate{}
	}
	return predicate{kind: expressed, expr: e, in: p.root}
}

// unmodelled opens a container whose condition is not known: what would refuse
// in it closes.
func (p *parser) unmodelled(f *frame) {
	if p.owner().op != leaf { // inside a Require container
		p.closes(p.line, "<"+f.name+">", "it is not honoured: it grants nothing, and where it decides the answer is 503")
		p.add(node{})
		f.discard = true
		return
	}
	p.notice("<" + f.name + ">")
	p.section(f, matcher{unknown: true})
}

func (p *parser) section(f *frame, m matcher) {
	parent := p.owner().sec
	f.sec = &section{file: p.file, line: p.line, match: m}
	parent.kids = append(parent.kids, f.sec)
}

// leave closes a container.
func (p *parser) leave(name string) {
	if len(p.stack) == 1 || p.top().name != name {
		p.fail(fmt.Sprintf("</%.40s> closes nothing", name))
		return
	}
	f := *p.top()
	p.stack = p.stack[:len(p.stack)-1]
	if f.op != leaf && !f.discard {
		p.add(node{op: f.op, kids: f.kids})
	}
	if s := f.sec; s != nil && s.match.unknown && s.restricts() {
		p.closes(s.line, "<"+f.name+">", "when it holds is not known: what it refuses answers 503")
	}
}

// files reads the argument of <Files> or <FilesMatch>. A pattern that cannot be
// compiled makes the condition unknown.
func files(name string, args []string) matcher {
	isRegex := name == "filesmatch"
	if len(args) == 2 && args[0] == "~" {
		isRegex, args = true, args[1:]
	}
	if len(args) != 1 || args[0] == "" {
		return matcher{unknown: true}
	}
	if isRegex {
		re, _, err := newPattern(strings.Clone(args[0]), false)
		return matcher{regex: re, unknown: err != nil}
	}
	glob := strings.ReplaceAll(args[0], "[!", "[^")
	_, err := path.Match(glob, "")
	return matcher{glob: glob, unknown: err != nil}
}

// module answers <IfModule NAME>: yes for what LiteSpeed has or stands in for.
func module(args []string) answer {
	if len(args) != 1 {
		return unknown
	}
	name, not := strings.CutPrefix(strings.ToLower(args[0]), "!")
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".c"), "_module"), ".cpp")
	name = strings.TrimPrefix(name, "mod_")
	has := unknown
	switch name {
	case "rewrite", "headers", "expires", "deflate", "alias", "dir", "setenvif", "mime", "env", "negotiation",
		"autoindex", "filter", "brotli", "ssl", "http2", "access", "access_compat", "litespeed",
		"php", "php5", "php7", "php8", // by an application that stands in for it
		"authz_core", "authz_host", "authz_user", "authz_groupfile", "authn_core", "authn_file", "auth_basic", "auth":
		has = yes
	case "security", "security2", "security3", "evasive", "pagespeed":
		has = no
	}
	if not && has != unknown {
		return yes - has // the other one
	}
	return has
}

// apacheVersion is the version of Apache whose directives are read.
var apacheVersion = [3]int{2, 4, 60}

// version answers <IfVersion [OP] N[.N[.N]]>.
func version(args []string) answer {
	op := "="
	if len(args) == 2 {
		op, args = args[0], args[1:]
	}
	if len(args) != 1 {
		return unknown
	}
	op, not := strings.CutPrefix(op, "!")
	order := 0
	parts := strings.Split(args[0], ".")
	if len(parts) > len(apacheVersion) {
		return unknown
	}
	for i, own := range apacheVersion {
		n := 0
		if i < len(parts) {
			var err error
			if n, err = strconv.Atoi(parts[i]); err != nil {
				return unknown
			}
		}
		if order == 0 {
			order = own - n
		}
	}
	holds := map[string]bool{"=": order == 0, "==": order == 0, "": order == 0, ">": order > 0, ">=": order >= 0, "<": order < 0, "<=": order <= 0}
	ok, known := holds[op]
	switch {
	case !known:
		return unknown
	case ok != not:
		return yes
	}
	return no
}
