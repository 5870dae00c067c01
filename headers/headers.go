// Package headers changes the fields of answers and requests as LiteSpeed's
// extraHeaders and Header lines say: set, append, merge, add, unset, edit; and says how
// long an answer may be kept. It parses the lines of contexts once and applies the
// operations to an exchange. It knows no context and no file; which operations hold for
// a request is decided elsewhere.
package headers

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"httpjet/exchange"
)

// Bounds of one list of operations: what is written by hand is far below.
const (
	maxOps   = 256
	maxValue = 8 << 10 // bytes of an expanded value
)

// A Problem is a line that is left out.
type Problem struct {
	Line int // from 1
	Text string
}

// Action is what an operation does to its field.
type Action uint8

// The actions. What edits takes no value but a pattern, see Replace.
const (
	Add Action = iota
	Set
	Append // to the values that are there, else Add
	Merge  // Append unless the value is there already
	Unset
	SetIfEmpty
	Edit    // the first match in each line
	EditAll // every match
)

// Actions are the words of Header lines.
var Actions = map[string]Action{"add": Add, "set": Set, "append": Append, "merge": Merge, "unset": Unset,
	"setifempty": SetIfEmpty, "edit": Edit, "edit*": EditAll}

var actions = map[string]Action{"add": Add, "set": Set, "replace": Set, "append": Append, "merge": Merge, "unset": Unset}

// op is one line.
type op struct {
	action  Action
	request bool // RequestHeader: about what the application sees
	name    string
	value   template
	env     string // only if this variable is set; "" for always
	not     bool   // only if env is not set
	line    int    // counted from 1
}

// Ops are operations in their order. They are immutable; nil changes nothing.
type Ops struct {
	list []op
	Only bool // NONE: what is inherited does not hold
}

// Parse reads one operation per line (LSX 7.4). A line that is none is left out and
// told. It returns nil if nothing is left.
func Parse(text string) (*Ops, []Problem) {
	o := &Ops{}
	var bad []Problem
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
			continue
		case line == "NONE":
			o.Only = true
			continue
		case len(o.list) == maxOps:
			bad = append(bad, Problem{n, fmt.Sprintf("more than %d operations", maxOps)})
			return o, bad
		}
		p, err := parseLine(line)
		if err != nil {
			bad = append(bad, Problem{n, err.Error()})
			continue
		}
		p.line = n
		o.list = append(o.list, p)
	}
	if len(o.list) == 0 && !o.Only {
		return nil, bad
	}
	return o, bad
}

// RequestFields yields line and name of the fields that RequestHeader changes; a nil o has none.
func (o *Ops) RequestFields() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		if o == nil {
			return
		}
		for _, p := range o.list {
			if p.request && !yield(p.line, p.name) {
				return
			}
		}
	}
}

// parseLine reads "[Header|RequestHeader] [always|onsuccess] [OPERATION] NAME
// [VALUE] [env=[!]VAR | early]" or "NAME: VALUE".
func parseLine(line string) (op, error) {
	p := op{}
	words, err := split(line)
	if err != nil {
		return p, err
	}
	next := func(options ...string) string {
		if len(words) > 0 && !words[0].quoted && slices.Contains(options, strings.ToLower(words[0].text)) {
			w := strings.ToLower(words[0].text)
			words = words[1:]
			return w
		}
		return ""
	}
	p.request = next("header", "requestheader") == "requestheader"
	next("always", "onsuccess")
	word := next("set", "append", "merge", "add", "unset", "replace")
	p.action = actions[word]
	if len(words) == 0 {
		return p, fmt.Errorf("%q names no field", line)
	}
	if word == "" && !strings.HasSuffix(words[0].text, ":") && !strings.Contains(words[0].text, ":") {
		return p, fmt.Errorf("%q is no operation: write Name: value, or set Name value", line)
	}
	name, rest, found := strings.Cut(words[0].text, ":")
	p.name = name
	switch {
	case found && word == "":
		// An old line: all behind the colon is the value, as it stands.
		_, value, _ := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = strings.ReplaceAll(value[1:len(value)-1], `\"`, `"`)
		}
		words = []token{{text: value, quoted: true}}
	case found && rest != "":
		return p, fmt.Errorf("%q is no name of a field", words[0].text)
	default:
		words = words[1:]
	}
	if !isToken(p.name) {
		return p, fmt.Errorf("%q is no name of a field", p.name)
	}
	if Framing(p.name) {
		return p, fmt.Errorf("%s frames the message and cannot be changed", p.name)
	}
	return p, p.finish(words, line)
}

