package h1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"httpjet/exchange"
)

// These tests read each message twice, with this package and with net/http, and
// hold one reading against the other. testdata/differences.txt lists, one class a
// line with its reason, what they may disagree in; anything else fails.

// reading is what a parser made of one message.
type reading struct {
	err    error
	eof    bool // err is that the message is not over
	line   string
	host   string
	length int64
	close  bool
	fields []string // "Name: value", names canonical, sorted by name alone
	body   string
	tail   []string // trailers
	rest   string   // what follows the message
}

func (r *reading) fail(err error) {
	r.err = err
	r.eof = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// ours reads with this package; method is "" for a request, else that of the
// request that a response answers.
func ours(in, method string) (r reading) {
	rd := NewReader(strings.NewReader(in))
	if method != "" {
		head, err := rd.ReadHead(1 << 16)
		if err != nil {
			r.fail(err)
			return r
		}
		resp, err := ParseResponse(head, method)
		if err != nil {
			r.fail(err)
			return r
		}
		r.line, r.length, r.close = fmt.Sprint(resp.Status), int64(resp.Framing), !resp.KeepAlive
		r.take(rd, resp.Framing, &resp.Fields)
		return r
	}
	head, err := rd.ReadRequestHead(16380, nil)
	if err != nil {
		r.fail(err)
		return r
	}
	var req exchange.Request
	info, err := ParseRequest(head, Limits{}, &req)
	if err != nil {
		r.fail(err)
		return r
	}
	r.line, r.host = req.Method+" "+req.Target+" "+req.Proto, strings.ToLower(req.Host)
	r.length, r.close = req.Length, !info.KeepAlive
	r.take(rd, info.Framing, &req.Fields)
	return r
}

// take reads the rest of a message of ours.
func (r *reading) take(rd *Reader, f Framing, fields *exchange.Fields) {
	for name, value := range fields.All() {
		r.add(&r.fields, name, value)
	}
	body := rd.Body(f)
	b, err := io.ReadAll(body)
	if r.body = string(b); err != nil {
		r.fail(err)
		return
	}
	if tr := body.Trailers(); tr != nil {
		for name, value := range tr.All() {
			r.add(&r.tail, name, value)
		}
	}
	rest, _ := io.ReadAll(rd)
	r.rest = string(rest)
	r.sort()
}

func (r *reading) add(list *[]string, name, value string) {
	*list = append(*list, http.CanonicalHeaderKey(name)+": "+value)
}

// sort orders by name; values of one name stay in their order.
func (r *reading) sort() {
	for _, list := range [][]string{r.fields, r.tail} {
		slices.SortStableFunc(list, func(a, b string) int {
			a, _, _ = strings.Cut(a, ":")
			b, _, _ = strings.Cut(b, ":")
			return strings.Compare(a, b)
		})
	}
}

// theirs reads with net/http.
func theirs(in, method string) (r reading) {
	br := bufio.NewReader(strings.NewReader(in))
	var h, trailers func() http.Header
	var body io.ReadCloser
	if method != "" {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			r.fail(err)
			return r
		}
		r.line, r.length, r.close = fmt.Sprint(resp.StatusCode), resp.ContentLength, resp.Close
		h, trailers, body = func() http.Header { return resp.Header }, func() http.Header { return resp.Trailer }, resp.Body
	} else {
		req, err := http.ReadRequest(br)
		if err != nil {
			r.fail(err)
			return r
		}
		target := req.RequestURI
		if req.Method != "CONNECT" && target != "*" && target[0] != '/' {
			_, path, _ := cutAbsolute(target) // in origin form, as we tell it
			switch {
			case path == "" && req.Method == "OPTIONS":
				target = "*"
			case path == "" || path[0] == '?':
				target = "/" + path
			default:
				target = path
			}
		}
		r.line, r.host = req.Method+" "+target+" "+req.Proto, strings.ToLower(req.Host)
		r.length, r.close = req.ContentLength, req.Close
		h, trailers, body = func() http.Header { return req.Header }, func() http.Header { return req.Trailer }, req.Body
	}
	announced := trailers()
	b, err := io.ReadAll(body)
	if r.body = string(b); err != nil {
		r.fail(err)
		return r
	}
	r.addAll(&r.fields, h())
	for name := range announced {
		if announced[name] == nil {
			delete(announced, name) // announced, not sent
		}
	}
	r.addAll(&r.tail, trailers())
	rest, _ := io.ReadAll(br)
	r.rest = string(rest)
	r.sort()
	return r
}

func (r *reading) addAll(list *[]string, h http.Header) {
	for name, values := range h {
		if name == "Content-Length" || name == "Transfer-Encoding" {
			continue // ours are apart
		}
		for _, v := range values {
			r.add(list, name, v)
		}
	}
}

