package generation

import (
	"os"
	"path/filepath"
	"testing"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// Whatever files say, building never panics, gives its leases back, and a
// request that asks no upstream gets an answer.
func FuzzBuild(f *testing.F) {
	f.Add(`<extProcessor><type>fcgi</type><name>p</name><address>127.0.0.1:9</address></extProcessor><suspendedVhosts>w</suspendedVhosts>`,
		`<context><uri>/a/</uri><type>fcgi</type><handler>p</handler></context><context><uri>exp:^/b</uri><realm>r</realm></context>`, "/a/x?y")
	f.Add(`<vhTemplate><name>t</name><templateFile>conf/v.xml</templateFile><member><vhName>m</vhName></member></vhTemplate>`,
		`<context><uri>/a</uri><location>x.txt</location></context><scriptHandler><suffix>txt</suffix><type>cgi</type></scriptHandler>`, "/a")
	f.Add(`<security><accessControl><allow>ALL</allow><deny>192.0.2.1</deny></accessControl></security>`,
		`<context><uri>/r/</uri><type>redirect</type><location>/</location></context><websocket><uri>/w</uri><address>h2://x:1</address></websocket>`, "/r//x")
	f.Add(`<htAccess><allowOverride>31</allowOverride></htAccess>`, `<context><uri>/</uri><indexFiles>x.txt</indexFiles><enableScript>0</enableScript></context>`, "/%2e/;a/")
	f.Add(`<extProcessor><type>proxy</type><name>p</name><address>127.0.0.1:9</address><healthCheck><interval>0</interval><rise>0</rise></healthCheck></extProcessor>`,
		`<context><uri>/a/</uri><type>proxy</type><handler>p</handler></context>`, "/a/")
	kept := &Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}
	f.Fuzz(func(t *testing.T, server, vhost, target string) {
		root := t.TempDir()
		os.MkdirAll(filepath.Join(root, "conf"), 0o755)
		os.WriteFile(filepath.Join(root, "x.txt"), []byte("text"), 0o644)
		os.WriteFile(filepath.Join(root, "conf/httpd_config.xml"), []byte(`<httpServerConfig>`+server+`<virtualHost><name>v</name><vhRoot>.</vhRoot><configFile>conf/v.xml</configFile></virtualHost>
			<listener><name>L</name><address>127.0.0.1:1</address><vhostMap><vhost>v</vhost><domain>*</domain></vhostMap></listener></httpServerConfig>`), 0o644)
		os.WriteFile(filepath.Join(root, "conf/v.xml"), []byte(`<virtualHostConfig><docRoot>.</docRoot>`+vhost+`</virtualHostConfig>`), 0o644)
		fs := &xmlconf.Findings{}
		cfg := xmlconf.LoadServer(root, fs)
		if cfg == nil {
			return
		}
		g := Build(cfg, kept, Options{}, fs)
		for _, l := range g.Listeners {
			if len(g.leases) > len(g.sinks) {
				break // an upstream would be asked
			}
			x := &exchange.Exchange{}
			x.Reset(&safetyFront{})
			x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Listener = "GET", target, "v", l.Key()
			exchange.Run(x, g)
			if x.Resp.Status == 0 {
				t.Errorf("no answer")
			}
		}
		g.Retire()
		if n := kept.Proxies.Len() + kept.Apps.Len() + kept.Sinks.Len() + kept.Verdicts.Len() + kept.Clocks.Len() + kept.Counts.Len(); n != 0 {
			t.Errorf("%d leases are left", n)
		}
	})
}
