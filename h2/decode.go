package h2

import (
	"strings"

	"httpjet/exchange"
)

// Head is a field section of a client as it is decoded: the head of a request, or its
// trailers. Fields whose place is elsewhere are taken out of the list.
type Head struct {
	Method, Scheme, Authority, Path, Protocol string

	Fields    *exchange.Fields // where the other fields go
	Host      string
	Length    string // Content-Length
	Priority  string
	Expect    bool // 100-continue
	Hosts     int  // how many lines there were
	Lengths   int
	Malformed string // why it is no valid message (RFC 9113 §8.1.1); "": it is
	Large     bool   // more than fits: it is not whole

	trailers bool
	regular  bool // a field that is no pseudo-header field has been seen
	seen     uint8
	size     int
	most     int
	cookie   int    // place of the Cookie field among Fields, -1: none
	crumbs   []byte // all of it, if it came in pieces
}

// Pseudo-header fields that have been seen.
const (
	seenMethod = 1 << iota
	seenScheme
	seenAuthority
	seenPath
	seenProtocol
)

// room makes room for a field of this size, and reports whether it is wanted.
func (h *Head) room(size int) bool {
	if h.Malformed != "" || h.Large {
		return false
	}
	if h.size += size; h.size > h.most {
		h.Large = true
		return false
	}
	return true
}

// put takes a field for which there is room (RFC 9113 §8.2, §8.3).
func (h *Head) put(f *field) {
	switch {
	case f.badValue:
		h.Malformed = "control byte in a field value"
	case f.kind >= pseudoMethod && f.kind <= pseudoOther:
		h.pseudo(f)
	case f.badName:
		h.Malformed = "malformed field name"
	default:
		h.regular = true
		h.field(f)
	}
}

// pseudo takes a pseudo-header field: each once, before all other fields, and none in
// trailers.
func (h *Head) pseudo(f *field) {
	var to *string
	var bit uint8
	switch f.kind {
	case pseudoMethod:
		to, bit = &h.Method, seenMethod
	case pseudoScheme:
		to, bit = &h.Scheme, seenScheme
	case pseudoAuthority:
		to, bit = &h.Authority, seenAuthority
	case pseudoPath:
		to, bit = &h.Path, seenPath
	case pseudoProtocol:
		to, bit = &h.Protocol, seenProtocol
	}
	switch {
	case to == nil:
		h.Malformed = "unknown pseudo-header field"
	case h.trailers:
		h.Malformed = "pseudo-header field in trailers"
	case h.regular:
		h.Malformed = "pseudo-header field behind others"
	case h.seen&bit != 0:
		h.Malformed = "pseudo-header field twice"
	default:
		h.seen |= bit
		*to = f.value
	}
}

// field takes another field.
func (h *Head) field(f *field) {
	switch f.kind {
	case te: // RFC 9113 §8.2.2
		if !strings.EqualFold(f.value, "trailers") {
			h.Malformed = "te other than trailers"
			return
		}
	case ofConnection:
		h.Malformed = "field of an HTTP/1 connection"
		return
	case host:
		h.Host = f.value
		h.Hosts++
		return
	case cookie:
		if h.crumb(f.value) {
			return
		}
	case expect:
		if strings.EqualFold(f.value, "100-continue") {
			h.Expect = true
		}
	case priority:
		h.Priority = f.value
	case contentLength:
		h.Length = f.value
		h.Lengths++
		return
	}
	h.Fields.Add(f.name, f.value)
}

// crumb keeps a piece of a Cookie for the one field that it becomes (RFC 9113 §8.2.3)
// and reports whether there were others before.
func (h *Head) crumb(value string) bool {
	if h.cookie < 0 {
		h.cookie = h.Fields.Len()
		return false
	}
	if len(h.crumbs) == 0 {
		h.crumbs = append(h.crumbs, h.Fields.At(h.cookie).Value...)
	}
	h.crumbs = append(append(h.crumbs, "; "...), value...)
	return true
}

// end applies what only the whole head of a request can break (RFC 9113 §8.3.1,
// §8.5, RFC 8441 §4).
func (h *Head) end() {
	if len(h.crumbs) > 0 {
		h.Fields.Set("cookie", string(h.crumbs))
	}
	if h.Malformed != "" || h.Large || h.trailers {
		return
	}
	const all = seenMethod | seenScheme | seenPath
	connect := h.Method == "CONNECT"
	switch {
	case h.seen&seenProtocol != 0 && !connect:
		h.Malformed = ":protocol without CONNECT"
	case h.seen&seenProtocol != 0 && (h.seen&(all|seenAuthority) != all|seenAuthority || h.Path == "" || h.Scheme == ""):
		h.Malformed = "extended CONNECT without its pseudo-header fields"
	case h.seen&seenProtocol != 0:
	case connect && h.seen != seenMethod|seenAuthority:
		h.Malformed = "CONNECT has :method and :authority alone"
	case connect:
	case h.seen&all != all || h.Method == "" || h.Scheme == "" || h.Path == "":
		h.Malformed = "pseudo-header field is missing"
	case h.Scheme != "http" && h.Scheme != "https": // nothing is translated here
		h.Malformed = "unknown scheme"
	}
}

// Classes of bytes.
const (
	className  = 1 << iota // may stand in a field name: token, lower case
	classValue             // field-vchar, SP and HTAB
)

var class = classes()

// classes fills the table once; it is never changed.
func classes() (t [256]uint8) {
	for c := range 256 {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c < 0x80 && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0 {
			t[c] |= className
		}
		if c == '\t' || c >= ' ' && c != 0x7f {
			t[c] |= classValue
		}
	}
	return t
}

func validName(s string) bool {
	for i := range len(s) {
		if class[s[i]]&className == 0 {
			return false
		}
	}
	return s != ""
}

// validValue looks at eight bytes at once while they are neither below 0x20 nor 0x7f; the
// table has the word about others.
func validValue(s string) bool {
	for len(s) >= 8 {
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		// A byte borrows from the next one only if it is itself one of those.
		del := w ^ 0x7f*ones
		if ((w-0x20*ones)&^w|(del-ones)&^del)&(0x80*ones) != 0 && !eachValid(s[:8]) {
			return false
		}
		s = s[8:]
	}
	return eachValid(s)
}

const ones = 0x0101010101010101

func eachValid(s string) bool {
	for i := range len(s) {
		if class[s[i]]&classValue == 0 {
			return false
		}
	}
	return true
}

// trim cuts the white space around a value, which RFC 9113 §8.2.1 forbids and RFC 9110
// §5.5 has recipients cut.
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
