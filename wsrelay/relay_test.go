package wsrelay

import (
	"bytes"
	"crypto/tls"
	"hash/crc32"
	"io"
	"math/rand"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
	"httpjet/groups"
)

// Bytes behind the backend's head are delivered first, wherever segments end
// (G32).
func TestG32FrameBehindTheHead(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	cuts := make(chan int, 1)
	const frame = "\x81\x05hello"
	h, _ := handler(tcp(t, func(p *peer) {
		p.head()
		all, cut := switching+frame, <-cuts
		io.WriteString(p, all[:cut])
		runtime.Gosched()
		io.WriteString(p, all[cut:])
		p.head()
	}))
	s := serve(t, h, false)
	n := 1000
	if testing.Short() {
		n = 100
	}
	for range n {
		cuts <- rnd.Intn(len(switching+frame) + 1)
		p := s.tunnel()
		if got := p.next(t, len(frame)); got != frame {
			t.Fatalf("client got %q", got)
		}
		p.Close()
	}
}

// Bytes behind the client's head wait for the 101 and arrive in order (G33).
func TestG33FrameBehindTheRequest(t *testing.T) {
	for _, secure := range []bool{false, true} {
		h, _ := handler(tcp(t, func(p *peer) { p.head(); io.WriteString(p, switching); io.Copy(p, p) }))
		p := serve(t, h, secure).dial(open + "first ")
		io.WriteString(p, "second")
		if head := p.head(); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
			t.Fatalf("%q", head)
		}
		if got := p.next(t, 12); got != "first second" {
			t.Errorf("secure %v: %q", secure, got)
		}
	}
}

// Either side may end its own direction and still receive (R-WS-5).
func TestHalfClose(t *testing.T) {
	for _, secure := range []bool{false, true} {
		h, _ := handler(tcp(t, func(p *peer) {
			p.head()
			io.WriteString(p, switching)
			all, _ := io.ReadAll(p)
			io.WriteString(p, "got "+string(all))
		}))
		s := serve(t, h, secure)
		p := s.tunnel()
		io.WriteString(p, "request")
		p.closeWrite()
		all, err := io.ReadAll(p)
		if string(all) != "got request" || err != nil {
			t.Errorf("secure %v: client got %q, %v", secure, all, err)
		}
		if err := s.lastErr(1); err != nil {
			t.Error(err)
		}
	}
	heard := make(chan string, 1)
	h, _ := handler(tcp(t, func(p *peer) {
		p.head()
		io.WriteString(p, switching+"bye")
		p.closeWrite()
		all, _ := io.ReadAll(p)
		heard <- string(all)
	}))
	p := serve(t, h, false).tunnel()
	if all, err := io.ReadAll(p); string(all) != "bye" || err != nil {
		t.Errorf("client got %q, %v", all, err)
	}
	io.WriteString(p, "last words")
	p.closeWrite()
	if got := <-heard; got != "last words" {
		t.Errorf("backend heard %q", got)
	}
}

// cycle repeats a block for ever; its length divides no buffer.
type cycle struct {
	block []byte
	at    int
}

func newCycle(seed int64) *cycle {
	c := &cycle{block: make([]byte, 1<<20+7)}
	rand.New(rand.NewSource(seed)).Read(c.block)
	return c
}

func (c *cycle) Read(p []byte) (int, error) {
	n := copy(p, c.block[c.at:])
	c.at = (c.at + n) % len(c.block)
	return n, nil
}