// finish reads value and condition.
func (p *op) finish(words []token, line string) error {
	var value []string
	for _, w := range words {
		lower := strings.ToLower(w.text)
		cond, isEnv := strings.CutPrefix(lower, "env=")
		switch {
		case !w.quoted && isEnv && cond != "":
			p.env, p.not = strings.CutPrefix(w.text[len("env="):], "!")
			if p.env == "" {
				return fmt.Errorf("%q names no variable", w.text)
			}
		case !w.quoted && lower == "early":
		case !w.quoted && strings.HasPrefix(lower, "expr="):
			return fmt.Errorf("%q: expressions are not honoured", w.text)
		default:
			value = append(value, w.text)
		}
	}
	text := strings.Join(value, " ")
	switch {
	case p.action == Unset && text != "":
		return fmt.Errorf("unset %s takes no value", p.name)
	case p.action != Unset && len(value) == 0:
		return fmt.Errorf("%q has no value", line)
	}
	var err error
	p.value, err = parseTemplate(text)
	return err
}

// token is one word of a line.
type token struct {
	text   string
	quoted bool
}

// split cuts a line into words; a quoted one may hold blanks, and \" a quote.
func split(line string) (words []token, err error) {
	for line = strings.TrimLeft(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t") {
		if line[0] != '"' && line[0] != '\'' {
			end := strings.IndexAny(line, " \t")
			if end < 0 {
				end = len(line)
			}
			words = append(words, token{text: line[:end]})
			line = line[end:]
			continue
		}
		var b strings.Builder
		quote, i := line[0], 1
		for ; i < len(line) && line[i] != quote; i++ {
			if line[i] == '\\' && i+1 < len(line) && (line[i+1] == quote || line[i+1] == '\\') {
				i++
			}
			b.WriteByte(line[i])
		}
		if i == len(line) {
			return nil, fmt.Errorf("%q: a quote is not closed", line)
		}
		words = append(words, token{b.String(), true})
		line = line[i+1:]
	}
	return words, nil
}

