package freshness

import (
	"strconv"
	"strings"
	"time"

	"httpjet/exchange"
)

// Conditional reports whether a request has a condition that a cache may evaluate.
func Conditional(req *exchange.Fields) bool {
	return req.Has("If-None-Match") || req.Has("If-Modified-Since")
}

// NotModified reports whether the client of a conditional request has the stored
// response already (RFC 9111 §4.3.2). If-None-Match goes before If-Modified-Since; a
// response without Last-Modified is as old as its Date.
func NotModified(req *exchange.Fields, stored *Head, now time.Time) bool {
	if req.Has("If-None-Match") {
		return stored.ETag != "" && matches(req, stored.ETag)
	}
	since, ok := ParseDate(req.Get("If-Modified-Since"), now)
	return ok && !stored.modified().IsZero() && !stored.modified().After(since)
}

// Head is what validators and conditions need of a stored response.
type Head struct {
	ETag         string
	LastModified string
	Modified     time.Time // of LastModified; zero: there is none that can be read
	Date         time.Time // of the origin; zero: not told
}

// HeadOf reads it from the fields of a response.
func HeadOf(f *exchange.Fields, now time.Time) Head {
	h := Head{ETag: f.Get("ETag"), LastModified: f.Get("Last-Modified")}
	h.Modified, _ = ParseDate(h.LastModified, now)
	h.Date, _ = ParseDate(f.Get("Date"), now)
	return h
}

func (h *Head) modified() time.Time {
	if h.LastModified == "" {
		return h.Date
	}
	return h.Modified
}

// matches compares weakly: what W/ says does not count (RFC 9110 §13.1.2).
func matches(req *exchange.Fields, tag string) bool {
	tag = opaque(tag)
	for list := range req.Values("If-None-Match") {
		for list = trimLeft(list); list != ""; {
			if list[0] == '*' && trimRight(list) == "*" {
				return true
			}
			end := tagEnd(list)
			if opaque(trimRight(list[:end])) == tag {
				return true
			}
			list = list[end:]
			for list != "" && (list[0] == ',' || list[0] == ' ' || list[0] == '\t') {
				list = list[1:]
			}
		}
	}
	return false
}

func opaque(tag string) string { return strings.TrimPrefix(tag, "W/") }

// tagEnd is where the first entity tag of a list ends. Commas within quotes are part
// of it; a tag without quotes ends before its comma.
func tagEnd(list string) int {
	i := 0
	if strings.HasPrefix(list, "W/") {
		i = 2
	}
	if i < len(list) && list[i] == '"' {
		if j := strings.IndexByte(list[i+1:], '"'); j >= 0 {
			return i + 1 + j + 1
		}
	}
	if j := strings.IndexByte(list, ','); j > 0 {
		return j
	}
	return len(list)
}

// Conditions are the fields that make a request conditional or partial; a cache that
// asks for itself takes them off.
func Conditions(name string) bool {
	switch len(name) {
	case 5:
		return exchange.EqualName(name, "Range")
	case 8:
		return exchange.EqualName(name, "If-Match") || exchange.EqualName(name, "If-Range")
	case 13:
		return exchange.EqualName(name, "If-None-Match")
	case 17:
		return exchange.EqualName(name, "If-Modified-Since")
	case 19:
		return exchange.EqualName(name, "If-Unmodified-Since")
	}
	return false
}

// Span is the part of a stored response that a request with Range gets.
type Span struct{ Off, Len int64 }

// Range says what a request with Range gets of a whole of size bytes: part is false if
// it gets all, whatever it asked for; ok is false if what it wants is not there (RFC
// 9110 §14.2). Of several ranges it gets the whole.
func Range(req *exchange.Fields, stored *Head, size int64, now time.Time) (s Span, part, ok bool) {
	v, isBytes := strings.CutPrefix(req.Get("Range"), "bytes=")
	if !isBytes || strings.IndexByte(v, ',') >= 0 || req.Has("If-Range") && !stored.sameFor(req.Get("If-Range"), now) {
		return Span{}, false, true
	}
	first, last, dash := strings.Cut(trimRight(trimLeft(v)), "-")
	from, okFrom := offset(first)
	to, okTo := offset(last)
	switch {
	case !dash || first == "" && last == "" || first != "" && !okFrom || last != "" && !okTo:
		return Span{}, false, true // no range that anybody knows
	case first == "": // the last bytes
		n := min(to, size)
		return Span{size - n, n}, true, n > 0
	case last != "" && to < from:
		return Span{}, false, true
	case from >= size:
		return Span{}, true, false
	case last == "":
		to = size - 1
	}
	return Span{from, min(to, size-1) - from + 1}, true, true
}

// Of is the Content-Range of the part of a whole of size bytes.
func (s Span) Of(size int64) string {
	b := strconv.AppendInt(append(make([]byte, 0, 64), "bytes "...), s.Off, 10)
	b = strconv.AppendInt(append(b, '-'), s.Off+s.Len-1, 10)
	return string(strconv.AppendInt(append(b, '/'), size, 10))
}

// NoneOf is the Content-Range of a 416: what was asked for is not in a whole of size
// bytes.
func NoneOf(size int64) string { return "bytes */" + strconv.FormatInt(size, 10) }

// offset reads a position; a huge one is as good as the largest.
func offset(v string) (n int64, ok bool) {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		if n < 1<<58 {
			n = n*10 + int64(v[i]-'0')
		}
	}
	return n, v != ""
}

// sameFor reports whether an If-Range is about the stored response: by a strong tag,
// or by a date that is strong because the origin wrote it later than the second in
// which it changed (RFC 9110 §8.8.2.2, §13.1.5).
func (h *Head) sameFor(v string, now time.Time) bool {
	if strings.HasPrefix(v, `"`) {
		return v == h.ETag
	}
	t, ok := ParseDate(v, now)
	return ok && !h.Modified.IsZero() && t.Equal(h.Modified) && h.Date.After(h.Modified)
}
