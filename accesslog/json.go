package accesslog

import (
	"strconv"
	"time"
	"unicode/utf8"

	"httpjet/exchange"
)

// appendJSON appends the line of JSON or Completion: one object, its members always
// there and in this order (R-LOG-2). A peer is told by its ordinal, never its
// address.
func (f Format) appendJSON(buf []byte, x *exchange.Exchange, err error, c *Clock, now time.Time) []byte {
	a := &x.Attempts
	began := x.Began
	if began.IsZero() {
		began = now
	}
	buf = append(buf, '{')
	if f == Completion {
		buf = append(buf, `"level":"info","msg":"request_completed",`...)
	}
	buf = append(buf, `"time":"`...)
	buf = append(buf, c.json(began)...)
	buf = append(digits(buf, began.Nanosecond()/1e6, 3), 'Z', '"')
	buf = member(buf, `,"request_id":"`, x.Req.ID)
	if f == JSON {
		buf = append(buf, `,"client":"`...)
		buf = append(appendAddr(buf, x), '"')
		buf = member(buf, `,"user":"`, x.Req.User)
	}
	buf = member(buf, `,"vhost":"`, x.Route.VHost)
	buf = member(buf, `,"method":"`, x.Req.Method)
	if f == JSON {
		buf = member(buf, `,"target":"`, x.Req.Target)
		buf = member(buf, `,"protocol":"`, x.Req.Proto)
	}
	label := x.Route.Label
	if label == "" {
		label = "unmatched"
	}
	buf = member(buf, `,"route":"`, label)
	buf = member(buf, `,"group":"`, x.Route.Group)
	buf = append(buf, `,"peer":`...)
	if a.N == 0 {
		buf = append(buf, "null"...)
	} else {
		buf = strconv.AppendInt(buf, int64(a.Peer), 10)
	}
	buf = append(buf, `,"status":`...)
	buf = strconv.AppendInt(buf, int64(x.LoggedStatus(err)), 10)
	buf = append(buf, `,"bytes":`...)
	buf = strconv.AppendInt(buf, x.Written(), 10)
	buf = millis(buf, `,"duration_ms":`, max(0, x.Ended.Sub(began)))
	buf = append(buf, `,"attempts":`...)
	buf = strconv.AppendInt(buf, int64(a.N), 10)
	outcome := a.Outcome
	if outcome == "" {
		outcome = "no_attempt"
	}
	buf = member(buf, `,"outcome":"`, outcome)
	buf = member(buf, `,"error":"`, exchange.ReasonOf(err))
	buf = millis(buf, `,"queue_ms":`, a.Queue)
	buf = millis(buf, `,"dial_ms":`, a.Dial)
	buf = millis(buf, `,"head_ms":`, a.Head)
	buf = millis(buf, `,"rest_ms":`, max(0, x.Ended.Sub(began)-a.Queue-a.Dial-a.Head))
	buf = member(buf, `,"trace_id":"`, x.TraceID)
	if f == JSON {
		buf = member(buf, `,"referer":"`, x.Req.Fields.Get("Referer"))
		buf = member(buf, `,"user_agent":"`, x.Req.Fields.Get("User-Agent"))
	}
	return append(buf, '}', '\n')
}

// millis appends a member, with the text before its value, that is a duration in
// milliseconds, to the microsecond.
func millis(buf []byte, before string, d time.Duration) []byte {
	buf = append(buf, before...)
	us := d.Microseconds()
	buf = append(strconv.AppendInt(buf, us/1000, 10), '.')
	return digits(buf, int(us%1000), 3)
}

// member appends a member, with the text before its value, that is text: RFC 8259
// section 7, with what is no UTF-8 replaced.
func member(buf []byte, before, value string) []byte {
	buf = append(buf, before...)
	if plain(value) {
		return append(append(buf, value...), '"')
	}
	const hex = "0123456789abcdef"
	for i := 0; i < len(value); {
		c, size := utf8.DecodeRuneInString(value[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			buf = append(buf, `\ufffd`...)
		case c == '"' || c == '\\':
			buf = append(buf, '\\', byte(c))
		case c < 0x20 || c >= 0x7f && c < 0xa0:
			buf = append(buf, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			buf = append(buf, value[i:i+size]...)
		}
		i += size
	}
	return append(buf, '"')
}
