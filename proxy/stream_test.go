package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/tunnels"
)

// R-WS-7: an event stream ends with its route, which charges nobody; a stream that
// has ended leaves its connection to the next call, however late its route goes.
func TestEventStreamEndsWithItsRoute(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			br := bufio.NewReader(c)
			for {
				line, err := br.ReadString('\n')
				if err != nil {
					break
				}
				if strings.HasPrefix(line, "GET /short") {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nContent-Length: 9\r\n\r\ndata: 1\n\n")
				} else if strings.HasPrefix(line, "GET /long") {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
				}
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-served })
	client := extproc.NewH1(extproc.Target{Scheme: extproc.H1, Network: "tcp", Address: ln.Addr().String(), KeepAlive: time.Minute}, nil)
	t.Cleanup(client.Retire)
	route := new(tunnels.Leaving).Set("", "route")
	b := groups.Breaker{Threshold: 1, Open: time.Hour, HalfOpen: 1, FailOn: groups.FailOn{Transport: true, Timeout: true}}
	g := groups.New(groups.Options{Peers: []groups.Peer{{Client: client}}, State: groups.NewState(1, nil, b)})
	s := exchangetest.Start(t, &exchangetest.Site{Handler: &Handler{Group: g, Tunnels: route}}, false)
	get := func(path string) (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a.test\r\n\r\n")
		br := bufio.NewReader(c)
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, "data: ") {
				return c, br
			}
		}
	}
	get("/short")
	_, long := get("/long")
	if n := route.Len(); n != 1 {
		t.Fatalf("%d streams of the route, want 1", n)
	}
	if n := route.Close(); n != 1 {
		t.Errorf("%d streams closed, want 1", n)
	}
	if rest, err := io.ReadAll(long); err == nil && strings.Contains(string(rest), "\r\n0\r\n") {
		t.Errorf("the stream ended well: %q", rest)
	}
	// The reservation was given up before the client saw the end; nobody is charged.
	if p := g.Snapshot()[0]; p.Response != "closed" || p.Active != 0 {
		t.Errorf("%+v", p)
	}
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, "GET /long HTTP/1.1\r\nHost: a.test\r\n\r\n")
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 503 ") {
		t.Errorf("a stream of a route that is gone: %q %v", line, err)
	}
	if got := exchange.ReasonOf(s.Site.Errs()[len(s.Site.Errs())-1]); got != "route_gone" {
		t.Errorf("reason %s", got)
	}
}
