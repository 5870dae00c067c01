package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"httpjet/check"
)

func TestParseStat(t *testing.T) {
	text := "4242 (a) b (c) R 17 4242 17 0 -1 4194304 100 0 0 0 50 25 10 5 20 0 1 0 99 1 1"
	p, ok := parseStat([]byte(text))
	if !ok || p.parent != 17 || p.name != "a) b (c" || p.cpu != 900*time.Millisecond {
		t.Errorf("got %+v, %v", p, ok)
	}
	if _, ok := parseStat([]byte("4242 no parentheses")); ok {
		t.Error("nonsense was accepted")
	}
}

// at is a snapshot of a machine whose processes are pid, parent and seconds.
func machineAt(at, busy, stolen float64, processes ...[3]float64) snapshot {
	second := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	s := snapshot{at: time.Unix(0, 0).Add(second(at)), busy: second(busy), stolen: second(stolen), processes: map[int]process{}}
	for _, p := range processes {
		s.processes[int(p[0])] = process{int(p[1]), "p", second(p[2])}
	}
	return s
}

func TestForeign(t *testing.T) {
	// 1 is init, 10 this program, 11 the server, 12 a server that waits.
	before := machineAt(0, 100, 0, [3]float64{1, 0, 5}, [3]float64{10, 1, 1}, [3]float64{11, 10, 20}, [3]float64{12, 10, 20}, [3]float64{90, 1, 7}, [3]float64{91, 90, 8})
	ours := part{self: 10, idle: []int{12}}
	for _, f := range []struct {
		name  string
		after snapshot
		want  float64
	}{
		{"only the server works", machineAt(10, 108, 0, [3]float64{1, 0, 5}, [3]float64{10, 1, 1}, [3]float64{11, 10, 28}, [3]float64{12, 10, 20}, [3]float64{90, 1, 7}, [3]float64{91, 90, 8}), 0},
		{"a load generator has come and gone", machineAt(10, 116, 0, [3]float64{1, 0, 5}, [3]float64{10, 1, 9}, [3]float64{11, 10, 28}, [3]float64{12, 10, 20}, [3]float64{90, 1, 7}, [3]float64{91, 90, 8}), 0},
		{"another program works", machineAt(10, 112, 0, [3]float64{1, 0, 5}, [3]float64{10, 1, 1}, [3]float64{11, 10, 28}, [3]float64{12, 10, 20}, [3]float64{90, 1, 7}, [3]float64{91, 90, 12}), 0.4},
		{"a waiting server works", machineAt(10, 112, 0, [3]float64{1, 0, 5}, [3]float64{10, 1, 1}, [3]float64{11, 10, 28}, [3]float64{12, 10, 24}, [3]float64{90, 1, 7}, [3]float64{91, 90, 8}), 0.4},
		{"a program has begun", machineAt(10, 112, 0, [3]float64{1, 0, 5}, [3]float64{10, 1, 1}, [3]float64{11, 10, 28}, [3]float64{12, 10, 20}, [3]float64{90, 1, 7}, [3]float64{91, 90, 8}, [3]float64{92, 90, 4}), 0.4},
		{"one has ended", machineAt(10, 110, 0, [3]float64{1, 0, 5}, [3]float64{10, 1, 1}, [3]float64{11, 10, 28}, [3]float64{12, 10, 20}, [3]float64{90, 1, 17}), 0.2},
		{"one has ended with its parent", machineAt(10, 110, 0, [3]float64{1, 0, 22}, [3]float64{10, 1, 1}, [3]float64{11, 10, 28}, [3]float64{12, 10, 20}), 0.2},
		{"nobody waited for one", machineAt(10, 110, 0, [3]float64{1, 0, 7}, [3]float64{10, 1, 1}, [3]float64{11, 10, 28}, [3]float64{12, 10, 20}, [3]float64{90, 1, 7}), 0.2},
		{"something that cannot be seen", machineAt(10, 114, 0, [3]float64{1, 0, 5}, [3]float64{10, 1, 1}, [3]float64{11, 10, 28}, [3]float64{12, 10, 20}, [3]float64{90, 1, 7}, [3]float64{91, 90, 8}), 0.6},
		{"the hypervisor", machineAt(10, 108, 3, [3]float64{1, 0, 5}, [3]float64{10, 1, 1}, [3]float64{11, 10, 28}, [3]float64{12, 10, 20}, [3]float64{90, 1, 7}, [3]float64{91, 90, 8}), 0.3},
	} {
		if got, _ := f.after.foreign(before, ours); math.Abs(got-f.want) > 1e-9 {
			t.Errorf("%s: %.3f CPUs, want %.3f", f.name, got, f.want)
		}
	}
	if got := before.tree(10); got != 41*time.Second {
		t.Errorf("the tree has used %v", got)
	}
}

