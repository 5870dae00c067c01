package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gorilla "github.com/gorilla/websocket"

	"httpjet/internal/peers"
)

// flatMost is by how much the median of resident memory may grow from the second
// fifth of the load to the last.
const flatMost = 16 << 20

// load is everything at once for a long time, while the backends die and come
// back: HTTP/1 on kept and on new connections, HTTP/2, files, proxied requests,
// bodies in both framings, FastCGI and WebSockets. It asserts what may not happen
// however busy the machine is: a wrong answer, an error for a file, a panic,
// something left behind, memory that grows.
func load(r *run) error {
	l := &loader{run: r, lasts: r.load}
	if l.lasts == 0 {
		l.lasts = time.Duration(r.pick(20, 600)) * time.Second
	}
	if err := l.start(); err != nil {
		return err
	}
	defer l.end()
	defer r.down(l.j)
	r.check("everything-answers-before", func() (string, error) { return "", l.each() })
	time.Sleep(4 * time.Second) // connections to the backends are kept for two
	before, err := l.footprint()
	if err != nil {
		return err
	}
	l.busy()
	r.check("answers", l.verdict)
	r.check("everything-answers-after", func() (string, error) { return "", l.each() })
	r.check("no-panic", l.noPanic)
	r.check("nothing-left-behind", func() (string, error) { return l.back(before) })
	r.check("memory-is-flat", l.flat)
	return nil
}

// A loader is the state of the section.
type loader struct {
	*run
	lasts    time.Duration
	j        *jet
	app      [2]*peers.Mortal // one group
	fcgi, ws *peers.Mortal
	small    []byte
	large    []byte
	tls      *client
	clients  []*client

	kinds  []*kind
	deaths int
	rss    []int64
}

// A kind is one kind of request and what came of it.
type kind struct {
	name    string
	workers int
	mayFail bool // while a backend is dead
	do      func() error
	done    atomic.Int64
	refused atomic.Int64 // told so: 502, 503, 504, or a cut

	mu    sync.Mutex
	wrong []error // at most a few
}

// errRefused marks the failure of a dead backend.
var errRefused = errors.New("backend is dead")

func (l *loader) start() error {
	h := http.NewServeMux()
	h.HandleFunc("/a/echo", echo)
	h.HandleFunc("/a/small", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "small\n") })
	h.HandleFunc("/a/big", (&backend{}).big)
	for i := range l.app {
		var err error
		if l.app[i], err = httpMortal(h); err != nil {
			return err
		}
	}
	var err error
	if l.fcgi, err = fcgiMortal(filepath.Join(l.dir, "load.sock")); err != nil {
		return err
	}
	if l.ws, err = wsMortal(); err != nil {
		return err
	}
	l.small, l.large = noise(1000), noise(300_000)
	if l.j, err = l.serve(tree{name: "loaded", secure: true, vhost: l.vhost(), files: map[string]string{
		"htdocs/small.bin": string(l.small), "htdocs/large.bin": string(l.large), "htdocs/run.fcgi": "#!\n",
	}}); err != nil {
		return err
	}
	if l.tls, err = l.j.secure(false); err != nil {
		return err
	}
	l.mix()
	return nil
}

func (l *loader) end() {
	for _, m := range []*peers.Mortal{l.app[0], l.app[1], l.fcgi, l.ws} {
		m.Down()
	}
}

func (l *loader) vhost() string {
	return strings.NewReplacer("{{a}}", l.app[0].Address, "{{b}}", l.app[1].Address, "{{fcgi}}", l.fcgi.Address, "{{ws}}", l.ws.Address).Replace(`
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList>
    <extProcessor>
      <type>proxy</type><name>app</name><address>{{a}}</address><address>{{b}}</address>
      <loadBalancePolicy>round-robin</loadBalancePolicy>
      <maxConns>100</maxConns><initTimeout>5</initTimeout><retryTimeout>1</retryTimeout><pcKeepAliveTimeout>2</pcKeepAliveTimeout>
    </extProcessor>
    <extProcessor>
      <type>fcgi</type><name>php</name><address>uds:/{{fcgi}}</address>
      <maxConns>8</maxConns><initTimeout>5</initTimeout><retryTimeout>0</retryTimeout><pcKeepAliveTimeout>2</pcKeepAliveTimeout>
    </extProcessor>
  </extProcessorList>
  <scriptHandlerList><scriptHandler><suffix>fcgi</suffix><type>fcgi</type><handler>php</handler></scriptHandler></scriptHandlerList>
  <contextList><context><type>proxy</type><uri>/a/</uri><handler>app</handler></context></contextList>
  <websocketList><websocket><uri>/ws</uri><address>{{ws}}</address></websocket></websocketList>`)
}

