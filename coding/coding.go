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

// Choose returns the coding of offered that a client likes best by the elements of
// its Accept-Encoding fields, 0 for none: the answer goes out as it is. A coding
// that the client likes less than no coding is not chosen.
func Choose(accepted iter.Seq[string], offered Set) Set {
	var q [len(All)]int // thousandths; -1: not named
	for i := range q {
		q[i] = -1
	}
	star, identity := -1, -1
	for element := range accepted {
		name, weight := parse(element)
		switch {
		case name == "*":
			star = weight
		case strings.EqualFold(name, "identity"):
			identity = weight
		default:
			for i, c := range All {
				if strings.EqualFold(name, c.Name()) || c == Gzip && strings.EqualFold(name, "x-gzip") {
					q[i] = weight
				}
			}
		}
	}
	best, bestQ := Set(0), 0
	for i, c := range All {
		w := q[i]
		if w < 0 {
			w = star
		}
		if c&offered != 0 && w > bestQ {
			best, bestQ = c, w
		}
	}
	if identity > bestQ {
		return 0
	}
	return best
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
