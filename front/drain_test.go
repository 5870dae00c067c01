package front_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/front"
)

// TestNextRequestSeesTheNewSite: a kept connection moves to the generation that
// is current when its next request begins, and to the listener's new name.
func TestNextRequestSeesTheNewSite(t *testing.T) {
	var mu sync.Mutex
	name := func(n string) *exchangetest.Site {
		return &exchangetest.Site{Lim: front.Limits{KeepAliveTimeout: time.Minute}, Handler: handle(func(x *exchange.Exchange) error {
			_, err := io.WriteString(x, n+" "+x.Req.Listener)
			return err
		})}
	}
	current := name("old")
	fs := &front.Server{Current: func() front.Site {
		mu.Lock()
		defer mu.Unlock()
		return current
	}}
	l, err := fs.Listen("first", front.Key{Network: "tcp4", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	fs.Serve(l)
	defer fs.Drain(t.Context())
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	get := func() string {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		return string(b)
	}
	if got := get(); got != "old first" {
		t.Errorf("got %q", got)
	}
	mu.Lock()
	current = name("new")
	mu.Unlock()
	l.SetName("second")
	if got := get(); got != "new second" {
		t.Errorf("got %q", got)
	}
}

// refused waits until nobody can connect any more.
func refused(t *testing.T, addr string) {
	t.Helper()
	waitFor(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

// TestDrain covers R-STOP-1 and R-STOP-2: idle connections close when they are at rest,
// a request in flight is answered with Connection: close.
func TestDrain(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	s := exchangetest.Start(t, &exchangetest.Site{Rest: restless, Handler: handle(func(x *exchange.Exchange) error {
		if x.Req.Path == "/slow" {
			close(in)
			<-out
		}
		return nil
	})}, false)
	idle, fresh, busy := dial(t, s), dial(t, s), dial(t, s)
	io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	r := bufio.NewReader(idle)
	if _, err := http.ReadResponse(r, nil); err != nil {
		t.Fatal(err)
	}
	io.WriteString(busy, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	<-in
	waitFor(t, func() bool { return s.Front.Snapshot().Active == 3 })
	done := make(chan int, 1)
	go func() { done <- s.Front.Drain(context.Background()) }()
	if b, err := io.ReadAll(r); len(b) != 0 || err != nil {
		t.Errorf("idle connection: %q, %v", b, err)
	}
	if b, err := io.ReadAll(fresh); len(b) != 0 || err != nil {
		t.Errorf("fresh connection: %q, %v", b, err)
	}
	refused(t, s.Addr)
	close(out)
	b, err := io.ReadAll(busy)
	if statuses(string(b)) != "200" || !strings.Contains(string(b), "Connection: close") {
		t.Errorf("busy connection: %v\n%s", err, b)
	}
	if cut := <-done; cut != 0 {
		t.Errorf("%d connections cut", cut)
	}
}

// TestDrainCuts covers R-STOP-1: what is left when the budget ends is closed, its
// context done, and counted, on both protocols.
func TestDrainCuts(t *testing.T) {
	for _, secure := range []bool{false, true} {
		in, ended := make(chan struct{}), make(chan error, 1)
		s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			x.Flush()
			close(in)
			<-x.Context().Done()
			ended <- x.Context().Err()
			return exchange.ErrClientGone
		})}, secure)
		failed := make(chan error, 1)
		go func() {
			resp, err := s.Client.Get(s.URL + "/")
			if err == nil {
				resp.Body.Close()
			}
			failed <- err
		}()
		<-in
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if cut := s.Front.Drain(ctx); cut != 1 {
			t.Errorf("secure %v: %d connections cut", secure, cut)
		}
		if err := <-ended; err == nil {
			t.Errorf("secure %v: the context is not done", secure)
		}
		if err := <-failed; err == nil {
			t.Errorf("secure %v: the request was answered", secure)
		}
	}
}

// TestDrainH2: streams in flight finish after GOAWAY.
func TestDrainH2(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		close(in)
		<-out
		_, err := x.Write([]byte("done"))
		return err
	})}, true)
	got := make(chan string, 1)
	go func() {
		resp, err := s.Client.Get(s.URL + "/")
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		got <- string(b)
	}()
	<-in
	done := make(chan int, 1)
	go func() { done <- s.Front.Drain(context.Background()) }()
	refused(t, s.Addr)
	close(out)
	if body := <-got; body != "done" {
		t.Errorf("body %q", body)
	}
	if cut := <-done; cut != 0 {
		t.Errorf("%d connections cut", cut)
	}
}

// TestDrainTellsIdleH2Clients: an idle HTTP/2 connection ends by GOAWAY, long
// before the budget.
func TestDrainTellsIdleH2Clients(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: echo}, true)
	readAll(t, do(t, s, "GET", "/", nil))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if cut := s.Front.Drain(ctx); cut != 0 {
		t.Errorf("%d connections cut", cut)
	}
}

// TestMaxConnections covers R-LSN-9: beyond the cap connections wait in the
// kernel's queue and are served when another one ends; the cap can be raised.
func TestMaxConnections(t *testing.T) {
	site := &exchangetest.Site{Handler: echo}
	site.Lim.MaxConns = 1
	s := exchangetest.Start(t, site, false)
	const req = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	reply := func(c net.Conn) error {
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && resp.StatusCode != 200 {
			err = errors.New(resp.Status)
		}
		return err
	}
	first, second, third := dial(t, s), dial(t, s), dial(t, s)
	for _, c := range []net.Conn{first, second, third} {
		io.WriteString(c, req)
	}
	if err := reply(first); err != nil {
		t.Fatal(err)
	}
	if n := s.Front.Snapshot(); n.Accepted != 1 || n.Active != 1 {
		t.Errorf("accepted %d, active %d over the cap", n.Accepted, n.Active)
	}
	first.Close()
	if err := reply(second); err != nil {
		t.Fatal(err)
	}
	if n := s.Front.Snapshot().Accepted; n != 2 {
		t.Errorf("accepted %d", n)
	}
	s.Front.SetLimits(&front.Limits{MaxConns: 2})
	if err := reply(third); err != nil {
		t.Fatal(err)
	}
}

