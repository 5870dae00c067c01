package rewrite

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

const (
	maxExpression = 4 << 10 // bytes
	maxTerms      = 64      // terms of an expression, and how deep they are nested
)

// expression is one of Apache's, as RewriteCond expr, <If>, Require expr and the expr=
// of Header have them: the part of the language that compares, matches and combines.
// It is immutable. What this reader does not know is an error, never a guess.
type expression struct {
	op    exprOp
	kids  []*expression // of and, or, not
	left  operand
	right operand
	list  []operand // of -in
	re    *pattern
	file  op // of a file test
}

// operand is a value: texts and functions, one behind the other.
type operand []valuePart

// valuePart is a text with variables in it, with a function on it.
type valuePart struct {
	text     template
	function func(string) string // nil: as it is
	field    bool                // the text names a request field
	env      bool                // or a variable
}

type exprOp uint8

const (
	exprTrue exprOp = iota
	exprFalse
	exprAnd
	exprOr
	exprNot
	exprEmpty    // -z
	exprNonEmpty // -n
	exprTruth    // -T
	exprEqual
	exprLess
	exprLessEqual
	exprNumEqual
	exprNumLess
	exprNumLessEqual
	exprMatch
	exprGlob
	exprAddress // -ipmatch, -R
	exprIn
	exprFile
)

// exprReader reads one expression.
type exprReader struct {
	c     *compiler
	s     string
	i     int
	terms int
}

// readExpression reads all of s.
func (c *compiler) readExpression(s string) (*expression, error) {
	if len(s) > maxExpression {
		return nil, fmt.Errorf("expression over %d bytes", maxExpression)
	}
	r := &exprReader{c: c, s: s}
	e, err := r.or()
	if err == nil && r.peek() != 0 {
		err = fmt.Errorf("%.20q is not understood", r.s[r.i:])
	}
	if err != nil {
		return nil, fmt.Errorf("expression: %w", err)
	}
	return e, nil
}

// peek skips blanks and returns the byte behind them, 0 at the end.
func (r *exprReader) peek() byte {
	for r.i < len(r.s) && blank(r.s[r.i]) {
		r.i++
	}
	if r.i == len(r.s) {
		return 0
	}
	return r.s[r.i]
}

// take eats text if it comes next.
func (r *exprReader) take(text string) bool {
	r.peek()
	if !strings.HasPrefix(r.s[r.i:], text) {
		return false
	}
	r.i += len(text)
	return true
}

