package h2

import (
	"strings"

	"golang.org/x/net/http2/hpack"

	"httpjet/exchange"
)

// TableSize is the size of the dynamic table that clients may fill.
const TableSize = 4096

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

// Decoder decodes the field blocks of one connection. All of them have to pass
// through it in their order, because each may change the table.
type Decoder struct {
	hp   *hpack.Decoder
	head *Head
}

// NewDecoder returns a decoder for a new connection.
func NewDecoder() *Decoder {
	d := &Decoder{}
	d.hp = hpack.NewDecoder(TableSize, d.emit)
	return d
}

// Decode decodes a whole block into head, whose Fields are set: at most most bytes,
// each field counted with 32 more; what is beyond is decoded and dropped. head is
// nil for a block that nobody wants. The error is a *ConnError.
func (d *Decoder) Decode(block []byte, head *Head, most int, trailers bool) error {
	if head == nil {
		head = &Head{Fields: &exchange.Fields{}, Malformed: "unwanted"}
	} else {
		*head = Head{Fields: head.Fields, most: most, trailers: trailers, crumbs: head.crumbs[:0]}
	}
	head.cookie = -1
	d.head = head
	_, err := d.hp.Write(block)
	if e := d.hp.Close(); err == nil {
		err = e
	}
	d.head = nil
	if err != nil {
		return &ConnError{CompressionError, "field block cannot be decoded"}
	}
	head.end()
	return nil
}

// emit takes one field (RFC 9113 §8.2, §8.3).
func (d *Decoder) emit(f hpack.HeaderField) {
	h := d.head
	if h.Malformed != "" || h.Large {
		return
	}
	if h.size += len(f.Name) + len(f.Value) + 32; h.size > h.most {
		h.Large = true
		return
	}
	if !validValue(f.Value) {
		h.Malformed = "control byte in a field value"
		return
	}
	if f.Name != "" && f.Name[0] == ':' {
		h.pseudo(f.Name, f.Value)
		return
	}
	h.regular = true
	if !validName(f.Name) {
		h.Malformed = "malformed field name"
		return
	}
	h.field(f.Name, trim(f.Value))
}

// pseudo takes a pseudo-header field: each once, before all other fields, and none in
// trailers.
func (h *Head) pseudo(name, value string) {
	var to *string
	var bit uint8
	switch name {
	case ":method":
		to, bit = &h.Method, seenMethod
	case ":scheme":
		to, bit = &h.Scheme, seenScheme
	case ":authority":
		to, bit = &h.Authority, seenAuthority
	case ":path":
		to, bit = &h.Path, seenPath
	case ":protocol":
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
	}
	if h.Malformed == "" {
		h.seen |= bit
		*to = value
	}
}

// field takes another field. The length of the name is looked at first: most names
// are decided by it.
func (h *Head) field(name, value string) {
	switch len(name) {
	case 2:
		if name == "te" && !strings.EqualFold(value, "trailers") { // RFC 9113 §8.2.2
			h.Malformed = "te other than trailers"
			return
		}
	case 4:
		if name == "host" {
			h.Host = value
			h.Hosts++
			return
		}
	case 6:
		if name == "cookie" && h.crumb(value) {
			return
		}
		if name == "expect" && strings.EqualFold(value, "100-continue") {
			h.Expect = true
		}
	case 7:
		if name == "upgrade" {
			h.Malformed = ofConnection
			return
		}
	case 8:
		if name == "priority" {
			h.Priority = value
		}
	case 10:
		if name == "connection" || name == "keep-alive" {
			h.Malformed = ofConnection
			return
		}
	case 14:
		if name == "content-length" {
			h.Length = value
			h.Lengths++
			return
		}
	case 16:
		if name == "proxy-connection" {
			h.Malformed = ofConnection
			return
		}
	case 17:
		if name == "transfer-encoding" {
			h.Malformed = ofConnection
			return
		}
	}
	h.Fields.Add(name, value)
}

const ofConnection = "field of an HTTP/1 connection"

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

func validValue(s string) bool {
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
