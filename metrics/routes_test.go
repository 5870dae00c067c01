package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// R-MET-1, R-MET-3: requests by route and status, virtual hosts as their sums.
func TestRoutes(t *testing.T) {
	m := New()
	if s := scrape(t, m); strings.Contains(s, "httpjet_route_") {
		t.Error("routes before there are any")
	}
	app, files, nowhere := &Route{}, &Route{}, &Route{}
	list := []Routed{{"", "unmatched", nowhere}, {"site", "/app/", app}, {"site", "static", files}}
	m.WatchRoutes(func() []Routed { return list })
	app.Finished(200, 3*time.Millisecond)
	app.Finished(200, 10*time.Second)
	app.Finished(502, time.Microsecond)
	files.Finished(304, 0)
	nowhere.Finished(404, 0)
	nowhere.Finished(0, 0)
	got := scrape(t, m)
	for series, want := range map[string]float64{
		`httpjet_route_requests_total{code="200",route="/app/",vhost="site"}`:           2,
		`httpjet_route_requests_total{code="502",route="/app/",vhost="site"}`:           1,
		`httpjet_route_requests_total{code="304",route="static",vhost="site"}`:          1,
		`httpjet_route_requests_total{code="404",route="unmatched",vhost=""}`:           1,
		`httpjet_route_requests_total{code="0",route="unmatched",vhost=""}`:             1,
		`httpjet_route_duration_seconds_count{route="/app/",vhost="site"}`:              3,
		`httpjet_route_duration_seconds_bucket{route="/app/",vhost="site",le="5e-05"}`:  1,
		`httpjet_route_duration_seconds_bucket{route="/app/",vhost="site",le="0.0025"}`: 1,
		`httpjet_route_duration_seconds_bucket{route="/app/",vhost="site",le="0.005"}`:  2,
		`httpjet_route_duration_seconds_bucket{route="/app/",vhost="site",le="5"}`:      2,
		`httpjet_route_duration_seconds_bucket{route="/app/",vhost="site",le="+Inf"}`:   3,
		`httpjet_requests_by_vhost{vhost="site"}`:                                       4,
		`httpjet_responses_by_vhost{class="2xx",vhost="site"}`:                          2,
		`httpjet_responses_by_vhost{class="5xx",vhost="site"}`:                          1,
		`httpjet_request_duration_by_vhost_seconds_count{vhost="site"}`:                 4,
	} {
		if v := value(got, series); v != want {
			t.Errorf("%s is %v, want %v", series, v, want)
		}
	}
	if v := value(got, `httpjet_route_duration_seconds_sum{route="/app/",vhost="site"}`); v < 10.003 || v > 10.004 {
		t.Errorf("sum is %v", v)
	}
}

// R-MET-1: 32 virtual hosts have labels, the others are one; labels of routes are
// short.
func TestRouteLabelsAreBounded(t *testing.T) {
	m := New()
	list := []Routed{{"", "unmatched", &Route{}}}
	for i := range 40 {
		r := &Route{}
		r.Finished(200, 0)
		list = append(list, Routed{fmt.Sprintf("h%02d", i), "/" + strings.Repeat("x", 100), r})
	}
	m.WatchRoutes(func() []Routed { return list })
	got := scrape(t, m)
	if n := strings.Count(got, "httpjet_requests_by_vhost{"); n != 34 { // "" and __other__
		t.Errorf("%d virtual hosts", n)
	}
	if v := value(got, `httpjet_requests_by_vhost{vhost="__other__"}`); v != 8 {
		t.Errorf("the others had %v requests", v)
	}
	if strings.Contains(got, strings.Repeat("x", maxLabel)) || !strings.Contains(got, strings.Repeat("x", maxLabel-1)) {
		t.Error("labels are not cut")
	}
}

func TestRouteAllocatesOnce(t *testing.T) {
	r := &Route{}
	r.Finished(200, 0)
	if n := testing.AllocsPerRun(100, func() { r.Finished(204, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