// difference names the class in which two readings of one message differ, ""
// for none. Readings that both end in an error do not.
func difference(o, s reading, method string) string {
	switch {
	case method == "CONNECT" && o.err == nil && o.line[0] == '2':
		return "read | what follows a success of CONNECT"
	case o.err != nil && s.err != nil:
		return ""
	case o.err != nil && o.eof:
		return "refused | unfinished"
	case o.err != nil:
		return "refused | " + o.err.Error()
	case s.err != nil && s.eof:
		return "accepted | unfinished"
	case s.err != nil:
		err, what := s.err, ""
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err, what = ue.Err, "target: "
		}
		text, _, _ := strings.Cut(err.Error(), `"`) // the rest quotes the message
		return "accepted | " + what + strings.TrimSpace(text)
	}
	return disagreement(o, s, method)
}

// disagreement names what two good readings differ in.
func disagreement(o, s reading, method string) string {
	if method != "" && o.length == int64(UntilClose) {
		o.length = -1
	}
	switch {
	case o.line != s.line:
		return fmt.Sprintf("read | first line (%q, %q)", o.line, s.line)
	case o.host != s.host && strings.HasPrefix(o.line, "CONNECT "):
		return "read | host of a CONNECT"
	case o.host != s.host:
		return fmt.Sprintf("read | host (%q, %q)", o.host, s.host)
	case o.body != s.body:
		return fmt.Sprintf("read | body (%q, %q)", o.body, s.body)
	case o.rest != s.rest:
		return fmt.Sprintf("read | what follows (%q, %q)", o.rest, s.rest)
	}
	if class := fieldsDiffer(o, s); class != "" {
		return class
	}
	if o.length != s.length {
		if method == "HEAD" || strings.HasPrefix(o.line, "1") || o.line == "204" || o.line == "304" {
			return "read | length of a response without a body"
		}
		return fmt.Sprintf("read | length (%d, %d)", o.length, s.length)
	}
	if o.close != s.close {
		switch {
		case method == "" && o.close && strings.HasPrefix(o.line, "CONNECT "):
			return "read | the connection after CONNECT"
		case method == "":
		case o.close && o.line == "101":
			return "read | a connection after 101"
		case o.close && (strings.HasPrefix(o.line, "1") || o.line == "204"):
			return "read | a connection after a body that may not be"
		}
		return fmt.Sprintf("read | close (%v, %v)", o.close, s.close)
	}
	return ""
}

// fieldsDiffer compares fields and trailers.
func fieldsDiffer(o, s reading) string {
	drop := func(list []string, name string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(f string) bool { return strings.HasPrefix(f, name+": ") })
	}
	class := ""
	for _, known := range [...]struct{ name, class string }{
		{"", ""},
		{"Cache-Control", "read | Cache-Control made of Pragma"},
		{"Trailer", "read | Trailer taken out of the fields"},
		{"Connection", "read | Connection taken out of the fields"},
	} {
		if known.name != "" {
			if slices.Equal(drop(o.fields, known.name), o.fields) == slices.Equal(drop(s.fields, known.name), s.fields) {
				continue // both have it or neither
			}
			o.fields, s.fields, class = drop(o.fields, known.name), drop(s.fields, known.name), known.class
		}
		if slices.Equal(o.fields, s.fields) {
			break
		}
	}
	if !slices.Equal(o.fields, s.fields) {
		return fmt.Sprintf("read | fields (%q, %q)", o.fields, s.fields)
	}
	if !slices.Equal(o.tail, s.tail) {
		left := slices.DeleteFunc(slices.Clone(s.tail), func(f string) bool {
			name, _, _ := strings.Cut(f, ":")
			return forbiddenTrailer(name)
		})
		if !slices.Equal(o.tail, left) {
			return fmt.Sprintf("read | trailers (%q, %q)", o.tail, s.tail)
		}
		return "read | trailers that frame or route"
	}
	return class
}

// differences returns the listed classes, each with its reason.
func differences(t testing.TB) map[string]string {
	classes := map[string]string{}
	for line := range strings.Lines(readFile(t, "testdata/differences.txt")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		part := strings.SplitN(line, " | ", 3)
		if len(part) != 3 || part[2] == "" || classes[part[0]+" | "+part[1]] != "" {
			t.Fatalf("differences.txt: %q is no new class with a reason", line)
		}
		classes[part[0]+" | "+part[1]] = part[2]
	}
	return classes
}

// classOf reads in twice and names the difference.
func classOf(in, method string) string {
	class := difference(ours(in, method), theirs(in, method), method)
	if class == "accepted | malformed HTTP request" && strings.HasPrefix(in, "\r\n") {
		if class = classOf(in[2:], method); class == "" {
			return "accepted | an empty line before the request"
		}
	}
	return class
}

