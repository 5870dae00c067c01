package xmlconf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loadText loads a tree of two files.
func loadText(t *testing.T, server, host string) *Config {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{ServerFile: server, "conf/a.xml": host} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fs := &Findings{}
	c := LoadServer(root, fs)
	if c == nil || fs.Failed() {
		t.Fatal(fs.All())
	}
	return c
}

func TestDiff(t *testing.T) {
	const decl = `<virtualHost><name>a</name><vhRoot>.</vhRoot><configFile>conf/a.xml</configFile></virtualHost>`
	server := func(more string) string { return "<httpServerConfig>" + decl + more + "</httpServerConfig>" }
	host := func(more string) string {
		return "<virtualHostConfig><docRoot>html</docRoot>" + more + "</virtualHostConfig>"
	}
	app := func(more string) string {
		return "<extProcessor><type>proxy</type><name>app</name>" + more + "</extProcessor>"
	}
	f := func(oldServer, oldHost, newServer, newHost string, want ...string) {
		t.Helper()
		var got []string
		for _, c := range Diff(loadText(t, server(oldServer), host(oldHost)), loadText(t, server(newServer), host(newHost))) {
			got = append(got, fmt.Sprintf("%s|%s|%s|%s|%s", c.Part, c.Element, c.Kind, c.Old, c.New))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	f("", "", "", "")
	f("<tuning><keepAliveTimeout>5</keepAliveTimeout></tuning>", "", "<!-- the same --><tuning>\n<keepAliveTimeout> 5 </keepAliveTimeout></tuning>", "")
	f("", "", "<tuning><keepAliveTimeout>7</keepAliveTimeout></tuning>", "", "tuning|keepAliveTimeout|changed|5s|7s")
	f("<enableh2c>1</enableh2c>", "", "", "", "|enableh2c|changed|1|0")
	f("", app("<address>127.0.0.1:1</address>"), "", app("<address>127.0.0.1:1</address><address>127.0.0.1:2</address><addressWeights>1,2</addressWeights><loadBalancePolicy>weighted-round-robin</loadBalancePolicy>"),
		`virtual host "a", extProcessor "app"|address|changed|127.0.0.1:1|127.0.0.1:1, 127.0.0.1:2`,
		`virtual host "a", extProcessor "app"|loadBalancePolicy|changed|primary-first|weighted-round-robin`,
		`virtual host "a", extProcessor "app"|addressWeights|added||1, 2`)
	f("", app("<address>127.0.0.1:1</address><env>SECRET=abc</env><env>A=1</env>"), "", app("<address>127.0.0.1:1</address><env>SECRET=xyz</env><env>A=1</env>"),
		`virtual host "a", extProcessor "app"|env|changed|SECRET, A|SECRET, A with another value`)
	f("", app("<address>127.0.0.1:1</address><env>SECRET=one, two=three</env>"), "", app("<address>127.0.0.1:1</address><env>SECRET=four, five</env><env>B=six, seven</env>"),
		`virtual host "a", extProcessor "app"|env|changed|SECRET|SECRET, B`)
	f("", "<phpIniOverride>php_value a.pass one\nphp_flag b on</phpIniOverride>", "", "<phpIniOverride>php_value a.pass two\nphp_flag b on</phpIniOverride>",
		`virtual host "a"|phpIniOverride|changed|a.pass, b|a.pass, b with another value`)
	f("", "<rewrite><rules>RewriteRule ^/x http://u:one@h/ [P]</rules></rewrite>", "", "<rewrite><rules>RewriteRule ^/x http://u:two@h/ [P]</rules></rewrite>",
		`virtual host "a", rewrite|rules|changed|RewriteRule ^/x http://...@h/ [P]|RewriteRule ^/x http://...@h/ [P] with other user information`)
	f("", app("<address>127.0.0.1:1</address>"), "", app("<address>127.0.0.1:1</address><healthCheck><mode>GET</mode></healthCheck>"),
		`virtual host "a", extProcessor "app", healthCheck||added||`)
	ctx := func(uri, more string) string {
		return "<context><type>static</type><uri>" + uri + "</uri>" + more + "</context>"
	}
	f("", ctx("/x/", "")+ctx("/y/", ""), "", ctx("/y/", "<allowBrowse>0</allowBrowse>")+ctx("/x/", "")+ctx("/z/", ""),
		`virtual host "a", context "/y/"|allowBrowse|changed|1|0`,
		`virtual host "a", context "/z/"||added||`,
		`virtual host "a"|context|moved|/x/, /y/|/y/, /x/`)
	f("", ctx("/x/", "")+ctx("/x/", "<allowBrowse>0</allowBrowse>"), "", ctx("/x/", ""),
		`virtual host "a", context "/x/ (2)"||removed||`)
	other := strings.ReplaceAll(decl, ">a<", ">b<")
	f("", "", other, "", `virtual host "b"||added||`)
	f(other, "", "", "", `virtual host "b"||removed||`)
	lst := func(addr, maps string) string {
		return "<listener><name>L</name><address>" + addr + "</address>" + maps + "</listener>"
	}
	f(lst("*:80", "<vhostMap><vhost>a</vhost><domain>x.test</domain></vhostMap>"), "", lst("*:81", "<vhostMap><vhost>a</vhost><domain>x.test, y.test</domain></vhostMap>"), "",
		`listener "L"|address|changed|*:80|*:81`,
		`listener "L", vhostMap "a"|domain|changed|x.test|x.test, y.test`)
}

func TestFingerprints(t *testing.T) {
	var prints Fingerprints
	app := func(more string) string {
		c := loadText(t, "<httpServerConfig><virtualHost><name>a</name><vhRoot>.</vhRoot><configFile>conf/a.xml</configFile></virtualHost></httpServerConfig>",
			"<virtualHostConfig><docRoot>html</docRoot>\n<extProcessor><type>proxy</type><name>app</name><address>127.0.0.1:1</address>"+more+"</extProcessor></virtualHostConfig>")
		return prints.Of(c.VHosts[0].Conf.ExtProcessors[0])
	}
	if a, b := app("<maxConns>5</maxConns><env>A=1</env>"), app("\n<env> A=1 </env>\n\n<maxConns>5</maxConns>"); a != b {
		t.Error("place and order of elements count")
	}
	seen := map[string]string{}
	for _, more := range []string{
		"", "<maxConns>5</maxConns>", "<maxConns>6</maxConns>",
		"<env>A=1, B=2</env>", "<env>A=1</env><env>B=2</env>", "<env>A=1,</env><env>B=2</env>", "<env>A=1</env>", "<env>A=1;</env>",
		"<healthCheck><mode>GET</mode></healthCheck>", "<healthCheck><mode>HEAD</mode></healthCheck>",
	} {
		print := app(more)
		if was, ok := seen[print]; ok {
			t.Errorf("%q and %q have one fingerprint", was, more)
		}
		seen[print] = more
	}
}
