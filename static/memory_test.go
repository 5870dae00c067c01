package static

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

// inMemory turns the resource of x into one that a cache holds.
func inMemory(t testing.TB, x *exchange.Exchange, path string, memo *exchange.Memo) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	x.Resource.Close()
	x.Resource.Content, x.Resource.Memo = content, memo
}

// A file in memory is answered as the same file on disk is: whole, in part, and
// not at all. The second answer of each pair comes from the memo.
func TestFileInMemory(t *testing.T) {
	f := func(content, method string, fields ...string) {
		t.Helper()
		path := newFile(t, "a.txt", content)
		want := get(t, handler, method, path, fields...)
		memo := &exchange.Memo{}
		for range 2 {
			w := &fileWire{}
			x := &exchange.Exchange{}
			x.Reset(w)
			request(t, x, method, path, fields...)
			inMemory(t, x, path, memo)
			err := exchange.Run(x, handler)
			if (err != nil) != (want.head.Status >= 400) {
				t.Fatal(err)
			}
			got := fmt.Sprint(w.head.Status, w.head.Length, w.noBody, "\n", fieldsButBoundary(&w.wire), "\n", plain(&w.wire))
			if exp := fmt.Sprint(want.head.Status, want.head.Length, want.noBody, "\n", fieldsButBoundary(want), "\n", plain(want)); got != exp {
				t.Errorf("%s %v: got\n%s\nwant\n%s", method, fields, got, exp)
			}
			if w.sent > 0 {
				t.Error("the file was sent from disk")
			}
		}
		if memo.Get() == nil {
			t.Error("nothing was kept for the next exchange")
		}
	}
	text := "0123456789"
	tag := get(t, handler, "GET", newFile(t, "a.txt", text)).head.Fields.Get("ETag")
	if tag == "" {
		t.Fatal("no tag")
	}
	f(text, "GET")
	f(text, "HEAD")
	f("", "GET")
	f(text, "GET", "If-Modified-Since: "+lastModified)
	f(text, "GET", "If-Unmodified-Since: Wed, 04 Mar 2020 05:06:07 GMT")
	f(text, "GET", "Range: bytes=2-4")
	f(text, "GET", "Range: bytes=-3")
	f(text, "GET", "Range: bytes=20-")
	f(text, "GET", "Range: bytes=0-1,5-6")
}

// plain is the body without the random boundary of its parts.
func plain(w *wire) string {
	_, boundary, ok := strings.Cut(w.head.Fields.Get("Content-Type"), "boundary=")
	if !ok {
		return w.body.String()
	}
	return strings.ReplaceAll(w.body.String(), boundary, "B")
}

func fieldsButBoundary(w *wire) string {
	_, boundary, ok := strings.Cut(w.head.Fields.Get("Content-Type"), "boundary=")
	if !ok {
		return fields(w)
	}
	return strings.ReplaceAll(fields(w), boundary, "B")
}

// A 304 for the tag of a compressed variant leaves the memo as it is.
func TestMemoIsNotEdited(t *testing.T) {
	path := newFile(t, "a.txt", "hello")
	memo := &exchange.Memo{}
	tags := map[string]bool{}
	for _, field := range []string{"X: 1", "If-None-Match: *", "X: 1"} {
		w := &fileWire{}
		x := &exchange.Exchange{}
		x.Reset(w)
		request(t, x, "GET", path)
		inMemory(t, x, path, memo)
		if field != "X: 1" {
			tag := strings.Replace(firstTag(tags), `;;;"`, `;gz"`, 1)
			x.Req.Fields.Add("If-None-Match", tag)
			x.Req.Fields.Add("Accept-Encoding", "gzip")
			if err := exchange.Run(x, handler); err != nil || w.head.Status != 304 || w.head.Fields.Get("ETag") != tag {
				t.Fatalf("%d, tag %q, %v", w.head.Status, w.head.Fields.Get("ETag"), err)
			}
			continue
		}
		if err := exchange.Run(x, handler); err != nil {
			t.Fatal(err)
		}
		tags[w.head.Fields.Get("ETag")] = true
	}
	if len(tags) != 1 {
		t.Errorf("tags %v", tags)
	}
}

func firstTag(tags map[string]bool) string {
	for tag := range tags {
		return tag
	}
	return ""
}

// Two handlers may serve one file, with other types: neither gets what the other
// has kept.
func TestMemoBelongsToItsHandler(t *testing.T) {
	path := newFile(t, "a.txt", "hello")
	memo := &exchange.Memo{}
	other := New(Options{DefaultType: "text/x-other"})
	for range 2 {
		for h, want := range map[*Handler]string{handler: "text/plain", other: "text/x-other"} {
			w := &fileWire{}
			x := &exchange.Exchange{}
			x.Reset(w)
			request(t, x, "GET", path)
			inMemory(t, x, path, memo)
			if err := exchange.Run(x, h); err != nil {
				t.Fatal(err)
			}
			if got := w.head.Fields.Get("Content-Type"); got != want {
				t.Errorf("type %q, want %q", got, want)
			}
			if tagged := w.head.Fields.Has("ETag"); tagged != (h == handler) {
				t.Errorf("type %q: tag %v", want, tagged)
			}
		}
	}
}

// What depends on the clock is not kept: a time in the future is told as now, and
// a file of this second may still change within it.
func TestNothingIsKeptOfANewFile(t *testing.T) {
	for _, at := range []time.Time{time.Now(), time.Now().Add(time.Hour)} {
		path := newFile(t, "a.txt", "hello")
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		memo := &exchange.Memo{}
		x := &exchange.Exchange{}
		x.Reset(&fileWire{})
		request(t, x, "GET", path)
		inMemory(t, x, path, memo)
		if err := exchange.Run(x, handler); err != nil {
			t.Fatal(err)
		}
		// On a machine that stood still for a second the first one is old by now.
		if memo.Get() != nil && time.Since(at) < time.Second {
			t.Errorf("kept for a file of %v", at)
		}
	}
}

// R-STATIC-11: a hit in memory is answered without an allocation.
func TestFileInMemoryAllocatesNothing(t *testing.T) {
	path := newFile(t, "a.txt", "hello")
	w := &fileWire{}
	x := &exchange.Exchange{}
	x.Reset(w)
	request(t, x, "GET", path)
	inMemory(t, x, path, &exchange.Memo{})
	res := x.Resource
	n := testing.AllocsPerRun(100, func() {
		w.body.Reset()
		x.Reset(w)
		x.Req.Method, x.Resource = "GET", res
		if err := handler.Serve(x); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
