package metrics

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

const docsHead = `# Metrics

Generated from the registry; do not edit: ` + "`go test ./metrics -run TestDocs -update`" + `. Beside these ` + "`/metrics`" + ` has the
collectors of the Go runtime (` + "`go_`" + `) and of the process (` + "`process_`" + `).

Untyped ones count too: their names are those of older dashboards and do not end in
` + "`_total`" + `. Counters survive reloads and begin anew with the process; those of a group begin anew
when the group changes, and series of what a configuration no longer has are gone.
` + "`scope`" + ` is ` + "`server`" + ` or ` + "`vhost:NAME`" + `, ` + "`group`" + ` the name of the processor, ` + "`peer`" + ` the ordinal of its
address, ` + "`route`" + ` the uri of a context or map, or static, script, unmatched. No label
holds a URL, an address or anything that a client chose. 32 virtual hosts have labels of
their own, the others share ` + "`__other__`" + `.

` + docsTable

const docsTable = `| metric | type | labels | is |
|---|---|---|---|
`

const docsLiteSpeed = `
## Names of LiteSpeed's exporter

With ` + "`<management><litespeedMetrics>1</litespeedMetrics></management>`" + ` there are also the names by which LiteSpeed's
Prometheus exporter tells them, so that dashboards made for it go on. ` + "`vhost`" + ` "" is all hosts together, or of
an application that it is one of the server; ` + "`app_type`" + ` is LSAPI, FCGI or PROXY. Rates are those between the two
scrapes before; there is no ` + "`core`" + `. What httpjet does not count by host has "" alone, and what it does not count
at all is not there: private hits of the page cache, bytes by host, sessions, cgroups. New dashboards should
use the names above.

` + docsTable

// full has a sample of everything.
func full() *Metrics {
	m := New()
	calls := func() Gateway {
		return Gateway{Requests: map[string]uint64{"success": 1}, Poisoned: map[string]uint64{"protocol": 1}}
	}
	m.EnableLiteSpeed(true)
	m.Watch(Gauges{LiteSpeed: func() LiteSpeed { return LiteSpeed{Apps: []LiteSpeedApp{{Type: "LSAPI", Name: "php"}}} }, FastCGI: calls, LSAPI: calls, Started: func() Started { return Started{States: map[string]int{"ready": 1}} }, HTTP2: func() HTTP2 { return HTTP2{Ended: map[string]uint64{"protocol_error": 1}} },
		TLS:   func() TLS { return TLS{Certificates: []Certificate{{Name: "a.test", Source: "file"}}} },
		Rates: func() []Rate { return []Rate{{Scope: "global"}} }, Probed: func() []Probed { return []Probed{{Scope: "server", Group: "app"}} }})
	m.WatchGroups(func() Groups {
		return Groups{[]string{"dial"}, []string{"success"}, []Group{{Scope: "server", Name: "app", Peers: []Peer{{Failures: []uint64{1}, Attempts: []uint64{1}}}}}}
	})
	r := &Route{}
	r.Finished(200, 0)
	m.WatchRoutes(func() []Routed { return []Routed{{"site", "static", r}} })
	return m
}

// families is what a scrape tells, by name.
func families(t *testing.T, m *Metrics) []*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	all, err := p.TextToMetricFamilies(strings.NewReader(scrape(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// docs/metrics.md is what the registry has.
func TestDocs(t *testing.T) {
	families := families(t, full())
	var out strings.Builder
	out.WriteString(docsHead)
	table := func(prefix string) {
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), prefix) {
				continue
			}
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
		}
	}
	table("httpjet_")
	out.WriteString(docsLiteSpeed)
	table("litespeed_")
	const file = "../docs/metrics.md"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != out.String() {
		t.Errorf("docs/metrics.md is out of date: run go test ./metrics -run TestDocs -update")
	}
}
