package generation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"httpjet/budget"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// TestMain proves with every test that a build starts nothing (R-CFG-8).
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const leaseServer = `<httpServerConfig>
  <extProcessor><type>proxy</type><name>app</name><address>127.0.0.1:9000</address></extProcessor>
  <virtualHost><name>one</name><vhRoot>.</vhRoot><configFile>conf/one.xml</configFile></virtualHost>
  <virtualHost><name>two</name><vhRoot>.</vhRoot><configFile>conf/two.xml</configFile></virtualHost>
</httpServerConfig>`

const leaseOne = `<virtualHostConfig><docRoot>html</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>127.0.0.1:9000</address></extProcessor>
  <extProcessor><type>fcgi</type><name>php</name><address>uds://tmp/php.sock</address></extProcessor>
  <extProcessor><type>proxy</type><name>unused</name><address>127.0.0.1:9009</address></extProcessor>
  <scriptHandler><suffix>php</suffix><type>fcgi</type><handler>php</handler></scriptHandler>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>
  <context><type>proxy</type><uri>/again/</uri><handler>app</handler></context>
  <websocket><uri>/ws</uri><address>127.0.0.1:9001</address></websocket>
</virtualHostConfig>`

const leaseTwo = `<virtualHostConfig><docRoot>html</docRoot>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>
</virtualHostConfig>`

// leaseTree is a server root whose files a test changes between builds.
type leaseTree struct {
	t    testing.TB
	root string
	kept Kept
}

func newLeaseTree(t testing.TB) *leaseTree {
	r := &leaseTree{t: t, root: t.TempDir(), kept: Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}}
	r.write("conf/httpd_config.xml", leaseServer)
	r.write("conf/one.xml", leaseOne)
	r.write("conf/two.xml", leaseTwo)
	r.write("html/index.html", "home")
	return r
}

func (r *leaseTree) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *leaseTree) build() (*Generation, *xmlconf.Findings) {
	r.t.Helper()
	fs := &xmlconf.Findings{}
	cfg := xmlconf.LoadServer(r.root, fs)
	if cfg == nil {
		r.t.Fatal(fs.All())
	}
	return Build(cfg, &r.kept, Options{}, fs), fs
}

func (r *leaseTree) holds(what string, proxies, apps, sinks int) {
	r.t.Helper()
	if p, a, s := r.kept.Proxies.Len(), r.kept.Apps.Len(), r.kept.Sinks.Len(); p != proxies || a != apps || s != sinks {
		r.t.Errorf("%s: %d proxy clients, %d FastCGI clients, %d logs are kept, want %d, %d, %d", what, p, a, s, proxies, apps, sinks)
	}
}

// A generation that is not published gives everything back, whether it could
// have been published or not.
func TestRetireGivesEverythingBack(t *testing.T) {
	r := newLeaseTree(t)
	g, fs := r.build()
	if fs.Failed() || fs.Count(xmlconf.Error) > 0 {
		t.Fatal(fs.All())
	}
	// "app" of host one, "app" of the server, the map; "unused" is named by nobody.
	r.holds("after the build", 3, 1, 2)
	g.Retire()
	r.holds("after Retire", 0, 0, 0)
	g.Retire()
	r.holds("after a second Retire", 0, 0, 0)

	r.write("conf/two.xml", strings.Replace(leaseTwo, "<context>", "<security><accessControl><deny>nonsense</deny></accessControl></security><context>", 1))
	g, fs = r.build()
	if !fs.Failed() {
		t.Error("an unreadable deny list did not fail the build")
	}
	g.Retire()
	r.holds("after a build that failed", 0, 0, 0)
}

// R-CFG-8: building opens no log file, binds nothing and dials nobody; goleak
// proves that it starts nothing.
func TestBuildLeavesNoTrace(t *testing.T) {
	r := newLeaseTree(t)
	g, _ := r.build()
	defer g.Retire()
	if _, err := os.Stat(filepath.Join(r.root, "logs")); !os.IsNotExist(err) {
		t.Errorf("a log directory was made: %v", err)
	}
}

// R-RELOAD-5: an unchanged processor keeps its client, and with it connections
// and state; a changed one starts fresh.
func TestReloadKeepsUnchangedClients(t *testing.T) {
	r := newLeaseTree(t)
	g1, _ := r.build()
	apps := r.kept.Apps.Values()
	before := map[any]bool{}
	for _, c := range r.kept.Proxies.Values() {
		before[c] = true
	}

	// Nothing changed: the same values, held by both until the first is retired.
	g2, _ := r.build()
	r.holds("two generations of one tree", 3, 1, 2)
	g1.Retire()
	r.holds("the second alone", 3, 1, 2)
	for _, c := range r.kept.Proxies.Values() {
		if !before[c] {
			t.Error("a proxy client was made anew")
		}
	}
	if r.kept.Apps.Values()[0] != apps[0] {
		t.Error("the FastCGI client was made anew")
	}

	// One setting of the host's processor changed: it alone is new.
	r.write("conf/one.xml", strings.Replace(leaseOne, "9000</address>", "9000</address><maxConns>7</maxConns>", 1))
	g3, _ := r.build()
	r.holds("old and new", 4, 1, 2)
	g2.Retire()
	r.holds("the third alone", 3, 1, 2)
	fresh := 0
	for _, c := range r.kept.Proxies.Values() {
		if !before[c] {
			fresh++
		}
	}
	if fresh != 1 || r.kept.Apps.Values()[0] != apps[0] {
		t.Errorf("%d proxy clients are new, want 1", fresh)
	}
	g3.Retire()
	r.holds("at the end", 0, 0, 0)
}

// R-CFG-10: processors of one name in two scopes are two, whatever their settings.
func TestScopesAreApart(t *testing.T) {
	r := newLeaseTree(t)
	g, _ := r.build()
	defer g.Retire()
	scopes := map[string]bool{}
	for _, p := range []*processors{g.testProcessors(r, "one"), g.testProcessors(r, "two")} {
		found := p.find(xmlconf.KindProxy, "app")
		if found == nil {
			t.Fatal("app is not found")
		}
		scopes[found.scope] = true
	}
	if !scopes["vhost:one"] || !scopes["server"] {
		t.Errorf("scopes are %v", scopes)
	}
}

// testProcessors builds the registry of a host once more.
func (g *Generation) testProcessors(r *leaseTree, host string) *processors {
	b := &builder{cfg: g.Config, kept: &r.kept, fs: &xmlconf.Findings{}, g: g}
	server := b.buildProcessors("server", g.Config.Server.ExtProcessors, nil)
	for _, h := range g.Config.VHosts {
		if h.Name == host {
			return b.buildProcessors("vhost:"+host, h.Conf.ExtProcessors, server)
		}
	}
	return nil
}

// Numbers of generations only grow; the hash is of the files, not of the build.
func TestIdentity(t *testing.T) {
	r := newLeaseTree(t)
	g1, _ := r.build()
	defer g1.Retire()
	g2, _ := r.build()
	defer g2.Retire()
	r.write("conf/two.xml", leaseTwo+"\n")
	g3, _ := r.build()
	defer g3.Retire()
	if g2.Number <= g1.Number || g3.Number <= g2.Number {
		t.Errorf("numbers are %d, %d, %d", g1.Number, g2.Number, g3.Number)
	}
	if g1.Hash != g2.Hash || g3.Hash == g2.Hash {
		t.Errorf("hashes are %s, %s, %s", g1.Hash, g2.Hash, g3.Hash)
	}
}
