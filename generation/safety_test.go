package generation

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"httpjet/budget"
	"httpjet/compress"
	"httpjet/exchange"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// safetyFront keeps the body of an answer.
type safetyFront struct{ body strings.Builder }

func (w *safetyFront) Read([]byte) (int, error)                  { return 0, io.EOF }
func (w *safetyFront) Trailers() *exchange.Fields                { return nil }
func (w *safetyFront) StopRead()                                 {}
func (w *safetyFront) Head(*exchange.Response, bool, bool) error { return nil }
func (w *safetyFront) Write(p []byte) (int, error)               { return w.body.Write(p) }
func (w *safetyFront) Flush() error                              { return nil }
func (w *safetyFront) End(*exchange.Fields) error                { return nil }
func (w *safetyFront) Abort(error)                               {}
func (w *safetyFront) Context() context.Context                  { return context.Background() }

// safetyTree writes a tree with one host "v" and returns what asks it. The parts
// go into the places of the files that their names say.
type safetyParts struct {
	server, decl, listener, vhost string            // inside of the elements
	root, docRoot                 string            // "": the server root, html below it
	list                          string            // instead of the one listener "L"
	files                         map[string]string // below the document root; content, or "-> target"

	encoders *compress.Encoders // nil: nothing is compressed
}

func (p safetyParts) build(t *testing.T) (ask func(path string) (int, string), fs *xmlconf.Findings) {
	t.Helper()
	full, fs := p.site(t)
	return func(path string) (int, string) {
		x, body := full("GET", path)
		return x.Resp.Status, body
	}, fs
}

// site is build for requests of any method with fields, "Name: value" each.
func (p safetyParts) site(t *testing.T) (ask func(method, path string, fields ...string) (*exchange.Exchange, string), fs *xmlconf.Findings) {
	t.Helper()
	g, fs := p.generation(t)
	return asker(t, g), fs
}

// generation writes the tree and builds it.
func (p safetyParts) generation(t *testing.T) (*Generation, *xmlconf.Findings) {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		err := error(nil)
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, name)
		} else {
			err = os.WriteFile(name, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if p.list == "" {
		p.list = `<listener><name>L</name><address>127.0.0.1:1</address>` + p.listener +
			`<vhostMap><vhost>v</vhost><domain>v.test</domain></vhostMap></listener>`
	}
	write("conf/httpd_config.xml", `<httpServerConfig>`+p.server+`<virtualHostList><virtualHost><name>v</name><vhRoot>`+or(p.root, ".")+`</vhRoot>
		<configFile>conf/v.xml</configFile>`+p.decl+`</virtualHost></virtualHostList><listenerList>`+p.list+`</listenerList></httpServerConfig>`)
	write("conf/v.xml", `<virtualHostConfig><docRoot>`+or(p.docRoot, "html")+`</docRoot>`+p.vhost+`</virtualHostConfig>`)
	write("html/a/x.txt", "text")
	for name, text := range p.files {
		write("html/"+name, text)
	}
	fs := &xmlconf.Findings{}
	cfg := xmlconf.LoadServer(root, fs)
	if cfg == nil {
		t.Fatal(fs.All())
	}
	g := Build(cfg, &Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}, Encoders: p.encoders}, Options{}, fs)
	t.Cleanup(g.Retire)
	return g, fs
}

// asker asks g for the one host of safetyParts.
func asker(t *testing.T, g *Generation) func(method, path string, fields ...string) (*exchange.Exchange, string) {
	return func(method, path string, fields ...string) (*exchange.Exchange, string) {
		w := &safetyFront{}
		x := &exchange.Exchange{}
		x.Reset(w)
		if rest, ok := strings.CutPrefix(path, "user="); ok { // "user=NAME:PASSWORD PATH"
			user, target, _ := strings.Cut(rest, " ")
			x.Req.Fields.Add("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user)))
			path = target
		}
		x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme, x.Req.Proto = method, path, "v.test", "http", "HTTP/1.1"
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			x.Req.Fields.Add(name, value)
		}
		if rest, ok := strings.CutPrefix(path, "http://"); ok {
			i := strings.IndexByte(rest, '/')
			x.Req.Host, x.Req.Target = rest[:i], rest[i:]
		}
		x.Req.Listener, x.Req.Remote = "http tcp 127.0.0.1:1", netip.MustParseAddrPort("192.0.2.1:1")
		if err := exchange.Run(x, g); err != nil && !x.Started() {
			t.Fatal(err)
		}
		return x, w.body.String()
	}
}

