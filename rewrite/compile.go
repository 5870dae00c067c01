package rewrite

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// compiler turns a text into a program. A rule that it cannot compile loses itself
// with its conditions and nothing else: it stays as one that never matches, so that
// [C] and [S] of the others count as they did. If it would refuse requests, it stays
// as one that answers 503 for all that it may mean (R-SAFE-1).
type compiler struct {
	src      Source
	p        *Program
	maps     map[string]*Map
	problems []Problem

	file         string
	line, column int // of the directive at hand
	size         int // bytes read so far
	depth        int // of RewriteFile

	conds    []cond
	condErr  error // of the first bad condition before the next rule
	tooMany  bool
	skip     []string // open containers whose content is left out
	quiet    bool     // nothing in them is meant for rewriting
	unknown  []string // variables of the directive that are not known
	slow     []string // why RE2 does not run patterns of the directive
	seenVars map[string]bool
}

// Compile compiles the rules of src. It never fails: what cannot be used is told.
func Compile(src Source) (*Program, []Problem) {
	c := newCompiler(src)
	c.text(src.File, max(src.Line, 1), max(src.Column, 1), src.Text)
	return c.finish()
}

func newCompiler(src Source) *compiler {
	c := &compiler{src: src, p: &Program{file: src.File, prefix: src.Prefix, dir: src.Dir, base: src.Base}, maps: maps.Clone(src.Maps), seenVars: map[string]bool{}}
	if c.maps == nil {
		c.maps = map[string]*Map{}
	}
	c.file = src.File
	return c
}

// finish returns what was compiled.
func (c *compiler) finish() (*Program, []Problem) {
	p := c.p
	c.orphans()
	if p.base == "" {
		p.base = c.src.Prefix
	}
	if !strings.HasPrefix(p.base, "/") {
		p.base = "/" + p.base
	}
	if !strings.HasSuffix(p.base, "/") {
		p.base += "/"
	}
	p.runs.New = func() any { return &run{} }
	return p, c.problems
}

