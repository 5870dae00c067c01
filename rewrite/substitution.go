package rewrite

import (
	"fmt"
	"strings"
)

// substitution is what a rule makes of a path. Its literals are encoded, so that
// "%2F" in a rule stays what it is; values are encoded as they are put in.
type substitution struct {
	path     template // of a URL, with scheme and authority
	query    template
	hasQuery bool
	url      bool // scheme://...
	escaped  bool // the path has escapes of its own
	// slash: what comes behind the authority starts with a value, which has to
	// start with '/' itself, or the value would extend the host.
	slash bool
}

var schemes = map[string]bool{"ftp": true, "gopher": true, "http": true, "https": true, "ldap": true, "mailto": true, "news": true,
	"nntp": true, "ws": true, "wss": true}

var proxySchemes = map[string]bool{"http": true, "https": true, "ws": true, "wss": true, "h2": true, "h2s": true}

// compileSubstitution reads a substitution. u has its flags and conditions already.
func (c *compiler) compileSubstitution(u *rule, text string) error {
	t, err := c.readTemplate(text, len(u.conds) == 0, true)
	if err != nil {
		return err
	}
	if len(t) > 1 && t[0].kind == value && t[0].v == documentRoot {
		t = t[1:] // where others map paths to files, results are URIs here
	}
	s := &substitution{url: isURL(t)}
	s.split(t, u.qsl)
	s.encode(u.noescape && u.status >= 300 && u.status < 400 || u.noescape && s.url)
	u.sub = s
	return nil
}

// isURL reports whether a template begins with a scheme that LiteSpeed knows, or
// with a variable where one would be. What a client's path holds makes no URL.
func isURL(t template) bool {
	head := ""
	for i := range t {
		p := &t[i]
		if p.kind != literal {
			if p.kind != value {
				return false
			}
			head += "\x00"
			continue
		}
		before, _, ok := strings.Cut(p.text, ":")
		if !ok {
			head += p.text
			continue
		}
		head += before
		if head == "\x00" || strings.Trim(head, "\x00") != head {
			return strings.Contains(p.text, "://")
		}
		head = strings.ToLower(head)
		return schemes[head] && (head == "mailto" || head == "news" || strings.Contains(p.text, "://"))
	}
	return false
}

// split parts a template at its first '?', or its last.
func (s *substitution) split(t template, last bool) {
	at, pos := -1, 0
	for i := range t {
		if t[i].kind != literal {
			continue
		}
		n := strings.IndexByte(t[i].text, '?')
		if last {
			n = strings.LastIndexByte(t[i].text, '?')
		}
		if n >= 0 {
			at, pos = i, n
			if !last {
				break
			}
		}
	}
	if at < 0 {
		s.path = t
		return
	}
	s.hasQuery = true
	s.path = append(template(nil), t[:at]...)
	if before := t[at].text[:pos]; before != "" {
		s.path = append(s.path, part{kind: literal, text: before})
	}
	if after := t[at].text[pos+1:]; after != "" {
		s.query = append(s.query, part{kind: literal, text: after})
	}
	s.query = append(s.query, t[at+1:]...)
}

// encode encodes the literals.
func (s *substitution) encode(raw bool) {
	for i := range s.path {
		if p := &s.path[i]; p.kind == literal {
			s.escaped = s.escaped || strings.IndexByte(p.text, '%') >= 0
			p.text = string(appendEncoded(nil, p.text, inPath|keepEscapes|rawIf(raw)|colonIf(s.url)))
		}
	}
	for i := range s.query {
		if p := &s.query[i]; p.kind == literal {
			p.text = string(appendEncoded(nil, p.text, keepEscapes|rawIf(raw)))
		}
	}
}

