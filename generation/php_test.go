package generation

import (
	"strings"
	"testing"
)

// R-LSAPI-1: an lsapi context leads to any LSAPI application but PHP, which has no file
// to run there and would answer a fatal error with 200.
func TestPHPIsNoContext(t *testing.T) {
	f := func(what, processor, handlers string, want int) {
		t.Helper()
		ask, _ := safetyParts{vhost: `<extProcessorList><extProcessor><type>lsapi</type><name>app</name><address>` + scriptApp(t, "lsapi") + `</address>` + processor + `</extProcessor>
			<extProcessor><type>loadbalancer</type><name>lb</name><workers>lsapi::app</workers></extProcessor></extProcessorList>` + handlers +
			`<contextList><context><type>lsapi</type><uri>/app/</uri><handler>app</handler></context>
			<context><type>loadbalancer</type><uri>/lb/</uri><handler>lb</handler></context></contextList>`}.build(t)
		for _, path := range []string{"/app/", "/app/x.php", "/lb/x"} {
			if status, body := ask(path); status != want || (want == 200) != strings.HasPrefix(body, "ran ") {
				t.Errorf("%s, %s: %d %q", what, path, status, body)
			}
		}
	}
	f("an application", "", "", 200)
	f("its program", `<path>/usr/local/lsws/lsphp82/bin/lsphp</path>`, "", 404)
	f("its variables", `<env>PHP_LSAPI_CHILDREN=3</env>`, "", 404)
	f("variables of others", `<env>LSAPI_CHILDREN=3</env>`, "", 200)
	f("its suffix", "", `<scriptHandlerList><scriptHandler><suffix>html,php</suffix><type>lsapi</type><handler>app</handler></scriptHandler></scriptHandlerList>`, 404)
	f("another suffix", "", `<scriptHandlerList><scriptHandler><suffix>rb</suffix><type>lsapi</type><handler>app</handler></scriptHandler></scriptHandlerList>`, 200)
}
