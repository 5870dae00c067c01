package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
	"httpjet/groups"
)

// BenchmarkGET is one exchange with an upstream on the loopback, without a front
// end.
func BenchmarkGET(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
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
		reply := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-A: b\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024))
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
	c := extproc.NewH1(extproc.Target{Scheme: extproc.H1, Network: "tcp", Address: l.Addr().String(), KeepAlive: time.Minute}, nil)
	h := &Handler{Group: groups.Single(c)}
	w := &wire{ctx: context.Background()}
	x := &exchange.Exchange{}
	b.ReportAllocs()
	for b.Loop() {
		x.Reset(w)
		x.Req.Method, x.Req.Target, x.Req.Proto, x.Req.Scheme, x.Req.Host = "GET", "/index.html", "HTTP/1.1", "http", "a.test"
		x.Req.Fields.Add("User-Agent", "bench")
		x.Req.Fields.Add("Accept", "*/*")
		w.out.Reset()
		if err := exchange.Run(x, h); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	c.Retire()
	l.Close()
	<-done
}

// BenchmarkStream relays 256 MiB through the HTTP/1 front end.
func BenchmarkStream(b *testing.B) {
	const size = 256 << 20
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
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
		piece := make([]byte, 1<<20)
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) == 2 {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
				for range size / len(piece) {
					c.Write(piece)
				}
			}
		}
	}()
	c := extproc.NewH1(extproc.Target{Scheme: extproc.H1, Network: "tcp", Address: l.Addr().String(), KeepAlive: time.Minute}, nil)
	s := exchangetest.Start(b, &exchangetest.Site{Handler: &Handler{Group: groups.Single(c)}}, false)
	client, err := net.Dial("tcp", s.Addr)
	if err != nil {
		b.Fatal(err)
	}
	piece := make([]byte, 1<<20)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		io.WriteString(client, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		for n := 0; n < size; {
			m, err := client.Read(piece)
			if err != nil {
				b.Fatal(err)
			}
			n += m
		}
		for client.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); ; { // the head's share
			if _, err := client.Read(piece); err != nil {
				break
			}
		}
		client.SetReadDeadline(time.Time{})
	}
	client.Close()
	c.Retire()
	l.Close()
	<-done
}
