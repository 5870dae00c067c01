package rewrite

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

const (
	maxPattern = 8 << 10                // bytes
	maxMatch   = 100 * time.Millisecond // of one backtracking match
	maxMatches = 250 * time.Millisecond // of all of them in one run
	maxStack   = 100000                 // slots of the stack of a backtracking match
)

// errTooSlow is a pattern that took more time or memory than a request may cost.
var errTooSlow = errors.New("pattern exceeds its limits")

// pattern is a regular expression. RE2 runs it where it can, as its time is linear
// in the text; expressions with look-around or back references run on an engine
// that tries and goes back, within bounds.
type pattern struct {
	source string
	re2    *regexp.Regexp
	back   *regexp2.Regexp // nil: re2 runs

	head string // every match begins with it, at the beginning of the text
	need string // every match holds it
}

// newPattern compiles source. why says why RE2 cannot run it, "" if it does.
func newPattern(source string, nocase bool) (p *pattern, why string, err error) {
	if len(source) > maxPattern {
		return nil, "", fmt.Errorf("pattern over %d bytes", maxPattern)
	}
	p = &pattern{source: source}
	text := source
	if nocase {
		text = "(?i)" + source
	}
	var fault error
	if p.re2, fault = regexp.Compile(text); fault == nil {
		p.literals(text)
		return p, "", nil
	}
	options := []regexp2.CompileOption{regexp2.OptionMaxBacktrackingStackSize(maxStack)}
	if nocase {
		options = append(options, regexp2.IgnoreCase)
	}
	p.back, err = regexp2.Compile(source, options...)
	if err != nil {
		return nil, "", fmt.Errorf("pattern %q: %w", source, cut(fault))
	}
	p.back.MatchTimeout = maxMatch
	return p, cut(fault).Error(), nil
}

// cut leaves what is wrong of an error of package regexp.
func cut(err error) error {
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		return fmt.Errorf("%s: %q", e.Code, e.Expr)
	}
	return err
}

// literals finds texts without which nothing matches.
func (p *pattern) literals(text string) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		panic("BUG: rewrite: an expression that compiled cannot be parsed: " + err.Error())
	}
	parts := inOrder(nil, tree)
	for i, part := range parts {
		if part.Op != syntax.OpLiteral || part.Flags&syntax.FoldCase != 0 {
			continue
		}
		s := string(part.Rune)
		if strings.ContainsRune(s, utf8.RuneError) { // it also matches bytes that are no text
			continue
		}
		if i == 1 && parts[0].Op == syntax.OpBeginText {
			p.head = s
		} else if len(s) > len(p.need) {
			p.need = s
		}
	}
}

// inOrder returns the parts of a concatenation; groups are looked into.
func inOrder(parts []*syntax.Regexp, re *syntax.Regexp) []*syntax.Regexp {
	if re.Op != syntax.OpConcat && re.Op != syntax.OpCapture {
		return append(parts, re)
	}
	for _, sub := range re.Sub {
		parts = inOrder(parts, sub)
	}
	return parts
}

// excluded reports that text cannot match, before an engine is asked.
func (p *pattern) excluded(text string) bool {
	return p.head != "" && !strings.HasPrefix(text, p.head) || p.need != "" && !strings.Contains(text, p.need)
}

// match asks the expression. With groups it also fills them.
func (r *run) match(p *pattern, text string, groups *[10]string) (bool, error) {
	if p.excluded(text) {
		return false, nil
	}
	if p.back != nil {
		return r.backtrack(p, text, groups)
	}
	if groups == nil {
		return p.re2.MatchString(text), nil
	}
	at := p.re2.FindStringSubmatchIndex(text)
	if at == nil {
		return false, nil
	}
	*groups = [10]string{}
	for i := 0; i < len(groups) && 2*i < len(at); i++ {
		if at[2*i] >= 0 {
			groups[i] = text[at[2*i]:at[2*i+1]]
		}
	}
	return true, nil
}

// backtrack runs an expression of the other engine. Whatever the client sends, a
// run costs no more than maxMatches and one more match.
func (r *run) backtrack(p *pattern, text string, groups *[10]string) (bool, error) {
	if r.spent > maxMatches {
		return false, errTooSlow
	}
	began := time.Now()
	m, err := p.back.FindStringMatch(text)
	r.spent += time.Since(began)
	if err != nil {
		return false, fmt.Errorf("%w: %q", errTooSlow, p.source)
	}
	if m == nil {
		return false, nil
	}
	if groups != nil {
		*groups = [10]string{}
		for i := range groups {
			if g := m.GroupByNumber(i); g != nil && len(g.Captures) > 0 {
				groups[i] = g.String()
			}
		}
	}
	return true, nil
}
