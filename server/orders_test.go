package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"httpjet/budget"
	"httpjet/check"
	"httpjet/control"
	"httpjet/generation"
	"httpjet/metrics"
	"httpjet/watch"
	"httpjet/xmlconf"
)

// asked is a running server with its control socket.
type asked struct {
	*running
	root   string
	client *control.Client
}

// runAsked serves a root that watches its files and may be asked.
func runAsked(t *testing.T, root string, opt Options) *asked {
	t.Helper()
	r := &running{log: make(logLines, 100000)}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan map[string]string, 1), make(chan error, 1)
	opt.Root, opt.HTTPAddr, opt.ControlSocket, opt.Stderr = root, "127.0.0.1:0", "run/s", r.log
	opt.Ready = func(addrs map[string]string) { ready <- addrs }
	go func() { done <- Run(ctx, opt) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { r.stop() })
	select {
	case addrs := <-ready:
		r.base = "http://" + addrs["Default"]
		r.log.await(t, "INFO ready")
	case err := <-done:
		t.Fatal(err)
	}
	return &asked{r, root, control.NewClient(ControlPath(root, "run/s"))}
}

// order gives a command without a body of its own.
func (a *asked) order(t *testing.T, path string, in any) (out ReloadAnswer, err error) {
	t.Helper()
	err = a.client.Post(t.Context(), path, in, &out)
	return out, err
}

