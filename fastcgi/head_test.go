package fastcgi

import (
	"fmt"
	"strings"
	"testing"

	"httpjet/exchange"
	"httpjet/gateway"
)

// R-FCGI-10, line by line.
func TestParseHead(t *testing.T) {
	f := func(head, want string) {
		t.Helper()
		var h gateway.Head
		err := parseHead(&h, head)
		got := fmt.Sprint(h.Status, " ", h.Length)
		for name, value := range h.Fields.All() {
			got += fmt.Sprintf(" %s=%s", name, value)
		}
		if err != nil {
			got = "bad"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", head, got, err, want)
		}
	}
	f("X: \r\n", "200 -1 X=")
	f("X:a\tb\r\n", "200 -1 X=a\tb")
	f("X: \x80\xff\r\n", "200 -1 X=\x80\xff")
	f("Status: 200\r\nLocation: /a\r\n", "200 -1 Location=/a")
	f("LOCATION: /a\r\n", "302 -1 LOCATION=/a")
	f("Location:\r\n", "200 -1 Location=")
	f("status: 599 Own\r\n", "599 -1")
	f("Content-Length: 0\r\n", "200 0")
	f("Content-Length: 9223372036854775807\r\n", "200 9223372036854775807")

	f("Content-Length: 9223372036854775808\r\n", "bad")
	f("Content-Length: +1\r\n", "bad")
	f("Content-Length: -1\r\n", "bad")
	f("Content-Length:\r\n", "bad")
	f("Content-Length: 1\r\nContent-Length: 1\r\n", "bad")
	f("Status: 100\r\n", "bad")
	f("Status: 101 Switching\r\n", "bad")
	f("Status: 199\r\n", "bad")
	f("Status: 600\r\n", "bad")
	f("Status: 99\r\n", "bad")
	f("Status: 2000\r\n", "bad")
	f("Status: 200OK\r\n", "bad")
	f("Status:\r\n", "bad")
	f("Status: 20x\r\n", "bad")
	f("X\r\n", "bad")
	f(": x\r\n", "bad")
	f("X : x\r\n", "bad")
	f(" X: x\r\n", "bad")
	f("X(: x\r\n", "bad")
	f("X\xc3\xa9: x\r\n", "bad")
	f("X: a\x7f\r\n", "bad")
	f("X: a\nY: b\r\n", "bad")
	f("X: a\r\n\tb\r\n", "bad")
	f("HTTP/1.1 200 OK\r\n", "bad")
	f("Transfer-Encoding: x\r\n", "bad")
	f("transfer-encoding: chunked\r\n", "bad")
	for name := range strings.FieldsSeq("Connection Proxy-Connection Keep-Alive TE Trailer Upgrade Proxy-Authenticate Proxy-Authorization") {
		f("A: 1\r\n"+name+": x\r\nB: 2\r\n", "200 -1 A=1 B=2")
		f(strings.ToUpper(name)+": close\r\n", "200 -1")
	}
}

func TestHeadOfExactlyTheLimit(t *testing.T) {
	f := func(size int, ok bool) {
		t.Helper()
		head := "X: " + strings.Repeat("a", size-3-4) + "\r\n\r\n"
		rest, err := readHead(strings.NewReader(head+"body"), make([]byte, 0, smallHead), &gateway.Head{})
		if (err == nil) != ok {
			t.Errorf("head of %d bytes: %v", size, err)
		}
		if ok && !strings.HasPrefix("body", string(rest)) {
			t.Errorf("rest %q", rest)
		}
	}
	f(maxHead, true)
	f(maxHead+1, false)
}

// FuzzCGIHead: what passes is fit to be written as an HTTP head.
func FuzzCGIHead(f *testing.F) {
	for _, s := range []string{
		"Content-Type: text/html\r\n", "Status: 404 Not Found\r\nX: y\r\n", "Location: /x\r\n",
		"Content-Length: 12\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n", "X: a\r\n b\r\n", "Status: 103\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, head string) {
		var h gateway.Head
		err := parseHead(&h, head)
		if err != nil {
			return
		}
		if h.Status < 200 || h.Status > 599 || h.Length < -1 {
			t.Errorf("status %d, length %d", h.Status, h.Length)
		}
		for name, value := range h.Fields.All() {
			if name == "" || strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(value, "\r\n\x00") {
				t.Errorf("field %q: %q", name, value)
			}
			if exchange.EqualName(name, "Content-Length") || exchange.EqualName(name, "Connection") {
				t.Errorf("framing field %q passed", name)
			}
		}
	})
}

// parseHead parses a head without its empty line.
func parseHead(h *gateway.Head, head string) error {
	h.Reset()
	err := parseLines(h, head)
	h.Finish()
	return err
}
