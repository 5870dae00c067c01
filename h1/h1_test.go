package h1

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"httpjet/exchange"
)

var update = flag.Bool("update", false, "rewrite the verdicts of testdata")

// transcript is one case of a file in testdata: bytes in, verdict out.
type transcript struct{ title, method, text, in, want string }

// transcripts reads the cases of a folder. A case starts with "== title"; its
// lines up to "----" are joined after unquoting, then follows the verdict.
func transcripts(t testing.TB, dir string, f func(file string, cs []transcript)) {
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/%s: no files (%v)", dir, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cs []transcript
		for _, part := range strings.Split(string(data), "\n== ")[1:] {
			title, rest, _ := strings.Cut(part, "\n")
			text, want, ok := strings.Cut(rest, "----\n")
			if !ok {
				t.Fatalf("%s: %s: no ----", file, title)
			}
			c := transcript{title: title, method: "GET", text: text, want: strings.TrimSpace(want)}
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				if m, ok := strings.CutPrefix(line, "method "); ok {
					c.method = m
					continue
				}
				s, err := strconv.Unquote(`"` + strings.ReplaceAll(line, `"`, `\"`) + `"`)
				if err != nil {
					t.Fatalf("%s: %s: %q: %v", file, title, line, err)
				}
				c.in += s
			}
			cs = append(cs, c)
		}
		f(file, cs)
	}
}

