package server

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2/v2"

	"httpjet/budget"
	"httpjet/check"
	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/generation"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// echo answers with the request as it came, in a status that nobody else uses.
func echo(t *testing.T, name string) string {
	t.Helper()
	return exchangetest.Raw(t, func(c net.Conn) {
		br, head := bufio.NewReader(c), ""
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				fmt.Fprintf(c, "HTTP/1.1 299 Echo\r\nX-Backend: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", name, len(head), head)
				return
			}
			head += line
		}
	})
}

// application is a FastCGI application that says what it was asked to run.
func application(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fcgi.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Backend", name)
			w.WriteHeader(299)
			env := fcgi.ProcessEnv(r)
			fmt.Fprintf(w, "%s|%s", env["SCRIPT_FILENAME"], env["DOCUMENT_URI"])
		}))
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return path
}

// explainTree has every type of context, in hosts of every state.
func explainTree(t *testing.T) string {
	root := t.TempDir()
	var hosts, maps strings.Builder
	host := func(name, more, conf string) {
		fmt.Fprintf(&hosts, "<virtualHost><name>%s</name><vhRoot>.</vhRoot><configFile>conf/%s.xml</configFile>%s</virtualHost>\n", name, name, more)
		fmt.Fprintf(&maps, "<vhostMap><vhost>%s</vhost><domain>%s.test, *.%s.test</domain></vhostMap>\n", name, name, name)
		if conf != "" {
			put(t, root, "conf/"+name+".xml", "<virtualHostConfig><docRoot>html</docRoot>"+conf+"</virtualHostConfig>")
		}
	}
	app, other, php := echo(t, "app"), echo(t, "other"), application(t, "php")
	proxy := `<extProcessor><type>proxy</type><name>app</name><address>` + app + `</address></extProcessor>
		<extProcessor><type>proxy</type><name>other</name><address>` + other + `</address></extProcessor>
		<extProcessor><type>fcgi</type><name>php</name><address>uds:/` + php + `</address></extProcessor>`
	context := func(kind, uri, more string) string {
		return "<context><type>" + kind + "</type><uri>" + uri + "</uri>" + more + "</context>\n"
	}
	host("static", "", context("static", "/docs/", "<location>$SERVER_ROOT/docs/</location>")+context("null", "/empty/", "")+
		context("static", "/shut/", "<allowBrowse>0</allowBrowse>"))
	host("proxy", "", proxy+context("proxy", "/app/", "<handler>app</handler>")+context("proxy", "/", "<handler>other</handler>")+
		context("static", "/files/", ""))
	host("match", "", proxy+context("proxy", "/exact", "<handler>app</handler><uriMatch>exact</uriMatch>")+
		context("proxy", "/u/:id/*", "<handler>other</handler><uriMatch>pattern</uriMatch>")+
		context("proxy", "exp:^/r[0-9]+/", "<handler>app</handler>")+
		context("proxy", "/get/", "<handler>app</handler><methods>GET, HEAD</methods>")+
		context("proxy", "/", "<handler>other</handler><stripPrefix>/strip</stripPrefix><preserveHost>0</preserveHost>"))
	host("fcgi", "", proxy+context("fcgi", "/run/", "<handler>php</handler>")+
		"<scriptHandler><suffix>php</suffix><type>fcgi</type><handler>php</handler></scriptHandler>"+
		"<scriptHandler><suffix>lost</suffix><type>fcgi</type><handler>nobody</handler></scriptHandler>")
	host("cgi", "", proxy+context("cgi", "/cgi-bin/", "<location>$SERVER_ROOT/cgi/</location><handler>php</handler>")+
		context("rails", "/rails/", "")+context("servlet", "/servlet/", "")+context("lsapi", "/ls/", "<handler>nobody</handler>"))
	host("redirect", "", context("redirect", "/old/", "<externalRedirect>1</externalRedirect><statusCode>301</statusCode><location>https://new.test/</location>")+
		context("redirect", "/gone/", "<statusCode>410</statusCode>"))
	host("sockets", "", proxy+"<websocketList><websocket><uri>/ws</uri><address>"+app+"</address></websocket>"+
		"<websocket><uri>/ws/deep</uri><address>"+other+"</address></websocket></websocketList>"+context("proxy", "/up/", "<handler>app</handler>"))
	host("guarded", "", proxy+context("proxy", "/in/", "<handler>app</handler><accessControl><deny>192.0.2.0/24</deny><allow>*</allow></accessControl>")+
		"<accessControl><allow>*, 127.0.0.1T</allow><deny>198.51.100.0/24</deny></accessControl>"+
		context("static", "/deep/shut/", "<allowBrowse>0</allowBrowse>"))
	host("htaccess", "", "<htAccess><allowOverride>31</allowOverride></htAccess>")
	host("realm", "", "<realmList><realm><type>file</type><name>r</name></realm></realmList>"+context("static", "/private/", "<realm>r</realm>"))
	host("suspended", "<enabled>0</enabled>", " ")
	host("unloaded", "", "")
	host("rules", "", proxy+`<rewrite><enable>1</enable><rules>
		RewriteRule ^/old/(.*)$ /files/$1?moved=1 [QSA]
		RewriteRule ^/secret - [F]
		RewriteRule ^/gone - [G]
		RewriteRule ^/teapot - [R=417]
		RewriteRule ^/moved/(.*)$ https://new.test/$1 [R=301,L]
		RewriteRule ^/here/(.*)$ /there/$1 [R,L]
		RewriteRule ^/p/(.*)$ http://other/$1?added=1 [P,QSA]
		RewriteRule ^/toapp/(.*)$ /app/$1%2Fy [L]
		RewriteRule ^/app/viarule(.*)$ http://other/$1 [P]
		RewriteRule ^/toshut/(.*)$ /shut/$1
		RewriteRule ^/shut/away$ /a.txt
		RewriteRule ^/todenied/(.*)$ /denied/$1
		RewriteRule ^/tohidden$ /.git/x
		RewriteRule ^/nope/(.*)$ http://nobody/$1 [P]
		RewriteRule ^/script/(.*)$ /run.php/$1?x=$1
		RewriteRule ^/loop(.*)$ /loop$1x [N]
		RewriteRule ^/closed - [F,Q]
		RewriteRule ^/(?!x)y(\d)\1$ /a.txt
		</rules></rewrite><htAccess><allowOverride>31</allowOverride></htAccess>`+
		context("proxy", "/app/", "<handler>app</handler>")+
		context("static", "/shop/", "<rewrite><rules>RewriteRule ^([a-z]+)$ /files/a.txt?item=$1 [L]\nRewriteRule ^go/(.*)$ /ring/$1\nRewriteRule ^px/(.*)$ http://app/$1 [P]</rules></rewrite>")+
		context("static", "/ring/", "<rewrite><rules>RewriteRule (.*) /shop/go/$1</rules></rewrite>")+
		context("static", "/shut/", "<allowBrowse>0</allowBrowse>")+context("fcgi", "/run/", "<handler>php</handler>")+
		"<scriptHandler><suffix>php</suffix><type>fcgi</type><handler>php</handler></scriptHandler>")
	host("lost", "", proxy+context("proxy", "/app/", "<handler>nobody</handler>"))
	put(t, root, "conf/httpd_config.xml", "<httpServerConfig>\n"+hosts.String()+
		"<listener><name>Default</name><address>127.0.0.1:1</address>"+maps.String()+"</listener></httpServerConfig>")
	for name, text := range map[string]string{
		"html/index.html": "home", "html/a.txt": "a", "html/run.php": "<?php", "html/dir/run.php": "<?php", "html/dir/index.html": "dir",
		"html/x.lost": "source", "html/empty/.keep": "", "html/denied/.htaccess": "Require all denied", "html/denied/a.txt": "no",
		"docs/a.txt": "docs", "docs/index.html": "docs", "cgi/run": "#!", "html/files/a.txt": "f", "html/app/a.txt": "fallen through",
	} {
		put(t, root, name, text)
	}
	return root
}

