package generation

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"httpjet/groups"
)

// patience is how long an event may take to come.
const patience = 30 * time.Second

const checked = `<healthCheck><mode>GET</mode><path>/x</path><interval>1</interval><timeout>1</timeout><rise>1</rise><fall>1</fall></healthCheck>`

// withCheck is the configuration of groups with a health check on "app".
func withCheck(check string) string {
	return strings.Replace(groupOne, "<retryTimeout>600</retryTimeout>", check, 1)
}

// standings are the peers of a group by their probes.
func standings(g *groups.Group) string {
	var out []string
	for _, p := range g.Snapshot() {
		switch {
		case p.Cold:
			out = append(out, "cold")
		case p.Healthy:
			out = append(out, "up")
		default:
			out = append(out, "down")
		}
	}
	return strings.Join(out, " ")
}

// R-GRP-9, R-RELOAD-5, D-39: the verdict of probes survives while the peer and its
// check stay, whatever becomes of the group; G19: two processors share nothing.
func TestReloadKeepsVerdictsOfProbes(t *testing.T) {
	r := newGroupTree(t)
	check := withCheck(checked)
	r.write("conf/one.xml", check)
	g1, fs := r.build()
	if fs.Failed() {
		t.Fatal(fs.All())
	}
	for _, p := range g1.peers {
		p.Verdict.Report(p.Ordinal == 0)
	}
	if s := standings(r.group(g1, "/app/")) + ", " + standings(r.group(g1, "/sibling/")); s != "up down, up" {
		t.Fatal(s)
	}
	f := func(what, change, to, want string) {
		t.Helper()
		r.write("conf/one.xml", strings.ReplaceAll(check, change, to))
		g, fs := r.build()
		if fs.Failed() {
			t.Fatal(fs.All())
		}
		if s := standings(r.group(g, "/app/")); s != want {
			t.Errorf("%s: %s, want %s", what, s, want)
		}
		g.Retire()
	}
	f("nothing", "x", "x", "up down")
	f("what is no identity", "<healthCheck>", "<maxConns>7</maxConns><maxInFlight>9</maxInFlight><retryTimeout>60</retryTimeout><healthCheck>", "up down")
	f("weights", "<loadBalancePolicy>", "<addressWeights>1,2</addressWeights><loadBalancePolicy>", "up down")
	f("policy", "round-robin", "least-conn", "up down")
	f("an endpoint", "9001", "9002", "up cold")
	f("the order", "<address>127.0.0.1:9000</address><address>127.0.0.1:9001</address>",
		"<address>127.0.0.1:9001</address><address>127.0.0.1:9000</address>", "down up")
	f("a path", "/x", "/y", "cold cold")
	f("an interval", "<interval>1<", "<interval>2<", "cold cold")
	f("rise", "<rise>1<", "<rise>2<", "cold cold")
	f("no check", checked, "", "up up")
	g1.Retire()
	if n := r.kept.Verdicts.Len() + r.kept.Clocks.Len() + r.kept.Counts.Len(); n != 0 {
		t.Errorf("%d verdicts, clocks and counts are left", n)
	}
}

// R-PROBE-5: building starts nothing, which TestMain proves; publishing does, and
// retiring ends it.
func TestProbesOfAGeneration(t *testing.T) {
	asked := make(chan string, 100)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
	}))
	defer backend.Close()
	r := newGroupTree(t)
	r.write("conf/one.xml", strings.ReplaceAll(withCheck(checked), "127.0.0.1:9000", backend.Listener.Addr().String()))
	g, fs := r.build()
	if fs.Failed() || len(g.Probed()) != 2 {
		t.Fatal(g.Probed(), fs.All())
	}
	if len(asked) > 0 {
		t.Error("asked before it was published")
	}
	g.StartProbes()
	select {
	case path := <-asked:
		if path != "/x" {
			t.Errorf("asked %s", path)
		}
	case <-time.After(patience):
		t.Fatal("no probe")
	}
	g.Retire()
	if p := g.Probed()[0]; p.Scope != "vhost:one" || p.Group != "app" || p.Peer != 0 {
		t.Errorf("%+v", p)
	}
	g.Retire() // a second time is nothing
}

// A tree that is refused is built too: whatever its checks hold.
func TestChecksOfARefusedTree(t *testing.T) {
	r := newGroupTree(t)
	f := func(text string) {
		t.Helper()
		r.write("conf/one.xml", text)
		g, fs := r.build()
		if !fs.Failed() {
			t.Errorf("%s is not refused", text)
		}
		g.Retire()
	}
	f(withCheck("<healthCheck><interval>0</interval><timeout>0</timeout><rise>0</rise></healthCheck>"))
	f(withCheck("<healthCheck><mode>POST</mode><path>x y</path></healthCheck>"))
	f(strings.ReplaceAll(strings.ReplaceAll(withCheck(checked), "<type>proxy</type><name>app", "<type>fcgi</type><name>app"),
		"<context><type>proxy</type><uri>/app/", "<context><type>fcgi</type><uri>/app/"))
	if n := r.kept.Verdicts.Len() + r.kept.Clocks.Len(); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

// A load balancer and its worker share what is known of a peer, and one probe.
func TestBalancersShareProbes(t *testing.T) {
	r := newGroupTree(t)
	text := strings.Replace(withCheck(checked), "<context>", `<extProcessor><type>loadbalancer</type><name>lb</name><workers>proxy::app</workers></extProcessor>
  <context><type>loadbalancer</type><uri>/lb/</uri><handler>lb</handler></context><context>`, 1)
	r.write("conf/one.xml", text)
	g, fs := r.build()
	defer g.Retire()
	if fs.Failed() || len(g.upstreams) != 3 || len(g.peers) != 2 {
		t.Fatal(len(g.upstreams), g.peers, fs.All())
	}
	g.peers[1].Verdict.Report(true)
	for _, u := range g.upstreams {
		if s := standings(u.group); u.name != "sibling" && s != "cold up" {
			t.Errorf("%s: %s", u.name, s)
		}
	}
	for _, p := range g.Probed() {
		if p.Group != "app" {
			t.Errorf("%+v", p)
		}
	}
}
