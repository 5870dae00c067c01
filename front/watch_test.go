package front_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// leave closes a connection, with a reset if asked for; of a TLS connection the
// socket alone, as a client that dies.
func leave(c net.Conn, reset bool) {
	if tc, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = tc.NetConn()
	}
	if reset {
		c.(*net.TCPConn).SetLinger(0)
	}
	c.Close()
}

// awaitDone waits for an event of the test.
func awaitDone(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s: never\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

// A client that leaves in the middle of its upload is noticed although nobody reads
// it, as when the upstream takes no more (R-STREAM-5).
func TestGoneClientOfAStuckUpload(t *testing.T) {
	f := func(head, body string, reset, secure bool) {
		in, ended := make(chan struct{}), make(chan struct{})
		s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			if head != "" {
				io.ReadFull(x.Body(), make([]byte, 1)) // some has been read
			}
			close(in)
			<-x.Context().Done()
			close(ended)
			return exchange.ErrClientGone
		})}, secure)
		c := dial(t, s)
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\n"+body)
		awaitDone(t, "the request", in)
		leave(c, reset)
		awaitDone(t, "the end of the client", ended)
	}
	for _, secure := range []bool{false, true} {
		for _, reset := range []bool{false, true} {
			f("", "Content-Length: 1000000\r\n\r\nsome", reset, secure)
			f("read", "Content-Length: 1000000\r\n\r\nsome", reset, secure)
			f("read", "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n", reset, secure)
		}
	}
}

// Neither a context that somebody waits on, nor one of which others are derived,
// costs a system call where the answer is quick (R-STREAM-5).
func TestQuickExchangesAreNotWatched(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		x.Context().Done()
		ctx, cancel := context.WithTimeout(x.Context(), time.Minute)
		defer cancel()
		defer context.AfterFunc(ctx, func() {})()
		_, err := io.WriteString(x, "quick")
		return err
	})}, false)
	c := dial(t, s)
	r := bufio.NewReader(c)
	for range 200 {
		before, began := s.Front.Snapshot().Watched, time.Now()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		if n := s.Front.Snapshot().Watched; n != before && time.Since(began) < 50*time.Millisecond {
			t.Errorf("%d exchanges were watched", n-before)
		}
	}
}

// One goroutine watches all clients: exchanges that wait cost none of their own.
func TestOneGoroutineWatchesAll(t *testing.T) {
	const clients = 200
	in := make(chan struct{}, clients)
	var over sync.WaitGroup
	over.Add(clients)
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		done := x.Context().Done()
		in <- struct{}{}
		<-done
		over.Done()
		return exchange.ErrClientGone
	})}, false)
	var conns []net.Conn
	for range clients {
		c := dial(t, s)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		conns = append(conns, c)
		<-in
	}
	waitFor(t, func() bool { return s.Front.Snapshot().Watched == clients })
	if n := runtime.NumGoroutine(); n > clients+50 {
		t.Errorf("%d goroutines for %d clients that wait", n, clients)
	}
	for _, c := range conns {
		leave(c, false)
	}
	ended := make(chan struct{})
	go func() {
		over.Wait()
		close(ended)
	}()
	awaitDone(t, "the end of all", ended)
}

// A connection is watched anew for each of its exchanges, and no watch is left
// behind by the one before.
func TestWatchOfEachExchange(t *testing.T) {
	in, ended := make(chan struct{}, 1), make(chan struct{})
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		done := x.Context().Done()
		if x.Req.Path == "/last" {
			in <- struct{}{}
			<-done
			close(ended)
			return exchange.ErrClientGone
		}
		advance(70 * time.Millisecond) // long enough to be watched
		select {
		case <-done:
			return errors.New("done, and the client is there")
		default:
		}
		_, err := io.WriteString(x, "ok")
		return err
	})}, false)
	c := dial(t, s)
	r := bufio.NewReader(c)
	for range 3 {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "ok" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
	}
	io.WriteString(c, "GET /last HTTP/1.1\r\nHost: a\r\n\r\n")
	<-in
	leave(c, false)
	awaitDone(t, "the end of the client", ended)
	if n := s.Front.Snapshot().Watched; n < 1 {
		t.Errorf("%d exchanges were watched", n)
	}
}

// A client that ends its side with its request, as nc -N and scripts do, has its
// answer unless that takes so long that the end is taken for its leaving.
func TestHalfCloseWithTheRequest(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: echo}, false)
	for range 20 {
		c := dial(t, s)
		began := time.Now()
		io.WriteString(c, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
		c.(*net.TCPConn).CloseWrite()
		if b, err := io.ReadAll(c); (err != nil || !strings.Contains(string(b), "hi")) && time.Since(began) < 50*time.Millisecond {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// A half-close is no end of a tunnel, however long ago the request was.
func TestHalfCloseOfATunnelIsNoEnd(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		done := x.Context().Done()
		if x.Req.Path == "/late" {
			advance(70 * time.Millisecond) // watched already
		}
		x.Resp.Fields.Add("Upgrade", "x")
		d, err := x.Upgrade()
		if err != nil {
			return err
		}
		defer d.Close()
		io.Copy(io.Discard, d) // to the half-close
		advance(70 * time.Millisecond)
		select {
		case <-done:
			return errors.New("a half-close is taken for the end")
		default:
		}
		_, err = io.WriteString(d, "still here")
		return err
	})}, false)
	for _, path := range []string{"/early", "/late"} {
		c := dial(t, s)
		io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		r := bufio.NewReader(c)
		if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(resp, err)
		}
		c.(*net.TCPConn).CloseWrite()
		if b, err := io.ReadAll(r); string(b) != "still here" || err != nil {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
}
