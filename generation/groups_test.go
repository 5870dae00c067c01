package generation

import (
	"strings"
	"testing"
	"time"

	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/xmlconf"
)

const groupServer = `<httpServerConfig>
  <virtualHost><name>one</name><vhRoot>.</vhRoot><configFile>conf/one.xml</configFile></virtualHost>
</httpServerConfig>`

const groupOne = `<virtualHostConfig><docRoot>html</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>127.0.0.1:9000</address><address>127.0.0.1:9001</address>
    <retryTimeout>600</retryTimeout><loadBalancePolicy>round-robin</loadBalancePolicy></extProcessor>
  <extProcessor><type>proxy</type><name>sibling</name><address>127.0.0.1:9000</address></extProcessor>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>
  <context><type>proxy</type><uri>/again/</uri><handler>app</handler></context>
  <context><type>proxy</type><uri>/sibling/</uri><handler>sibling</handler></context>
</virtualHostConfig>`

func newGroupTree(t *testing.T) *leaseTree {
	r := newLeaseTree(t)
	r.write("conf/httpd_config.xml", groupServer)
	r.write("conf/one.xml", groupOne)
	return r
}

// group returns the group behind a context of host one.
func (r *leaseTree) group(g *Generation, uri string) *groups.Group {
	r.t.Helper()
	b := &builder{cfg: g.Config, kept: &r.kept, fs: &xmlconf.Findings{}, g: g, probed: map[peerKey]bool{}}
	for _, h := range g.Config.VHosts {
		procs := b.buildProcessors("vhost:"+h.Name, h.Conf.ExtProcessors, nil)
		for _, c := range h.Conf.Contexts {
			if c.URI == uri {
				return b.group(procs.find(xmlconf.KindProxy, c.Handler))
			}
		}
	}
	r.t.Fatalf("no context %s", uri)
	return nil
}

// broken makes a verdict of a peer visible: its dials fail.
func broken(t *testing.T, g *groups.Group) {
	t.Helper()
	for range 6 {
		var c groups.Choice
		res, err := g.Reserve(&c)
		if err != nil {
			t.Fatal(err)
		}
		if res.Peer() == 0 {
			res.Release(&extproc.DialError{Addr: "127.0.0.1:9000"})
		} else {
			res.Release(nil)
		}
	}
	if s := g.Snapshot(); s[0].Dial != "open" {
		t.Fatalf("%+v", s)
	}
}

// R-GRP-9, R-RELOAD-5, D-39: what is known of a group and of its peers survives a
// reload by identity.
func TestReloadKeepsGroups(t *testing.T) {
	r := newGroupTree(t)
	g1, fs := r.build()
	if fs.Count(xmlconf.Error)+fs.Count(xmlconf.Warn) > 2 { // no listener, no exact domain
		t.Fatal(fs.All())
	}
	app := r.group(g1, "/app/")
	broken(t, app)
	app.Drain(1, true)
	if s := r.group(g1, "/sibling/").Snapshot(); s[0].Dial != "closed" { // G19
		t.Errorf("another group at the same address: %+v", s)
	}
	f := func(what, change, to string, dial string, draining bool, picks bool) {
		t.Helper()
		r.write("conf/one.xml", strings.ReplaceAll(groupOne, change, to))
		g, fs := r.build()
		if fs.Failed() {
			t.Fatal(fs.All())
		}
		s := r.group(g, "/app/").Snapshot()
		if s[0].Dial != dial || s[1].Draining != draining || s[1].Picks > 0 != picks {
			t.Errorf("%s: %+v", what, s)
		}
		g.Retire()
	}
	f("nothing", "x", "x", "open", true, true)
	f("what is no identity", "<retryTimeout>600", "<maxConns>7</maxConns><maxInFlight>9</maxInFlight><retryTimeout>60", "open", true, true)
	f("weights", "<loadBalancePolicy>", "<addressWeights>1,2</addressWeights><loadBalancePolicy>", "open", true, false) // R-DRAIN-2: of the peer
	f("policy", "round-robin", "least-conn", "open", true, false)
	f("breaker", "<retryTimeout>", "<circuitBreaker/><retryTimeout>", "open", true, false)
	f("an endpoint", "9001", "9002", "open", false, false)
	f("the peer itself", "9000", "9009", "closed", true, false)
	g1.Retire()
	if n, m, s := r.kept.Groups.Len(), r.kept.Verdicts.Len(), r.kept.Seats.Len(); n != 0 || m != 0 || s != 0 {
		t.Errorf("%d states, %d verdicts and %d seats are left", n, m, s)
	}
}

// G22: a peer that is known to be down gets nothing because of a reload, and one
// that is new gets nothing before its health check has passed.
func TestG22ReloadKeepsThePeerDown(t *testing.T) {
	r := newGroupTree(t)
	checked := strings.Replace(groupOne, "<retryTimeout>", "<healthCheck><rise>2</rise><fall>2</fall></healthCheck><retryTimeout>", 1)
	r.write("conf/one.xml", checked)
	g, _ := r.build()
	for i, ok := range []bool{false, true} {
		r.group(g, "/app/").Report(i, ok)
		r.group(g, "/app/").Report(i, ok)
	}
	picks := func(n int) (down int) {
		for range n {
			var c groups.Choice
			res, err := r.group(g, "/app/").Reserve(&c)
			if err != nil {
				t.Fatal(err)
			}
			if res.Peer() == 0 {
				down++
			}
			res.Release(nil)
		}
		return down
	}
	for i := range 100 {
		r.write("conf/one.xml", strings.Replace(checked, "<docRoot>", "<!-- "+strings.Repeat("x", i)+" --><docRoot>", 1))
		next, _ := r.build()
		g.Retire()
		if g = next; picks(10) != 0 {
			t.Fatalf("reload %d: the peer that is down had requests", i)
		}
	}
	r.write("conf/one.xml", strings.Replace(checked, "9000", "9007", 1))
	next, _ := r.build()
	g.Retire()
	if g = next; picks(10) != 0 {
		t.Error("a new peer had requests before it was checked")
	}
	r.group(g, "/app/").Report(0, true)
	r.group(g, "/app/").Report(0, true)
	if picks(10) != 5 {
		t.Error("a peer that has passed its health check has no turns")
	}
	g.Retire()
}

