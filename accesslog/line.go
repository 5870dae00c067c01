package accesslog

import (
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"httpjet/exchange"
)

// Format is the shape of an access log line. The request id is always the last
// column of one that is not JSON (R-LOG-1).
type Format uint8

const (
	Combined   Format = iota // Apache's combined: with Referer and User-Agent
	Common                   // Apache's common
	JSON                     // an object with what Combined has, and how the request was routed
	Completion               // an object without paths, queries and fields (R-LOG-2)
)

// Clock makes the times of lines, once for each second. The zero value is ready;
// any number of goroutines may share one.
type Clock struct{ last, lastJSON atomic.Pointer[second] }

type second struct {
	unix int64
	text []byte
}

// json returns the member of t up to its second, for lines of JSON.
func (c *Clock) json(t time.Time) []byte {
	s := c.lastJSON.Load()
	if s == nil || s.unix != t.Unix() {
		s = &second{t.Unix(), t.UTC().AppendFormat(nil, `"time":"2006-01-02T15:04:05.`)}
		c.lastJSON.Store(s)
	}
	return s.text
}

// at returns the text of t.
func (c *Clock) at(t time.Time) []byte {
	s := c.last.Load()
	if s == nil || s.unix != t.Unix() {
		s = &second{t.Unix(), appendTime(nil, t.UTC())}
		c.last.Store(s)
	}
	return s.text
}

// Line appends the line for a finished exchange to buf. err is what Run
// returned; now stands in for the begin of an exchange that has none. Nothing a
// client sent reaches the line unescaped, and nothing is allocated within a second
// if buf is large enough.
func (f Format) Line(buf []byte, x *exchange.Exchange, err error, c *Clock, now time.Time) []byte {
	if f == JSON || f == Completion {
		return f.appendJSON(buf, x, err, c, now)
	}
	buf = appendAddr(buf, x)
	buf = append(buf, " - "...)
	buf = appendUser(buf, x.Req.User)
	buf = append(buf, " ["...)
	began := x.Began
	if began.IsZero() {
		began = now
	}
	buf = append(buf, c.at(began)...)
	buf = append(buf, `] "`...)
	if x.Req.Method == "" {
		buf = append(buf, '-') // the head was unreadable
	} else {
		buf = escape(buf, x.Req.Method)
		buf = append(buf, ' ')
		buf = escape(buf, x.Req.Target)
		buf = append(buf, ' ')
		buf = escape(buf, x.Req.Proto)
	}
	buf = append(buf, `" `...)
	buf = append(number(buf, int64(x.LoggedStatus(err))), ' ')
	buf = number(buf, x.Written())
	if f == Combined {
		buf = append(buf, ` "`...)
		buf = orDash(buf, x.Req.Fields.Get("Referer"))
		buf = append(buf, `" "`...)
		buf = orDash(buf, x.Req.Fields.Get("User-Agent"))
		buf = append(buf, '"')
	}
	buf = append(buf, ' ')
	buf = orDash(buf, x.Req.ID)
	return append(buf, '\n')
}

// appendUser appends the name of a user as one column: a blank in it would make two.
func appendUser(buf []byte, name string) []byte {
	if name == "" {
		return append(buf, '-')
	}
	from := len(buf)
	buf = escape(buf, name)
	for i := from; i < len(buf); i++ {
		if buf[i] == ' ' {
			buf[i] = '+'
		}
	}
	return buf
}

// appendTime appends t, which is in UTC, as "02/Jan/2006:15:04:05 +0000". By its
// layout package time takes several times as long.
func appendTime(buf []byte, t time.Time) []byte {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	buf = append(two(buf, day), '/')
	buf = append(append(buf, month.String()[:3]...), '/')
	buf = append(two(two(buf, year/100%100), year%100), ':')
	buf = append(two(buf, hour), ':')
	buf = append(two(buf, minute), ':')
	return append(two(buf, second), " +0000"...)
}

func two(buf []byte, n int) []byte { return append(buf, byte('0'+n/10), byte('0'+n%10)) }

// three appends 0 <= n < 1000 with all its digits.
func three(buf []byte, n int) []byte {
	return append(buf, byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10))
}

// number appends n; those of three digits, as a status has, are appended at once.
func number(buf []byte, n int64) []byte {
	if n >= 100 && n < 1000 {
		return three(buf, int(n))
	}
	return strconv.AppendInt(buf, n, 10)
}

func appendAddr(buf []byte, x *exchange.Exchange) []byte {
	if text := x.ClientText(); text != "" {
		return append(buf, text...)
	}
	a := x.Req.Remote.Addr()
	if a == (netip.Addr{}) {
		return append(buf, '-') // a Unix socket
	}
	return a.Unmap().WithZone("").AppendTo(buf)
}

func orDash(buf []byte, s string) []byte {
	if s == "" {
		return append(buf, '-')
	}
	return escape(buf, s)
}

// plain reports whether escape has nothing to do, as mostly. It looks at eight bytes
// at once, at the last ones of them once more, and may say no to a piece that is.
func plain(s string) bool {
	if len(s) < 8 {
		for i := range len(s) {
			if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
				return false
			}
		}
		return true
	}
	for i := 0; i+8 < len(s); i += 8 {
		if odd(word(s, i)) {
			return false
		}
	}
	return !odd(word(s, len(s)-8))
}

// word returns the eight bytes of s from i.
func word(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// odd reports whether one of the eight bytes of w is to be escaped, or may be.
func odd(w uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^'"'*ones, w^'\\'*ones
	return (w|(w-0x20*ones)|(w+ones)|(quote-ones)|(backslash-ones))&highs != 0
}

// escape appends s as printable ASCII: what else there is becomes \xHH, and
// quote and backslash get a backslash, so that a line has one meaning.
func escape(buf []byte, s string) []byte {
	if plain(s) {
		return append(buf, s...)
	}
	const hex = "0123456789abcdef"
	from := 0 // of what is appended as it is, in one piece
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			buf = append(append(buf, s[from:i]...), '\\', c)
			from = i + 1
		case c < 0x20 || c >= 0x7f:
			buf = append(append(buf, s[from:i]...), '\\', 'x', hex[c>>4], hex[c&15])
			from = i + 1
		}
	}
	return append(buf, s[from:]...)
}