// 64 MiB each way arrive whole, and no message is held in memory (G38).
func TestG38LargeMessages(t *testing.T) {
	const size = 64 << 20
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := func(r io.Reader) uint32 {
		d := crc32.New(table)
		if n, err := io.CopyN(d, r, size); err != nil {
			t.Errorf("%d bytes, then %v", n, err)
		}
		return d.Sum32()
	}
	up := make(chan uint32, 1)
	h, _ := handler(tcp(t, func(p *peer) {
		p.head()
		io.WriteString(p, switching)
		up <- sum(p)
		io.CopyN(p, newCycle(2), size)
	}))
	p := serve(t, h, false).tunnel()
	wantUp, wantDown, src := sum(newCycle(1)), sum(newCycle(2)), newCycle(1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := io.CopyN(p, src, size); err != nil {
		t.Fatal(err)
	}
	if <-up != wantUp {
		t.Error("other bytes at the backend")
	}
	if sum(p) != wantDown {
		t.Error("other bytes at the client")
	}
	runtime.ReadMemStats(&after)
	// A message that is held costs at least its size. (The race detector makes
	// pools forget, so that the figure is not near zero there.)
	if used := after.TotalAlloc - before.TotalAlloc; used >= size {
		t.Errorf("%d MiB allocated for two messages of 64 MiB", used>>20)
	}
}

// A thousand messages between two real endpoints: sizes, types, pings and the
// close code come through unchanged.
func TestMessagesBetweenRealPeers(t *testing.T) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	closed := make(chan int, 1)
	hs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for {
			kind, data, err := c.ReadMessage()
			if ce, ok := err.(*websocket.CloseError); ok {
				closed <- ce.Code
				return
			}
			if err != nil || c.WriteMessage(kind, data) != nil {
				t.Error(err)
				return
			}
		}
	})}
	l := listen(t)
	done := make(chan struct{})
	go func() { hs.Serve(l); close(done) }()
	t.Cleanup(func() { hs.Close(); <-done })
	h, _ := handler(l.Addr().String())
	s := serve(t, h, false)
	d := websocket.Dialer{HandshakeTimeout: patience}
	c, _, err := d.Dial("ws://"+s.Addr+"/chat", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pongs := 0
	c.SetPongHandler(func(data string) error {
		if pongs++; data != "are you there" {
			t.Errorf("pong %q", data)
		}
		return nil
	})
	rnd := rand.New(rand.NewSource(3))
	for i := range 1000 {
		size := 1 + rnd.Intn(4096)
		if i < 105 {
			size = 1 << (i % 21) // up to 1 MiB
		}
		data := make([]byte, size)
		kind := websocket.BinaryMessage
		if rnd.Read(data); i%2 == 0 {
			kind = websocket.TextMessage
			for j := range data {
				data[j] = 'a' + data[j]%26
			}
		}
		if i%10 == 0 {
			c.WriteControl(websocket.PingMessage, []byte("are you there"), time.Now().Add(patience))
		}
		if err := c.WriteMessage(kind, data); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(patience))
		gotKind, got, err := c.ReadMessage()
		if err != nil || gotKind != kind || !bytes.Equal(got, data) {
			t.Fatalf("message %d of %d bytes: kind %d, %d bytes, %v", i, size, gotKind, len(got), err)
		}
	}
	if pongs != 100 {
		t.Errorf("%d pongs, want 100", pongs)
	}
	c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4321, "own reason"), time.Now().Add(patience))
	if code := <-closed; code != 4321 {
		t.Errorf("backend got code %d", code)
	}
	if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, 4321) {
		t.Errorf("client got %v", err)
	}
}

func TestTargetsOverUnixAndTLS(t *testing.T) { // R-WS-3
	echo := func(p *peer) { p.head(); io.WriteString(p, switching); io.Copy(p, p) }
	f := func(l net.Listener, tg extproc.Target, cfg *tls.Config) {
		t.Helper()
		tg.Address, tg.InitTimeout = backend(t, l, echo), patience
		p := serve(t, &Handler{Group: groups.Single(extproc.NewH1(tg, cfg))}, false).tunnel()
		io.WriteString(p, "hello")
		if got := p.next(t, 5); got != "hello" {
			t.Errorf("%s: %q", tg.Network, got)
		}
		p.closeWrite()
		if !p.ended() {
			t.Errorf("%s: half-close did not come back as an end", tg.Network)
		}
	}
	u, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	f(u, extproc.Target{Scheme: extproc.H1, Network: "unix"}, nil)
	cfg := &tls.Config{Certificates: []tls.Certificate{exchangetest.Certificate(t)}}
	f(tls.NewListener(listen(t), cfg), extproc.Target{Scheme: extproc.H1S, Network: "tcp"}, &tls.Config{InsecureSkipVerify: true})
}
