package xmlconf

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// A valueError says why text is no value of an element.
type valueError struct {
	code string // W-RANGE; a strict element makes it E-STRICT
	msg  string
	hint string
}

// badValue makes the usual error: the value is not used.
func badValue(hint, format string, args ...any) *valueError {
	return &valueError{"W-RANGE", fmt.Sprintf(format, args...), hint}
}

// parseValue reads text as e's type. A note is something to tell although the
// value stands. The types are those that declarations use.
func parseValue(e *element, text string, strict bool) (v any, note, bad *valueError) {
	switch e.typ {
	case reflect.TypeFor[string]():
		s, bad := parseWord(e, text, strict)
		return s, nil, bad
	case reflect.TypeFor[bool]():
		return parseBool(text, strict)
	case reflect.TypeFor[time.Duration]():
		return parseSeconds(e, text, strict)
	case reflect.TypeFor[[]string]():
		return parseList(e, text), nil, nil
	case reflect.TypeFor[[]int]():
		v, bad := parseInts(e, text)
		return v, nil, bad
	case reflect.TypeFor[uint32]():
		n, err := strconv.ParseUint(text, 8, 16)
		if err != nil {
			return nil, nil, badValue("write octal digits, as 004", "%q is no octal mask", cut(text))
		}
		return uint32(n), nil, nil
	case reflect.TypeFor[int](), reflect.TypeFor[int64]():
		n, note, bad := parseInt(e, text, strict)
		if e.typ.Kind() == reflect.Int {
			return int(n), note, bad
		}
		return n, note, bad
	}
	panic("BUG: no values of type " + e.typ.String())
}

// parseWord checks the words of e's range. LiteSpeed elements compare without
// case and take the declared spelling.
func parseWord(e *element, text string, strict bool) (string, *valueError) {
	if e.limits == "" {
		return text, nil
	}
	words := strings.Split(e.limits, "|")
	for _, w := range words {
		if w == text || !strict && strings.EqualFold(w, text) {
			return w, nil
		}
	}
	hint := "use one of " + strings.Join(words, ", ")
	if w := Suggest(text, words); w != "" {
		hint = "use " + w
	}
	return "", badValue(hint, "%q is unknown", cut(text))
}

// parseBool follows R-CONV-1.
func parseBool(text string, strict bool) (any, *valueError, *valueError) {
	switch {
	case text == "1" || text == "0":
		return text == "1", nil, nil
	case strict && !strings.EqualFold(text, "true") && !strings.EqualFold(text, "false"):
		return nil, nil, badValue("write 0 or 1", "%q is no switch", cut(text))
	case text == "2" || strings.EqualFold(text, "true"):
		return true, &valueError{"W-BOOL", fmt.Sprintf("%q is read as 1", cut(text)), "write 1"}, nil
	}
	return false, &valueError{"W-BOOL", fmt.Sprintf("%q is read as 0, which is off", cut(text)), "write 0 or 1"}, nil
}

// parseInt reads an integer with an optional suffix. LiteSpeed takes the leading
// digits and the last character and ignores what is between (LSX 1.3).
func parseInt(e *element, text string, strict bool) (int64, *valueError, *valueError) {
	if e.unit == "link" && strings.EqualFold(text, "true") {
		return 1, nil, nil
	}
	n, exact, ok := number(text)
	if !ok && e.unit == "link" { // LiteSpeed reads a word as 0, which here closes
		return 0, &valueError{"W-BOOL", fmt.Sprintf("%q is read as 0, which is off", cut(text)), "write 0, 1 or 2"}, nil
	}
	if !ok || strict && !exact {
		return 0, nil, badValue("write an integer", "%q is no number", cut(text))
	}
	if !within(e.limits, n, number) {
		return 0, nil, badValue("", "%s is out of range %s", cut(text), e.limits)
	}
	if e.typ.Kind() == reflect.Int && n > math.MaxInt32 {
		return 0, nil, badValue("", "%s is too large", cut(text))
	}
	if !exact {
		return n, &valueError{"W-VALUE", fmt.Sprintf("%q is read as %d", cut(text), n), "write an integer, K, M or G behind it"}, nil
	}
	return n, nil, nil
}

// number reads an integer as parseInt says; exact is whether nothing was
// ignored. It is false for an overflow (R-CONV-2).
func number(text string) (n int64, exact, ok bool) {
	i := 0
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		i++
	}
	digits := i
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	n, err := strconv.ParseInt(text[:i], 10, 64)
	if i == digits || err != nil {
		return 0, false, false
	}
	if i == len(text) {
		return n, true, true
	}
	shift := map[byte]int{'k': 10, 'm': 20, 'g': 30}[text[len(text)-1]|0x20]
	big := n << shift
	if big>>shift != n {
		return 0, false, false
	}
	return big, shift > 0 && i == len(text)-1, true
}