// mix makes the kinds of requests.
func (l *loader) mix() {
	kept, fresh := l.j.plain(), l.j.plain()
	fresh.Transport.(*http.Transport).DisableKeepAlives = true
	kept.Transport.(*http.Transport).MaxIdleConnsPerHost = 100
	l.clients = []*client{kept, fresh, l.tls}
	add := func(name string, workers int, mayFail bool, do func() error) {
		l.kinds = append(l.kinds, &kind{name: name, workers: workers, mayFail: mayFail, do: do})
	}
	for _, c := range []struct {
		name string
		*client
		n int
	}{{"h1", kept, 4}, {"h1-new", fresh, 2}, {"h2", l.tls, 3}} {
		add(c.name+"-file", c.n, false, func() error { return l.fetch(c.client, "/small.bin", l.small) })
		add(c.name+"-large-file", 1, false, func() error { return l.fetch(c.client, "/large.bin", l.large) })
		add(c.name+"-proxy", c.n, true, func() error { return l.fetch(c.client, "/a/small", []byte("small\n")) })
		add(c.name+"-proxy-large", 1, true, func() error { return l.fetch(c.client, "/a/big?n=2097152", nil) })
		add(c.name+"-post", 2, true, func() error { return l.post(c.client, "/a/echo", false) })
		add(c.name+"-post-chunked", 2, true, func() error { return l.post(c.client, "/a/echo", true) })
		add(c.name+"-fcgi", 2, true, func() error { return l.post(c.client, "/run.fcgi", rand.IntN(2) == 0) })
	}
	add("websocket", 8, true, l.talk)
	add("websocket-tls", 2, true, l.talkTLS)
}

// fetch gets a path whose body is known; nil: the pattern.
func (l *loader) fetch(c *client, path string, body []byte) error {
	a, err := c.send("GET", path, nil, 0)
	if err := l.judge(a, err); err != nil {
		return err
	}
	if body == nil {
		_, err := (&checker{}).Write(a.body)
		return err
	}
	return same(a.body, body)
}

// post sends some bytes, which come back.
func (l *loader) post(c *client, path string, chunked bool) error {
	data := l.large[:rand.IntN(1<<rand.IntN(19))%len(l.large)]
	body, length := io.Reader(bytes.NewReader(data)), int64(len(data))
	if chunked {
		body, length = unsized(data), -1
	}
	a, err := c.send("POST", path, body, length)
	if err := l.judge(a, err); err != nil {
		return err
	}
	return same(a.body, data)
}

// judge tells a wrong answer from that of a dead backend.
func (l *loader) judge(a *answer, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%w: %v", errRefused, err)
	case a.StatusCode >= 502 && a.StatusCode <= 504:
		return fmt.Errorf("%w: %s", errRefused, a.Status)
	case a.StatusCode != 200:
		return fmt.Errorf("%s %s: %s", a.Request.Method, a.Request.URL, a.Status)
	}
	return nil
}

// talk opens a WebSocket, sends messages and reads them back.
func (l *loader) talk() error {
	return l.talkOver("ws://"+l.j.http+"/ws", &gorilla.Dialer{HandshakeTimeout: time.Minute})
}

func (l *loader) talkTLS() error {
	conf := l.tls.Transport.(*http.Transport).TLSClientConfig
	return l.talkOver("wss://"+l.j.https+"/ws", &gorilla.Dialer{HandshakeTimeout: time.Minute,
		TLSClientConfig: &tls.Config{RootCAs: conf.RootCAs}})
}

