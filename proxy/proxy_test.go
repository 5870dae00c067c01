package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/groups"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// wire records what a client would see.
type wire struct {
	ctx     context.Context
	in      io.Reader
	stopped atomic.Bool
	out     strings.Builder // heads and body; "END" or "ABORT" behind them
	head    exchange.Response
}

func (w *wire) Read(p []byte) (int, error) {
	if w.stopped.Load() || w.in == nil {
		return 0, errors.New("stopped")
	}
	return w.in.Read(p)
}

func (w *wire) StopRead() {
	w.stopped.Store(true)
	if pr, ok := w.in.(*io.PipeReader); ok {
		pr.CloseWithError(errors.New("stopped"))
	}
}

func (w *wire) Head(r *exchange.Response, noBody, last bool) error {
	if last {
		w.head = *r
		return nil
	}
	for n, v := range r.Fields.All() {
		w.out.WriteString("[" + n + ": " + v + "]")
	}
	return nil
}

func (w *wire) Trailers() *exchange.Fields  { return nil }
func (w *wire) Write(p []byte) (int, error) { return w.out.Write(p) }
func (w *wire) Flush() error                { return nil }
func (w *wire) End(*exchange.Fields) error  { w.out.WriteString("END"); return nil }
func (w *wire) Abort(error)                 { w.out.WriteString("ABORT") }
func (w *wire) Context() context.Context    { return w.ctx }

// serve runs h for a request head of the form "METHOD target", then fields.
func serve(h *Handler, length int64, in io.Reader, request string) (*wire, *exchange.Exchange, error) {
	w := &wire{ctx: context.Background(), in: in}
	x := &exchange.Exchange{}
	x.Reset(w)
	err := exchange.Run(fill(x, length, request), h)
	return w, x, err
}

func fill(x *exchange.Exchange, length int64, request string) *exchange.Exchange {
	line, fields, _ := strings.Cut(request, "\n")
	x.Req.Method, x.Req.Target, _ = strings.Cut(line, " ")
	x.Req.Proto, x.Req.Scheme, x.Req.Host, x.Req.Length = "HTTP/1.1", "http", "a.test", length
	x.Req.Remote = netip.MustParseAddrPort("192.0.2.1:5000")
	x.Req.Client = x.Req.Remote.Addr()
	for l := range strings.Lines(fields) {
		n, v, _ := strings.Cut(l, ":")
		x.Req.Fields.Add(n, strings.TrimSpace(v))
	}
	return x
}

// upstream starts a TCP server that hands each connection to serve, and counts.
func upstream(t *testing.T, serve func(c net.Conn, br *bufio.Reader)) (string, *atomic.Int32) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var n atomic.Int32
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() { defer c.Close(); serve(c, bufio.NewReader(c)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String(), &n
}

func head(br *bufio.Reader) string {
	var b strings.Builder
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return ""
		}
		b.WriteString(line)
		if line == "\r\n" {
			return b.String()
		}
	}
}

// canned answers every request with reply and records the heads.
func canned(t *testing.T, reply string) (*Handler, func() []string, *atomic.Int32) {
	var mu sync.Mutex
	var seen []string
	addr, n := upstream(t, func(c net.Conn, br *bufio.Reader) {
		for h := head(br); h != ""; h = head(br) {
			mu.Lock()
			seen = append(seen, h)
			mu.Unlock()
			io.WriteString(c, reply)
			if !strings.Contains(reply, "Length: 2\r\n") {
				return
			}
		}
	})
	return handler(t, addr), func() []string { mu.Lock(); defer mu.Unlock(); return seen }, n
}

func handler(t *testing.T, addr string) *Handler { return handlerWithin(t, addr, patience) }

