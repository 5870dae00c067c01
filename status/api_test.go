package status

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"httpjet/budget"
	"httpjet/generation"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

const site = `<virtualHostConfig><docRoot>html</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>10.9.8.7:9000</address><address>10.9.8.6:9001</address>
    <loadBalancePolicy>weighted-round-robin</loadBalancePolicy><addressWeights>3,1</addressWeights><addressDrain>1</addressDrain></extProcessor>
  <extProcessor><type>proxy</type><name>checked</name><address>https://10.9.8.7:9443</address><healthCheck><mode>HEAD</mode></healthCheck></extProcessor>
  <extProcessor><type>fcgi</type><name>php</name><address>uds://tmp/secret.sock</address></extProcessor>
  <scriptHandler><suffix>php,inc</suffix><type>fcgi</type><handler>php</handler></scriptHandler>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>
  <context><type>proxy</type><uri>/again/</uri><handler>app</handler><retry><retries>2</retries><retryMethods>GET</retryMethods></retry></context>
  <context><type>proxy</type><uri>/checked/</uri><handler>checked</handler></context>
  <websocket><uri>/live</uri><address>10.9.8.7:9100</address></websocket>
</virtualHostConfig>`

const serverFile = `<httpServerConfig>
  <tuning><maxReqBodySize>10M</maxReqBodySize><sslSessionTicketKeyFile>/srv/keys/tickets</sslSessionTicketKeyFile></tuning><tracing><mode>inject</mode></tracing>
  <extProcessor><type>proxy</type><name>shared</name><address>10.9.8.5:80</address></extProcessor>
  <virtualHost><name>one</name><vhRoot>.</vhRoot><configFile>conf/one.xml</configFile></virtualHost>
  <virtualHost><name>two</name><vhRoot>.</vhRoot><configFile>conf/two.xml</configFile></virtualHost>
</httpServerConfig>`

// build makes a generation of a tree whose hosts are one and two.
func build(t *testing.T, one, two string) *generation.Generation {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"conf/httpd_config.xml": serverFile, "conf/one.xml": one, "conf/two.xml": two} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fs := &xmlconf.Findings{}
	cfg := xmlconf.LoadServer(root, fs)
	if cfg == nil {
		t.Fatal(fs.All())
	}
	g := generation.Build(cfg, &generation.Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}, generation.Options{}, fs)
	if fs.Failed() {
		t.Fatal(fs.All())
	}
	t.Cleanup(g.Retire)
	return g
}

const plainHost = `<virtualHostConfig><docRoot>html</docRoot>%s</virtualHostConfig>`

// document asks an API over a State and decodes the answer.
func document(t *testing.T, s State, path string, out any) (status int, text string) {
	t.Helper()
	api := &API{State: func() State { return s }}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
		t.Fatalf("%s: %v: %s", path, err, w.Body)
	}
	if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" { // R-API-7
		t.Errorf("%s: %v", path, w.Header())
	}
	return w.Code, w.Body.String()
}

// R-API-5: groups, routes, checks and peers; no address anywhere.
func TestUpstreams(t *testing.T) {
	g := build(t, site, strings.Replace(plainHost, "%s", `<context><type>proxy</type><uri>/</uri><handler>shared</handler></context>`, 1))
	var got Upstreams
	code, text := document(t, State{Generation: g}, "/api/v1/upstreams", &got)
	if code != 200 || strings.Contains(text, "10.9.8") || strings.Contains(text, "secret") || strings.Contains(text, "9000") {
		t.Errorf("%d %s", code, text)
	}
	names := map[string]Group{}
	for _, d := range got.Groups {
		names[d.Scope+"/"+d.Name] = d
	}
	if len(names) != 5 || got.Groups[0].Scope != "server" {
		t.Fatalf("%d groups: %s", len(names), text)
	}
	app := names["vhost:one/app"]
	if app.Kind != "proxy" || app.Protocol != "http" || app.Policy != "weighted-round-robin" || app.Check != nil ||
		len(app.Routes) != 2 || app.Routes[1].VHost != "one" || app.Routes[1].URI != "/again/" || app.Routes[0].Retries != 0 ||
		app.Routes[1].Retries != 2 || len(app.Routes[1].RetryMethods) != 1 || len(app.Peers) != 2 {
		t.Errorf("%+v", app)
	}
	if p := app.Peers[0]; p.Weight != 3 || p.State != "eligible" || !p.Healthy || p.Draining || p.Probe != nil || p.Dial != "closed" || p.Pool == nil {
		t.Errorf("%+v", p)
	}
	if p := app.Peers[1]; p.Ordinal != 1 || p.Weight != 1 || p.State != "draining" || !p.Draining || !p.Healthy {
		t.Errorf("%+v", p)
	}
	checked := names["vhost:one/checked"]
	if checked.Protocol != "https" || checked.Check == nil || *checked.Check != (Check{"HEAD", 10, 2, 2, 3}) || checked.Peers[0].State != "cold" {
		t.Errorf("%+v %+v", checked, checked.Check)
	}
	if php := names["vhost:one/php"]; php.Kind != "fcgi" || php.Routes[0].URI != "*.php,*.inc" {
		t.Errorf("%+v", php)
	}
	if ws := names["vhost:one/websocket:/live"]; ws.Routes[0].URI != "/live" { // R-WS-2
		t.Errorf("%+v", ws)
	}
	for query, n := range map[string]int{"?scope=server": 1, "?scope=vhost:one": 4, "?group=app": 1, "?scope=server&group=app": 0, "?group=": 5} {
		if document(t, State{Generation: g}, "/api/v1/upstreams"+query, &got); len(got.Groups) != n {
			t.Errorf("%s: %d groups, want %d", query, len(got.Groups), n)
		}
	}
}