// TestListenerCloseEndsItsConnections: who is connected to a listener that a reload
// removed is served once more, as it was before the reload, and told to go
// (R-RELOAD-3). Connections of other listeners are left alone.
func TestListenerCloseEndsItsConnections(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: echo}, false)
	l, err := s.Front.Listen("second", front.Key{Network: "tcp4", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.Front.Serve(l)
	mine, other := &exchangetest.Server{URL: "http:", Addr: l.Addr().String()}, dial(t, s)
	c := dial(t, mine)
	waitFor(t, func() bool { return s.Front.Snapshot().Active == 2 })
	l.StayWith(&exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		_, err := io.WriteString(x, "as before")
		return err
	})})
	l.Retire()
	l.Close() // again
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if b, err := io.ReadAll(c); !strings.Contains(string(b), "Connection: close") || !strings.Contains(string(b), "as before") || err != nil {
		t.Errorf("a request to the removed listener: %q, %v", b, err)
	}
	refused(t, mine.Addr)
	io.WriteString(other, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if b, _ := io.ReadAll(other); statuses(string(b)) != "200" {
		t.Errorf("the other listener answers %q", b)
	}
}

// TestYield: a server that another one succeeds refuses nobody who is connected:
// neither who has asked before, nor who has not yet, nor who was told last that the
// connection stays, nor one at rest. Each is answered and told to go, and the end
// comes when the last has gone (R-STOP-1).
func TestYield(t *testing.T) {
	begun, out := make(chan struct{}), make(chan struct{})
	s := exchangetest.Start(t, &exchangetest.Site{Rest: restless, Lim: front.Limits{KeepAliveTimeout: time.Hour},
		Handler: handle(func(x *exchange.Exchange) error {
			if x.Req.Path == "/long" {
				io.WriteString(x, "begun ")
				x.Flush()
				close(begun)
				<-out
			}
			_, err := io.WriteString(x, "done")
			return err
		})}, false)
	used, fresh, busy := connect(t, s), connect(t, s), connect(t, s)
	used.expect(t, "/", "done")
	parked(t, s, 3)
	io.WriteString(busy, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun // its head has gone out, and says that the connection stays
	done := make(chan int, 1)
	go func() { done <- s.Front.Yield(context.Background()) }()
	refused(t, s.Addr)
	close(out)
	if got, err := busy.answer(); got != "begun done" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, c := range []client{busy, used, fresh} {
		select {
		case <-done:
			t.Fatal("the end before the clients had gone")
		default:
		}
		io.WriteString(c, "GET /again HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil || !resp.Close {
			t.Fatalf("%+v, %v", resp, err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "done" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		c.ended(t, "behind its last answer")
	}
	if cut := <-done; cut != 0 {
		t.Errorf("%d connections cut", cut)
	}
}

// TestYieldEnds: idle connections do not outlive the budget, are not counted as cut,
// and end without a reset.
func TestYieldEnds(t *testing.T) {
	for _, rest := range []time.Duration{restless, time.Hour, -1} {
		s := exchangetest.Start(t, &exchangetest.Site{Rest: rest, Lim: front.Limits{KeepAliveTimeout: time.Hour}, Handler: echo}, false)
		clients := []client{connect(t, s), connect(t, s)}
		waitFor(t, func() bool { return s.Front.Snapshot().Active == 2 })
		if rest == restless {
			clients[0].expect(t, "/", "[GET / ]")
			parked(t, s, 2)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if cut := s.Front.Yield(ctx); cut != 0 {
			t.Errorf("rest %v: %d connections cut", rest, cut)
		}
		for _, c := range clients {
			c.ended(t, "idle")
		}
	}
}

// TestPipelinedRequestsBehindADrain: what was sent behind a request whose answer said
// that the connection stays is answered too.
func TestPipelinedRequestsBehindADrain(t *testing.T) {
	begun, out := make(chan struct{}), make(chan struct{})
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		if x.Req.Path == "/first" {
			io.WriteString(x, "begun ")
			x.Flush()
			close(begun)
			<-out
		}
		_, err := io.WriteString(x, x.Req.Path)
		return err
	})}, false)
	c := dial(t, s)
	io.WriteString(c, "GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\n\r\nGET /third HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	done := make(chan int, 1)
	go func() { done <- s.Front.Drain(context.Background()) }()
	refused(t, s.Addr)
	close(out)
	b, err := io.ReadAll(c)
	if text := string(b); statuses(text) != "200 200" || !strings.Contains(text, "/second") || !strings.Contains(text, "Connection: close") || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if cut := <-done; cut != 0 {
		t.Errorf("%d connections cut", cut)
	}
}

// TestBacklogIsServed: clients that the kernel has told that they are connected are
// answered, also when the listener is closed before it took them.
func TestBacklogIsServed(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: echo}, false)
	l, err := s.Front.Listen("second", front.Key{Network: "tcp4", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	var clients []net.Conn
	for range 50 {
		c := dial(t, &exchangetest.Server{URL: "http:", Addr: l.Addr().String()})
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		clients = append(clients, c)
	}
	s.Front.Serve(l)
	l.Close()
	for i, c := range clients {
		if b, err := io.ReadAll(c); statuses(string(b)) != "200" || err != nil {
			t.Fatalf("client %d: %q, %v", i, b, err)
		}
	}
}
