package generation

import (
	"strings"
	"testing"

	"httpjet/exchange"
	"httpjet/groups"
)

// newDrainTree has groups of one name in two scopes, and a balancer.
func newDrainTree(t *testing.T) *leaseTree {
	r := newLeaseTree(t)
	r.write("conf/two.xml", strings.Replace(leaseTwo, "<context>", `<extProcessor><type>proxy</type><name>lone</name><address>http://[::1]:9000</address><address>127.0.0.1:9000</address></extProcessor>
  <extProcessor><type>loadbalancer</type><name>lb</name><workers>proxy::lone</workers></extProcessor>
  <context><type>proxy</type><uri>/lone/</uri><handler>lone</handler></context>
  <context><type>loadbalancer</type><uri>/lb/</uri><handler>lb</handler></context>
  <context>`, 1))
	return r
}

// R-DRAIN-2: groups and peers are found by the words that people have for them.
func TestDrainNames(t *testing.T) {
	r := newDrainTree(t)
	g, fs := r.build()
	defer g.Retire()
	if fs.Failed() {
		t.Fatal(fs.All())
	}
	f := func(group, peer, want string) {
		t.Helper()
		d, err := g.Drain(group, peer, true)
		got := d.Scope + "/" + d.Group + " " + d.Address
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s %s: %s", group, peer, got)
		}
		if err == nil && !d.Draining {
			t.Errorf("%s %s: %+v", group, peer, d)
		}
	}
	f("app", "0", `2 groups are called "app": name one of `)
	f("server/app", "0", "server/app 127.0.0.1:9000")
	f("vhost:one/app", "127.0.0.1:9000", "vhost:one/app 127.0.0.1:9000")
	f("lone", "1", "vhost:two/lone 127.0.0.1:9000")
	f("lone", "[::1]:9000", "vhost:two/lone [::1]:9000")
	f("lone", "http://127.0.0.1:9000", "vhost:two/lone 127.0.0.1:9000")
	f("lb", "1", "vhost:two/lb 127.0.0.1:9000")
	f("php", "uds://tmp/php.sock", "vhost:one/php /tmp/php.sock")
	f("websocket:/ws", "0", "vhost:one/websocket:/ws 127.0.0.1:9001")
	f("", "0", `no group "" is in use`)
	f("unused", "0", `no group "unused" is in use`)
	f("vhost:one/websocket:/w", "0", `no group "vhost:one/websocket:/w" is in use (is "vhost:one/websocket:/ws" meant?)`)
	f("lone", "2", `vhost:two/lone has no peer "2": write an ordinal from 0 to 1`)
	f("lone", "-1", `vhost:two/lone has no peer "-1"`)
	f("lone", "127.0.0.1:9001", "vhost:two/lone has no peer")
	f("lone", "", "vhost:two/lone has no peer")
}

// A balancer's drain is its own: its worker still has requests.
func TestDrainOfABalancer(t *testing.T) {
	r := newDrainTree(t)
	g, _ := r.build()
	defer g.Retire()
	if d, err := g.Drain("lb", "0", true); err != nil || d.Eligible != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	for _, u := range g.Upstreams() {
		draining := 0
		for _, p := range u.Peers {
			if p.Draining {
				draining++
			}
		}
		if want := map[string]int{"lb": 1}[u.Name]; draining != want {
			t.Errorf("%s: %d peers are drained, want %d", u.Name, draining, want)
		}
	}
}

// R-DRAIN-2, R-DRAIN-3: a candidate that is built while a drain comes knows of it,
// and one generation counts what is with the peer in another.
func TestDrainReachesCandidates(t *testing.T) {
	r := newGroupTree(t)
	g1, _ := r.build()
	app := r.group(g1, "/app/")
	var c groups.Choice
	res, err := app.Reserve(&c)
	if err != nil {
		t.Fatal(err)
	}
	r.write("conf/one.xml", strings.Replace(groupOne, "round-robin", "least-conn", 1))
	g2, _ := r.build()
	if d, err := g1.Drain("app", "0", true); err != nil || d.Active != 1 || d.Eligible != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	g1.Retire()
	defer g2.Retire()
	d, err := g2.Drain("app", "1", false)
	if err != nil || d.Eligible != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if p := r.group(g2, "/app/").Snapshot()[0]; !p.Draining || p.Active != 1 {
		t.Errorf("after the reload: %+v", p)
	}
	res.Release(nil)
	if p := r.group(g2, "/app/").Snapshot()[0]; p.Active != 0 {
		t.Errorf("after the last request: %+v", p)
	}
}

// A finished exchange is counted by its route, whatever became of it (R-MET-4).
func TestRoutes(t *testing.T) {
	r := newLeaseTree(t)
	g, _ := r.build()
	defer g.Retire()
	f := func(vhost, label, wantHost, wantLabel string) {
		t.Helper()
		x := &exchange.Exchange{}
		x.Route.VHost, x.Route.Label = vhost, label
		got := g.routeOf(x)
		for _, m := range g.Routed() {
			if m.Route == got && (m.VHost != wantHost || m.Label != wantLabel) {
				t.Errorf("%q %q counts for %q %q", vhost, label, m.VHost, m.Label)
			}
		}
		if got == nil {
			t.Errorf("%q %q counts nowhere", vhost, label)
		}
		if n := testing.AllocsPerRun(10, func() { g.routeOf(x) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	f("one", "/app/", "one", "/app/")
	f("one", "/ws", "one", "/ws")
	f("one", "static", "one", "static")
	f("two", "script", "two", "script")
	f("two", "", "two", unmatched)
	f("", "", "", unmatched)
	f("gone", "/x", "", unmatched)
	first := g.routeOf(&exchange.Exchange{Route: exchange.Route{VHost: "one", Label: "/app/"}})
	g2, _ := r.build()
	defer g2.Retire()
	if again := g2.routeOf(&exchange.Exchange{Route: exchange.Route{VHost: "one", Label: "/app/"}}); again != first { // R-MET-3
		t.Error("a reload begins to count anew")
	}
}
