package forward

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"httpjet/exchange"
)

// PathOptions say how the path of a request changes on its way to the upstream
// (R-CTX-7): first Strip, then one substitution.
type PathOptions struct {
	Strip string // prefix taken off at a segment boundary; "": none

	Pattern     *regexp.Regexp // nil: no substitution
	Replacement string         // $1 and ${name} are groups of Pattern, ${name} also of URI
	URI         *regexp.Regexp // of the context, matched with Req.Path; may be nil
}

// Path is a change of paths. It works on the escaped path, of which it decodes
// nothing that could end a request line, and checks its result: what it makes
// goes on as it is, never encoded a second time (G51, G52).
type Path struct {
	strip   []string // segments
	pattern *regexp.Regexp
	parts   []part // of the replacement
	uri     *regexp.Regexp
	usesURI bool
}

// part is a piece of a replacement.
type part struct {
	text  string // where no group is meant
	group int    // of the pattern, or of uri; 0: text
	ofURI bool
}

// NewPath reads the replacement. Its error says what cannot be meant.
func NewPath(o PathOptions) (*Path, error) {
	p := &Path{pattern: o.Pattern, uri: o.URI}
	for s := range strings.SplitSeq(o.Strip, "/") {
		if s != "" {
			p.strip = append(p.strip, s)
		}
	}
	if o.Pattern == nil {
		return p, nil
	}
	for rest := o.Replacement; rest != ""; {
		var next part
		var err error
		if next, rest, err = p.part(rest); err != nil {
			return nil, err
		}
		p.usesURI = p.usesURI || next.ofURI
		p.parts = append(p.parts, next)
	}
	if len(p.parts) == 0 || p.parts[0].ofURI || p.parts[0].group == 0 && p.parts[0].text[0] != '/' {
		return nil, errors.New("replacement cannot start with /")
	}
	return p, nil
}

var reference = regexp.MustCompile(`^\$(?:(\$)|(\d+)|([A-Za-z_]\w*)|\{(\w+)\})`)

// part takes one piece off a replacement.
func (p *Path) part(s string) (next part, rest string, err error) {
	if s[0] != '$' {
		n := strings.IndexByte(s, '$')
		if n < 0 {
			n = len(s)
		}
		return part{text: s[:n]}, s[n:], checkText(s[:n])
	}
	m := reference.FindStringSubmatch(s)
	if m == nil {
		return part{}, "", errors.New("a $ in the replacement begins $1, ${name} or $$")
	}
	name, rest := m[2]+m[3]+m[4], s[len(m[0]):]
	if name == "" {
		return part{text: "$"}, rest, nil
	}
	next.group = p.pattern.SubexpIndex(name)
	if n, err := strconv.Atoi(name); next.group < 0 && err == nil && 0 < n && n <= p.pattern.NumSubexp() {
		next.group = n
	}
	if next.group < 0 && p.uri != nil {
		next.group, next.ofURI = p.uri.SubexpIndex(name), true
	}
	if next.group < 0 {
		return part{}, "", fmt.Errorf("neither pattern nor uri has a group %s", name)
	}
	return next, rest, nil
}

// checkText accepts what may stand in an escaped path.
func checkText(s string) error {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '?' || c == '#':
			return fmt.Errorf("%q in the replacement: the query stays as it is", c)
		case c <= ' ' || c >= 0x7f || c == '\\':
			return fmt.Errorf("%q in the replacement has to be escaped", c)
		case c == '%' && (i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0):
			return errors.New("a % in the replacement begins an escape")
		}
	}
	return nil
}

// Target is the target of the request to the upstream: that of the function of
// the same name, changed by o.Path. The query stays as it came. A result that
// may not be sent is 502 bad_rewrite.
func (o *Options) Target(x *exchange.Exchange) (string, error) {
	target, err := Target(x)
	if err != nil || o.Path == nil || target == "*" {
		return target, err
	}
	path, query, hasQuery := strings.Cut(target, "?")
	if path, err = o.Path.change(path, x.Req.Path); err != nil {
		return "", err
	}
	if hasQuery {
		path += "?" + query
	}
	return path, nil
}

// change is the new path for one that is safe to send; matched is what the
// context has matched.
func (p *Path) change(path, matched string) (string, error) {
	path = p.stripped(path)
	if p.pattern == nil {
		return path, nil
	}
	plain := normalised(path)
	m := p.pattern.FindStringSubmatchIndex(plain)
	if m == nil {
		return path, nil
	}
	var uri []string
	if p.usesURI {
		if uri = p.uri.FindStringSubmatch(matched); uri == nil {
			panic("BUG: forward: a context won a path that its uri does not match")
		}
	}
	b := append(make([]byte, 0, len(plain)+64), plain[:m[0]]...)
	for _, t := range p.parts {
		switch {
		case t.ofURI:
			b = append(b, encode(uri[t.group], "")...) // it is decoded: its bytes are not syntax
		case t.group == 0:
			b = append(b, t.text...)
		case m[2*t.group] >= 0:
			b = append(b, plain[m[2*t.group]:m[2*t.group+1]]...)
		}
	}
	result := string(append(b, plain[m[1]:]...))
	if why := unsafeTarget(result); why != "" { // a group may have cut an escape or joined dots
		return "", exchange.Fail(502, "bad_rewrite", "%s in the rewritten path %q", why, result)
	}
	return "/" + strings.TrimLeft(result, "/"), nil
}

// stripped takes the prefix off. A segment is compared decoded and separators may
// be repeated or escaped, as where the context matched: how a client spells the
// prefix does not decide whether it goes.
func (p *Path) stripped(path string) string {
	if len(p.strip) == 0 {
		return path
	}
	rest := path
	for _, want := range p.strip {
		rest = skipSlashes(rest)
		for i := range len(want) {
			c, n := decode(rest)
			if n == 0 || c != want[i] {
				return path
			}
			rest = rest[n:]
		}
		if c, n := decode(rest); n > 0 && c != '/' {
			return path
		}
	}
	return "/" + skipSlashes(rest)
}

func skipSlashes(s string) string {
	for {
		c, n := decode(s)
		if n == 0 || c != '/' {
			return s
		}
		s = s[n:]
	}
}

// decode returns the first byte that s stands for and how long it is written.
func decode(s string) (c byte, n int) {
	switch {
	case s == "":
		return 0, 0
	case s[0] == '%' && len(s) > 2:
		return byte(unhex(s[1])<<4 | unhex(s[2])), 3
	}
	return s[0], 1
}

// normalised is an escaped path in one of its equal spellings (RFC 3986
// §6.2.2): no escapes of unreserved characters, upper case digits in the others,
// no empty segments, so that a pattern finds what it is meant to find.
func normalised(path string) string {
	if !strings.Contains(path, "%") && !strings.Contains(path, "//") {
		return path
	}
	b := make([]byte, 0, len(path))
	for rest := path; rest != ""; {
		c, n := decode(rest)
		switch {
		case n == 3 && unreserved(c):
			b = append(b, c)
		case n == 3:
			b = append(b, strings.ToUpper(rest[:3])...)
		case c != '/' || len(b) == 0 || b[len(b)-1] != '/':
			b = append(b, c)
		}
		rest = rest[n:]
	}
	return string(b)
}

func unreserved(c byte) bool {
	return pchar(c) && !strings.Contains("!$&'()*+,;=:@", string(rune(c)))
}
