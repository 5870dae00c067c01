package lsapi

import (
	"encoding/binary"
	"fmt"
)

// Packet types.
const (
	typeBegin    = 1
	typeAbort    = 2
	typeHead     = 3
	typeBody     = 4
	typeEnd      = 5
	typeStderr   = 6
	typeReceived = 7 // the request was read
	typeClose    = 8 // the application is about to close
	typeError    = 9 // the application could not handle the request
)

const (
	headerLen = 8
	bigEndian = 1 // bit of the flag byte

	maxPacket  = 1 << 20  // bytes of one packet of STDERR or of a body (R-LSAPI-2)
	maxHead    = 64 << 10 // bytes of a response head, the packet's header included
	maxRequest = 65535    // bytes of a request head; lsphp takes no more
)

// header is the header of a packet of an application.
type header struct {
	typ     byte
	content int // bytes behind the header
	order   binary.ByteOrder
}

// appendHeader encodes the header of a packet of size bytes, itself included. We
// write little-endian whatever the machine is: the flag byte says so.
func appendHeader(b []byte, typ byte, size int) []byte {
	return binary.LittleEndian.AppendUint32(append(b, 'L', 'S', typ, 0), uint32(size))
}

// parseHeader decodes b[:8]. Only packets that an application may send pass, and
// those with a bound that fits their type.
func parseHeader(b []byte) (header, error) {
	_ = b[headerLen-1]
	h := header{typ: b[2], order: binary.LittleEndian}
	if b[0] != 'L' || b[1] != 'S' {
		return h, fmt.Errorf("packet begins % x", b[:2])
	}
	if b[3]&^bigEndian != 0 {
		return h, fmt.Errorf("packet with flags %#x", b[3])
	}
	if b[3] == bigEndian {
		h.order = binary.BigEndian
	}
	size := int64(int32(h.order.Uint32(b[4:])))
	least, most := int64(headerLen), int64(headerLen)
	switch h.typ {
	case typeHead:
		least, most = headerLen+8, maxHead
	case typeBody, typeStderr:
		most = maxPacket
	case typeEnd, typeReceived, typeClose:
	case typeError:
		most = maxPacket
	default:
		return h, fmt.Errorf("packet of type %d", h.typ)
	}
	if size < least || size > most {
		return h, fmt.Errorf("packet of type %d and %d bytes: it may have %d to %d", h.typ, size, least, most)
	}
	h.content = int(size) - headerLen
	return h, nil
}
