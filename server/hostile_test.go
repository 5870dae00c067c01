package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/fcgi"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"httpjet/lsapi/lsapitest"
)

// These tests send malformed HTTP/1 to the whole server, once for each kind of
// handler that may be behind a path, and look at all bytes on both sides.

// smuggled is what a hostile client hopes to have answered, or forwarded.
const smuggled = "GET /smuggled HTTP/1.1\r\nHost: site.test\r\n\r\n"

// hostile is a message that must be refused. /T stands for the path.
type hostile struct {
	name   string
	send   string
	status string // of the one answer, "400" if not said
	inBody bool   // the head is good
}

// head is a request that differs from a good one in its request line or a field.
func head(line string, fields ...string) string {
	return line + "\r\n" + strings.Join(append(fields, "", ""), "\r\n")
}

// field puts lines into a good request with a body that is framed by them.
func field(fields ...string) string {
	return head("POST /T HTTP/1.1", append([]string{"Host: site.test"}, fields...)...)
}

// chunks is a good head with this body.
func chunks(body string) string { return field("Transfer-Encoding: chunked") + body }

// controls are the bytes that stand in no line: all but HTAB, SP and visible ones.
func controls(f func(b string)) {
	for c := range 256 {
		if c < ' ' && c != '\t' && c != '\n' || c == 0x7f {
			f(string([]byte{byte(c)}))
		}
	}
}

// lengthsOfG01 are the ways to frame a body twice.
func lengthsOfG01() (list []hostile) {
	const cl, te = "Content-Length: 0", "Transfer-Encoding: chunked"
	const body = "20\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n0\r\n\r\n"
	for _, fields := range [][]string{{cl, te}, {te, cl}, {"content-length: 4", "TRANSFER-ENCODING: chunked"}, {te, "X: y", cl},
		{cl, "Transfer-Encoding: identity"}, {cl, "Transfer-Encoding:"}, {"Content-Length:", te}, {cl, cl, te}, {cl, te, te}} {
		list = append(list, hostile{name: strings.Join(fields, ", "), send: field(fields...) + body})
	}
	list = append(list, hostile{name: "HTTP/1.0", send: head("POST /T HTTP/1.0", cl, te) + body},
		hostile{name: "HTTP/1.0, chunked alone", send: head("POST /T HTTP/1.0", "Host: site.test", te) + "0\r\n\r\n"},
		hostile{name: "HTTP/1.0, kept", send: head("POST /T HTTP/1.0", "Connection: keep-alive", te) + "0\r\n\r\n"})
	for _, te := range []string{"xchunked", "chunkedx", "chunked, chunked", "chunked, identity", "identity, chunked", "identity", "gzip",
		"gzip, chunked", "chunked;q=1", `"chunked"`, "'chunked'", ",chunked", "chunked,", "chunked ;", "", "chun ked", "chunked\x0b", "\x0bchunked",
		"\xa0chunked", "chunked\x00", "c\xc5\xbfhunked", "\xef\xbb\xbfchunked", "chunked\r", "chu\x00nked"} {
		list = append(list, hostile{name: fmt.Sprintf("Transfer-Encoding %q", te), send: field("Transfer-Encoding: "+te) + "0\r\n\r\n"})
	}
	for _, line := range []string{"Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", " Transfer-Encoding: chunked", "Transfer-Encoding:\r\n chunked",
		"Transfer-Encoding\x00: chunked", "\x00Transfer-Encoding: chunked", "X: y\nTransfer-Encoding: chunked", "X: y\rTransfer-Encoding: chunked",
		"X: y\r\n\tTransfer-Encoding: chunked", "Transfer-Encoding", "Transfer-Encoding chunked", ": chunked", "Transfer-Encod\xefng: chunked",
		"Transfer-Encoding: chunked\nX: y", "Transfer-Encoding\r\n: chunked", "Transfer-Encoding:\nchunked", "Transfer Encoding: chunked"} {
		list = append(list, hostile{name: fmt.Sprintf("%q", line), send: field(line) + "0\r\n\r\n"})
	}
	return list
}

