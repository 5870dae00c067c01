package generation

import (
	"strings"
	"testing"
)

// What is read otherwise than it looks is told where it stands, and what was meant to run
// is not sent (R-SAFE-1).
func TestMisread(t *testing.T) {
	ask, fs := safetyParts{
		vhost: `<security><realmList><realm><name>r</name><userDB><location>conf/u</location></userDB></realm>
			<realm><name>r</name><userDB><location>conf/v</location></userDB></realm></realmList></security>
			<contextList>
			<context><uri>/a/ /b/</uri><allowBrowse>0</allowBrowse></context>
			<context><uri>/$VH_NAME/x/</uri></context>
			<context><uri>/some, more/</uri></context>
			</contextList>
			<websocketList><websocket><uri>/ws</uri><address>127.0.0.1:1</address></websocket>
			<websocket><uri>exp:^/y</uri><address>127.0.0.1:1</address></websocket>
			<websocket><uri>/ws</uri><address>127.0.0.1:2</address></websocket>
			<websocket><uri>/m1 /m2/${VH_DOMAIN}</uri><address>127.0.0.1:2</address></websocket></websocketList>
			<scriptHandlerList>
			<scriptHandler><suffix>tpl</suffix><type>static</type></scriptHandler>
			<scriptHandler><suffix>foo</suffix><type>fcgi</type><handler>app</handler></scriptHandler>
			<scriptHandler><suffix>inc;tpl;foo</suffix><type>fcgi</type><handler>app</handler></scriptHandler>
			<scriptHandler><suffix>a.run</suffix><type>fcgi</type><handler>app</handler></scriptHandler>
			<scriptHandler><suffix>txt;md</suffix><type>static</type></scriptHandler>
			</scriptHandlerList>`,
		server: `<extProcessor><type>fcgi</type><name>app</name><address>127.0.0.1:1</address></extProcessor>`,
		files:  map[string]string{"x.inc": "SOURCE", "x.tpl": "SOURCE", "x.run": "SOURCE", "x.foo": "SOURCE", "x.txt": "text", "a/x.html": "a"},
	}.site(t)
	all := fmtAll(fs)
	for _, want := range []string{
		`E-DUPNAME: realm "r" is declared twice`, `E-DUPNAME: websocket "/ws" is declared twice`,
		`W-URI: context "/a/ /b/": this is one path`, `W-VAR: context "/$VH_NAME/x/": variables stand for themselves in a uri`,
		`W-URI: websocket "/m1 /m2/${VH_DOMAIN}": this is one path`, `W-VAR: websocket "/m1 /m2/${VH_DOMAIN}": variables`,
		`W-SKIPPED: websocket "exp:^/y": skipped`, `E-CLOSED: scriptHandler: "inc;tpl;foo" is no suffix`, `E-CLOSED: scriptHandler: "a.run" is no suffix`,
	} {
		if n := strings.Count(all, want); n != 1 {
			t.Errorf("told %d times: %s\n%s", n, want, all)
		}
	}
	for _, not := range []string{"some, more", "txt;md"} {
		if strings.Contains(all, not) {
			t.Errorf("told of %q:\n%s", not, all)
		}
	}
	for _, c := range []struct {
		path   string
		status int
		app    string // who is asked for it
	}{{"/x.inc", 503, ""}, {"/x.tpl", 503, ""}, {"/x.run", 503, ""}, {"/x.foo", 503, "app"}, {"/x.txt", 200, ""}, {"/a/x.html", 200, ""}} {
		x, body := ask("GET", c.path)
		if x.Resp.Status != c.status || x.Route.Group != c.app || strings.Contains(body, "SOURCE") {
			t.Errorf("%s: %d by %q: %q", c.path, x.Resp.Status, x.Route.Group, body)
		}
	}
}
