package rewrite

import (
	"fmt"
	"strings"
)

// argument is a word of a directive and the column, from 0, at which it begins.
type argument struct {
	text string
	col  int
}

// arguments splits a directive at blanks. A quote at the beginning of a word, or
// behind the signs of a comparison, groups; a backslash escapes a blank, and in
// quotes the quote. Other backslashes stay: they are the pattern's. rest is where
// the first max words end.
func arguments(s string, max int) (list []argument, rest int, err error) {
	i := 0
	for len(list) < max {
		for i < len(s) && blank(s[i]) {
			i++
		}
		if i == len(s) {
			break
		}
		a := argument{col: i}
		if a.text, i, err = word(s, i); err != nil {
			return nil, 0, err
		}
		list = append(list, a)
	}
	for i < len(s) && blank(s[i]) {
		i++
	}
	return list, i, nil
}

// word reads one argument that begins at i.
func word(s string, i int) (string, int, error) {
	var b strings.Builder
	for i < len(s) && strings.IndexByte("!=<>", s[i]) >= 0 {
		b.WriteByte(s[i])
		i++
	}
	if i < len(s) && (s[i] == '"' || s[i] == '\'') {
		q := s[i]
		for i++; i < len(s) && s[i] != q; i++ {
			if s[i] == '\\' && i+1 < len(s) && s[i+1] == q {
				i++
			}
			b.WriteByte(s[i])
		}
		if i == len(s) {
			return "", 0, fmt.Errorf("a quote is not closed")
		}
		return b.String(), i + 1, nil
	}
	for ; i < len(s) && !blank(s[i]); i++ {
		if s[i] == '\\' && i+1 < len(s) && blank(s[i+1]) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), i, nil
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// flagList returns the flags between the brackets of s, the rest of a directive;
// nil without brackets. A comment may stand there instead.
func flagList(s string) ([]string, error) {
	if s == "" || s[0] == '#' {
		return nil, nil
	}
	if s[0] == '"' || s[0] == '\'' {
		in, _, err := word(s, 0)
		if err != nil {
			return nil, err
		}
		s = in
	}
	if s == "" || s[0] != '[' {
		return nil, fmt.Errorf("the flags %q do not start with [", s)
	}
	var list []string
	quote, start := byte(0), 1
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"':
			quote = c
		case c == ',' || c == ']':
			list = append(list, strings.TrimSpace(s[start:i]))
			start = i + 1
			if c == ']' {
				if after := strings.TrimSpace(s[start:]); after != "" && after[0] != '#' {
					return list, fmt.Errorf("%q stands behind the flags", after)
				}
				return list, nil
			}
		}
	}
	return append(list, strings.TrimSpace(s[start:])), fmt.Errorf("the flags have no ]")
}

// longFlags are the long forms of flags, by their exact names: "next" is not the
// beginning of "nextever", nor "ne" that of "next".
var longFlags = map[string]string{
	"last": "l", "redirect": "r", "forbidden": "f", "gone": "g", "proxy": "p", "passthrough": "pt",
	"qsappend": "qsa", "qsdiscard": "qsd", "qslast": "qsl", "nocase": "nc", "noescape": "ne", "backrefnoplus": "bnp",
	"chain": "c", "skip": "s", "next": "n", "env": "e", "cookie": "co", "type": "t", "handler": "h",
	"nosubreq": "ns", "discardpathinfo": "dpi", "ornext": "or", "novary": "nv",
}

// splitFlag returns the short name of a flag in lower case and what stands behind
// its =.
func splitFlag(s string) (name, arg string, hasArg bool) {
	name, arg, hasArg = strings.Cut(s, "=")
	name = strings.ToLower(strings.TrimSpace(name))
	if short := longFlags[name]; short != "" {
		name = short
	}
	return name, unquote(strings.TrimSpace(arg)), hasArg
}

func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

var redirectWords = map[string]int{"temp": 302, "permanent": 301, "seeother": 303, "gone": 410}

// knownStatus reports whether R= may name the status.
func knownStatus(n int) bool {
	switch {
	case 200 <= n && n <= 206, 300 <= n && n <= 308 && n != 306, 400 <= n && n <= 417, 421 <= n && n <= 426,
		500 <= n && n <= 508 && n != 506, n == 428, n == 429, n == 431, n == 451, n == 510, n == 511:
		return true
	}
	return false
}

// noEffect says of flags that are accepted what they do not do.
var noEffect = map[string]string{
	"ns": "there are no subrequests",
}