// handlerWithin has one connection and waits for it no longer than init.
func handlerWithin(t *testing.T, addr string, init time.Duration) *Handler {
	c := extproc.NewH1(extproc.Target{Kind: extproc.KindProxy, Scheme: extproc.H1, Network: "tcp", Address: addr,
		MaxConns: 1, InitTimeout: init, KeepAlive: time.Minute, HeadTimeout: patience, BodyTimeout: patience}, nil)
	t.Cleanup(c.Retire)
	return &Handler{Group: groups.Single(c)}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// The bytes at the upstream: everything the client sent end to end, as it sent
// it, and the fields of the hop (fault 4 to 7, R-HDR-1 to R-HDR-5, R-RW-7).
func TestRequestAtTheUpstream(t *testing.T) {
	h, seen, _ := canned(t, ok)
	w, _, err := serve(h, 0, nil, "GET /a%2Fb;v=1//x?q=%zz\nx-LOW: 1\nConnection: close, X-Hop\nX-Hop: 1\nUpgrade: h2c\n"+
		"X-Forwarded-For: 203.0.113.9\nX-Forwarded-Proto: https\nCookie: a=b\nX-EMPTY: ")
	if err != nil || w.out.String() != "okEND" || w.head.Status != 200 || w.head.Length != 2 {
		t.Fatalf("%v, %d %q", err, w.head.Status, w.out.String())
	}
	want := "GET /a%2Fb;v=1//x?q=%zz HTTP/1.1\r\nHost: a.test\r\nx-LOW: 1\r\nCookie: a=b\r\nX-EMPTY: \r\n" +
		"X-Forwarded-For: 192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a.test\r\nVia: 1.1 httpjet\r\n\r\n"
	if got := seen()[0]; got != want {
		t.Errorf("upstream got\n%q, want\n%q", got, want)
	}
}

func TestBadRequestsNeverReachTheUpstream(t *testing.T) {
	h, _, n := canned(t, ok)
	f := func(request string, status int) {
		t.Helper()
		w, _, err := serve(h, 0, nil, request)
		if exchange.StatusOf(err) != status || w.head.Status != status {
			t.Errorf("%q: %v, answered %d", request, err, w.head.Status)
		}
	}
	f("GET /public/%2e%2e/internal", 400)
	f("GET /a%00", 400)
	f("CONNECT a.test:443", 405) // R-PIPE-7
	f("TRACE /", 405)
	if n.Load() != 0 {
		t.Errorf("%d connections", n.Load())
	}
}

// OPTIONS goes as many hops as it says (RFC 9110 §7.6.2).
func TestMaxForwards(t *testing.T) {
	h, seen, n := canned(t, ok)
	w, _, err := serve(h, 0, nil, "OPTIONS /\nMax-Forwards: 0")
	if err != nil || w.head.Status != 204 || w.head.Fields.Get("Allow") != methods || n.Load() != 0 {
		t.Errorf("%v, %d, Allow %q, %d connections", err, w.head.Status, w.head.Fields.Get("Allow"), n.Load())
	}
	f := func(request, want string) {
		t.Helper()
		before := len(seen())
		if w, _, err := serve(h, 0, nil, request); err != nil || w.head.Status != 200 {
			t.Fatalf("%q: %v, answered %d", request, err, w.head.Status)
		}
		if got := seen()[before]; !strings.Contains(got, "\r\nMax-Forwards: "+want+"\r\n") {
			t.Errorf("%q: upstream got %q", request, got)
		}
	}
	f("OPTIONS /\nMax-Forwards: 3", "2")
	f("OPTIONS /\nMax-Forwards: 1\nX-A: b", "0")
	f("GET /\nMax-Forwards: 0", "0") // about OPTIONS and TRACE only
	f("OPTIONS /\nMax-Forwards: many", "many")
}

// Each failure has its own status and token (fault 13, R-GRP-7, R-HDR-8), and one
// attempt only (fault 2).
func TestFault13Failures(t *testing.T) {
	f := func(h *Handler, request string, status int, reason string, attempts int32, n *atomic.Int32) {
		t.Helper()
		w, _, err := serve(h, 0, nil, request)
		if exchange.ReasonOf(err) != reason || w.head.Status != status || w.head.Fields.Get("X-Httpjet-Proxy-Error") != reason {
			t.Errorf("%v, answered %d %q; want %d %s", err, w.head.Status, w.head.Fields.Get("X-Httpjet-Proxy-Error"), status, reason)
		}
		if n != nil && n.Load() != attempts {
			t.Errorf("%s: %d attempts, want %d", reason, n.Load(), attempts)
		}
	}
	h, _, n := canned(t, "")
	f(h, "GET /", 502, "upstream_transport", 1, n)
	f(h, "POST /", 502, "upstream_transport", 2, n)
	h, _, n = canned(t, "hello")
	f(h, "GET /", 502, "upstream_transport", 1, n)

	dead := refused(t)
	f(handler(t, dead), "GET /", 502, "upstream_transport", 0, nil) // refused

	addr, n := upstream(t, func(c net.Conn, br *bufio.Reader) { io.Copy(io.Discard, br) })
	h = handler(t, addr)
	h.HeadTimeout = 50 * time.Millisecond
	f(h, "GET /", 504, "upstream_timeout", 1, n)

	h = handlerWithin(t, addr, 50*time.Millisecond) // one connection, and it is taken
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	w := &wire{ctx: ctx}
	x := &exchange.Exchange{}
	x.Reset(w)
	go func() { done <- exchange.Run(fill(x, 0, "GET /"), h) }()
	for n.Load() < 2 {
		<-time.After(time.Millisecond)
	}
	f(h, "GET /", 503, "pool_saturated", 2, n)
	cancel()
	if err := <-done; !errors.Is(err, exchange.ErrClientGone) || exchange.StatusOf(err) != 499 {
		t.Errorf("client that left: %v", err)
	}

	tg := extproc.Target{Kind: extproc.KindProxy, Scheme: extproc.H1S, Network: "tcp", Address: addr, InitTimeout: 50 * time.Millisecond}
	f(&Handler{Group: groups.Single(extproc.NewH1(tg, nil))}, "GET /", 504, "connect_timeout", 0, nil)
}

// A dial that fails leaves the body to whoever is tried next (G13).
func TestG13DialErrorLeavesTheBody(t *testing.T) {
	dead := refused(t)
	for _, n := range []int{2, 5 << 20} {
		in := bytes.NewReader(make([]byte, n))
		w, x, err := serve(handler(t, dead), int64(n), in, "POST /ping")
		if w.head.Status != 502 || x.BodyRead() != 0 || in.Len() != n || w.stopped.Load() {
			t.Errorf("%v, %d; %d bytes read, stopped %v", err, w.head.Status, x.BodyRead(), w.stopped.Load())
		}
	}
}

func TestUploadIsRelayed(t *testing.T) { // R-STREAM-3, G11
	got := make(chan []byte, 1)
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		if !strings.HasSuffix(head(br), "\r\nContent-Length: 300000\r\n\r\n") {
			t.Error("another length")
		}
		b := make([]byte, 300000)
		io.ReadFull(br, b)
		got <- b
		io.WriteString(c, ok)
	})
	data := make([]byte, 300000)
	for i := range data {
		data[i] = byte(i * 31 >> 3)
	}
	w, _, err := serve(handler(t, addr), 300000, bytes.NewReader(data), "POST /up\nContent-Length: 300000\nExpect: 100-continue")
	if err != nil || w.out.String() != "okEND" || !bytes.Equal(<-got, data) {
		t.Errorf("%v %q", err, w.out.String())
	}
}