// compare reads in twice and fails unless the difference is none or listed. It
// returns the class.
func compare(t testing.TB, classes map[string]string, in, method string) string {
	t.Helper()
	class := classOf(in, method)
	if class != "" && classes[class] == "" {
		t.Errorf("%q %.400q: %s\nwe read %+v\nthey read %+v", method, in, class, ours(in, method), theirs(in, method))
	}
	return class
}

// corpus calls f for every message that the tests of this package know, and for
// messages derived from each: every byte, put in and put over, at every position
// of some, and both ways in which a line can end badly.
func corpus(t testing.TB, f func(in, method string)) {
	for _, dir := range []string{"request", "response"} {
		transcripts(t, dir, func(_ string, cs []transcript) {
			for _, c := range cs {
				method := ""
				if dir == "response" {
					method = c.method
				}
				f(c.in, method)
				for _, end := range []string{"\n", "\r", "\r\r\n", "\n\r", " \r\n", "\x00\r\n", "\r\n "} {
					f(strings.ReplaceAll(c.in, "\r\n", end), method)
					f(strings.Replace(c.in, "\r\n", end, 1), method)
				}
			}
		})
	}
	for _, m := range further {
		f(m.in, m.method)
	}
	for i, m := range mutated {
		for at := range len(m.in) + 1 {
			for b := range 256 {
				if i > 2 && (b >= 'c' && b <= 'z' || b >= 'C' && b <= 'Z' || b > 0x81 && b < 0xff) {
					continue // of a kind with others
				}
				f(m.in[:at]+string([]byte{byte(b)})+m.in[at:], m.method)
				if at < len(m.in) {
					f(m.in[:at]+string([]byte{byte(b)})+m.in[at+1:], m.method)
				}
			}
			if at < len(m.in) {
				f(m.in[:at]+m.in[at+1:], m.method)
			}
			f(m.in[:at], m.method)
		}
	}
}

// mutated are the messages in which bytes are tried everywhere: in the first three
// every byte, in the others one of each kind.
var mutated = []struct{ in, method string }{
	{"GET /a?b HTTP/1.1\r\nHost: a:8\r\nX: y\r\nConnection: close\r\n\r\n", ""},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n0\r\nT: u\r\n\r\nGET /", ""},
	{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nokHTTP", "GET"},
	{"GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n", ""},
	{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ""},
	{"OPTIONS * HTTP/1.1\r\nHost: [::1]:8\r\n\r\n", ""},
	{"CONNECT a:8 HTTP/1.1\r\nHost: a:8\r\n\r\n", ""},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /", ""},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n2\r\nok\r\n0\r\nT: u\r\n\r\n", "GET"},
	{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nok", "GET"},
	{"HTTP/1.1 304 No\r\nContent-Length: 2\r\n\r\n", "GET"},
	{"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", "GET"},
	{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "HEAD"},
}

// further are messages of what no transcript shows.
var further = []struct{ in, method string }{
	{"GET / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\n\r\n", ""},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n", ""},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 00000000000000000002\r\n\r\nab", ""},
	{chunked("2;" + strings.Repeat("x", 5000) + "\r\nab\r\n0\r\n\r\n"), ""},
	{chunked(strings.Repeat("1;"+strings.Repeat("x", 200)+"\r\na\r\n", 100) + "0\r\n\r\n"), ""},
	{chunked("0\r\nA: " + strings.Repeat("b", 5000) + "\r\n\r\n"), ""},
	{chunked("0\r\n" + strings.Repeat("A: b\r\n", 101) + "\r\n"), ""},
	{"GET /" + strings.Repeat("a", 9000) + " HTTP/1.1\r\nHost: a\r\n\r\n", ""},
	{"GET /" + strings.Repeat("a", 20000) + " HTTP/1.1\r\nHost: a\r\n\r\n", ""},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 20000) + "\r\n\r\n", ""},
	{"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 100) + "\r\n", ""},
	{"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 513) + "\r\n", "GET"},
	{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "GET"},
	{"HTTP/1.1 200 OK\r\n\r\nraw", "CONNECT"},
	{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nraw", "CONNECT"},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nraw", "CONNECT"},
	{"HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nab", "GET"},
	{"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "GET"},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HEAD"},
}

// chunked is a good request head with this body.
func chunked(body string) string {
	return "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body
}

// TestDifferencesFromNetHTTP: over the whole corpus nothing but the listed
// differences, and each of these at least once, so that the list holds no class
// that has gone.
func TestDifferencesFromNetHTTP(t *testing.T) {
	classes := differences(t)
	seen := map[string]bool{}
	corpus(t, func(in, method string) {
		class := classOf(in, method)
		if !seen[class] && class != "" && classes[class] == "" {
			compare(t, classes, in, method) // once for each class
		}
		seen[class] = true
	})
	for class := range classes {
		if !seen[class] {
			t.Errorf("differences.txt lists %q, which no message shows", class)
		}
	}
}