// asking makes random requests, many of them malformed.
type asking struct{ *rand.Rand }

func (a asking) of(list ...string) string { return list[a.IntN(len(list))] }

// paths are those that matter to a host.
var paths = map[string][]string{
	"static":   {"/", "/a.txt", "/docs/", "/docs", "/docs/a.txt", "/shut/x", "/shut", "/empty/", "/dir", "/dir/", "/.git/x"},
	"proxy":    {"/app/", "/app", "/app/a.txt", "/apple", "/files/a.txt", "/files", "/"},
	"match":    {"/exact", "/exact/", "/u/7/x", "/u/7", "/u//x", "/r12/x", "/rx/", "/get/x", "/strip/x", "/strip"},
	"fcgi":     {"/run/", "/run", "/run/x/y", "/run.php", "/run.php/info", "/dir/run.php/a%2Fb", "/x.lost", "/x.LOST", "/a.txt"},
	"cgi":      {"/cgi-bin/run", "/cgi-bin/run/info", "/cgi-bin/none", "/cgi-bin/", "/rails/x", "/servlet/", "/ls/x"},
	"redirect": {"/old/a/b", "/old/", "/old", "/gone/x", "/gone"},
	"sockets":  {"/ws", "/ws/", "/ws/deep/x", "/wsx", "/up/x", "/ws/deep"},
	"guarded":  {"/in/x", "/deep/shut/x", "/deep/SHUT/x", "/a.txt"},
	"htaccess": {"/denied/a.txt", "/denied/", "/.htaccess", "/a.txt"},
	"realm":    {"/private/x", "/a.txt"},
	"rules": {"/old/a.txt", "/old/none", "/secret", "/gone", "/teapot", "/moved/a", "/here/b", "/p/a%2Fb", "/p/x", "/toapp/a", "/app/viarule/x",
		"/toshut/a", "/shut/away", "/todenied/a.txt", "/tohidden", "/nope/x", "/script/a", "/loop", "/closed", "/y11", "/y12", "/shop/abc", "/shop/ABC",
		"/shop/go/x", "/shop/px/x", "/run/x"},
	"suspended": {"/"}, "unloaded": {"/"}, "lost": {"/app/a.txt", "/app/x"}, "nobody": {"/"},
}