// A body over the context's cap ends as 413, whatever the upstream does
// (R-CTX-9).
func TestUndeclaredBodyOverLimit(t *testing.T) {
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) { io.Copy(io.Discard, br) })
	h := handler(t, addr)
	w := &wire{ctx: context.Background(), in: bytes.NewReader(make([]byte, 1<<20))}
	x := &exchange.Exchange{}
	x.Reset(w)
	fill(x, -1, "POST /")
	err := exchange.Run(x, exchange.HandlerFunc(func(x *exchange.Exchange) error {
		if err := x.LimitBody(100_000); err != nil {
			return err
		}
		return h.Serve(x)
	}))
	if exchange.ReasonOf(err) != "request_body_too_large" || w.head.Status != 413 {
		t.Errorf("%v, answered %d", err, w.head.Status)
	}
}

func TestReplyIsRelayedVerbatim(t *testing.T) { // fault 12
	h, _, _ := canned(t, "HTTP/1.1 103 Early\r\nLink: </a>\r\nX-LiteSpeed-Tag: x\r\n\r\n"+
		"HTTP/1.1 503 Mine\r\nContent-Length: 2\r\nX-LiteSpeed-Cache-Control: public\r\nLSC-Cookie: a\r\n"+
		"x-httpjet-proxy-error: fake\r\nRetry-After: 9\r\nConnection: X-H\r\nX-H: 1\r\n\r\nno")
	w, _, err := serve(h, 0, nil, "GET /")
	if err != nil || w.head.Status != 503 || w.out.String() != "[Link: </a>]noEND" {
		t.Fatalf("%v, %d %q", err, w.head.Status, w.out.String())
	}
	if w.head.Fields.Len() != 1 || w.head.Fields.Get("Retry-After") != "9" { // R-HDR-7
		t.Errorf("fields %v", w.head.Fields)
	}
}

