package rewrite

import (
	"fmt"
	"sync"

	"httpjet/exchange"
)

const (
	maxText     = 1 << 20  // bytes of rules with what they include
	maxLine     = 64 << 10 // bytes of one directive
	maxRules    = 10000    // of one program
	maxConds    = 100      // of one rule
	maxProblems = 200      // told of one text
	maxInclude  = 8        // RewriteFile in RewriteFile
	maxResult   = 64 << 10 // bytes of an expanded text
	maxRounds   = 10       // jumps of [N] (R-RW-2)
)

// Source is a text of rules and the place in which it stands.
type Source struct {
	Text         string
	File         string
	Line, Column int // of the first byte of Text in File; 0 is 1

	// Prefix is the uri of the context or directory, which patterns do not see:
	// "/shop/". It is "" for rules of a virtual host, whose patterns see the whole
	// path with its leading slash.
	Prefix string
	Dir    string          // what Prefix is on disk; of a virtual host its document root
	Base   string          // RewriteBase unless the text has one; "" is Prefix
	Maps   map[string]*Map // by name

	// Include returns the text of a RewriteFile and the name to report it by; nil:
	// RewriteFile is refused.
	Include func(name string) (file, text string, err error)
	// MapOf opens the map of a RewriteMap line; nil: the line is refused.
	MapOf func(name, location string) (*Map, error)

	Htaccess bool // of a .htaccess file: [P] may not name Unix sockets
	Dynamic  bool // [P] may make the name of a processor of the request (R-P-4)
	AnyHost  bool // and, with Dynamic, that of any host
}

// Severity is how bad a Problem is.
type Severity uint8

const (
	Notable Severity = iota // works, and the operator should know how
	Doubt                   // something has no effect
	Fault                   // a rule is lost
)

// Problem is what a text of rules says that is not done, or not as it seems.
type Problem struct {
	File         string
	Line, Column int
	Severity     Severity
	Closes       bool // the rule would refuse requests: what it may mean answers 503 (R-SAFE-1)
	Text, Hint   string
}

func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s (%s)", p.File, p.Line, p.Column, p.Text, p.Hint)
}

// Program is compiled rules. It is immutable; any goroutine may run it.
type Program struct {
	rules   []rule
	prefix  string
	dir     string
	file    string
	base    string // starts and ends with '/'
	engine  int8   // RewriteEngine: 1 on, -1 off, 0 not written
	inherit inheritance
	runs    sync.Pool
}

// inheritance says if rules of the .htaccess files around run too, and when.
type inheritance uint8

const (
	inheritNone inheritance = iota
	inheritBehind
	inheritBefore
)

// Place is the URL path that patterns do not see: "/shop/"; "" at a virtual host.
func (p *Program) Place() string { return p.prefix }

// File is that of its text.
func (p *Program) File() string { return p.file }

// Engine tells what RewriteEngine says, and whether it says anything.
func (p *Program) Engine() (on, written bool) { return p.engine > 0, p.engine != 0 }

// Empty reports whether the program has no rule.
func (p *Program) Empty() bool { return p == nil || len(p.rules) == 0 }

// Targets returns where its rules with [P] send, in their order.
func (p *Program) Targets() []*Target {
	var list []*Target
	for i := range p.rules {
		if t := p.rules[i].target; t != nil {
			list = append(list, t)
		}
	}
	return list
}

// Target is where a rule with [P] sends.
type Target struct {
	Scheme    string // http, https, ws, wss, h2, h2s or unix
	Authority string // as in the rule: the name of a processor, or host and port; of unix the path of the socket
	Htaccess  bool   // of a .htaccess file: it may name declared processors alone
	AnyHost   bool   // with Dynamic: it may be that of a host that is no processor
	Dynamic   bool   // the authority is made of the request: Authority is "", that of the Outcome counts

	File         string // of the rule
	Line, Column int
}

// Kind is what a program decides.
type Kind uint8

const (
	Unchanged  Kind = iota
	Rewritten       // go on with Target
	Redirected      // answer Status with Location
	Answered        // answer Status: F, G, R=404
	Proxied         // send Target to Proxy, once everything else was asked
	Failed          // answer Err
)

// Outcome is what a program decided about a request.
type Outcome struct {
	Kind     Kind
	Target   string // encoded path and query as they are sent upstream; to be cleaned before anything matches it
	Status   int
	Location string
	Proxy    *Target
	// Of a Proxy whose authority is made of the request, what it is; Scheme is "" if
	// that is not allowed.
	Scheme, Authority string
	End               bool     // no more rewriting of this request
	Last              bool     // [L] has ended the rules: those that follow in the same set do not run
	Cookies           []string // values of Set-Cookie
	Type              string   // of [T] or [H], which are the same: a media type, or the name of a handler; "" for none
	Err               error    // *exchange.Error

	rule *rule // that decided
}

// Rule returns where the rule stands that decided; "" if none did.
func (o *Outcome) Rule() (file string, line int) {
	if o.rule == nil {
		return "", 0
	}
	return o.rule.file, o.rule.line
}

// AsError returns the outcome as the answer of a handler, nil if the request goes
// on.
func (o *Outcome) AsError() error {
	switch o.Kind {
	case Redirected:
		return exchange.Redirect(o.Status, o.Location)
	case Answered:
		file, line := o.Rule()
		reason := "access_denied"
		if o.Status != 403 {
			reason = "rewrite_rule"
		}
		return exchange.Fail(o.Status, reason, "%s:%d: rewrite rule", file, line)
	case Failed:
		return o.Err
	}
	return nil
}

// rule is one RewriteRule with its conditions.
type rule struct {
	file         string
	line, column int
	text         string // pattern and substitution as written, for explanations

	conds   []cond
	pattern *pattern // nil: matches everything
	not     bool
	sub     *substitution // nil: "-"
	target  *Target       // of [P]
	flags

	lost   bool   // never matches: it could not be compiled
	closed string // answers 503: it refuses, and could not be compiled

	early  bool // its conditions use groups of its pattern
	groups bool // its substitution, or a flag, does
	back   bool // something uses groups of its conditions
}

// flags are those of a rule that were understood.
type flags struct {
	last, end, forbidden, gone, proxy, chain, next bool
	qsa, qsd, qsl, nocase, noescape                bool
	escape, blankPercent, controlsOnly, allow3F    bool
	except                                         string   // BNE
	skip, status                                   int      // S=, R=
	media                                          template // T=, H=
	env                                            []setEnv
	cookies                                        []cookie
}

// refuses reports whether the rule keeps clients out.
func (f *flags) refuses() bool { return f.forbidden || f.gone || f.status >= 400 }

// setEnv is one E=.
type setEnv struct {
	name  string
	unset bool
	value template
}

// cookie is one CO=.
type cookie struct {
	name                string
	value, domain, path template
	minutes             int // 0: of the session
	secure, httpOnly    bool
}
