package generation

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"httpjet/contexts"
	"httpjet/exchange"
	"httpjet/proxy"
	"httpjet/xmlconf"
)

// What stands in <rewrite> of a host and of contexts runs as its switches say.
func TestRulesRun(t *testing.T) {
	f := func(vhost, path string, status int, text string) {
		t.Helper()
		ask, fs := safetyParts{vhost: vhost, files: map[string]string{"b.txt": "b", "s/x.txt": "sx", "s/d/x.txt": "sdx", "more.conf": "RewriteRule ^/more$ /b.txt"}}.build(t)
		if got, body := ask(path); got != status || !strings.Contains(body, text) {
			t.Errorf("%s of %s: %d %q, want %d %q; %v", path, vhost, got, body, status, text, fs.All())
		}
	}
	rules := func(enable, text string) string {
		return "<rewrite>" + enable + "<rules>" + text + "</rules></rewrite>"
	}
	on, off := "<enable>1</enable>", "<enable>0</enable>"
	f(rules(on, "RewriteRule ^/m$ /b.txt"), "/m", 200, "b")
	f(rules(off, "RewriteRule ^/m$ /b.txt"), "/m", 404, "")
	f(rules(off, "RewriteEngine on\nRewriteRule ^/m$ /b.txt"), "/m", 404, "")
	f(rules(on, "RewriteEngine off\nRewriteRule ^/b - [F]"), "/b.txt", 200, "b")
	f(rules(on, "RewriteRule ^/b - [F]"), "/b.txt", 403, "")
	f(rules(on, "RewriteRule ^/b - [F,Q]"), "/b.txt", 503, "") // R-SAFE-1
	f(rules(on, "RewriteRule ^/b - [F,Q]"), "/a/x.txt", 200, "text")
	f(rules(on, "RewriteFile more.conf"), "/more", 200, "b")
	f(rules(on+"<map><name>lower</name><location>int:tolower</location></map>", "RewriteRule ^/(.*)$ /${lower:$1}"), "/B.TXT", 200, "b")
	f(rules(on, "RewriteRule ^/x$ http://nobody/ [P]"), "/x", 502, "")
	f(rules(on, "RewriteRule ^/x$ http://app/ [P]")+"<extProcessor><type>fcgi</type><name>app</name><address>127.0.0.1:1</address></extProcessor>", "/x", 503, "")

	context := func(uri, more string) string { return "<context><uri>" + uri + "</uri>" + more + "</context>" }
	f(context("/s/", rules(on, "RewriteRule ^m$ x.txt")), "/s/m", 200, "sx")
	f(context("/s/", rules("", "RewriteEngine on\nRewriteRule ^m$ x.txt")), "/s/m", 200, "sx")
	f(context("/s/", rules("", "RewriteRule ^m$ x.txt")), "/s/m", 404, "")
	f(rules(on, "RewriteRule ^/never /x")+context("/s/", rules("", "RewriteRule ^m$ x.txt")), "/s/m", 200, "sx")
	f(context("/s/", rules(on+"<base>/s/d/</base>", "RewriteRule ^m$ x.txt")), "/s/m", 200, "sdx")
	f(context("/t/", "<location>$DOC_ROOT/s/</location>"+rules(on, "RewriteCond %{REQUEST_FILENAME} -f\nRewriteRule ^x.txt$ d/x.txt")), "/t/x.txt", 200, "sdx")

	// A context without rules has those of the one around it; with inherit they also
	// run behind own ones.
	outer := context("/s/", rules(on, "RewriteRule ^d/m$ /b.txt"))
	f(outer+context("/s/d/", ""), "/s/d/m", 200, "b")
	f(outer+context("/s/d/", rules(on, "RewriteRule ^other$ -")), "/s/d/m", 200, "b")
	f(outer+context("/s/d/", rules(on+"<inherit>0</inherit>", "RewriteRule ^other$ -")), "/s/d/m", 404, "")
	f(outer+context("/s/d/", rules(off, "")), "/s/d/m", 404, "")
}

