package wsrelay

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/tunnels"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// key and accept are the example of RFC 6455 §1.3.
const (
	key    = "dGhlIHNhbXBsZSBub25jZQ=="
	accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

	open      = "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + "\r\n\r\n"
	switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + "\r\n\r\n"
)

// peer is one side of a raw connection.
type peer struct {
	net.Conn
	br *bufio.Reader
}

func newPeer(c net.Conn) *peer { return &peer{c, bufio.NewReader(c)} }

func (p *peer) Read(b []byte) (int, error) { return p.br.Read(b) }

func (p *peer) closeWrite() { p.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// head reads up to the empty line, "" if there is none.
func (p *peer) head() string {
	var b strings.Builder
	for {
		line, err := p.br.ReadString('\n')
		if err != nil {
			return ""
		}
		b.WriteString(line)
		if line == "\r\n" {
			return b.String()
		}
	}
}

// next reads n bytes.
func (p *peer) next(t *testing.T, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(p.br, b); err != nil {
		t.Fatalf("read: %v", err)
	}
	return string(b)
}

// ended waits for the end of the stream and reports if it was a proper one.
func (p *peer) ended() bool {
	_, err := p.br.ReadByte()
	return err == io.EOF
}

// backend serves each connection of l with serve.
func backend(t *testing.T, l net.Listener, serve func(p *peer)) string {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { defer c.Close(); serve(newPeer(c)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

func tcp(t *testing.T, serve func(p *peer)) string {
	t.Helper()
	return backend(t, listen(t), serve)
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func handler(addr string) (*Handler, *extproc.H1Client) {
	c := extproc.NewH1(extproc.Target{Scope: "vhost:a", Name: "websocket:/chat", Kind: extproc.KindProxy, Scheme: extproc.H1,
		Network: "tcp", Address: addr, InitTimeout: patience}, nil)
	return &Handler{Tunnels: new(tunnels.Leaving).Set("", ""), Group: groups.Single(c), InitTimeout: patience}, c
}

// site is a front end with h, and raw clients of it.
type site struct {
	*exchangetest.Server
	t *testing.T
}

// serve parks relays as soon as it may, so that every test is one of that too.
func serve(t *testing.T, h *Handler, secure bool) *site {
	return serveWith(t, h, secure, time.Millisecond)
}

func serveWith(t *testing.T, h *Handler, secure bool, rest time.Duration) *site {
	s := &exchangetest.Site{Handler: h, Rest: rest}
	if secure {
		s.Conf = &tls.Config{Certificates: []tls.Certificate{exchangetest.Certificate(t)}, NextProtos: []string{"http/1.1"}}
	}
	return &site{exchangetest.Start(t, s, secure), t}
}

// dial connects, and sends what is given at once.
func (s *site) dial(sent string) *peer {
	s.t.Helper()
	var c net.Conn
	var err error
	if strings.HasPrefix(s.URL, "https") {
		c, err = tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	} else {
		c, err = net.Dial("tcp", s.Addr)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, sent); err != nil {
		s.t.Fatal(err)
	}
	return newPeer(c)
}

// tunnel dials and expects a 101.
func (s *site) tunnel() *peer {
	s.t.Helper()
	p := s.dial(open)
	if h := p.head(); !strings.HasPrefix(h, "HTTP/1.1 101 ") {
		s.t.Fatalf("answer %q", h)
	}
	return p
}

// parked waits until n connections of clients are.
func (s *site) parked(n int) {
	s.t.Helper()
	eventually(s.t, "parked", func() bool { return s.Front.Snapshot().Parked == n })
}

// lastErr waits for n finished exchanges and returns the error of the last.
func (s *site) lastErr(n int) error {
	s.t.Helper()
	eventually(s.t, "exchange finishes", func() bool { return len(s.Site.Errs()) >= n })
	return s.Site.Errs()[n-1]
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
		<-time.After(time.Millisecond)
	}
}