// must is order for what cannot be refused.
func (a *asked) must(t *testing.T, path string, in any) ReloadAnswer {
	t.Helper()
	out, err := a.order(t, path, in)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

// server writes the server file of a tree as treeOf has it, with more in it.
func server(t *testing.T, root, more string) {
	t.Helper()
	put(t, root, "conf/httpd_config.xml", `<httpServerConfig>`+more+`
  <virtualHost><name>site</name><vhRoot>.</vhRoot><configFile>conf/site.xml</configFile></virtualHost>
  <listener><name>Default</name><address>127.0.0.1:1</address><vhostMap><vhost>site</vhost><domain>site.test, *</domain></vhostMap></listener>
</httpServerConfig>`)
}

// A rehearsal refuses what a reload would refuse: an address of the management
// listener that somebody has, too.
func TestRehearsalBindsTheManagementListener(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	a := runAsked(t, treeOf(t, ""), Options{MetricsDefault: true})
	server(t, a.root, `<management><address>`+taken.Addr().String()+`</address></management>`)
	out := a.must(t, "/v1/reload", ReloadRequest{DryRun: true})
	if !strings.Contains(out.Refused, "E-BIND") {
		t.Errorf("%+v", out)
	}
	if out, err := a.order(t, "/v1/reload", ReloadRequest{}); err == nil || !strings.Contains(err.Error(), "E-BIND") {
		t.Errorf("reload: %+v %v", out, err)
	}
	taken.Close()
	if out := a.must(t, "/v1/reload", ReloadRequest{DryRun: true}); out.Refused != "" {
		t.Errorf("%+v", out)
	}
	if out := a.must(t, "/v1/reload", ReloadRequest{}); !out.Published { // the rehearsal has let it go
		t.Errorf("%+v", out)
	}
}

// Reloads of the same files do not push out the configuration that one would go back
// to.
func TestRollbackBehindReloadsOfTheSameFiles(t *testing.T) {
	a := runAsked(t, treeOf(t, ""), Options{})
	first := a.must(t, "/v1/reload", ReloadRequest{}).Hash
	server(t, a.root, "<!-- another -->")
	second := a.must(t, "/v1/reload", ReloadRequest{}).Hash
	for range historyMax + 1 {
		a.must(t, "/v1/reload", ReloadRequest{})
	}
	if out := a.must(t, "/v1/rollback", struct{}{}); out.Hash != first || first == second {
		t.Errorf("went back to %s, want %s; left %s", out.Hash, first, second)
	}
	if out, err := a.order(t, "/v1/rollback", struct{}{}); err == nil {
		t.Errorf("went back further: %+v", out)
	}
	if got := a.must(t, "/v1/reload", ReloadRequest{}).Hash; got != second {
		t.Errorf("a reload reads %s, want %s", got, second)
	}
	if out := a.must(t, "/v1/rollback", struct{}{}); out.Hash != first { // a rollback can be gone back to
		t.Errorf("went back to %s, want %s", out.Hash, first)
	}
}

// R-RELOAD-4: a rollback loses nothing that serves either.
func TestRollbackThatWouldLoseAHost(t *testing.T) {
	root := treeOf(t, "")
	put(t, root, "conf/site.xml", "<broken")
	a := runAsked(t, root, Options{})
	put(t, root, "conf/site.xml", "<virtualHostConfig><docRoot>html</docRoot></virtualHostConfig>")
	good := a.must(t, "/v1/reload", ReloadRequest{})
	if out, err := a.order(t, "/v1/rollback", struct{}{}); err == nil || !strings.Contains(err.Error(), "site") {
		t.Errorf("%+v %v", out, err)
	}
	if text, err := get(http.DefaultClient, a.base+"/"); err != nil || text != "home" {
		t.Errorf("generation %d: %q %v", good.Generation, text, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Behind a rollback a change of any file that was in use before it leads to a reload.
func TestRollbackWatchesWhatWasLeft(t *testing.T) {
	a := runAsked(t, treeOf(t, ""), Options{Watch: true})
	put(t, a.root, "conf/two.xml", "<virtualHostConfig><docRoot>html</docRoot></virtualHostConfig>")
	server(t, a.root, `<virtualHost><name>two</name><vhRoot>.</vhRoot><configFile>conf/two.xml</configFile></virtualHost>`)
	a.log.await(t, "INFO published")
	a.must(t, "/v1/rollback", struct{}{})
	a.log.await(t, "INFO rolled back")
	put(t, a.root, "conf/two.xml", "<virtualHostConfig><docRoot>html</docRoot><!-- repaired --></virtualHostConfig>")
	if line := a.log.await(t, "files changed"); !strings.Contains(line, "conf/two.xml") {
		t.Error(line)
	}
	a.log.await(t, "INFO published")
}

// A refused generation that does without a file is not built again because that file
// is not what it was when it last served.
func TestFilesOfARefusedGeneration(t *testing.T) {
	root := treeOf(t, "")
	build := func() *generation.Generation {
		g := generation.Build(xmlconf.LoadServer(root, &xmlconf.Findings{}), &generation.Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}},
			generation.Options{}, &xmlconf.Findings{})
		t.Cleanup(g.Retire)
		return g
	}
	put(t, root, "conf/two.xml", "<virtualHostConfig/>")
	server(t, root, `<virtualHost><name>two</name><vhRoot>.</vhRoot><configFile>conf/two.xml</configFile></virtualHost>`)
	running := build()
	put(t, root, "conf/two.xml", "<virtualHostConfig><!-- another --></virtualHostConfig>")
	server(t, root, `<tuning><maxConnections>none</maxConnections></tuning>`)
	files := watched(running, build())
	if len(files) < 3 {
		t.Errorf("watched: %v", files)
	}
	for path, sum := range files {
		if sum != watch.Sum(path) {
			t.Errorf("%s would be told as changed at once", path)
		}
	}
}

// R-CLI-4 in the plain dialect: files that include lines name, those that come later to
// a pattern, and a server file of XML beside the plain one are noticed.
func TestWatchPlainTree(t *testing.T) {
	root := t.TempDir()
	put(t, root, "html/index.html", "home")
	put(t, root, "conf/httpd_config.conf", "include conf/hosts\nlistener Default {\n  address 127.0.0.1:1\n  map site *\n}\ninclude conf/more-*.conf\n")
	put(t, root, "conf/hosts/site.conf", "virtualhost site {\n  vhRoot .\n  configFile conf/site/vhconf.conf\n}\n")
	put(t, root, "conf/site/vhconf.conf", "docRoot html\ninclude conf/site/rest.conf\n")
	put(t, root, "conf/site/rest.conf", "# nothing yet\n")
	fs := &xmlconf.Findings{}
	g := generation.Build(xmlconf.LoadServer(root, fs), &generation.Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}, generation.Options{}, fs)
	defer g.Retire()
	for path, sum := range g.Inputs {
		if sum != watch.Sum(path) {
			t.Errorf("%s would be told as changed at once", path)
		}
	}
	a := runAsked(t, root, Options{Watch: true})
	f := func(name, text, told string) {
		t.Helper()
		put(t, root, name, text)
		if line := a.log.await(t, "files changed"); !strings.Contains(line, told) {
			t.Errorf("%s: %s", name, line)
		}
		a.log.await(t, "INFO published")
	}
	f("conf/site/rest.conf", "# something\n", "conf/site/rest.conf")
	f("conf/more-1.conf", "# more\n", "conf/more-*.conf")
	f("conf/more-1.conf", "# and more\n", "conf/more-1.conf")
	f("conf/hosts/two.conf", "# another host\n", "conf/hosts/*")
	server(t, root, "")
	put(t, root, "conf/site.xml", "<virtualHostConfig><docRoot>html</docRoot></virtualHostConfig>")
	if line := a.log.await(t, "files changed"); !strings.Contains(line, "httpd_config.xml") {
		t.Error(line)
	}
}

// A control socket that somebody has removed is there again after a SIGHUP.
func TestControlSocketComesBack(t *testing.T) {
	a := runAsked(t, treeOf(t, ""), Options{})
	if err := os.RemoveAll(filepath.Join(a.root, "run")); err != nil {
		t.Fatal(err)
	}
	if out, err := a.order(t, "/v1/reload", ReloadRequest{}); err == nil {
		t.Fatalf("without a socket: %+v", out)
	}
	a.reload(t)
	deadline := time.Now().Add(patience)
	for {
		if _, err := a.order(t, "/v1/reload", ReloadRequest{}); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(a.root, "run/*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Everything that can be asked is asked at once while reloads and a stop come along:
// each is answered or told why not, and nothing is left behind (TestMain).
func TestOrdersAtOnce(t *testing.T) {
	backend := httptest.NewServer(http.NotFoundHandler())
	defer backend.Close()
	root := treeOf(t, `<extProcessor><type>proxy</type><name>app</name><address>`+backend.Listener.Addr().String()+`</address></extProcessor>
		<context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>`)
	a := runAsked(t, root, Options{Watch: true, MetricsAddr: "127.0.0.1:0"})
	// One that comes when the server is no more would end the process, even behind the
	// end of this test.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	ctx, cancel := context.WithCancel(t.Context())
	var askers, others sync.WaitGroup
	orders := []func() error{
		func() error {
			return a.client.Post(ctx, "/v1/reload", ReloadRequest{DryRun: true}, &ReloadAnswer{})
		},
		func() error { return a.client.Post(ctx, "/v1/reload", ReloadRequest{}, &ReloadAnswer{}) },
		func() error { return a.client.Post(ctx, "/v1/rollback", struct{}{}, &ReloadAnswer{}) },
		func() error {
			return a.client.Post(ctx, "/v1/diff", DiffRequest{Root: root, Reverse: true}, &check.Difference{})
		},
		func() error {
			return a.client.Post(ctx, "/v1/explain", check.Question{URL: "http://site.test/app/"}, &check.Decision{})
		},
		func() error {
			return a.client.Post(ctx, "/v1/drain", DrainRequest{Group: "app", Peer: "0"}, &DrainAnswer{})
		},
		func() error { return a.client.Get(ctx, "/api/v1/upstreams", &struct{}{}) },
	}
	for _, order := range orders {
		askers.Go(func() {
			for range 10 {
				if err := order(); err != nil && !strings.Contains(err.Error(), "no configuration has served") {
					t.Errorf("while it serves: %v", err)
				}
			}
		})
	}
	others.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			server(t, root, fmt.Sprintf("<!-- %d -->", i))
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
	})
	askers.Wait()
	for _, order := range orders { // some of them come too late
		others.Go(func() {
			for order() == nil {
			}
		})
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	cancel()
	others.Wait()
	if left, _ := filepath.Glob(filepath.Join(root, "run/*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Many reloads, rollbacks and rehearsals leave the process as it was.
func TestOrdersLeaveNothing(t *testing.T) {
	backend := httptest.NewServer(http.NotFoundHandler())
	defer backend.Close()
	host := func(more string) string {
		return `<virtualHostConfig><docRoot>html</docRoot><extProcessor><type>proxy</type><name>app</name><address>` + backend.Listener.Addr().String() + `</address>` + more +
			`</extProcessor><context><type>proxy</type><uri>/app/</uri><handler>app</handler></context></virtualHostConfig>`
	}
	a := runAsked(t, treeOf(t, ""), Options{Watch: true})
	round := func(i int) {
		put(t, a.root, "conf/site.xml", host(fmt.Sprintf("<maxConns>%d</maxConns>", 1+i%2)))
		a.must(t, "/v1/reload", ReloadRequest{DryRun: true})
		a.must(t, "/v1/reload", ReloadRequest{})
		put(t, a.root, "conf/site.xml", host("<maxInFlight>never</maxInFlight>"))
		if _, err := a.order(t, "/v1/reload", ReloadRequest{}); err == nil {
			t.Fatal("a broken tree is served")
		}
		a.must(t, "/v1/rollback", struct{}{})
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for i := range 10 {
		round(i)
	}
	goroutines, files := inUse(t)
	before := heap()
	for i := range 100 {
		round(i)
		for len(a.log) > 0 {
			<-a.log
		}
	}
	deadline := time.Now().Add(patience)
	for {
		g, f := inUse(t)
		if g <= goroutines+8 && f <= files+8 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines and %d descriptors, at first %d and %d", g, f, goroutines, files)
		}
		<-time.After(10 * time.Millisecond)
	}
	if after := heap(); after > before+4<<20 {
		t.Errorf("%d bytes of heap, at first %d", after, before)
	}
}

// The control socket has the metrics of the management listener, also where there is
// none (R-MGMT-1).
func TestMetricsOverControlSocket(t *testing.T) {
	a := runAsked(t, treeOf(t, ""), Options{})
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(a.root, "run/s"))
	}}
	defer tr.CloseIdleConnections()
	text, err := get(&http.Client{Transport: tr}, "http://localhost/metrics")
	if err != nil || !strings.Contains(text, "\nhttpjet_config_generation ") {
		t.Errorf("%v: %.200s", err, text)
	}
}