// takeWord eats an operator of letters, which ends where its letters do.
func (r *exprReader) takeWord(text string) bool {
	r.peek()
	rest, ok := strings.CutPrefix(r.s[r.i:], text)
	if !ok || rest != "" && isNameByte(rest[0]) {
		return false
	}
	r.i += len(text)
	return true
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

func (r *exprReader) or() (*expression, error) { return r.series(exprOr, "||", r.and) }

func (r *exprReader) and() (*expression, error) { return r.series(exprAnd, "&&", r.not) }

func (r *exprReader) series(op exprOp, sign string, term func() (*expression, error)) (*expression, error) {
	e, err := term()
	for err == nil && r.take(sign) {
		var next *expression
		if next, err = term(); err == nil {
			e = &expression{op: op, kids: []*expression{e, next}}
		}
	}
	return e, err
}

func (r *exprReader) not() (*expression, error) {
	if r.terms++; r.terms > maxTerms {
		return nil, fmt.Errorf("more than %d terms", maxTerms)
	}
	switch {
	case r.peek() == '!' && !strings.HasPrefix(r.s[r.i:], "!=") && !strings.HasPrefix(r.s[r.i:], "!~"):
		r.i++
		e, err := r.not()
		return &expression{op: exprNot, kids: []*expression{e}}, err
	case r.take("("):
		e, err := r.or()
		if err == nil && !r.take(")") {
			err = fmt.Errorf("( without its )")
		}
		return e, err
	case r.takeWord("true"):
		return &expression{op: exprTrue}, nil
	case r.takeWord("false"):
		return &expression{op: exprFalse}, nil
	}
	return r.test()
}

var exprUnary = map[string]exprOp{"-z": exprEmpty, "-n": exprNonEmpty, "-T": exprTruth, "-R": exprAddress}

// test reads a test of one value or of two.
func (r *exprReader) test() (*expression, error) {
	if r.peek() == '-' && r.i+1 < len(r.s) {
		sign := r.s[r.i : r.i+2]
		o, isFile := fileOps[sign]
		unary, ok := exprUnary[sign]
		if (ok || isFile) && r.takeWord(sign) {
			v, err := r.value()
			switch {
			case isFile:
				return &expression{op: exprFile, file: o, left: v}, err
			case unary == exprAddress:
				client := operand{{text: template{{kind: value, v: remoteAddr}}}}
				return &expression{op: exprAddress, left: client, right: v}, err
			}
			return &expression{op: unary, left: v}, err
		}
	}
	left, err := r.value()
	if err != nil {
		return nil, err
	}
	return r.comparison(left)
}

// comparison reads what stands behind the left value.
func (r *exprReader) comparison(left operand) (*expression, error) {
	not := false
	if r.take("=~") || r.take("!~") {
		not = r.s[r.i-2] == '!'
		re, err := r.regex()
		return negated(&expression{op: exprMatch, left: left, re: re}, not), err
	}
	if r.takeWord("-in") || r.takeWord("in") {
		list, err := r.list()
		return &expression{op: exprIn, left: left, list: list}, err
	}
	for _, o := range []struct {
		sign string
		op   exprOp
		swap bool
		not  bool
	}{{"==", exprEqual, false, false}, {"!=", exprEqual, false, true}, {"<=", exprLessEqual, false, false}, {">=", exprLessEqual, true, false},
		{"=", exprEqual, false, false}, {"<", exprLess, false, false}, {">", exprLess, true, false},
		{"-eq", exprNumEqual, false, false}, {"-ne", exprNumEqual, false, true}, {"-lt", exprNumLess, false, false},
		{"-le", exprNumLessEqual, false, false}, {"-gt", exprNumLess, true, false}, {"-ge", exprNumLessEqual, true, false},
		{"eq", exprNumEqual, false, false}, {"ne", exprNumEqual, false, true}, {"lt", exprNumLess, false, false},
		{"le", exprNumLessEqual, false, false}, {"gt", exprNumLess, true, false}, {"ge", exprNumLessEqual, true, false},
		{"-ipmatch", exprAddress, false, false}, {"-fnmatch", exprGlob, false, false}, {"-strmatch", exprGlob, false, false}} {
		if isNameByte(o.sign[len(o.sign)-1]) && !r.takeWord(o.sign) || !isNameByte(o.sign[len(o.sign)-1]) && !r.take(o.sign) {
			continue
		}
		right, err := r.value()
		if o.swap {
			left, right = right, left
		}
		return negated(&expression{op: o.op, left: left, right: right}, o.not), err
	}
	return nil, fmt.Errorf("a value that is not compared")
}

func negated(e *expression, not bool) *expression {
	if not {
		return &expression{op: exprNot, kids: []*expression{e}}
	}
	return e
}

// regex reads /re/, /re/i, m#re# or a quoted one.
func (r *exprReader) regex() (*pattern, error) {
	q := r.peek()
	if q == 'm' && r.i+1 < len(r.s) {
		r.i++
		q = r.s[r.i]
	}
	if q == 0 || isNameByte(q) {
		return nil, fmt.Errorf("=~ without a pattern")
	}
	text, err := r.until(q)
	if err != nil {
		return nil, err
	}
	nocase := false
	for ; r.i < len(r.s) && isNameByte(r.s[r.i]); r.i++ {
		switch r.s[r.i] {
		case 'i':
			nocase = true
		case 'm', 's', 'g':
		default:
			return nil, fmt.Errorf("a pattern has no flag %q", r.s[r.i])
		}
	}
	return r.c.newPattern(text, nocase)
}

// until reads what stands between two q, of which the first comes next. A backslash
// keeps q.
func (r *exprReader) until(q byte) (string, error) {
	var b strings.Builder
	for r.i++; r.i < len(r.s); r.i++ {
		switch c := r.s[r.i]; {
		case c == q:
			r.i++
			return b.String(), nil
		case c == '\\' && r.i+1 < len(r.s) && r.s[r.i+1] == q:
			r.i++
			b.WriteByte(q)
		default:
			b.WriteByte(c)
		}
	}
	return "", fmt.Errorf("%c without its second", q)
}

func (r *exprReader) list() (list []operand, err error) {
	if !r.take("{") {
		return nil, fmt.Errorf("-in without a list in braces")
	}
	for {
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		if list = append(list, v); len(list) > maxTerms {
			return nil, fmt.Errorf("more than %d values", maxTerms)
		}
		switch {
		case r.take("}"):
			return list, nil
		case !r.take(","):
			return nil, fmt.Errorf("a list without its }")
		}
	}
}

var exprFunctions = map[string]func(string) string{"tolower": strings.ToLower, "toupper": strings.ToUpper,
	"escape": functions["escape"], "unescape": decode}

// value reads values with a dot between them.
func (r *exprReader) value() (operand, error) {
	var out operand
	for {
		p, err := r.part()
		if err != nil {
			return nil, err
		}
		if out = append(out, p); len(out) > maxTerms {
			return nil, fmt.Errorf("more than %d values", maxTerms)
		}
		if r.peek() != '.' {
			return out, nil
		}
		r.i++
	}
}

func (r *exprReader) part() (p valuePart, err error) {
	switch q := r.peek(); {
	case q == '\'' || q == '"':
		text, err := r.until(q)
		if err != nil {
			return p, err
		}
		p.text, err = r.c.readTemplate(text, false, false)
		return p, err
	case q == '%' && strings.HasPrefix(r.s[r.i:], "%{"):
		end := strings.IndexByte(r.s[r.i:], '}')
		if end < 0 {
			return p, fmt.Errorf("%%{ without its }")
		}
		p.text, err = r.c.readTemplate(r.s[r.i:r.i+end+1], false, false)
		r.i += end + 1
		return p, err
	}
	start := r.i
	for r.i < len(r.s) && (isNameByte(r.s[r.i]) || r.s[r.i] == '-' && r.i == start) {
		r.i++
	}
	word := r.s[start:r.i]
	switch {
	case word == "":
		return p, fmt.Errorf("%.20q is no value", r.s[start:])
	case r.i == len(r.s) || r.s[r.i] != '(':
		p.text = template{{kind: literal, text: strings.Clone(word)}}
		return p, nil
	}
	r.i++
	in, err := r.part()
	if err == nil && !r.take(")") {
		err = fmt.Errorf("%s( without its )", word)
	}
	p.text = in.text
	switch lower := strings.ToLower(word); {
	case in.function != nil || in.field || in.env:
		return p, fmt.Errorf("functions in functions are not honoured")
	case lower == "req" || lower == "http":
		p.field = true
	case lower == "env" || lower == "reqenv":
		p.env = true
	case exprFunctions[lower] != nil:
		p.function = exprFunctions[lower]
	default:
		return p, fmt.Errorf("there is no function %q", word)
	}
	return p, err
}

// value returns the text of a value.
func (r *run) value(v operand) string {
	if len(v) == 1 {
		return r.valuePart(&v[0])
	}
	var b strings.Builder
	for i := range v {
		if b.WriteString(r.valuePart(&v[i])); b.Len() > maxResult {
			r.tooLong = true
			return ""
		}
	}
	return b.String()
}

func (r *run) valuePart(p *valuePart) string {
	s := r.text(p.text)
	switch {
	case p.field:
		return r.x.Req.Fields.Get(s)
	case p.env:
		return env(r.x, s)
	case p.function != nil:
		return p.function(s)
	}
	return s
}

// holds asks an expression.
func (e *expression) holds(r *run) (bool, error) {
	switch e.op {
	case exprTrue, exprFalse:
		return e.op == exprTrue, nil
	case exprNot:
		ok, err := e.kids[0].holds(r)
		return !ok, err
	case exprAnd, exprOr:
		ok, err := e.kids[0].holds(r)
		if err != nil || ok == (e.op == exprOr) {
			return ok, err
		}
		return e.kids[1].holds(r)
	case exprMatch:
		return r.match(e.re, r.value(e.left), nil)
	}
	left, right := r.value(e.left), r.value(e.right)
	if r.tooLong {
		return false, errTooLong
	}
	switch e.op {
	case exprEmpty:
		return left == "", nil
	case exprNonEmpty:
		return left != "", nil
	case exprTruth:
		lower := strings.ToLower(left)
		return left != "" && left != "0" && lower != "off" && lower != "false" && lower != "no", nil
	case exprEqual:
		return left == right, nil
	case exprLess:
		return left < right, nil
	case exprLessEqual:
		return left <= right, nil
	case exprGlob:
		return path.Match(right, left)
	case exprAddress:
		n, ok := parseNet(right)
		if !ok {
			return false, fmt.Errorf("%q is no network", right)
		}
		return n.Contains(r.x.Req.Client.Unmap().WithZone("")), nil
	case exprIn:
		for _, v := range e.list {
			if r.value(v) == left {
				return true, nil
			}
		}
		return false, nil
	case exprFile:
		return r.look([]byte(left), e.file != isLink).is(e.file), nil
	}
	return compareNumbers(e.op, left, right), nil
}

func compareNumbers(op exprOp, left, right string) bool {
	a, errA := strconv.ParseInt(strings.TrimSpace(left), 10, 64)
	b, errB := strconv.ParseInt(strings.TrimSpace(right), 10, 64)
	switch {
	case errA != nil || errB != nil:
		return false
	case op == exprNumEqual:
		return a == b
	case op == exprNumLess:
		return a < b
	}
	return a <= b
}
