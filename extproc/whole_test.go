package extproc_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/front"
	"httpjet/generation"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// BenchmarkWhole is the whole way of a request in user space: client connection,
// table, handler, upstream connection, metrics and access log, by the
// configuration of bench/conf/httpjet, with its 20 hosts and 50 contexts. The
// connections are memory: no system call is in it but the writes of the log.
//
// With one connection everything stays in the processor's nearest caches. With
// 64, which take turns wherever a real connection would wait, it does not.
func BenchmarkWhole(b *testing.B) {
	for _, way := range []struct{ name, path string }{{"proxy", "/app/1k"}, {"static", "/1k.txt"}} {
		for _, conns := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", way.name, conns), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				site := newSite(b, conns, false)
				b.ReportAllocs()
				b.ResetTimer()
				took := serveH1(b, site, way.path, b.N, conns)
				b.ReportMetric(float64(took)/float64(b.N), "cpu-ns/op") // for a machine that others use
			})
		}
	}
}

// BenchmarkObserved is what observation adds to a proxied request: a line of JSON and a
// traceparent, against a combined line and no trace, with metrics in both. They are
// served in turns, so that other programs disturb both alike, and the least of many
// turns counts. combined-ns and observed-ns are the processor's time of a request,
// added-ns is the difference.
func BenchmarkObserved(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const conns, turn = 64, 5000 // requests
	sites := []*site{newSite(b, conns, false), newSite(b, conns, true)}
	least := []time.Duration{math.MaxInt64, math.MaxInt64}
	for b.Loop() {
		for i, site := range sites {
			least[i] = min(least[i], serveH1(b, site, "/app/1k", turn, conns))
		}
	}
	b.ReportMetric(float64(least[0])/turn, "combined-ns")
	b.ReportMetric(float64(least[1])/turn, "observed-ns")
	b.ReportMetric(float64(least[1]-least[0])/turn, "added-ns")
}

// TestWhole keeps the benchmarks running: what is measured is served.
func TestWhole(t *testing.T) {
	for _, observed := range []bool{false, true} {
		site := newSite(t, 2, observed)
		serveH1(t, site, "/app/1k", 10, 2)
		serveH1(t, site, "/1k.txt", 10, 2)
		serveH2(t, site, "/app/1k", 10, 2, 2)
	}
}

// serveH1 serves n requests of HTTP/1.1 and returns the processor's time that it took.
func serveH1(tb testing.TB, site *site, path string, n, conns int) time.Duration {
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: www.shop.example\r\n\r\n")
	got, took := serveWhole(tb, site, n, conns, func(n int, done func()) net.Conn {
		return &client{mem: mem{yields: conns > 1}, request: request, left: n, done: done}
	})
	if got.HTTP11 != int64(n) {
		tb.Errorf("%d requests were served of %d", got.HTTP11, n)
	}
	return took
}

// serveWhole serves n requests of so many connections, each made by connect with its
// share of them. It returns what the front end has counted, and the processor's time
// from the first to the last.
func serveWhole(tb testing.TB, site *site, n, conns int, connect func(n int, done func()) net.Conn) (front.Stats, time.Duration) {
	fs := &front.Server{Current: func() front.Site { return site }}
	fs.SetLimits(site.Limits())
	in := &clients{incoming: make(chan net.Conn, conns)}
	l := fs.Adopt(site.Listeners[0].Key(), front.Key{Network: "tcp", Address: "127.0.0.1:80"}, in)
	var done sync.WaitGroup
	for i := range conns {
		share := n / conns
		if i < n%conns {
			share++
		}
		done.Add(1)
		in.incoming <- connect(share, done.Done)
	}
	before := cpuTime(tb)
	fs.Serve(l)
	done.Wait()
	took := cpuTime(tb) - before
	fs.Drain(context.Background())
	return fs.Snapshot(), took
}

// cpuTime is what the process has used so far.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	check(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// site is a generation as the front end sees it.
type site struct {
	*generation.Generation
	limits front.Limits
}

func (s *site) Limits() *front.Limits { return &s.limits }

func (s *site) TLS(string, *tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }

// Finished fails the benchmark for what is no 200.
func (s *site) Finished(x *exchange.Exchange, err error) {
	if err != nil || x.Resp.Status != 200 || x.Written() != 1024 {
		panic("exchange went wrong")
	}
	s.Generation.Finished(x, err)
}

