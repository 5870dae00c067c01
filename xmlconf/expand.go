package xmlconf

import (
	"path/filepath"
	"strings"
)

// Variables that configuration text may hold. All are known everywhere, but a
// scope that has no value for one leaves it as text.
var variableNames = [...]string{"SERVER_ROOT", "VH_ROOT", "VH_NAME", "VH_DOMAIN", "VH_USER", "DOC_ROOT", "HOSTNAME"}

// Expander replaces variables (R-CONV-7): $NAME or ${NAME}, in any case, without
// a word boundary, once. The zero value knows no value. It is copied from scope
// to scope; With never changes the receiver.
type Expander struct {
	values [len(variableNames)]string
	has    [len(variableNames)]bool
}

// With returns a copy in which name has a value. Name is one of the variables of
// LiteSpeed, without $.
func (e Expander) With(name, value string) Expander {
	for i, n := range variableNames {
		if n == name {
			e.values[i], e.has[i] = value, true
			return e
		}
	}
	panic("BUG: unknown variable " + name)
}

// maxExpanded bounds what variables make of one text; behind it they stay as
// they are.
const maxExpanded = 1 << 20

// maxUnknown bounds the names that one text makes us tell.
const maxUnknown = 8

// Expand replaces the variables of s and returns the names it does not know; $1
// and a lone $ are no variables. A replaced value is not looked at again, so
// expansion ends.
func (e Expander) Expand(s string) (string, []string) {
	if !strings.Contains(s, "$") {
		return s, nil
	}
	var b strings.Builder
	var unknown []string
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || b.Len() > maxExpanded {
			b.WriteString(s)
			return b.String(), unknown
		}
		b.WriteString(s[:i])
		s = s[i:]
		n, name, value, ok := e.variable(s)
		switch {
		case ok:
			b.WriteString(value)
		default:
			b.WriteString(s[:n])
			if name != "" && len(unknown) < maxUnknown {
				unknown = append(unknown, name)
			}
		}
		s = s[n:]
	}
}

// variable looks at s, which starts with $. It returns the length it looked at;
// the name if it is an unknown one; the value if there is one.
func (e Expander) variable(s string) (n int, unknown, value string, ok bool) {
	rest, braced := strings.CutPrefix(s[1:], "{")
	for i, name := range variableNames {
		if len(rest) < len(name) || !strings.EqualFold(rest[:len(name)], name) {
			continue
		}
		n = 1 + len(name)
		if braced {
			if !strings.HasPrefix(rest[len(name):], "}") {
				continue
			}
			n += 2
		}
		return n, "", e.values[i], e.has[i]
	}
	end := strings.IndexFunc(rest, func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	if end < 0 {
		end = len(rest)
	}
	if end == 0 || rest[0] >= '0' && rest[0] <= '9' {
		return 1, "", "", false
	}
	return len(s) - len(rest) + end, rest[:end], "", false
}

// Path expands s and makes it absolute: a path that does not start with / is
// relative to base, one of the roots. An empty path stays empty.
func (e Expander) Path(s, base string) (string, []string) {
	s, unknown := e.Expand(s)
	switch {
	case s == "":
		return "", unknown
	case filepath.IsAbs(s), waiting(s):
		return filepath.Clean(s), unknown
	}
	return filepath.Join(base, s), unknown
}

// waiting reports whether s starts with a variable that has no value yet: a
// later scope makes it absolute.
func waiting(s string) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(s, "$"), "{")
	for _, name := range variableNames {
		if s[0] == '$' && len(rest) >= len(name) && strings.EqualFold(rest[:len(name)], name) {
			return true
		}
	}
	return false
}

// Root returns $SERVER_ROOT, "$SERVER_ROOT" where it has no value.
func (e Expander) Root() string { return e.value("SERVER_ROOT") }

// DocRoot returns $DOC_ROOT, "$DOC_ROOT" where it has no value.
func (e Expander) DocRoot() string { return e.value("DOC_ROOT") }

func (e Expander) value(name string) string {
	for i, n := range variableNames {
		if n == name && e.has[i] {
			return e.values[i]
		}
	}
	return "$" + name
}
