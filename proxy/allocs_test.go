package proxy

import (
	"bufio"
	"encoding/binary"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/h2"
)

// TestAllocations pins what a kept connection's request without a body costs from
// the client's socket to the upstream's and back: the strings of both heads.
func TestAllocations(t *testing.T) {
	if raceDetector() {
		t.Skip("the race detector makes pools forget")
	}
	s := exchangetest.Start(t, &exchangetest.Site{Handler: kibibyte(t)}, false)
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	br := bufio.NewReader(c)
	request := []byte("GET /app/1k HTTP/1.1\r\nHost: a.test\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n")
	roundTrip := func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				t.Fatal(err)
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := br.Discard(1024); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		roundTrip()
	}
	if n := testing.AllocsPerRun(500, roundTrip); n > 2 {
		t.Errorf("%v allocations per request, want at most 2", n)
	}
}

// TestAllocationsH2 is TestAllocations over HTTP/2: id, host and path of the request and
// the string of the head of the upstream.
func TestAllocationsH2(t *testing.T) {
	if raceDetector() {
		t.Skip("the race detector makes pools forget")
	}
	site := &exchangetest.Site{Handler: kibibyte(t)}
	site.Lim.EnableH2C = true
	s := exchangetest.Start(t, site, false)
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	br := bufio.NewReader(c)
	c.Write(h2.AppendSettings([]byte(h2.Preface), h2.Own{Streams: 100, Window: 1 << 20, List: 1 << 16}))
	// :method GET, :scheme http, :authority, :path, without the table of HPACK.
	block := append([]byte{0x82, 0x86, 0x01, 6}, "a.test"...)
	block = append(append(block, 0x04, 7), "/app/1k"...)
	frame := append(h2.AppendHeader(nil, len(block), h2.Headers, h2.EndHeaders|h2.EndStream, 0), block...)
	more := h2.AppendWindowUpdate(nil, 0, 1024)
	id := uint32(1)
	roundTrip := func() {
		binary.BigEndian.PutUint32(frame[5:], id)
		id += 2
		c.Write(frame)
		c.Write(more)
		for {
			head, err := br.Peek(h2.HeaderSize)
			if err != nil {
				t.Fatal(err)
			}
			f := h2.ParseHeader(head)
			if f.Type == h2.RSTStream || f.Type == h2.GoAway {
				t.Fatalf("frame of type %d", f.Type)
			}
			if _, err := br.Discard(h2.HeaderSize + f.Length); err != nil {
				t.Fatal(err)
			}
			if f.Type == h2.Data && f.Has(h2.EndStream) {
				return
			}
		}
	}
	for range 50 {
		roundTrip()
	}
	if n := testing.AllocsPerRun(500, roundTrip); n > 4 {
		t.Errorf("%v allocations per request, want at most 4", n)
	}
}

// kibibyte is a handler whose upstream answers everything with a kibibyte.
func kibibyte(t *testing.T) *Handler {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		br := bufio.NewReader(c)
		reply := []byte("HTTP/1.1 200 OK\r\nServer: s\r\nDate: d\r\nContent-Type: text/plain\r\nETag: \"a\"\r\n" +
			"Content-Length: 1024\r\nConnection: keep-alive\r\n\r\n" + strings.Repeat("x", 1024))
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) == 2 {
				c.Write(reply)
			}
		}
	}()
	up := extproc.NewH1(extproc.Target{Scheme: extproc.H1, Network: "tcp", Address: l.Addr().String(), KeepAlive: time.Minute}, nil)
	t.Cleanup(func() {
		up.Retire()
		l.Close()
		<-done
	})
	return &Handler{Group: groups.Single(up)}
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
