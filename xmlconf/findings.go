package xmlconf

import (
	"fmt"
	"slices"
	"strings"
)

// Severity is how much a finding matters.
type Severity uint8

const (
	Info  Severity = iota + 1 // good to know
	Warn                      // something does not act as written
	Error                     // something is broken; with Fatal, nothing was loaded
)

// String returns "info", "warn" or "error".
func (s Severity) String() string {
	switch s {
	case Info:
		return "info"
	case Warn:
		return "warn"
	case Error:
		return "error"
	}
	return "unknown"
}

// A Finding is one sentence about a configuration file.
type Finding struct {
	Code     string // stable: W-RANGE, E-ADDR
	Severity Severity
	Fatal    bool // the candidate cannot be used (R-CFG-6)
	Pos
	Element string // path: httpServerConfig/listenerList/listener
	Message string // what is wrong, lower case, without a full stop
	Hint    string // what to do; may be empty
}

// String is one line: file:line:column: severity CODE: message (hint).
func (f Finding) String() string { return f.line(f.Severity.String() + " ") }

// Text is String without the severity, for a log whose lines have a level.
func (f Finding) Text() string { return f.line("") }

func (f Finding) line(severity string) string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.Pos.String() + ": ")
	}
	fmt.Fprintf(&b, "%s%s: %s", severity, f.Code, f.Message)
	if f.Hint != "" {
		fmt.Fprintf(&b, " (%s)", f.Hint)
	}
	return b.String()
}

// Findings collects findings in the order they were made. The same finding is
// kept once. The zero value is ready; it is not safe for concurrent use.
type Findings struct {
	list   []Finding
	seen   map[Finding]bool
	failed bool
}

// maxFindings bounds what a hostile file can make us keep.
const maxFindings = 10_000

// Add appends f unless an equal one is there.
func (fs *Findings) Add(f Finding) {
	fs.failed = fs.failed || f.Fatal
	if fs.seen[f] || len(fs.list) > maxFindings {
		return
	}
	if len(fs.list) == maxFindings {
		f = Finding{Code: "W-MORE", Severity: Warn, Pos: f.Pos, Message: "further findings are not told"}
	}
	if fs.seen == nil {
		fs.seen = map[Finding]bool{}
	}
	fs.seen[f] = true
	fs.list = append(fs.list, f)
}

// Info adds a remark at a place, with a hint and a formatted message.
func (fs *Findings) Info(code string, at Place, hint, format string, args ...any) {
	fs.add(code, Info, false, at, hint, format, args)
}

// Warn adds a warning.
func (fs *Findings) Warn(code string, at Place, hint, format string, args ...any) {
	fs.add(code, Warn, false, at, hint, format, args)
}

// Error adds an error; the configuration still loads.
func (fs *Findings) Error(code string, at Place, hint, format string, args ...any) {
	fs.add(code, Error, false, at, hint, format, args)
}

// Fatal adds an error that makes the configuration unusable.
func (fs *Findings) Fatal(code string, at Place, hint, format string, args ...any) {
	fs.add(code, Error, true, at, hint, format, args)
}

func (fs *Findings) add(code string, s Severity, fatal bool, at Place, hint, format string, args []any) {
	fs.Add(Finding{code, s, fatal, at.Pos, at.Element, fmt.Sprintf(format, args...), hint})
}

// All returns the findings; the slice is the caller's.
func (fs *Findings) All() []Finding { return slices.Clone(fs.list) }

// Failed reports whether a finding is fatal.
func (fs *Findings) Failed() bool { return fs.failed }

// Count returns how many findings have severity s.
func (fs *Findings) Count(s Severity) int {
	n := 0
	for _, f := range fs.list {
		if f.Severity == s {
			n++
		}
	}
	return n
}