// where is the host and the path of a request, mostly one that the host knows.
func (a asking) where() (host, path string) {
	names := slices.Sorted(maps.Keys(paths))
	name := a.of(names...)
	path = a.of(paths[name]...)
	if a.IntN(6) == 0 {
		path = a.of(paths[a.of(names...)]...)
	}
	return a.of("", "", "", "www.", "x.") + name + a.of(".test", ".test", ".test", ".TEST.", ".test:80"), path
}

func (a asking) target(path string) string {
	switch a.IntN(8) {
	case 0:
		path = strings.Replace(path, "/", a.of("//", "/./", "/x/../", "/%2e/", "/..;/", "/;a/", "\\", "/%2E%2e/"), 1)
	case 1:
		path += a.of("%00", "%", "%zz", "%20", "%2F", "/..", "/../..", ";x=1", "\x7f", "#", "%0d%0a", "é", "\x01", " x")
	}
	return path + a.of("", "", "", "?a=b", "?", "?a?b", "?q=%00", "?x=/../")
}

func (a asking) fields() (list []exchange.Field) {
	add := func(name, value string) { list = append(list, exchange.Field{Name: name, Value: value}) }
	if a.IntN(3) == 0 {
		add("Connection", "Upgrade")
		add("Upgrade", "websocket")
		if a.IntN(5) > 0 {
			add("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
			add("Sec-WebSocket-Version", a.of("13", "13", "8"))
		}
	} else {
		add("Connection", "close")
	}
	if a.IntN(3) == 0 {
		add("X-Forwarded-For", a.of("192.0.2.1", "198.51.100.7", "203.0.113.5", "junk", "203.0.113.5, 192.0.2.9"))
	}
	if a.IntN(4) == 0 {
		add(a.of("X-A", "Cookie", "Te", "Keep-Alive", "Via"), a.of("1", "a=b", "trailers", ""))
	}
	return list
}

// raw sends a request as it stands and returns the answer.
func raw(t *testing.T, addr, method, target, host string, fields []exchange.Field) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, host)
	for _, f := range fields {
		fmt.Fprintf(c, "%s: %s\r\n", f.Name, f.Value)
	}
	io.WriteString(c, "\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %q of %q: %v", method, target, host, err)
	}
	body, _ := io.ReadAll(resp.Body)
	return resp, string(body)
}

