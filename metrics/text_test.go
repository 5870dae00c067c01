package metrics

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// many is so many groups of four peers, and a route for each.
func many(n int) *Metrics {
	m := New()
	var groups []Group
	var probed []Probed
	var routes []Routed
	for i := range n {
		g := Group{Scope: "vhost:site", Name: fmt.Sprintf("group%d", i)}
		for peer := range 4 {
			g.Peers = append(g.Peers, Peer{Failures: []uint64{1, 0, 0, 2, 0, 0},
				Attempts: []uint64{1, 0, 0, 0, 0, 0}, Took: time.Second, Timed: 3})
			probed = append(probed, Probed{Scope: g.Scope, Group: g.Name, Peer: peer})
		}
		r := &Route{}
		r.Finished(200, 0)
		groups, routes = append(groups, g), append(routes, Routed{"site", fmt.Sprintf("/many/%d/", i), r})
	}
	reasons := []string{"dial", "tls", "dns", "timeout", "reset", "protocol"}
	outcomes := []string{"success", "upstream_error", "transport_error", "timeout", "canceled", "response_error"}
	m.WatchGroups(func() Groups { return Groups{reasons, outcomes, groups} })
	m.WatchRoutes(func() []Routed { return routes })
	m.Watch(Gauges{Probed: func() []Probed { return probed }})
	return m
}

// What is written in pieces is what is read: every series once, whatever stands in a
// label.
func TestManySeries(t *testing.T) {
	m := many(300)
	const odd = "a\"b\\c\nd\xff"
	was := *m.groups.Load()
	m.WatchGroups(func() Groups {
		all := was()
		all.All = append(all.All, Group{Scope: "server", Name: odd, Failovers: 9})
		return all
	})
	found := map[string]int{}
	for _, f := range families(t, m) {
		series := map[string]bool{}
		for _, s := range f.GetMetric() {
			id := fmt.Sprint(s.GetLabel())
			if series[id] {
				t.Errorf("%s%s is there twice", f.GetName(), id)
			}
			series[id] = true
			if len(s.GetLabel()) == 2 && s.GetLabel()[0].GetValue() == "a\"b\\c\nd\uFFFD" && f.GetName() == "httpjet_proxy_failover_total" && s.GetCounter().GetValue() == 9 {
				found["odd"]++
			}
		}
		found[f.GetName()] = len(series)
	}
	for name, want := range map[string]int{"odd": 1, "httpjet_proxy_failover_total": 301, "httpjet_proxy_peer_healthy": 1200, "httpjet_proxy_peer_attempts_total": 7200,
		"httpjet_proxy_peer_prehead_failures_total": 7200, "httpjet_proxy_pool_connections": 3600, "httpjet_proxy_peer_attempt_duration_seconds": 1200,
		"httpjet_proxy_peer_probes_total": 3600, "httpjet_route_duration_seconds": 300, "httpjet_route_requests_total": 300, "httpjet_requests_by_vhost": 1} {
		if found[name] != want {
			t.Errorf("%s: %d series, want %d", name, found[name], want)
		}
	}
}

// gone is a scraper that goes away behind so many bytes.
type gone struct {
	http.ResponseWriter
	left, writes int
}

func (g *gone) Write(p []byte) (int, error) {
	g.writes++
	if g.left -= len(p); g.left < 0 {
		return 0, errors.New("gone")
	}
	return len(p), nil
}

// A scraper that goes away is not written to any more, one that comes above the bound is
// told so, and one that asks for the head gets that.
func TestScrapers(t *testing.T) {
	m := many(300)
	h := m.Handler()
	g := &gone{ResponseWriter: httptest.NewRecorder(), left: 1 << 20}
	h.ServeHTTP(g, httptest.NewRequest("GET", "/metrics", nil))
	if g.left >= 0 || g.writes > 1<<20/fullBuffer+10 {
		t.Errorf("%d writes, %d bytes left", g.writes, g.left)
	}
	read, write := io.Pipe()
	stuck := make(chan struct{})
	for range maxScrapes {
		w := &piped{ResponseWriter: httptest.NewRecorder(), w: write, begun: make(chan struct{})}
		go func() {
			h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			stuck <- struct{}{}
		}()
		<-w.begun
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil)); w.Code != 503 {
		t.Errorf("one too many: %d", w.Code)
	}
	read.Close()
	for range maxScrapes {
		<-stuck
	}
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("HEAD", "/metrics", nil)); w.Code != 200 || w.Header().Get("Content-Type") == "" {
		t.Errorf("HEAD: %d %v", w.Code, w.Header())
	}
}

// piped is a scraper that never reads.
type piped struct {
	http.ResponseWriter
	w     io.Writer
	begun chan struct{}
	told  bool
}

func (p *piped) Write(b []byte) (int, error) {
	if !p.told {
		p.told = true
		close(p.begun)
	}
	return p.w.Write(b)
}

// What a scrape of 2,000 groups costs (R-PERF-1: 150 ms at most).
func BenchmarkScrape(b *testing.B) {
	h := many(2000).Handler()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(&gone{ResponseWriter: httptest.NewRecorder(), left: 1 << 40}, httptest.NewRequest("GET", "/metrics", nil))
	}
}
