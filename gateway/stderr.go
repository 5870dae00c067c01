package gateway

import (
	"fmt"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// maxStderr is how much of STDERR one request may log, in bytes (R-FCGI-11).
const maxStderr = 64 << 10

// Stderr passes what an application writes to its STDERR to a log, line by
// line. Bytes over the cap are read and forgotten, so that the application never
// blocks on them.
type Stderr struct {
	log  func(line string) // nil: nobody listens
	part []byte            // a line whose end has not come yet; bounded by the cap
	seen int
	over bool

	total *atomic.Uint64 // all bytes of all calls; nil: nobody counts
}

// Write takes a part of STDERR. Lines may lie across parts.
func (l *Stderr) Write(p []byte) {
	if l.total != nil {
		l.total.Add(uint64(len(p)))
	}
	if l.log == nil {
		return
	}
	if room := maxStderr - l.seen; len(p) > room {
		p, l.over = p[:room], true
	}
	l.seen += len(p)
	for _, c := range p {
		if c == '\n' {
			l.line()
			continue
		}
		l.part = append(l.part, c)
	}
}

// line logs the collected line, if it holds anything.
func (l *Stderr) line() {
	if text := strings.TrimRight(string(l.part), "\r"); text != "" {
		l.log(escape(text))
	}
	l.part = l.part[:0]
}

// close logs the rest. It may be called more than once.
func (l *Stderr) close() {
	if l.log == nil {
		return
	}
	l.line()
	if l.over {
		l.log(fmt.Sprintf("(rest of stderr dropped after %d bytes)", maxStderr))
		l.over = false
	}
}

// escape makes s one harmless line: control characters and bytes that are no
// UTF-8 become \xNN or \uNNNN, a backslash becomes two.
func escape(s string) string {
	clean := func(r rune) bool { return r != '\\' && r != utf8.RuneError && unicode.IsPrint(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case n == 1 && !clean(r):
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r != utf8.RuneError && !clean(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}
