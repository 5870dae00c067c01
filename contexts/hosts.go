package contexts

import (
	"maps"
	"slices"
	"strings"
)

// Hosts maps the names of one listener to virtual hosts, as LiteSpeed does
// (R-LSN-3): exact names, then patterns in order of declaration, then the
// catch-all.
type Hosts struct {
	exact    map[string]*VHost
	patterns []hostPattern
	any      *VHost
}

type hostPattern struct {
	glob  string
	vhost *VHost
}

// Add maps domain to v. It reports false if another virtual host has the name
// already: the first stays.
func (h *Hosts) Add(domain string, v *VHost) bool {
	name := HostName(domain)
	switch {
	case name == "":
		return true
	case name == "*":
		if h.any != nil && h.any != v {
			return false
		}
		h.any = v
	case strings.ContainsAny(name, "*?"):
		h.patterns = append(h.patterns, hostPattern{name, v})
	default:
		if h.exact == nil {
			h.exact = map[string]*VHost{}
		}
		if old := h.exact[name]; old != nil {
			return old == v
		}
		h.exact[name] = v
	}
	return true
}

// Find returns the virtual host for a Host field, nil if none is mapped.
func (h *Hosts) Find(host string) *VHost {
	if h == nil {
		return nil
	}
	name := HostName(host)
	if v := h.exact[name]; v != nil {
		return v
	}
	for _, p := range h.patterns {
		if name != "" && matchGlob(p.glob, name) {
			return p.vhost
		}
	}
	return h.any
}

// HostName normalises a mapped domain or a Host field: lower case, without
// port, trailing dot and one leading "www.". IPv6 literals keep their brackets.
func HostName(host string) string {
	if strings.HasPrefix(host, "[") {
		if i := strings.IndexByte(host, ']'); i >= 0 {
			host = host[:i+1]
		}
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if rest, ok := strings.CutPrefix(host, "www."); ok {
		host = rest
	}
	return host
}

// matchGlob matches '*' (any run, also empty) and '?' (one byte) without
// recursion: its time is bounded by len(glob) × len(s).
func matchGlob(glob, s string) bool {
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
	for g < len(glob) && glob[g] == '*' {
		g++
	}
	return g == len(glob)
}

// All returns the virtual hosts that are mapped, each once, in no order.
func (h *Hosts) All() []*VHost {
	seen := map[*VHost]bool{}
	for _, v := range h.exact {
		seen[v] = true
	}
	for _, p := range h.patterns {
		seen[p.vhost] = true
	}
	if h.any != nil {
		seen[h.any] = true
	}
	return slices.Collect(maps.Keys(seen))
}
