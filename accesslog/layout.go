package accesslog

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"httpjet/exchange"
)

// A Layout is the shape of a line in the language of Apache's LogFormat, as LiteSpeed
// takes it: nothing is added to it, a request id is there if it asks for %L.
type Layout struct{ items []item }

// item is one piece of a line: a text, or what write makes of an exchange.
type item struct {
	text   string // as it is; or the argument in braces
	write  writer // nil: text alone
	except bool   // it is written unless the status is one of these
	status []int  // it is written if the status is one of these, "-" else; none: always
}

// entry is what items write about.
type entry struct {
	x      *exchange.Exchange
	err    error
	status int
	began  time.Time
	clock  *Clock
}

// writer appends what it has to say, with nothing unescaped that a client sent, and
// nothing at all for "-".
type writer func(buf []byte, e *entry, arg string) []byte

// ParseLayout reads a format. Items that are not known, or whose argument is not, are
// returned as they are written: "-" stands in their place.
func ParseLayout(format string) (l *Layout, unknown []string) {
	l = &Layout{}
	text := []byte{}
	for i := 0; i < len(format); {
		c := format[i]
		switch {
		case c == '\\' && i+1 < len(format):
			i++
			switch format[i] {
			case 'n':
				text = append(text, ' ') // a line is one line
			case 't':
				text = append(text, '\t')
			default:
				text = append(text, format[i])
			}
			i++
		case c < ' ' && c != '\t':
			text = append(text, ' ')
			i++
		case c != '%':
			text = append(text, c)
			i++
		case strings.HasPrefix(format[i:], "%%"):
			text = append(text, '%')
			i += 2
		default:
			it, n := parseItem(format[i:])
			if it.write == nil {
				unknown = append(unknown, format[i:i+n])
				text = append(text, '-')
			} else {
				l.literal(text)
				text = text[:0]
				l.items = append(l.items, it)
			}
			i += n
		}
	}
	l.literal(append(text, '\n'))
	return l, unknown
}

func (l *Layout) literal(text []byte) {
	if len(text) > 0 {
		l.items = append(l.items, item{text: string(text)})
	}
}

// parseItem reads one item at the beginning of s, which is n bytes long: conditions,
// < or >, an argument in braces, a letter or ^ with two. Its write is nil if it is not
// known.
func parseItem(s string) (it item, n int) {
	n = 1
	if n < len(s) && s[n] == '!' {
		it.except = true
		n++
	}
	for n < len(s) && ('0' <= s[n] && s[n] <= '9' || s[n] == ',') {
		n++
	}
	for word := range strings.SplitSeq(strings.TrimPrefix(s[1:n], "!"), ",") {
		if code, err := strconv.Atoi(word); err == nil {
			it.status = append(it.status, code)
		}
	}
	for n < len(s) && (s[n] == '<' || s[n] == '>') { // nothing is redirected inside that a client saw
		n++
	}
	if n < len(s) && s[n] == '{' {
		end := strings.IndexByte(s[n:], '}')
		if end < 0 {
			return it, len(s)
		}
		it.text = s[n+1 : n+end]
		n += end + 1
	}
	letter := 1
	if n < len(s) && s[n] == '^' {
		letter = 3
	}
	if n+letter > len(s) {
		return it, len(s)
	}
	name := s[n : n+letter]
	n += letter
	if check := arguments[name]; check == nil || check(it.text) {
		it.write = items[name]
	}
	return it, n
}

// Line appends the line for a finished exchange to buf, as Format.Line does.
func (l *Layout) Line(buf []byte, x *exchange.Exchange, err error, c *Clock, now time.Time) []byte {
	e := entries.Get().(*entry)
	defer entries.Put(e)
	*e = entry{x: x, err: err, status: x.LoggedStatus(err), began: x.Began, clock: c}
	if e.began.IsZero() {
		e.began = now
	}
	for i := range l.items {
		it := &l.items[i]
		if it.write == nil {
			buf = append(buf, it.text...)
			continue
		}
		before := len(buf)
		if len(it.status) == 0 || slices.Contains(it.status, e.status) != it.except {
			buf = it.write(buf, e, it.text)
		}
		if len(buf) == before {
			buf = append(buf, '-')
		}
	}
	*e = entry{} // nothing keeps the exchange
	return buf
}

// entries are kept because the compiler cannot know that no writer keeps its own.
var entries = sync.Pool{New: func() any { return new(entry) }}