// R-API-2: contexts and maps decide, scripts and hosts that answer nothing do not.
func TestReady(t *testing.T) {
	f := func(what string, s State, want ...Reason) {
		t.Helper()
		var got Readiness
		code, text := document(t, s, "/readyz", &got)
		if ready := len(want) == 0; (code == 200) != ready || (got.Status == "ready") != ready || !slices.Equal(got.Reasons, want) {
			t.Errorf("%s: %d %s", what, code, text)
		}
	}
	context := func(extra string) string {
		return strings.Replace(plainHost, "%s", `<extProcessor><type>proxy</type><name>app</name><address>127.0.0.1:1</address>`+extra+`</extProcessor>
			<context><type>proxy</type><uri>/a/</uri><handler>app</handler></context><context><type>proxy</type><uri>/b/</uri><handler>app</handler></context>`, 1)
	}
	empty := strings.Replace(plainHost, "%s", "", 1)
	f("nothing yet", State{}, Reason{Reason: "starting"})
	f("no upstream", State{Generation: build(t, empty, empty)})
	f("one peer", State{Generation: build(t, context(""), empty)})
	f("in a drain", State{Generation: build(t, context(""), empty), Draining: true}, Reason{Reason: "draining"})
	f("drained", State{Generation: build(t, context("<addressDrain>0</addressDrain>"), empty)},
		Reason{"one", "/a/", "no_eligible_peer"}, Reason{"one", "/b/", "no_eligible_peer"})
	f("cold", State{Generation: build(t, empty, context("<healthCheck/>"))},
		Reason{"two", "/a/", "no_eligible_peer"}, Reason{"two", "/b/", "no_eligible_peer"})
	closed := strings.Replace(context("<addressDrain>0</addressDrain>"), "<uri>/a/</uri>", "<uri>/a/</uri><realm>r</realm>", 1)
	f("a context that answers 503 anyway", State{Generation: build(t, closed, empty)}, Reason{"one", "/b/", "no_eligible_peer"})
	off := strings.Replace(context("<addressDrain>0</addressDrain>"), "<docRoot>", "<enabled>0</enabled><docRoot>", 1)
	f("a host that is off", State{Generation: build(t, off, empty)})
	unused := strings.Replace(plainHost, "%s", `<extProcessor><type>fcgi</type><name>php</name><address>127.0.0.1:1</address></extProcessor>
		<scriptHandler><suffix>php</suffix><type>fcgi</type><handler>php</handler></scriptHandler>`, 1)
	f("scripts", State{Generation: build(t, unused, empty)})
}

// R-API-3: one peer that is not healthy is enough; the body is that of the groups
// without pools.
func TestHealth(t *testing.T) {
	var got Health
	code, text := document(t, State{Generation: build(t, site, site)}, "/healthz", &got)
	if code != 503 || got.Status != "degraded" || len(got.Groups) != 8 || strings.Contains(text, `"pool"`) {
		t.Errorf("a cold peer: %d %s", code, text)
	}
	healthy := strings.Replace(site, "<healthCheck><mode>HEAD</mode></healthCheck>", "", 1)
	if code, text = document(t, State{Generation: build(t, healthy, healthy)}, "/healthz", &got); code != 200 || got.Status != "ok" {
		t.Errorf("%d %s", code, text)
	}
	if code, _ = document(t, State{}, "/healthz", &got); code != 200 || got.Groups == nil {
		t.Errorf("nothing yet: %d %+v", code, got)
	}
}

