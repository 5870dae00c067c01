package proxy

import (
	"bufio"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
	"httpjet/groups"
)

// TestAllocations pins what a kept connection's request without a body costs from
// the client's socket to the upstream's and back: the strings of both heads.
func TestAllocations(t *testing.T) {
	if raceDetector() {
		t.Skip("the race detector makes pools forget")
	}
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
	s := exchangetest.Start(t, &exchangetest.Site{Handler: &Handler{Group: groups.Single(up)}}, false)
	t.Cleanup(func() {
		up.Retire()
		l.Close()
		<-done
	})
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

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
