package forward

import (
	"strings"

	"httpjet/docroot"
	"httpjet/exchange"
)

// Target returns the request target for the upstream (R-RW-7). If no rewrite has
// changed x.Req.Path or x.Req.Query, it is the client's own bytes, so that %2F,
// %2E, case and ';' survive; else what rules have made, or the path, encoded once. It is 400 if
// what was matched and what the upstream makes of it could differ.
func Target(x *exchange.Exchange) (string, error) {
	target := x.Req.Sent()
	if x.Req.Rewritten == "" && rewritten(&x.Req) {
		target = encode(x.Req.Path, x.Req.Query)
	}
	if why := unsafeTarget(target); why != "" {
		return "", exchange.Fail(400, "bad_request", "%s in request target", why)
	}
	return target, nil
}

// rewritten reports whether the path and query that rules matched are other ones
// than the target's. A request that no table has seen has no path.
func rewritten(r *exchange.Request) bool {
	if r.Path == "" || r.Target == "*" {
		return false
	}
	if path, query, _ := strings.Cut(r.Target, "?"); path == r.Path && query == r.Query {
		return false // nothing to decode or clean, as mostly
	}
	path, query, err := docroot.CleanPath(r.Target)
	return err == nil && (path != r.Path || query != r.Query)
}

// encode makes a target of a decoded path and a raw query. In the path, what is
// no pchar of RFC 3986 §3.3 is escaped; in the query, only what would end it.
func encode(path, query string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c == '/' || pchar(c) {
			b.WriteByte(c)
		} else {
			escape(&b, c)
		}
	}
	if query == "" {
		return b.String()
	}
	b.WriteByte('?')
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c == 0x7f || c == '#' {
			escape(&b, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func pchar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0
}

func escape(b *strings.Builder, c byte) {
	const hex = "0123456789ABCDEF"
	b.WriteByte('%')
	b.WriteByte(hex[c>>4])
	b.WriteByte(hex[c&15])
}

// unsafeTarget says what forbids target, "" for nothing. It decodes the path
// once, as the matching did, and looks for dot segments between anything that
// some server takes for a separator.
func unsafeTarget(target string) string {
	if target == "*" {
		return ""
	}
	if target == "" || target[0] != '/' {
		return "no origin form"
	}
	dots, other := 0, false // the segment so far: its dots, and anything else
	i := 0
	for ; i < len(target) && target[i] != '?'; i++ {
		c := target[i]
		if c == '%' {
			if i+2 >= len(target) || unhex(target[i+1]) < 0 || unhex(target[i+2]) < 0 {
				return "invalid escape"
			}
			c = byte(unhex(target[i+1])<<4 | unhex(target[i+2]))
			i += 2
			if c == 0 {
				return "NUL"
			}
		} else if c <= ' ' || c == 0x7f {
			return "control byte"
		}
		switch c {
		case '/', '\\', ';':
			if !other && (dots == 1 || dots == 2) {
				return "dot segment"
			}
			dots, other = 0, false
		case '.':
			dots++
		default:
			other = true
		}
	}
	if !other && (dots == 1 || dots == 2) {
		return "dot segment"
	}
	for ; i < len(target); i++ { // the query goes as it came, on one request line
		if target[i] <= ' ' || target[i] == 0x7f {
			return "control byte"
		}
	}
	return ""
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
