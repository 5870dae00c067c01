package static

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"httpjet/exchange"
)

// wire records a response. It can send files if it is wrapped in a fileWire.
type wire struct {
	head    exchange.Response
	noBody  bool
	body    bytes.Buffer
	ended   bool
	aborted error
}

func (w *wire) Read([]byte) (int, error)   { return 0, io.EOF }
func (w *wire) Trailers() *exchange.Fields { return nil }
func (w *wire) StopRead()                  {}
func (w *wire) Head(r *exchange.Response, noBody, last bool) error {
	w.head, w.noBody = *r, noBody
	return nil
}
func (w *wire) Write(p []byte) (int, error) { return w.body.Write(p) }
func (w *wire) Flush() error                { return nil }
func (w *wire) End(*exchange.Fields) error  { w.ended = true; return nil }
func (w *wire) Abort(cause error)           { w.aborted = cause }
func (w *wire) Context() context.Context    { return context.Background() }

type fileWire struct {
	wire
	sent int // calls of SendFile
}

func (w *fileWire) SendFile(f *os.File, off, n int64) (int64, error) {
	w.sent++
	return io.Copy(&w.body, io.NewSectionReader(f, off, n))
}

var mtime = time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC)

const lastModified = "Wed, 04 Mar 2026 05:06:07 GMT"

// newFile writes a file with a known time and returns its path.
func newFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, mtime, mtime); err != nil {
		t.Fatal(err)
	}
	return path
}

// request fills x for path; fields are "Name: value".
func request(t testing.TB, x *exchange.Exchange, method, path string, fields ...string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	x.Req.Method, x.Req.Path = method, "/"+filepath.Base(path)
	x.Resource = exchange.Resource{File: f, Info: info, Filename: path, Name: x.Req.Path}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		x.Req.Fields.Add(name, value)
	}
}

var handler = New(Options{
	Types: map[string]string{"html": "text/html", "txt": "text/plain"},
	ETag:  ETagInode | ETagMTime | ETagSize,
})

// get serves one request and checks what every response owes.
func get(t *testing.T, h *Handler, method, path string, fields ...string) *wire {
	t.Helper()
	w := &fileWire{}
	x := &exchange.Exchange{}
	x.Reset(w)
	request(t, x, method, path, fields...)
	err := exchange.Run(x, h)
	if err != nil && w.head.Status != exchange.StatusOf(err) {
		t.Errorf("%v", err)
	}
	if !w.ended || w.aborted != nil {
		t.Errorf("response not ended: %v", w.aborted)
	}
	if !w.noBody && w.head.Length != int64(w.body.Len()) {
		t.Errorf("length %d, body of %d bytes", w.head.Length, w.body.Len())
	}
	return &w.wire
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func fields(w *wire) string {
	var list []string
	for name, value := range w.head.Fields.All() {
		list = append(list, name+": "+value)
	}
	return strings.Join(list, "\n")
}

// R-STATIC-4, R-STATIC-5.
func TestPlainGet(t *testing.T) {
	path := newFile(t, "a.HTML", "hello")
	w := get(t, handler, "GET", path)
	want := fmt.Sprintf("ETag: \"5-%x-%x;;;\"\nLast-Modified: %s\nAccept-Ranges: bytes\nContent-Type: text/html",
		mtime.Unix(), inode(t, path), lastModified)
	if w.head.Status != 200 || w.body.String() != "hello" || fields(w) != want {
		t.Errorf("%d %q\n%s\nwant\n%s", w.head.Status, w.body.String(), fields(w), want)
	}
}

func TestHeadSendsNoBody(t *testing.T) {
	path := newFile(t, "a.txt", "hello")
	w := get(t, handler, "HEAD", path, "Range: bytes=1-2")
	if w.head.Status != 200 || w.head.Length != 5 || w.body.Len() != 0 {
		t.Errorf("%d, length %d, body %q", w.head.Status, w.head.Length, w.body.String())
	}
}

func TestEmptyFile(t *testing.T) {
	w := get(t, handler, "GET", newFile(t, "a.txt", ""))
	if w.head.Status != 200 || w.head.Length != 0 {
		t.Errorf("%d, length %d", w.head.Status, w.head.Length)
	}
}

// R-STATIC-1. fault 15 of the list of observed faults: OPTIONS and POST served
// the file, and so did a method in lower case.
func TestFault15MethodsServeNoFile(t *testing.T) {
	path := newFile(t, "a.txt", "hello")
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get", "head", "FOO"} {
		w := get(t, handler, method, path)
		if w.head.Status != 405 || w.head.Fields.Get("Allow") != "GET, HEAD" || strings.Contains(w.body.String(), "hello") {
			t.Errorf("%s: %d, Allow %q", method, w.head.Status, w.head.Fields.Get("Allow"))
		}
	}
}

