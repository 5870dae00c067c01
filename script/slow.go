package script

import (
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
)

// Slow is a log of slow requests. It may be shared by handlers.
type Slow struct {
	Threshold time.Duration // requests that take as long, answer included, are logged
	Sample    int           // and of the others one in so many; 0: none
	Out       io.Writer     // gets whole lines, and never waits

	others atomic.Uint64
}

// maxSlowURI is the most bytes of a URI in a line (R-LSAPI-7).
const maxSlowURI = 200

// noted is what a line says of an attempt, kept from its reply.
type noted struct {
	began  time.Time
	head   time.Duration // to the head of the reply; 0: not measured
	status int           // of the reply; 0: there was none
	pid    int           // 0: not known
}

func (n *noted) answered(r *extproc.Reply) {
	n.head, n.status, n.pid = r.Phases().Head, r.Status, r.PID
}

// note logs an attempt that is over, if it was slow or is a sample. Fields of a line are
// separated by tabs: time, milliseconds, milliseconds to the head, status, virtual host,
// method, URI, script, process, request id; a dash is what is not known.
func (s *Slow) note(x *exchange.Exchange, script string, n *noted, err error) {
	now := time.Now()
	took := now.Sub(n.began)
	if took < s.Threshold && (s.Sample <= 0 || s.others.Add(1)%uint64(s.Sample) != 0) {
		return
	}
	if n.status == 0 && err != nil {
		n.status = exchange.StatusOf(err)
	}
	b := make([]byte, 0, 512)
	b = now.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = appendMillis(append(b, '\t'), took)
	b = append(b, '\t')
	if n.head > 0 {
		b = appendMillis(b, n.head)
	} else {
		b = append(b, '-')
	}
	b = appendNumber(append(b, '\t'), n.status)
	for _, text := range []string{x.Route.VHost, x.Req.Method, x.Req.Target[:min(len(x.Req.Target), maxSlowURI)], script} {
		b = appendField(append(b, '\t'), text)
	}
	b = appendNumber(append(b, '\t'), n.pid)
	b = appendField(append(b, '\t'), x.Req.ID)
	s.Out.Write(append(b, '\n'))
}

// appendMillis appends milliseconds with one digit behind the point.
func appendMillis(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d)/float64(time.Millisecond), 'f', 1, 64)
}

func appendNumber(b []byte, n int) []byte {
	if n == 0 {
		return append(b, '-')
	}
	return strconv.AppendInt(b, int64(n), 10)
}

// appendField appends text without what would end the field or the line.
func appendField(b []byte, text string) []byte {
	if text == "" {
		return append(b, '-')
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f {
			b = append(b, '?')
		} else {
			b = append(b, c)
		}
	}
	return b
}