// newSite builds the generation that is benched, with what the scenario observed has
// if it is. Its upstream has so many connections.
func newSite(tb testing.TB, conns int, observed bool) *site {
	root := tb.TempDir()
	writeTree(tb, root, observed)
	kept := generation.Kept{Metrics: metrics.New(),
		Bodies: &budget.Bodies{Bytes: budget.NewBytes(1 << 20), Count: budget.NewPermits(10)}}
	var found xmlconf.Findings
	cfg := xmlconf.LoadServer(root, &found)
	if cfg == nil || found.Failed() {
		tb.Fatal(found.All())
	}
	g := generation.Build(cfg, &kept, generation.Options{}, &found)
	for _, sink := range g.Sinks() {
		sink.Start(func(err error) { tb.Error(err) })
	}
	tb.Cleanup(func() {
		g.Retire()
		if log, err := os.Stat(filepath.Join(root, "logs", "access.log")); err != nil || log.Size() == 0 {
			tb.Error("no access log was written:", err)
		}
	})
	reply := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024))
	for _, c := range kept.Proxies.Values() {
		up, ok := c.(*extproc.H1Client)
		for range conns {
			if !ok {
				break
			}
			up.Stock(&upstream{mem: mem{yields: conns > 1}, reply: reply})
		}
	}
	l := &g.Limits
	return &site{g, front.Limits{ConnTimeout: l.ConnTimeout, KeepAliveTimeout: l.KeepAliveTimeout,
		MaxTarget: l.MaxURL, MaxHead: l.MaxHead, MaxFields: l.MaxFields, ServerHeader: l.ServerField}}
}

// writeTree fills the templates of bench/conf/httpjet.
func writeTree(tb testing.TB, root string, observed bool) {
	var group []string
	for i := range 10 {
		group = append(group, fmt.Sprintf("127.0.0.%d:81", i+2))
	}
	values := map[string]any{"RequestsPerConnection": 0, "Group": group, "HTTP": "127.0.0.1:80", "HTTPS": "127.0.0.1:443",
		"Host": "www.shop.example", "App": "127.0.0.1:81", "FastCGI": "127.0.0.1:82", "PHP": filepath.Join(root, "php"), "Dir": root, "Observed": observed, "Many": 0}
	functions := template.FuncMap{"addresses": func(plain, secure string) []string { return []string{plain, secure} }}
	from := os.DirFS("../bench/conf/httpjet")
	check(tb, fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		to := filepath.Join(root, path)
		if err != nil || d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := fs.ReadFile(from, path)
		check(tb, err)
		t, err := template.New(path).Funcs(functions).Option("missingkey=error").Parse(string(text))
		check(tb, err)
		f, err := os.Create(to)
		check(tb, err)
		check(tb, t.Execute(f, values))
		return f.Close()
	}))
	check(tb, os.MkdirAll(filepath.Join(root, "www"), 0o755))
	file, old := filepath.Join(root, "www", "1k.txt"), time.Now().Add(-time.Hour)
	check(tb, os.WriteFile(file, make([]byte, 1024), 0o644))
	check(tb, os.Chtimes(file, old, old)) // what is said of one that may change is not kept
}

func check(tb testing.TB, err error) {
	if err != nil {
		tb.Fatal(err)
	}
}

// clients is a listener.
type clients struct{ incoming chan net.Conn }

func (c *clients) Accept() (net.Conn, error) {
	if nc, ok := <-c.incoming; ok {
		return nc, nil
	}
	return nil, net.ErrClosed
}
func (c *clients) Close() error   { close(c.incoming); return nil }
func (c *clients) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// client sends the same request again and again and drops the responses.
type client struct {
	mem
	request []byte
	left    int
	done    func()
}

func (c *client) Read(p []byte) (int, error) {
	if c.left--; c.left < 0 {
		c.done()
		return 0, io.EOF
	}
	c.yield()
	return copy(p, c.request), nil
}

// upstream has the same reply to everything.
type upstream struct {
	mem
	reply []byte
}

func (c *upstream) Read(p []byte) (int, error) {
	c.yield()
	return copy(p, c.reply), nil
}

// mem is the rest of a connection that is none.
type mem struct{ yields bool }

func (c *mem) yield() {
	if c.yields {
		runtime.Gosched()
	}
}
func (c *mem) Write(p []byte) (int, error)      { return len(p), nil }
func (c *mem) Close() error                     { return nil }
func (c *mem) SetDeadline(time.Time) error      { return nil }
func (c *mem) SetReadDeadline(time.Time) error  { return nil }
func (c *mem) SetWriteDeadline(time.Time) error { return nil }
func (c *mem) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (c *mem) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5080} }
