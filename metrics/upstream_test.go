package metrics

import (
	"strings"
	"testing"
	"time"
)

// R-MET-2, R-MET-3: groups are told by scope, name and ordinal, as they are at the
// scrape.
func TestGroups(t *testing.T) {
	m := New()
	if s := scrape(t, m); strings.Contains(s, "httpjet_proxy_peer") {
		t.Error("peers without groups")
	}
	list := Groups{[]string{"tls", "dial"}, []string{"success", "timeout"}, []Group{{Scope: "vhost:a", Name: "app", Failovers: 3, NoUpstream: 1, Peers: []Peer{
		{Healthy: true, Active: 2, Selections: 7, Replies: [6]uint64{2: 5, 5: 1}, Failures: []uint64{0, 4}, Dial: 1, DialTrips: 1,
			Attempts: []uint64{5, 0}, Retries: 8, RateLimited: 9, Timed: 4, Took: 1500 * time.Millisecond},
		{Draining: true, Response: 2, ResponseTrips: 6}}}}}
	m.WatchGroups(func() Groups { return list })
	got := scrape(t, m)
	for _, want := range []string{
		`failover_total{group="app",scope="vhost:a"} 3`,
		`no_upstream_total{group="app",scope="vhost:a"} 1`,
		`peer_healthy{group="app",peer="0",scope="vhost:a"} 1`,
		`peer_healthy{group="app",peer="1",scope="vhost:a"} 0`,
		`peer_draining{group="app",peer="1",scope="vhost:a"} 1`,
		`peer_active_requests{group="app",peer="0",scope="vhost:a"} 2`,
		`peer_selections_total{group="app",peer="0",scope="vhost:a"} 7`,
		`peer_responses_total{class="2xx",group="app",peer="0",scope="vhost:a"} 5`,
		`peer_responses_total{class="5xx",group="app",peer="0",scope="vhost:a"} 1`,
		`peer_prehead_failures_total{group="app",peer="0",reason="dial",scope="vhost:a"} 4`,
		`peer_attempts_total{group="app",outcome="success",peer="0",scope="vhost:a"} 5`,
		`peer_attempts_total{group="app",outcome="timeout",peer="0",scope="vhost:a"} 0`,
		`peer_attempt_duration_seconds_sum{group="app",peer="0",scope="vhost:a"} 1.5`,
		`peer_attempt_duration_seconds_count{group="app",peer="0",scope="vhost:a"} 4`,
		`peer_retries_total{group="app",peer="0",scope="vhost:a"} 8`,
		`peer_rate_limited_total{group="app",peer="0",scope="vhost:a"} 9`,
		`peer_breaker_state{breaker="dial",group="app",peer="0",scope="vhost:a"} 1`,
		`peer_breaker_state{breaker="response",group="app",peer="1",scope="vhost:a"} 2`,
		`peer_breaker_trips_total{breaker="dial",group="app",peer="0",scope="vhost:a"} 1`,
		`peer_breaker_trips_total{breaker="response",group="app",peer="1",scope="vhost:a"} 6`,
	} {
		if !strings.Contains(got, "\nhttpjet_proxy_"+want+"\n") {
			t.Errorf("missing %s", want)
		}
	}
	list = Groups{}
	if s := scrape(t, m); strings.Contains(s, "httpjet_proxy_peer") {
		t.Error("peers of a group that is gone")
	}
}
