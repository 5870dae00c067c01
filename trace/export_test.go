package trace

import (
	"bytes"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"httpjet/exchange"
)

// receiver is a collector: it decodes what it is sent.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
	about []string // attributes of resources
	// answer says how a request is answered; nil: with 200. It runs before the spans are
	// counted, and those of answers other than 200 are not.
	answer func(w http.ResponseWriter, n int) (taken bool)
	n      int
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil || q.Method != "POST" || q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s %q: %v", q.Method, q.URL, q.Header, err)
		}
		r.mu.Lock()
		r.n++
		n, answer := r.n, r.answer
		r.mu.Unlock()
		if answer != nil && !answer(w, n) {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, rs := range data.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				r.about = append(r.about, a.Key+"="+a.Value.GetStringValue())
			}
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) all() []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spans
}

// said is an error log whose lines can be waited for.
type said struct {
	lines chan string
}

func (s said) Write(p []byte) (int, error) {
	s.lines <- string(p)
	return len(p), nil
}

func newLog() (*slog.Logger, said) {
	s := said{make(chan string, 1000)}
	return slog.New(slog.NewTextHandler(s, nil)), s
}

// attributes of a span as text.
func attributes(s *tracepb.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[a.Key] = strings.Trim(strings.TrimSpace(a.Value.String()[strings.Index(a.Value.String(), ":")+1:]), `"`)
	}
	return out
}

// traced is an exchange with two attempts that is over.
func traced(tracer *Tracer, trusted bool) *exchange.Exchange {
	x := &exchange.Exchange{Began: time.Unix(1000, 0)}
	x.Req = exchange.Request{ID: "0af7", Method: "GET", Target: "/shop/a?secret=1", Scheme: "https", Proto: "HTTP/2.0",
		Host: "www.example.com:8443", Client: netip.MustParseAddr("192.0.2.1")}
	x.Req.Fields.Add("traceparent", parent)
	x.Req.Fields.Add("User-Agent", "curl/8")
	x.Req.Fields.Add("Authorization", "Basic c2VjcmV0")
	x.Route = exchange.Route{Kind: exchange.Proxy, VHost: "site", Label: "/shop/", Scope: "server", Group: "app"}
	tracer.Begin(x, trusted)
	x.BeginAttempt("server", "app", 3, x.Began.Add(time.Millisecond), noTimer{})
	x.Attempts.Outcome = "transport_error"
	x.BeginAttempt("server", "app", 1, x.Began.Add(5*time.Millisecond), noTimer{})
	x.AttemptReplied(200, exchange.Phases{Queue: time.Millisecond, Dial: 2 * time.Millisecond, Head: 3 * time.Millisecond})
	x.Attempts.Outcome = "success"
	x.Mark("flush", "")
	x.Resp.Status = 200
	x.Ended = x.Began.Add(20 * time.Millisecond)
	x.EndAttempt(x.Ended)
	return x
}

type noTimer struct{}

func (noTimer) Took(time.Duration) {}

