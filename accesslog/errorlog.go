package accesslog

import (
	"context"
	"io"
	"log/slog"
	"strings"
)

// LevelNotice is LiteSpeed's level between INFO and WARN.
const LevelNotice = slog.LevelInfo + 2

const maxValue = 4096 // bytes of one value in the error log

// ParseLevel reads a LiteSpeed level word in any case. An unknown word is INFO
// and not ok.
func ParseLevel(word string) (level slog.Level, ok bool) {
	for _, l := range [...]slog.Level{slog.LevelError, slog.LevelWarn, LevelNotice, slog.LevelInfo, slog.LevelDebug} {
		if strings.EqualFold(word, levelName(l)) {
			return l, true
		}
	}
	return slog.LevelInfo, false
}

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "ERROR"
	case l >= slog.LevelWarn:
		return "WARN"
	case l >= LevelNotice:
		return "NOTICE"
	case l >= slog.LevelInfo:
		return "INFO"
	}
	return "DEBUG"
}

// errorLog is a slog.Handler that writes one line of printable ASCII per record:
// time, level, message, key=value pairs.
type errorLog struct {
	out    []io.Writer
	level  slog.Leveler
	prefix string // formatted attributes of With
	group  string // "a.b." in front of keys
}

// NewErrorLog returns a logger for records of at least level. Each writer gets
// every line in one Write and must be safe for several goroutines; a Sink never
// blocks, standard error may. Nothing of a request may be logged above debug level
// but what its attributes name; bytes that are not printable are escaped (a header
// cannot forge a line).
func NewErrorLog(level slog.Leveler, out ...io.Writer) *slog.Logger {
	return slog.New(&errorLog{out: out, level: level})
}

func (h *errorLog) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

func (h *errorLog) Handle(_ context.Context, r slog.Record) error {
	buf := make([]byte, 0, 256)
	if !r.Time.IsZero() {
		buf = r.Time.UTC().AppendFormat(buf, "2006-01-02T15:04:05.000Z")
		buf = append(buf, ' ')
	}
	buf = append(buf, levelName(r.Level)...)
	buf = append(buf, ' ')
	for part := range strings.SplitAfterSeq(cut(r.Message), `"`) { // not in quotes, so that its own stay legible
		text, quoted := strings.CutSuffix(part, `"`)
		if buf = escape(buf, text); quoted {
			buf = append(buf, '"')
		}
	}
	buf = append(buf, h.prefix...)
	r.Attrs(func(a slog.Attr) bool {
		buf = appendAttr(buf, h.group, a)
		return true
	})
	buf = append(buf, '\n')
	for _, w := range h.out {
		w.Write(buf) // nowhere is left to report a failure
	}
	return nil
}

func (h *errorLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	d := *h
	buf := []byte(h.prefix)
	for _, a := range attrs {
		buf = appendAttr(buf, h.group, a)
	}
	d.prefix = string(buf)
	return &d
}

func (h *errorLog) WithGroup(name string) slog.Handler {
	d := *h
	if name != "" {
		d.group += name + "."
	}
	return &d
}

func appendAttr(buf []byte, group string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range v.Group() {
			buf = appendAttr(buf, group, member)
		}
		return buf
	}
	if a.Key == "" {
		return buf
	}
	buf = append(buf, ' ')
	buf = escape(buf, group+a.Key)
	buf = append(buf, '=')
	text := cut(v.String())
	if text == "" || strings.ContainsAny(text, " =\"\\") || strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r >= 0x7f }) {
		buf = append(buf, '"')
		buf = escape(buf, text)
		return append(buf, '"')
	}
	return append(buf, text...)
}

func cut(s string) string {
	if len(s) > maxValue {
		return s[:maxValue] + "..."
	}
	return s
}
