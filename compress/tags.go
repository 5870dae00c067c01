package compress

import (
	"strings"

	"httpjet/coding"
	"httpjet/exchange"
)

// A coded answer has another entity tag than the same one as it is (RFC 9110
// §8.8.3.3): its maker's, with the coding behind it. That of a file is LiteSpeed's,
// "1f-5e-7;gz", and package static knows it. Others end in ";;gz", so that no tag of
// a LiteSpeed or httpjet behind this one is taken for it. A weak tag is marked too:
// what a cache holds for one client must not be confirmed for another that cannot
// read it.

// short is what a tag calls a coding.
func short(c coding.Set) string {
	switch c {
	case coding.Gzip:
		return "gz"
	case coding.Brotli:
		return "br"
	}
	return "zstd"
}

// coded is the tag of an answer in coding c whose own tag is tag. What is no tag
// stays what it is.
func coded(tag string, c coding.Set, file bool) string {
	inner, ok := strings.CutSuffix(tag, `"`)
	if !ok || len(tag) < 2 || strings.IndexByte(tag, '"') == len(tag)-1 {
		return tag
	}
	if plain, ok := strings.CutSuffix(inner, ";;;"); ok && file {
		return plain + ";" + short(c) + `"`
	}
	return inner + ";;" + short(c) + `"`
}

// plain is the tag of which tag is the coded one, and its coding; 0: it is none.
func plain(tag string) (string, coding.Set) {
	inner, ok := strings.CutSuffix(tag, `"`)
	if !ok {
		return tag, 0
	}
	for _, c := range coding.All {
		if p, ok := strings.CutSuffix(inner, ";;"+short(c)); ok {
			return p + `"`, c
		}
	}
	return tag, 0
}

// eachTag calls f with the entity tags of a list, W/ included, until it returns false;
// at what is no tag the list ends. It returns whether all of it was read.
func eachTag(list string, f func(tag string) bool) bool {
	for {
		list = strings.TrimLeft(list, " \t,")
		if list == "" {
			return true
		}
		start := 0
		if strings.HasPrefix(list, "W/") {
			start = 2
		}
		if start >= len(list) || list[start] != '"' {
			return false
		}
		end := strings.IndexByte(list[start+1:], '"')
		if end < 0 {
			return false
		}
		end += start + 2
		if !f(list[:end]) {
			return true
		}
		list = list[end:]
	}
}

// translate makes conditions about coded answers conditions about the answers as
// their maker knows them. Whose If-None-Match is one coded tag has it replaced, since
// applications compare it as it stands, and the coding is returned: a 304 is to name
// it again. To a list the others are added. A coding that the client does not take
// now is left alone: it must not be told that it may use such an answer (G58).
func translate(f *exchange.Fields) (named coding.Set) {
	for i := 0; i < f.Len(); i++ {
		fd := f.At(i)
		match := exchange.EqualName(fd.Name, "If-Match")
		if !match && !exchange.EqualName(fd.Name, "If-None-Match") || !strings.Contains(fd.Value, ";;") || repeated(f, fd.Name) {
			continue
		}
		if match {
			f.Set(fd.Name, stateOf(fd.Value))
			continue
		}
		value, c := heldBy(f, fd.Value)
		f.Set(fd.Name, value)
		named = c
	}
	return named
}

// repeated reports whether there are several fields called name. Such a condition is
// left alone.
func repeated(f *exchange.Fields, name string) bool {
	n := 0
	for i := range f.Len() {
		if exchange.EqualName(f.At(i).Name, name) {
			n++
		}
	}
	return n > 1
}

// stateOf is an If-Match with plain tags in the place of coded ones: the state of the
// resource is the same.
func stateOf(list string) string {
	var b strings.Builder
	ok := eachTag(list, func(tag string) bool {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		p, _ := plain(tag)
		b.WriteString(p)
		return true
	})
	if !ok {
		return list
	}
	return b.String()
}

// heldBy is an If-None-Match as the maker of the answer is to read it, and the coding
// of the one tag in it, see translate.
func heldBy(f *exchange.Fields, list string) (string, coding.Set) {
	n, single, of := 0, "", coding.Set(0)
	var more strings.Builder
	ok := eachTag(list, func(tag string) bool {
		n++
		p, c := plain(tag)
		if c == 0 || accepted(f).Best(c) == 0 {
			return true
		}
		single, of = p, c
		if !strings.Contains(list, p) {
			more.WriteString(", " + p)
		}
		return true
	})
	switch {
	case !ok:
		return list, 0
	case n == 1 && of != 0:
		return single, of
	}
	return list + more.String(), 0
}

// confirm names in a 304 the tag that the client holds.
func (p *part) confirm() {
	f := &p.x.Resp.Fields
	tag := f.Get("ETag")
	if tag == "" || p.x.Route.Kind == exchange.Files {
		return // package static has done so
	}
	if p.named != 0 {
		f.Set("ETag", coded(tag, p.named, false))
		return
	}
	asked := p.x.Req.Fields.Get("If-None-Match")
	if !strings.Contains(asked, ";;") {
		return
	}
	weakly := strings.TrimPrefix(tag, "W/")
	eachTag(asked, func(t string) bool {
		held, c := plain(t)
		if c == 0 || strings.TrimPrefix(held, "W/") != weakly || accepted(&p.x.Req.Fields).Best(c) == 0 {
			return true
		}
		f.Set("ETag", coded(tag, c, false))
		return false
	})
}
