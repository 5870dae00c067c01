// Package h2 is HTTP/2 as bytes, in the direction of a server: frames and their
// payloads, field blocks in and out, flow-control windows, priorities, and the
// budgets that bound what a peer may make a connection do. It follows RFC 9113, 7541,
// 8441 and 9218.
//
// It owns no socket and no goroutine, knows no stream but by its number, waits for
// nothing and decides nothing about requests: the connection loop of package front
// does.
package h2

import (
	"encoding/binary"
	"fmt"
)

// Preface is what a client sends first (RFC 9113 §3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Sizes of frames (RFC 9113 §4.1, §4.2).
const (
	HeaderSize = 9
	MaxFrame   = 16384 // payload bytes that we take, and the most that we send
)

// Type is a type of frame.
type Type uint8

// Types of frames (RFC 9113 §6, RFC 9218 §7.1).
const (
	Data           Type = 0x0
	Headers        Type = 0x1
	Priority       Type = 0x2
	RSTStream      Type = 0x3
	Settings       Type = 0x4
	PushPromise    Type = 0x5
	Ping           Type = 0x6
	GoAway         Type = 0x7
	WindowUpdate   Type = 0x8
	Continuation   Type = 0x9
	PriorityUpdate Type = 0x10
)

// Flags of frames; one bit has different meanings in different types.
const (
	EndStream     = 0x1
	Ack           = 0x1
	EndHeaders    = 0x4
	Padded        = 0x8
	HasDependency = 0x20 // HEADERS begins with the fields of PRIORITY
)

// Code is an error code (RFC 9113 §7).
type Code uint32

// Error codes.
const (
	NoError            Code = 0x0
	ProtocolError      Code = 0x1
	InternalError      Code = 0x2
	FlowControlError   Code = 0x3
	SettingsTimeout    Code = 0x4
	StreamClosed       Code = 0x5
	FrameSizeError     Code = 0x6
	RefusedStream      Code = 0x7
	Cancel             Code = 0x8
	CompressionError   Code = 0x9
	ConnectError       Code = 0xa
	EnhanceYourCalm    Code = 0xb
	InadequateSecurity Code = 0xc
	HTTP11Required     Code = 0xd
	Codes                   = 0xe // how many there are
)

var codeNames = [Codes]string{"no_error", "protocol_error", "internal_error", "flow_control_error", "settings_timeout",
	"stream_closed", "frame_size_error", "refused_stream", "cancel", "compression_error", "connect_error",
	"enhance_your_calm", "inadequate_security", "http_1_1_required"}

func (c Code) String() string {
	if c < Codes {
		return codeNames[c]
	}
	return fmt.Sprintf("code_%#x", uint32(c))
}

// ConnError ends the connection: its code goes out in a GOAWAY (RFC 9113 §5.4.1).
type ConnError struct {
	Code Code
	Msg  string
}

func (e *ConnError) Error() string { return e.Code.String() + ": " + e.Msg }

// StreamError ends one stream: its code goes out in a RST_STREAM (RFC 9113 §5.4.2).
type StreamError struct {
	Code Code
	Msg  string
}

func (e *StreamError) Error() string { return e.Code.String() + ": " + e.Msg }

// Header is the head of a frame.
type Header struct {
	Length int // of the payload
	Type   Type
	Flags  uint8
	Stream uint32
}

// ParseHeader reads the head of a frame; b has at least HeaderSize bytes. The
// reserved bit is ignored (RFC 9113 §4.1).
func ParseHeader(b []byte) Header {
	_ = b[8]
	return Header{
		Length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		Type:   Type(b[3]),
		Flags:  b[4],
		Stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
}

// Has reports whether a flag is set.
func (h Header) Has(flag uint8) bool { return h.Flags&flag != 0 }

// Check applies what the type alone says about length and stream. The error is a
// *ConnError; lengths that are the fault of one stream only are left to the parsers.
func (h Header) Check() error {
	if h.Length > MaxFrame {
		return &ConnError{FrameSizeError, "frame longer than SETTINGS_MAX_FRAME_SIZE"}
	}
	switch h.Type {
	case Data, Headers, Priority, RSTStream, Continuation:
		if h.Stream == 0 {
			return &ConnError{ProtocolError, "frame of a stream on stream 0"}
		}
		if h.Type == RSTStream && h.Length != 4 {
			return &ConnError{FrameSizeError, "RST_STREAM that is not 4 bytes long"}
		}
	case Settings, Ping, GoAway, PriorityUpdate:
		if h.Stream != 0 {
			return &ConnError{ProtocolError, "frame of the connection on a stream"}
		}
		if h.Type == Ping && h.Length != 8 {
			return &ConnError{FrameSizeError, "PING that is not 8 bytes long"}
		}
		if h.Type == GoAway && h.Length < 8 {
			return &ConnError{FrameSizeError, "GOAWAY shorter than 8 bytes"}
		}
		if h.Type == PriorityUpdate && h.Length < 4 {
			return &ConnError{FrameSizeError, "PRIORITY_UPDATE shorter than 4 bytes"}
		}
	case WindowUpdate:
		if h.Length != 4 {
			return &ConnError{FrameSizeError, "WINDOW_UPDATE that is not 4 bytes long"}
		}
	case PushPromise:
		return &ConnError{ProtocolError, "PUSH_PROMISE of a client"}
	}
	return nil
}

// Unpad returns the payload of a DATA or HEADERS frame without its padding
// (RFC 9113 §6.1).
func Unpad(h Header, p []byte) ([]byte, error) {
	if !h.Has(Padded) {
		return p, nil
	}
	if len(p) == 0 || int(p[0]) >= len(p) {
		return nil, &ConnError{ProtocolError, "padding longer than its frame"}
	}
	return p[1 : len(p)-int(p[0])], nil
}

// Fragment returns the field block fragment of a HEADERS frame and the stream that
// it depends on, 0 for none. The dependency itself has no effect (RFC 9113 §5.3.2).
func Fragment(h Header, p []byte) (block []byte, depends uint32, err error) {
	if p, err = Unpad(h, p); err != nil {
		return nil, 0, err
	}
	if !h.Has(HasDependency) {
		return p, 0, nil
	}
	if len(p) < 5 {
		return nil, 0, &ConnError{FrameSizeError, "HEADERS too short for its priority"}
	}
	return p[5:], binary.BigEndian.Uint32(p) &^ (1 << 31), nil
}

// AppendHeader appends the head of a frame.
func AppendHeader(b []byte, length int, t Type, flags uint8, stream uint32) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), byte(t), flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// AppendRST appends a RST_STREAM.
func AppendRST(b []byte, stream uint32, c Code) []byte {
	return binary.BigEndian.AppendUint32(AppendHeader(b, 4, RSTStream, 0, stream), uint32(c))
}

// AppendGoAway appends a GOAWAY: streams above last are not served. The text helps
// people who debug their client.
func AppendGoAway(b []byte, last uint32, c Code, text string) []byte {
	b = AppendHeader(b, 8+len(text), GoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, uint32(c))
	return append(b, text...)
}

// AppendPing appends a PING, or the answer to one.
func AppendPing(b []byte, ack bool, data [8]byte) []byte {
	flags := uint8(0)
	if ack {
		flags = Ack
	}
	return append(AppendHeader(b, 8, Ping, flags, 0), data[:]...)
}

// AppendWindowUpdate appends a WINDOW_UPDATE; stream 0 is the connection.
func AppendWindowUpdate(b []byte, stream uint32, n int) []byte {
	return binary.BigEndian.AppendUint32(AppendHeader(b, 4, WindowUpdate, 0, stream), uint32(n))
}
