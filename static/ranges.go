package static

import (
	"crypto/rand"
	"fmt"
	"math"
	"strconv"
	"strings"

	"httpjet/exchange"
)

// maxSpans is the number of ranges of one request; with more the whole file is
// sent (R-STATIC-6).
const maxSpans = 16

// span is the bytes from start up to, not including, end.
type span struct{ start, end int64 }

func (s span) length() int64 { return s.end - s.start }

func (s span) contentRange(size int64) string {
	b := append(make([]byte, 0, 64), "bytes "...)
	b = append(strconv.AppendInt(b, s.start, 10), '-')
	b = append(strconv.AppendInt(b, s.end-1, 10), '/')
	return string(strconv.AppendInt(b, size, 10))
}

// rangeField returns the Range field of a GET. It has no meaning for other
// methods (RFC 9110 §14.2), and none if it is repeated.
func rangeField(r *exchange.Request) string {
	if r.Method != "GET" {
		return ""
	}
	field := ""
	for v := range r.Fields.Values("Range") {
		if field != "" {
			return ""
		}
		field = v
	}
	return field
}

// parseRange reads a Range field (RFC 9110 §14.1.2, §14.2) for a file of size
// bytes. It returns the satisfiable ranges in the order of the request,
// overlapping ones merged; none if no range is satisfiable. It is not ok if the
// field is to be ignored: another unit, bad syntax, too many ranges, or a suffix
// of an empty file, which no Content-Range can describe.
func parseRange(v string, size int64) (spans []span, ok bool) {
	unit, set, found := strings.Cut(v, "=")
	if !found || !exchange.EqualName(strings.TrimSpace(unit), "bytes") {
		return nil, false
	}
	n := 0
	for spec := range strings.SplitSeq(set, ",") {
		spec = strings.Trim(spec, " \t")
		if spec == "" {
			continue // RFC 9110 §5.6.1: empty elements are no elements
		}
		if n++; n > maxSpans {
			return nil, false
		}
		s, state := parseSpan(spec, size)
		switch state {
		case ignored:
			return nil, false
		case satisfiable:
			spans = merge(spans, s)
		}
	}
	return spans, n > 0
}

type spanState uint8

const (
	ignored spanState = iota
	satisfiable
	unsatisfiable
)

func parseSpan(spec string, size int64) (span, spanState) {
	first, last, found := strings.Cut(spec, "-")
	if !found || first == "" && last == "" || !isDigits(first) || !isDigits(last) {
		return span{}, ignored
	}
	if first == "" {
		n := parseInt(last)
		switch {
		case n == 0:
			return span{}, unsatisfiable
		case size == 0:
			return span{}, ignored
		}
		return span{max(0, size-n), size}, satisfiable
	}
	s := span{parseInt(first), size}
	if last != "" {
		end := parseInt(last)
		if end < s.start {
			return span{}, ignored
		}
		if end < size {
			s.end = end + 1
		}
	}
	if s.start >= size {
		return span{}, unsatisfiable
	}
	return s, satisfiable
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// parseInt reads digits; a number that is too large is the largest one.
func parseInt(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// merge adds s to spans; ranges that overlap or touch become one, at the place
// of the first.
func merge(spans []span, s span) []span {
	at := -1
	kept := spans[:0]
	for _, o := range spans {
		if s.start > o.end || o.start > s.end {
			kept = append(kept, o)
			continue
		}
		s = span{min(s.start, o.start), max(s.end, o.end)}
		if at < 0 {
			at = len(kept)
			kept = append(kept, s)
		}
	}
	if at < 0 {
		return append(kept, s)
	}
	kept[at] = s
	return kept
}

// sendSpans answers a range request.
func (f *file) sendSpans(x *exchange.Exchange, spans []span) error {
	switch len(spans) {
	case 0:
		e := exchange.Fail(416, "range_not_satisfiable", "no range within %d bytes", f.size)
		e.Fields = []exchange.Field{{Name: "Content-Range", Value: "bytes */" + strconv.FormatInt(f.size, 10)}}
		return e
	case 1:
		f.addHead(x)
		x.Resp.Fields.Add("Content-Type", f.mediaType)
		x.Resp.Fields.Add("Content-Range", spans[0].contentRange(f.size))
		x.Resp.Length = spans[0].length()
		if err := x.Start(206); err != nil {
			return err
		}
		return f.send(x, spans[0])
	}
	return f.sendParts(x, spans)
}

// sendParts answers with multipart/byteranges (RFC 9110 §14.6). The boundary is
// random, so that no file can hold it by intent.
func (f *file) sendParts(x *exchange.Exchange, spans []span) error {
	boundary := rand.Text()
	heads := make([]string, len(spans))
	end := "\r\n--" + boundary + "--\r\n"
	total := int64(len(end))
	for i, s := range spans {
		heads[i] = fmt.Sprintf("\r\n--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n",
			boundary, f.mediaType, s.contentRange(f.size))
		total += int64(len(heads[i])) + s.length()
	}
	f.addHead(x)
	x.Resp.Fields.Add("Content-Type", "multipart/byteranges; boundary="+boundary)
	x.Resp.Length = total
	if err := x.Start(206); err != nil {
		return err
	}
	for i, s := range spans {
		if _, err := x.Write([]byte(heads[i])); err != nil {
			return err
		}
		if err := f.send(x, s); err != nil {
			return err
		}
	}
	_, err := x.Write([]byte(end))
	return err
}