// arguments are the items that take only certain arguments.
var arguments = map[string]func(string) bool{
	"a": oneOf("", "c"), "h": oneOf("", "c"), "p": oneOf("", "canonical", "local", "remote"), "P": oneOf("", "pid"),
	"T": oneOf("", "s", "ms", "us"), "L": oneOf("", "c"),
	"x": oneOf("trace_id"),
	"i": named, "o": named, "e": named, "C": named, "^ti": named, "^to": named,
}

func oneOf(words ...string) func(string) bool {
	return func(arg string) bool { return slices.Contains(words, arg) }
}

func named(arg string) bool { return arg != "" }

// items are all that a format may ask for; x, which Apache leaves to extensions, is
// what only httpjet knows. What httpjet does not know, such as the
// login of identd, is always "-"; sizes are those of bodies.
var items = map[string]writer{
	"a": writeAddr,
	"A": func(buf []byte, e *entry, _ string) []byte {
		if a := e.x.Req.Local.Addr(); a.IsValid() {
			return a.Unmap().WithZone("").AppendTo(buf)
		}
		return buf
	},
	"b": func(buf []byte, e *entry, _ string) []byte {
		if n := e.x.Written(); n > 0 {
			return strconv.AppendInt(buf, n, 10)
		}
		return buf
	},
	"B": writeSent,
	"C": writeCookie,
	"D": func(buf []byte, e *entry, _ string) []byte {
		return strconv.AppendInt(buf, e.took().Microseconds(), 10)
	},
	"e": func(buf []byte, e *entry, arg string) []byte {
		for i := range e.x.Env {
			if e.x.Env[i].Name == arg {
				return escape(buf, e.x.Env[i].Value)
			}
		}
		return buf
	},
	"f": func(buf []byte, e *entry, _ string) []byte { return escape(buf, e.x.Resource.Filename) },
	"h": writeAddr,
	"H": func(buf []byte, e *entry, _ string) []byte { return escape(buf, e.x.Req.Proto) },
	"i": writeField,
	"I": func(buf []byte, e *entry, _ string) []byte { return strconv.AppendInt(buf, e.x.BodyRead(), 10) },
	"k": nothing,
	"l": nothing,
	"L": func(buf []byte, e *entry, _ string) []byte { return escape(buf, e.x.Req.ID) },
	"m": func(buf []byte, e *entry, _ string) []byte { return escape(buf, e.x.Req.Method) },
	"n": nothing,
	"o": writeAnswerField,
	"O": writeSent,
	"p": func(buf []byte, e *entry, arg string) []byte {
		at := e.x.Req.Local
		if arg == "remote" {
			at = e.x.Req.Remote
		}
		if at.IsValid() {
			return strconv.AppendInt(buf, int64(at.Port()), 10)
		}
		return buf
	},
	"P": func(buf []byte, _ *entry, _ string) []byte { return strconv.AppendInt(buf, int64(os.Getpid()), 10) },
	"q": func(buf []byte, e *entry, _ string) []byte {
		if _, query, ok := strings.Cut(e.x.Req.Target, "?"); ok {
			return escape(append(buf, '?'), query)
		}
		return buf
	},
	"r": writeRequestLine,
	"R": func(buf []byte, e *entry, _ string) []byte { return append(buf, e.x.Route.Kind.String()...) },
	"s": func(buf []byte, e *entry, _ string) []byte { return strconv.AppendInt(buf, int64(e.status), 10) },
	"S": func(buf []byte, e *entry, _ string) []byte {
		return strconv.AppendInt(buf, e.x.BodyRead()+e.x.Written(), 10)
	},
	"t":   writeTime,
	"T":   writeTook,
	"u":   func(buf []byte, e *entry, _ string) []byte { return appendUser(buf, e.x.Req.User) },
	"U":   writePath,
	"v":   func(buf []byte, e *entry, _ string) []byte { return escape(buf, e.x.Route.VHost) },
	"V":   writeHost,
	"x":   func(buf []byte, e *entry, _ string) []byte { return escape(buf, e.x.TraceID) },
	"X":   writeEnd,
	"^ti": nothing,
	"^to": func(buf []byte, e *entry, arg string) []byte { return escape(buf, e.x.Trailers.Get(arg)) },
}

func nothing(buf []byte, _ *entry, _ string) []byte { return buf }

func writeSent(buf []byte, e *entry, _ string) []byte {
	return strconv.AppendInt(buf, e.x.Written(), 10)
}

func (e *entry) took() time.Duration { return max(0, e.x.Ended.Sub(e.began)) }

