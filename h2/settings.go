package h2

import "encoding/binary"

// Settings (RFC 9113 §6.5.2, RFC 8441 §3, RFC 9218 §2.1).
const (
	headerTableSize      = 0x1
	enablePush           = 0x2
	maxConcurrentStreams = 0x3
	initialWindowSize    = 0x4
	maxFrameSize         = 0x5
	maxHeaderListSize    = 0x6
	enableConnect        = 0x8
	noRFC7540Priorities  = 0x9
)

// Own is what a server announces.
type Own struct {
	Streams int // that the client may have open at once
	Window  int // bytes of the body of each stream that it may send ahead
	List    int // bytes of a field section, each field counted with 32 more
}

// AppendSettings appends our SETTINGS. A dynamic table of the default size is
// allowed, nothing is pushed, extended CONNECT is offered, and of priorities only
// those of RFC 9218 count.
func AppendSettings(b []byte, o Own) []byte {
	b = AppendHeader(b, 5*6, Settings, 0, 0)
	b = appendSetting(b, maxConcurrentStreams, o.Streams)
	b = appendSetting(b, initialWindowSize, o.Window)
	b = appendSetting(b, maxHeaderListSize, o.List)
	b = appendSetting(b, enableConnect, 1)
	return appendSetting(b, noRFC7540Priorities, 1)
}

func appendSetting(b []byte, id uint16, v int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, id), uint32(v))
}

// AppendSettingsAck appends the answer to SETTINGS.
func AppendSettingsAck(b []byte) []byte { return AppendHeader(b, 0, Settings, Ack, 0) }

// Peer is what we have to know of a client's settings. Its table size is of no
// interest, because we put nothing into a table (see AppendField).
type Peer struct {
	Window int64 // initial window of a stream
	Frame  int   // largest payload that it takes
}

// DefaultPeer is a client before its SETTINGS.
var DefaultPeer = Peer{Window: 65535, Frame: MaxFrame}

// Apply takes the payload of a SETTINGS frame that is no answer. The error is a
// *ConnError.
func (p *Peer) Apply(payload []byte) error {
	if len(payload)%6 != 0 {
		return &ConnError{FrameSizeError, "SETTINGS that is no multiple of 6 bytes long"}
	}
	for ; len(payload) > 0; payload = payload[6:] {
		v := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case enablePush:
			if v > 1 {
				return &ConnError{ProtocolError, "SETTINGS_ENABLE_PUSH above 1"}
			}
		case initialWindowSize:
			if v > MaxWindow {
				return &ConnError{FlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1"}
			}
			p.Window = int64(v)
		case maxFrameSize:
			if v < 16384 || v > 1<<24-1 {
				return &ConnError{ProtocolError, "SETTINGS_MAX_FRAME_SIZE out of range"}
			}
			p.Frame = int(v)
		case noRFC7540Priorities:
			if v > 1 { // RFC 9218 §2.1
				return &ConnError{ProtocolError, "SETTINGS_NO_RFC7540_PRIORITIES above 1"}
			}
		}
	}
	return nil
}

// MaxWindow is the largest flow-control window (RFC 9113 §6.9.1).
const MaxWindow = 1<<31 - 1

// Window is how many bytes the peer takes; it may be negative after its SETTINGS have
// changed (RFC 9113 §6.9.2).
type Window int64

// Add adds what a WINDOW_UPDATE or a change of settings says; false: it overflows.
func (w *Window) Add(n int64) bool {
	if int64(*w)+n > MaxWindow {
		return false
	}
	*w += Window(n)
	return true
}

// Increment reads the payload of a WINDOW_UPDATE; 0 is not allowed.
func Increment(p []byte) int64 { return int64(binary.BigEndian.Uint32(p) &^ (1 << 31)) }
