package generation

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/lsapi/lsapitest"
)

// A mortal is an application that dies: single connections in the middle of a reply, and
// now and then all of it, with its socket. It comes back at once.
type mortal struct {
	path  string
	serve func(net.Listener)

	mu      sync.Mutex
	rng     *rand.Rand
	ln      net.Listener
	open    map[*mortalConn]bool
	ended   bool
	running sync.WaitGroup // listeners and connections
}

func (m *mortal) up() error {
	ln, err := net.Listen("unix", m.path)
	if err == nil {
		m.ln = ln
		m.running.Go(func() { m.serve(&mortalListener{ln, m}) })
	}
	return err
}

// kill ends the application with everything, and starts it again.
func (m *mortal) kill(again bool) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return nil
	}
	m.ln.Close()
	for c := range m.open {
		c.Conn.Close()
	}
	if m.ended = !again; again {
		err = m.up()
	}
	return err
}

type mortalListener struct {
	net.Listener
	m *mortal
}

func (l *mortalListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	mc := &mortalConn{Conn: c, m: l.m, left: 1 << 40}
	if l.m.rng.IntN(3) > 0 { // it dies somewhere in the first replies
		mc.left = l.m.rng.Int64N(150_000)
	}
	l.m.open[mc] = true
	l.m.running.Add(1)
	return mc, nil
}

type mortalConn struct {
	net.Conn
	m    *mortal
	left int64 // bytes that it still writes
	once sync.Once
}

func (c *mortalConn) Write(p []byte) (int, error) {
	if int64(len(p)) <= c.left {
		c.left -= int64(len(p))
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:c.left])
	c.Conn.Close()
	return n, io.ErrClosedPipe
}

func (c *mortalConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.m.mu.Lock()
		delete(c.m.open, c)
		c.m.mu.Unlock()
		c.m.running.Done()
	})
	return err
}

// chaosFront keeps a body and whether it was cut.
type chaosFront struct {
	safetyFront
	in  io.Reader
	cut bool
}

func (w *chaosFront) Read(p []byte) (int, error) { return w.in.Read(p) }
func (w *chaosFront) Abort(error)                { w.cut = true }

// An application that dies at any moment is told as what it is, one request at a time:
// nobody waits for ever, nothing is left behind, and no answer holds a script.
func TestDyingApplications(t *testing.T) {
	for _, kind := range []string{"fcgi", "lsapi"} {
		t.Run(kind, func(t *testing.T) { dyingApplication(t, kind) })
	}
}

func dyingApplication(t *testing.T, kind string) {
	const canary, total, clients = "<?php canary", 1000, 8
	body := strings.Repeat("b", 20_000)
	var asked atomic.Int64
	m := &mortal{path: filepath.Join(t.TempDir(), "app.sock"), rng: rand.New(rand.NewPCG(1, 2)), open: map[*mortalConn]bool{}}
	die := func() {
		if asked.Add(1)%41 == 0 {
			if err := m.kill(true); err != nil {
				t.Error(err)
			}
		}
	}
	m.serve = func(ln net.Listener) {
		if kind == "lsapi" {
			lsapitest.Serve(ln, func(q *lsapitest.Request) []byte {
				die()
				return lsapitest.Reply(200, body)
			})
			return
		}
		fcgi.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, struct{ io.Reader }{r.Body}) // what net/http/fcgi has for an empty body is one reader for all, which WriteTo changes
			die()
			io.WriteString(w, body)
		}))
	}
	if err := m.up(); err != nil {
		t.Fatal(err)
	}
	p := safetyParts{vhost: `<extProcessorList><extProcessor><type>` + kind + `</type><name>app</name><address>uds:/` + m.path + `</address><maxConns>4</maxConns>
			<initTimeout>20</initTimeout><retryTimeout>0</retryTimeout><responseTimeout>20</responseTimeout></extProcessor></extProcessorList>
			<scriptHandlerList><scriptHandler><suffix>php</suffix><type>` + kind + `</type><handler>app</handler></scriptHandler></scriptHandlerList>`,
		files: map[string]string{"x.php": canary}}
	g, _ := p.generation(t)
	var fine, failed, cut, left atomic.Int64
	left.Store(total)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				switch said := askDying(g, n, canary, body); {
				case said == "fine":
					fine.Add(1)
				case said == "cut":
					cut.Add(1)
				case strings.Contains("502 "+kind+"_protocol, 503 "+kind+"_unavailable, 503 no_upstream, 504 upstream_timeout, 504 request_stalled", said):
					failed.Add(1)
				default:
					t.Errorf("request %d: %s", n, said)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d requests: %d whole, %d told as failures, %d cut", total, fine.Load(), failed.Load(), cut.Load())
	if fine.Load() == 0 || failed.Load()+cut.Load() == 0 {
		t.Error("all ended in one way: nothing is shown")
	}
	g.Retire() // every connection is given up; the application sees their ends
	if err := m.kill(false); err != nil {
		t.Error(err)
	}
	over := make(chan struct{})
	go func() { m.running.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Error("connections are left")
	}
}

// askDying makes one request and says what became of it.
func askDying(g *Generation, n int64, canary, body string) string {
	w := &chaosFront{in: strings.NewReader("")}
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme, x.Req.Proto = "GET", fmt.Sprint("/x.php?", n), "v.test", "http", "HTTP/1.1"
	if n%4 == 0 {
		x.Req.Method, x.Req.Length, w.in = "POST", 70_000, strings.NewReader(strings.Repeat("a", 70_000))
	}
	x.Req.Listener, x.Req.Remote = "http tcp 127.0.0.1:1", netip.MustParseAddrPort("192.0.2.1:1")
	err := exchange.Run(x, g)
	got := w.body.String()
	e, known := errors.AsType[*exchange.Error](err)
	switch {
	case strings.Contains(got, canary):
		return "the source of the script"
	case err == nil && x.Resp.Status == 200 && got == body:
		return "fine"
	case err != nil && w.cut && strings.HasPrefix(body, got):
		return "cut"
	case known && x.Resp.Status == e.Status:
		return fmt.Sprint(e.Status, " ", e.Reason)
	}
	return fmt.Sprintf("%d, %d bytes, %v", x.Resp.Status, len(got), err)
}