func TestMediaType(t *testing.T) {
	h := New(Options{Types: map[string]string{"html": "text/html", "js": "application/javascript", "png": "image/png",
		"xml": "text/xml; charset=iso-8859-1", "json": "application/json"}, Charset: "utf-8"})
	f := func(name, want string) {
		t.Helper()
		if got := h.mediaType(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	f("/a.html", "text/html; charset=utf-8")
	f("/a.HtMl", "text/html; charset=utf-8")
	f("/a.js", "application/javascript; charset=utf-8")
	f("/a.json", "application/json; charset=utf-8")
	f("/a.png", "image/png")
	f("/a.xml", "text/xml; charset=iso-8859-1")
	f("/a", "application/octet-stream")
	f("/a.d/html", "application/octet-stream")
	f("/html", "application/octet-stream")
	f("/a.html.", "application/octet-stream")
	f("/a."+strings.Repeat("x", 100), "application/octet-stream")
	h = New(Options{DefaultType: "text/plain", Charset: "utf-8"})
	f("/README", "text/plain; charset=utf-8")
}

// R-STATIC-5.
func TestETagParts(t *testing.T) {
	f := func(mask int, want string) {
		t.Helper()
		if got := New(Options{ETag: mask}).tag(0x400, 0x6b0c93ff, &syscall.Stat_t{Ino: 0x9e41bc}, ""); got != want {
			t.Errorf("mask %d: %s, want %s", mask, got, want)
		}
	}
	f(28, `"400-6b0c93ff-9e41bc;;;"`)
	f(4, `"9e41bc;;;"`)
	f(8, `"6b0c93ff;;;"`)
	f(16, `"400;;;"`)
	f(20, `"400-9e41bc;;;"`)
	f(24, `"400-6b0c93ff;;;"`)
	f(0, "")
	w := get(t, New(Options{}), "GET", newFile(t, "a.txt", "hello"))
	if w.head.Fields.Has("ETag") {
		t.Errorf("tag %q", w.head.Fields.Get("ETag"))
	}
}

// R-STATIC-6 in the order of RFC 9110 §13.2.2.
func TestFault15Conditions(t *testing.T) {
	const before, after = "Wed, 04 Mar 2026 05:06:06 GMT", "Wed, 04 Mar 2026 05:06:08 GMT"
	path := newFile(t, "a.txt", "hello")
	tag := get(t, handler, "GET", path).head.Fields.Get("ETag")
	variant := strings.Replace(tag, `;;;"`, `;gz"`, 1)
	f := func(status int, fields ...string) {
		t.Helper()
		for _, method := range []string{"GET", "HEAD"} {
			w := get(t, handler, method, path, fields...)
			if w.head.Status != status {
				t.Errorf("%s %q: %d, want %d", method, fields, w.head.Status, status)
			}
			if status == 304 && (w.body.Len() != 0 || w.head.Fields.Has("Content-Type") || !w.head.Fields.Has("ETag")) {
				t.Errorf("%s %q: 304 with %v", method, fields, w.head.Fields)
			}
		}
	}
	f(200, "If-Match: "+tag)
	f(200, "If-Match: *")
	f(200, `If-Match: "x", `+tag)
	f(200, `If-Match: "x,y" ,,`+tag)
	f(200, `If-Match: "x"`, "If-Match: "+tag)
	f(412, `If-Match: "x"`)
	f(412, "If-Match: W/"+tag) // strong comparison
	f(412, "If-Match: "+variant)
	f(200, "If-Match: "+variant, "Accept-Encoding: br, gzip")
	f(412, "If-Match: W/"+variant, "Accept-Encoding: br, gzip")
	f(412, "If-Match: "+tag[:len(tag)-1]) // no tag
	f(412, "If-Match: ")
	f(200, "If-Unmodified-Since: "+lastModified)
	f(200, "If-Unmodified-Since: "+after)
	f(412, "If-Unmodified-Since: "+before)
	f(200, "If-Unmodified-Since: yesterday")
	f(200, "If-Match: "+tag, "If-Unmodified-Since: "+before) // If-Match decides alone
	f(304, "If-None-Match: "+tag)
	f(304, "If-None-Match: W/"+tag)
	f(304, "If-None-Match: *")
	f(304, `If-None-Match: "x", W/"y",`+tag)
	f(304, "If-None-Match: "+variant, "Accept-Encoding: br, gzip")
	f(304, "If-None-Match: W/"+variant, "Accept-Encoding: *")
	f(200, "If-None-Match: "+variant) // which the client could not read
	f(200, "If-None-Match: "+variant, "Accept-Encoding: br, gzip;q=0")
	f(200, `If-None-Match: "x"`)
	f(200, "If-None-Match: "+strings.TrimSuffix(tag, `;;;"`)+`0;;;"`)
	f(200, "If-None-Match: "+strings.Trim(tag, `"`))
	f(200, `If-None-Match: "x"`, "If-Modified-Since: "+after) // If-None-Match decides alone
	f(304, "If-Modified-Since: "+lastModified)
	f(304, "If-Modified-Since: "+after)
	f(304, "If-Modified-Since: Wednesday, 04-Mar-26 05:06:07 GMT")
	f(200, "If-Modified-Since: "+before)
	f(200, "If-Modified-Since: 0")
	f(412, `If-Match: "x"`, "If-None-Match: "+tag)
	f(304, "If-Match: "+tag, "If-None-Match: "+tag)
	f(304, "If-None-Match: "+tag, "Range: bytes=0-1")
	f(412, `If-Match: "x"`, "Range: bytes=0-1")

	for held, want := range map[string]string{tag: tag, "W/" + tag: tag, variant: variant, "W/" + variant: "W/" + variant} {
		if got := get(t, handler, "GET", path, "If-None-Match: "+held, "Accept-Encoding: gzip").head.Fields.Get("ETag"); got != want {
			t.Errorf("304 for %s has the tag %s", held, got)
		}
	}
	none := New(Options{})
	if w := get(t, none, "GET", path, "If-Match: "+tag); w.head.Status != 412 {
		t.Errorf("If-Match without tags: %d", w.head.Status)
	}
	if w := get(t, none, "GET", path, `If-None-Match: ""`); w.head.Status != 200 {
		t.Errorf("If-None-Match without tags: %d", w.head.Status)
	}
}

// RFC 9110 §8.8.2.1.
func TestLastModifiedIsNotInTheFuture(t *testing.T) {
	path := newFile(t, "a.txt", "hello")
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, future, future); err != nil {
		t.Fatal(err)
	}
	got, err := time.Parse(time.RFC1123, get(t, handler, "GET", path).head.Fields.Get("Last-Modified"))
	if err != nil || got.After(time.Now()) {
		t.Errorf("%v, %v", got, err)
	}
}

// R-STATIC-6; fault 15 of the list of observed faults: range errors were 400, 416
// had no Content-Range, "0-,0-,0-" an empty 200.
func TestFault15SingleRange(t *testing.T) {
	path := newFile(t, "a.txt", "0123456789")
	f := func(v string, status int, contentRange, body string) {
		t.Helper()
		w := get(t, handler, "GET", path, "Range: "+v)
		if w.head.Status != status || w.head.Fields.Get("Content-Range") != contentRange || status != 416 && w.body.String() != body {
			t.Errorf("%q: %d, %q, %q", v, w.head.Status, w.head.Fields.Get("Content-Range"), w.body.String())
		}
		if status == 206 && w.head.Fields.Get("Content-Type") != "text/plain" {
			t.Errorf("%q: type %q", v, w.head.Fields.Get("Content-Type"))
		}
	}
	const all = "0123456789"
	f("bytes=0-0", 206, "bytes 0-0/10", "0")
	f("bytes=2-4", 206, "bytes 2-4/10", "234")
	f("bytes=7-", 206, "bytes 7-9/10", "789")
	f("bytes=7-99", 206, "bytes 7-9/10", "789")
	f("bytes=-3", 206, "bytes 7-9/10", "789")
	f("bytes=-99", 206, "bytes 0-9/10", all)
	f("Bytes= 2-4 ", 206, "bytes 2-4/10", "234")
	f("bytes=,2-4,", 206, "bytes 2-4/10", "234")
	f("bytes=0-99999999999999999999999", 206, "bytes 0-9/10", all)
	f("bytes=0-,0-,0-", 206, "bytes 0-9/10", all)
	f("bytes=0-3,2-5", 206, "bytes 0-5/10", "012345")
	f("bytes=4-5,0-3", 206, "bytes 0-5/10", "012345")
	f("bytes=0-1,8-9,1-8", 206, "bytes 0-9/10", all)
	f("bytes=2-4,20-30", 206, "bytes 2-4/10", "234")
	f("bytes=10-", 416, "bytes */10", "")
	f("bytes=-0", 416, "bytes */10", "")
	f("bytes=99999999999999999999999-", 416, "bytes */10", "")
	f("bytes=10-11,50-", 416, "bytes */10", "")
	f("bytes=5-2", 200, "", all)
	f("bytes=", 200, "", all)
	f("bytes=,", 200, "", all)
	f("bytes=-", 200, "", all)
	f("bytes=a-b", 200, "", all)
	f("bytes=+1-2", 200, "", all)
	f("bytes=1-2-3", 200, "", all)
	f("bytes=0-1;2-3", 200, "", all)
	f("bytes=0-1,x", 200, "", all)
	f("items=0-1", 200, "", all)
	f("bytes", 200, "", all)
	if w := get(t, handler, "GET", path, "Range: bytes=0-1", "Range: bytes=3-4"); w.head.Status != 200 {
		t.Errorf("repeated Range: %d", w.head.Status)
	}
	empty := newFile(t, "b.txt", "")
	for v, status := range map[string]int{"bytes=0-": 416, "bytes=-5": 200, "bytes=-0": 416} {
		if w := get(t, handler, "GET", empty, "Range: "+v); w.head.Status != status {
			t.Errorf("%q of an empty file: %d", v, w.head.Status)
		}
	}
}

// R-STATIC-6.
func TestManyRanges(t *testing.T) {
	content := "0123456789abcdefghijklmnopqrstuvwxyz0123456789"
	path := newFile(t, "a.txt", content)
	f := func(v string, want ...string) {
		t.Helper()
		w := get(t, handler, "GET", path, "Range: bytes="+v)
		kind, params, err := mime.ParseMediaType(w.head.Fields.Get("Content-Type"))
		if w.head.Status != 206 || kind != "multipart/byteranges" || err != nil || w.head.Fields.Has("Content-Range") {
			t.Fatalf("%q: %d %s", v, w.head.Status, fields(w))
		}
		r := multipart.NewReader(&w.body, params["boundary"])
		for _, rng := range want {
			p, err := r.NextPart()
			if err != nil {
				t.Fatalf("%q: %v", v, err)
			}
			var a, b int
			fmt.Sscanf(rng, "%d-%d", &a, &b)
			body, err := io.ReadAll(p)
			if err != nil || string(body) != content[a:b+1] || p.Header.Get("Content-Type") != "text/plain" ||
				p.Header.Get("Content-Range") != fmt.Sprintf("bytes %s/%d", rng, len(content)) {
				t.Errorf("%q: part %v %q, %v", v, p.Header, body, err)
			}
		}
		if _, err := r.NextPart(); err != io.EOF {
			t.Errorf("%q: behind the last part: %v", v, err)
		}
	}
	f("0-1,5-6", "0-1", "5-6")
	f("20-21, 0-1, -2", "20-21", "0-1", "44-45")
	f("0-1,10-20,15-25,900-", "0-1", "10-25")
	f("10-20,0-1,15-25", "10-25", "0-1")
	var many []string
	for i := range 16 {
		many = append(many, fmt.Sprintf("%d-%d", 2*i, 2*i))
	}
	f(strings.Join(many, ","), many...)
	w := get(t, handler, "GET", path, "Range: bytes="+strings.Join(many, ",")+",40-41")
	if w.head.Status != 200 || w.body.String() != content {
		t.Errorf("17 ranges: %d", w.head.Status)
	}
}

// RFC 9110 §13.1.5.
func TestIfRange(t *testing.T) {
	path := newFile(t, "a.txt", "0123456789")
	tag := get(t, handler, "GET", path).head.Fields.Get("ETag")
	f := func(v string, status int) {
		t.Helper()
		if w := get(t, handler, "GET", path, "Range: bytes=0-1", "If-Range: "+v); w.head.Status != status {
			t.Errorf("%q: %d, want %d", v, w.head.Status, status)
		}
	}
	f(tag, 206)
	f("W/"+tag, 200)
	f(`"x"`, 200)
	f(strings.Replace(tag, `;;;"`, `;gz"`, 1), 200)
	f(lastModified, 206)
	f("Wed, 04 Mar 2026 05:06:08 GMT", 200)
	f("Wed, 04 Mar 2026 05:06:06 GMT", 200)
	f("", 200)
	f("*", 200)
	// A file that may change within the same second has no strong date.
	now := time.Now()
	if err := os.Chtimes(path, now, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	f(get(t, handler, "HEAD", path).head.Fields.Get("Last-Modified"), 200)
}

// A wire without SendFile, and a file that shrank: the response is cut.
func TestFileThatShrinks(t *testing.T) {
	path := newFile(t, "a.txt", "0123456789")
	w := &wire{}
	x := &exchange.Exchange{}
	x.Reset(w)
	request(t, x, "GET", path)
	if err := os.Truncate(path, 4); err != nil {
		t.Fatal(err)
	}
	err := exchange.Run(x, handler)
	if !errors.Is(err, io.ErrUnexpectedEOF) || w.aborted == nil || w.ended {
		t.Errorf("%v, aborted %v, ended %v", err, w.aborted, w.ended)
	}
}

func TestPlainGetAllocations(t *testing.T) {
	path := newFile(t, "a.txt", "hello")
	w := &fileWire{}
	x := &exchange.Exchange{}
	x.Reset(w)
	request(t, x, "GET", path)
	res := x.Resource
	defer res.File.Close()
	n := testing.AllocsPerRun(100, func() {
		w.body.Reset()
		x.Reset(w)
		x.Req.Method, x.Resource = "GET", res
		if err := handler.Serve(x); err != nil {
			t.Fatal(err)
		}
	})
	// The tag, the date, and the reader of the test's own wire.
	if n > 3 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParseRange(f *testing.F) {
	for _, v := range []string{"bytes=0-1", "bytes=-5,3-", "bytes=0-,0-,0-", "bytes=5-2", "bytes=1-2,4-5,2-4", "x"} {
		f.Add(v, int64(10))
	}
	f.Fuzz(func(t *testing.T, v string, size int64) {
		if size < 0 {
			return
		}
		spans, ok := parseRange(v, size)
		if !ok && spans != nil || len(spans) > maxSpans {
			t.Fatalf("%q: %v, %v", v, spans, ok)
		}
		for i, s := range spans {
			if s.start < 0 || s.end > size || s.length() <= 0 {
				t.Fatalf("%q of %d bytes: %v", v, size, spans)
			}
			for _, o := range spans[:i] {
				if s.start <= o.end && o.start <= s.end {
					t.Fatalf("%q of %d bytes: %v overlap", v, size, spans)
				}
			}
		}
	})
}
