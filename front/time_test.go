package front_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/front"
)

// pipes is a listener of net.Pipe connections, for tests in fake time.
type pipes struct {
	conns chan net.Conn
	quit  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.quit:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.quit); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// inFakeTime runs test in a bubble with a server and a way to connect to it.
func inFakeTime(t *testing.T, site *exchangetest.Site, test func(t *testing.T, fs *front.Server, connect func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fs := &front.Server{Current: func() front.Site { return site }}
		fs.SetLimits(site.Limits())
		p := &pipes{conns: make(chan net.Conn), quit: make(chan struct{})}
		fs.Serve(fs.Adopt("test", front.Key{}, p))
		test(t, fs, func() net.Conn {
			a, b := net.Pipe()
			p.conns <- b
			return a
		})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		fs.Drain(ctx)
	})
}

// within checks that a happened between least and least plus the slack of
// deadlines.
func within(t *testing.T, what string, since time.Time, least time.Duration) {
	t.Helper()
	if d := time.Since(since); d < least || d > least+1100*time.Millisecond {
		t.Errorf("%s after %v, want %v", what, d, least)
	}
}

// advance lets fake time pass.
func advance(d time.Duration) { <-time.After(d) }

func timedSite(h exchange.Handler) *exchangetest.Site {
	return &exchangetest.Site{Handler: h, Lim: front.Limits{ConnTimeout: 60 * time.Second, KeepAliveTimeout: 5 * time.Second}}
}

// TestSlowHead covers the head's deadline of spec §39: it is one for the whole
// head, so that a byte now and then does not extend it (G63).
func TestSlowHead(t *testing.T) {
	inFakeTime(t, timedSite(echo), func(t *testing.T, _ *front.Server, connect func() net.Conn) {
		c := connect()
		defer c.Close()
		began, ended := time.Now(), make(chan struct{})
		go func() {
			defer close(ended)
			for _, b := range []byte("GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("y", 100)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				advance(5 * time.Second)
			}
		}()
		b, err := io.ReadAll(c)
		if statuses(string(b)) != "408" || !strings.Contains(string(b), "Connection: close") {
			t.Errorf("%v\n%s", err, b)
		}
		within(t, "408", began, 60*time.Second)
		<-ended
	})
}

// TestSlowHandshake: a handshake has the connection timeout too.
func TestSlowHandshake(t *testing.T) {
	site := timedSite(echo)
	synctest.Test(t, func(t *testing.T) {
		fs := &front.Server{Current: func() front.Site { return site }}
		p := &pipes{conns: make(chan net.Conn), quit: make(chan struct{})}
		fs.Serve(fs.Adopt("test", front.Key{Secure: true}, p))
		a, b := net.Pipe()
		defer a.Close()
		p.conns <- b
		began := time.Now()
		if b, err := io.ReadAll(a); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		within(t, "close", began, 60*time.Second)
		if n := fs.Snapshot().TLSErrors; n != 1 {
			t.Errorf("%d TLS errors", n)
		}
		fs.Drain(t.Context())
	})
}

// TestSilentClient: without a byte there is nothing to answer.
func TestSilentClient(t *testing.T) {
	inFakeTime(t, timedSite(echo), func(t *testing.T, _ *front.Server, connect func() net.Conn) {
		c := connect()
		defer c.Close()
		began := time.Now()
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		within(t, "close", began, 60*time.Second)
	})
}

// TestKeepAliveTimeout: an idle connection ends without a word; requests in
// between start the time anew.
func TestKeepAliveTimeout(t *testing.T) {
	inFakeTime(t, timedSite(echo), func(t *testing.T, _ *front.Server, connect func() net.Conn) {
		c := connect()
		defer c.Close()
		var got strings.Builder
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			io.Copy(&got, c)
		}()
		var last time.Time
		for range 4 {
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			last = time.Now()
			advance(4 * time.Second)
		}
		<-ended
		if statuses(got.String()) != "200 200 200 200" {
			t.Errorf("replies\n%s", got.String())
		}
		within(t, "close", last, 5*time.Second)
	})
}

// TestStalledBody: a body without progress is 408; one that trickles goes on.
func TestStalledBody(t *testing.T) {
	site := timedSite(handle(func(x *exchange.Exchange) error {
		_, err := io.Copy(io.Discard, x.Body())
		return err
	}))
	inFakeTime(t, site, func(t *testing.T, _ *front.Server, connect func() net.Conn) {
		c := connect()
		defer c.Close()
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
		for range 3 {
			advance(50 * time.Second)
			c.Write([]byte("x"))
		}
		last := time.Now()
		b, _ := io.ReadAll(c)
		if statuses(string(b)) != "408" {
			t.Errorf("reply\n%s", b)
		}
		within(t, "408", last, 60*time.Second)
		if errs := site.Errs(); len(errs) != 1 || exchange.ReasonOf(errs[0]) != "request_stalled" {
			t.Errorf("errors %v", errs)
		}
	})
}

