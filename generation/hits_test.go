package generation

import (
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/h1"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// ofHeads is a front end that makes heads as that of HTTP/1 does, and drops the rest.
type ofHeads struct {
	nowhere
	own  string
	head []byte
	body int
}

func (w *ofHeads) Head(r *exchange.Response, noBody, last bool) error {
	w.head = h1.AppendResponseHead(w.head[:0], r, h1.Framed{Length: r.Length, Own: w.own, Connection: "keep-alive"})
	return nil
}

func (w *ofHeads) Write(p []byte) (int, error) {
	w.body += len(p)
	return len(p), nil
}

// hits asks a host for what its cache has. It is a front end with one exchange.
type hits struct {
	t testing.TB
	g *Generation
	x exchange.Exchange
	w ofHeads
}

// ask has a request served; more are names and values of its fields.
func (h *hits) ask(method, target string, at time.Time, more ...string) (status int) {
	x, q := &h.x, &h.x.Req
	x.Reset(&h.w)
	q.Method, q.Target, q.Host, q.Scheme, q.Proto, q.Listener, q.Remote = method, target, "site.test", "http", "HTTP/1.1", "http tcp 127.0.0.1:1", fromClient
	q.Fields.Add("Host", "site.test")
	q.Fields.Add("User-Agent", "bench")
	for i := 0; i < len(more); i += 2 {
		q.Fields.Add(more[i], more[i+1])
	}
	x.Began, x.Called = at, at
	h.w.body = 0
	err := exchange.Run(x, h.g)
	x.Ended = x.Began
	h.g.Finished(x, err)
	return x.Resp.Status
}

var fromClient = netip.MustParseAddrPort("192.0.2.1:4711")

// hit is the request of which all of this is about.
func (h *hits) hit() {
	if s := h.ask("GET", "/cached/1k", time.Now(), "Accept", "*/*"); s != 200 || h.w.body != 1024 {
		h.t.Fatal(s, h.w.body)
	}
}

// newHits is a host with 50 contexts of which two have what kind says: a cache of what is
// proxied, or the page cache for an application. One of them edits the heads of answers.
func newHits(t testing.TB, kind string) *hits {
	t.Helper()
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Cache-Control", "public, max-age=36000")
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("X-App", "1")
		io.WriteString(w, strings.Repeat("x", 1024))
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	end := ln.Close
	var processor, context, cache string
	if kind == "proxied" {
		s := &http.Server{Handler: app}
		end = s.Close
		go func() { s.Serve(ln); close(served) }()
		processor, context = "proxy", "<type>proxy</type><proxyCache><enable>1</enable></proxyCache>"
	} else {
		go func() { fcgi.Serve(ln, app); close(served) }()
		processor, context = "fcgi", "<type>fcgi</type>"
		cache = "<cache><cacheEngine>1</cacheEngine><cachePolicy><enableCache>1</enableCache><expireInSeconds>36000</expireInSeconds></cachePolicy></cache>"
	}
	t.Cleanup(func() { end(); <-served })
	root := t.TempDir()
	files := map[string]string{
		"conf/site.xml": "<virtualHostConfig><docRoot>$VH_ROOT/www</docRoot>" + cache +
			"<extProcessorList><extProcessor><type>" + processor + "</type><name>app</name><address>" + ln.Addr().String() + "</address></extProcessor></extProcessorList>" +
			"<contextList>" + manyContexts() + "<context>" + context + "<uri>/cached/</uri><handler>app</handler></context>" +
			"<context>" + context + "<uri>/edited/</uri><handler>app</handler><extraHeaders>set Content-Type text/edited\nunset X-App\nX-More: 1\nX-LiteSpeed-Cache: mine</extraHeaders></context>" +
			"</contextList></virtualHostConfig>",
		"conf/httpd_config.xml": `<httpServerConfig><logging><accessLog><fileName>/dev/null</fileName></accessLog></logging>
		<virtualHost><name>site</name><vhRoot>.</vhRoot><configFile>conf/site.xml</configFile></virtualHost>
		<listener><name>L</name><address>127.0.0.1:1</address><vhostMap><vhost>site</vhost><domain>site.test</domain></vhostMap></listener></httpServerConfig>`,
		"www/index.html": "",
	}
	writeTree(t, root, files)
	fs := &xmlconf.Findings{}
	cfg := xmlconf.LoadServer(root, fs)
	if cfg == nil {
		t.Fatal(fs.All())
	}
	g := Build(cfg, &Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}, Options{}, fs)
	t.Cleanup(g.Retire)
	h := &hits{t: t, g: g, w: ofHeads{nowhere: nowhere{t.Context()}, own: "Server: httpjet\r\n"}}
	h.hit()
	h.hit()
	if head := string(h.w.head); !strings.Contains(head, "\r\nAge: ") {
		t.Fatalf("no hit:\n%s", head)
	}
	return h
}