func (l *loader) talkOver(url string, d *gorilla.Dialer) error {
	c, resp, err := d.Dial(url, nil)
	if err != nil {
		if resp != nil && (resp.StatusCode < 502 || resp.StatusCode > 504) {
			return fmt.Errorf("%s: %v, %s", url, err, resp.Status)
		}
		return fmt.Errorf("%w: %v", errRefused, err)
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	for range 20 {
		data := l.large[:rand.IntN(1<<rand.IntN(16))]
		if err := c.WriteMessage(gorilla.BinaryMessage, data); err != nil {
			return fmt.Errorf("%w: %v", errRefused, err)
		}
		_, got, err := c.ReadMessage()
		if err != nil {
			return fmt.Errorf("%w: %v", errRefused, err)
		}
		if err := same(got, data); err != nil {
			return err
		}
	}
	return nil
}

// each does one request of every kind. All backends are alive; a breaker may need
// a moment to see it.
func (l *loader) each() error {
	deadline := time.Now().Add(10 * time.Second)
	for _, k := range l.kinds {
		for {
			err := k.do()
			if err == nil {
				break
			}
			if !errors.Is(err, errRefused) || time.Now().After(deadline) {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	l.hangUp()
	return nil
}

// hangUp closes the clients' idle connections.
func (l *loader) hangUp() {
	for _, c := range l.clients {
		c.CloseIdleConnections()
	}
}

// busy runs the load, kills backends, and samples memory.
func (l *loader) busy() {
	ctx, cancel := context.WithTimeout(l.ctx, l.lasts)
	defer cancel()
	var all sync.WaitGroup
	for _, k := range l.kinds {
		for range k.workers {
			all.Go(func() { k.work(ctx) })
		}
	}
	all.Go(func() { l.kill(ctx) })
	tick := time.NewTicker(l.lasts / 200)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if n, err := l.j.memory("VmRSS"); err == nil {
				l.rss = append(l.rss, n)
			}
		case <-ctx.Done():
			all.Wait()
			l.hangUp()
			return
		}
	}
}

// work does requests of one kind, with a little rest in between.
func (k *kind) work(ctx context.Context) {
	for ctx.Err() == nil {
		err := k.do()
		switch {
		case err == nil:
			k.done.Add(1)
		case errors.Is(err, errRefused) && k.mayFail:
			k.refused.Add(1)
		default:
			k.mu.Lock()
			if len(k.wrong) < 3 {
				k.wrong = append(k.wrong, err)
			}
			k.mu.Unlock()
		}
		time.Sleep(time.Duration(rand.IntN(5_000_000)))
	}
}

// kill lets one backend after the other die, and sometimes both of a group.
func (l *loader) kill(ctx context.Context) {
	victims := [][]*peers.Mortal{{l.app[0]}, {l.fcgi}, {l.app[1]}, {l.ws}, {l.app[0], l.app[1]}}
	for i := 0; ; i++ {
		who := victims[i%len(victims)]
		if !sleep(ctx, 1500*time.Millisecond) {
			return
		}
		for _, m := range who {
			m.Down()
		}
		l.deaths += len(who)
		alive := sleep(ctx, 500*time.Millisecond)
		for _, m := range who {
			if err := m.Up(); err != nil {
				l.report("restart of a backend", "", err)
			}
		}
		if !alive {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// verdict sums up: each kind was served, and nothing was wrong.
func (l *loader) verdict() (string, error) {
	var done, refused int64
	var errs []error
	for _, k := range l.kinds {
		done, refused = done+k.done.Load(), refused+k.refused.Load()
		if k.done.Load() == 0 {
			errs = append(errs, fmt.Errorf("%s: never served", k.name))
		}
		for _, err := range k.wrong {
			errs = append(errs, fmt.Errorf("%s: %w", k.name, err))
		}
	}
	if done < 2*refused {
		errs = append(errs, fmt.Errorf("%d of %d requests were refused", refused, done+refused))
	}
	return fmt.Sprintf("%v: %d requests of %d kinds answered right, %d refused while one of %d deaths of a backend lasted", l.lasts, done, len(l.kinds), refused, l.deaths), errors.Join(errs...)
}

func (l *loader) noPanic() (string, error) {
	text, err := os.ReadFile(filepath.Join(l.j.root, "logs/error.log"))
	if err != nil {
		return "", err
	}
	if m := regexp.MustCompile(`(?m)^.*(panic|BUG|goroutine \d+ \[).*$`).FindString(string(text) + l.j.out.String()); m != "" {
		return "", fmt.Errorf("the log says: %s", m)
	}
	bugs, err := l.j.metric("httpjet_bugs_total")
	if err == nil && bugs != 0 {
		err = fmt.Errorf("httpjet_bugs_total is %v", bugs)
	}
	return fmt.Sprintf("%d lines of log", bytes.Count(text, []byte("\n"))), err
}

// A footprint is what a process holds.
type footprint struct{ goroutines, descriptors, connections float64 }

func (l *loader) footprint() (f footprint, err error) {
	for name, to := range map[string]*float64{"go_goroutines": &f.goroutines, "process_open_fds": &f.descriptors, "httpjet_active_connections": &f.connections} {
		if *to, err = l.j.metric(name); err != nil {
			return f, err
		}
	}
	return f, nil
}

// back waits until httpjet holds no more than before. Kept connections to the
// backends end by themselves after two seconds, those of clients after five.
func (l *loader) back(before footprint) (string, error) {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		now, err := l.footprint()
		if err != nil {
			return "", err
		}
		said := fmt.Sprintf("%.0f goroutines and %.0f descriptors, %.0f and %.0f before", now.goroutines, now.descriptors, before.goroutines, before.descriptors)
		if now.goroutines <= before.goroutines && now.descriptors <= before.descriptors && now.connections <= before.connections {
			return said, nil
		}
		if time.Now().After(deadline) {
			return "", errors.New(said)
		}
	}
}

// flat compares memory when the load was warm with memory at its end.
func (l *loader) flat() (string, error) {
	n := len(l.rss) / 5
	if n == 0 {
		return "", errors.New("too few samples")
	}
	median := func(s []int64) int64 { s = slices.Sorted(slices.Values(s)); return s[len(s)/2] }
	warm, late, most := median(l.rss[n:2*n]), median(l.rss[4*n:]), slices.Max(l.rss)
	said := fmt.Sprintf("resident %.1f MiB warm, %.1f MiB at the end (limit of growth 16), %.1f MiB at most", mib(warm), mib(late), mib(most))
	if late-warm > flatMost {
		return "", errors.New(said)
	}
	return said, nil
}

// metric is the value of a series without labels.
func (j *jet) metric(name string) (float64, error) {
	resp, err := http.Get("http://" + j.metrics + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("no series %s", name)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
