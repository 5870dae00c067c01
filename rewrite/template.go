package rewrite

import (
	"fmt"
	"strings"
)

// partKind is what a part of a template stands for.
type partKind uint8

const (
	literal partKind = iota
	ruleGroup
	condGroup
	value
	lookUp
)

// part is a piece of a template.
type part struct {
	kind partKind
	text string // of a literal; of a value, the name behind HTTP: or ENV:
	n    int    // number of a group
	v    variable
	m    *Map // of a look-up
	key  template
	miss template // what a look-up gives that finds nothing
}

// template is a text with groups, variables and look-ups in it.
type template []part

// templateReader reads a template.
type templateReader struct {
	s     string
	i     int
	maps  map[string]*Map
	depth int

	// escapes: a percent sign and two hex digits are a literal, not a group. So it
	// is where a rule has no condition whose group could be meant.
	escapes bool
	// link: "\?" becomes %3F, as in substitutions.
	link  bool
	warns []string // variables that are not known
}

// readTemplate reads all of s.
func (c *compiler) readTemplate(s string, escapes, link bool) (template, error) {
	r := &templateReader{s: s, maps: c.maps, escapes: escapes, link: link}
	t, err := r.read("")
	c.unknown = append(c.unknown, r.warns...)
	return t, err
}

// read reads up to one of the bytes of until, or to the end.
func (r *templateReader) read(until string) (template, error) {
	var t template
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			t = append(t, part{kind: literal, text: text.String()})
			text.Reset()
		}
	}
	for r.i < len(r.s) && strings.IndexByte(until, r.s[r.i]) < 0 {
		c, next := r.s[r.i], byte(0)
		if r.i+1 < len(r.s) {
			next = r.s[r.i+1]
		}
		switch {
		case c == '\\' && next != 0:
			if r.i += 2; next == '?' && r.link {
				text.WriteString("%3F")
			} else {
				text.WriteByte(next)
			}
		case c == '%' && r.escapes && isHex(next) && r.i+2 < len(r.s) && isHex(r.s[r.i+2]):
			text.WriteString(r.s[r.i : r.i+3])
			r.i += 3
		case (c == '$' || c == '%') && '0' <= next && next <= '9':
			flush()
			kind := ruleGroup
			if c == '%' {
				kind = condGroup
			}
			t = append(t, part{kind: kind, n: int(next - '0')})
			r.i += 2
		case (c == '$' || c == '%') && next == '{':
			flush()
			r.i += 2
			p, err := r.braces(c == '$')
			if err != nil {
				return nil, err
			}
			t = append(t, p)
		default:
			text.WriteByte(c)
			r.i++
		}
	}
	flush()
	return t, nil
}

// braces reads what stands behind "%{" or "${".
func (r *templateReader) braces(isMap bool) (part, error) {
	if r.depth++; r.depth > 8 {
		return part{}, fmt.Errorf("braces are nested too deeply")
	}
	defer func() { r.depth-- }()
	if !isMap {
		name, _, ok := strings.Cut(r.s[r.i:], "}")
		if !ok {
			return part{}, fmt.Errorf("%%{ without its }")
		}
		r.i += len(name) + 1
		return r.variable(name), nil
	}
	name, _, ok := strings.Cut(r.s[r.i:], ":")
	if !ok || strings.ContainsAny(name, "{}$% ") {
		return part{}, fmt.Errorf("${ without the name of a map and a colon")
	}
	m := r.maps[name]
	if m == nil {
		return part{}, fmt.Errorf("map %q is not declared", name)
	}
	r.i += len(name) + 1
	p := part{kind: lookUp, m: m, text: name}
	var err error
	if p.key, err = r.read("|}"); err != nil {
		return part{}, err
	}
	if r.i < len(r.s) && r.s[r.i] == '|' {
		r.i++
		if p.miss, err = r.read("}"); err != nil {
			return part{}, err
		}
	}
	if r.i >= len(r.s) {
		return part{}, fmt.Errorf("${ without its }")
	}
	r.i++
	return p, nil
}

// variable knows a name, or warns and stands for nothing.
func (r *templateReader) variable(name string) part {
	v, arg, ok := parseVariable(name)
	if !ok {
		r.warns = append(r.warns, name)
		return part{kind: literal}
	}
	return part{kind: value, v: v, text: arg}
}

// uses reports whether t has a part of the kind, also inside of look-ups.
func (t template) uses(kind partKind) bool {
	for i := range t {
		if p := &t[i]; p.kind == kind || p.key.uses(kind) || p.miss.uses(kind) {
			return true
		}
	}
	return false
}

// decoded reports whether what t gives is decoded text: a percent sign in it stands
// for itself. What clients send in fields and queries is encoded as they like.
func (t template) decoded() bool {
	for i := range t {
		switch p := &t[i]; p.kind {
		case value:
			if !p.v.decoded() {
				return false
			}
		case condGroup, lookUp:
			return false
		}
	}
	return true
}

// text returns t without copying where it is one value.
func (r *run) text(t template) string {
	if len(t) == 0 {
		return ""
	}
	if len(t) == 1 {
		return r.part(&t[0])
	}
	r.buf = r.buf[:0]
	var b []byte
	if t.uses(lookUp) {
		b = nil // a look-up needs the buffer for its key
	} else {
		b = r.buf
	}
	for i := range t {
		if b = append(b, r.part(&t[i])...); len(b) > maxResult {
			r.tooLong = true
			return ""
		}
	}
	if cap(b) > cap(r.buf) && !t.uses(lookUp) {
		r.buf = b
	}
	return string(b)
}

// part returns the value of one part.
func (r *run) part(p *part) string {
	switch p.kind {
	case ruleGroup:
		return r.group[p.n]
	case condGroup:
		return r.condGroup[p.n]
	case value:
		return r.variable(p.v, p.text)
	case lookUp:
		key := r.text(p.key)
		if s, ok := p.m.find(key, r.host); ok {
			return s
		}
		return r.text(p.miss)
	}
	return p.text
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
