package fastcgi

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"httpjet/exchange"
	"httpjet/gateway"
)

func TestParseHeader(t *testing.T) {
	f := func(b string, want header, ok bool) {
		t.Helper()
		h, err := parseHeader([]byte(b))
		if h != want && ok || (err == nil) != ok {
			t.Errorf("% x: %+v %v, want %+v", b, h, err, want)
		}
	}
	f("\x01\x06\x00\x01\xff\xff\xff\x00", header{typeStdout, 65535, 255}, true)
	f("\x01\x07\x00\x01\x00\x00\x00\x00", header{typeStderr, 0, 0}, true)
	f("\x01\x03\x00\x01\x00\x08\x00\x00", header{typeEnd, 8, 0}, true)
	f("\x01\x06\x00\x01\x01\x02\x00\x99", header{typeStdout, 258, 0}, true) // the last byte is reserved
	for typ := range 256 {
		if typ != typeStdout && typ != typeStderr && typ != typeEnd {
			f("\x01"+string([]byte{byte(typ)})+"\x00\x01\x00\x08\x00\x00", header{}, false)
		}
	}
	f("\x00\x06\x00\x01\x00\x00\x00\x00", header{}, false)
	f("\x01\x06\x00\x00\x00\x00\x00\x00", header{}, false)
	f("\x01\x06\x01\x00\x00\x00\x00\x00", header{}, false)
	f("\x01\x03\x00\x01\x00\x09\x00\x00", header{}, false)
}

// Records of our own keep what parseHeader asks of others.
func TestHeaderRoundTrip(t *testing.T) {
	for _, h := range []header{{typeStdout, 0, 0}, {typeStderr, 65535, 7}, {typeEnd, 8, 255}, {typeStdout, 256, 1}} {
		if got, err := parseHeader(appendHeader(nil, h)); got != h || err != nil {
			t.Errorf("%+v became %+v, %v", h, got, err)
		}
	}
}

// The stream of variables is cut into records of the protocol's size, and its
// measured size is its size (R-FCGI-4).
func TestParamsOverManyRecords(t *testing.T) {
	list := &exchange.Fields{}
	for range 5 {
		list.Add(strings.Repeat("n", 127), strings.Repeat("v", 40_000))
		list.Add("content_length", "1")
	}
	p := params{list, "42"}
	size, err := p.size(defaultParams)
	if err != nil {
		t.Fatal(err)
	}
	b := p.appendTo(nil, size)
	var stream []byte
	ended := false
	for len(b) > 0 {
		n := int(b[4])<<8 | int(b[5])
		if b[0] != 1 || b[1] != typeParams || b[3] != 1 || b[6] != 0 || ended {
			t.Fatalf("header % x", b[:8])
		}
		ended = n == 0
		stream = append(stream, b[8:8+n]...)
		b = b[8+n:]
	}
	if !ended || len(stream) != size || size != 5*(1+4+127+40_000)+1+1+14+2 {
		t.Errorf("ended %v, %d bytes, measured %d", ended, len(stream), size)
	}
	if n := bytes.Count(bytes.ToUpper(stream), []byte("CONTENT_LENGTH")); n != 1 || !bytes.Contains(stream, []byte("\x0e\x02CONTENT_LENGTH42")) {
		t.Errorf("CONTENT_LENGTH %d times", n)
	}
}

// buffered never promises what a Read would have to wait for.
func TestBuffered(t *testing.T) {
	f := func(script string, want int) {
		t.Helper()
		wire := replyBytes(t, script)
		// The connection would block behind these bytes.
		br := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(wire), blocked{t}), 8<<10)
		br.Peek(len(wire))
		s := stdout{br: br, stderr: &gateway.Stderr{}}
		if got := s.buffered(); got != want {
			t.Errorf("%q: %d, want %d", script, got, want)
		}
		if want > 0 {
			s.Read(make([]byte, want))
		}
	}
	f(`stdout "hello"`, 5)
	f(`stdout+3 "hello"`, 5)
	f(`raw "\x01\x06\x00\x01\x00\x05\x00\x00he"`, 2)
	f(`raw "\x01\x06\x00\x01\x00\x05\x00\x00"`, 0)
	f(`raw "\x01\x06\x00\x01\x00\x05\x00"`, 0)
	f(`stdout ""`, 0)
	f(`stderr "hello"`, 0)
	f(`raw "\x01\x07\x00\x01\x00\x05\x00\x00he"`, 0)
	f("stdout \"\"\nend 0", 1) // how nearly every reply ends
	f("stdout \"\"\nstderr \"x\"\nend+4 0", 1)
	f("stderr+2 \"warning\"\nstdout+1 \"hello\"", 5)
	f("end 0", 1)
	f("end+4 0", 1)
	f(`raw "\x01\x03\x00\x01\x00\x08\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"`, 0)
	f(`raw "\x01\x63\x00\x01\x00\x08\x00\x00"`, 1) // an error is at hand
}

// blocked fails the test when it is read.
type blocked struct{ t *testing.T }

func (b blocked) Read([]byte) (int, error) {
	b.t.Error("read of the socket")
	return 0, io.ErrNoProgress
}
