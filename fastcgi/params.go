package fastcgi

import (
	"encoding/binary"
	"fmt"

	"httpjet/exchange"
	"httpjet/gateway"
)

const (
	maxField      = 64 << 10 // bytes of one name or one value (R-FCGI-4)
	defaultParams = 1 << 20  // bytes of all pairs, encoded
)

// params are the CGI variables of one request. CONTENT_LENGTH is ours: whatever
// the list says, the application hears the length that STDIN has (R-FCGI-6).
type params struct {
	list   *exchange.Fields
	length string // value of CONTENT_LENGTH, "" for none
}

// newParams takes the variables of a request.
func newParams(r gateway.Request) params {
	if r.Call.Params == nil {
		return params{&exchange.Fields{}, r.Digits}
	}
	return params{r.Call.Params, r.Digits}
}

// pairs yields what goes on the wire.
func (p params) pairs(yield func(name, value string) bool) {
	if p.length != "" && !yield("CONTENT_LENGTH", p.length) {
		return
	}
	for name, value := range p.list.All() {
		if exchange.EqualName(name, "CONTENT_LENGTH") {
			continue
		}
		if !yield(name, value) {
			return
		}
	}
}

// size returns the encoded size of all pairs. It is asked before any memory is
// taken.
func (p params) size(limit int) (int, error) {
	total := 0
	for name, value := range p.pairs {
		if len(name) > maxField || len(value) > maxField {
			return 0, fmt.Errorf("variable %.40q is over %d bytes", name, maxField)
		}
		total += lengthSize(len(name)) + lengthSize(len(value)) + len(name) + len(value)
		if total > limit {
			return 0, fmt.Errorf("variables are over %d bytes", limit)
		}
	}
	return total, nil
}

// appendTo encodes the pairs as a stream of PARAMS records with its empty end
// record. size is what p.size returned.
func (p params) appendTo(b []byte, size int) []byte {
	s := recordSplitter{b: b, left: size}
	for name, value := range p.pairs {
		var lens [8]byte
		s.write(appendLength(appendLength(lens[:0], len(name)), len(value)))
		s.writeString(name)
		s.writeString(value)
	}
	if s.left != 0 {
		panic("BUG: fastcgi: variables changed while they were encoded")
	}
	return appendHeader(s.b, header{typ: typeParams})
}

// recordSplitter cuts a stream of known length into PARAMS records. A pair may
// lie across two of them (§3.3, §3.4).
type recordSplitter struct {
	b    []byte
	left int // bytes of the stream still to come
	room int // content bytes left in the open record
}

func (s *recordSplitter) write(p []byte) { s.writeString(string(p)) }

func (s *recordSplitter) writeString(p string) {
	for p != "" {
		if s.room == 0 {
			s.room = min(s.left, fullContent)
			s.b = appendHeader(s.b, header{typ: typeParams, content: s.room})
		}
		n := min(len(p), s.room)
		s.b = append(s.b, p[:n]...)
		p = p[n:]
		s.room -= n
		s.left -= n
	}
}

// lengthSize is the number of bytes that appendLength takes.
func lengthSize(n int) int {
	if n < 128 {
		return 1
	}
	return 4
}

// appendLength encodes the length of a name or value (§3.4).
func appendLength(b []byte, n int) []byte {
	if n < 128 {
		return append(b, byte(n))
	}
	return binary.BigEndian.AppendUint32(b, uint32(n)|1<<31)
}
