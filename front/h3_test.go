package front_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"httpjet/access"
	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// What a handler sees of a request over HTTP/3: a GET has no body, although nothing
// declares that, and a body without a length has none.
func TestH3Requests(t *testing.T) {
	s := exchangetest.StartH3(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		q := &x.Req
		if q.Proto != "HTTP/3.0" || q.Scheme != "https" || q.TLS == nil || !q.Remote.Addr().IsLoopback() || q.Remote.Port() == 0 || q.Local.Port() == 0 {
			t.Errorf("%+v", q)
		}
		b, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		x.Resp.Fields.Set("X-Length", map[bool]string{true: "none", false: "some"}[q.Length == 0]+map[bool]string{true: "?", false: ""}[q.Length < 0])
		_, err = x.Write(b)
		return err
	})})
	f := func(method, body string, length int64, want string) {
		t.Helper()
		var r io.Reader
		if body != "" {
			r = io.MultiReader(strings.NewReader(body)) // of unknown length to the client
		}
		req, err := http.NewRequest(method, s.URL+"/", r)
		if err != nil {
			t.Fatal(err)
		}
		if length >= 0 && r != nil {
			req.ContentLength = length
		}
		resp, err := s.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b := readAll(t, resp); b != body || resp.Header.Get("X-Length") != want {
			t.Errorf("%s %q: %q, length %s, want %s", method, body, b, resp.Header.Get("X-Length"), want)
		}
	}
	f("GET", "", -1, "none")
	f("DELETE", "", -1, "none")
	f("POST", "some", 4, "some")
	f("POST", "some", -1, "some?")
	f("GET", "some", -1, "some?")
	f("DELETE", "s", -1, "some?")
	f("GET", "some", 4, "some")
}

// A drain tells the client to go, lets its request end whole, and ends soon after; at
// the end of its time it cuts (R-STOP-1).
func TestH3Drain(t *testing.T) {
	for _, cut := range []bool{false, true} {
		began, goOn := make(chan struct{}), make(chan struct{})
		s := exchangetest.StartH3(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			close(began)
			select {
			case <-goOn:
			case <-x.Context().Done():
				return x.Context().Err()
			}
			_, err := x.Write([]byte(strings.Repeat("whole ", 100000)))
			return err
		})})
		got := make(chan error, 1)
		go func() {
			resp, err := s.Client.Get(s.URL)
			if err == nil {
				var n int64
				if n, err = io.Copy(io.Discard, resp.Body); err == nil && n != 600000 {
					err = io.ErrUnexpectedEOF
				}
				resp.Body.Close()
			}
			got <- err
		}()
		<-began
		ctx, cancel := context.WithCancel(context.Background())
		drained := make(chan int, 1)
		go func() { drained <- s.Front.Drain(ctx) }()
		if cut {
			cancel()
			if n := <-drained; n != 1 {
				t.Errorf("%d connections cut", n)
			}
			if err := <-got; err == nil {
				t.Error("a request that was cut looks whole")
			}
			continue
		}
		// A new connection is refused, or meets nobody, once the drain has begun.
		refused := func() bool {
			short, over := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer over()
			c, err := quic.DialAddr(short, s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}}, nil)
			if err == nil {
				c.CloseWithError(0, "")
			}
			return err != nil
		}
		waitFor(t, refused)
		close(goOn)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if n := <-drained; n != 0 {
			t.Errorf("%d connections cut", n)
		}
		cancel()
	}
}

// 0-RTT is not offered and not taken: a request in it could be sent again by anybody.
func TestH3NoEarlyData(t *testing.T) {
	s := exchangetest.StartH3(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error { return nil })})
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}, ClientSessionCache: tls.NewLRUClientSessionCache(1), ServerName: "localhost"}
	for i := range 2 {
		c, err := quic.DialAddrEarly(t.Context(), s.Addr, conf, nil)
		if err != nil {
			t.Fatal(err)
		}
		tr := &http3.Transport{}
		cc := tr.NewClientConn(c)
		req, _ := http.NewRequest("GET", "https://localhost/", nil)
		resp, err := cc.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if cs := c.ConnectionState(); cs.Used0RTT || cs.TLS.DidResume != (i == 1) {
			t.Errorf("connection %d: early %v, resumed %v", i, cs.Used0RTT, cs.TLS.DidResume)
		}
		c.CloseWithError(0, "")
	}
}

// A connection over QUIC has a permit as every other one: who has none waits until one
// ends (R-LSN-9). Nobody looks for a PROXY header in QUIC.
func TestH3ConnectionPermits(t *testing.T) {
	const permits, conns = 2, 3 // the accept of TCP may have one
	site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error { return nil })}
	site.Lim.MaxConns = permits
	site.Lim.Clients.Proxies = &access.List{}
	s := exchangetest.StartH3(t, site)
	answered := make(chan *quic.Conn, conns)
	for range conns {
		c, err := quic.DialAddr(t.Context(), s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://localhost/", nil)
			resp, err := new(http3.Transport).NewClientConn(c).RoundTrip(req)
			if err != nil {
				t.Error(err)
			} else {
				resp.Body.Close()
			}
			answered <- c
		}()
	}
	served := []*quic.Conn{<-answered}
	for quiet := false; !quiet; {
		select {
		case c := <-answered:
			if served = append(served, c); len(served) > permits {
				t.Fatalf("%d connections served at once", len(served))
			}
		case <-time.After(100 * time.Millisecond): // as long as it likes
			quiet = true
		}
	}
	for i := range conns {
		served[i].CloseWithError(0, "")
		if len(served) < conns {
			served = append(served, <-answered)
		}
	}
}
