package extproc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"httpjet/exchange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// An upstream is a raw TCP server. Connections are numbered from 1.
type upstream struct {
	t     *testing.T
	addr  string
	conns atomic.Int32
	wg    sync.WaitGroup
	mu    sync.Mutex
	open  []net.Conn
	seen  []string // heads read by head
}

func newUpstream(t *testing.T, serve func(u *upstream, c *upConn)) *upstream {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, serve)
}

func serveOn(t *testing.T, l net.Listener, serve func(u *upstream, c *upConn)) *upstream {
	u := &upstream{t: t, addr: l.Addr().String()}
	u.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			u.mu.Lock()
			u.open = append(u.open, c)
			u.mu.Unlock()
			n := int(u.conns.Add(1))
			u.wg.Go(func() {
				defer c.Close()
				serve(u, &upConn{Conn: c, br: bufio.NewReader(c), n: n})
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		u.mu.Lock()
		for _, c := range u.open {
			c.Close()
		}
		u.mu.Unlock()
		u.wg.Wait()
	})
	return u
}

type upConn struct {
	net.Conn
	br *bufio.Reader
	n  int
}

// head reads a request head, "" at the end.
func (u *upstream) head(c *upConn) string {
	var b strings.Builder
	for {
		line, err := c.br.ReadString('\n')
		if err != nil {
			return ""
		}
		b.WriteString(line)
		if line == "\r\n" {
			u.mu.Lock()
			u.seen = append(u.seen, b.String())
			u.mu.Unlock()
			return b.String()
		}
	}
}

func (u *upstream) heads() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.seen...)
}

// answer serves every request of every connection with the same bytes.
func answer(reply string) func(*upstream, *upConn) {
	return func(u *upstream, c *upConn) {
		for u.head(c) != "" {
			io.WriteString(c, reply)
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func target(addr string) Target {
	return Target{Scope: "server", Name: "app", Kind: KindProxy, Scheme: H1, Network: "tcp", Address: addr,
		MaxConns: 10, InitTimeout: patience, KeepAlive: time.Minute, HeadTimeout: patience, BodyTimeout: patience}
}

func client(t *testing.T, tg Target) *H1Client {
	p := NewH1(tg, nil)
	t.Cleanup(func() {
		p.Retire()
		if s := p.Stats(); s.Busy != 0 || s.Idle != 0 {
			t.Errorf("after Retire: %+v", s)
		}
	})
	return p
}

func get(uri string) *Call {
	return &Call{Method: "GET", URI: uri, Host: "a.test", Fields: &exchange.Fields{}}
}

// post is a call whose body is r. StopBody makes its reads fail; a pending one
// only of an io.PipeReader.
func post(length int64, r io.Reader) *Call {
	b := &stoppable{r: r}
	return &Call{Method: "POST", URI: "/up", Host: "a.test", Fields: &exchange.Fields{}, Length: length,
		Body: b, StopBody: b.stop}
}

type stoppable struct {
	r       io.Reader
	stopped atomic.Bool
	reading atomic.Int32 // reads under way
}

func (b *stoppable) stop() {
	b.stopped.Store(true)
	if pr, ok := b.r.(*io.PipeReader); ok {
		pr.CloseWithError(errors.New("stopped"))
	}
}

func (b *stoppable) Read(p []byte) (int, error) {
	if b.stopped.Load() {
		return 0, errors.New("stopped")
	}
	b.reading.Add(1)
	defer b.reading.Add(-1)
	return b.r.Read(p)
}

// body reads a reply to its end and closes it; its fields stay.
func body(t *testing.T, r *Reply, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var kept exchange.Fields // valid after Close
	for name, value := range r.Fields.All() {
		kept.Add(name, value)
	}
	r.Close()
	r.Fields = kept
	return string(b)
}

func fails(t *testing.T, r *Reply, err error, status int, reason string) {
	t.Helper()
	if err == nil {
		r.Close()
		t.Fatalf("status %d instead of an error", r.Status)
	}
	if e, ok := errors.AsType[*exchange.Error](err); !ok || e.Status != status || e.Reason != reason {
		t.Fatalf("error %v, want %d %s", err, status, reason)
	}
}

// eventually waits for cond without a deadline of its own but patience.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
		<-time.After(time.Millisecond)
	}
}

var bg = context.Background()

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + i>>16)
	}
	return b
}

func same(a, b []byte) bool { return bytes.Equal(a, b) }