// text reads the lines of one file or element.
func (c *compiler) text(file string, line, column int, text string) {
	c.file, c.line, c.column = file, line, column
	if c.size += len(text); c.size > maxText {
		c.tell(Fault, true, "write fewer rules", "rules over %d bytes: none of this file is used", maxText)
		c.closed("its rules are too large")
		return
	}
	number := line - 1
	var joined strings.Builder
	going := false
	for row := range strings.Lines(text) {
		if number++; !going {
			c.line = number
		}
		row, going = strings.CutSuffix(strings.TrimRight(row, "\r\n"), `\`)
		if joined.WriteString(row); going && joined.Len() <= maxLine {
			continue
		}
		going = false
		c.one(joined.String())
		joined.Reset()
		c.column = 1
	}
	if joined.Len() > 0 {
		c.one(joined.String())
	}
}

// one reads a line.
func (c *compiler) one(row string) {
	text := strings.TrimLeft(row, " \t")
	c.column += len(row) - len(text)
	text = strings.TrimRight(text, " \t")
	switch {
	case text == "" || text[0] == '#':
		return
	case len(text) > maxLine:
		c.tell(Fault, true, "write a shorter one", "directive over %d bytes", maxLine)
		c.closed("a directive is too long")
		return
	case text[0] == '<':
		c.container(text)
		return
	case len(c.skip) > 0 && c.quiet:
		return
	}
	name, rest := text, ""
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		name, rest = text[:i], text[i:]
	}
	c.unknown, c.slow = nil, nil
	lower := strings.ToLower(name)
	if lower != "rewriterule" && lower != "rewritecond" {
		if len(c.skip) == 0 {
			c.other(lower, name, strings.TrimSpace(rest))
		}
		return
	}
	c.column += len(name)
	if lower == "rewritecond" {
		c.cond(rest)
	} else {
		c.rule(rest)
	}
	c.column -= len(name)
	c.tellNames()
}

// container opens or closes one. Rules inside of IfModule count, whatever the
// module (as in LiteSpeed), but for headers, which is not about rewriting.
func (c *compiler) container(text string) {
	name, _, _ := strings.Cut(strings.TrimSpace(strings.Trim(strings.ToLower(text), "<>")), " ")
	switch {
	case strings.HasPrefix(name, "/"):
		if n := len(c.skip); n > 0 && c.skip[n-1] == name[1:] {
			if c.skip = c.skip[:n-1]; n == 1 {
				c.quiet = false
			}
		}
	case len(c.skip) > 0:
		if len(c.skip) < 64 {
			c.skip = append(c.skip, name)
		}
	case name == "ifmodule" && strings.Contains(strings.ToLower(text), "mod_headers"):
		c.skip, c.quiet = append(c.skip, name), true
	case name == "ifmodule":
	default:
		c.tell(Fault, false, "write the rules outside, with a RewriteCond", "rules inside of <%s> do not run", name)
		c.skip = append(c.skip, name)
	}
}

// other reads what is neither rule nor condition.
func (c *compiler) other(lower, name, rest string) {
	args, _, err := arguments(rest, 4)
	one := ""
	if len(args) > 0 {
		one = args[0].text
	}
	switch {
	case err != nil:
		c.tell(Fault, false, "correct the line", "%s: %v", name, err)
	case lower == "rewriteengine" && strings.EqualFold(one, "on"):
		c.p.engine = 1
	case lower == "rewriteengine" && strings.EqualFold(one, "off"):
		c.p.engine = -1
	case lower == "rewritebase" && strings.HasPrefix(one, "/"):
		c.p.base = strings.Clone(one)
	case lower == "rewritebase" || lower == "rewriteengine":
		c.tell(Fault, false, "RewriteEngine has on or off, RewriteBase a path that starts with /", "%s: %q", name, one)
	case lower == "rewritefile" && one != "":
		c.include(one)
	case lower == "rewritemap" && len(args) == 2 && c.src.MapOf != nil:
		m, err := c.src.MapOf(one, args[1].text)
		if err != nil {
			c.tell(Fault, false, "use txt:FILE, rnd:FILE or int:tolower and its like", "map %q: %v; look-ups give their default", one, err)
			m = &Map{}
		}
		c.maps[strings.Clone(one)] = m
	case lower == "rewritemap":
		c.tell(Fault, false, "declare it as <map> in the rewrite element of the virtual host", "RewriteMap is not allowed here")
	case lower == "rewriteoptions" && c.src.Htaccess:
		c.options(args)
	case lower == "rewriteoptions" || lower == "rewritelock" || lower == "rewritelog" || lower == "rewriteloglevel" || lower == "cachekeymodify":
		c.tell(Doubt, false, "remove it", "%s has no effect", name)
	default:
		c.tell(Doubt, false, "remove it, or correct its name", "%.60q is no directive of rewriting", name)
	}
}

// options reads RewriteOptions of a .htaccess file.
func (c *compiler) options(args []argument) {
	for _, a := range args {
		switch strings.ToLower(a.text) {
		case "inherit":
			c.p.inherit = inheritBehind
		case "inheritbefore":
			c.p.inherit = inheritBefore
		case "ignoreinherit":
			c.p.inherit = inheritNone
		default:
			c.tell(Doubt, false, "remove it", "RewriteOptions %s has no effect", a.text)
		}
	}
}

func (c *compiler) include(name string) {
	if c.src.Include == nil || c.depth >= maxInclude {
		c.tell(Fault, true, "write the rules here", "RewriteFile %s: not allowed here, or too deep", name)
		c.closed("a file of rules is not read")
		return
	}
	file, text, err := c.src.Include(name)
	if err != nil {
		c.tell(Fault, true, "make the file readable, or remove the line", "RewriteFile %s: %v", name, err)
		c.closed("a file of rules is not read")
		return
	}
	at := [...]int{c.line, c.column}
	around := c.file
	c.depth++
	c.text(file, 1, 1, text)
	c.depth--
	c.file, c.line, c.column = around, at[0], at[1]
}

// closed makes the program answer 503 from here on: nobody knows what it would
// have refused.
func (c *compiler) closed(why string) {
	if len(c.p.rules) <= maxRules {
		c.p.rules = append(c.p.rules, rule{file: c.file, line: c.line, column: c.column, closed: why})
	}
}

func (c *compiler) cond(text string) {
	if len(c.conds) >= maxConds {
		c.condErr = fmt.Errorf("more than %d conditions", maxConds)
		return
	}
	k, err := c.compileCond(text)
	if err != nil && c.condErr == nil {
		c.condErr = fmt.Errorf("line %d: %w", c.line, err)
	}
	c.conds = append(c.conds, k)
}

// orphans tells of conditions that no rule follows.
func (c *compiler) orphans() {
	if len(c.conds) > 0 {
		c.tell(Doubt, false, "write a RewriteRule behind it", "RewriteCond without a rule")
	}
}

func (c *compiler) rule(text string) {
	conds, condErr := c.conds, c.condErr
	c.conds, c.condErr = nil, nil
	if len(c.p.rules) >= maxRules {
		if !c.tooMany {
			c.tooMany = true
			c.tell(Fault, true, "write fewer rules", "more than %d rules", maxRules)
			c.closed("there are too many rules")
		}
		return
	}
	u := rule{file: c.file, line: c.line, column: c.column, conds: conds}
	err := c.compileRule(&u, text)
	if err == nil {
		err = condErr
	}
	switch {
	case len(c.skip) > 0 && err == nil:
		err = fmt.Errorf("it stands in a container that is not honoured")
		fallthrough
	case err != nil:
		u.conds, u.lost = nil, true
		hint := "correct the rule: it is left out with its conditions, the others count"
		if u.refuses() {
			u.lost, u.closed = false, "a rule that refuses cannot be compiled: "+err.Error()
			hint = "correct the rule: until then what its pattern matches answers 503"
		}
		c.tell(Fault, u.closed != "", hint, "RewriteRule: %v", err)
	default:
		u.prepare()
	}
	c.p.rules = append(c.p.rules, u)
}

// compileRule reads "PATTERN SUBSTITUTION [FLAGS]". Flags and pattern are kept as
// far as they are understood, also if it fails.
func (c *compiler) compileRule(u *rule, text string) error {
	args, rest, err := arguments(text, 2)
	if err != nil {
		u.forbidden = refuses(text)
		return err
	}
	if len(args) < 2 {
		u.forbidden = refuses(text)
		return fmt.Errorf("it needs a pattern and a substitution")
	}
	u.column = c.column + args[0].col
	u.text = args[0].text + " " + args[1].text
	flagErr := c.readFlags(u, text[rest:])
	if flagErr != nil && refuses(text) {
		u.forbidden = true
	}
	expr, not := strings.CutPrefix(args[0].text, "!")
	if u.pattern, err = c.newPattern(expr, u.nocase); err != nil {
		return err
	}
	u.not = not
	if flagErr != nil {
		return flagErr
	}
	sub := args[1].text
	switch {
	case u.forbidden || u.gone || u.status >= 400 || u.status > 0 && u.status < 300:
	case u.proxy:
		u.sub, u.target = &substitution{url: true}, c.newTarget(u)
		if err := c.compileTarget(u, strings.Clone(sub)); err != nil {
			*u.target = *c.newTarget(u)
			c.tell(Fault, false, "write http://NAME/path with the name of a processor; the rule answers 502", "%v", err)
		}
	case sub != "-":
		return c.compileSubstitution(u, strings.Clone(sub))
	}
	return nil
}

func (c *compiler) newTarget(u *rule) *Target {
	return &Target{File: u.file, Line: u.line, Column: u.column, Htaccess: c.src.Htaccess}
}

// prepare works out which groups are used, so that the others are not captured.
func (u *rule) prepare() {
	uses := func(kind partKind) bool {
		if s := u.sub; s != nil && (s.path.uses(kind) || s.query.uses(kind)) {
			return true
		}
		if u.media.uses(kind) {
			return true
		}
		for i := range u.env {
			if u.env[i].value.uses(kind) {
				return true
			}
		}
		for i := range u.cookies {
			k := &u.cookies[i]
			if k.value.uses(kind) || k.domain.uses(kind) || k.path.uses(kind) {
				return true
			}
		}
		return false
	}
	u.groups, u.back = uses(ruleGroup), uses(condGroup)
	for i := range u.conds {
		u.early = u.early || u.conds[i].test.uses(ruleGroup) || u.conds[i].expr != nil
		u.back = u.back || u.conds[i].test.uses(condGroup) || u.conds[i].expr != nil
	}
}

func (c *compiler) newPattern(expr string, nocase bool) (*pattern, error) {
	p, why, err := newPattern(strings.Clone(expr), nocase)
	if err == nil && why != "" {
		c.slow = append(c.slow, why)
	}
	return p, err
}

// readFlags reads the flags of a rule: those that it knows, even if it fails.
func (c *compiler) readFlags(u *rule, text string) error {
	list, err := flagList(text)
	for _, f := range list {
		if e := c.readFlag(u, f); e != nil && err == nil {
			err = e
		}
	}
	return err
}

func (c *compiler) readFlag(u *rule, text string) (err error) {
	name, arg, hasArg := splitFlag(text)
	set := map[string]*bool{"l": &u.last, "pt": &u.last, "end": &u.end, "f": &u.forbidden, "g": &u.gone, "p": &u.proxy, "c": &u.chain,
		"qsa": &u.qsa, "qsd": &u.qsd, "qsl": &u.qsl, "nc": &u.nocase, "ne": &u.noescape, "b": &u.escape, "bnp": &u.blankPercent,
		"bctls": &u.controlsOnly, "unsafeallow3f": &u.allow3F}
	if b := set[name]; b != nil && (!hasArg || name == "b") {
		*b = true
		if name == "b" {
			return nil // B=chars: these are encoded with all the others
		}
		return nil
	}
	switch name {
	case "n":
		if n, err := strconv.Atoi(arg); hasArg && (err != nil || n < 1) {
			return fmt.Errorf("flag %q has no number of rounds", text)
		}
		u.next = true
	case "s":
		if u.skip, err = strconv.Atoi(arg); err != nil || u.skip < 1 {
			return fmt.Errorf("flag %q has no number of rules", text)
		}
	case "r":
		u.status = 302
		if hasArg {
			u.status = redirectWords[strings.ToLower(arg)]
			if u.status == 0 {
				u.status, err = strconv.Atoi(arg)
			}
			if err != nil || !knownStatus(u.status) {
				refusing := strings.HasPrefix(arg, "4")
				if u.status = 0; refusing {
					u.status = 403
				}
				return fmt.Errorf("flag %q names no status", text)
			}
		}
	case "bne":
		u.escape, u.except = true, strings.Clone(arg)
	case "t", "h":
		if u.media, err = c.readTemplate(strings.Clone(arg), false, false); err == nil && len(u.media) == 0 {
			err = fmt.Errorf("flag %q names no type", text)
		}
		return err
	case "dpi": // path info is split behind the rules: there is none to be dropped
	case "e":
		return c.readEnv(u, arg)
	case "co":
		return c.readCookie(u, arg)
	case "unsafeprefixstat":
	default:
		why, ok := noEffect[name]
		if !ok {
			if strings.HasPrefix(name, "unsafeallowprefix") {
				return nil
			}
			return fmt.Errorf("there is no flag %q", text)
		}
		c.tell(Doubt, false, "remove it", "flag %q has no effect: %s", text, why)
	}
	return nil
}

// readEnv reads E=NAME:VALUE and E=!NAME. What HJ_ begins is the server's own
// (R-RW-6); what scripts may not be told stays a variable of the rules.
func (c *compiler) readEnv(u *rule, arg string) (err error) {
	e := setEnv{}
	name, val, _ := strings.Cut(arg, ":")
	if name, e.unset = strings.CutPrefix(strings.TrimSpace(name), "!"); name == "" {
		return fmt.Errorf("flag E without a name")
	}
	e.name = strings.Clone(name)
	if e.value, err = c.readTemplate(strings.Clone(unquote(val)), false, false); err != nil {
		return err
	}
	if len(name) >= 3 && strings.EqualFold(name[:3], "HJ_") {
		c.tell(Doubt, false, "use another name", "variable %q cannot be set by rules", name)
		return nil
	}
	if noSteering[strings.ToLower(name)] {
		c.tell(Doubt, false, "remove it", "variable %q has no effect on the server; rules and applications see it", name)
	}
	u.env = append(u.env, e)
	return nil
}

// noSteering are variables by which LiteSpeed steers what is not here (reference 2.2).
// Those that have an effect are in docs/rules.md.
var noSteering = map[string]bool{"noabort": true, "noconntimeout": true, "verifycaptcha": true, "http-prio": true,
	"no-vary": true, "modpagespeed": true, "noauth": true}

// readCookie reads CO=name:value:domain[:minutes[:path[:secure[:httponly]]]].
func (c *compiler) readCookie(u *rule, arg string) (err error) {
	sep := ":"
	if strings.HasPrefix(arg, ";") {
		arg, sep = arg[1:], ";"
	}
	f := strings.Split(arg, sep)
	if len(f) < 3 || f[0] == "" || strings.ContainsAny(f[0], " =;,\t\"") {
		return fmt.Errorf("flag CO needs name, value and domain")
	}
	f = append(f, "", "", "", "")
	k := cookie{name: strings.Clone(f[0]), secure: truth(f[5]), httpOnly: truth(f[6])}
	if f[3] != "" {
		if k.minutes, err = strconv.Atoi(f[3]); err != nil {
			return fmt.Errorf("flag CO: %q is no number of minutes", f[3])
		}
	}
	for i, t := range []*template{1: &k.value, 2: &k.domain, 4: &k.path} {
		if t != nil {
			if *t, err = c.readTemplate(strings.Clone(f[i]), false, false); err != nil {
				return err
			}
		}
	}
	u.cookies = append(u.cookies, k)
	return nil
}

func truth(s string) bool {
	s = strings.ToLower(s)
	return s == "1" || strings.HasPrefix(s, "true") || s == "secure" || s == "httponly"
}

// tellNames tells of variables and patterns of the directive at hand, each once.
func (c *compiler) tellNames() {
	for _, name := range c.unknown {
		if key := strings.ToUpper(name); !c.seenVars[key] {
			c.seenVars[key] = true
			c.tell(Doubt, false, "correct the name; it stands for nothing", "there is no variable %%{%.60s}", name)
		}
	}
	for _, why := range c.slow {
		c.tell(Notable, false, "nothing has to be done; a pattern without look-around and back references is faster",
			"the pattern runs on the backtracking engine, within %v, as RE2 cannot: %s", maxMatch, why)
	}
}

func (c *compiler) tell(s Severity, closes bool, hint, format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, Problem{File: c.file, Line: c.line, Column: c.column, Severity: s, Closes: closes,
			Text: fmt.Sprintf(format, args...), Hint: hint})
	}
}