// What explain says of a request is what the server does with it.
func TestExplainSaysWhatTheServerDoes(t *testing.T) {
	t.Cleanup(regexp2.StopTimeoutClock) // of the pattern with a back reference
	root := explainTree(t)
	r := run(t, root)
	addr := strings.TrimPrefix(r.base, "http://")
	fs := &xmlconf.Findings{}
	g := generation.Build(xmlconf.LoadServer(root, fs), &generation.Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}},
		generation.Options{HTTPAddr: addr, Version: Version}, fs)
	defer g.Retire()
	if fs.Failed() {
		t.Fatal(failed(fs))
	}
	a := asking{rand.New(rand.NewPCG(1, 2))}
	answers := map[string]int{}
	for range 1100 {
		method := a.of("GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE", "TRACE", "get")
		host, path := a.where()
		target, fields := a.target(path), a.fields()
		what := fmt.Sprintf("%s %q of %s %v", method, target, host, fields)
		d, err := check.Decide(g, check.Question{URL: "http://" + host + target, Method: method, Fields: fields, Client: netip.MustParseAddr("127.0.0.1")})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if i := strings.IndexByte(target, '#'); i >= 0 {
			target = target[:i] // a URL's fragment is not sent
		}
		resp, body := raw(t, addr, method, target, host, fields)
		backend := resp.Header.Get("X-Backend")
		answers[fmt.Sprint(d.Handler, " ", d.Status)]++
		switch {
		case d.Status != 0 && (resp.StatusCode != d.Status || resp.Header.Get("Location") != d.Location):
			t.Errorf("%s: explained as %d %s %q (%s), is %d %q from %q", what, d.Status, d.Reason, d.Location, d.Message, resp.StatusCode, resp.Header.Get("Location"), backend)
		case d.Status != 0:
		case resp.StatusCode != 299:
			t.Errorf("%s: explained as sent to %s, is %d", what, d.Group, resp.StatusCode)
		case d.Handler == "fastcgi":
			if vars := stepText(d, "application"); method != "HEAD" && body != variable(vars, "SCRIPT_FILENAME")+"|"+variable(vars, "DOCUMENT_URI") {
				t.Errorf("%s: explained %q, ran %q", what, vars, body)
			}
		default:
			if backend != d.Group && !strings.HasPrefix(d.Group, "websocket:") {
				t.Errorf("%s: explained as sent to %s, came to %s", what, d.Group, backend)
			}
			if method != "HEAD" {
				sameRequest(t, what, stepText(d, "upstream request"), body)
			}
		}
	}
	for _, kind := range []string{"proxy 0", "fastcgi 0", "websocket 0", "static 200", "static 405", "proxy 426", "websocket 426", " 302", " 417", " 500", " 502",
		" 301", " 400", " 403", " 404", " 405", " 410", " 503"} {
		if answers[kind] == 0 {
			t.Errorf("nothing was %q: %v", kind, answers)
		}
	}
}

func variable(lines, name string) string {
	for line := range strings.Lines(lines) {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSuffix(v, "\n")
		}
	}
	return ""
}

func stepText(d *check.Decision, name string) string {
	for _, s := range d.Steps {
		if s.Name == name {
			return s.Text + "\n" + strings.Join(s.Details, "\n")
		}
	}
	return ""
}

// sameRequest compares the request that was explained with the one that came.
func sameRequest(t *testing.T, what, explained, came string) {
	t.Helper()
	lines := func(s string) []string {
		list := strings.Split(strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")), "\n")
		list = slices.DeleteFunc(list, func(l string) bool { return strings.HasPrefix(l, "Host: ") })
		slices.Sort(list[1:])
		return list
	}
	if e, c := lines(explained), lines(came); !slices.Equal(e, c) {
		t.Errorf("%s:\nexplained %q\ncame      %q", what, e, c)
	}
}
