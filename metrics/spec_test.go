package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// specified are the families of R-MET and their labels, as the specification has them.
const specified = `
proxy_peer_healthy{scope,group,peer}
proxy_peer_probes_total{scope,group,peer,result}
proxy_peer_health_transitions_total{scope,group,peer,to}
proxy_peer_active_requests{scope,group,peer}
proxy_peer_selections_total{scope,group,peer}
proxy_peer_prehead_failures_total{scope,group,peer,reason}
proxy_failover_total{scope,group}
proxy_peer_responses_total{scope,group,peer,class}
proxy_peer_attempts_total{scope,group,peer,outcome}
proxy_peer_attempt_duration_seconds{scope,group,peer}
proxy_peer_retries_total{scope,group,peer}
proxy_peer_breaker_state{scope,group,peer,breaker}
proxy_peer_breaker_trips_total{scope,group,peer,breaker}
proxy_peer_draining{scope,group,peer}
proxy_peer_rate_limited_total{scope,group,peer}
proxy_no_upstream_total{scope,group}
proxy_pool_connections{scope,group,peer,state}
proxy_errors_total{error}
phase_upstream_seconds phase_rewrite_seconds phase_cache_lookup_seconds phase_compress_seconds
lsapi_dispatch_seconds lsapi_acquire_seconds lsapi_ttfb_seconds
requests_total request_duration_seconds
route_requests_total{vhost,route,code}
route_duration_seconds{vhost,route}
requests_by_vhost{vhost} responses_by_vhost{vhost,class} request_duration_by_vhost_seconds{vhost}
status_400 status_403 status_404 status_410 status_414 status_429 status_500 status_502 status_503 status_504
status_2xx status_3xx status_4xx status_5xx proto_h1 proto_h2 proto_h3
served_static served_php served_proxy served_fastcgi
active_connections active_requests websocket_relays
rate_limit_rejections_total{scope} rate_limit_tracked_clients{scope}
cache_hits cache_misses cache_bypass cache_stale_serves cache_sie_serves cache_admitted cache_rejected
disp_store_public disp_store_private disp_env_no_cache disp_not_opted_in disp_private disp_no_store disp_other
cache_hit_ratio_real cache_admit_ratio
pagecache_hits_total pagecache_misses_total pagecache_stores_total pagecache_purges_total
pagecache_expired_misses_total pagecache_swept_expired_total pagecache_store_purge_rejections_total
pagecache_evictions_total pagecache_disk_read_errors_total pagecache_disk_write_errors_total
pagecache_disk_full_errors_total pagecache_entries pagecache_memory_bytes pagecache_disk_bytes
pagecache_disk_max_bytes pagecache_tag_keys pagecache_refresh_inflight pagecache_hit_ratio
proxycache_hits_total proxycache_misses_total proxycache_revalidations_total proxycache_evictions_total
proxycache_entries proxycache_bytes
fastcgi_pool_connections{state} fastcgi_poisoned_total{reason} fastcgi_requests_total{outcome} fastcgi_stderr_bytes_total
lsapi_pool_connections{state} lsapi_poisoned_total{reason} lsapi_requests_total{outcome} lsapi_stderr_bytes_total lsapi_stale_idle_drops_total
dns_lookups_total{result} dns_stale_answers_total
config_generation config_reloads_total{result} config_last_reload_timestamp_seconds
log_access_dropped_lines_total process_rss_bytes`

// R-MET-1, R-MET-2: every family is there with exactly its labels, and in docs/metrics.md.
// Of those of the snapshot that the specification took over some have nothing to count:
// pagecache_hot_bytes and pagecache_disk_evictions_total (one tier: memory_bytes,
// evictions_total), key_id_collisions_total (keys are compared whole),
// rewrite_outcome_*_total (outcomes of rules are not remembered), purges_forwarded,
// purges_received and peer_fetch_* (caches are not shared).
func TestSpecifiedFamilies(t *testing.T) {
	have := map[string][]string{}
	for _, f := range families(t, full()) {
		labels := []string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		have[f.GetName()] = labels
	}
	docs, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`([a-z0-9_]+)(?:\{([a-z,]+)\})?`).FindAllStringSubmatch(specified, -1)
	if len(found) < 100 {
		t.Fatalf("only %d families are specified", len(found))
	}
	for _, m := range found {
		name, want := "httpjet_"+m[1], []string{}
		if m[2] != "" {
			want = strings.Split(m[2], ",")
		}
		slices.Sort(want)
		labels, ok := have[name]
		switch {
		case !ok:
			t.Errorf("%s is missing", name)
		case !slices.Equal(labels, want):
			t.Errorf("%s has labels %v, want %v", name, labels, want)
		}
		if !strings.Contains(string(docs), "| `"+name+"` |") {
			t.Errorf("docs/metrics.md has no %s", name)
		}
	}
}