// R-API-4
func TestStatus(t *testing.T) {
	g := build(t, site, "<broken")
	at := time.Unix(1000, 0).UTC()
	s := State{Generation: g, Version: "v1", Started: time.Now().Add(-90 * time.Second), Reload: Reload{"failure", "why", &at},
		Listeners: []Listener{{"Default", "127.0.0.1:80", false, []string{"h1"}}}, Finished: 7, Classes: [6]uint64{2: 5, 4: 2}, Active: 1, Open: 3, Tunnels: 2,
		ByAge: []Tunnels{{3, 5}}, Caches: func() Caches { return Caches{ProxyCache: ProxyCache{Hits: 9}} }}
	var got Status
	code, text := document(t, s, "/api/v1/status", &got)
	if code != 200 || got.Version != "v1" || got.Generation.Number != g.Number || got.Generation.Hash != g.Hash || len(got.Generation.Hash) != 64 ||
		got.Uptime < 90 || got.Uptime > 900 || got.Requests.Total != 7 || got.Requests.ByClass["2xx"] != 5 || got.Requests.ByClass["3xx"] != 0 ||
		got.Requests.Active != 1 || got.Conns.Active != 3 || got.Relays != 2 || got.Listeners[0].Address != "127.0.0.1:80" ||
		got.Generation.Reload.Error != "why" || !slices.Equal(got.Generation.Degraded, []string{"virtual host two did not load"}) {
		t.Errorf("%d %s", code, text)
	}
	for _, name := range []string{`"version"`, `"generation":{"number"`, `"loaded_at"`, `"last_reload":{"result"`, `"uptime_s"`, `"draining":false`, `"listeners":[{"name"`, `"caches":{"page_cache":null,"proxy_cache":{`, `"hits":9`, `"tunnels":[{"generation":3,"open":5}]`, `"websocket_relays"`} {
		if !strings.Contains(text, name) {
			t.Errorf("%s is missing: %s", name, text)
		}
	}
	if _, text = document(t, State{Reload: Reload{Result: "none"}}, "/api/v1/status", &got); !strings.Contains(text, `"caches":{}`) || !strings.Contains(text, `"tunnels":[]`) || !strings.Contains(text, `"listeners":[]`) || !strings.Contains(text, `"last_reload":{"result":"none"}`) {
		t.Errorf("nothing yet: %s", text)
	}
}

// R-API-7: the listener tells where and what is wrong, the control socket also how.
func TestStatusTellsNoValues(t *testing.T) {
	f := func(said, told string) {
		t.Helper()
		s := State{Generation: &generation.Generation{Degraded: []string{said}}, Reload: Reload{Result: "failure", Error: said}}
		for whole, want := range map[bool]string{false: told, true: said} {
			w := httptest.NewRecorder()
			(&API{State: func() State { return s }, Whole: whole}).ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/status", nil))
			var got Status
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got.Generation.Reload.Error != want || got.Generation.Degraded[0] != want {
				t.Errorf("%v: %+v, want %q", whole, got.Generation, want)
			}
		}
		if s.Generation.Degraded[0] != said {
			t.Error("the generation was changed")
		}
	}
	f(`conf/a.xml:2:58: error E-ADDR: extProcessor "app": address "10.9.8.7:99999" has no port (write one)`, "conf/a.xml:2:58: error E-ADDR")
	f(`conf/my site.xml:2:58: error E-ADDR: address "10.9.8.7:99999" has no port; virtual host site did not load`, "conf/my site.xml:2:58: error E-ADDR")
	f("virtual host site did not load", "virtual host site did not load")
	f("certificate /srv/a.pem with key /srv/keys/a.pem: they differ", "certificate ... with key ...: they differ")
	f("/srv/a.xml:1:1: error E-READ: no such file", "...:1:1: error E-READ")
	f("", "")
}

// R-API-6: what holds, and no path to a key.
func TestConfig(t *testing.T) {
	var got Settings
	s := State{Generation: build(t, site, site), Management: Config{Addr: "127.0.0.1:9090"}}
	code, text := document(t, s, "/api/v1/config", &got)
	if code != 200 || got.Tuning["maxReqBodySize"] != 10485760.0 || got.Tuning["connTimeout"] != 60.0 || got.Tracing["mode"] != "inject" ||
		!strings.Contains(text, `"management":{"address":"127.0.0.1:9090","allowedCIDRs":["127.0.0.0/8","::1/128"],"pprof":false}`) {
		t.Errorf("%d %s", code, text)
	}
	for _, word := range []string{"keyfile", "certfile", "secret", "10.9.8", "/tmp", "/srv"} {
		if strings.Contains(strings.ToLower(strings.ReplaceAll(text, "KeepAlive", "")), word) {
			t.Errorf("the configuration holds %q: %s", word, text)
		}
	}
	if code, text = document(t, State{}, "/api/v1/config", &got); code != 200 || !strings.Contains(text, `"management":null`) {
		t.Errorf("nothing yet: %d %s", code, text)
	}
}