// parseSeconds reads a duration: seconds; strict elements may have ms, s, m, h
// (R-CONV-3).
func parseSeconds(e *element, text string, strict bool) (any, *valueError, *valueError) {
	var note *valueError
	d, exact, ok := duration(text)
	if !ok && !strict {
		var n int64
		if n, exact, ok = number(text); ok && n <= math.MaxInt64/int64(time.Second) && n >= -math.MaxInt64/int64(time.Second) {
			d = n * int64(time.Second)
		} else {
			ok = false
		}
	} else if ok && !strict {
		exact = text[len(text)-1] <= '9'
	}
	if !ok {
		return nil, nil, badValue("write seconds", "%q is no duration", cut(text))
	}
	if !within(e.limits, d, duration) {
		return nil, nil, badValue("", "%s is out of range %s", cut(text), e.limits)
	}
	if !exact {
		note = &valueError{"W-VALUE", fmt.Sprintf("%q is read as %s", cut(text), time.Duration(d)), "write seconds, without a unit"}
	}
	return time.Duration(d), note, nil
}

// duration reads an integer with ms, s, m, h or nothing, in nanoseconds.
func duration(text string) (n int64, exact, ok bool) {
	unit := time.Second
	for _, u := range []struct {
		suffix string
		unit   time.Duration
	}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}} {
		if t, found := strings.CutSuffix(text, u.suffix); found {
			text, unit = t, u.unit
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) || n < -math.MaxInt64/int64(unit) {
		return 0, false, false
	}
	return n * int64(unit), true, true
}

// within tests n, after conversion (R-CONV-3), against a range such as
// "0|10ms..86400" or "1M..", whose numbers are read by read.
func within(limits string, n int64, read func(string) (int64, bool, bool)) bool {
	if limits == "" {
		return true
	}
	bound := func(s string, open int64) int64 {
		if s == "" {
			return open
		}
		v, exact, ok := read(s)
		if !ok || !exact {
			panic("BUG: bad range " + limits)
		}
		return v
	}
	for alt := range strings.SplitSeq(limits, "|") {
		lo, hi, interval := strings.Cut(alt, "..")
		if !interval {
			hi = lo
		}
		if n >= bound(lo, math.MinInt64) && n <= bound(hi, math.MaxInt64) {
			return true
		}
	}
	return false
}

// parseList splits at commas and blanks. An address list (unit acl) may hold
// remarks from # to the end of the line.
func parseList(e *element, text string) []string {
	if e.unit == "acl" {
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			lines[i], _, _ = strings.Cut(l, "#")
		}
		text = strings.Join(lines, "\n")
	}
	return strings.FieldsFunc(text, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	})
}

// parseInts reads a list of integers; one bad item makes the whole list bad, since
// its items count by position.
func parseInts(e *element, text string) ([]int, *valueError) {
	var all []int
	for _, s := range parseList(e, text) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, badValue("write integers with commas between", "%q is no number", cut(s))
		}
		if !within(e.limits, int64(n), number) {
			return nil, badValue("", "%d is out of range %s", n, e.limits)
		}
		all = append(all, n)
	}
	return all, nil
}

// Suggest returns the word that was probably meant: the one with these initials
// (wrr), its start (WARNING for WARN), or up to two slips; "" if there is none,
// or two as good.
func Suggest(got string, words []string) string {
	if len(got) > 64 {
		return ""
	}
	low := strings.ToLower(got)
	best, found, tie := 3, "", false
	for _, w := range words {
		var initials strings.Builder
		for part := range strings.SplitSeq(w, "-") {
			initials.WriteString(part[:min(1, len(part))])
		}
		d := distance(low, strings.ToLower(w))
		if len(initials.String()) > 1 && low == initials.String() {
			d = 0
		} else if len(w) > 2 && strings.HasPrefix(low, strings.ToLower(w)) {
			d = min(d, 1)
		}
		if len(got) < 4 && d > 1 {
			continue
		}
		switch {
		case d < best:
			best, found, tie = d, w, false
		case d == best && d < 3:
			tie = true
		}
	}
	if tie {
		return ""
	}
	return found
}

// distance is the Levenshtein distance of two short strings.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diag+cost)
		}
	}
	return row[len(b)]
}
