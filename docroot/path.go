package docroot

import (
	"strings"
	"unicode/utf8"

	"httpjet/exchange"
)

// CleanPath splits a request target in origin form into the one path that every
// rule reads (R-PIPE-2) and the raw query without '?'. The path is
// percent-decoded once; after that its ".", ".." and empty segments are gone. A
// trailing slash is kept, and a path that ends in a dot segment gets one (RFC
// 3986 §5.2.4). A backslash is an ordinary byte. "/x?" is "/x" (R-PIPE-3).
//
// The error is a 400: no leading slash, a bad escape, a NUL, invalid UTF-8, or
// more ".." than segments before them. CleanPath does not allocate when nothing
// is to be decoded or removed.
func CleanPath(target string) (path, query string, err error) {
	path, query, _ = strings.Cut(target, "?")
	if path == "" || path[0] != '/' {
		return "", "", badPath("path does not begin with a slash")
	}
	if plain(path) {
		return path, query, nil
	}
	if strings.IndexByte(path, '%') >= 0 {
		if path, err = unescape(path); err != nil {
			return "", "", err
		}
	}
	switch {
	case strings.IndexByte(path, 0) >= 0:
		return "", "", badPath("NUL in the path")
	case !utf8.ValidString(path):
		return "", "", badPath("path is not valid UTF-8")
	}
	if !isClean(path) {
		if path, err = collapse(path); err != nil {
			return "", "", err
		}
	}
	return path, query, nil
}

// plain reports whether nothing of path, which begins with '/', is to be decoded,
// removed or refused. It sees most such paths, and says no when in doubt: no segment
// may begin with a dot.
func plain(path string) bool {
	before := byte(0)
	for i := range len(path) {
		c := path[i]
		if c == '%' || c == 0 || c >= utf8.RuneSelf || before == '/' && (c == '/' || c == '.') {
			return false
		}
		before = c
	}
	return true
}

// Named reports whether target, which CleanPath made path of, names name by slashes
// that are plain: name is the first part of path, or path with the name of an index
// file behind it. A slash that was encoded is data to whoever wrote it; one that ends
// or divides the name of a script would be a border to us alone.
func Named(target, path, name string) bool {
	raw, _, _ := strings.Cut(target, "?")
	if i := strings.IndexByte(raw, '%'); i < 0 || !hasEncodedSlash(raw[i:]) {
		return true
	}
	// As text "%2F", which no name has, encoded slashes divide nothing.
	kept, _, err := CleanPath(strings.NewReplacer("%2F", "%252F", "%2f", "%252F").Replace(raw))
	if err != nil {
		return false
	}
	if !strings.HasPrefix(path, name) {
		return kept == path
	}
	rest, ok := strings.CutPrefix(kept, name)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(name, "/"))
}

func hasEncodedSlash(s string) bool { return strings.Contains(s, "%2F") || strings.Contains(s, "%2f") }

func badPath(why string) error { return exchange.Fail(400, "bad_request", "%s", why) }

// unescape decodes every %XX once. A slash that was encoded is a slash
// afterwards, so dot segments cannot hide behind it.
func unescape(s string) (string, error) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return "", badPath("bad percent escape in the path")
		}
		b = append(b, unhex(s[i+1])<<4|unhex(s[i+2]))
		i += 2
	}
	return string(b), nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}

// isClean reports whether p, which begins with '/', has no empty, "." or ".."
// segment.
func isClean(p string) bool {
	for i := 0; i < len(p); {
		// p[i] is a slash.
		end := i + 1
		for end < len(p) && p[end] != '/' {
			end++
		}
		seg := p[i+1 : end]
		if seg == "." || seg == ".." || seg == "" && end < len(p) {
			return false
		}
		i = end
	}
	return true
}

func collapse(p string) (string, error) {
	b := make([]byte, 1, len(p))
	b[0] = '/'
	// b always ends in a slash here: "/" plus whole segments with their slash.
	for rest := p[1:]; ; {
		seg, tail, more := strings.Cut(rest, "/")
		switch seg {
		case "", ".":
		case "..":
			if len(b) == 1 {
				return "", badPath("path climbs above the root")
			}
			b = b[:lastSlash(b[:len(b)-1])+1]
		default:
			b = append(b, seg...)
			if !more {
				return string(b), nil
			}
			b = append(b, '/')
		}
		if !more {
			return string(b), nil
		}
		rest = tail
	}
}

func lastSlash(b []byte) int {
	i := len(b) - 1
	for b[i] != '/' {
		i--
	}
	return i
}

// Encode writes a decoded path as a URI path that cannot leave its origin when
// it is sent as a Location: runs of slashes become one, and every byte that is
// not a plain path character is escaped, the backslash among them, which
// browsers read as a slash.
func Encode(path string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(path)+16)
	for i := range len(path) {
		c := path[i]
		switch {
		case c == '/' && len(b) > 0 && b[len(b)-1] == '/':
		case isPathByte(c):
			b = append(b, c)
		default:
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}

// isPathByte reports the characters of RFC 3986 §3.3 that need no escape.
func isPathByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("/-._~!$&'()*+,;=:@", c) >= 0
}

// encodeQuery escapes what may not stand in a header field or a URI; a raw query
// is otherwise left as the client sent it.
func encodeQuery(q string) string {
	const hex = "0123456789ABCDEF"
	var b []byte
	for i := range len(q) {
		c := q[i]
		if c > ' ' && c < 0x7f && c != '\\' && c != '#' {
			if b != nil {
				b = append(b, c)
			}
			continue
		}
		if b == nil {
			b = append(make([]byte, 0, len(q)+16), q[:i]...)
		}
		b = append(b, '%', hex[c>>4], hex[c&15])
	}
	if b == nil {
		return q
	}
	return string(b)
}

// Suffix returns what stands behind the last dot of the last segment of name, in
// ASCII lower case; "" if there is no dot. Only ASCII is folded: other letters
// may change their length in lower case.
func Suffix(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return ""
	}
	return lower(name[i+1:])
}

func lower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
