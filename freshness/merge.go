package freshness

import "httpjet/exchange"

// kept reports whether a field of a response may be stored: not what belongs to a
// connection, to the wire, or to the one client that it came for (RFC 9111 §3.1).
// extproc has removed the hop-by-hop fields already; they are here because a cache
// must not depend on it.
func kept(name string) bool {
	switch len(name) {
	case 2:
		return !exchange.EqualName(name, "TE")
	case 3:
		return !exchange.EqualName(name, "Age")
	case 7:
		return !exchange.EqualName(name, "Trailer") && !exchange.EqualName(name, "Upgrade")
	case 10:
		return !exchange.EqualName(name, "Connection") && !exchange.EqualName(name, "Keep-Alive") &&
			!exchange.EqualName(name, "Set-Cookie")
	case 14:
		return !exchange.EqualName(name, "Content-Length")
	case 17:
		return !exchange.EqualName(name, "Transfer-Encoding")
	}
	return len(name) < 6 || !exchange.EqualName(name[:6], "Proxy-")
}

// Keep returns the fields of a response that are stored with it: without those that
// its no-cache="…" and private="…" name.
func Keep(f *exchange.Fields) []exchange.Field {
	named := ParseDirectives(f, "Cache-Control").Named
	out := make([]exchange.Field, 0, f.Len())
	for i := range f.Len() {
		if fd := f.At(i); kept(fd.Name) && !names(named, fd.Name) {
			out = append(out, fd)
		}
	}
	return out
}

func names(list []string, name string) bool {
	for _, n := range list {
		if exchange.EqualName(n, name) {
			return true
		}
	}
	return false
}

// Merge returns the fields of a stored response that the origin has validated with
// a 304 (RFC 9111 §3.2): each field of the 304 replaces those of its name, but not
// what describes the stored bytes.
func Merge(stored []exchange.Field, update *exchange.Fields) *exchange.Fields {
	out := &exchange.Fields{}
	for _, fd := range stored {
		if !updates(fd.Name) || !update.Has(fd.Name) {
			out.Add(fd.Name, fd.Value)
		}
	}
	for i := range update.Len() {
		if fd := update.At(i); updates(fd.Name) {
			out.Add(fd.Name, fd.Value)
		}
	}
	return out
}

// updates reports whether a 304 may change a field.
func updates(name string) bool {
	switch len(name) {
	case 13:
		return !exchange.EqualName(name, "Content-Range")
	case 16:
		return !exchange.EqualName(name, "Content-Encoding")
	}
	return kept(name)
}
