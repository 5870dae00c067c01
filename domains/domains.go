// Package domains leads the names of one listener to what they stand for, as
// LiteSpeed does: exact names, then patterns in the order of declaration, then
// the catch-all (R-LSN-3). The virtual host of a request and the certificate of a
// handshake are found by it, so that they are of one host.
package domains

import (
	"maps"
	"slices"
	"strings"
)

// Map leads names to values. It is built once and then only read; a nil Map has
// no name.
type Map[V comparable] struct {
	exact    map[string]V
	patterns []pattern[V]
	all      V
	hasAll   bool
}

type pattern[V any] struct {
	glob string
	v    V
}

// Add maps a domain, as a listener maps it: an exact name, a pattern with '*' and
// '?', or "*" for all others. The first of equal names stays; Add reports false
// if that leads to another value.
func (m *Map[V]) Add(domain string, v V) bool {
	name := Name(domain)
	switch {
	case name == "":
	case name == "*":
		if m.hasAll {
			return m.all == v
		}
		m.all, m.hasAll = v, true
	case strings.ContainsAny(name, "*?"):
		m.patterns = append(m.patterns, pattern[V]{name, v})
	default:
		if m.exact == nil {
			m.exact = map[string]V{}
		}
		if old, ok := m.exact[name]; ok {
			return old == v
		}
		m.exact[name] = v
	}
	return true
}

// Find returns the value for a Host field or server name. No name at all is the
// catch-all's.
func (m *Map[V]) Find(host string) (v V, ok bool) {
	if v, ok = m.Named(host); ok || m == nil {
		return v, ok
	}
	return m.all, m.hasAll
}

// Named is Find without the catch-all.
func (m *Map[V]) Named(host string) (v V, ok bool) {
	if m == nil {
		return v, false
	}
	name := Name(host)
	if v, ok := m.exact[name]; ok {
		return v, true
	}
	for _, p := range m.patterns {
		if name != "" && matches(p.glob, name) {
			return p.v, true
		}
	}
	return v, false
}

// HasNames reports whether anything but the catch-all is mapped.
func (m *Map[V]) HasNames() bool { return len(m.exact)+len(m.patterns) > 0 }

// All returns the values, each once, in no order.
func (m *Map[V]) All() []V {
	seen := map[V]bool{}
	for _, v := range m.exact {
		seen[v] = true
	}
	for _, p := range m.patterns {
		seen[p.v] = true
	}
	if m.hasAll {
		seen[m.all] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// Name is how names are compared: lower case, without port, trailing dot and one
// leading "www.". IPv6 literals keep their brackets.
func Name(host string) string {
	if strings.HasPrefix(host, "[") {
		if i := strings.IndexByte(host, ']'); i >= 0 {
			host = host[:i+1]
		}
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	return strings.TrimPrefix(strings.ToLower(strings.TrimSuffix(host, ".")), "www.")
}

// matches matches '*' with any run of bytes, also none, and '?' with one. It goes
// back to the last '*' only, so its time is bounded by len(glob) × len(s).
func matches(glob, s string) bool {
	g, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, i
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == s[i]):
			g++
			i++
		case star >= 0:
			mark++
			g, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
