package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long an event may take to come.
const patience = 30 * time.Second

// treeOf writes a server root with one host "site" on one plain listener.
func treeOf(t *testing.T, vhost string) string {
	t.Helper()
	root := t.TempDir()
	put(t, root, "conf/httpd_config.xml", `<httpServerConfig>
  <virtualHost><name>site</name><vhRoot>.</vhRoot><configFile>conf/site.xml</configFile></virtualHost>
  <listener><name>Default</name><address>127.0.0.1:1</address><vhostMap><vhost>site</vhost><domain>site.test, *</domain></vhostMap></listener>
</httpServerConfig>`)
	put(t, root, "conf/site.xml", "<virtualHostConfig><docRoot>html</docRoot>"+vhost+"</virtualHostConfig>")
	put(t, root, "html/index.html", "home")
	return root
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// A reload may read while a test writes: the change is one rename.
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// logLines hands out the lines of a log as they are written.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// await returns the next line that holds one of the texts.
func (l logLines) await(t *testing.T, texts ...string) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line := <-l:
			for _, text := range texts {
				if strings.Contains(line, text) {
					return line
				}
			}
		case <-deadline:
			t.Fatalf("no line with one of %q", texts)
		}
	}
}

// running is a server in this process.
type running struct {
	base string // URL
	log  logLines
	stop func() error // ends the server; may be called more than once
}

func run(t *testing.T, root string) *running {
	t.Helper()
	r, _ := runWith(t, Options{Root: root, HTTPAddr: "127.0.0.1:0"})
	r.log.await(t, "INFO ready") // lines before it are of the start
	return r
}

// runWith is run with more of its options; the lines of the start are still to be read. It
// returns the addresses of all listeners: "Default" is the plain one.
func runWith(t *testing.T, o Options) (r *running, addrs map[string]string) {
	t.Helper()
	r = &running{log: make(logLines, 10000)}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan map[string]string, 1), make(chan error, 1)
	o.Stderr, o.Ready = r.log, func(addrs map[string]string) { ready <- addrs }
	go func() { done <- Run(ctx, o) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { r.stop() })
	select {
	case addrs = <-ready:
		r.base = "http://" + addrs["Default"]
	case err := <-done:
		t.Fatal(err)
	}
	return r, addrs
}

// reload sends SIGHUP and waits for the outcome.
func (r *running) reload(t *testing.T) string {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	return r.log.await(t, "INFO published", "reload refused")
}