// R-TRACE-3, R-TRACE-5: a server span with the inbound trace and parent, a client span
// for each attempt below it; what they hold, and what not.
func TestSpans(t *testing.T) {
	r := newReceiver(t)
	for _, query := range []bool{false, true} {
		var counts Counts
		e := NewExporter(ExporterOptions{Endpoint: r.URL + "/v1/traces", Version: "1.2", Query: query}, &counts)
		log, _ := newLog()
		e.Start(log)
		x := traced(&Tracer{Rate: 1, Out: e}, false)
		first := Next(x) // of the attempt under way there is none: its span is not recorded
		e.Offer(NewRecord(x, nil, x.Ended))
		e.Retire()
		if counts.Exported.Load() != 3 || counts.Dropped.Load() != 0 || counts.Failures.Load() != 0 {
			t.Errorf("%d exported, %d dropped", counts.Exported.Load(), counts.Dropped.Load())
		}
		if !Valid(first) {
			t.Errorf("traceparent %q", first)
		}
	}
	all := r.all()
	if len(all) != 6 {
		t.Fatalf("%d spans", len(all))
	}
	var server, again *tracepb.Span
	clients := map[string]*tracepb.Span{}
	for _, s := range all {
		switch {
		case s.Kind == tracepb.Span_SPAN_KIND_SERVER && server == nil:
			server = s
		case s.Kind == tracepb.Span_SPAN_KIND_SERVER:
			again = s
		case server == nil:
			clients[attributes(s)["httpjet.peer"]] = s
		}
		if hex.EncodeToString(s.TraceId) != parent[3:35] {
			t.Errorf("trace %x", s.TraceId)
		}
	}
	if hex.EncodeToString(server.ParentSpanId) != parent[36:52] || server.Name != "GET /shop/" ||
		server.StartTimeUnixNano != uint64(time.Unix(1000, 0).UnixNano()) || server.EndTimeUnixNano-server.StartTimeUnixNano != 20e6 {
		t.Errorf("server span %v", server)
	}
	for name, want := range map[string]string{"http.request.method": "GET", "url.path": "/shop/a", "url.scheme": "https", "http.route": "/shop/",
		"server.address": "www.example.com", "server.port": "8443", "client.address": "192.0.2.1", "http.response.status_code": "200",
		"network.protocol.version": "2.0", "user_agent.original": "curl/8", "httpjet.vhost": "site", "httpjet.request_id": "0af7", "url.query": ""} {
		if got := attributes(server)[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if attributes(again)["url.query"] != "secret=1" {
		t.Error("recordQuery records none")
	}
	if text := server.String() + clients["1"].String(); strings.Contains(text, "secret") || strings.Contains(text, "c2VjcmV0") || len(server.Events) != 1 {
		t.Errorf("%s", text)
	}
	for peer, want := range map[string]string{"3": "transport_error", "1": ""} {
		s := clients[peer]
		if s == nil || !bytes.Equal(s.ParentSpanId, server.SpanId) || s.Kind != tracepb.Span_SPAN_KIND_CLIENT || s.Name != "GET app" ||
			attributes(s)["error.type"] != want || (s.Status.Code == tracepb.Status_STATUS_CODE_ERROR) != (want != "") || attributes(s)["httpjet.scope"] != "server" {
			t.Errorf("peer %s: %v", peer, s)
		}
	}
	if a := attributes(clients["1"]); a["http.request.resend_count"] != "1" || a["httpjet.dial_ms"] != "2" || a["http.response.status_code"] != "200" {
		t.Error(a)
	}
	if !strings.Contains(strings.Join(r.about, " "), "service.name=httpjet service.version=1.2") {
		t.Error(r.about)
	}
}

func exporter(t *testing.T, url string) (*Exporter, *Counts, said) {
	counts := &Counts{}
	e := NewExporter(ExporterOptions{Endpoint: url + "/v1/traces"}, counts)
	log, lines := newLog()
	e.Start(log)
	return e, counts, lines
}

func record() *Record {
	x := traced(&Tracer{Rate: 1}, false)
	return NewRecord(x, nil, x.Ended)
}

// A collector that is not there: one line, everything is counted, nobody waits.
func TestCollectorDown(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	e, counts, said := exporter(t, "http://"+ln.Addr().String())
	const offered = maxQueued + 2*maxBatch + 10
	for range offered {
		e.Offer(record())
	}
	if line := <-said.lines; !strings.Contains(line, "spans cannot be exported") {
		t.Error(line)
	}
	e.Retire()
	e.Offer(record()) // of an exchange that outlived its generation
	if len(said.lines) > 0 || counts.Dropped.Load() != offered+1 || counts.Exported.Load() != 0 || counts.Failures.Load() == 0 {
		t.Errorf("%d lines more, %d dropped, %d failures", len(said.lines), counts.Dropped.Load(), counts.Failures.Load())
	}
}

// Where a collector answers late spans are shed, and it has the rest in the end.
func TestCollectorSlow(t *testing.T) {
	r := newReceiver(t)
	asked, free := make(chan struct{}), make(chan struct{})
	r.answer = func(_ http.ResponseWriter, n int) bool {
		if n == 1 {
			close(asked)
			<-free
		}
		return true
	}
	e, counts, _ := exporter(t, r.URL)
	e.Offer(record())
	<-asked
	const more = maxQueued + 100
	for range more {
		e.Offer(record())
	}
	if counts.Dropped.Load() != 100 {
		t.Errorf("%d dropped", counts.Dropped.Load())
	}
	close(free)
	e.Retire()
	// What came and was not acknowledged within the time of Retire counts as dropped.
	if got := uint64(len(r.all())); counts.Exported.Load()+counts.Dropped.Load() != more+1 || got < counts.Exported.Load() {
		t.Errorf("%d exported, %d came, %d dropped", counts.Exported.Load(), got, counts.Dropped.Load())
	}
}

// A collector that never answers does not hold the end up for ever.
func TestCollectorHangs(t *testing.T) {
	r := newReceiver(t)
	free, asked := make(chan struct{}), make(chan struct{}, 10)
	r.answer = func(http.ResponseWriter, int) bool { asked <- struct{}{}; <-free; return true }
	e, counts, _ := exporter(t, r.URL)
	e.Offer(record())
	<-asked
	e.Offer(record())
	e.Retire()
	close(free)
	if counts.Dropped.Load() != 2 {
		t.Errorf("%d dropped", counts.Dropped.Load())
	}
}

// OTLP: what may be sent again is, what may not is lost, and a partial success counts as
// one.
func TestCollectorAnswers(t *testing.T) {
	f := func(exported, dropped uint64, lines string, answer func(http.ResponseWriter, int) bool) {
		t.Helper()
		r := newReceiver(t)
		r.answer = answer
		e, counts, said := exporter(t, r.URL)
		e.Offer(record())
		if lines != "" {
			for word := range strings.SplitSeq(lines, "|") {
				if line := <-said.lines; !strings.Contains(line, word) {
					t.Errorf("%s, want %s", line, word)
				}
			}
		}
		e.Retire()
		if counts.Exported.Load() != exported || counts.Dropped.Load() != dropped {
			t.Errorf("%d exported, %d dropped", counts.Exported.Load(), counts.Dropped.Load())
		}
	}
	f(1, 0, "the collector answers 503|spans go out again", func(w http.ResponseWriter, n int) bool {
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
		}
		return n > 1
	})
	f(0, 1, "the collector answers 400", func(w http.ResponseWriter, n int) bool { w.WriteHeader(400); return false })
	f(0, 1, "the collector answers 307", func(w http.ResponseWriter, n int) bool {
		w.Header().Set("Location", "http://192.0.2.1/")
		w.WriteHeader(307)
		return false
	})
	f(0, 1, "rejects 1 spans: no room", func(w http.ResponseWriter, n int) bool {
		part := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
		part = protowire.AppendString(protowire.AppendTag(part, 2, protowire.BytesType), "no room")
		w.Write(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), part))
		return false
	})
	f(1, 0, "", func(w http.ResponseWriter, n int) bool { io.WriteString(w, "\xff\xff nonsense"); return true })
}

