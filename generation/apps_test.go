package generation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"httpjet/apps"
	"httpjet/extproc"
	"httpjet/xmlconf"
)

// started describes the programs of the one host of a tree: by scope and name, who each
// runs as, or why it cannot be started. own is the owner of the docRoot.
func started(t *testing.T, decl, conf string) (list map[string]string, env map[string]string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"conf/httpd_config.xml": `<httpServerConfig><extProcessorList>
			<extProcessor><type>lsapi</type><name>all</name><address>uds://run/all.sock</address><autoStart>1</autoStart><path>/bin/true</path></extProcessor>
			<extProcessor><type>lsapi</type><name>outside</name><address>uds://run/outside.sock</address></extProcessor></extProcessorList>
			<phpConfig><path>/bin/true</path><maxProcessTime>7</maxProcessTime></phpConfig>
			<virtualHostList><virtualHost><name>v</name><vhRoot>.</vhRoot><configFile>conf/v.xml</configFile>` + decl + `</virtualHost></virtualHostList></httpServerConfig>`,
		"conf/v.xml": `<virtualHostConfig><docRoot>html</docRoot>` + conf + `<extProcessorList>
			<extProcessor><type>fcgi</type><name>own</name><address>uds://run/own.sock</address><autoStart>2</autoStart><path>/bin/true</path></extProcessor></extProcessorList></virtualHostConfig>`,
		"html/x": "",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fs := &xmlconf.Findings{}
	cfg := xmlconf.LoadServer(root, fs)
	if cfg == nil {
		t.Fatal(fs.All())
	}
	b := &builder{cfg: cfg, kept: &Kept{}, fs: fs, g: &Generation{}}
	b.server = b.buildProcessors("server", cfg.Server.ExtProcessors, nil)
	ps := b.buildHostProcessors(cfg.VHosts[0])
	list, env = map[string]string{}, map[string]string{}
	for _, name := range []string{"all", "outside", "own", "php"} {
		p := ps.find(xmlconf.KindLSAPI, name)
		if name == "own" {
			p = ps.find(xmlconf.KindFastCGI, name)
		}
		said := p.scope + " "
		switch {
		case p.fault != "":
			said += p.fault
		case p.start == nil:
			said += "not started"
		default:
			said += "runs as " + fmt.Sprint(p.start.Identity)
			env[name] = strings.ReplaceAll(p.start.Env, "\x00", " ")
		}
		list[name] = said
	}
	return list, env
}

// R-LSAPI-6, LSX 4: with setUIDMode 2 a host's programs are the owner's of its docRoot,
// those of the server's processors too, which are then its own. What cannot be is not
// started at all.
func TestSetUIDMode(t *testing.T) {
	own := fmt.Sprint("runs as ", apps.Identity{}) // the server's user owns what the test has made
	if os.Geteuid() == 0 {
		own = "user id 0 is below minUID 100"
	}
	plain := fmt.Sprint("runs as ", apps.Identity{})
	f := func(decl, conf string, all, mine string) {
		t.Helper()
		list, _ := started(t, decl, conf)
		if list["all"] != all || list["own"] != "vhost:v "+mine || list["outside"] != "server not started" {
			t.Errorf("%s %s: %v", decl, conf, list)
		}
	}
	f("", "", "server "+plain, plain)
	f("<setUIDMode>1</setUIDMode>", "", "server "+plain, plain)
	f("<setUIDMode>2</setUIDMode>", "", "vhost:v "+own, own)
	f("", "<setUIDMode>2</setUIDMode>", "vhost:v "+own, own)
	f("<setUIDMode>2</setUIDMode>", "<setUIDMode>0</setUIDMode>", "server "+plain, plain)
}

// R-LSAPI-5, R-CFG-14: the program of phpConfig is told how long a child may take.
func TestProgramOfPHPConfig(t *testing.T) {
	list, env := started(t, "", "")
	if list["php"] != fmt.Sprint("server runs as ", apps.Identity{}) || env["php"] != "PATH=/bin:/usr/bin LSAPI_MAX_PROCESS_TIME=12 PHP_LSAPI_CHILDREN=100" {
		t.Errorf("%v %v", list, env)
	}
}

// G50: a program whose settings change is another one, with connections of its own; the
// report of a reload says why. One that is the same goes on.
func TestG50ChangedProgramIsRestarted(t *testing.T) {
	r := newLeaseTree(t)
	tree := func(env, path string) *Generation {
		t.Helper()
		r.write("conf/two.xml", `<virtualHostConfig><docRoot>html</docRoot>
			<extProcessor><type>lsapi</type><name>ls</name><address>uds://run/ls.sock</address><autoStart>1</autoStart><path>`+path+`</path><env>`+env+`</env></extProcessor>
			<scriptHandler><suffix>php</suffix><type>lsapi</type><handler>ls</handler></scriptHandler></virtualHostConfig>`)
		g, fs := r.build()
		if fs.Failed() || len(g.started) != 1 {
			t.Fatal(fs.All())
		}
		t.Cleanup(g.Retire)
		return g
	}
	told := func(a, b *Generation) (list []string) {
		for _, e := range a.Effects(b) {
			if e.What == "application" {
				list = append(list, fmt.Sprint(e.Name, " ", e.Does, ": ", e.Text))
			}
		}
		return list
	}
	first, same := tree("A=1", "/bin/true"), tree("A=1", "/bin/true")
	if list := told(first, same); list != nil || first.started[0] != same.started[0] {
		t.Errorf("unchanged: %v", list)
	}
	env := tree("A=2", "/bin/true")
	if list := told(same, env); strings.Join(list, ";") != "ls fresh: restarted: env changed" || env.started[0] == same.started[0] {
		t.Errorf("env: %v", list)
	}
	if a, b := same.client("ls"), env.client("ls"); a == b {
		t.Error("connections of the old program serve the new one")
	}
	both := tree("A=3", "/bin/false")
	if list := told(env, both); strings.Join(list, ";") != "ls fresh: restarted: path, env changed" {
		t.Errorf("path and env: %v", list)
	}
	r.write("conf/two.xml", leaseTwo)
	none, _ := r.build()
	defer none.Retire()
	if list := append(told(both, none), told(none, both)...); strings.Join(list, ";") != "ls gone: ends behind its requests;ls new: is started" {
		t.Errorf("%v", list)
	}
}

// client is the client of the one peer of a group.
func (g *Generation) client(name string) extproc.Client {
	for _, u := range g.upstreams {
		if u.name == name {
			return u.peers[0].client
		}
	}
	return nil
}
