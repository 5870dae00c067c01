package xmlconf

import (
	"encoding/json"
	"testing"
	"time"
)

// R-API-6: what holds, with what is not written, and nothing that does not act.
func TestEffective(t *testing.T) {
	tuning := Tuning{ConnTimeout: 1500 * time.Millisecond, MaxReqBodySize: 7 << 20, ProxyErrorHeader: true}
	got := Effective(&tuning)
	for name, want := range map[string]any{"connTimeout": 1.5, "maxReqBodySize": int64(7 << 20), "proxyErrorHeader": true, "maxConnections": 0} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if _, there := got["sslSessionCache"]; there {
		t.Error("an element without an effect is there")
	}
	if b, err := json.Marshal(Effective(&Management{Address: "127.0.0.1:1"})); err != nil || string(b) != `{"address":"127.0.0.1:1","allowedCIDRs":[],"litespeedMetrics":false,"pprof":false,"socketMode":0}` {
		t.Errorf("%s, %v", b, err)
	}
}