func get(client *http.Client, url string) (string, error) {
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// Run serves until its context is done, says where it listens, and leaves no
// goroutine behind (R-STOP-2).
func TestRunEndsWithItsContext(t *testing.T) {
	r := run(t, treeOf(t, ""))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if body, err := get(client, r.base+"/"); body != "home" || err != nil {
		t.Errorf("GET / is %q, %v", body, err)
	}
	if err := r.stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if _, err := get(client, r.base+"/"); err == nil {
		t.Error("the listener is open after Run")
	}
}

// What keeps a server from starting is one error with a place, and everything
// that was opened before is closed again (R-CFG-5).
func TestStartGivesEverythingBack(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	root := treeOf(t, "")
	config := filepath.Join(root, "conf/httpd_config.xml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := free.Addr().String()
	free.Close()
	// The first listener can be bound, the second cannot.
	two := strings.Replace(string(text), "127.0.0.1:1", first, 1)
	two = strings.Replace(two, "</httpServerConfig>", "  <listener><name>Taken</name><address>"+taken.Addr().String()+"</address></listener>\n</httpServerConfig>", 1)
	put(t, root, "conf/httpd_config.xml", two)
	var log bytes.Buffer
	err = Run(t.Context(), Options{Root: root, Stderr: &log, MetricsAddr: "127.0.0.1:0"})
	if err == nil || !strings.HasPrefix(err.Error(), `conf/httpd_config.xml:4:`) || !strings.Contains(err.Error(), `listener "Taken"`) {
		t.Errorf("Run returned %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("the log says %s", &log)
	}
	again, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatalf("the first listener stays bound: %v", err)
	}
	again.Close()
	if _, err := os.Stat(filepath.Join(root, "logs")); !os.IsNotExist(err) {
		t.Errorf("a log directory was made: %v", err)
	}
}

// R-RELOAD-2: while generations come and go, no request fails and none mixes two
// of them.
func TestReloadUnderLoad(t *testing.T) {
	backend := func(name string) *http.Server {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Addr: ln.Addr().String(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, name)
		})}
		var serving sync.WaitGroup
		serving.Go(func() { s.Serve(ln) })
		t.Cleanup(func() {
			s.Close()
			serving.Wait()
		})
		return s
	}
	host := func(s *http.Server) string {
		return `<extProcessor><type>proxy</type><name>app</name><address>` + s.Addr + `</address></extProcessor>
			<context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>`
	}
	red, blue := host(backend("red")), host(backend("blue"))
	root := treeOf(t, red)
	r := run(t, root)

	var asked, failed atomic.Int64
	served := make(chan struct{})
	ctx, finish := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			for ctx.Err() == nil {
				for path, want := range map[string]string{"/app/x": "red blue", "/": "home"} {
					asked.Add(1)
					body, err := get(client, r.base+path)
					if err != nil || body == "" || !strings.Contains(want, body) {
						failed.Add(1)
						t.Errorf("GET %s is %q, %v", path, body, err)
						return
					}
					select {
					case served <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	for i := range 20 {
		colour := blue
		if i%2 == 1 {
			colour = red
		}
		put(t, root, "conf/site.xml", "<virtualHostConfig><docRoot>html</docRoot>"+colour+"</virtualHostConfig>")
		if line := r.reload(t); !strings.Contains(line, "published") {
			t.Error(line)
		}
		select { // whatever the machine does, the load goes on between reloads
		case <-served:
		case <-time.After(time.Minute):
			t.Fatal("no request was served")
		}
	}
	finish()
	clients.Wait()
	if asked.Load() < 20 || failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), asked.Load())
	}
}

// R-RELOAD-5: a reload that leaves a processor as it is keeps its connections.
func TestReloadKeepsConnections(t *testing.T) {
	var accepted atomic.Int32
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				accepted.Add(1)
			}
		}}
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(ln) })
	defer serving.Wait()
	defer s.Close()
	processor := `<extProcessor><type>proxy</type><name>app</name><address>` + ln.Addr().String() + `</address>%s</extProcessor>
		<context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>`
	root := treeOf(t, fmt.Sprintf(processor, ""))
	r := run(t, root)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func() string {
		t.Helper()
		body, err := get(client, r.base+"/app/x")
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	first := ask()
	put(t, root, "html/index.html", "changed")
	r.reload(t)
	if second := ask(); second != first || accepted.Load() != 1 {
		t.Errorf("the connection was %s, now %s; %d were made", first, second, accepted.Load())
	}
	put(t, root, "conf/site.xml", "<virtualHostConfig><docRoot>html</docRoot>"+fmt.Sprintf(processor, "<maxConns>5</maxConns>")+"</virtualHostConfig>")
	r.reload(t)
	if third := ask(); third == first {
		t.Error("a changed processor has the old connection")
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// SIGUSR2 switches debug lines on and back; a new configuration decides anew.
func TestToggleDebug(t *testing.T) {
	var to logTarget
	var out bytes.Buffer
	f := func(do func(), want slog.Level) {
		t.Helper()
		do()
		if got := to.level.Level(); got != want {
			t.Errorf("level is %v, want %v", got, want)
		}
	}
	f(func() { to.set(&out, slog.LevelWarn) }, slog.LevelWarn)
	f(to.toggleDebug, slog.LevelDebug)
	f(to.toggleDebug, slog.LevelWarn)
	f(to.toggleDebug, slog.LevelDebug)
	f(func() { to.set(&out, slog.LevelInfo) }, slog.LevelInfo)
	f(func() { to.set(&out, slog.LevelDebug) }, slog.LevelDebug)
	f(to.toggleDebug, slog.LevelDebug)
	fmt.Fprint(&to, "line")
	to.set(nil, slog.LevelInfo)
	fmt.Fprint(&to, "lost")
	if out.String() != "line" {
		t.Errorf("the log holds %q", &out)
	}
}