// linesOfG02 are request lines that are none.
func linesOfG02() (list []hostile) {
	add := func(status string, lines ...string) {
		for _, line := range lines {
			list = append(list, hostile{name: fmt.Sprintf("%.60q", line), status: status, send: head(line, "Host: site.test")})
		}
	}
	add("400", "GET /T HTTP/1.1\x00\x01junk", "GET /T HTTP/1.1 x", "GET /T HTTP/1.10", "GET /T HTTP/1.1 ", "GET /T HTTP/1.1\t", "GET /T HTTP/01.1",
		"GET /T HTTP/1.01", "GET /T HTTP/1,1", "GET /T HTTP/1.", "GET /T HTTP/.1", "GET /T HTTP/11", "GET /T HTTP/1", "GET /T HTTP/", "GET /T HTTP /1.1",
		"GET /T http/1.1", "GET /T Http/1.1", "GET /T HTTPS/1.1", "GET /T HTTP/1.1HTTP/1.1", "GET /T HTTP/1.1\r", "GET /T HTTP/1.x", "GET /T HTTP/a.1",
		"GET /T HTTP/-1.1", "GET /T HTTP/+1.1", "GET /T XTTP/1.1", "GET /T", "GET /T ", "GET", "", "/T HTTP/1.1", " GET /T HTTP/1.1", "\tGET /T HTTP/1.1",
		"GET\t/T\tHTTP/1.1", "GET  /T HTTP/1.1", "GET /T  HTTP/1.1", "GET /T\tHTTP/1.1", "GET /T\x0bHTTP/1.1", "GET /T x HTTP/1.1", "GET /T#f HTTP/1.1",
		"GET T HTTP/1.1", "GET ?T HTTP/1.1", "GET * HTTP/1.1", "OPTIONS ** HTTP/1.1", "GET //site.test:x@ \r HTTP/1.1", "GET \\T HTTP/1.1",
		"G(T /T HTTP/1.1", "G:T /T HTTP/1.1", "G\x80T /T HTTP/1.1", "\x16\x03\x01\x02\x00", "CONNECT /T HTTP/1.1", "CONNECT site.test HTTP/1.1",
		"CONNECT u@site.test:1 HTTP/1.1", "CONNECT http://site.test:1 HTTP/1.1", "CONNECT site.test: HTTP/1.1", "CONNECT :80 HTTP/1.1",
		// The authority of the target is Host said twice (R-LSN-2).
		"GET http://other.test/T HTTP/1.1", "GET http://site.test:80/T HTTP/1.1", "GET http://site.test./T HTTP/1.1", "GET http://u@site.test/T HTTP/1.1",
		"GET http:///T HTTP/1.1", "GET http://?T HTTP/1.1", "GET http:/T HTTP/1.1", "GET http:site.test/T HTTP/1.1", "GET //site.test HTTP/1.1x",
		"GET ftp://site.test/T HTTP/1.1", "GET ://site.test/T HTTP/1.1", "GET ws://site.test/T HTTP/1.1", "GET http://site.test\\@other.test/T HTTP/1.1",
		"GET http://other.test@site.test/T HTTP/1.1", "GET http://site.test%00/T HTTP/1.1", "GET http://site.test#/T HTTP/1.1")
	add("505", "GET /T HTTP/0.9", "GET /T HTTP/1.2", "GET /T HTTP/2.0", "GET /T HTTP/3.0", "GET /T HTTP/9.9", "PRI * HTTP/2.0")
	add("501", strings.Repeat("A", 33)+" /T HTTP/1.1")
	add("414", "GET /"+strings.Repeat("a", 8192)+" HTTP/1.1")
	controls(func(b string) {
		add("400", b+"GET /T HTTP/1.1", "G"+b+"T /T HTTP/1.1", "GET"+b+" /T HTTP/1.1", "GET /T"+b+" HTTP/1.1", "GET /T HTTP/1.1"+b, "GET /T HTTP"+b+"1.1")
	})
	return list
}

