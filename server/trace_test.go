package server

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"httpjet/status"
)

// collector hands out the spans that it is sent.
func collector(t *testing.T) (url string, spans <-chan *tracepb.Span) {
	out := make(chan *tracepb.Span, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil {
			t.Error(err)
		}
		for _, rs := range data.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, span := range ss.Spans {
					out <- span
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, out
}

// value is an attribute of a span as text.
func value(s *tracepb.Span, name string) string {
	for _, a := range s.Attributes {
		if a.Key == name {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// tracedTree has a proxied context, one that passes contexts on, a rule to a host that
// nothing declares and a WebSocket map, all at one upstream.
func tracedTree(t *testing.T, tracing, upstream string) string {
	root := treeOf(t, `
<extProcessor><name>app</name><type>proxy</type><address>`+upstream+`</address></extProcessor>
<context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>
<context><type>proxy</type><uri>/plain/</uri><handler>app</handler><traceMode>passthrough</traceMode></context>
<websocket><uri>/ws</uri><address>`+upstream+`</address></websocket>
<rewrite><enable>1</enable><allowAdHocProxy>1</allowAdHocProxy><rules>RewriteRule ^/adhoc/(.*) http://`+upstream+`/$1 [P]</rules></rewrite>`)
	put(t, root, "conf/httpd_config.xml", `<httpServerConfig><tracing>`+tracing+`</tracing>
  <virtualHost><name>site</name><vhRoot>.</vhRoot><configFile>conf/site.xml</configFile></virtualHost>
  <listener><name>Default</name><address>127.0.0.1:1</address><vhostMap><vhost>site</vhost><domain>site.test, *</domain></vhostMap></listener>
</httpServerConfig>`)
	return root
}

const inbound = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// R-TRACE-3: what upstreams are told, and which spans come of it; a reload keeps the
// exporter, and its end sends what is left. The span of a WebSocket ends with the
// handshake: it comes while the tunnel is open.
func TestSpansOfRequests(t *testing.T) {
	told := make(chan string, 10)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Get("Traceparent")
		if r.Header.Get("Upgrade") != "" {
			c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				return
			}
			c.ReadMessage()
			c.Close()
		}
	}))
	defer up.Close()
	url, spans := collector(t)
	r := run(t, tracedTree(t, "<mode>span</mode><exporter>otlphttp</exporter><endpoint>"+url+"</endpoint>", up.Listener.Addr().String()))
	ask := func(path string) string {
		t.Helper()
		req, _ := http.NewRequest("GET", r.base+path, nil)
		req.Header.Set("traceparent", inbound)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatal(path, resp.Status)
		}
		return <-told
	}
	app := ask("/app/?q=secret")
	if plain, adhoc := ask("/plain/"), ask("/adhoc/x"); plain != inbound || adhoc != inbound {
		t.Errorf("passed on: %q, of a host that only a rule names: %q", plain, adhoc)
	}
	if app[:36] != inbound[:36] || app == inbound || !strings.HasSuffix(app, "-01") {
		t.Errorf("the upstream is told %q", app)
	}
	r.reload(t)
	ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(r.base, "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	tunnel := <-told
	server, client := map[string]*tracepb.Span{}, map[string]*tracepb.Span{} // by span id
	for range 8 {
		s := <-spans
		if s.Kind == tracepb.Span_SPAN_KIND_SERVER {
			server[hex.EncodeToString(s.SpanId)] = s
		} else {
			client[hex.EncodeToString(s.SpanId)] = s
		}
		if strings.Contains(s.String(), "secret") {
			t.Error("a span has the query")
		}
	}
	for _, parent := range []string{app, tunnel} {
		c := client[parent[36:52]]
		if c == nil || hex.EncodeToString(c.TraceId) != parent[3:35] {
			t.Fatalf("no span %s", parent)
		}
		s := server[hex.EncodeToString(c.ParentSpanId)]
		if s == nil || c.StartTimeUnixNano < s.StartTimeUnixNano || c.EndTimeUnixNano > s.EndTimeUnixNano {
			t.Fatalf("client %v of %v", c, s)
		}
		if parent == app && (value(c, "httpjet.group") != "app" || hex.EncodeToString(s.ParentSpanId) != inbound[36:52]) ||
			parent == tunnel && (value(c, "httpjet.group") != "websocket:/ws" || len(s.ParentSpanId) != 0) {
			t.Errorf("client %v of %v", c, s)
		}
	}
	ws.Close()
	if _, err := get(http.DefaultClient, r.base+"/"); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if s := <-spans; s.Name != "GET static" || len(spans) > 0 {
		t.Errorf("last %v, and %d more", s, len(spans))
	}
}

// A collector that is not there: requests are served, and one line says so.
func TestServesWithoutCollector(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	r := run(t, tracedTree(t, "<mode>span</mode><exporter>otlphttp</exporter><endpoint>http://"+ln.Addr().String()+"</endpoint>", "127.0.0.1:1"))
	defer http.DefaultClient.CloseIdleConnections()
	for range 10 {
		if _, err := get(http.DefaultClient, r.base+"/"); err != nil {
			t.Fatal(err)
		}
	}
	r.log.await(t, "spans cannot be exported")
	if _, err := get(http.DefaultClient, r.base+"/"); err != nil {
		t.Fatal(err)
	}
}

// A timeline tells where the time of one request went; who may not ask gets none.
func TestTimelineOfRequest(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	got := make(chan string, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		got <- req.Header.Get("X-Httpjet-Timeline")
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		io.Copy(io.Discard, c)
	}()
	root := tracedTree(t, "<timelineFrom>127.0.0.0/8</timelineFrom>", ln.Addr().String())
	// The peer that is tried first cannot be reached.
	put(t, root, "conf/site.xml", `<virtualHostConfig><docRoot>html</docRoot>
<extProcessor><name>app</name><type>proxy</type><address>127.0.0.1:1</address><address>`+ln.Addr().String()+`</address><loadBalancePolicy>primary-first</loadBalancePolicy></extProcessor>
<context><type>proxy</type><uri>/app/</uri><handler>app</handler></context></virtualHostConfig>`)
	r := runAsked(t, root, Options{})
	req, _ := http.NewRequest("GET", r.base+"/app/?q=secret", nil)
	req.Header.Set("X-Httpjet-Timeline", "1")
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	id := resp.Header.Get("X-Httpjet-Timeline")
	if resp.StatusCode != 200 || len(id) != 32 || <-got != "" {
		t.Fatalf("%s, id %q", resp.Status, id)
	}
	plain, err := tr.RoundTrip(func() *http.Request { q, _ := http.NewRequest("GET", r.base+"/", nil); return q }())
	if err != nil {
		t.Fatal(err)
	}
	plain.Body.Close()
	if plain.Header.Get("X-Httpjet-Timeline") != "" {
		t.Error("a timeline that nobody asked for")
	}
	r.reload(t) // they outlive it
	var list, one status.Timelines
	if err := r.client.Get(t.Context(), "/api/v1/timelines", &list); err != nil || len(list.Timelines) != 1 || len(list.Timelines[0].Events) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := r.client.Get(t.Context(), "/api/v1/timelines?id="+id, &one); err != nil || len(one.Timelines) != 1 {
		t.Fatalf("%+v, %v", one, err)
	}
	l := one.Timelines[0]
	if l.ID != id || l.Path != "/app/" || l.Status != 200 || l.Attempts != 2 || l.Group != "app" || l.Bytes != 2 || !one.Enabled {
		t.Errorf("%+v", l)
	}
	var order []string
	last := 0.0
	for _, e := range l.Events {
		if e.What != "flush" { // as many as the reply comes in pieces
			order = append(order, e.What)
		}
		if e.After < last {
			t.Errorf("%+v comes behind %v ms", e, last)
		}
		last = e.After
		if strings.Contains(e.Text, "127.0.0.1") {
			t.Errorf("%+v has an address", e)
		}
	}
	if got := strings.Join(order, ", "); got != "request, attempt, attempt ended, attempt, dial, head, answer, attempt ended, end" &&
		got != "request, attempt, attempt ended, attempt, dial, head, attempt ended, answer, end" {
		t.Error(got)
	}
	// The same for who draws it: what lasted, and what happened at once.
	if len(l.Calls) != 2 || l.Calls[0].Status != 0 || l.Calls[0].Outcome != "transport_error" || l.Calls[0].Peer != 0 ||
		l.Calls[1].Peer != 1 || l.Calls[1].Status != 200 || l.Calls[1].Head <= 0 || l.Calls[1].Group != "vhost:site/app" ||
		!slices.ContainsFunc(l.Moments, func(m status.TimelineMoment) bool { return m.What == "answer" }) {
		t.Errorf("%+v, %+v", l.Calls, l.Moments)
	}
	for limit, want := range map[string]int{"0": 0, "1": 1, "20": 1, "-1": 1, "many": 1} {
		if err := r.client.Get(t.Context(), "/api/v1/timelines?limit="+limit, &list); err != nil || len(list.Timelines) != want || !list.Enabled {
			t.Errorf("limit %s: %+v, %v", limit, list, err)
		}
	}
	if err := r.client.Get(t.Context(), "/api/v1/timelines?id=none", &one); err != nil || len(one.Timelines) != 0 {
		t.Errorf("%+v, %v", one, err)
	}
}
