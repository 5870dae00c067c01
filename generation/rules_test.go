package generation

import (
	"strings"
	"testing"
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
