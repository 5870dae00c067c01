package exchange

import "iter"

// Field is one header field; names compare without case.
type Field struct{ Name, Value string }

// Fields is an ordered list of header fields. Names keep their spelling.
type Fields struct {
	list  []Field
	ready *Ready // the first ones are as they are in it; nil: nothing is known of them
}

// Len returns the number of fields.
func (f *Fields) Len() int { return len(f.list) }

// At returns field i; 0 <= i < Len.
func (f *Fields) At(i int) Field { return f.list[i] }

// Reset empties f and keeps its memory.
func (f *Fields) Reset() {
	clear(f.list)
	f.list, f.ready = f.list[:0], nil
}

// Add appends a field.
func (f *Fields) Add(name, value string) { f.list = append(f.list, Field{name, value}) }

// Get returns the first value of name, or "".
func (f *Fields) Get(name string) string {
	for i := range f.list {
		if EqualName(f.list[i].Name, name) {
			return f.list[i].Value
		}
	}
	return ""
}

// Has reports whether a field called name exists, empty or not.
func (f *Fields) Has(name string) bool {
	for i := range f.list {
		if EqualName(f.list[i].Name, name) {
			return true
		}
	}
	return false
}

// Values iterates over all values of name in order.
func (f *Fields) Values(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range f.list {
			if EqualName(f.list[i].Name, name) && !yield(f.list[i].Value) {
				return
			}
		}
	}
}

// Set gives name one value, at the place of its first field or at the end.
func (f *Fields) Set(name, value string) {
	for i := range f.list {
		if EqualName(f.list[i].Name, name) {
			f.touch(i)
			f.list[i] = Field{name, value}
			f.keep(i+1, func(fd Field) bool { return !EqualName(fd.Name, name) })
			return
		}
	}
	f.Add(name, value)
}

// Del removes every field called name.
func (f *Fields) Del(name string) {
	f.keep(0, func(fd Field) bool { return !EqualName(fd.Name, name) })
}

// DelFunc removes the fields for which drop is true.
func (f *Fields) DelFunc(drop func(Field) bool) {
	f.keep(0, func(fd Field) bool { return !drop(fd) })
}

func (f *Fields) keep(from int, ok func(Field) bool) {
	n := from
	for n < len(f.list) && ok(f.list[n]) {
		n++
	}
	if n == len(f.list) {
		return // as mostly
	}
	f.touch(n)
	kept := f.list[:n]
	for _, fd := range f.list[n+1:] {
		if ok(fd) {
			kept = append(kept, fd)
		}
	}
	clear(f.list[len(kept):])
	f.list = kept
}

// All iterates over names and values in order.
func (f *Fields) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := range f.list {
			if !yield(f.list[i].Name, f.list[i].Value) {
				return
			}
		}
	}
}

// Tokens iterates over the comma-separated elements of every field called name
// (RFC 9110 §5.6.1), trimmed, empty ones left out.
func (f *Fields) Tokens(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for v := range f.Values(name) {
			for v != "" {
				var tok string
				tok, v = cutComma(v)
				if tok != "" && !yield(tok) {
					return
				}
			}
		}
	}
}

// HasToken reports whether the list field name holds token, in any case.
func (f *Fields) HasToken(name, token string) bool {
	for i := range f.list {
		if !EqualName(f.list[i].Name, name) {
			continue
		}
		for v := f.list[i].Value; v != ""; {
			var tok string
			if tok, v = cutComma(v); EqualName(tok, token) {
				return true
			}
		}
	}
	return false
}

func cutComma(v string) (tok, rest string) {
	i := 0
	for i < len(v) && v[i] != ',' {
		i++
	}
	tok, rest = v[:i], ""
	if i < len(v) {
		rest = v[i+1:]
	}
	for tok != "" && (tok[0] == ' ' || tok[0] == '\t') {
		tok = tok[1:]
	}
	for tok != "" && (tok[len(tok)-1] == ' ' || tok[len(tok)-1] == '\t') {
		tok = tok[:len(tok)-1]
	}
	return tok, rest
}

// AppendLower appends s, ASCII letters in lower case.
func AppendLower(b []byte, s string) []byte {
	n := len(b)
	b = append(b, s...)
	for i, c := range b[n:] {
		if 'A' <= c && c <= 'Z' {
			b[n+i] = c + 'a' - 'A'
		}
	}
	return b
}

// EqualName compares two field names, folding ASCII case only.
func EqualName(a, b string) bool { return len(a) == len(b) && equalFold(a, b) }

// equalFold is EqualName for names of one length.
func equalFold(a, b string) bool {
	for i := range len(a) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if 'A' <= x && x <= 'Z' {
			x += 'a' - 'A'
		}
		if 'A' <= y && y <= 'Z' {
			y += 'a' - 'A'
		}
		if x != y {
			return false
		}
	}
	return true
}
