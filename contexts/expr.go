package contexts

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// expression is a regular expression that says no to most paths by what they
// would have to begin or end with.
type expression struct {
	re    *regexp.Regexp
	heads []string // a match begins with one of them; nil: with anything
	tails []string // a match ends with one of them; nil: with anything
	whole bool     // that is all that re says
}

// maxLiterals is how many heads or tails are worth comparing.
const maxLiterals = 16

func newExpression(re *regexp.Regexp) *expression {
	e := &expression{re: re}
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		panic("BUG: contexts: a regular expression that compiled cannot be parsed: " + err.Error())
	}
	parts := flatten(nil, tree)
	first, last := 0, len(parts)
	if first < last && parts[first].Op == syntax.OpBeginText {
		first++
		e.heads = []string{""}
		for first < last && extend(&e.heads, parts[first], join) {
			first++
		}
	}
	if first < last && parts[last-1].Op == syntax.OpEndText {
		last--
		e.tails = []string{""}
		for first < last && extend(&e.tails, parts[last-1], func(tail, s string) string { return s + tail }) {
			last--
		}
		// Heads and tails that could overlap are no equivalent together.
		e.whole = first == last && e.heads == nil
	} else {
		e.whole = first == last && e.heads != nil
	}
	e.heads, e.tails = useful(e.heads), useful(e.tails)
	return e
}

func join(head, s string) string { return head + s }

// useful returns nil for literals that every path has.
func useful(literals []string) []string {
	if slices.Contains(literals, "") {
		return nil
	}
	return literals
}

// flatten returns the parts of a concatenation in their order; groups are looked
// into, as they match what is in them.
func flatten(parts []*syntax.Regexp, re *syntax.Regexp) []*syntax.Regexp {
	if re.Op != syntax.OpConcat && re.Op != syntax.OpCapture {
		return append(parts, re)
	}
	for _, sub := range re.Sub {
		parts = flatten(parts, sub)
	}
	return parts
}

// extend joins every string that re matches to every literal. It reports false,
// and changes nothing, if there are too many.
func extend(literals *[]string, re *syntax.Regexp, join func(literal, s string) string) bool {
	more, ok := strs(re)
	if !ok || len(more)*len(*literals) > maxLiterals {
		return false
	}
	var out []string
	for _, l := range *literals {
		for _, s := range more {
			out = append(out, join(l, s))
		}
	}
	*literals = out
	return true
}

// strs returns the strings that re matches, false if they cannot be counted out.
func strs(re *syntax.Regexp) ([]string, bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpLiteral:
		return []string{string(re.Rune)}, re.Flags&syntax.FoldCase == 0 && !slices.ContainsFunc(re.Rune, odd)
	case syntax.OpCharClass:
		var out []string
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if out = append(out, string(r)); len(out) > maxLiterals || odd(r) {
					return nil, false
				}
			}
		}
		return out, true
	case syntax.OpCapture:
		return strs(re.Sub[0])
	case syntax.OpQuest:
		out, ok := strs(re.Sub[0])
		return append(out, ""), ok
	case syntax.OpConcat:
		out := []string{""}
		for _, sub := range re.Sub {
			if !extend(&out, sub, join) {
				return nil, false
			}
		}
		return out, true
	case syntax.OpAlternate:
		var out []string
		for _, sub := range re.Sub {
			more, ok := strs(sub)
			if out = append(out, more...); !ok || len(out) > maxLiterals {
				return nil, false
			}
		}
		return out, true
	}
	return nil, false
}

// odd reports a rune by which an expression matches bytes that are no text.
func odd(r rune) bool { return r == utf8.RuneError || !utf8.ValidRune(r) }

// match reports whether path matches, as re.MatchString does.
func (e *expression) match(path string) bool {
	if e.heads != nil && !slices.ContainsFunc(e.heads, func(head string) bool { return strings.HasPrefix(path, head) }) ||
		e.tails != nil && !slices.ContainsFunc(e.tails, func(tail string) bool { return strings.HasSuffix(path, tail) }) {
		return false
	}
	return e.whole || e.re.MatchString(path)
}
