package generation

import (
	"fmt"
	"os"
	"os/user"
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
	r := startedBy(t, os.Geteuid(), "", decl, conf)
	return r.list, r.env
}

// programs are what startedBy finds.
type programs struct {
	list, env map[string]string
	limits    apps.Limits // of the host's own program
	findings  string
}

// startedBy is started for a server that is a user, with more in the server's file.
func startedBy(t *testing.T, uid int, server, decl, conf string) (r programs) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"conf/httpd_config.xml": `<httpServerConfig><extProcessorList>
			<extProcessor><type>lsapi</type><name>all</name><address>uds://run/all.sock</address><autoStart>1</autoStart><path>/bin/true</path></extProcessor>
			<extProcessor><type>lsapi</type><name>outside</name><address>uds://run/outside.sock</address></extProcessor></extProcessorList>
			<phpConfig><path>/bin/true</path><maxProcessTime>7</maxProcessTime></phpConfig>` + server + `
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
	b := &builder{cfg: cfg, kept: &Kept{}, fs: fs, g: &Generation{}, opt: Options{User: func() int { return uid }}}
	b.server = b.buildProcessors("server", cfg.Server.ExtProcessors, nil)
	ps := b.buildHostProcessors(cfg.VHosts[0])
	r.list, r.env = map[string]string{}, map[string]string{}
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
			r.limits = p.start.Limits
			r.env[name] = strings.ReplaceAll(p.start.Env, "\x00", " ")
		}
		r.list[name] = said
	}
	for _, f := range fs.All() {
		r.findings += f.String() + "\n"
	}
	return r
}

// R-SAFE-1: who confines programs in a way that httpjet does not honour has none
// started; what means off changes nothing.
func TestConfinedProgramsAreNotStarted(t *testing.T) {
	f := func(server, decl, conf string, all, own string) {
		t.Helper()
		r := startedBy(t, 1000, server, decl, conf)
		if (all == "") != strings.HasSuffix(r.list["all"], fmt.Sprint("runs as ", apps.Identity{})) || !strings.Contains(r.list["all"], all) ||
			(own == "") != strings.HasSuffix(r.list["own"], fmt.Sprint("runs as ", apps.Identity{})) || !strings.Contains(r.list["own"], own) {
			t.Errorf("%s %s %s: %v", server, decl, conf, r.list)
		}
		if (own != "") != strings.Contains(r.findings, "E-CLOSED") {
			t.Errorf("%s %s %s: findings %s", server, decl, conf, r.findings)
		}
		if r.list["outside"] != "server not started" {
			t.Errorf("a program that is started otherwise: %s", r.list["outside"])
		}
	}
	security := func(text string) string { return "<security>" + text + "</security>" }
	f("", "", "", "", "")
	for _, name := range []string{"bubbleWrap", "namespace"} {
		on, off, disabled := "<"+name+">2</"+name+">", "<"+name+">1</"+name+">", "<"+name+">0</"+name+">"
		said := name + " 2 confines programs"
		f(on, "", "", said, said)
		f(security(on), "", "", said, said)
		f(off+security(off), off, off+security(off), "", "")
		said = name + " 2 of virtual host v confines programs"
		f("", on, "", said, said) // of the server's processors it has its own, which are not started
		f(security(off), "", on, said, said)
		f("", "", security(on), said, said)
		f(security(disabled), on, on, "", "") // the server has none for anybody
	}
	f(security("<CGIRLimit><cgroups>2</cgroups></CGIRLimit>"), "", "", "cgroups 2 confines", "cgroups 2 confines")
	f("", "", "<cgroups>2</cgroups>", "cgroups 2 of virtual host v", "cgroups 2 of virtual host v")
	f("<cgroups>1</cgroups>", "<cgroups>1</cgroups>", "", "", "")
	f("", "<chrootMode>0</chrootMode><chrootPath>/jail</chrootPath>", "", "", "")
	f("", "<chrootMode>1</chrootMode>", "", "chrootMode 1 of virtual host v", "chrootMode 1 of virtual host v")
	f("", "<chrootMode>1</chrootMode>", "<chrootMode>0</chrootMode>", "", "")
	f("", "", "<chrootMode>2</chrootMode><chrootPath>/jail</chrootPath>", "chrootMode 2", "chrootMode 2")
	f("", "", "<chrootMode>2</chrootMode><chrootPath>/</chrootPath>", "", "")
	f("<enableChroot>0</enableChroot><chrootPath>/jail</chrootPath>", "", "", "", "")
	f("<enableChroot>1</enableChroot><chrootPath>/</chrootPath>", "", "", "", "")
	f("<enableChroot>1</enableChroot><chrootPath>/jail</chrootPath>", "", "", "confined to /jail by enableChroot", "confined to /jail by enableChroot")
}

// Who a program runs as that root starts: the host's user, the server's, and root only
// where nobody is named, which is told. Ids and names are those that every Debian has.
func TestWhoProgramsRunAs(t *testing.T) {
	for _, name := range []string{"daemon", "nobody", "www-data"} {
		if _, err := user.Lookup(name); err != nil {
			t.Skip("this system has not the users of Debian:", err)
		}
	}
	ids := func(name, group string) string {
		id := apps.Identity{}
		if why := (names{name, group}).lookUp(&id); why != "" {
			t.Fatal(why)
		}
		id.Set = true
		return fmt.Sprint("runs as ", id)
	}
	f := func(server, decl, conf, all, own string, told bool) {
		t.Helper()
		r := startedBy(t, 0, server, decl, conf)
		if !strings.HasSuffix(r.list["all"], all) || !strings.HasSuffix(r.list["own"], own) || strings.Contains(r.findings, "W-ROOT") != told {
			t.Errorf("%s %s %s: %v\n%s", server, decl, conf, r.list, r.findings)
		}
	}
	root := fmt.Sprint("runs as ", apps.Identity{})
	f("", "", "", root, root, true)
	f("<user>root</user>", "", "", root, root, true)
	nobody, www := ids("nobody", ""), ids("www-data", "")
	f("<user>nobody</user><group>no-such-group</group>", "", "", nobody, nobody, false)
	f("<user>no-such-user</user>", "", "", "there is no user no-such-user", "there is no user no-such-user", false)
	f("<user>nobody</user>", "<user>www-data</user>", "", www, www, false)
	f("<user>nobody</user>", "<user>nobody</user><group>nogroup</group>", "<suexecUser>www-data</suexecUser>", www, www, false)
	f("", "<user>www-data</user><group>sudo</group>", "", "too mighty for a program", "too mighty for a program", true)
	f("", "<user>daemon</user>", "", "user id 1 is below minUID 11", "user id 1 is below minUID 11", true)
	f("<security><CGIRLimit><minUID>100</minUID></CGIRLimit></security>", "<user>www-data</user>", "", "user id 33 is below minUID 100", "user id 33 is below minUID 100", true)
	f("<security><CGIRLimit><forceGID>65534</forceGID></CGIRLimit></security>", "<user>www-data</user>", "", ids("www-data", "nogroup"), ids("www-data", "nogroup"), true)
}

// Limits of CGIRLimit are those of programs that have none of their own.
func TestLimitsOfPrograms(t *testing.T) {
	r := startedBy(t, 1000, `<security><CGIRLimit><CPUSoftLimit>30</CPUSoftLimit><CPUHardLimit>60</CPUHardLimit><priority>5</priority><umask>027</umask>
		<memSoftLimit>1G</memSoftLimit><procHardLimit>400</procHardLimit></CGIRLimit></security>`, "", "")
	want := apps.Limits{MemSoft: 1 << 30, ProcHard: 400, CPUSoft: 30, CPUHard: 60, SetNice: true, Nice: 5, SetUmask: true, Umask: 0o27}
	if r.limits != want {
		t.Errorf("%+v", r.limits)
	}
}

// R-LSAPI-6, LSX 4: with setUIDMode 2 a host's programs are the owner's of its docRoot,
// those of the server's processors too, which are then its own. What cannot be is not
// started at all.
func TestSetUIDMode(t *testing.T) {
	own := fmt.Sprint("runs as ", apps.Identity{}) // the server's user owns what the test has made
	if os.Geteuid() == 0 {
		own = "user id 0 is below minUID 11"
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
