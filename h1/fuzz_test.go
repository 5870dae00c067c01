package h1

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"httpjet/exchange"
)

func seed(f *testing.F, dir string) {
	transcripts(f, dir, func(_ string, cs []transcript) {
		for _, c := range cs {
			f.Add(c.in)
		}
	})
}

// FuzzRequestHead: what we accept survives being written and read again, and
// net/http accepts it with the same meaning, but for the differences listed.
func FuzzRequestHead(f *testing.F) {
	seed(f, "request")
	f.Fuzz(func(t *testing.T, in string) {
		head, err := NewReader(strings.NewReader(in)).ReadRequestHead(16380)
		if err != nil {
			return
		}
		var req exchange.Request
		info, err := ParseRequest(head, Limits{}, &req)
		if err != nil {
			return
		}
		if req.Method != "CONNECT" && req.Target != "*" && req.Proto == "HTTP/1.1" {
			roundTrip(t, &req)
		}
		u, err := url.ParseRequestURI(req.Target)
		if err != nil || req.Method == "CONNECT" || strings.Contains(head, "://") || u.Host != "" {
			return // escapes are judged by the table; absolute forms differ in detail
		}
		std, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", head, err)
		}
		if std.Method != req.Method || std.Host != req.Host || std.ContentLength != req.Length {
			t.Errorf("%q: net/http reads %s %q %d, we %s %q %d", head,
				std.Method, std.Host, std.ContentLength, req.Method, req.Host, req.Length)
		}
		if std.Close == info.KeepAlive && req.Proto == "HTTP/1.1" {
			t.Errorf("%q: net/http close %v, we keep %v", head, std.Close, info.KeepAlive)
		}
	})
}

func roundTrip(t *testing.T, req *exchange.Request) {
	again := exchange.Request{}
	head := string(AppendRequest(nil, req.Method, req.Target, req.Host, &req.Fields, req.Length))
	if _, err := ParseRequest(head, Limits{Target: 1 << 20, Fields: 200}, &again); err != nil {
		t.Fatalf("%q written as %q is refused: %v", req.Target, head, err)
	}
	if again.Target != req.Target || again.Host != req.Host || again.Length != req.Length ||
		again.Fields.Len() != req.Fields.Len() {
		t.Errorf("written %+v, read %+v", req, again)
	}
}

// FuzzResponseHead: what we accept has one meaning after being written again.
func FuzzResponseHead(f *testing.F) {
	seed(f, "response")
	f.Fuzz(func(t *testing.T, in string) {
		head, err := NewReader(strings.NewReader(in)).ReadHead(1 << 16)
		if err != nil {
			return
		}
		r, err := ParseResponse(head, "GET")
		if err != nil {
			return
		}
		out := exchange.Response{Status: r.Status, Fields: r.Fields}
		b := AppendResponseHead(nil, &out, Framed{Length: r.Length, Chunked: r.Framing == Chunked})
		again, err := ParseResponse(string(b), "GET")
		if err != nil {
			t.Fatalf("%q written as %q is refused: %v", head, b, err)
		}
		if again.Status != r.Status || again.Length != r.Length || again.Framing != r.Framing {
			t.Errorf("read %+v, written and read %+v", r, again)
		}
	})
}

// FuzzChunked: a body that we decode to its end, encoded again, decodes to the
// same bytes, and nothing of what follows it is lost.
func FuzzChunked(f *testing.F) {
	transcripts(f, "request", func(_ string, cs []transcript) {
		for _, c := range cs {
			if _, body, ok := strings.Cut(c.in, "\r\n\r\n"); ok {
				f.Add(body)
			}
		}
	})
	f.Fuzz(func(t *testing.T, in string) {
		r := NewReader(strings.NewReader(in + "next"))
		data, err := io.ReadAll(r.Body(Chunked))
		if err != nil {
			return
		}
		if rest, _ := io.ReadAll(r); !strings.HasSuffix(string(rest), "next") {
			t.Fatalf("%q: rest %q", in, rest)
		}
		b := AppendLastChunk(AppendChunk(nil, data), nil)
		again, err := io.ReadAll(NewReader(strings.NewReader(string(b))).Body(Chunked))
		if err != nil || string(again) != string(data) {
			t.Errorf("%q encoded and decoded: %q, %v", data, again, err)
		}
	})
}
