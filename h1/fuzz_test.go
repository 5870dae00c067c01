package h1

import (
	"io"
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
// net/http reads every message as we do, but for the differences listed.
func FuzzRequestHead(f *testing.F) {
	seed(f, "request")
	classes := differences(f)
	f.Fuzz(func(t *testing.T, in string) {
		compare(t, classes, in, "")
		head, err := NewReader(strings.NewReader(in)).ReadRequestHead(16380, nil)
		if err != nil {
			return
		}
		var req exchange.Request
		if _, err := ParseRequest(head, Limits{}, &req); err != nil {
			return
		}
		if req.Method != "CONNECT" && req.Target != "*" && req.Proto == "HTTP/1.1" {
			roundTrip(t, &req)
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

// FuzzResponseHead: what we accept has one meaning after being written again, and
// the same for net/http, but for the differences listed.
func FuzzResponseHead(f *testing.F) {
	seed(f, "response")
	classes := differences(f)
	f.Fuzz(func(t *testing.T, in string) {
		for _, method := range []string{"GET", "HEAD", "CONNECT"} {
			compare(t, classes, in, method)
		}
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
// same bytes, nothing of what follows it is lost, and net/http reads it as we do,
// but for the differences listed.
func FuzzChunked(f *testing.F) {
	transcripts(f, "request", func(_ string, cs []transcript) {
		for _, c := range cs {
			if _, body, ok := strings.Cut(c.in, "\r\n\r\n"); ok {
				f.Add(body)
			}
		}
	})
	classes := differences(f)
	f.Fuzz(func(t *testing.T, in string) {
		compare(t, classes, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+in, "")
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
