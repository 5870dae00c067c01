package check

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"httpjet/xmlconf"
)

// migrate reports on an archive and returns the JSON report.
func migrate(t *testing.T, text string) Migration {
	t.Helper()
	a := txtar.Parse([]byte(text))
	o := options(unpack(t, a), a)
	var out bytes.Buffer
	Migrate(MigrationOptions{Root: o.Root, File: o.File, Format: "json"}, &out)
	var m Migration
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// find returns the only element of a scope with this path's end and value.
func (m Migration) find(t *testing.T, scope, path, value string) Element {
	t.Helper()
	var found []Element
	for _, s := range m.Scopes {
		for _, e := range s.Elements {
			if s.Name == scope && strings.HasSuffix(e.Element, path) && (value == "" || e.Value == value) {
				found = append(found, e)
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d elements %s %s = %q in %+v", len(found), scope, path, value, m)
	}
	return found[0]
}

const moving = `
-- conf/httpd_config.xml --
<httpServerConfig>
  <useIpInProxyHeader>2</useIpInProxyHeader>
  <priority>5</priority>
  <tuning><maxConnections>2000</maxConnections><keepAliveTimeout>99999</keepAliveTimeout><unheard>1</unheard></tuning>
  <virtualHost><name>a</name><vhRoot>$SERVER_ROOT</vhRoot><configFile>conf/host.xml</configFile><enableScript>0</enableScript></virtualHost>
  <virtualHost><name>b</name><vhRoot>$SERVER_ROOT</vhRoot><configFile>conf/none.xml</configFile></virtualHost>
  <vhTemplate><name>idle</name><templateFile>conf/template.xml</templateFile></vhTemplate>
  <listener><name>One</name><address>*:80</address><vhostMap><vhost>a</vhost><domain>a.test</domain></vhostMap></listener>
</httpServerConfig>
-- conf/template.xml --
<virtualHostTemplate><virtualHostConfig><docRoot>/srv</docRoot></virtualHostConfig></virtualHostTemplate>
-- conf/host.xml --
<virtualHostConfig>
  <docRoot>$SERVER_ROOT/html</docRoot>
  <extProcessor><name>app</name><type>proxy</type><address>user:secret@app.test</address></extProcessor>
  <extProcessor><name>php</name><type>fcgi</type><address>127.0.0.1:9000</address><env>DB_PASSWORD=hunter2</env></extProcessor>
  <scriptHandler><suffix>php</suffix><type>fcgi</type><handler>php</handler></scriptHandler>
  <context><type>proxy</type><uri>/y/</uri><handler>nobody</handler></context>
  <context><type>static</type><uri>/z/</uri><handler>x</handler><realm>users</realm></context>
  <context><type>rails</type><uri>/r/</uri><allowBrowse>1</allowBrowse></context>
  <context><type>NULL</type><uri>/closed/</uri><allowBrowse>0</allowBrowse><accessControl><deny>ALL</deny></accessControl></context>
  <websocket><uri>/ws</uri><address>127.0.0.1:1</address></websocket>
  <security><realm><name>users</name><userDB><location>x</location><LDAPBindPasswd>hunter2</LDAPBindPasswd></userDB></realm></security>
  <rewrite><enable>1</enable><rules>RewriteRule ^/x http://app/ [P]</rules></rewrite>
</virtualHostConfig>
-- html/index.html --
`

// Each departure of the specification's authority clause and of its §39 is
// changed where it is written, or where it holds because nothing is.
func TestMigrationChanged(t *testing.T) {
	m := migrate(t, strings.ReplaceAll(moving, "user:secret@", ""))
	const host, server = "vhost:a", "server"
	f := func(scope, path, value string, want xmlconf.Treatment) {
		t.Helper()
		if e := m.find(t, scope, path, value); e.Treatment != want || want != xmlconf.Honoured && e.Reason == "" || e.File == "" || e.Line == 0 || e.Column == 0 {
			t.Errorf("%s is not %s: %+v", path, want, e)
		}
	}
	f(server, "/useIpInProxyHeader", "2", xmlconf.Changed)       // D-7
	f(server, "/virtualHost/enableScript", "0", xmlconf.Changed) // D-35
	f(server, "/autoWhiteListLocalIps", "0", xmlconf.Changed)    // R-ACL-2, not written
	f(server, "/autoDetectCdn", "0", xmlconf.Changed)            // R-ACL-2, not written
	f(host, "/context/handler", "nobody", xmlconf.Changed)       // D-27
	f(host, "/extProcessor/type", "fcgi", xmlconf.Changed)       // local Location
	f(host, "/scriptHandler/handler", "php", xmlconf.Changed)    // 503 instead of source
	f(host, "/websocket/uri", "/ws", xmlconf.Changed)            // D-38
	f(host, "/context/accessControl", "", xmlconf.Changed)       // D-38
	f(host, "/context/allowBrowse", "0", xmlconf.Changed)        // R-ACL-7
	f(host, "/context/allowBrowse", "1", xmlconf.Honoured)
	f(host, "/context/handler", "x", xmlconf.Honoured)
	f(host, "/extProcessor/type", "proxy", xmlconf.Honoured)
	f(host, "/context/type", "rails", xmlconf.Refused)
	f(server, "/priority", "5", xmlconf.NoEffect)
	f(server, "/tuning/unheard", "1", xmlconf.NoEffect)
	f(server, "/tuning/keepAliveTimeout", "99999", xmlconf.NoEffect) // the default is used
	f(server, "/tuning/maxConnections", "2000", xmlconf.Honoured)

	defaults := map[string]string{}
	for _, s := range m.Scopes {
		for _, e := range s.Elements {
			if !e.Written {
				if e.Treatment != xmlconf.Changed || e.Reason == "" {
					t.Errorf("default %+v", e)
				}
				defaults[e.Element[strings.LastIndexByte(e.Element, '/')+1:]] = e.Value
			}
		}
	}
	for name, value := range map[string]string{"connTimeout": "60", "maxKeepAliveReq": "1000", "maxReqHeaderSize": "16380", "maxCachedFileSize": "4M",
		"totalInMemCacheSize": "4096M", "maxConns": "100", "initTimeout": "60", "pcKeepAliveTimeout": "60", "keepAliveTimeout": "5"} {
		if defaults[name] != value {
			t.Errorf("default of %s is told as %q, want %q", name, defaults[name], value)
		}
	}
	if defaults["maxConnections"] != "" {
		t.Error("maxConnections is written and its default is told")
	}
}

// Scopes are the server, each virtual host and template; percentages are of what
// is written in each.
func TestMigrationScopes(t *testing.T) {
	m := migrate(t, strings.ReplaceAll(moving, "user:secret@", ""))
	var names []string
	sum := 0
	for _, s := range m.Scopes {
		names = append(names, s.Name)
		total := s.Total
		sum += total.Elements
		if n := total.Honoured.Count + total.Changed.Count + total.NoEffect.Count + total.Refused.Count; n != total.Elements || n+total.Defaults != len(s.Elements) {
			t.Errorf("%s: totals %+v of %d elements", s.Name, total, len(s.Elements))
		}
		if p := total.Honoured.Percent + total.Changed.Percent + total.NoEffect.Percent + total.Refused.Percent; total.Elements > 0 && (p < 99.7 || p > 100.3) {
			t.Errorf("%s: %v %%", s.Name, p)
		}
		if s.Loaded != (s.Name != "vhost:b") {
			t.Errorf("%s is loaded: %v", s.Name, s.Loaded)
		}
	}
	if got := strings.Join(names, " "); got != "server vhost:a vhost:b template:idle" || sum != m.Total.Elements || !m.OK {
		t.Errorf("scopes %s with %d elements of %+v", got, sum, m.Total)
	}
	if len(m.Errors) != 1 || m.Errors[0].Code != "E-READ" {
		t.Errorf("errors %+v", m.Errors)
	}
}

// A report is handed on: it holds no values of env, no passwords, no credentials
// of addresses, in no format.
func TestMigrationHoldsNoSecrets(t *testing.T) {
	dir := unpack(t, txtar.Parse([]byte(moving)))
	for _, format := range MigrationFormats {
		var out bytes.Buffer
		Migrate(MigrationOptions{Root: dir, Format: format}, &out)
		if text := out.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "secret") || !strings.Contains(text, "PASSWORD=...") && format != "markdown" {
			t.Errorf("%s:\n%s", format, text)
		}
	}
}

// The page is one file: no script, nothing from elsewhere; well-formed, with
// what the tree says escaped, and with the marks that readers of tables need.
func TestMigrationPage(t *testing.T) {
	dir := unpack(t, txtar.Parse([]byte(strings.ReplaceAll(moving, "<unheard>1", "<unheard>&lt;script&gt;alert(1)&lt;/script&gt;"))))
	var out bytes.Buffer
	Migrate(MigrationOptions{Root: dir, Format: "html", Version: "v1"}, &out)
	text := out.String()
	for _, bad := range []string{"<script", "http://", "https://", "src=", "@import", "ZgotmplZ"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, good := range []string{`<html lang="en">`, "<title>", "<main>", "<caption>", `scope="col"`, `scope="row"`, "@media print", "&lt;script&gt;", "no effect", "vhost:a"[6:]} {
		if !strings.Contains(text, good) {
			t.Errorf("the page lacks %q", good)
		}
	}
	dec := xml.NewDecoder(&out)
	dec.Strict, dec.AutoClose, dec.Entity = true, []string{"meta"}, xml.HTMLEntity
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
}

// What does not load is reported as far as it was read, and exits 1.
func TestMigrationOfFailures(t *testing.T) {
	f := func(text string, want string) {
		t.Helper()
		dir := unpack(t, txtar.Parse([]byte(text)))
		var out bytes.Buffer
		if code := Migrate(MigrationOptions{Root: dir}, &out); code != Failed || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit %d\n%s, want %s", text, code, &out, want)
		}
	}
	f("", "E-READ")
	f("-- conf/httpd_config.xml --\n<httpServerConfig><tuning>", "E-XML")
	f("-- conf/httpd_config.xml --\n<httpServerConfig><tuning><maxInFlightReqs>0</maxInFlightReqs></tuning></httpServerConfig>",
		"refused   conf/httpd_config.xml:1:27: httpServerConfig/tuning/maxInFlightReqs = 0: tuning: maxInFlightReqs 0 is out of range")
}

// TestCorpusReports checks and reports on real files of other people, in every
// format: none may crash, and what is machine-readable is.
func TestCorpusReports(t *testing.T) {
	dir := os.Getenv("HTTPJET_CORPUS")
	if dir == "" {
		t.Skip("HTTPJET_CORPUS names no folder of configuration files")
	}
	n := 0
	for _, pattern := range []string{"*.xml", "*/*.xml"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			n++
			for _, format := range Formats {
				var out bytes.Buffer
				Run(Options{File: file, Format: format}, &out)
				if format != "text" && !json.Valid(out.Bytes()) {
					t.Errorf("%s: check --format %s is no JSON", file, format)
				}
			}
			for _, format := range MigrationFormats {
				var out bytes.Buffer
				Migrate(MigrationOptions{File: file, Format: format}, &out)
				if format == "json" && !json.Valid(out.Bytes()) || out.Len() == 0 {
					t.Errorf("%s: report --format %s", file, format)
				}
			}
			var out bytes.Buffer
			Migrate(MigrationOptions{File: file}, &out)
			_, total, _ := strings.Cut(out.String(), "total: ")
			total, _, _ = strings.Cut(total, "\n")
			t.Logf("%s: %s", filepath.Base(file), total)
		}
	}
	if n < 37 {
		t.Errorf("%d files", n)
	}
}