// A cut reply is cut for the client too (fault 3, R-STREAM-4).
func TestFault3CutReply(t *testing.T) {
	h, _, _ := canned(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	w, _, err := serve(h, 0, nil, "GET /")
	if exchange.ReasonOf(err) != "response_error" || w.out.String() != "helloABORT" {
		t.Errorf("%v %q", err, w.out.String())
	}
}

func TestEarlyAnswerStopsTheUpload(t *testing.T) { // G16
	addr, n := upstream(t, func(c net.Conn, br *bufio.Reader) {
		for h := head(br); h != ""; h = head(br) {
			if strings.HasPrefix(h, "POST") {
				io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
			} else {
				io.WriteString(c, ok)
			}
		}
	})
	h := handler(t, addr)
	pr, pw := io.Pipe()
	defer pw.Close()
	w, _, err := serve(h, 1<<20, pr, "POST /up")
	if err != nil || w.head.Status != 413 || w.out.String() != "bigEND" || !w.stopped.Load() {
		t.Errorf("%v, %d %q, stopped %v", err, w.head.Status, w.out.String(), w.stopped.Load())
	}
	if w, _, err = serve(h, 0, nil, "GET /next"); err != nil || w.out.String() != "okEND" || n.Load() != 2 {
		t.Errorf("%v %q over %d connections", err, w.out.String(), n.Load())
	}
}

// upgradable is a wire that could upgrade.
type upgradable struct{ wire }

func (*upgradable) Upgrade(*exchange.Response) (exchange.Duplex, error) {
	return nil, errors.New("no")
}

func TestUpgradesGoToTheirHandler(t *testing.T) { // R-WS-1, R-WS-8
	const ws = "GET /ws\nConnection: Upgrade\nUpgrade: websocket"
	f := func(h *Handler, can bool, request string, upgraded bool) {
		t.Helper()
		w := &upgradable{wire{ctx: context.Background()}}
		x := &exchange.Exchange{}
		if can {
			x.Reset(w)
		} else {
			x.Reset(&w.wire)
		}
		h.Upgrade = exchange.HandlerFunc(func(*exchange.Exchange) error { return exchange.Fail(426, "test", "here") })
		if err := exchange.Run(fill(x, 0, request), h); (exchange.StatusOf(err) == 426) != upgraded {
			t.Errorf("can %v, %q: %v", can, request, err)
		}
	}
	h, seen, _ := canned(t, ok)
	f(h, true, ws, true)
	f(h, false, ws, false) // as over HTTP/2
	f(h, true, "GET /ws\nConnection: Upgrade\nUpgrade: h2c", false)
	for _, s := range seen() {
		if strings.Contains(strings.ToLower(s), "upgrade") {
			t.Errorf("Upgrade crossed: %q", s)
		}
	}
	if len(seen()) != 2 {
		t.Errorf("%d ordinary requests, want 2", len(seen()))
	}
}