// manyContexts are 50 that are not asked for.
func manyContexts() string {
	var list strings.Builder
	list.WriteString(`<context><type>static</type><uri>exp:\.(bak|orig|swp)$</uri><allowBrowse>0</allowBrowse></context>`)
	for i := range 49 {
		list.WriteString("<context><type>static</type><uri>/assets/" + strings.Repeat("a", i+1) + "/</uri><location>$DOC_ROOT/files/</location></context>")
	}
	return list.String()
}

// BenchmarkHit is what a hit costs from its parsed head to the line of the log, with the
// bytes of its own.
func BenchmarkHit(b *testing.B) {
	for _, kind := range []string{"proxied", "page"} {
		b.Run(kind, func(b *testing.B) {
			h := newHits(b, kind)
			b.ReportAllocs()
			used := cpu()
			for b.Loop() {
				h.hit()
			}
			b.ReportMetric(float64(cpu()-used)/float64(b.N), "cpu-ns/op") // others may want the CPU too
		})
	}
}

// cpu is the time that this process has had of CPUs.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A whole hit takes no memory (R-CACHE-17).
func TestHitsTakeNoMemory(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector allocates")
	}
	for _, kind := range []string{"proxied", "page"} {
		if n := testing.AllocsPerRun(200, newHits(t, kind).hit); n > 0 {
			t.Errorf("%s: %v allocations", kind, n)
		}
	}
}

// The first hit, whose fields are read, and those behind it, which begin with a head that is
// ready, are the same, whatever is asked for and whoever edits the answer.
func TestHitsAreAlike(t *testing.T) {
	for _, kind := range []string{"proxied", "page"} {
		h := newHits(t, kind)
		for _, dir := range []string{"/cached/", "/edited/"} {
			for i, c := range []struct {
				method string
				fields []string
				status int
				body   int
			}{
				{"GET", nil, 200, 1024},
				{"GET", []string{"Accept-Encoding", "gzip"}, 200, 1024},
				{"HEAD", nil, 200, 0},
				{"GET", []string{"If-None-Match", `"one"`}, 304, 0},
				{"GET", []string{"Range", "bytes=10-19"}, 206, 10},
				{"GET", []string{"Range", "bytes=5000-"}, 416, -1},
			} {
				target := dir + strconv.Itoa(i)
				h.ask("GET", target, time.Now())
				at := time.Now().Add(3 * time.Second)
				first := ""
				for n := range 4 {
					if s := h.ask(c.method, target, at, c.fields...); s != c.status || c.body >= 0 && h.w.body != c.body {
						t.Fatalf("%s: %s %s %v: status %d, %d bytes", kind, c.method, target, c.fields, s, h.w.body)
					}
					head := string(h.w.head)
					if n == 0 {
						if first = head; c.status != 416 && !strings.Contains(head, "\r\nAge: ") {
							t.Fatalf("%s: %s %s %v is no hit:\n%s", kind, c.method, target, c.fields, head)
						}
					}
					if head != first {
						t.Errorf("%s: %s %s %v: hit %d\n%s\nthe first one\n%s", kind, c.method, target, c.fields, n, head, first)
					}
					if edited := dir == "/edited/"; c.status != 416 && (strings.Contains(head, "X-App") == edited || strings.Contains(head, "X-More: 1") != edited) {
						t.Errorf("%s: edits of %s:\n%s", kind, target, head)
					}
				}
			}
		}
	}
}

// writeTree writes files, named by their paths below root.
func writeTree(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