// fieldsOfG02 are fields and Hosts that are none.
func fieldsOfG02() (list []hostile) {
	add := func(fields ...string) {
		list = append(list, hostile{name: fmt.Sprintf("%.60q", fields), send: head("GET /T HTTP/1.1", fields...)})
	}
	const host = "Host: site.test"
	for _, h := range []string{"a b", "a/b", "u@a", "a:x", "a:65536", "a:-1", "a:1:2", "[::1", "::1", "[::1]x", "[1.2.3.4]", "[fe80::1%25eth0]", "a\\b", "a?b", "a#b",
		"<a>", "a\"b", "a\x7f", "a\x80", ":80", "http://a"} {
		add("Host: " + h)
	}
	add()
	add(host, host)
	add(host, "host: other.test")
	add("Host : site.test")
	add("Host: site.test", " other.test")
	add(host, "X: a", " b")
	add(host, "X: a", "\tb")
	add(" " + host)
	add("\t" + host)
	add(host, "no colon")
	add(host, ": x")
	add(host, "X : y")
	add(host, "X\t: y")
	for _, c := range "\"(),/;<=>?@[\\]{}\x80\xff" {
		add(host, "X"+string(c)+"Y: z")
	}
	controls(func(b string) {
		add(host, "X"+b+"Y: z")
		add(host, b+"X: z")
		add(host, "X"+b+": z")
		add(host, "X: "+b)
		add(host, "X: y"+b+"z")
		add(host, "X: z"+b)
		add("Host: si" + b + "te.test")
	})
	for _, first := range []string{"\n", "\r", "\x00", "\r\n\r\n", "\n\n", "\r\n\n", "\r\r\n", " \r\n"} {
		list = append(list, hostile{name: fmt.Sprintf("%q before the request", first), send: first + head("GET /T HTTP/1.1", host)})
	}
	for _, end := range []string{"\n", "\r", "\r\r\n", "\n\r"} {
		good := head("GET /T HTTP/1.1", host, "X: y")
		list = append(list, hostile{name: fmt.Sprintf("%q after the request line", end), send: strings.Replace(good, "\r\n", end, 1)},
			hostile{name: fmt.Sprintf("%q after every line", end), send: strings.ReplaceAll(good, "\r\n", end)},
			hostile{name: fmt.Sprintf("%q after the head", end), send: strings.TrimSuffix(good, "\r\n") + end})
	}
	list = append(list, hostile{name: "long head", status: "431", send: head("GET /T HTTP/1.1", host, "X: "+strings.Repeat("y", 17000))},
		hostile{name: "101 fields", status: "431", send: head("GET /T HTTP/1.1", append([]string{host}, strings.Split(strings.Repeat("X: y\n", 99)+"X: y", "\n")...)...)})
	return list
}