// R-P-4: a rule may name a host that is no processor where that is allowed. Nobody
// answers there: that is told as of any upstream.
func TestAdHocProxy(t *testing.T) {
	f := func(more, target string, findings int) {
		t.Helper()
		ask, fs := safetyParts{vhost: "<rewrite><enable>1</enable>" + more + "<rules>RewriteRule ^/x(.*)$ " + target +
			"$1 [P]\nRewriteRule ^/y$ " + target + "/y [P]</rules></rewrite>"}.build(t)
		if len(fs.All()) != findings {
			t.Errorf("%s: %v", target, fs.All())
		}
		for _, path := range []string{"/x", "/x/a", "/y"} {
			if status, _ := ask(path); status != 502 && status != 503 {
				t.Errorf("%s: %d", path, status)
			}
		}
	}
	allow := "<allowAdHocProxy>1</allowAdHocProxy>"
	f(allow, "http://127.0.0.1:1", 0)
	f(allow, "wss://127.0.0.1:1", 0)
	f(allow, "unix:/nowhere/app.sock|", 0)
	f("", "http://127.0.0.1:1", 2)
	f(allow, "http://127.0.0.1:nope", 2)
	f(allow, "http://%{HTTP_HOST}", 2)
}

// R-P-4: a host that is made of the request is refused, or with allowDynamicProxy the
// name of a processor; nothing that a client sends leads anywhere else.
func TestDynamicProxy(t *testing.T) {
	rules := func(more string) safetyParts {
		return safetyParts{vhost: `<extProcessor><type>proxy</type><name>app</name><address>127.0.0.1:1</address></extProcessor>
			<extProcessor><type>proxy</type><name>tls</name><address>https://127.0.0.1:1</address></extProcessor>
			<extProcessor><type>fcgi</type><name>php</name><address>127.0.0.1:1</address></extProcessor>
			<rewrite><enable>1</enable>` + more + `<map><name>low</name><location>int:tolower</location></map><rules>
			RewriteRule ^/to/([^/]+)(/.*)?$ http://$1$2 [P]
			RewriteRule ^/host/(.*)$ http://%{HTTP:X-To}/$1 [P]
			RewriteRule ^/map/([^/]*)/(.*)$ http://${low:$1}/$2 [P]
			RewriteRule ^/tls/([^/]*)/(.*)$ https://$1/$2 [P]
			RewriteRule ^/any/(.*)$ %{HTTP:X-Url}://$1/ [P]
			RewriteRule ^/app(.*)$ http://app$1 [P]
			</rules></rewrite>
			<htAccess><allowOverride>31</allowOverride></htAccess>`,
			files: map[string]string{"ht/.htaccess": "RewriteEngine on\nRewriteRule ^(.*)$ http://%{HTTP:X-To}/$1 [P]"}}
	}
	ask, fs := rules("<allowDynamicProxy>1</allowDynamicProxy>").site(t)
	for _, f := range fs.All() {
		if f.Code == "E-REWRITE" {
			t.Error(f)
		}
	}
	f := func(path, to, group string) {
		t.Helper()
		x, _ := ask("GET", path, "X-To: "+to, "X-Url: "+to)
		if x.Route.Group != group || x.Resp.Status != 502 && x.Resp.Status != 503 || group == "" && x.Resp.Fields.Get("X-Httpjet-Proxy-Error") != "bad_target" {
			t.Errorf("%s to %q: %d, group %q, want %q", path, to, x.Resp.Status, x.Route.Group, group)
		}
	}
	f("/to/app/x", "", "app")
	f("/host/x?a=b", "app", "app")
	f("/map/APP/x", "", "app")
	f("/tls/tls/x", "", "tls")
	f("/app/x", "", "app")
	for _, name := range []string{"127.0.0.1:1", "php", "other.test", "app:80", "user@app", "app@127.0.0.1", "APP", "app%2F", "", "app.", "app#", "app?", `app\`} {
		f("/host/x", name, "")
	}
	f("/to/app", "", "") // LiteSpeed too: a name needs its slash
	f("/to/127.0.0.1/x", "", "")
	f("/tls/app/x", "", "")
	f("/any/app", "gopher", "")
	f("/any/app", "", "")
	f("/ht/x", "app", "")
	ask, _ = rules("").site(t)
	for _, path := range []string{"/to/app/x", "/host/x", "/map/app/x", "/any/app", "/ht/x"} {
		f(path, "app", "")
	}
	f("/app/x", "", "app")
}

// R-P-4, R-P-5: with both switches a rule may send to any host that a request names; the
// hosts known at once are bounded, and a generation that ends gives its pools up.
func TestAnyHost(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Host, r.URL)
	}))
	defer upstream.Close()
	addr := upstream.Listener.Addr().String()
	site := func(switches, rule string) (func(method, path string, fields ...string) (*exchange.Exchange, string), *xmlconf.Findings) {
		return safetyParts{vhost: `<extProcessor><type>proxy</type><name>app</name><address>127.0.0.1:1</address></extProcessor>
			<rewrite><enable>1</enable>` + switches + `<rules>` + rule + `</rules></rewrite>
			<htAccess><allowOverride>31</allowOverride></htAccess>`,
			files: map[string]string{"ht/.htaccess": "RewriteEngine on\nRewriteRule ^(.*)$ http://%{HTTP:X-To}/$1 [P]"}}.site(t)
	}
	const dynamic, adHoc = "<allowDynamicProxy>1</allowDynamicProxy>", "<allowAdHocProxy>1</allowAdHocProxy>"
	const rule = `RewriteRule ^/host/(.*)$ http://%{HTTP:X-To}/$1 [P]`
	ask, fs := site(dynamic+adHoc, rule)
	if !slices.ContainsFunc(fs.All(), func(f xmlconf.Finding) bool {
		return f.Code == "W-REWRITE" && strings.Contains(f.Text(), "any address")
	}) {
		t.Error("nothing tells that requests reach any address:", fs.All())
	}
	for range 2 {
		if x, body := ask("GET", "/host/a?b=c", "X-To: "+addr); x.Resp.Status != 200 || body != "v.test /a?b=c" || x.Route.Group != "[P] any host" {
			t.Errorf("%d %q by %q", x.Resp.Status, body, x.Route.Group)
		}
	}
	if x, _ := ask("GET", "/host/a", "X-To: app"); x.Route.Group != "app" {
		t.Errorf("a declared name goes to %q", x.Route.Group)
	}
	for _, bad := range []string{"", "user@" + addr, addr + "?", "127.0.0.1:nope", "127.0.0.1:0", "a b", `a\`, "127.0.0.1:99999", "[::1", "$VAR", "a_b\x00"} {
		if x, _ := ask("GET", "/host/a", "X-To: "+bad); x.Resp.Fields.Get("X-Httpjet-Proxy-Error") != "bad_target" && x.Resp.Status != 502 {
			t.Errorf("%q: %d by %q", bad, x.Resp.Status, x.Route.Group)
		}
	}
	refused := func(ask func(method, path string, fields ...string) (*exchange.Exchange, string), path string) {
		t.Helper()
		if x, _ := ask("GET", path, "X-To: "+addr); x.Resp.Status != 502 || x.Resp.Fields.Get("X-Httpjet-Proxy-Error") != "bad_target" {
			t.Errorf("%s: %d", path, x.Resp.Status)
		}
	}
	refused(ask, "/ht/a") // whoever writes files names declared processors alone
	for _, switches := range []string{dynamic, adHoc, ""} {
		ask, _ := site(switches, rule)
		refused(ask, "/host/a")
	}
}

func TestAnyHostsAreBounded(t *testing.T) {
	kept := &Kept{}
	a := &anyHosts{kept: kept, most: 3, list: map[anyHostKey]*anyHost{}}
	p := adHocProcessor("h", "any host")
	find := func(host string) *contexts.Target {
		address, err := xmlconf.ParseAddress("http://"+host, xmlconf.WebSocketAddress)
		if err != nil {
			t.Fatal(err)
		}
		to, err := a.find("h", address, p.decl, &proxy.Handler{})
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	one := find("127.0.0.1:1")
	find("127.0.0.1:2")
	find("127.0.0.1:3")
	if find("127.0.0.1:1") != one || kept.Proxies.Len() != 3 {
		t.Error("a known host was made anew")
	}
	find("127.0.0.1:4")
	if _, there := a.list[anyHostKey{"h", "http://127.0.0.1:2"}]; there || kept.Proxies.Len() != 3 {
		t.Errorf("%d pools; the one that was asked for longest ago is there: %v", kept.Proxies.Len(), there)
	}
	if a.end(); kept.Proxies.Len() != 0 {
		t.Errorf("%d pools are left", kept.Proxies.Len())
	}
}