// R-RATE-1, and what a reload may change of it: the bucket stays, the rate need not.
func TestPeerRateLimit(t *testing.T) {
	r := newGroupTree(t)
	limited := func(limit string) *Generation {
		r.write("conf/one.xml", strings.Replace(groupOne, "<retryTimeout>", "<peerRateLimit>"+limit+"</peerRateLimit><retryTimeout>", 1))
		g, fs := r.build()
		if fs.Failed() {
			t.Fatal(fs.All())
		}
		return g
	}
	began := time.Now()
	reserve := func(g *Generation, want int) {
		t.Helper()
		n := 0
		for range 20 {
			var c groups.Choice
			if res, err := r.group(g, "/app/").Reserve(&c); err == nil {
				res.Release(nil)
				n++
			}
		}
		if more := n - want; more < 0 || more > 2*int(time.Since(began)/time.Second) { // a token a second comes to each
			t.Errorf("%d of 20 requests had a peer, want %d", n, want)
		}
	}
	g1 := limited("<reqPerSec>1</reqPerSec><burst>3</burst>")
	defer g1.Retire()
	reserve(g1, 6) // of two peers
	for _, m := range g1.Groups().All {
		if m.Name == "app" && m.Peers[0].RateLimited == 0 {
			t.Errorf("%+v", m)
		}
	}
	g2 := limited("<reqPerSec>1</reqPerSec><burst>5</burst>")
	defer g2.Retire()
	reserve(g2, 0)
	g3 := limited("<reqPerSec>0</reqPerSec>")
	defer g3.Retire()
	reserve(g3, 20)
}

// All that name a processor share its group in one generation.
func TestContextsShareAGroup(t *testing.T) {
	r := newGroupTree(t)
	g, _ := r.build()
	defer g.Retire()
	if n, m := r.kept.Groups.Len(), r.kept.Verdicts.Len(); n != 2 || m != 3 {
		t.Errorf("%d states and %d verdicts, want 2 and 3", n, m)
	}
	b := &builder{cfg: g.Config, kept: &r.kept, fs: &xmlconf.Findings{}, g: g, probed: map[peerKey]bool{}}
	p := b.buildProcessors("vhost:one", g.Config.VHosts[0].Conf.ExtProcessors, nil).find(xmlconf.KindProxy, "app")
	first := b.group(p)
	if again := b.group(p); first != again {
		t.Error("two groups of one processor")
	}
}

// R-LB-8: two sticky groups that one client's cookie would go to need two names.
func TestStickyCookiesMeet(t *testing.T) {
	f := func(first, second string, want bool) {
		t.Helper()
		r := newGroupTree(t)
		one := strings.Replace(groupOne, "round-robin</loadBalancePolicy>", "sticky</loadBalancePolicy>"+first, 1)
		r.write("conf/one.xml", strings.Replace(one, "9000</address></ext", "9000</address><loadBalancePolicy>sticky</loadBalancePolicy>"+second+"</ext", 1))
		g, fs := r.build()
		defer g.Retire()
		found := false
		for _, l := range fs.All() {
			found = found || l.Code == "W-STICKY-COOKIE"
		}
		if found != want || fs.Failed() {
			t.Errorf("%q and %q: found %v: %v", first, second, found, fs.All())
		}
	}
	f("", "", true)
	f("", "<cookieName>B</cookieName>", false)
	f("<stickyCookie><path>/app/</path></stickyCookie>", "<stickyCookie><path>/sibling/</path></stickyCookie>", false)
	f("<stickyCookie><path>/app/</path></stickyCookie>", "", true)
}

// Kinds are apart, labels are not: two processors of one name have two.
func TestLabelsOfGroups(t *testing.T) {
	r := newGroupTree(t)
	r.write("conf/one.xml", strings.Replace(groupOne, "<context>", `<extProcessor><type>fcgi</type><name>app</name><address>127.0.0.1:9005</address></extProcessor>
  <context><type>fcgi</type><uri>/run/</uri><handler>app</handler></context><context>`, 1))
	g, _ := r.build()
	defer g.Retire()
	seen := map[string]int{}
	for _, m := range g.Groups().All {
		seen[m.Scope+" "+m.Name] += len(m.Peers)
	}
	if len(seen) != 3 || seen["vhost:one app"]+seen["vhost:one fcgi::app"]+seen["vhost:one proxy::app"] != 3 || seen["vhost:one sibling"] != 1 {
		t.Errorf("%v", seen)
	}
}

// A script handler may name a proxy processor: no context is behind it.
func TestScriptHandlerOfAProxy(t *testing.T) {
	r := newGroupTree(t)
	r.write("conf/one.xml", strings.Replace(groupOne, "<context>", "<scriptHandler><suffix>app</suffix><type>proxy</type><handler>app</handler></scriptHandler><context>", 1))
	g, fs := r.build()
	defer g.Retire()
	if fs.Failed() || len(g.Groups().All) != 2 {
		t.Errorf("%d groups: %v", len(g.Groups().All), fs.All())
	}
}
