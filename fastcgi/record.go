package fastcgi

import (
	"encoding/binary"
	"fmt"
)

// Record types (FastCGI 1.0 §8).
const (
	typeBegin  = 1
	typeAbort  = 2
	typeEnd    = 3
	typeParams = 4
	typeStdin  = 5
	typeStdout = 6
	typeStderr = 7
)

const (
	version1       = 1
	requestID      = 1 // one request at a time on a connection
	headerLen      = 8
	endLen         = 8 // content of END_REQUEST, always
	roleResponder  = 1
	roleAuthorizer = 2
	flagKeepConn   = 1
	maxContent     = 65535 // content bytes of one record
	// fullContent is what we put into a full record: a multiple of 8, so it
	// needs no padding (§3.3).
	fullContent = 65528
)

// header is a record header (§3.3) without version and request id, which are
// the same in all.
type header struct {
	typ     byte
	content int // 0 to 65,535
	padding int // 0 to 255
}

// appendHeader encodes a header.
func appendHeader(b []byte, h header) []byte {
	return append(b, version1, h.typ, 0, requestID, byte(h.content>>8), byte(h.content), byte(h.padding), 0)
}

// parseHeader decodes b[:8], a header that an application sent. Only records
// that may answer our request pass: R-FCGI-4.
func parseHeader(b []byte) (header, error) {
	_ = b[headerLen-1]
	h := header{typ: b[1], content: int(binary.BigEndian.Uint16(b[4:])), padding: int(b[6])}
	switch {
	case b[0] != version1:
		return h, fmt.Errorf("record of version %d", b[0])
	case h.typ != typeStdout && h.typ != typeStderr && h.typ != typeEnd:
		return h, fmt.Errorf("record of type %d", h.typ)
	case binary.BigEndian.Uint16(b[2:]) != requestID:
		return h, fmt.Errorf("record for request %d", binary.BigEndian.Uint16(b[2:]))
	case h.typ == typeEnd && h.content != endLen:
		return h, fmt.Errorf("END_REQUEST of %d bytes", h.content)
	}
	return h, nil
}

// appendBegin encodes BEGIN_REQUEST (§5.1).
func appendBegin(b []byte, role byte, keep bool) []byte {
	var flags byte
	if keep {
		flags = flagKeepConn
	}
	b = appendHeader(b, header{typ: typeBegin, content: 8})
	return append(b, 0, role, flags, 0, 0, 0, 0, 0)
}

// protocolStatus names the states of an END_REQUEST body (§5.5).
func protocolStatus(s byte) string {
	switch s {
	case 1:
		return "cannot multiplex"
	case 2:
		return "overloaded"
	case 3:
		return "unknown role"
	}
	return fmt.Sprintf("protocol status %d", s)
}
