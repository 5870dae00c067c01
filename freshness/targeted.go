package freshness

import (
	"strings"
	"time"

	"httpjet/exchange"
)

// parseTargeted reads a targeted Cache-Control (RFC 9213 §2.1): a dictionary of RFC
// 9651. One that is empty, is none, or gives a directive a value of another type is
// ignored as a whole: ok is false.
func parseTargeted(f *exchange.Fields, name string) (d Directives, ok bool) {
	var joined string
	for v := range f.Values(name) {
		if joined != "" {
			joined += ","
		}
		joined += v
	}
	p := dictionary{rest: strings.Trim(joined, " ")}
	if p.rest == "" {
		return Directives{}, false
	}
	for {
		if !p.member(&d) {
			return Directives{}, false
		}
		p.rest = trimLeft(p.rest)
		if p.rest == "" {
			return d, true
		}
		if p.rest[0] != ',' {
			return Directives{}, false
		}
		if p.rest = trimLeft(p.rest[1:]); p.rest == "" {
			return Directives{}, false // a comma and nothing behind it
		}
	}
}

// dictionary is what is left of one.
type dictionary struct{ rest string }

// kind is the type of a bare item that matters here.
type kind uint8

const (
	isInteger kind = iota
	isTrue
	isFalse
	isOther
)

// member takes one member into d, the last of each name.
func (p *dictionary) member(d *Directives) bool {
	key := p.key()
	if key == "" {
		return false
	}
	k, n := isTrue, int64(0)
	if strings.HasPrefix(p.rest, "=") {
		p.rest = p.rest[1:]
		var ok bool
		if k, n, ok = p.value(); !ok {
			return false
		}
	}
	if !p.parameters() {
		return false
	}
	for i := range known {
		if known[i].name == key {
			return d.targeted(known[i].set, known[i].arg, k, n)
		}
	}
	return true
}

// targeted takes a directive with a value; false: its type is wrong.
func (d *Directives) targeted(s Set, arg bool, k kind, n int64) bool {
	d.Has &^= s
	switch {
	case s == MaxStale || s == MinFresh || s == OnlyIfCached:
		return true // of requests
	case arg && (k != isInteger || n < 0):
		return false
	case arg:
		d.Has |= s
		d.least(s, false, time.Duration(min(n, maxSeconds))*time.Second)
		return true
	case k == isFalse:
		return true
	case k != isTrue && s != NoCache && s != Private:
		return false
	}
	d.Has |= s
	return true
}

// key takes a key: lower case, digits, _-.*
func (p *dictionary) key() string {
	i := 0
	for i < len(p.rest) {
		c := p.rest[i]
		if 'a' <= c && c <= 'z' || c == '*' || i > 0 && ('0' <= c && c <= '9' || c == '_' || c == '-' || c == '.') {
			i++
			continue
		}
		break
	}
	key := p.rest[:i]
	p.rest = p.rest[i:]
	return key
}

// value takes an item, or a list of items between parentheses.
func (p *dictionary) value() (k kind, n int64, ok bool) {
	if !strings.HasPrefix(p.rest, "(") {
		return p.item()
	}
	p.rest = p.rest[1:]
	for {
		p.rest = strings.TrimLeft(p.rest, " ")
		if strings.HasPrefix(p.rest, ")") {
			p.rest = p.rest[1:]
			return isOther, 0, true
		}
		if _, _, ok := p.item(); !ok || !p.parameters() || !strings.HasPrefix(p.rest, " ") && !strings.HasPrefix(p.rest, ")") {
			return 0, 0, false
		}
	}
}

// item takes a bare item.
func (p *dictionary) item() (k kind, n int64, ok bool) {
	if p.rest == "" {
		return 0, 0, false
	}
	switch c := p.rest[0]; {
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case c == '"':
		return isOther, 0, p.quoted('"')
	case c == ':':
		return isOther, 0, p.quoted(':')
	case c == '?':
		if len(p.rest) < 2 || p.rest[1] != '0' && p.rest[1] != '1' {
			return 0, 0, false
		}
		k = isFalse
		if p.rest[1] == '1' {
			k = isTrue
		}
		p.rest = p.rest[2:]
		return k, 0, true
	case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '*':
		i := 1
		for i < len(p.rest) && (isToken(p.rest[i:i+1]) || p.rest[i] == ':' || p.rest[i] == '/') {
			i++
		}
		p.rest = p.rest[i:]
		return isOther, 0, true
	}
	return 0, 0, false
}

// number takes an integer of at most 15 digits, or a decimal.
func (p *dictionary) number() (k kind, n int64, ok bool) {
	v, minus := strings.CutPrefix(p.rest, "-")
	i := 0
	for i < len(v) && '0' <= v[i] && v[i] <= '9' {
		if i < 15 {
			n = n*10 + int64(v[i]-'0')
		}
		i++
	}
	if i == 0 || i > 15 {
		return 0, 0, false
	}
	if minus {
		n = -n
	}
	if i == len(v) || v[i] != '.' {
		p.rest = v[i:]
		return isInteger, n, true
	}
	j := i + 1
	for j < len(v) && '0' <= v[j] && v[j] <= '9' {
		j++
	}
	p.rest = v[j:]
	return isOther, 0, i <= 12 && j > i+1 && j <= i+4
}

// quoted takes a string or a byte sequence; only the first has escapes.
func (p *dictionary) quoted(end byte) bool {
	for i := 1; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == end:
			p.rest = p.rest[i+1:]
			return true
		case c == '\\' && end == '"':
			if i++; i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return false
			}
		case c < ' ' || c > '~':
			return false
		}
	}
	return false
}

// parameters takes those of an item; they mean nothing here.
func (p *dictionary) parameters() bool {
	for strings.HasPrefix(p.rest, ";") {
		p.rest = strings.TrimLeft(p.rest[1:], " ")
		if p.key() == "" {
			return false
		}
		if strings.HasPrefix(p.rest, "=") {
			p.rest = p.rest[1:]
			if _, _, ok := p.item(); !ok {
				return false
			}
		}
	}
	return true
}