// chunksOfG03G06 are chunked bodies that are none.
func chunksOfG03G06() (list []hostile) {
	add := func(bodies ...string) {
		for _, b := range bodies {
			list = append(list, hostile{name: fmt.Sprintf("%.60q", b), inBody: true, send: chunks(b)})
		}
	}
	for _, size := range []string{"0x5", "0X5", "+5", "-5", "0_2e", "5 ;", "5 ", " 5", "\t5", "5\t", "", "g", "5g", "5,", "5.", "5\r", "5h", "#5", "\"5\"", "5\x00", "\x005",
		"5\v", "00000000000000005", "8000000000000000", "ffffffffffffffff", "10000000000000005", "5\n", "\xef\xbc\x95", "5;a\rb", "5;\x00", "5;a=\"\x01\"", "5\x85", "-0"} {
		add(size + "\r\nhello\r\n0\r\n\r\n")
	}
	add("5\nhello\r\n0\r\n\r\n", "5\rhello\r\n0\r\n\r\n", "5;x\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\r\nhello\r0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n",
		"5\r\nhello\r\n0\n\r\n", "5\r\nhello\r\n0\r\n\n", "4\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n\r\n0\r\n\r\n", "5\r\nhello\r\n0 \r\n\r\n", "5\r\nhello\r\n0\r\r\n\r\n",
		"5\n\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\nfoo\r\n\r\n", "5\r\nhello\r\n0\r\n: x\r\n\r\n", "5\r\nhello\r\n0\r\n x: y\r\n\r\n", "5\r\nhello\r\n0\r\nA : b\r\n\r\n",
		"5\r\nhello\r\n0\r\nA: b\n\r\n", "5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n", "5\r\nhello\r\n0\r\nA: b\r\n\n")
	controls(func(b string) {
		add("5;"+b+"\r\nhello\r\n0\r\n\r\n", "0\r\nA"+b+": b\r\n\r\n", "0\r\nA: b"+b+"c\r\n\r\n", "5\r\nhello"+b+"\r\n0\r\n\r\n")
	})
	list = append(list, hostile{name: "endless extension", inBody: true, send: chunks("5;" + strings.Repeat("x", 9000) + "\r\nhello\r\n0\r\n\r\n")},
		hostile{name: "endless trailers", inBody: true, status: "431", send: chunks("0\r\n" + strings.Repeat("A: "+strings.Repeat("b", 80)+"\r\n", 110) + "\r\n")},
		hostile{name: "many trailers", inBody: true, status: "431", send: chunks("0\r\n" + strings.Repeat("A: b\r\n", 101) + "\r\n")})
	return list
}

// lengthsOfG04G05 are lengths that are none.
func lengthsOfG04G05() (list []hostile) {
	add := func(fields ...string) {
		list = append(list, hostile{name: fmt.Sprintf("%q", fields), send: field(fields...)})
	}
	for _, n := range []string{"", " ", "\t", "+5", "-5", "-0", "0x5", "5 5", "5,5", "5, 5", "5,", ",5", "5;", "5.0", "1e1", "5h", "\"5\"", "\xef\xbc\x95", "5\x00", "\x005", "5\x0b",
		"9223372036854775808", "18446744073709551616", "99999999999999999999", "00000000000000000005", "0, 38", "5\r", "1_0", "inf"} {
		add("Content-Length: " + n)
		add("Content-Length: 5", "Content-Length: "+n)
		add("Content-Length: "+n, "Content-Length: 5")
	}
	add("Content-Length: 0", "Content-Length: 38")
	add("Content-Length: 5", "Content-Length: 5")
	add("Content-Length: 5", "content-length: 5")
	add("Content-Length: 5", "X: y", "CONTENT-LENGTH: 05")
	add("Content-Length : 5")
	add("Content-Length\t: 5")
	add("Content-Length")
	add("Content-Length:\r\n 5")
	add("Content-Length: 5\r\n 0")
	for _, line := range []string{"GET /T HTTP/1.1", "HEAD /T HTTP/1.1", "DELETE /T HTTP/1.1", "OPTIONS /T HTTP/1.1"} {
		list = append(list, hostile{name: line, send: head(line, "Host: site.test", "Content-Length: ", "Content-Length: 43")})
	}
	return list
}

func TestG01BodyFramedTwice(t *testing.T)       { refused(t, lengthsOfG01()) }
func TestG02BytesInTheRequestLine(t *testing.T) { refused(t, linesOfG02()) }
func TestG02BytesInFields(t *testing.T)         { refused(t, fieldsOfG02()) }
func TestG03G06ChunkLines(t *testing.T)         { refused(t, chunksOfG03G06()) }
func TestG04G05ContentLengths(t *testing.T)     { refused(t, lengthsOfG04G05()) }