// compileTarget reads the target of a rule with [P] into u.target and u.sub (R-P-1).
func (c *compiler) compileTarget(u *rule, text string) error {
	t, err := c.readTemplate(text, len(u.conds) == 0, true)
	if err != nil {
		return err
	}
	target, s := u.target, u.sub
	head := ""
	if len(t) > 0 && t[0].kind == literal {
		head = t[0].text
	}
	if sock, ok := strings.CutPrefix(head, "unix:"); ok {
		name, rest, ok := strings.Cut(sock, "|")
		if !ok || !strings.HasPrefix(name, "/") || c.src.Htaccess {
			return fmt.Errorf("[P] to %q: write unix:/socket|/path, and not in .htaccess", head)
		}
		target.Scheme, target.Authority = "unix", strings.Clone(name)
		if i := strings.Index(rest, "://"); i >= 0 { // unix:/socket|http://name/path, as others write it
			if rest = rest[i+3:]; strings.IndexByte(rest, '/') >= 0 {
				rest = rest[strings.IndexByte(rest, '/'):]
			} else {
				rest = ""
			}
		}
		s.rest(t, rest, u.qsl)
		return nil
	}
	scheme, rest, ok := strings.Cut(head, "://")
	scheme = strings.ToLower(scheme)
	if !ok || !proxySchemes[scheme] {
		if len(t) > 0 && t[0].kind == value && isURL(t) {
			c.dynamic(u, t)
			return nil
		}
		return fmt.Errorf("[P] to %q: the target is no http, https, ws, wss, h2 or h2s URL", text)
	}
	target.Scheme = scheme
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority := rest[:end]
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:] // userinfo goes nowhere
	}
	if authority == "" {
		if len(t) < 2 {
			return fmt.Errorf("[P] to %q: the target has no host", text)
		}
		c.dynamic(u, t)
		return nil
	}
	if strings.ContainsAny(authority, " \t\\#<>\"%") {
		return fmt.Errorf("[P] to %q: the target has no usable host", text)
	}
	target.Authority = strings.Clone(authority)
	s.slash = end == len(rest) && len(t) > 1
	s.rest(t, rest[end:], u.qsl)
	return nil
}

// dynamic makes all of t, with its host, what the rule works out for each request.
func (c *compiler) dynamic(u *rule, t template) {
	u.target.Dynamic = true
	if c.src.Dynamic {
		u.target.AnyHost = c.src.AnyHost
		u.target.Scheme = "" // that of each request counts
		u.sub.split(t, u.qsl)
		u.sub.encode(false)
	}
}

// rest sets path and query of a target, whose first literal has rest behind the
// authority.
func (s *substitution) rest(t template, rest string, last bool) {
	t = append(template(nil), t[1:]...)
	if rest != "" {
		t = append(template{{kind: literal, text: rest}}, t...)
	}
	s.split(t, last)
	s.encode(false)
}

// encoding says how text is put into a URL.
type encoding uint8

const (
	inPath      encoding = 1 << iota // else in a query
	keepEscapes                      // a valid %XX stays
	raw                              // [NE]: only what would break the line is encoded
	component                        // [B]: all but unreserved characters
	plus                             // [B] in a query: a blank is +
	colon                            // of a URL with its scheme
	keepMark                         // UnsafeAllow3F: '?' stays
)

func rawIf(b bool) encoding {
	if b {
		return raw
	}
	return 0
}

func colonIf(b bool) encoding {
	if b {
		return colon
	}
	return 0
}

// appendEncoded appends s to dst. Whatever e says, what is appended has no control
// byte, blank or byte above ASCII in it, so that it never ends a line or a request
// target (RFC 9112 §3.2).
func appendEncoded(dst []byte, s string, e encoding) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c := s[i]
		ok := false
		switch {
		case c <= ' ' || c >= 0x7f:
		case c == '%':
			ok = e&raw != 0 || e&keepEscapes != 0 && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2])
		case unreserved(c):
			ok = true
		case e&component != 0:
		case e&raw != 0:
			ok = c != '"' && c != '<' && c != '>' && c != '\\' && (c != '?' || e&keepMark != 0 || e&inPath == 0)
		case e&inPath != 0:
			ok = strings.IndexByte("/!$&'()*+,;=:@", c) >= 0 || c == '?' && e&keepMark != 0 ||
				e&colon != 0 && (c == '[' || c == ']')
		default: // in a query: RFC 3986 §3.4, and what clients send there anyway
			ok = c != '#' && c != '"' && c != '<' && c != '>'
		}
		switch {
		case ok:
			dst = append(dst, c)
		case c == ' ' && e&plus != 0:
			dst = append(dst, '+')
		default:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// decode undoes the escapes of s.
func decode(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			b = append(b, nibble(s[i+1])<<4|nibble(s[i+2]))
			i += 2
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

func nibble(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}