func runTranscripts(t *testing.T, dir string, verdict func(in io.Reader, method string) string) {
	transcripts(t, dir, func(file string, cs []transcript) {
		head, _, _ := strings.Cut(readFile(t, file), "\n== ")
		var out strings.Builder
		out.WriteString(head)
		for _, c := range cs {
			got := strings.TrimSpace(verdict(strings.NewReader(c.in), c.method))
			out.WriteString(fmt.Sprintf("\n== %s\n%s----\n%s\n", c.title, c.text, got))
			if got != c.want && !*update {
				t.Errorf("%s: %s: verdict\n%s\nwant\n%s", file, c.title, got, c.want)
			}
			// The borders of reads must not matter.
			if slow := strings.TrimSpace(verdict(iotest.OneByteReader(strings.NewReader(c.in)), c.method)); slow != got {
				t.Errorf("%s: %s: byte by byte the verdict is\n%s\nand not\n%s", file, c.title, slow, got)
			}
		}
		if *update {
			if err := os.WriteFile(file, []byte(out.String()), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func readFile(t testing.TB, name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRequestTranscripts covers R-PIPE-4, R-PIPE-5, R-LSN-2 and R-LSN-8; the
// cases G01 to G06 are in the files by name.
func TestRequestTranscripts(t *testing.T) { runTranscripts(t, "request", requestVerdict) }

func TestResponseTranscripts(t *testing.T) { runTranscripts(t, "response", responseVerdict) }

func requestVerdict(in io.Reader, _ string) string {
	var out strings.Builder
	r := NewReader(in)
	for {
		head, err := r.ReadRequestHead(16380, nil)
		if err != nil {
			return out.String() + errVerdict(err)
		}
		var req exchange.Request
		info, err := ParseRequest(head, Limits{}, &req)
		if err != nil {
			return out.String() + errVerdict(err)
		}
		fmt.Fprintf(&out, "%s %s %s host=%q length=%d", req.Method, req.Target, req.Proto, req.Host, req.Length)
		if !info.KeepAlive {
			out.WriteString(" close")
		}
		if info.ExpectContinue {
			out.WriteString(" expect")
		}
		writeMessage(&out, &req.Fields, r.Body(info.Framing))
		if !r.body.Done() {
			return out.String()
		}
	}
}

func responseVerdict(in io.Reader, method string) string {
	var out strings.Builder
	r := NewReader(in)
	for {
		head, err := r.ReadHead(1 << 16)
		if err != nil {
			return out.String() + errVerdict(err)
		}
		resp, err := ParseResponse(head, method)
		if err != nil {
			return out.String() + errVerdict(err)
		}
		fmt.Fprintf(&out, "%d length=%d framing=%d", resp.Status, resp.Length, resp.Framing)
		if !resp.KeepAlive {
			out.WriteString(" close")
		}
		if resp.Upgrade {
			out.WriteString(" upgrade")
		}
		writeMessage(&out, &resp.Fields, r.Body(resp.Framing))
		if !r.body.Done() || resp.Framing == UntilClose {
			return out.String()
		}
	}
}

func writeMessage(out *strings.Builder, f *exchange.Fields, body *Body) {
	out.WriteString("\n")
	for n, v := range f.All() {
		fmt.Fprintf(out, "  %s: %q\n", n, v)
	}
	data, err := io.ReadAll(body)
	if len(data) > 0 || err != nil {
		fmt.Fprintf(out, "  body %q\n", data)
	}
	if err != nil {
		fmt.Fprintf(out, "  body %s\n", errVerdict(err))
	}
	if tr := body.Trailers(); tr != nil {
		for n, v := range tr.All() {
			fmt.Fprintf(out, "  trailer %s: %q\n", n, v)
		}
	}
}

func errVerdict(err error) string {
	if e, ok := errors.AsType[*SyntaxError](err); ok {
		return fmt.Sprintf("error %d %s", e.Status, e.Msg)
	}
	return err.Error()
}

// TestHeadLimits covers R-PIPE-4: 414 for a long target, 431 for a large head or
// more than 100 fields, and the largest of each accepted.
func TestHeadLimits(t *testing.T) {
	f := func(head string, want int) {
		t.Helper()
		r := NewReader(strings.NewReader(head))
		got := 0
		h, err := r.ReadRequestHead(16380, nil)
		if err == nil {
			_, err = ParseRequest(h, Limits{}, &exchange.Request{})
		}
		if err != nil {
			e, ok := errors.AsType[*SyntaxError](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			got = e.Status
		}
		if got != want {
			t.Errorf("head of %d bytes: status %d (%v), want %d", len(head), got, err, want)
		}
	}
	target := func(n int) string { return "GET /" + strings.Repeat("a", n-1) + " HTTP/1.1\r\nHost: a\r\n\r\n" }
	f(target(8192), 0)
	f(target(8193), 414)
	f(target(17000), 414)
	f(target(1<<20), 414)
	sized := func(n int) string {
		s := "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n"
		return strings.Replace(s, "X: ", "X: "+strings.Repeat("a", n-len(s)), 1)
	}
	f(sized(16380), 0)
	f(sized(16381), 431)
	f(sized(1<<20), 431)
	fields := func(n int) string {
		return "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", n-1) + "\r\n"
	}
	f(fields(100), 0)
	f(fields(101), 431)
}

// TestChunkBounds covers R-PIPE-5: chunk lines and trailers are bounded.
func TestChunkBounds(t *testing.T) {
	f := func(in string, want string) {
		t.Helper()
		_, err := io.ReadAll(NewReader(strings.NewReader(in)).Body(Chunked))
		if fmt.Sprint(err) != want {
			t.Errorf("%d bytes: error %v, want %s", len(in), err, want)
		}
	}
	f("1;"+strings.Repeat("x", maxChunkLine-4)+"\r\na\r\n0\r\n\r\n", "<nil>")
	f("1;"+strings.Repeat("x", maxChunkLine-3)+"\r\na\r\n0\r\n\r\n", "chunk-size line too long")
	f("1;"+strings.Repeat("x", 1<<20), "chunk-size line too long")
	f("0\r\n"+strings.Repeat("A: b\r\n", 100)+"\r\n", "<nil>")
	f("0\r\n"+strings.Repeat("A: b\r\n", 101)+"\r\n", "too many trailers")
	f("0\r\nA: "+strings.Repeat("b", 9000)+"\r\n\r\n", "trailers too large")
	f("7fffffffffffffff\r\nabc", "unexpected EOF")
}

// TestBufferedIsExact: a relay flushes when Buffered is 0, so a chunk that has
// been read whole must not hide behind the line end of its chunk, nor may Read
// wait for more while it has bytes.
func TestBufferedIsExact(t *testing.T) {
	f := func(framing Framing, steps ...string) {
		t.Helper()
		pr, pw := io.Pipe()
		body := NewReader(pr).Body(framing)
		buf := make([]byte, 64<<10)
		for _, step := range steps {
			in, want, _ := strings.Cut(step, "|")
			go io.WriteString(pw, in)
			n, err := body.Read(buf)
			if err != nil && err != io.EOF || string(buf[:n]) != want || body.Buffered() != 0 {
				t.Errorf("after %q: Read %q, %v, Buffered %d", in, buf[:n], err, body.Buffered())
			}
		}
		if !body.Done() {
			t.Errorf("steps %q do not end the body", steps)
		}
		pw.Close()
	}
	f(Chunked, "5\r\nhello\r\n|hello", "5\r\nworld\r\n|world", "0\r\n\r\n|")
	f(Chunked, "5\r\nhel|hel", "lo|lo", "\r\n5\r\nworld\r\n0\r\n\r\n|world")
	f(Chunked, "2\r\nab\r\n2\r\ncd\r\n0|abcd", "\r\nA: b\r\n\r\n|")
	f(Chunked, "2\r\nab\r\n0\r\nA: b\r\n\r\n|ab")
	f(7, "hel|hel", "lo, |lo, ", "|")
}

func TestSmallReads(t *testing.T) {
	r := NewReader(strings.NewReader("3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\nnext"))
	body := r.Body(Chunked)
	got, err := io.ReadAll(iotest.OneByteReader(body))
	if string(got) != "abc0123456789abcdef" || err != nil {
		t.Fatalf("body %q, %v", got, err)
	}
	if string(r.Take()) != "next" || r.Buffered() != 0 {
		t.Error("bytes behind the body are lost")
	}
	r.Release()
	if r.buf != nil {
		t.Error("buffer not released")
	}
}

func TestReaderReadsRawBytes(t *testing.T) {
	in := "HTTP/1.1 101 Up\r\n\r\n" + strings.Repeat("raw", 5000)
	r := NewReader(strings.NewReader(in))
	head, err := r.ReadHead(100)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(r)
	if head+string(rest) != in || err != nil {
		t.Errorf("%d bytes behind the head, %v", len(rest), err)
	}
}

func TestAppendRequest(t *testing.T) {
	f := func(method, target, host string, length int64, want string) {
		t.Helper()
		var fs exchange.Fields
		fs.Add("A", "b")
		fs.Add("Host", "evil")
		fs.Add("Content-length", "3")
		fs.Add("transfer-encoding", "chunked")
		fs.Add("Cut", "x\r\nInjected: y")
		fs.Add("Nul", "x\x00")
		fs.Add("Na me", "x")
		fs.Add("", "x")
		if got := string(AppendRequest(nil, method, target, host, &fs, length)); got != want {
			t.Errorf("request\n%q, want\n%q", got, want)
		}
	}
	f("GET", "/x?y", "h", 0, "GET /x?y HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n")
	f("POST", "/", "h", 0, "POST / HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 0\r\n\r\n")
	f("GET", "/", "h", 7, "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 7\r\n\r\n")
	f("PUT", "", "h", -1, "PUT / HTTP/1.1\r\nHost: h\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n")
	f("GET", "/a b\r\nX: y", "h\r\nX: y", 0, "GET /a%20b%0D%0AX:%20y HTTP/1.1\r\nHost: \r\nA: b\r\n\r\n")
}

func TestAppendResponse(t *testing.T) {
	r := exchange.Response{Status: 200}
	for _, fd := range []exchange.Field{{Name: "A", Value: "b"}, {Name: "Date", Value: "x"}, {Name: "SERVER", Value: "x"},
		{Name: "Connection", Value: "x"}, {Name: "keep-alive", Value: "x"}, {Name: "Content-Length", Value: "9"},
		{Name: "Transfer-Encoding", Value: "gzip"}, {Name: "Cut", Value: "\n"}} {
		r.Fields.Add(fd.Name, fd.Value)
	}
	got := AppendResponseHead(nil, &r, Framed{Chunked: true, Length: -1, Connection: "close", Own: OwnLines("now", "s")})
	got = AppendChunk(got, nil)
	got = AppendChunk(got, bytes.Repeat([]byte("x"), 17))
	var tr exchange.Fields
	tr.Add("Sum", "1")
	tr.Add("Content-Length", "1")
	got = AppendLastChunk(got, &tr)
	want := "HTTP/1.1 200 OK\r\nDate: now\r\nServer: s\r\nA: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" +
		"11\r\nxxxxxxxxxxxxxxxxx\r\n0\r\nSum: 1\r\n\r\n"
	if string(got) != want {
		t.Errorf("response\n%q, want\n%q", got, want)
	}
	got = AppendResponseHead(nil, &exchange.Response{Status: 299}, Framed{Length: 5})
	if want := "HTTP/1.1 299 \r\nContent-Length: 5\r\n\r\n"; string(got) != want {
		t.Errorf("response %q, want %q", got, want)
	}
}

func TestHeadAllocs(t *testing.T) {
	in := "GET /index.html?a=b HTTP/1.1\r\nHost: example.com\r\nUser-Agent: x\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n"
	src := strings.NewReader(in)
	r := NewReader(src)
	var req exchange.Request
	got := testing.AllocsPerRun(100, func() {
		src.Seek(0, io.SeekStart)
		req.Fields.Reset()
		head, err := r.ReadRequestHead(16380, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseRequest(head, Limits{}, &req); err != nil {
			t.Fatal(err)
		}
		r.Release()
	})
	if got > 1 {
		t.Errorf("%v allocations per head, want the string alone", got)
	}
}

// A request that is refused for its fields is still known by its line.
func TestRefusedRequestHasItsTarget(t *testing.T) {
	for _, fields := range []string{"", "Host: a b\r\n", "Host: a\r\nX\r\n", "Host: a\r\nContent-Length: x\r\n"} {
		var req exchange.Request
		_, err := ParseRequest("GET /x?y HTTP/1.1\r\n"+fields+"\r\n", Limits{}, &req)
		if err == nil || req.Method != "GET" || req.Target != "/x?y" || req.Proto != "HTTP/1.1" {
			t.Errorf("%q: %v, %q %q %q", fields, err, req.Method, req.Target, req.Proto)
		}
	}
}

// stalls gives some bytes and then no more, which it tells by an error of its own.
type stalls struct{ left string }

var errStalled = errors.New("stalled")

func (s *stalls) Read(p []byte) (int, error) {
	if s.left == "" {
		return 0, errStalled
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

// A response head that is malformed is refused before it ends, in one piece and
// byte by byte; one that may yet become good is waited for.
func TestMalformedResponseHeadIsNotWaitedFor(t *testing.T) {
	f := func(begun string, malformed bool) {
		t.Helper()
		for _, src := range []io.Reader{&stalls{begun}, iotest.OneByteReader(&stalls{begun})} {
			_, err := NewReader(src).ReadHead(1 << 16)
			if _, refused := errors.AsType[*SyntaxError](err); refused != malformed || !refused && err != errStalled {
				t.Errorf("%q: %v", begun, err)
			}
		}
	}
	good := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Empty:\r\nY:\tcaf\xc3\xa9 \r\n\r\n"
	for i := range good {
		f(good[:i], false)
	}
	for _, begun := range []string{"HTTP/1.1 404", "HTTP/1.1 404\r", "HTTP/1.0 599 ", "HTTP/1.1 200 OK\r\nA: b\r"} {
		f(begun, false)
	}
	for _, begun := range []string{"h", "SSH-2.0-OpenSSH", "220 mail", "HTTP/x", "HTTP/1,", "HTTP/1.10", "HTTP/1.1  ", "HTTP/1.1 2x", "HTTP/1.1 2000", "HTTP/1.1 200\t",
		"HTTP/1.1 200 O\x00", "HTTP/1.1 200 OK\rX", "HTTP/1.1 200 OK\n", "HTTP/1.1 999 No\r\n", "HTTP/2.0 200 OK\r\n", "\n", "\x15\x03\x01",
		"HTTP/1.1 200 OK\r\n A", "HTTP/1.1 200 OK\r\nA B", "HTTP/1.1 200 OK\r\n:", "HTTP/1.1 200 OK\r\n<html>", "HTTP/1.1 200 OK\r\nA: \x00",
		"HTTP/1.1 200 OK\r\nA: b\rc", "HTTP/1.1 200 OK\r\nno colon\r\n", "HTTP/1.1 200 OK\r\nA: b\r\nC\r\n", "HTTP/1.1 200 OK\r\nA: b\n"} {
		f(begun, true)
	}
}
