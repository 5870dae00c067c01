package metrics

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
)

// The names of LiteSpeed's exporter are there only if they are asked for, and rates are
// those between scrapes.
func TestLiteSpeedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		static := &Route{}
		requests := uint64(10)
		m.WatchRoutes(func() []Routed { return []Routed{{"site", "static", static}, {"site", "/app/", &Route{}}} })
		m.Watch(Gauges{
			PageCache: func() PageCache { return PageCache{Hits: 7, StaleHits: 1} },
			LiteSpeed: func() LiteSpeed {
				return LiteSpeed{MaxConnections: 100, Plain: 3, Secure: 4, Idle: 2, Requests: 5, Version: "httpjet/1",
					Apps: []LiteSpeedApp{{Type: "LSAPI", Name: "php", MaxConns: 35, Idle: 1, Busy: 2, Waiting: 3, Requests: requests},
						{Type: "PROXY", VHost: "site", Name: "app"}, {Type: "PROXY", VHost: "site", Name: "app"}}}
			}})
		if text := scrape(t, m); strings.Contains(text, "litespeed_") {
			t.Fatal("told without being asked for")
		}
		m.EnableLiteSpeed(true)
		want := func(series string, v float64) {
			t.Helper()
			if text := scrape(t, m); !strings.Contains(text, fmt.Sprintf("litespeed_%s %v\n", series, v)) {
				t.Errorf("no litespeed_%s %v in\n%s", series, v, text)
			}
		}
		want("up", 1)
		want(`version{version="httpjet/1"}`, 1)
		want("current_http_connections", 3)
		want("current_ssl_connections", 4)
		want("available_ssl_connections", 93)
		want("current_idle_connections", 2)
		want(`current_requests_per_vhost{vhost=""}`, 5)
		want(`public_cache_hits_per_vhost{vhost=""}`, 8)
		want(`wait_queue_depth_per_app{app_name="php",app_type="LSAPI",vhost=""}`, 3)
		want(`wait_queue_depth_per_backend{app_name="php",app_type="LSAPI",vhost=""}`, 3)
		want(`total_requests_per_app{app_name="php",app_type="LSAPI",vhost=""}`, 10)
		want(`requests_per_second_per_app{app_name="php",app_type="LSAPI",vhost=""}`, 0)

		time.Sleep(10 * time.Second)
		requests += 50
		for range 20 {
			static.Finished(200, time.Millisecond)
		}
		serve(m, "HTTP/1.1", func(x *exchange.Exchange) error { _, err := x.Write(make([]byte, 1000)); return err })
		want(`requests_per_second_per_app{app_name="php",app_type="LSAPI",vhost=""}`, 5)
		want(`requests_per_second_per_backend{app_name="php",app_type="LSAPI",vhost=""}`, 5) // the same for a scrape at once
		want(`static_hits_per_second_per_vhost{vhost="site"}`, 2)
		want(`static_hits_per_vhost{vhost="site"}`, 20)
		want(`total_requests_per_vhost{vhost=""}`, 1)
		want("outgoing_http_bytes_per_second", 100)
		want("outgoing_ssl_bytes_per_second", 0)

		m.EnableLiteSpeed(false)
		if text := scrape(t, m); strings.Contains(text, "litespeed_") {
			t.Error("still told")
		}
	})
}

// What a reload has taken away is not remembered for ever.
func TestLiteSpeedForgetsApplications(t *testing.T) {
	m := New()
	m.EnableLiteSpeed(true)
	n := 0
	m.Watch(Gauges{LiteSpeed: func() LiteSpeed {
		n++
		return LiteSpeed{Apps: []LiteSpeedApp{{Type: "PROXY", Name: fmt.Sprint("app", n)}}}
	}})
	scrape(t, m)
	few := len(m.litespeed.rates)
	for range 50 {
		scrape(t, m)
	}
	if len(m.litespeed.rates) > few {
		t.Errorf("%d series are remembered after 51 scrapes, %d after one", len(m.litespeed.rates), few)
	}
}

// R-BUD: what the budgets of bodies hold and refuse is told.
func TestBuffers(t *testing.T) {
	m := New()
	m.Watch(Gauges{Buffers: func() Buffers { return Buffers{Bytes: 1, MaxBytes: 2, Bodies: 3, MaxBodies: 4, Refused: 5} }, Overloaded: func() int { return 6 }})
	text := scrape(t, m)
	for series, v := range map[string]float64{"request_buffer_bytes": 1, "request_buffer_max_bytes": 2, "request_buffers": 3, "request_buffers_max": 4,
		"request_buffer_refusals_total": 5, "overloaded_total": 6} {
		if got := value(text, "httpjet_"+series); got != v {
			t.Errorf("%s is %v, want %v", series, got, v)
		}
	}
	if value(text, "httpjet_process_rss_bytes") <= 0 {
		t.Error("no memory of the process")
	}
}
