// Package h1 is HTTP/1 messages as bytes, in both directions: it reads heads and
// bodies from an io.Reader, parses heads into an exchange, and appends heads and
// chunks to a slice. It follows RFC 9112 to the letter, because two programs that
// disagree about where a message ends can be made to answer the wrong client.
//
// It owns no socket, knows no deadline, never answers anybody, and decides
// nothing about which fields may pass a hop.
package h1

import (
	"net/netip"
	"strings"
)

// SyntaxError says why a message cannot be accepted. Status is the answer for
// a request: 400, 414, 431, 501 or 505. In a response it only tells an oversized
// head (431) from a malformed one.
type SyntaxError struct {
	Status int
	Msg    string
}

func (e *SyntaxError) Error() string { return e.Msg }

// Reason is the token of a request that is refused so.
func (e *SyntaxError) Reason() string {
	switch e.Status {
	case 414:
		return "uri_too_long"
	case 431:
		return "request_head_too_large"
	}
	return "bad_request"
}

// bad is the answer to nearly everything.
func bad(msg string) *SyntaxError { return &SyntaxError{400, msg} }

// Fixed bounds (spec §39).
const (
	maxChunkLine      = 8 << 10 // a chunk-size line with its extensions
	maxTrailerBytes   = 8 << 10 // all trailer lines of one body
	maxMethod         = 32      // longer methods are 501
	maxResponseFields = 512
	maxTrailers       = 100
)

// Classes of bytes, RFC 9110 §5.6.2 and RFC 3986 appendix A.
const (
	classToken  = 1 << iota // tchar
	classValue              // field-vchar, SP and HTAB
	classTarget             // may stand in a request target
	classHost               // reg-name
)

var class = classes()

// classes fills the table once; it is never changed.
func classes() (t [256]uint8) {
	for c := range 256 {
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if alnum || c < 0x80 && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0 {
			t[c] |= classToken
		}
		if c == '\t' || c >= ' ' && c != 0x7f {
			t[c] |= classValue
		}
		// Bytes above 0x7f and a few others are not URI characters, but
		// clients send them and they are harmless: they end no line and no
		// element. A fragment has no business on the wire.
		if c > ' ' && c != 0x7f && c != '#' {
			t[c] |= classTarget
		}
		if alnum || c < 0x80 && strings.IndexByte("-._~%!$&'()*+,;=", byte(c)) >= 0 {
			t[c] |= classHost
		}
	}
	return t
}

// all reports whether every byte of s is of one of the classes in mask.
func all(s string, mask uint8) bool {
	for i := range len(s) {
		if class[s[i]]&mask == 0 {
			return false
		}
	}
	return true
}

// ValidToken reports whether s is a method or field name (RFC 9110 §5.6.2). Nearly
// all field names are letters and hyphens, which are seen eight at once.
func ValidToken(s string) bool {
	if len(s) < 8 {
		return s != "" && all(s, classToken)
	}
	for i := 0; i+8 <= len(s); i += 8 {
		if !plainName(word(s, i)) {
			return all(s, classToken)
		}
	}
	return plainName(word(s, len(s)-8)) || all(s, classToken)
}

// ValidValue reports whether s may be a field value: no CR, LF, NUL or other
// control but HTAB.
func ValidValue(s string) bool {
	if len(s) < 8 {
		return all(s, classValue)
	}
	for i := 0; i+8 <= len(s); i += 8 {
		if controls(word(s, i)) {
			return all(s, classValue) // it may be HTAB
		}
	}
	return !controls(word(s, len(s)-8)) || all(s, classValue)
}

// word returns the eight bytes of s from i.
func word(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// controls reports whether one of the eight bytes of w is below 0x20 or is 0x7f.
// A byte borrows from the next one only if it is itself one of those.
func controls(w uint64) bool {
	del := w ^ 0x7f*ones
	return ((w-0x20*ones)&^w|(del-ones)&^del)&highs != 0
}

// plainName reports whether the eight bytes of w are letters and hyphens. Below
// 0x80, what is added to a byte carries into no other.
func plainName(w uint64) bool {
	if w&highs != 0 {
		return false
	}
	lower := w | 0x20*ones
	letter := (lower + (0x80-'a')*ones) &^ (lower + (0x7f-'z')*ones)
	hyphen := ^((w ^ '-'*ones) + 0x7f*ones)
	return (letter|hyphen)&highs == highs
}

// ValidTarget reports whether s may stand in a request line as origin form.
func ValidTarget(s string) bool { return s != "" && s[0] == '/' && all(s, classTarget) }

// ValidHost reports whether s is uri-host [ ":" port ] (RFC 9112 §3.2). The
// empty host is valid; user information is not.
func ValidHost(s string) bool {
	host, port := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return false
		}
		a, err := netip.ParseAddr(s[1:end])
		if err != nil || !a.Is6() || a.Zone() != "" {
			return false
		}
		host, port = "", s[end+1:]
		if port != "" && port[0] != ':' {
			return false
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 {
		host, port = s[:i], s[i:]
		if host == "" {
			return false
		}
	}
	return all(host, classHost) && (port == "" || validPort(port[1:]))
}

func validPort(s string) bool {
	if len(s) > 5 {
		return false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n <= 65535
}

// parseLength reads a Content-Length: 1*DIGIT that fits an int64.
func parseLength(s string) (int64, bool) {
	if s == "" || len(s) > 19 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return int64(n), n < 1<<63
}
