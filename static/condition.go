package static

import (
	"net/http"
	"strings"

	"httpjet/coding"
	"httpjet/exchange"
)

// verdict is the outcome of the preconditions of a request.
type verdict uint8

const (
	proceed   verdict = iota
	failed            // 412
	unchanged         // 304
)

// check evaluates the preconditions of a GET or HEAD in the order of RFC 9110
// §13.2.2 (R-STATIC-6). A date that cannot be read is no condition. For a 304
// f.etag becomes the tag that the client holds, which may be that of a
// compressed variant.
func (f *file) check(req *exchange.Fields) verdict {
	switch {
	case req.Has("If-Match"):
		if _, ok := f.match(req, "If-Match"); !ok {
			return failed
		}
	case req.Has("If-Unmodified-Since"):
		if t, err := http.ParseTime(req.Get("If-Unmodified-Since")); err == nil && f.modified.After(t) {
			return failed
		}
	}
	switch {
	case req.Has("If-None-Match"):
		tag, ok := f.match(req, "If-None-Match")
		if !ok {
			return proceed
		}
		if tag != "" {
			f.etag = tag
		}
		return unchanged
	case req.Has("If-Modified-Since"):
		if t, err := http.ParseTime(req.Get("If-Modified-Since")); err == nil && !f.modified.After(t) {
			return unchanged
		}
	}
	return proceed
}

// ifRange reports whether a Range may be honoured (RFC 9110 §13.1.5): there is no
// If-Range, or its tag is strong and ours, or its date is exactly ours and
// strong in the sense of §8.8.2.2.
func (f *file) ifRange(req *exchange.Fields) bool {
	if !req.Has("If-Range") {
		return true
	}
	v := req.Get("If-Range")
	if strings.HasPrefix(v, `"`) || strings.HasPrefix(v, "W/") {
		return f.etag != "" && v == f.etag
	}
	t, err := http.ParseTime(v)
	return err == nil && t.Equal(f.modified) && !f.recent
}

// match looks for the file's tag in a list of tags. "*" matches any file; then
// the tag is "".
func (f *file) match(req *exchange.Fields, name string) (tag string, ok bool) {
	for list := range req.Values(name) {
		if strings.TrimSpace(list) == "*" {
			return "", true
		}
		for {
			var isWeak bool
			tag, isWeak, list = nextTag(list)
			if tag == "" {
				break
			}
			switch {
			case f.etag == "" || isWeak && name == "If-Match":
				continue
			case tag != f.etag && !variant(req, tag, f.etag):
				continue
			}
			if isWeak && tag != f.etag {
				tag = "W/" + tag
			}
			return tag, true
		}
	}
	return "", false
}

// nextTag takes the next entity tag off a list; "" at its end, or where it is no
// list of tags any more.
func nextTag(list string) (tag string, isWeak bool, rest string) {
	list = strings.TrimLeft(list, " \t,")
	list, isWeak = strings.CutPrefix(list, "W/")
	if !strings.HasPrefix(list, `"`) {
		return "", false, ""
	}
	end := strings.IndexByte(list[1:], '"')
	if end < 0 {
		return "", false, ""
	}
	return list[:end+2], isWeak, list[end+2:]
}

// variant reports whether tag is that of the same file in another coding, which the
// client takes now: it differs behind the first semicolon only. A client must not be
// told that it may use what it cannot read, as one behind a cache would be that holds
// another client's variant.
func variant(req *exchange.Fields, tag, ours string) bool {
	base, _, _ := strings.Cut(ours, ";")
	rest, ok := strings.CutPrefix(tag, base)
	if !ok {
		return false
	}
	var c coding.Set
	switch rest {
	case `;;;"`:
		return true
	case `;gz"`:
		c = coding.Gzip
	case `;br"`:
		c = coding.Brotli
	case `;zstd"`:
		c = coding.Zstd
	default:
		return false
	}
	return coding.Choose(req.Tokens("Accept-Encoding"), c) != 0
}
