package front_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// held connects, and asks until the server holds the reading side.
func held(t *testing.T, s *exchangetest.Server) net.Conn {
	t.Helper()
	c := dial(t, s)
	exchangetest.Hold(t, c)
	return c
}

// TestHeldConnection sends what has no place in a turn of a held connection, or comes
// at a bad moment: all is answered as on any other connection, and in order.
func TestHeldConnection(t *testing.T) {
	for name, send := range map[string][]string{
		"one":            {"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"},
		"pipelined":      {"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"},
		"split":          {"GET /1 HT", "TP/1.1\r\nHost: a\r\n\r", "\nGET /2 HTTP/1.1\r\nHo", "st: a\r\n\r\n"},
		"body":           {"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"},
		"body later":     {"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n", "a", "bc"},
		"chunks":         {"POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n"},
		"empty line":     {"\r\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\n"},
		"large":          {"GET /1 HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 10_000) + "\r\n\r\n"},
		"body and more":  {"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"},
		"one and a half": {"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HT", "TP/1.1\r\nHost: a\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := exchangetest.Start(t, &exchangetest.Site{Handler: echo}, false)
			c := held(t, s)
			for range 2 {
				for _, part := range send {
					io.WriteString(c, part)
				}
			}
			io.WriteString(c, "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			b, err := io.ReadAll(c)
			if err != nil {
				t.Fatalf("after %q: %v", b, err)
			}
			whole := strings.Join(send, "")
			var want []string
			for range 2 {
				for _, path := range []string{"/1 ", "/2 "} {
					if strings.Contains(whole, path) {
						want = append(want, path)
					}
				}
			}
			if err := order(string(b), append(want, "/last")...); err != nil {
				t.Fatalf("%v in %q", err, b)
			}
			if n, m := strings.Count(string(b), "HTTP/1.1 200"), len(want)+1; n != m {
				t.Fatalf("%d answers, want %d: %q", n, m, b)
			}
		})
	}
}

// TestHeldPipelining: a request that comes while the one before is being served is
// answered at once behind it, although no bytes follow that could report it.
func TestHeldPipelining(t *testing.T) {
	began, answer := make(chan bool), make(chan bool)
	s := exchangetest.Start(t, &exchangetest.Site{Rest: time.Hour, Handler: handle(func(x *exchange.Exchange) error {
		began <- true
		<-answer
		return nil
	})}, false)
	c := held(t, s)
	r := bufio.NewReader(c)
	for range 3 {
		for range 2 {
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			<-began
			// The next one is in the socket before this one is answered.
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			answer <- true
			<-began
			answer <- true
			for range 2 {
				if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 200 {
					t.Fatal(resp, err)
				}
			}
		}
	}
}

// TestHeldEnd: a client that ends its side behind a later request is answered, and then
// with the end of the connection once that is at rest.
func TestHeldEnd(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: echo, Rest: 50 * time.Millisecond}, false)
	c := held(t, s)
	io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
	c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), "[GET /1 ]") {
		t.Fatalf("%q, %v", b, err)
	}
}

// TestHeldMalformed: the answer to what is malformed is not lost to a reset.
func TestHeldMalformed(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: echo}, false)
	c := held(t, s)
	io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost : a\r\n\r\n"+strings.Repeat("x", 9000))
	b, err := io.ReadAll(c)
	if err != nil || statuses(string(b)) != "200 400" {
		t.Fatalf("%q, %v", b, err)
	}
}

// TestHeldUpgrade: a later request makes the connection a tunnel.
func TestHeldUpgrade(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		x.Resp.Status = 101
		d, err := x.Upgrade()
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = io.Copy(d, io.LimitReader(d, 5))
		return err
	})}, false)
	c := held(t, s)
	io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: test\r\n\r\nhel")
	io.WriteString(c, "lo")
	if b, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(b), "\r\n\r\nhello") {
		t.Fatalf("%q, %v", b, err)
	}
}

// TestHeldAbort: a body that only the end of the connection bounds, and that is cut, ends
// with a reset; others end short of what was announced. Neither waits for itself.
func TestHeldAbort(t *testing.T) {
	for proto, want := range map[string]error{"HTTP/1.0": syscall.ECONNRESET, "HTTP/1.1": io.ErrUnexpectedEOF} {
		t.Run(proto, func(t *testing.T) {
			s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
				io.WriteString(x, "some")
				x.Flush()
				return errors.New("no more")
			})}, false)
			c := held(t, s)
			io.WriteString(c, "GET /1 "+proto+"\r\nHost: a\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(resp.Body); !errors.Is(err, want) {
				t.Fatalf("%q, %v; want %v", b, err, want)
			}
		})
	}
}

// TestHeldDrain: the end of the budget ends an exchange that waits for its client's
// end, or for a client that takes nothing, and Drain returns.
func TestHeldDrain(t *testing.T) {
	for name, serve := range map[string]func(x *exchange.Exchange) error{
		"context": func(x *exchange.Exchange) error { <-x.Context().Done(); return nil },
		"write": func(x *exchange.Exchange) error {
			for b := make([]byte, 1<<20); ; {
				if _, err := x.Write(b); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			began := make(chan bool)
			s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
				close(began)
				return serve(x)
			})}, false)
			c := held(t, s)
			idle := held(t, s)
			io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
			<-began
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			s.Front.Drain(ctx)
			io.Copy(io.Discard, c)
			if b, err := io.ReadAll(idle); len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatalf("%q, %v", b, err)
			}
		})
	}
}
