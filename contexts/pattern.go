package contexts

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// restName is the name of what "*" captures.
const restName = "rest"

var paramName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Pattern compiles the uri of a pattern context to an expression for the whole
// path (R-CTX-3). A segment ":name" stands for one segment that is not empty, "*"
// at the end for the rest, which may be empty and is called "rest". Everything
// else stands for itself.
func Pattern(uri string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	segments := strings.Split(uri, "/")
	if segments[0] != "" || len(segments) < 2 {
		return nil, errors.New("a pattern starts with /")
	}
	seen := map[string]bool{}
	for i, s := range segments[1:] {
		b.WriteString("/")
		name, param := strings.CutPrefix(s, ":")
		switch {
		case param && !paramName.MatchString(name):
			return nil, fmt.Errorf("%q is no name: letters, digits and _", name)
		case param:
			b.WriteString("(?P<" + name + ">[^/]+)")
		case s == "*" && i == len(segments)-2:
			name = restName
			b.WriteString("(?P<" + name + ">(?s:.*))")
		case strings.Contains(s, "*"):
			return nil, errors.New("* stands alone, as the last segment")
		default:
			b.WriteString(regexp.QuoteMeta(s))
			continue
		}
		if seen[name] {
			return nil, fmt.Errorf("the name %q is given twice", name)
		}
		seen[name] = true
	}
	return regexp.Compile(b.String() + "$")
}