// Framing reports the fields by which a message ends: the wire writes them.
func Framing(name string) bool {
	for _, f := range [...]string{"Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Trailer", "Upgrade", "Host", "TE"} {
		if exchange.EqualName(name, f) {
			return true
		}
	}
	return false
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// Join returns outer's operations with those of inner behind them, which may say
// that it inherits none.
func Join(outer, inner *Ops) *Ops {
	switch {
	case inner == nil:
		return outer
	case outer == nil || inner.Only:
		return inner
	}
	return &Ops{list: append(slices.Clone(outer.list), inner.list...), Only: outer.Only}
}

// Answers reports whether some operation is about answers.
func (o *Ops) Answers() bool { return o.any(func(p op) bool { return !p.request }) }

// Requests reports whether some operation is about requests.
func (o *Ops) Requests() bool { return o.any(func(p op) bool { return p.request }) }

// Gives reports whether an operation may give an answer the field name.
func (o *Ops) Gives(name string) bool {
	return o.any(func(p op) bool { return !p.request && p.action != Unset && exchange.EqualName(p.name, name) })
}

func (o *Ops) any(is func(op) bool) bool { return o != nil && slices.ContainsFunc(o.list, is) }

// Request changes the request as the application sees it.
func (o *Ops) Request(x *exchange.Exchange) {
	if o != nil {
		o.apply(x, &x.Req.Fields, true)
	}
}

// Answer changes the answer.
func (o *Ops) Answer(x *exchange.Exchange) {
	if o != nil {
		o.apply(x, &x.Resp.Fields, false)
	}
}

func (o *Ops) apply(x *exchange.Exchange, f *exchange.Fields, request bool) {
	for i := range o.list {
		p := &o.list[i]
		if p.request != request || p.env != "" && isSet(x, p.env) == p.not {
			continue
		}
		value := ""
		if p.action != Unset {
			value = p.value.expand(x)
		}
		p.action.Do(f, p.name, value)
	}
}

// Do changes the field called name. It is not for actions that edit.
func (a Action) Do(f *exchange.Fields, name, value string) {
	switch old, has := last(f, name); {
	case a == Unset:
		f.Del(name)
	case a == Set:
		f.Set(name, value)
	case a == Add || !has:
		f.Add(name, value)
	case a == SetIfEmpty, a == Merge && f.HasToken(name, value):
	default:
		join(f, name, old, value)
	}
}

// Replace edits each line of the field called name: its first match of find, or all.
// with is as in regexp.Regexp.Expand; clean takes out of a line what cannot stand in one.
func Replace(f *exchange.Fields, name string, find *regexp.Regexp, with string, all bool, clean func(string) string) {
	var values []string
	for v := range f.Values(name) {
		switch at := find.FindStringSubmatchIndex(v); {
		case at == nil:
		case all:
			v = find.ReplaceAllString(v, with)
		default:
			v = v[:at[0]] + string(find.ExpandString(nil, with, v, at)) + v[at[1]:]
		}
		values = append(values, clean(v))
	}
	if len(values) == 0 {
		return
	}
	f.Del(name)
	for _, v := range values {
		f.Add(name, v)
	}
}

func last(f *exchange.Fields, name string) (value string, has bool) {
	for v := range f.Values(name) {
		value, has = v, true
	}
	return value, has
}

// join appends value to the field, whose lines become one.
func join(f *exchange.Fields, name, old, value string) {
	all := slices.Collect(f.Values(name))
	if len(all) == 1 {
		f.Set(name, old+", "+value)
		return
	}
	f.Set(name, strings.Join(append(all, value), ", "))
}

func isSet(x *exchange.Exchange, name string) bool {
	return slices.ContainsFunc(x.Env, func(e exchange.Field) bool { return e.Name == name })
}

// template is a value: text and what is put between.
type template struct {
	text  []string // one more than vars
	vars  []string // "e:NAME", "t", "D"
	fixed string   // the value where nothing is to be put in
}

func parseTemplate(s string) (template, error) {
	t, b := template{}, strings.Builder{}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return t, fmt.Errorf("control byte in a value")
		}
		if s[i] != '%' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		rest, name := s[i+1:], ""
		switch {
		case rest[0] == '%':
			b.WriteByte('%')
			i++
			continue
		case rest[0] == 't' || rest[0] == 'D':
			name = rest[:1]
			i++
		case rest[0] == '{':
			end := strings.IndexByte(rest, '}')
			if end < 0 || end+1 == len(rest) || rest[end+1] != 'e' {
				return t, fmt.Errorf("%q: only %%{NAME}e, %%t and %%D are known", s[i:])
			}
			name = "e:" + rest[1:end]
			i += end + 2
		default: // as in "100%": text
			b.WriteByte('%')
			continue
		}
		t.text, t.vars = append(t.text, b.String()), append(t.vars, name)
		b.Reset()
	}
	t.text = append(t.text, b.String())
	if len(t.vars) == 0 {
		t.fixed = t.text[0]
	}
	return t, nil
}

// expand puts the values in. A variable may come from a request: what cannot stand
// in a field becomes a blank, so that no field can be added by it.
func (t *template) expand(x *exchange.Exchange) string {
	if len(t.vars) == 0 {
		return t.fixed
	}
	var b []byte
	for i, name := range t.vars {
		b = append(b, t.text[i]...)
		switch name {
		case "t":
			b = strconv.AppendInt(append(b, "t="...), x.Began.UnixMicro(), 10)
		case "D":
			b = strconv.AppendInt(append(b, "D="...), x.Recent().Sub(x.Began).Microseconds(), 10)
		default:
			for _, e := range x.Env {
				if e.Name == name[len("e:"):] {
					b = append(b, e.Value...)
				}
			}
		}
		if len(b) > maxValue {
			b = b[:maxValue]
			break
		}
	}
	if len(b) < maxValue {
		b = append(b, t.text[len(t.vars)]...)
	}
	for i, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}
