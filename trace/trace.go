// Package trace is the W3C trace context of a request on its way to an upstream:
// which traceparent and tracestate go on, and which traceparent is made. It makes
// no span, samples nothing and exports nothing.
package trace

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"httpjet/exchange"
)

// Mode says what becomes of the trace context (R-TRACE-1).
type Mode uint8

const (
	Passthrough Mode = iota // as the client sent it, none is added
	Inject                  // a fresh traceparent where there is none, or none that can be read
)

// Bounds of what is read of a client (R-TRACE-4).
const (
	maxField   = 512 // bytes of traceparent, and of all tracestate together
	maxMembers = 32  // of tracestate
)

// Options say how a hop treats the trace context. The zero value passes it on.
type Options struct {
	Mode     Mode
	Distrust bool // what clients send counts for nothing, unless they are trusted proxies
}

// Outgoing edits the end-to-end fields f of a request before it goes to an
// upstream; trusted says that a trusted proxy sent it. Passing on costs nothing:
// what nobody reads, nobody judges.
func (o Options) Outgoing(f *exchange.Fields, trusted bool) {
	distrust := o.Distrust && !trusted
	if o.Mode == Passthrough && !distrust {
		return
	}
	if !distrust && known(f) {
		limitState(f)
		return
	}
	// A tracestate says nothing without its traceparent (Trace Context §3.3).
	f.DelFunc(func(fd exchange.Field) bool {
		return exchange.EqualName(fd.Name, "traceparent") || exchange.EqualName(fd.Name, "tracestate")
	})
	if o.Mode == Inject {
		f.Add("traceparent", fresh())
	}
}

// known reports whether f holds one traceparent that can be read.
func known(f *exchange.Fields) bool {
	value, n := "", 0
	for v := range f.Values("traceparent") {
		value = v
		n++
	}
	return n == 1 && Valid(value)
}

// Valid reports whether a traceparent can be read (Trace Context §3.2): version,
// trace id and parent id in lower-case hex, the ids not zero. What a later version
// adds behind the flags is not looked at.
func Valid(v string) bool {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(v) < length || len(v) > maxField || v[2] != '-' || v[35] != '-' || v[52] != '-' {
		return false
	}
	version, id, parent, flags := v[:2], v[3:35], v[36:52], v[53:55]
	if !isHex(version) || !isHex(id) || !isHex(parent) || !isHex(flags) || version == "ff" {
		return false
	}
	if version == "00" && len(v) > length || len(v) > length && v[length] != '-' {
		return false
	}
	return strings.Trim(id, "0") != "" && strings.Trim(parent, "0") != ""
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// limitState keeps the first members of a tracestate that has too many, and drops
// one that is too long even so. Empty members count for nothing (Trace Context
// §3.3.1.1).
func limitState(f *exchange.Fields) {
	members, size := 0, 0
	for v := range f.Values("tracestate") {
		size += len(v) + 1
	}
	for range f.Tokens("tracestate") {
		members++
	}
	if members <= maxMembers && size <= maxField+1 {
		return
	}
	kept := make([]string, 0, maxMembers)
	for m := range f.Tokens("tracestate") {
		if len(kept) < maxMembers {
			kept = append(kept, m)
		}
	}
	if state := strings.Join(kept, ","); state != "" && len(state) <= maxField {
		f.Set("tracestate", state)
	} else {
		f.Del("tracestate")
	}
}

// fresh is a traceparent of a trace that begins here: sampled, with random ids
// (R-TRACE-2).
func fresh() string {
	var ids [24]byte
	rand.Read(ids[:]) // never fails
	// One in 2^64 parent ids is zero, which nobody could read.
	ids[0] |= 1
	ids[16] |= 1
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, ids[:16])
	b = append(b, '-')
	b = hex.AppendEncode(b, ids[16:])
	return string(append(b, "-01"...))
}