func TestPauses(t *testing.T) {
	for _, c := range []struct {
		err  error
		try  int
		want time.Duration
	}{{io.EOF, 0, time.Second}, {io.EOF, 1, 2 * time.Second}, {io.EOF, 9, maxPause}, {&refused{status: 503, after: 3 * time.Second}, 0, 3 * time.Second},
		{&refused{status: 429, after: time.Hour}, 0, maxPause}} {
		if got := pauseOf(c.err, c.try); got != c.want {
			t.Errorf("%v, try %d: %v, want %v", c.err, c.try, got, c.want)
		}
	}
}

// exporter log: a line for each span, in the log.
func TestLogExporter(t *testing.T) {
	var counts Counts
	e := NewExporter(ExporterOptions{}, &counts)
	log, said := newLog()
	e.Start(log)
	x := traced(&Tracer{Rate: 1, Out: e}, false)
	e.Offer(NewRecord(x, nil, x.Ended))
	e.Retire()
	var text strings.Builder
	for len(said.lines) > 0 {
		text.WriteString(<-said.lines)
	}
	if strings.Count(text.String(), "msg=span") != 3 || !strings.Contains(text.String(), "kind=server trace="+parent[3:35]) || !strings.Contains(text.String(), "parent="+parent[36:52]) {
		t.Error(text.String())
	}
}

// An exporter of a candidate that is not published never runs.
func TestExporterNotStarted(t *testing.T) {
	var counts Counts
	e := NewExporter(ExporterOptions{}, &counts)
	e.Offer(record())
	e.Retire()
	if counts.Dropped.Load() != 1 {
		t.Errorf("%d dropped", counts.Dropped.Load())
	}
}

// What a client sends is text of an attribute: UTF-8 and bounded, or the message could
// not be made.
func TestHostileText(t *testing.T) {
	r := newReceiver(t)
	e, counts, _ := exporter(t, r.URL)
	x := traced(&Tracer{Rate: 1, Out: e}, false)
	x.Req.Target, x.Req.Method = "/\xff\x00"+strings.Repeat("a", 1<<16), "\xffBREW"
	x.Req.Fields.Set("User-Agent", "\xc3")
	x.Req.Host = "[::1"
	e.Offer(NewRecord(x, exchange.Fail(502, "upstream_transport", "x"), x.Ended))
	e.Retire()
	all := r.all()
	if len(all) != 3 || counts.Exported.Load() != 3 {
		t.Fatalf("%d spans", len(all))
	}
	for _, s := range all {
		if s.Kind == tracepb.Span_SPAN_KIND_SERVER && (s.Name != "_OTHER /shop/" || len(attributes(s)["url.path"]) > 3000) {
			t.Errorf("%q", s.Name)
		}
	}
}
