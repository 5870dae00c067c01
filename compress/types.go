package compress

import (
	"fmt"
	"strings"

	"httpjet/exchange"
)

// standard are the types that "default" stands for: text, and what is text under
// another name. What is compressed in itself is not among them.
const standard = "text/*, application/javascript, application/x-javascript, application/json, application/xml, " +
	"application/*+json, application/*+xml, image/svg+xml, application/wasm, application/vnd.ms-fontobject, " +
	"application/x-font-ttf, application/x-font-opentype, application/x-font-truetype, application/x-font, " +
	"font/ttf, font/otf, font/eot, font/opentype, image/bmp, image/x-icon, image/vnd.microsoft.icon"

// Types is a set of media types. It is immutable.
type Types struct {
	exact  map[string]bool // by type and subtype; false: taken out
	groups map[string]bool // by type, for type/*
	suffix map[string]bool // by type and structured suffix, for type/*+suffix
	all    bool
}

// ParseTypes reads a list of types: "default", "type/subtype", "type/*",
// "type/*+suffix", "*/*", and each of them behind "!", which takes it out, whatever
// else names it. Elements that are none of these are returned as errors and left out.
func ParseTypes(list []string) (*Types, []error) {
	t := &Types{exact: map[string]bool{}, groups: map[string]bool{}, suffix: map[string]bool{}}
	var bad []error
	for _, item := range list {
		for e := range strings.FieldsFuncSeq(strings.ToLower(item), func(r rune) bool { return r <= ' ' || r == ',' }) {
			if e == "default" {
				for s := range strings.SplitSeq(standard, ", ") {
					t.add(s, true)
				}
				continue
			}
			name, out := strings.CutPrefix(e, "!")
			if !t.add(name, !out) {
				bad = append(bad, fmt.Errorf("%q is no media type", e))
			}
		}
	}
	return t, bad
}

// add notes a pattern. What was taken out stays out.
func (t *Types) add(pattern string, in bool) bool {
	major, sub, ok := strings.Cut(pattern, "/")
	if !ok || !isToken(major) || sub == "" {
		return false
	}
	into, key := t.exact, pattern
	switch suffix, structured := strings.CutPrefix(sub, "*+"); {
	case major == "*" && sub == "*":
		if in {
			t.all = true
			return true
		}
		into, key = t.groups, "*"
	case major == "*":
		return false
	case sub == "*":
		into, key = t.groups, major
	case structured:
		if !isToken(suffix) {
			return false
		}
		into, key = t.suffix, major+"+"+suffix
	case !isToken(sub):
		return false
	}
	if was, known := into[key]; !known || was {
		into[key] = in
	}
	return true
}

// isToken accepts the characters of a type's name (RFC 6838 §4.2), and "*" alone.
func isToken(s string) bool {
	return s == "*" || s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$&-^_.+", r))
	})
}

// match reports whether a Content-Type is one of t: without its parameters, in any
// case (RFC 9110 §8.3.1).
func (t *Types) match(mediaType string) bool {
	if t == nil {
		return false
	}
	name := base(mediaType)
	for i := range len(name) {
		if c := name[i]; 'A' <= c && c <= 'Z' {
			name = strings.ToLower(name)
			break
		}
	}
	major, sub, ok := strings.Cut(name, "/")
	if !ok || sub == "" {
		return false
	}
	in := t.all
	if no, known := t.groups["*"]; known && !no {
		return false
	}
	if is, known := t.groups[major]; known {
		if !is {
			return false
		}
		in = true
	}
	if i := strings.LastIndexByte(sub, '+'); i >= 0 && len(t.suffix) > 0 {
		var buf [96]byte
		key := append(append(buf[:0], major...), sub[i:]...)
		if is, known := t.suffix[string(key)]; known {
			if !is {
				return false
			}
			in = true
		}
	}
	if is, known := t.exact[name]; known {
		return is
	}
	return in
}

// base is a Content-Type without its parameters.
func base(mediaType string) string {
	name, _, _ := strings.Cut(mediaType, ";")
	return strings.Trim(name, " \t")
}

// isEvents reports whether a Content-Type is that of an event stream (G40).
func isEvents(mediaType string) bool {
	return exchange.EqualName(base(mediaType), "text/event-stream")
}