// R-UP-5: a client may be silent for any time on a stream of HTTP/2 that is answered
// while it is open, also when a read of its body was under way before the answer.
func TestOpenStreamMayBeSilent(t *testing.T) {
	site := timedSite(handle(func(x *exchange.Exchange) error {
		reading, read := make(chan struct{}), make(chan string, 1)
		go func() {
			close(reading)
			b, err := io.ReadAll(x.Body())
			read <- fmt.Sprint(string(b), " ", err)
		}()
		<-reading
		if err := x.Start(200); err != nil {
			return err
		}
		if err := x.Flush(); err != nil {
			return err
		}
		got := <-read
		_, err := io.WriteString(x, got)
		return err
	}))
	site.Lim.EnableH2C = true
	inFakeTime(t, site, func(t *testing.T, _ *front.Server, connect func() net.Conn) {
		c := connect()
		defer c.Close()
		head, answer := make(chan struct{}), make(chan string, 1)
		fr := http2.NewFramer(c, c)
		go func() { // the pipe has no buffer: somebody always reads
			for text := ""; ; {
				f, err := fr.ReadFrame()
				switch f := f.(type) {
				case *http2.HeadersFrame:
					close(head)
				case *http2.DataFrame:
					text += string(f.Data())
					if f.StreamEnded() {
						answer <- text
					}
				}
				if err != nil {
					close(answer)
					return
				}
			}
		}()
		io.WriteString(c, http2.ClientPreface)
		fr.WriteSettings()
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		for _, f := range []string{":method POST", ":scheme http", ":authority a", ":path /"} {
			name, value, _ := strings.Cut(f, " ")
			enc.WriteField(hpack.HeaderField{Name: name, Value: value})
		}
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
		<-head
		for i := range 3 {
			advance(10 * time.Minute)
			fr.WriteData(1, i == 2, []byte("x"))
		}
		if got := <-answer; got != "xxx <nil>" {
			t.Errorf("%q; %v", got, site.Errs())
		}
	})
}

// TestStalledReader: a client that does not read its response is cut.
func TestStalledReader(t *testing.T) {
	site := timedSite(handle(func(x *exchange.Exchange) error {
		for {
			if _, err := x.Write(make([]byte, 10<<10)); err != nil {
				return err
			}
		}
	}))
	inFakeTime(t, site, func(t *testing.T, _ *front.Server, connect func() net.Conn) {
		c := connect()
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		buf := make([]byte, 5000)
		for range 3 { // slow is no reason
			advance(50 * time.Second)
			if _, err := c.Read(buf); err != nil {
				t.Fatal(err)
			}
		}
		advance(124 * time.Second) // the window in which it last read, and one more
		synctest.Wait()
		if errs := site.Errs(); len(errs) != 1 || !errors.Is(errs[0], exchange.ErrClientGone) {
			t.Errorf("errors %v", errs)
		}
	})
}

// TestInFlightCap covers R-LSN-9: a request beyond the cap waits its turn, or is
// answered 503 when it comes too late.
func TestInFlightCap(t *testing.T) {
	free := make(chan struct{})
	site := timedSite(handle(func(x *exchange.Exchange) error {
		if x.Req.Path == "/hold" {
			<-free
		}
		return nil
	}))
	site.Lim.MaxInFlight = 1
	inFakeTime(t, site, func(t *testing.T, fs *front.Server, connect func() net.Conn) {
		free = make(chan struct{})
		get := func(path string) chan string {
			c, got := connect(), make(chan string, 1)
			go func() {
				defer c.Close()
				io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				b, _ := io.ReadAll(c)
				got <- string(b)
			}()
			synctest.Wait()
			return got
		}
		holder := get("/hold")
		began := time.Now()
		late := get("/late")
		advance(30 * time.Second)
		patient := get("/patient")
		if got := <-late; statuses(got) != "503" || !strings.Contains(got, "\r\nRetry-After: 1\r\n") {
			t.Errorf("late:\n%s", got)
		}
		within(t, "503", began, 60*time.Second)
		close(free)
		if got := <-holder; statuses(got) != "200" {
			t.Errorf("holder:\n%s", got)
		}
		if got := <-patient; statuses(got) != "200" {
			t.Errorf("patient:\n%s", got)
		}
		if st := fs.Snapshot(); st.Overloaded != 1 || st.InFlight != 0 {
			t.Errorf("overloaded %d, in flight %d", st.Overloaded, st.InFlight)
		}
	})
}