func TestParsePSS(t *testing.T) {
	n, err := parsePSS([]byte("00400000-7ffd rollup\nRss:  2000 kB\nPss:                1234 kB\nPss_Anon: 9 kB\n"))
	if err != nil || n != 1234<<10 {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := parsePSS([]byte("Rss: 1 kB\n")); err == nil {
		t.Error("no Pss and no error")
	}
	own, err := pss(os.Getpid())
	if err != nil || own < 1<<20 {
		t.Errorf("this process holds %d bytes, %v", own, err)
	}
}

func TestMetric(t *testing.T) {
	text := []byte("# TYPE a_total counter\na_total 12\na_total_more 5\nb_total{x=\"1\"} 3\n")
	if a, b := metric(text, "a_total"), metric(text, "b_total"); a != 12 || b != 0 {
		t.Errorf("got %v and %v", a, b)
	}
}

const wrkSays = `Running 3s test @ http://127.0.0.1:20000/1k.txt
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.98ms  325.43us   9.16ms   90.00%
  Latency Distribution
     50%    1.90ms
     99%    3.20ms
  93000 requests in 3.10s, 112.00MB read
Requests/sec:  30000.00
`

const h2loadSays = `finished in 3.00s, 30000.00 req/s, 33.00MB/s
requests: 90256 total, 90256 started, 90000 done, 90000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 90000 2xx, 0 3xx, 0 4xx, 0 5xx
`

func TestParseLoad(t *testing.T) {
	for _, f := range []struct {
		name  string
		parse func([]byte) (result, error)
		text  string
		want  result
	}{
		{"wrk", parseWrk, wrkSays, result{93000, 3.1, 3.2}},
		{"wrk, microseconds", parseWrk, strings.Replace(wrkSays, "3.20ms", "720.00us", 1), result{93000, 3.1, 0.72}},
		{"wrk, errors", parseWrk, wrkSays + "  Non-2xx or 3xx responses: 1\n", result{}},
		{"wrk, sockets", parseWrk, wrkSays + "  Socket errors: connect 0, read 1, write 0, timeout 0\n", result{}},
		{"wrk, nothing", parseWrk, strings.Replace(wrkSays, "93000 requests", "0 requests", 1), result{}},
		{"wrk, other text", parseWrk, "unable to connect", result{}},
		{"h2load", parseH2load, h2loadSays, result{90000, 3, 0}},
		{"h2load, failures", parseH2load, strings.Replace(h2loadSays, "0 failed", "1 failed", 1), result{}},
		{"h2load, other text", parseH2load, "finished in 3.00s", result{}},
	} {
		got, err := f.parse([]byte(f.text))
		if f.want.Work == 0 {
			if err == nil {
				t.Errorf("%s: no error", f.name)
			}
			continue
		}
		if err != nil || got.Work != f.want.Work || math.Abs(got.Seconds-f.want.Seconds) > 1e-9 || math.Abs(got.P99-f.want.P99) > 1e-9 {
			t.Errorf("%s: got %+v, %v", f.name, got, err)
		}
	}
}

// TestSampleIsChosenByForeignCPU: never by its value.
func TestSampleIsChosenByForeignCPU(t *testing.T) {
	for _, f := range []struct {
		name    string
		foreign []float64 // of each try; values fall from try to try
		tries   int
		used    int
	}{
		{"quiet at once", []float64{0.1, 0, 0}, 1, 0},
		{"quiet in the end", []float64{1, 0.5, 0.05}, 3, 2},
		{"never quiet", []float64{0.5, 0.3, 0.9}, 3, 1},
	} {
		b := &bench{threshold: 0.1, repeats: 2}
		n := 0
		if _, err := b.undisturbed(context.Background(), true, func() (sample, error) {
			n++
			return sample{Value: float64(10 - n), Foreign: f.foreign[n-1]}, nil
		}); err != nil {
			t.Fatal(err)
		}
		if n != f.tries || len(b.samples) != n {
			t.Errorf("%s: %d tries, %d samples kept, want %d", f.name, n, len(b.samples), f.tries)
		}
		for i, x := range b.samples {
			if x.Used != (i == f.used) || x.Disturbed != (f.foreign[i] > 0.1) {
				t.Errorf("%s: try %d: used %v, disturbed %v", f.name, x.Try, x.Used, x.Disturbed)
			}
		}
	}
	b := &bench{threshold: 0.1, repeats: 2}
	if _, err := b.undisturbed(context.Background(), true, func() (sample, error) { return sample{}, errors.New("broken") }); err == nil {
		t.Error("an error was lost")
	}
}

func TestRowsPairRounds(t *testing.T) {
	s := scenario{name: "x", unit: perRequest, entries: at("/", nginx, httpjet), limits: []limit{{"nginx", 0.5}, {"", 30}}}
	b := &bench{}
	for i, v := range [][2]float64{{10, 8}, {40, 10}, {20, 12}} {
		b.samples = append(b.samples,
			sample{Scenario: "x", Cores: "one", Server: "nginx", Round: i + 1, Value: v[0], Used: true, Work: 100, Seconds: 2},
			sample{Scenario: "x", Cores: "one", Server: "nginx", Round: i + 1, Value: 1e6, Work: 100, Seconds: 2}, // a try that does not count
			sample{Scenario: "x", Cores: "one", Server: "httpjet", Round: i + 1, Value: v[1], Used: true, Disturbed: i == 0})
	}
	rows := b.rows(s, "one")
	if len(rows) != 2 || len(b.rows(s, "all")) != 0 {
		t.Fatalf("got %+v", rows)
	}
	want := []row{
		{"x", "one", "nginx", perRequest, 3, 0, spread{20, 10, 40}, spread{50, 50, 50}, spread{}, spread{0.6, 0.25, 0.8}, 0.5},
		{"x", "one", "httpjet", perRequest, 3, 1, spread{10, 8, 12}, spread{}, spread{}, spread{}, 30},
	}
	for i := range want {
		if rows[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", rows[i], want[i])
		}
	}
	text := table(rows)
	for _, part := range []string{"| 20.0 [10.0–40.0] |", "| 0.60 [0.25–0.80] |", "≤ 0.50 MISSED", "≤ 30.00 met", "1 samples that count were disturbed"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if m := spreadOf([]float64{4, 1, 3, 2}); m != (spread{2.5, 1, 4}) {
		t.Errorf("spread of four is %v", m)
	}
}

func TestPublish(t *testing.T) {
	file := filepath.Join(t.TempDir(), "performance.md")
	before := "head\n" + tableBegin + "old\n" + tableEnd + "tail\n"
	if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		disturbed int
		want      string
	}{{1, before}, {0, "head\n" + tableBegin + "new\n" + tableEnd + "tail\n"}} {
		if err := publish(file, "new\n", []row{{}, {Disturbed: f.disturbed}}); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != f.want {
			t.Errorf("%d disturbed: %q, %v", f.disturbed, text, err)
		}
	}
	if err := os.WriteFile(file, []byte("no marks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := publish(file, "new\n", nil); err == nil {
		t.Error("no error without marks")
	}
	if text, err := os.ReadFile(filepath.Join("..", document)); err != nil || !strings.Contains(string(text), tableBegin) || !strings.Contains(string(text), tableEnd) {
		t.Errorf("%s has no place for a table: %v", document, err)
	}
}

// prepared is a bench without programs, in a folder of the test.
func prepared(t *testing.T) *bench {
	b := &bench{dir: t.TempDir(), idle: 100, descriptors: 1000, app: "127.0.0.1:1", fastcgi: "127.0.0.1:2"}
	var err error
	if b.cert, b.key, err = certificate(); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTreeIsRealistic: what httpjet is measured with has 21 hosts, a host with
// 50 contexts, and no finding that says that a part of it is without effect.
func TestTreeIsRealistic(t *testing.T) {
	b := prepared(t)
	v, err := b.values(b.dir, cores{n: 1})
	if err != nil {
		t.Fatal(err)
	}
	// With all that may be added, too.
	v.Observed, v.Many = true, 2
	if err := b.files("httpjet", b.dir, v); err != nil {
		t.Fatal(err)
	}
	var more strings.Builder
	if code := check.Run(check.Options{Root: b.dir, Strict: true}, &more); code != check.OK {
		t.Errorf("check of the observed tree ends with %d:\n%s", code, &more)
	}
	v.Observed, v.Many = false, 0
	if err := b.files("httpjet", b.dir, v); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if code := check.Run(check.Options{Root: b.dir, Strict: true}, &out); code != check.OK || strings.Contains(out.String(), "W-NOT-YET") {
		t.Errorf("check ends with %d:\n%s", code, &out)
	}
	for _, f := range []struct {
		file, element string
		n             int
	}{
		{"conf/httpd_config.xml", "virtualHost", 21},
		{"conf/httpd_config.xml", "listener", 2},
		{"conf/vhosts/shop.xml", "context", 50},
	} {
		text, err := os.ReadFile(filepath.Join(b.dir, f.file))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == f.element {
				n++
			}
		}
		if n != f.n {
			t.Errorf("%s has %d of %s, want %d", f.file, n, f.element, f.n)
		}
	}
}

func TestEveryConfigurationRenders(t *testing.T) {
	b := prepared(t)
	for _, s := range []server{nginx, haproxy, caddy, varnish, httpjet} {
		dir := t.TempDir()
		v, err := b.values(dir, cores{n: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.files(s.name, dir, v); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		for _, a := range s.command {
			if _, err := render(a, v); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
}

// TestUpstreamAndClients holds the two ends of a measurement against each other
// and against net/http.
func TestUpstreamAndClients(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	var err error
	if b.self, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	up, err := b.startUpstream(cores{})
	if err != nil {
		t.Fatal(err)
	}
	defer up.stop()
	if err := answers(http.DefaultClient, "http://"+b.app+"/app/1k", 1); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	for range 2 {
		if err := answers(&http.Client{Transport: tr}, "http://"+b.app+"/app2/1k", 2); err != nil {
			t.Error(err)
		}
	}
	tr.CloseIdleConnections()
	all, err := openAll(b.app, "/app/ws", 40, overWS)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if err := s.echo(); err != nil {
			t.Error(err)
		}
		s.Close()
	}
	if _, err := open(b.app, "/app/1k", overWS); err == nil {
		t.Error("a file is taken for a WebSocket")
	}
	if s, err := open(b.app, "/app/1k", overPlain); err != nil {
		t.Error(err)
	} else {
		s.Close()
	}
	b.seconds = 1
	r, err := b.own(context.Background(), cores{}, "fetch", b.app, "/app/stream", "1")
	if err != nil || r.Work != gib {
		t.Errorf("fetched %d bytes, %v", r.Work, err)
	}
	r, err = b.own(context.Background(), cores{}, "messages", b.app, "/app/ws", "4", "1")
	if err != nil || r.Work < 4 || r.P99 <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFastCGIProtocol sends requests in pieces of every size.
func TestFastCGIProtocol(t *testing.T) {
	var in []byte
	for id := uint16(1); id <= 2; id++ {
		in = record(in, fcgiBegin, id, []byte{0, 1, 1, 0, 0, 0, 0, 0})
		in = record(in, 4, id, []byte("\x03\x01ABCx"))
		in = record(in, 4, id, nil)
		in = record(in, fcgiStdin, id, nil)
	}
	var want []byte
	for id := uint16(1); id <= 2; id++ {
		want = record(want, fcgiStdout, id, fastcgiAnswer)
		want = record(want, fcgiStdout, id, nil)
		want = record(want, fcgiEnd, id, make([]byte, 8))
	}
	for size := 1; size <= len(in); size++ {
		c := &client{}
		for rest := in; len(rest) > 0; {
			n := min(size, len(rest))
			c.in, rest = append(c.in, rest[:n]...), rest[n:]
			if err := fastcgiProtocol(c); err != nil {
				t.Fatal(err)
			}
		}
		if string(c.out) != string(want) || c.last || len(c.in) > 0 {
			t.Fatalf("pieces of %d: %d bytes came, want %d", size, len(c.out), len(want))
		}
	}
}

// TestMain lets the test's own program be the helper, as the bench's is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == helper {
		exit(help(os.Args[2:]))
	}
	os.Exit(m.Run())
}