// writeAddr is the client, or with the argument c who opened the connection.
func writeAddr(buf []byte, e *entry, arg string) []byte {
	if arg == "" {
		return appendAddr(buf, e.x)
	}
	if a := e.x.Req.Remote.Addr(); a.IsValid() {
		return a.Unmap().WithZone("").AppendTo(buf)
	}
	return buf
}

// secret are fields whose whole value is a password or a token: no log has it.
func secret(name string) bool {
	return exchange.EqualName(name, "Authorization") || exchange.EqualName(name, "Proxy-Authorization")
}

func writeField(buf []byte, e *entry, arg string) []byte {
	value := e.x.Req.Fields.Get(arg)
	switch {
	case exchange.EqualName(arg, "Host"):
		value = e.x.Req.Host
	case secret(arg) && value != "":
		return append(buf, "***"...)
	}
	return escape(buf, value)
}

func writeAnswerField(buf []byte, e *entry, arg string) []byte {
	value := e.x.Resp.Fields.Get(arg)
	if value == "" && e.x.Resp.Length >= 0 && exchange.EqualName(arg, "Content-Length") {
		return strconv.AppendInt(buf, e.x.Resp.Length, 10)
	}
	return escape(buf, value)
}

// writeCookie is one cookie of the request.
func writeCookie(buf []byte, e *entry, arg string) []byte {
	for i := range e.x.Req.Fields.Len() {
		f := e.x.Req.Fields.At(i)
		if !exchange.EqualName(f.Name, "Cookie") {
			continue
		}
		for rest := f.Value; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			if name, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && name == arg {
				return escape(buf, value)
			}
		}
	}
	return buf
}

func writeRequestLine(buf []byte, e *entry, _ string) []byte {
	r := &e.x.Req
	if r.Method == "" { // the head was unreadable
		return buf
	}
	buf = append(escape(buf, r.Method), ' ')
	buf = append(escape(buf, r.Target), ' ')
	return escape(buf, r.Proto)
}

// writePath is the path as the client sent it, without the query.
func writePath(buf []byte, e *entry, _ string) []byte {
	path, _, _ := strings.Cut(e.x.Req.Target, "?")
	return escape(buf, path)
}

// writeHost is the host that the client asked for, without its port.
func writeHost(buf []byte, e *entry, _ string) []byte {
	host := e.x.Req.Host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return escape(buf, host)
}

// writeTook is how long the exchange took, in seconds unless the argument says
// otherwise.
func writeTook(buf []byte, e *entry, arg string) []byte {
	unit := time.Second
	switch arg {
	case "ms":
		unit = time.Millisecond
	case "us":
		unit = time.Microsecond
	}
	return strconv.AppendInt(buf, int64(e.took()/unit), 10)
}

// writeEnd is what became of the connection: X, the answer was not finished; +, it may
// be used again; -, it may not.
func writeEnd(buf []byte, e *entry, _ string) []byte {
	switch {
	case errors.Is(e.err, exchange.ErrClientGone) || e.err != nil && e.x.Started() && !e.x.Failed:
		return append(buf, 'X')
	case e.x.Req.Proto == "HTTP/1.0" || e.x.Resp.Fields.HasToken("Connection", "close"):
		return append(buf, '-')
	}
	return append(buf, '+')
}

// writeTime is when the request began, or with end: in front of the argument when it
// ended: as in common format, as a number, or by a format of strftime(3). All is UTC.
func writeTime(buf []byte, e *entry, arg string) []byte {
	at := e.began
	if rest, ok := strings.CutPrefix(arg, "end:"); ok {
		at, arg = e.x.Ended, rest
	}
	arg = strings.TrimPrefix(arg, "begin:")
	switch arg {
	case "":
		buf = append(buf, '[')
		if at == e.began {
			buf = append(buf, e.clock.at(at)...)
		} else {
			buf = appendTime(buf, at.UTC())
		}
		return append(buf, ']')
	case "sec":
		return strconv.AppendInt(buf, at.Unix(), 10)
	case "msec":
		return strconv.AppendInt(buf, at.UnixMilli(), 10)
	case "usec":
		return strconv.AppendInt(buf, at.UnixMicro(), 10)
	case "msec_frac":
		return digits(buf, at.Nanosecond()/1e6, 3)
	case "usec_frac":
		return digits(buf, at.Nanosecond()/1e3, 6)
	}
	return strftime(buf, at.UTC(), arg)
}
