package generation

import (
	"os"
	"testing"

	"httpjet/accesslog"
	"httpjet/xmlconf"
)

// R-LOG-2: completionLog of the server has the requests of every host, that of a host
// its own, whichever access logs they have.
func TestCompletionLog(t *testing.T) {
	const own = "<logging><accessLog><fileName>logs/own.log</fileName></accessLog></logging>"
	const both = "<logging><accessLog><fileName>logs/own.log</fileName></accessLog><completionLog>1</completionLog></logging>"
	const line = "<logging><completionLog>1</completionLog></logging>"
	completions := func(logs []hostLog) (n int) {
		for _, l := range logs {
			if l.format == accesslog.Completion && l.out.Options().File == os.Stdout {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		server, host  string
		all, ofHost   int
		logs, hostLog int
	}{
		{"", "", 0, 0, 1, 1}, {line, "", 1, 1, 2, 2}, {"", line, 0, 1, 1, 2}, {line, line, 1, 1, 2, 2},
		{"", own, 0, 0, 1, 1}, {line, own, 1, 1, 2, 2}, {"", both, 0, 1, 1, 2}, {line, both, 1, 1, 2, 2},
	} {
		r := newLeaseTree(t)
		r.write("conf/httpd_config.xml", "<httpServerConfig>"+c.server+`<virtualHostList><virtualHost><name>site</name><vhRoot>.</vhRoot><configFile>conf/one.xml</configFile></virtualHost></virtualHostList>
<listenerList><listener><name>L</name><address>127.0.0.1:1</address><vhostMap><vhost>site</vhost><domain>site.test</domain></vhostMap></listener></listenerList></httpServerConfig>`)
		r.write("conf/one.xml", "<virtualHostConfig><docRoot>html</docRoot>"+c.host+"</virtualHostConfig>")
		g, fs := r.build()
		if fs.Failed() || fs.Count(xmlconf.Warn) > 0 {
			t.Fatal(fs.All())
		}
		logs, has := g.logs["site"]
		if !has {
			logs = g.serverLogs
		}
		if completions(g.serverLogs) != c.all || completions(logs) != c.ofHost || len(g.serverLogs) != c.logs || len(logs) != c.hostLog {
			t.Errorf("server %q, host %q: %v, of the host %v", c.server, c.host, g.serverLogs, logs)
		}
		g.Retire()
	}
}
