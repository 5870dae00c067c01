package metrics

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

// wire takes a response and throws it away.
type wire struct{}

func (wire) Read([]byte) (int, error)                  { return 0, io.EOF }
func (wire) Trailers() *exchange.Fields                { return nil }
func (wire) StopRead()                                 {}
func (wire) Head(*exchange.Response, bool, bool) error { return nil }
func (wire) Write(p []byte) (int, error)               { return len(p), nil }
func (wire) Flush() error                              { return nil }
func (wire) End(*exchange.Fields) error                { return nil }
func (wire) Abort(error)                               {}
func (wire) Context() context.Context                  { return context.Background() }

// serve finishes one exchange that h answers.
func serve(m *Metrics, proto string, h exchange.HandlerFunc) {
	x := &exchange.Exchange{}
	x.Reset(wire{})
	x.Req.Proto, x.Req.Method, x.Req.Path = proto, "GET", "/secret-path"
	m.Finished(x, exchange.Run(x, h), 3*time.Millisecond)
}

// status answers with a status, as an error from 400 on.
func status(code int) exchange.HandlerFunc {
	return func(x *exchange.Exchange) error {
		if code >= 400 {
			return exchange.Fail(code, "some_reason", "secret cause")
		}
		return x.Start(code)
	}
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	if ct := w.Header().Get("Content-Type"); w.Code != 200 || !strings.HasPrefix(ct, "text/plain; version=0.0.4") {
		t.Fatalf("status %d, type %q", w.Code, ct)
	}
	return w.Body.String()
}

// value returns a series of the exposition, -1 if there is none.
func value(text, series string) float64 {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			f, err := strconv.ParseFloat(v, 64)
			if err == nil {
				return f
			}
		}
	}
	return -1
}

// R-MET-4: every finished request is in the counter and the histogram.
func TestFinished(t *testing.T) {
	m := New()
	for _, code := range []int{200, 206, 301, 400, 403, 404, 404, 410, 414, 429, 418, 500, 502, 503, 504} {
		serve(m, "HTTP/1.1", status(code))
	}
	serve(m, "HTTP/2.0", status(204))
	serve(m, "HTTP/3.0", status(200))
	serve(m, "", func(*exchange.Exchange) error { return exchange.ErrClientGone })
	serve(m, "HTTP/1.0", func(*exchange.Exchange) error { return errors.New("plain") })
	serve(m, "HTTP/1.1", func(*exchange.Exchange) error {
		return exchange.Fail(503, "no_upstream", "x")
	})
	for _, k := range []exchange.Kind{exchange.Unrouted, exchange.Proxy, exchange.FastCGI, exchange.WebSocket} {
		serve(m, "HTTP/1.1", func(x *exchange.Exchange) error {
			x.Route.Kind = k
			return exchange.ErrClientGone
		})
	}
	m.Watch(Gauges{Bugs: func() int { return 1 }})
	text := scrape(t, m)
	f := func(series string, want float64) {
		t.Helper()
		if got := value(text, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	f("httpjet_requests_total", 24)
	f("httpjet_request_duration_seconds_count", 24)
	f(`httpjet_request_duration_seconds_bucket{le="0.0025"}`, 0)
	f(`httpjet_request_duration_seconds_bucket{le="0.005"}`, 24)
	f("httpjet_status_2xx", 4)
	f("httpjet_status_3xx", 1)
	f("httpjet_status_4xx", 13)
	f("httpjet_status_5xx", 6)
	f("httpjet_status_404", 2)
	f("httpjet_status_429", 1)
	f("httpjet_status_500", 2)
	f("httpjet_status_503", 2)
	f("httpjet_proto_h1", 22)
	f("httpjet_proto_h2", 1)
	f("httpjet_proto_h3", 1)
	f("httpjet_served_static", 0)
	f("httpjet_served_proxy", 1)
	f("httpjet_served_fastcgi", 1)
	f(`httpjet_proxy_errors_total{error="no_upstream"}`, 1)
	f(`httpjet_proxy_errors_total{error="upstream_timeout"}`, 0)
	f("httpjet_bugs_total", 1)
	if strings.Contains(text, "secret") || strings.Contains(text, "some_reason") {
		t.Error("something of a request became a label")
	}
	for _, s := range []string{"go_goroutines", "process_open_fds"} {
		if value(text, s) < 1 {
			t.Errorf("%s is missing", s)
		}
	}
}

// An exchange that was refused before it started counts by its error.
func TestFinishedUnstarted(t *testing.T) {
	m := New()
	x := &exchange.Exchange{}
	x.Reset(wire{})
	m.Finished(x, exchange.Fail(400, "bad_request", "x"), 0)
	if v := value(scrape(t, m), "httpjet_status_400"); v != 1 {
		t.Errorf("httpjet_status_400 is %v", v)
	}
	x.Resp.Status = 700 // out of place, but no reason to fall over
	m.Finished(x, nil, 0)
}

func TestGaugesAndConfig(t *testing.T) {
	m := New()
	f := func(series string, want float64) {
		t.Helper()
		if got := value(scrape(t, m), series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	f("httpjet_active_connections", 0)
	n := 7
	m.Watch(Gauges{ActiveConnections: func() int { return n }, WebSocketRelays: func() int { return 2 }})
	f("httpjet_active_connections", 7)
	n = 8
	f("httpjet_active_connections", 8)
	f("httpjet_active_requests", 0)
	f("httpjet_websocket_relays", 2)
	m.Published(3, time.Unix(1000, 500e6))
	m.Reloaded(nil)
	m.Reloaded(nil)
	m.Reloaded(errors.New("refused"))
	m.DroppedLines.Add(5)
	f("httpjet_config_generation", 3)
	f("httpjet_config_last_reload_timestamp_seconds", 1000.5)
	f(`httpjet_config_reloads_total{result="success"}`, 2)
	f(`httpjet_config_reloads_total{result="failure"}`, 1)
	f("httpjet_log_access_dropped_lines_total", 5)
}

// R-MET-1: labels are known by name, and none holds what a client sent.
func TestLabels(t *testing.T) {
	m := New()
	serve(m, "HTTP/1.1", status(404))
	allowed := regexp.MustCompile(`^(error|result|le|state|coding|direction)$`)
	label := regexp.MustCompile(`[{,]([a-z_]+)="`)
	for line := range strings.Lines(scrape(t, m)) {
		if !strings.HasPrefix(line, "httpjet_") {
			continue
		}
		for _, l := range label.FindAllStringSubmatch(line, -1) {
			if !allowed.MatchString(l[1]) {
				t.Errorf("label %s in %s", l[1], line)
			}
		}
	}
}

func TestFinishedNoAllocation(t *testing.T) {
	m := New()
	x := &exchange.Exchange{}
	x.Reset(wire{})
	x.Req.Proto = "HTTP/1.1"
	err := error(exchange.Fail(503, "no_upstream", "x"))
	if n := testing.AllocsPerRun(100, func() { m.Finished(x, err, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// One look-up that is timed stands for those before it.
func TestLookUpsAreCounted(t *testing.T) {
	m := New()
	m.LookedUp(time.Microsecond, 1)
	m.LookedUp(2*time.Millisecond, 16)
	text := scrape(t, m)
	for _, want := range []string{`httpjet_phase_cache_lookup_seconds_count 17`, `httpjet_phase_cache_lookup_seconds_bucket{le="5e-05"} 1`, `httpjet_phase_cache_lookup_seconds_sum 0.032001`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text[strings.Index(text, "httpjet_phase_cache_lookup_seconds"):][:900])
		}
	}
}
