// Package trace is the W3C trace context of a request on its way to an upstream:
// which traceparent and tracestate go on, and which traceparent is made; the spans
// that are made of an exchange behind its last byte, and their way to a collector; and
// the timelines of exchanges that people asked for. It decides nothing about an
// exchange, and nothing of it waits for a collector.
package trace

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"httpjet/exchange"
)

// Mode says what becomes of the trace context (R-TRACE-1).
type Mode uint8

const (
	Passthrough Mode = iota // as the client sent it, none is added
	Inject                  // a fresh traceparent where there is none, or none that can be read
	Span                    // that of a span of ours for each attempt (R-TRACE-3)
)

// Bounds of what is read of a client (R-TRACE-4).
const (
	maxField   = 512 // bytes of traceparent, and of all tracestate together
	maxMembers = 32  // of tracestate
)

// Options say how a hop treats the trace context. The zero value passes it on.
type Options struct {
	Mode     Mode
	Distrust bool    // what clients send counts for nothing, unless they are trusted proxies
	Tracer   *Tracer // of Span, for exchanges of which nobody has begun a trace; nil: it adds nothing to them
}

// Outgoing edits the end-to-end fields f of the request of x before it goes to an
// upstream; trusted says that a trusted proxy sent it. Passing on costs nothing:
// what nobody reads, nobody judges.
func (o Options) Outgoing(x *exchange.Exchange, f *exchange.Fields, trusted bool) {
	distrust := o.Distrust && !trusted
	if o.Mode == Passthrough && !distrust {
		return
	}
	if o.Mode == Span && x.Trace == nil && !x.Background {
		o.Tracer.Begin(x, trusted)
	}
	if !carries(f) { // as mostly
		if o.Mode == Inject {
			inject(x, f)
		}
		return
	}
	if parent := known(f); parent != "" && !distrust {
		limitState(f)
		if o.Mode == Span {
			f.Del("traceparent") // that of the attempt takes its place
		} else if x.TraceID == "" {
			x.TraceID = parent[3:35]
		}
		return
	}
	// A tracestate says nothing without its traceparent (Trace Context §3.3).
	f.DelFunc(isContext)
	if o.Mode == Inject {
		inject(x, f)
	}
}

// inject begins a trace of which nobody here has a span: its parent is what x is to
// whom it came from (R-TRACE-2).
func inject(x *exchange.Exchange, f *exchange.Fields) {
	x.TraceID = newTrace(x)
	f.Add("traceparent", parentField(x.TraceID, newSpan(), true))
}

// carries reports whether f has any trace context.
func carries(f *exchange.Fields) bool {
	for i := range f.Len() {
		if isContext(f.At(i)) {
			return true
		}
	}
	return false
}

// isContext tells a field by its length first, by which nearly all are decided.
func isContext(fd exchange.Field) bool {
	switch len(fd.Name) {
	case len("traceparent"):
		return exchange.EqualName(fd.Name, "traceparent")
	case len("tracestate"):
		return exchange.EqualName(fd.Name, "tracestate")
	}
	return false
}

// Attempt makes a span for the attempt of x that has begun, and names it as the parent
// of what the upstream does (R-TRACE-3). Nothing happens where spans do not go on, and
// to exchanges without a trace, such as those of the server's own.
func (o Options) Attempt(x *exchange.Exchange, f *exchange.Fields) {
	if o.Mode != Span {
		return
	}
	if parent := Next(x); parent != "" {
		f.Set("traceparent", parent)
	}
}

// Next makes a span for the attempt of x that has begun and returns the traceparent by
// which the upstream knows it, "" for an exchange without a trace.
func Next(x *exchange.Exchange) string {
	t := x.Trace
	if t == nil {
		return ""
	}
	span := newSpan()
	if a := x.Timeline.Attempt(); a != nil {
		a.Span = span
	}
	return parentField(hex.EncodeToString(t.ID[:]), span, t.Sampled)
}

// known returns the one traceparent of f that can be read, "" if there is none.
func known(f *exchange.Fields) string {
	value, n := "", 0
	for v := range f.Values("traceparent") {
		value = v
		n++
	}
	if n == 1 && Valid(value) {
		return value
	}
	return ""
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

// newTrace is the id, in hex, of a trace that begins with x: that of its request, so
// that both are found by one, and else one of the same kind.
func newTrace(x *exchange.Exchange) string {
	if len(x.Req.ID) == 32 { // hex digits, or somebody has broken what Request promises
		return x.Req.ID
	}
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) // never zero, which nobody could read
	return hex.EncodeToString(id[:])
}

// newSpan is a random span id, never zero: of the runtime's ChaCha8, like ids of
// requests. It is no secret.
func newSpan() (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// parentField is a traceparent of version 00. id is 32 hex digits.
func parentField(id string, span [8]byte, sampled bool) string {
	const digits = "0123456789abcdef"
	b := [55]byte{0: '0', 1: '0', 2: '-', 35: '-', 52: '-', 53: '0', 54: '0'}
	copy(b[3:35], id)
	for i, c := range span {
		b[36+2*i], b[37+2*i] = digits[c>>4], digits[c&15]
	}
	if sampled {
		b[54] = '1'
	}
	return string(b[:])
}
