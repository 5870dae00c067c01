package metrics

import (
	"strings"
	"testing"
)

// R-MET-2: peers with a health check, by scope, group and ordinal.
func TestProbed(t *testing.T) {
	m := New()
	list := []Probed{{Scope: "vhost:a", Group: "app", Peer: 1, Succeeded: 5, Failed: 4, Skipped: 3, Up: 2, Down: 1}}
	m.Watch(Gauges{Probed: func() []Probed { return list }})
	got := scrape(t, m)
	f := func(series string, want float64) {
		t.Helper()
		if v := value(got, "httpjet_proxy_peer_"+series); v != want {
			t.Errorf("%s is %v, want %v", series, v, want)
		}
	}
	f(`probes_total{group="app",peer="1",result="success",scope="vhost:a"}`, 5)
	f(`probes_total{group="app",peer="1",result="failure",scope="vhost:a"}`, 4)
	f(`probes_total{group="app",peer="1",result="skipped",scope="vhost:a"}`, 3)
	f(`health_transitions_total{group="app",peer="1",scope="vhost:a",to="up"}`, 2)
	f(`health_transitions_total{group="app",peer="1",scope="vhost:a",to="down"}`, 1)
	list = nil
	if got = scrape(t, m); strings.Contains(got, "_probes_total") {
		t.Error("probes of a peer that is gone")
	}
}
