package generation

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"httpjet/groups"
	"httpjet/xmlconf"
)

const (
	manyGroups = 2000
	manyPeers  = 256
)

// manyTree has 2,000 groups of two peers with everything on, and one group of 256,
// each behind a context of its own.
func manyTree(r *leaseTree) {
	var b strings.Builder
	b.WriteString("<virtualHostConfig><docRoot>html</docRoot>")
	for i := range manyGroups {
		fmt.Fprintf(&b, `<extProcessor><type>proxy</type><name>app%d</name>
<address>10.%d.%d.1:80</address><address>10.%d.%d.2:80</address>
<loadBalancePolicy>weighted-round-robin</loadBalancePolicy><addressWeights>3,1</addressWeights>
<healthCheck><mode>GET</mode></healthCheck><circuitBreaker/><retry><retries>1</retries></retry></extProcessor>
<context><type>proxy</type><uri>/app%d/</uri><handler>app%d</handler></context>
`, i, i/256, i%256, i/256, i%256, i, i)
	}
	b.WriteString("<extProcessor><type>proxy</type><name>wide</name>")
	for i := range manyPeers {
		fmt.Fprintf(&b, "<address>10.200.0.%d:80</address>", i)
	}
	b.WriteString("<loadBalancePolicy>ip-hash</loadBalancePolicy><healthCheck/></extProcessor><context><type>proxy</type><uri>/wide/</uri><handler>wide</handler></context></virtualHostConfig>")
	r.write("conf/httpd_config.xml", groupServer)
	r.write("conf/one.xml", b.String())
}

// R-GRP-1: a group may have 256 peers and a tree 2,000 groups; each peer is probed,
// and all of it is given back. docs/groups.md says what it costs.
func TestManyGroups(t *testing.T) {
	r := newLeaseTree(t)
	manyTree(r)
	g, fs := r.build()
	if fs.Failed() || fs.Count(xmlconf.Error) > 0 {
		t.Fatal(fs.All())
	}
	const peers = 2*manyGroups + manyPeers
	if n, p := len(g.Groups().All), len(g.Probed()); n != manyGroups+1 || p != peers {
		t.Errorf("%d groups, %d probed peers", n, p)
	}
	r.holds("after the build", peers, 0, r.kept.Sinks.Len())
	var c groups.Choice
	if _, err := g.upstreams[manyGroups].group.Reserve(&c); err != groups.ErrNoPeer { // it is cold
		t.Error(err)
	}
	g.Retire()
	if n := r.kept.Proxies.Len() + r.kept.Groups.Len() + r.kept.Verdicts.Len() + r.kept.Clocks.Len() + r.kept.Counts.Len(); n != 0 {
		t.Errorf("%d values are kept", n)
	}
}

// BenchmarkManyGroups reads and builds that tree; heap-KiB is what the generation
// holds.
func BenchmarkManyGroups(b *testing.B) {
	r := newLeaseTree(b)
	manyTree(r)
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / 1024
	}
	before, after := heap(), 0.0
	for b.Loop() {
		g, fs := r.build()
		if fs.Failed() {
			b.Fatal(fs.All())
		}
		b.StopTimer()
		after = heap()
		runtime.KeepAlive(g)
		g.Retire()
		b.StartTimer()
	}
	b.ReportMetric(after-before, "heap-KiB")
}
