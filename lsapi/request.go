package lsapi

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"httpjet/exchange"
	"httpjet/gateway"
)

const (
	beginLen = headerLen + 9*4
	knownLen = 25*2 + 2 + 25*4 // the index of known fields
	otherLen = 4 * 4           // one other field in the index
	maxEnv   = 8192            // variables that lsphp takes
	minBody  = -2              // body length that refers to CONTENT_LENGTH
)

// known are the variables of the fields that have a place in the index, in its
// order. The application makes the variables of all others out of their names.
var known = [25]string{
	"HTTP_ACCEPT", "HTTP_ACCEPT_CHARSET", "HTTP_ACCEPT_ENCODING", "HTTP_ACCEPT_LANGUAGE", "HTTP_AUTHORIZATION",
	"HTTP_CONNECTION", "CONTENT_TYPE", "CONTENT_LENGTH", "HTTP_COOKIE", "HTTP_COOKIE2", "HTTP_HOST", "HTTP_PRAGMA",
	"HTTP_REFERER", "HTTP_USER_AGENT", "HTTP_CACHE_CONTROL", "HTTP_IF_MODIFIED_SINCE", "HTTP_IF_MATCH",
	"HTTP_IF_NONE_MATCH", "HTTP_IF_RANGE", "HTTP_IF_UNMODIFIED_SINCE", "HTTP_KEEP_ALIVE", "HTTP_RANGE",
	"HTTP_X_FORWARDED_FOR", "HTTP_VIA", "HTTP_TRANSFER_ENCODING",
}

// pointed are the variables that the head of the packet points at, in its order.
// They are there even if they are empty.
var pointed = [4]string{"SCRIPT_FILENAME", "SCRIPT_NAME", "QUERY_STRING", "REQUEST_METHOD"}

// isField tells the variables that travel as fields of the request: those of its
// own fields, and the description of its body. All others are its environment.
func isField(name string) bool {
	return strings.HasPrefix(name, "HTTP_") || name == "CONTENT_TYPE" || name == "CONTENT_LENGTH"
}

// variables yields the variables of r. CONTENT_LENGTH is ours.
func variables(r gateway.Request) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		if r.Digits != "" && !yield("CONTENT_LENGTH", r.Digits) {
			return
		}
		if r.Call.Params == nil {
			return
		}
		list := r.Call.Params
		for i := range list.Len() {
			f := list.At(i)
			if len(f.Name) == len("CONTENT_LENGTH") && exchange.EqualName(f.Name, "CONTENT_LENGTH") {
				continue
			}
			if !yield(f.Name, f.Value) {
				return
			}
		}
	}
}

// Measure returns the length of the packet. What is in it ends in NUL or CRLF, so
// that none of these may be inside (R-HDR-8: 400), and the application has bounds
// (431).
func (protocol) Measure(r gateway.Request) (int, error) {
	env, fields, others, count := 0, 1, 0, 0
	var there [len(pointed)]bool
	for name, value := range variables(r) {
		if strings.IndexByte(name, 0) >= 0 || strings.IndexByte(value, 0) >= 0 || isField(name) && (strings.IndexByte(value, '\r') >= 0 || strings.IndexByte(value, '\n') >= 0) {
			return 0, &exchange.Error{Status: 400, Reason: "bad_request", Err: fmt.Errorf("control byte in variable %.40q", name)}
		}
		if isField(name) {
			fields += len(bare(name)) + len(value) + len(": \r\n")
			if indexOf(name) < 0 {
				others++
			}
			continue
		}
		if i := pointedAt(name); i >= 0 {
			there[i] = true
		}
		env, count = env+4+len(name)+1+len(value)+1, count+1
	}
	for i, name := range pointed {
		if !there[i] {
			env, count = env+4+len(name)+2, count+1
		}
	}
	special := 0
	for i := range r.Call.PHP {
		special += specialLen(&r.Call.PHP[i])
	}
	size := pad(beginLen+special+4+env+4) + knownLen + others*otherLen + fields
	if size > maxRequest || count > maxEnv || len(r.Call.PHP) > maxEnv {
		return 0, &exchange.Error{Status: 431, Reason: "request_head_too_large",
			Err: fmt.Errorf("head of %d bytes and %d variables: an LSAPI application takes %d and %d", size, count, maxRequest, maxEnv)}
	}
	return size, nil
}