// refused sends each message to a file, to a proxy context and to a FastCGI
// application: one answer and the end of the connection, and nothing, or at least
// nothing whole, behind the server (R-PIPE-5).
func refused(t *testing.T, list []hostile) {
	b := startBackends(t)
	root := treeOf(t, b.vhost())
	put(t, root, "html/run.php", "<?php")
	r := run(t, root)
	for _, h := range list {
		for _, path := range []string{"/index.html", "/app/x", "/run.php"} {
			send := strings.ReplaceAll(h.send, "/T", path)
			got := exchangeBytes(t, r, send+smuggled)
			status, want := statuses(got), h.status
			if want == "" {
				want = "400"
			}
			if h.inBody && path == "/index.html" {
				want = status // nobody reads the body: the answer may be any, but is the last
			}
			if status != want || len(status) != 3 || !strings.Contains(got, "\r\nConnection: close\r\n") && !h.inBody {
				t.Errorf("%s to %s: %q, want %s and a close:\n%.300q\nfor\n%.300q", h.name, path, status, want, got, send)
			}
			if seen := b.whole(); seen != "" {
				t.Errorf("%s to %s: behind the server is %q", h.name, path, seen)
			}
		}
	}
}

// exchangeBytes sends bytes and returns all that comes until the server closes.
func exchangeBytes(t *testing.T, r *running, send string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	io.WriteString(c, send) // may fail when the server has seen enough
	got, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("after %.300q: %q, %v", send, got, err)
	}
	return string(got)
}

// statuses are those of all heads in a reply.
func statuses(reply string) string {
	var out []string
	for _, part := range strings.Split(reply, "HTTP/1.1 ")[1:] {
		out = append(out, part[:min(3, len(part))])
	}
	return strings.Join(out, " ")
}

// backends are an HTTP upstream and a FastCGI application that keep what they get.
type backends struct {
	http, fcgi, lsapi string // addresses
	mu                sync.Mutex
	seen              []string // whole requests, with every byte for HTTP
}

func startBackends(t *testing.T) *backends {
	dir := t.TempDir()
	b := &backends{fcgi: filepath.Join(dir, "app.sock"), lsapi: filepath.Join(dir, "ls.sock")}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.http = l.Addr().String()
	f, err := net.Listen("unix", b.fcgi)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { b.serve(c) })
		}
	})
	running.Go(func() { fcgi.Serve(f, http.HandlerFunc(b.serveFCGI)) })
	ls, err := net.Listen("unix", b.lsapi)
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() { lsapitest.Serve(ls, b.answerLSAPI) })
	// Registered before the server's end, so that it comes after: connections of
	// its pools are closed then.
	t.Cleanup(func() {
		l.Close()
		f.Close()
		ls.Close()
		running.Wait()
	})
	return b
}

func (b *backends) vhost() string {
	return `<extProcessor><type>proxy</type><name>app</name><address>` + b.http + `</address></extProcessor>
  <extProcessor><type>fcgi</type><name>php</name><address>uds://` + b.fcgi + `</address></extProcessor>
  <scriptHandler><suffix>php</suffix><type>fcgi</type><handler>php</handler></scriptHandler>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>`
}

// serve answers whole requests and keeps their bytes as they came.
func (b *backends) serve(c net.Conn) {
	defer c.Close()
	var raw bytes.Buffer
	br := bufio.NewReader(io.TeeReader(c, &raw))
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		b.keep(raw.String())
		raw.Reset()
		if strings.HasSuffix(r.URL.Path, "/stored") {
			body = []byte("leak")
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
}

func (b *backends) serveFCGI(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		var fields strings.Builder
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			fmt.Fprintf(&fields, " %s=%s", name, strings.Join(r.Header[name], ","))
		}
		b.keep(fmt.Sprintf("FastCGI %s %s%s length %d: %s", r.Method, r.URL.Path, fields.String(), r.ContentLength, body))
	}
	if strings.HasSuffix(r.URL.Path, "/stored") {
		body = []byte("leak")
	}
	w.Write(body)
}

func (b *backends) keep(request string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, request)
}

// whole returns the requests so far, and forgets them.
func (b *backends) whole() string { return strings.Join(b.all(), "\n") }

func (b *backends) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.seen
	b.seen = nil
	return list
}
