package accesslog

import (
	"strconv"
	"time"
	"unicode/utf8"

	"httpjet/exchange"
)

// appendJSON appends the line of JSON or Completion: one object, its members always
// there and in this order (R-LOG-2). A peer is told by its ordinal, never its
// address. The end of one member and the name of the next are one piece: a line costs
// about as much as there are pieces.
func (f Format) appendJSON(buf []byte, x *exchange.Exchange, err error, c *Clock, now time.Time) []byte {
	a := &x.Attempts
	began := x.Began
	if began.IsZero() {
		began = now
	}
	took := max(0, x.Ended.Sub(began))
	buf = append(buf, '{')
	if f == Completion {
		buf = append(buf, `"level":"info","msg":"request_completed",`...)
	}
	buf = append(buf, c.json(began)...)
	buf = append(three(buf, began.Nanosecond()/1e6), `Z","request_id":"`...)
	buf = text(buf, x.Req.ID)
	if f == JSON {
		buf = append(buf, `","client":"`...)
		buf = append(appendAddr(buf, x), `","user":"`...)
		buf = text(buf, x.Req.User)
	}
	buf = append(buf, `","vhost":"`...)
	buf = append(text(buf, x.Route.VHost), `","method":"`...)
	buf = text(buf, x.Req.Method)
	if f == JSON {
		buf = append(buf, `","target":"`...)
		buf = append(text(buf, x.Req.Target), `","protocol":"`...)
		buf = text(buf, x.Req.Proto)
	}
	buf = append(buf, `","route":"`...)
	buf = append(text(buf, or(x.Route.Label, "unmatched")), `","group":"`...)
	buf = append(text(buf, x.Route.Group), `","peer":`...)
	if a.N == 0 {
		buf = append(buf, `null,"status":`...)
	} else {
		buf = append(number(buf, int64(a.Peer)), `,"status":`...)
	}
	buf = append(number(buf, int64(x.LoggedStatus(err))), `,"bytes":`...)
	buf = append(number(buf, x.Written()), `,"duration_ms":`...)
	buf = append(millis(buf, took), `,"attempts":`...)
	buf = append(number(buf, int64(a.N)), `,"outcome":"`...)
	buf = append(text(buf, or(a.Outcome, "no_attempt")), `","error":"`...)
	buf = text(buf, exchange.ReasonOf(err))
	if a.Queue|a.Dial == 0 { // as of a connection that was kept
		buf = append(buf, `","queue_ms":0.000,"dial_ms":0.000,"head_ms":`...)
	} else {
		buf = append(millis(append(buf, `","queue_ms":`...), a.Queue), `,"dial_ms":`...)
		buf = append(millis(buf, a.Dial), `,"head_ms":`...)
	}
	buf = append(millis(buf, a.Head), `,"rest_ms":`...)
	buf = append(millis(buf, max(0, took-a.Queue-a.Dial-a.Head)), `,"trace_id":"`...)
	buf = text(buf, x.TraceID)
	if f == JSON {
		buf = append(buf, `","referer":"`...)
		buf = append(text(buf, x.Req.Fields.Get("Referer")), `","user_agent":"`...)
		buf = text(buf, x.Req.Fields.Get("User-Agent"))
	}
	return append(buf, '"', '}', '\n')
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// millis appends a duration in milliseconds, to the microsecond.
func millis(buf []byte, d time.Duration) []byte {
	us := d.Microseconds()
	if uint64(us) < 10000 { // as mostly
		n := uint32(us)
		return append(buf, byte('0'+n/1000), '.', byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10))
	}
	buf = append(strconv.AppendInt(buf, us/1000, 10), '.')
	return three(buf, int(us%1000))
}

// text appends a value between quotes that are somebody else's: RFC 8259 section 7,
// with what is no UTF-8 replaced.
func text(buf []byte, value string) []byte {
	if plain(value) {
		return append(buf, value...)
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
	return buf
}
