package freshness

import (
	"slices"
	"strings"

	"httpjet/exchange"
)

// Bounds of what may select a response; one that wants more is not kept.
const (
	maxVary      = 16   // fields
	maxSelecting = 4096 // bytes of all their values in a request
)

// VaryNames returns the fields that select a response: in lower case, sorted, each
// once; nil if none does. ok is false if nothing known selects it: for *, for what
// is no name, for what OfHop is, and for too many.
func VaryNames(f *exchange.Fields) (names []string, ok bool) {
	for tok := range f.Tokens("Vary") {
		if tok == "*" || !isToken(tok) {
			return nil, false
		}
		if tok = strings.ToLower(tok); OfHop(tok) {
			return nil, false
		}
		if !slices.Contains(names, tok) {
			if names = append(names, tok); len(names) > maxVary {
				return nil, false
			}
		}
	}
	slices.Sort(names)
	return names, true
}

// OfHop reports whether a proxy hop writes the field of this name, in lower case, by
// itself: what a client sends under it is not what its upstream selects by. Those that say
// what the key says too, scheme and host, are not among them.
func OfHop(name string) bool {
	switch name {
	case "x-real-ip", "x-forwarded-for", "forwarded", "via":
		return true
	}
	return false
}

// AppendSelecting appends the values that the fields called names have in a
// request: two requests for which it appends the same are answered by the same
// responses (RFC 9111 §4.1). Lines of a field are one list, and space around its
// commas does not count (G58). ok is false if they are too long.
func AppendSelecting(b []byte, names []string, req *exchange.Fields) (out []byte, ok bool) {
	start := len(b)
	for _, name := range names {
		b = appendValue(b, name, req)
		if b = append(b, 0); len(b)-start > maxSelecting {
			return b, false
		}
	}
	return b, true
}

// appendValue appends nothing for a field that is absent, else '=' and its value.
func appendValue(b []byte, name string, req *exchange.Fields) []byte {
	fold := name == "accept-encoding" || name == "accept-language" || name == "accept-charset"
	found := false
	for i := range req.Len() {
		fd := req.At(i)
		if !exchange.EqualName(fd.Name, name) {
			continue
		}
		if !found {
			found, b = true, append(b, '=')
		} else {
			b = append(b, ',')
		}
		b = appendList(b, fd.Value, fold)
	}
	return b
}

// appendList appends v without the space around its commas, in lower case and
// without any space if fold. Within quotes everything stays.
func appendList(b []byte, v string, fold bool) []byte {
	inQuotes := false
	start := len(b) // of the member
	for i := range len(v) {
		c := v[i]
		switch {
		case c == 0:
			c = 1 // which no field has either; 0 ends the value
		case inQuotes:
			if c == '"' && v[i-1] != '\\' {
				inQuotes = false
			}
		case c == '"':
			inQuotes = true
		case c == ',':
			b = trimSpace(b, start)
			start = len(b) + 1
		case c == ' ' || c == '\t':
			if fold || len(b) == start {
				continue
			}
		case fold && 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	if inQuotes {
		return b
	}
	return trimSpace(b, start)
}

// trimSpace takes the space off the end of b, but not before start.
func trimSpace(b []byte, start int) []byte {
	for len(b) > start && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
