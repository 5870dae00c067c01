package pagecache

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
	"strings"

	"httpjet/exchange"
)

// varyCookie is the cookie by which LiteSpeed tells variants apart everywhere.
const varyCookie = "_lscache_vary"

// appendKey adds the key of what x asks for (R-CACHE-3), without its owner. Parts end in
// a NUL, which none of them holds.
func appendKey(b []byte, site, scheme, host, target string, mod *KeyMod) []byte {
	b = append(append(b, site...), 0)
	b = append(append(b, scheme...), 0)
	b = append(exchange.AppendLower(b, host), 0)
	path, query, _ := strings.Cut(target, "?")
	return mod.append(appendPath(b, path), query)
}

// appendPath adds a path in normal form (RFC 3986 §6.2.2): escapes of unreserved
// characters are decoded, others have upper case digits.
func appendPath(b []byte, path string) []byte {
	if strings.IndexByte(path, '%') < 0 {
		return append(b, path...)
	}
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c != '%' || i+2 >= len(path) {
			b = append(b, c)
			continue
		}
		hi, lo := unhex(path[i+1]), unhex(path[i+2])
		switch v := hi<<4 | lo; {
		case hi > 15 || lo > 15:
			b = append(b, c)
			continue
		case unreserved(v):
			b = append(b, v)
		default:
			b = append(b, '%', "0123456789ABCDEF"[hi], "0123456789ABCDEF"[lo])
		}
		i += 2
	}
	return b
}

// unhex returns the value of a digit, 255 for none.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// cookies iterates over names and values of the cookies of a request.
func cookies(f *exchange.Fields) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range f.Values("Cookie") {
			for line != "" {
				var one string
				one, line, _ = strings.Cut(line, ";")
				name, value, _ := strings.Cut(strings.TrimLeft(one, " \t"), "=")
				if name != "" && !yield(name, strings.TrimRight(value, " \t")) {
					return
				}
			}
		}
	}
}

// cookie returns the value of the first cookie called name.
func cookie(f *exchange.Fields, name string) (value string, ok bool) {
	for n, v := range cookies(f) {
		if n == name {
			return v, true
		}
	}
	return "", false
}

// isSession reports whether a cookie looks as if it told one user from another.
func isSession(name string) bool {
	return name == "PHPSESSID" || strings.HasPrefix(name, "_lscache_private") ||
		strings.HasPrefix(name, "wordpress_logged_in_") || containsFold(name, "session")
}

func containsFold(s, lower string) bool {
	for i := 0; i+len(lower) <= len(s); i++ {
		if exchange.EqualName(s[i:i+len(lower)], lower) {
			return true
		}
	}
	return false
}

// owner is whose private entries a request may have: 128 bits of a hash of its session
// cookies, in hexadecimal digits.
type owner [32]byte

// ownerOf returns false if nothing tells whose the request is: such a request has no
// private entries, whatever address it comes from.
func (s *Site) ownerOf(f *exchange.Fields, b []byte) (o owner, scratch []byte, ok bool) {
	if !f.Has("Cookie") {
		return o, b, false
	}
	begin := len(b)
	for name, value := range cookies(f) {
		if s.SessionCookie == "" && isSession(name) || s.SessionCookie != "" && name == s.SessionCookie {
			if value == "" {
				continue
			}
			b = append(append(append(append(b, name...), '='), value...), 0)
			ok = true
		}
	}
	if !ok {
		return o, b, false
	}
	sum := sha256.Sum256(b[begin:])
	hex.Encode(o[:], sum[:16])
	return o, b, true
}

// What a name in store.Object.Vary is about.
const (
	byCookie = "c:"
	byField  = "f:"
)

// appendVariant adds the variant that a request has by names (R-CACHE-4). Lines of one
// field are joined first, so that none of them is left out (RFC 9110 §5.3).
func appendVariant(b []byte, f *exchange.Fields, names []string) []byte {
	for _, name := range names {
		begin := len(b)
		if rest, ok := strings.CutPrefix(name, byCookie); ok {
			if v, has := cookie(f, rest); has {
				b = append(append(b, '='), v...)
			}
		} else {
			first := true
			for v := range f.Values(strings.TrimPrefix(name, byField)) {
				sep := byte(',')
				if first {
					sep, first = '=', false
				}
				b = append(append(b, sep), v...)
			}
		}
		if len(b)-begin > longValue {
			sum := sha256.Sum256(b[begin:])
			b = hex.AppendEncode(append(b[:begin], '#'), sum[:16])
		}
		b = append(b, 0)
	}
	return b
}

// union returns the names of both lists, sorted, each once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