// R-RW-4, R-SAFE-1: the .htaccess files from the document root down act on the
// files of a context, wherever below it they lie, and on its index files.
func TestHtaccessOfContexts(t *testing.T) {
	const deny = "Require all denied"
	p := safetyParts{
		server: `<htAccess><allowOverride>31</allowOverride></htAccess>`,
		vhost: `<htAccess><accessFileName>.htaccess</accessFileName></htAccess><contextList>
			<context><uri>/in/</uri><location>$DOC_ROOT/shut/in/</location></context>
			<context><uri>/one</uri><location>$DOC_ROOT/shut/in/x.txt</location></context>
			<context><uri>/out</uri><location>$VH_ROOT/out/x.txt</location></context>
			<context><uri>/ix/</uri><indexFiles>x.txt</indexFiles></context>
			<context><uri>/a/</uri><location>$DOC_ROOT/a/</location></context>
			</contextList>`,
		files: map[string]string{"shut/.htaccess": deny, "shut/in/x.txt": "leak", "../out/.htaccess": deny, "../out/x.txt": "leak",
			"ix/.htaccess": "<Files x.txt>\n" + deny + "\n</Files>", "ix/x.txt": "leak", "lost/.htaccess": "-> nowhere", "lost/x.txt": "leak"},
	}
	ask, _ := p.build(t)
	for _, path := range []string{"/in/x.txt", "/one", "/out", "/ix/", "/ix/x.txt", "/shut/in/x.txt", "/lost/x.txt"} {
		if status, body := ask(path); status != 403 || strings.Contains(body, "leak") {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	if status, body := ask("/a/x.txt"); status != 200 {
		t.Errorf("%d %q", status, body)
	}
}

// R-SAFE-1: a restriction that is not read where it stands closes the host or
// context around it, and check says where it stands.
func TestLostRestrictionsClose(t *testing.T) {
	const deny = "<accessControl><allow>*</allow><deny>192.0.2.1</deny></accessControl>"
	f := func(p safetyParts, shut, open string) {
		t.Helper()
		p.files = map[string]string{"b/x.txt": "text"}
		ask, fs := p.build(t)
		if status, _ := ask(shut); status != 503 {
			t.Errorf("%+v: %s answers %d", p, shut, status)
		}
		if status, _ := ask(open); open != "" && status != 200 {
			t.Errorf("%+v: %s answers %d", p, open, status)
		}
		for _, f := range fs.All() {
			if f.Code == "E-CLOSED" && f.Severity == xmlconf.Error && f.Line > 0 && f.Hint != "" {
				return
			}
		}
		t.Errorf("%+v: no E-CLOSED: %v", p, fs.All())
	}
	f(safetyParts{vhost: `<context><uri>/a/</uri><accessControl/>` + deny + `</context>`}, "/a/x.txt", "/b/x.txt")
	f(safetyParts{vhost: `<context><uri>a</uri>` + deny + `</context>`}, "/a/x.txt", "")
	f(safetyParts{vhost: `<security><accessControl><allow>*</allow></accessControl></security><security>` + deny + `</security>`}, "/a/x.txt", "")
	f(safetyParts{decl: deny}, "/a/x.txt", "")
	f(safetyParts{decl: `<enabled>0</enabled>`}, "/a/x.txt", "")
	f(safetyParts{listener: deny}, "/a/x.txt", "")
	f(safetyParts{server: `<clientVerify>2</clientVerify>`}, "/a/x.txt", "")
	dup := `<listener><name>%s</name><address>127.0.0.1:%s</address>%s<vhostMap><vhost>v</vhost><domain>v.test</domain></vhostMap></listener>`
	const verify = "<secure>1</secure><clientVerify>2</clientVerify>"
	for _, second := range []string{"M 1", "L 2", "M 99999"} { // same address, same name, no address
		name, port, _ := strings.Cut(second, " ")
		f(safetyParts{list: fmt.Sprintf(dup, "L", "1", "") + fmt.Sprintf(dup, name, port, verify)}, "/a/x.txt", "")
	}
}

// R-SAFE-1 for members: what restricts at the level of the template, in a second
// virtualHostConfig or in the member itself closes them.
func TestLostRestrictionsOfMembers(t *testing.T) {
	f := func(member, template string, want int) {
		t.Helper()
		p := safetyParts{
			server: `<vhTemplate><name>t</name><templateFile>conf/t.xml</templateFile><listeners>L</listeners><member><vhName>m.test</vhName>` + member + `</member></vhTemplate>`,
			files:  map[string]string{"../conf/t.xml": `<virtualHostTemplate><vhRoot>.</vhRoot><virtualHostConfig><docRoot>html</docRoot></virtualHostConfig>` + template + `</virtualHostTemplate>`},
		}
		ask, fs := p.build(t)
		if status, _ := ask("http://m.test/a/x.txt"); status != want {
			t.Errorf("%s %s: %d, want %d: %v", member, template, status, want, fs.All())
		}
	}
	const deny = "<accessControl><allow>*</allow><deny>192.0.2.1</deny></accessControl>"
	f("", "", 200)
	f("", "<virtualHostConfig><docRoot>html</docRoot></virtualHostConfig>", 200)
	f("", "<security>"+deny+"</security>", 503)
	f("", "<virtualHostConfig>"+deny+"</virtualHostConfig>", 503)
	f("", "<enabled>0</enabled>", 503)
	f("<enabled>0</enabled>", "", 503)
	f(deny, "", 503)
}

// R-SAFE-1: a host that is to be suspended and is not there under that name is
// told as an error.
func TestSuspendedUnknown(t *testing.T) {
	_, fs := safetyParts{server: `<suspendedVhosts>V, w</suspendedVhosts>`}.build(t)
	n := 0
	for _, f := range fs.All() {
		if f.Severity == xmlconf.Error && strings.HasPrefix(f.Message, "suspendedVhosts") {
			n++
		}
	}
	if n != 2 {
		t.Error(fs.All())
	}
}

// A listener on one address beside one on all addresses of the port cannot be
// bound; that is told with its place, not left to the system.
func TestOverlappingListeners(t *testing.T) {
	f := func(want bool, addresses ...string) {
		t.Helper()
		p := safetyParts{}
		for i, a := range addresses {
			p.list += fmt.Sprintf("<listener><name>L%d</name><address>%s</address></listener>", i, a)
		}
		_, fs := p.build(t)
		if fs.Failed() != want {
			t.Errorf("%v: %v", addresses, fs.All())
		}
	}
	f(true, "*:80", "192.0.2.1:80")
	f(true, "192.0.2.1:80", "*:80", "[ANY]:80")
	f(true, "[2001:db8::1]:80", "[ANY]:80")
	f(true, "localhost:80", "*:80")
	f(false, "[2001:db8::1]:80", "*:80")
	f(false, "*:80", "[ANY]:80", "*:81", "192.0.2.1:82")
	f(false, "192.0.2.1:80", "192.0.2.2:80")
}

// A template or declaration that names a listener which is not there is told.
func TestUnknownListener(t *testing.T) {
	_, fs := safetyParts{decl: "<listeners>L, nope</listeners>"}.build(t)
	if fs.Count(xmlconf.Error) != 1 || !strings.Contains(fs.All()[0].Message, `"nope"`) {
		t.Error(fs.All())
	}
}

// R-SAFE-1: a rule that would refuse requests and cannot be compiled is an error that
// closes; one that is not asked is none.
func TestRefusingRules(t *testing.T) {
	f := func(vhost string, line int) {
		t.Helper()
		_, fs := safetyParts{vhost: vhost}.build(t)
		got := 0
		for _, f := range fs.All() {
			if f.Code == "E-CLOSED" {
				got = f.Line
			}
		}
		if got != line {
			t.Errorf("%s: line %d, want %d", vhost, got, line)
		}
	}
	f("<rewrite><enable>1</enable><rules>\nRewriteRule ^/x /y\nRewriteRule ^/a - [F,Q]</rules></rewrite>", 3)
	f("<rewrite><enable>0</enable><rules>RewriteRule ^/a - [F,Q]</rules></rewrite>", 0)
	f("<context><uri>/a/</uri><rewrite><enable>1</enable><rules>RewriteRule ( - [G]</rules></rewrite></context>", 1)
}

// A format that spells combined or common out is that one.
func TestSpelledFormats(t *testing.T) {
	for format, want := range map[string]string{
		``: "", `combined`: "", `json`: "", `"JSON"`: "", `"common"`: "",
		`%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"`: combinedFormat,
		`"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""`:     combinedFormat,
		`"%h %l %u %t \"%r\" %>s %b"`:                                  commonFormat,
		`%h %l %u %t \"%r\" %>s %b \"%{referer}i\" \"%{user-agent}i\"`: combinedFormat,
	} {
		if got := plainFormat(format); want != "" && got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
		_, fs := safetyParts{server: "<logging><accessLog><logFormat>" + strings.ReplaceAll(format, ">", "&gt;") + "</logFormat></accessLog></logging>"}.build(t)
		if len(fs.All()) != 0 {
			t.Errorf("%s: %v", format, fs.All())
		}
	}
	_, fs := safetyParts{server: "<logging><accessLog><logFormat>%v %Q</logFormat></accessLog></logging>"}.build(t)
	if len(fs.All()) != 1 || fs.All()[0].Severity != xmlconf.Warn {
		t.Error(fs.All())
	}
}

// R-STATIC-2, R-SAFE-1: a restrained host stays in its vhRoot, as in LiteSpeed; a
// context that leads out of it is closed.
func TestRestrained(t *testing.T) {
	p := safetyParts{root: "html", decl: "<restrained>1</restrained>",
		vhost: `<context><uri>/o/</uri><location>../../out/</location></context><context><uri>/s/</uri><location>$VH_ROOT/shared/</location></context>
			<context><uri>/l/</uri><location>$DOC_ROOT/out/</location></context><context><uri>exp:^/re/(.*)$</uri><location>$VH_ROOT/../out/$1</location></context>
			<context><uri>exp:^/sre/(.*)$</uri><location>$VH_ROOT/$1</location></context>`,
		files: map[string]string{"www/up": "-> ../shared", "www/out": "-> ../../out", "shared/x.txt": "text", "../out/x.txt": "text"}}
	p.docRoot = "html/www"
	ask, fs := p.build(t)
	for path, want := range map[string]int{"/up/x.txt": 200, "/s/x.txt": 200, "/out/x.txt": 404,
		"/o/x.txt": 503, "/l/x.txt": 503, "/re/x.txt": 503, "/sre/shared/x.txt": 200} {
		if got, _ := ask(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	n := 0
	for _, f := range fs.All() {
		if f.Code == "E-CLOSED" {
			n++
		}
	}
	if n != 3 {
		t.Error(fs.All())
	}
}

// The certificate is that of the host which answers, where patterns of two hosts
// meet: the order of the maps decides, not that of the hosts.
func TestCertificateOfTheAnsweringHost(t *testing.T) {
	r := newLeaseTree(t)
	host := func(name string) string {
		r.writePair(name, 90*24*time.Hour)
		r.write("conf/"+name+".xml", "<virtualHostConfig><docRoot>html</docRoot><vhssl><certFile>"+name+".crt</certFile><keyFile>"+name+".key</keyFile></vhssl></virtualHostConfig>")
		return "<virtualHost><name>" + name + "</name><vhRoot>.</vhRoot><configFile>conf/" + name + ".xml</configFile></virtualHost>"
	}
	r.write("conf/httpd_config.xml", "<httpServerConfig>"+host("a.test")+host("b.test")+`<listener><name>S</name><address>127.0.0.1:443</address><secure>1</secure>
		<vhostMap><vhost>b.test</vhost><domain>*.wild.test</domain></vhostMap><vhostMap><vhost>a.test</vhost><domain>x*.wild.test</domain></vhostMap></listener></httpServerConfig>`)
	g, fs := r.build()
	defer g.Retire()
	conf, err := g.TLS(g.Listeners[0].Key(), &tls.ClientHelloInfo{ServerName: "x1.wild.test"})
	if err != nil {
		t.Fatal(err, fs.All())
	}
	v, _ := g.table.Listeners[g.Listeners[0].Key()].Find("x1.wild.test")
	if got := conf.Certificates[0].Leaf.DNSNames[0]; got != v.Name {
		t.Errorf("certificate of %s for host %s", got, v.Name)
	}
}

// Half of a certificate is no certificate, and no silence either.
func TestHalfACertificate(t *testing.T) {
	_, fs := safetyParts{vhost: "<vhssl><keyFile>x.key</keyFile></vhssl>", listener: "<secure>1</secure><certFile>x.crt</certFile>"}.build(t)
	n := 0
	for _, f := range fs.All() {
		if strings.Contains(f.Message, "belong together") {
			n++
		}
	}
	if n != 2 {
		t.Error(fs.All())
	}
}

// LiteSpeed 7.2: a status in the 300s that is no redirect becomes 302, told.
func TestRedirectStatus(t *testing.T) {
	ask, fs := safetyParts{vhost: `<context><uri>/r/</uri><type>redirect</type><statusCode>304</statusCode><location>https://new.test/</location></context>
		<context><uri>/s/</uri><type>redirect</type><statusCode>308</statusCode><location>https://new.test/</location></context>`}.build(t)
	for path, want := range map[string]int{"/r/x": 302, "/s/x": 308} {
		if got, _ := ask(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if len(fs.All()) != 1 {
		t.Error(fs.All())
	}
}

// R-STATIC-10: of a list that makes a suffix both, the script stays; a host may
// make static what the server runs.
func TestScriptOrStatic(t *testing.T) {
	const script, static = "<scriptHandler><suffix>php, foo</suffix><type>fcgi</type><handler>none</handler></scriptHandler>",
		"<scriptHandler><suffix>PHP</suffix><type>static</type></scriptHandler>"
	f := func(server, vhost string, want int) {
		t.Helper()
		ask, _ := safetyParts{server: server, vhost: vhost, files: map[string]string{"x.php": "<?php"}}.build(t)
		if got, body := ask("/x.php"); got != want {
			t.Errorf("server %q, host %q: %d %q, want %d", server, vhost, got, body, want)
		}
	}
	f("", "", 503)
	f("", script+static, 503)
	f("", static+script, 503)
	f(script, static, 200)
	f(static, script, 503)
}

// enableScript 0 of a host or context is about applications behind contexts too,
// not only about suffixes; proxies are none.
func TestNoScriptContexts(t *testing.T) {
	const apps = `<extProcessor><type>fcgi</type><name>f</name><address>127.0.0.1:1</address></extProcessor>
		<extProcessor><type>proxy</type><name>p</name><address>127.0.0.1:1</address></extProcessor>`
	const list = `<context><uri>/f/</uri><type>fcgi</type><handler>f</handler>%[1]s</context>
		<context><uri>/c/</uri><type>cgi</type><handler>f</handler><location>$DOC_ROOT/a/</location>%[1]s</context>
		<context><uri>/p/</uri><type>proxy</type><handler>p</handler>%[1]s</context>`
	f := func(decl, context string, want int) {
		t.Helper()
		ask, _ := safetyParts{server: apps, decl: decl, vhost: fmt.Sprintf(list, context)}.build(t)
		for path, want := range map[string]int{"/f/x": want, "/c/x.txt": want, "/p/x": 502} {
			if got, _ := ask(path); got != want {
				t.Errorf("%s %s: %s: %d, want %d", decl, context, path, got, want)
			}
		}
	}
	const off = "<enableScript>0</enableScript>"
	f(off, "", 403)
	f("", off, 403)
	f("", "", 503) // asked, and not there
}

// R-ACL-7: a context with a realm asks for a password, whatever answers below it, and
// one whose realm cannot be had answers 503.
func TestRealms(t *testing.T) {
	const users = "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=:staff\n" // of "secret"
	p := safetyParts{
		vhost: `<security><realmList>
			<realm><name>R</name><userDB><location>conf/users</location></userDB></realm>
			<realm><name>G</name><userDB><location>conf/gone</location></userDB></realm>
			<realm><name>L</name><type>ldap</type><userDB><location>ldap://x</location></userDB></realm>
			<realm><name>N</name></realm></realmList></security>
			<contextList>
			<context><uri>/a/</uri><realm>R</realm></context>
			<context><uri>/a/in/</uri><realm>R</realm><required>group staff</required><authName>inner</authName></context>
			<context><uri>/a/deny/</uri><realm>R</realm><accessControl><deny>*</deny></accessControl></context>
			<context><uri>/get/</uri><realm>R</realm><required>user ann</required><methods>POST</methods></context>
			<context><uri>/</uri><realm>R</realm><required>user bob</required></context>
			<context><uri>/gone/</uri><realm>G</realm></context>
			<context><uri>/ldap/</uri><realm>L</realm></context>
			<context><uri>/none/</uri><realm>N</realm></context>
			<context><uri>/unknown/</uri><realm>X</realm></context>
			<context><uri>/bad/</uri><realm>R</realm><required>ann</required></context>
			<context><uri>/a/in/need/</uri><required>user ann</required></context>
			<context><uri>exp:^/re/</uri><required>user ann</required></context>
			</contextList>`,
		files: map[string]string{"../conf/users": users, "a/in/x.txt": "text", "a/in/need/x.txt": "text", "re/x.txt": "text", "a/deny/x.txt": "leak", "get/x.txt": "text", "gone/x.txt": "leak",
			"ldap/x.txt": "leak", "none/x.txt": "leak", "unknown/x.txt": "leak", "bad/x.txt": "leak"},
	}
	ask, fs := p.build(t)
	f := func(path, user string, want int) {
		t.Helper()
		target := path
		if user != "" {
			target = "user=" + user + " " + path
		}
		if status, body := ask(target); status != want || strings.Contains(body, "leak") {
			t.Errorf("%s: %d %q, want %d", target, status, body, want)
		}
	}
	f("/a/x.txt", "", 401)
	f("/a/x.txt", "ann:secret", 200)
	f("/a/x.txt", "ann:wrong", 401)
	f("/a/in/x.txt", "ann:secret", 401) // the realm of the inner context
	f("/a/in/x.txt", "bob:secret", 200)
	f("/a/in;x/../x.txt", "ann:secret", 200)
	f("/;x/a/in/x.txt", "ann:secret", 401) // as an application may read it
	f("/a/deny/x.txt", "", 403)            // nobody is asked for a password in vain
	f("/a/none.txt", "", 401)              // and none is told what there is
	f("/get/x.txt", "ann:secret", 401)     // its realm is not for this method alone
	f("/x.txt", "ann:secret", 401)
	f("/a/in/need/x.txt", "bob:secret", 401) // another requirement of the realm around it
	f("/a/in/need/x.txt", "ann:secret", 200)
	f("/re/x.txt", "bob:secret", 401)
	f("/re/x.txt", "ann:secret", 200)
	for _, dir := range []string{"gone", "ldap", "none", "unknown", "bad"} {
		f("/"+dir+"/x.txt", "bob:secret", 503)
	}
	if n := fs.Count(xmlconf.Error); n != 5 {
		t.Errorf("%d errors: %v", n, fs.All())
	}
}

// R-SAFE-1: users that a context requires, and no realm to know them by, close it.
func TestRequiredWithoutRealm(t *testing.T) {
	ask, fs := safetyParts{vhost: `<context><uri>/a/</uri><required>user ann</required></context><context><uri>/b/</uri><required></required></context>`,
		files: map[string]string{"b/x.txt": "text"}}.build(t)
	for path, want := range map[string]int{"/a/x.txt": 503, "/b/x.txt": 200} {
		if got, _ := ask(path); got != want {
			t.Errorf("%s: %d, want %d: %v", path, got, want, fs.All())
		}
	}
}

// hotlinkCtrl guards where it is on: the host's block goes before the server's, an empty
// one does not; one that guards nothing closes the host (R-SAFE-1).
func TestHotlinkBlocks(t *testing.T) {
	const on = "<hotlinkCtrl><enableHotlinkCtrl>1</enableHotlinkCtrl><suffixes>txt</suffixes></hotlinkCtrl>"
	for i, c := range []struct {
		server, host string
		want         int
	}{
		{"", on, 403}, {on, "", 403}, {on, "<hotlinkCtrl></hotlinkCtrl>", 403}, {on, "<hotlinkCtrl><enableHotlinkCtrl>0</enableHotlinkCtrl></hotlinkCtrl>", 200},
		{"", "<hotlinkCtrl><enableHotlinkCtrl>1</enableHotlinkCtrl></hotlinkCtrl>", 503}, {"", "", 200},
		{"", "<hotlinkCtrl><enableHotlinkCtrl>1</enableHotlinkCtrl><suffixes>.png</suffixes></hotlinkCtrl>", 200},
		{"", "<hotlinkCtrl><enableHotlinkCtrl>1</enableHotlinkCtrl><suffixes>png;txt</suffixes></hotlinkCtrl>", 503},
	} {
		ask, fs := safetyParts{server: "<security>" + c.server + "</security>", vhost: "<security>" + c.host + "</security>"}.build(t)
		if status, _ := ask("/a/x.txt"); status != c.want {
			t.Errorf("row %d: %d, want %d: %v", i, status, c.want, fs.All())
		}
	}
}