// Append encodes BEGIN_REQUEST. Offsets are from the begin of the packet, those of
// fields from the begin of the block of fields.
func (protocol) Append(b []byte, r gateway.Request, size int) []byte {
	at := len(b)
	b = appendHeader(b, typeBegin, size)
	b = append(b, make([]byte, beginLen-headerLen)...) // filled in below
	for i := range r.Call.PHP {
		b = appendSetting(b, &r.Call.PHP[i])
	}
	b = append(b, 0, 0, 0, 0)
	var offsets [len(pointed)]int
	count := 0
	add := func(name, value string) {
		b = appendVariable(b, name, value)
		count++
		if i := pointedAt(name); i >= 0 {
			offsets[i] = len(b) - at - len(value) - 1
		}
	}
	for name, value := range variables(r) {
		if !isField(name) {
			add(name, value)
		}
	}
	for i, name := range pointed {
		if offsets[i] == 0 {
			add(name, "")
		}
	}
	b = append(b, 0, 0, 0, 0)
	for (len(b)-at)%8 != 0 {
		b = append(b, 0)
	}
	b, block, others := appendFields(b, r)
	if len(b)-at != size {
		panic("BUG: lsapi: variables changed while they were encoded")
	}
	head := b[at+headerLen:]
	for i, v := range [9]int{block, bodyLength(r.Length), offsets[0], offsets[1], offsets[2], offsets[3], others, count, len(r.Call.PHP)} {
		binary.LittleEndian.PutUint32(head[4*i:], uint32(int32(v)))
	}
	return b
}

// appendFields encodes the index and the block of fields.
func appendFields(b []byte, r gateway.Request) (out []byte, block, others int) {
	index := len(b)
	for name := range variables(r) {
		if isField(name) && indexOf(name) < 0 {
			others++
		}
	}
	start := index + knownLen + others*otherLen
	b = slices.Grow(b, start-index)[:start]
	clear(b[index:])
	next := index + knownLen
	for name, value := range variables(r) {
		if !isField(name) {
			continue
		}
		nameAt := len(b) - start
		b = appendFieldName(b, name)
		nameLen := len(b) - start - nameAt
		b = append(b, ": "...)
		valueAt := len(b) - start
		b = append(append(b, value...), "\r\n"...)
		if i := indexOf(name); i >= 0 {
			binary.LittleEndian.PutUint16(b[index+2*i:], uint16(len(value)))
			binary.LittleEndian.PutUint32(b[index+52+4*i:], uint32(valueAt))
			continue
		}
		for i, v := range [4]int{nameAt, nameLen, valueAt, len(value)} {
			binary.LittleEndian.PutUint32(b[next+4*i:], uint32(v))
		}
		next += otherLen
	}
	b = append(b, 0)
	return b, len(b) - start, others
}

// appendVariable encodes a variable. These lengths alone are big-endian.
func appendVariable(b []byte, name, value string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(name)+1))
	b = binary.BigEndian.AppendUint16(b, uint16(len(value)+1))
	b = append(append(b, name...), 0)
	return append(append(b, value...), 0)
}

// Settings of PHP are special variables: what their names begin with says who they
// come from. PHP lets nobody change what an administrator has set, whatever the order.
const (
	settingOfDirectory = "\x01\x01"
	settingOfAdmin     = "\x01\x04"
)

func settingPrefix(s *exchange.Setting) string {
	if s.Fixed {
		return settingOfAdmin
	}
	return settingOfDirectory
}

// specialLen is how many bytes appendSetting appends.
func specialLen(s *exchange.Setting) int {
	return 4 + len(settingOfAdmin) + len(s.Name) + 1 + len(s.Value) + 1
}

func appendSetting(b []byte, s *exchange.Setting) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(settingOfAdmin)+len(s.Name)+1))
	b = binary.BigEndian.AppendUint16(b, uint16(len(s.Value)+1))
	b = append(append(append(b, settingPrefix(s)...), s.Name...), 0)
	return append(append(b, s.Value...), 0)
}

// bare is the part of a variable that comes from the name of its field.
func bare(variable string) string { return strings.TrimPrefix(variable, "HTTP_") }

// appendFieldName appends the name of the field that became a variable: "X-Foo-Bar"
// of HTTP_X_FOO_BAR. Only names of letters, digits and '-' became variables, so that
// nothing but their case is lost.
func appendFieldName(b []byte, variable string) []byte {
	begin := true
	name := bare(variable)
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			b = append(b, '-')
		case 'A' <= c && c <= 'Z' && !begin:
			b = append(b, c+'a'-'A')
		default:
			b = append(b, c)
		}
		begin = c == '_'
	}
	return b
}

// bodyLength is how the packet says n.
func bodyLength(n int64) int {
	if n > math.MaxInt32 {
		return minBody
	}
	return int(n)
}

// places are those of the fields in the index.
var places = func() map[string]int {
	m := make(map[string]int, len(known))
	for i, name := range known {
		m[name] = i
	}
	return m
}()

// indexOf returns the place of a field in the index, -1 for others.
func indexOf(name string) int {
	if i, ok := places[name]; ok {
		return i
	}
	return -1
}

func pointedAt(name string) int {
	switch name {
	case "SCRIPT_FILENAME":
		return 0
	case "SCRIPT_NAME":
		return 1
	case "QUERY_STRING":
		return 2
	case "REQUEST_METHOD":
		return 3
	}
	return -1
}

func pad(n int) int { return (n + 7) &^ 7 }
