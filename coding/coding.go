// Package coding knows the content codings of answers and which of them a client
// takes (RFC 9110 §12.5.3). It compresses nothing.
package coding

import (
	"iter"
	"strings"
)

// Set is a set of codings.
type Set uint8

// The codings, each a set of itself alone.
const (
	Zstd Set = 1 << iota
	Brotli
	Gzip
)

// All lists the codings, those that are taken first among equals first (R-COMP-1).
var All = [...]Set{Zstd, Brotli, Gzip}

// Name is the token of one coding in Content-Encoding.
func (s Set) Name() string {
	switch s {
	case Zstd:
		return "zstd"
	case Brotli:
		return "br"
	case Gzip:
		return "gzip"
	}
	panic("BUG: coding: not one coding")
}

// Suffix is what the name of a file of one coding ends in, with its dot.
func (s Set) Suffix() string {
	switch s {
	case Zstd:
		return ".zst"
	case Brotli:
		return ".br"
	case Gzip:
		return ".gz"
	}
	panic("BUG: coding: not one coding")
}

// Accept is what a client says in its Accept-Encoding fields. The zero value is that of
// one that says nothing.
type Accept struct {
	q              [len(All)]int16 // thousandths, one more; 0: not named
	star, identity int16           // likewise
}

// Add takes note of one element of a field. The last one that names a coding counts.
func (a *Accept) Add(element string) {
	name, weight := parse(element)
	w := int16(weight) + 1
	switch {
	case name == "*":
		a.star = w
	case strings.EqualFold(name, "identity"):
		a.identity = w
	default:
		for i, c := range All {
			if strings.EqualFold(name, c.Name()) || c == Gzip && strings.EqualFold(name, "x-gzip") {
				a.q[i] = w
			}
		}
	}
}

// AddField takes note of all elements of one field.
func (a *Accept) AddField(value string) {
	for value != "" {
		var element string
		element, value, _ = strings.Cut(value, ",")
		if element = strings.Trim(element, " \t"); element != "" {
			a.Add(element)
		}
	}
}

// Best returns the coding of offered that the client likes best, 0 for none: the
// answer goes out as it is. A coding that the client likes less than no coding is not
// chosen.
func (a Accept) Best(offered Set) Set {
	best, bestQ := Set(0), int16(1)
	for i, c := range All {
		w := a.q[i]
		if w == 0 {
			w = a.star
		}
		if c&offered != 0 && w > bestQ {
			best, bestQ = c, w
		}
	}
	if a.identity > bestQ {
		return 0
	}
	return best
}

// Choose is Best for the elements of Accept-Encoding fields.
func Choose(accepted iter.Seq[string], offered Set) Set {
	var a Accept
	for element := range accepted {
		a.Add(element)
	}
	return a.Best(offered)
}

// parse cuts an element into coding and weight in thousandths; without one it is
// 1000, and one that is none is 0: the client does not get what it may not read.
func parse(element string) (name string, weight int) {
	name, params, found := strings.Cut(element, ";")
	name = strings.TrimRight(name, " \t")
	if !found {
		return name, 1000
	}
	params = strings.Trim(params, " \t")
	if len(params) < 3 || params[0]|0x20 != 'q' || params[1] != '=' {
		return name, 0
	}
	return name, thousandths(params[2:])
}

// thousandths reads a qvalue (RFC 9110 §12.4.2).
func thousandths(s string) int {
	whole, digits, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(digits) > 3 {
		return 0
	}
	n := 0
	for i := range 3 {
		n *= 10
		if i < len(digits) {
			if digits[i] < '0' || digits[i] > '9' {
				return 0
			}
			n += int(digits[i] - '0')
		}
	}
	if whole == "1" {
		if n > 0 {
			return 0
		}
		return 1000
	}
	return n
}
