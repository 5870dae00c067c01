package server

import (
	"strings"
	"testing"
)

// Dispatch rows 13b and 15, R-SAFE-1, row "cache hit" of TestNothingProtectedIsOpen: a
// page that was stored before its path was protected is nobody's who may not have the
// path, however it is spelt.
func TestNothingProtectedIsOpenFromTheCache(t *testing.T) {
	b := startBackends(t)
	const procs = `<extProcessor><type>fcgi</type><name>php</name><address>uds://%FCGI</address></extProcessor>
  <extProcessor><type>proxy</type><name>web</name><address>%HTTP</address></extProcessor>
  <cache><cacheEngine>1</cacheEngine></cache>`
	const asked = `<rewrite><enable>1</enable><rules>
RewriteRule ^ - [E=Cache-Control:max-age=600]
RewriteRule ^/?p/(.*)$ http://web/$1 [P]
</rules></rewrite>`
	fill := strings.NewReplacer("%FCGI", b.fcgi, "%HTTP", b.http)
	context := func(uri, more string) string {
		return "<context><type>fcgi</type><uri>" + uri + "</uri><handler>php</handler>" + more + "</context>"
	}
	open := fill.Replace(procs + asked + context("/", ""))
	root := treeOf(t, open)
	put(t, root, "conf/users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n") // secret
	r := run(t, root)
	addr := strings.TrimPrefix(r.base, "http://")
	paths := []string{"/realm/stored", "/deny/stored", "/browse/stored", "/p/deny/stored"}
	for _, path := range paths {
		for range 2 {
			ask11(t, addr, "GET", path, "site.test")
		}
		b.whole()
	}
	for _, path := range paths { // they are stored, or the test shows nothing
		if a := ask11(t, addr, "GET", path, "site.test"); a.status != 200 || b.whole() != "" {
			t.Fatalf("%s is not from the cache: %d %q", path, a.status, a.body)
		}
	}
	put(t, root, "conf/site.xml", "<virtualHostConfig><docRoot>html</docRoot>"+fill.Replace(procs+asked)+
		"<security><realm><name>R</name><userDB><location>conf/users</location></userDB></realm></security>"+
		context("/", "")+context("/realm/", "<realm>R</realm>")+context("/deny/", "<accessControl><allow>192.0.2.1</allow><deny>ALL</deny></accessControl>")+
		context("/browse/", "<allowBrowse>0</allowBrowse>")+
		"<context><uri>/p/deny/</uri><accessControl><deny>ALL</deny></accessControl></context></virtualHostConfig>")
	if line := r.reload(t); !strings.Contains(line, "published") {
		t.Fatal(line)
	}
	for _, path := range paths {
		for _, target := range spellings(path) {
			if strings.HasPrefix(target, "/in/") || strings.HasPrefix(target, "/;") || strings.HasPrefix(target, "//p/deny/../p/") {
				continue // other paths
			}
			for _, method := range []string{"GET", "HEAD"} {
				for _, fields := range [][]string{nil, {"Authorization: Basic YW5uOndyb25n"}, {"If-None-Match: *"}} {
					if a := ask11(t, addr, method, target, "site.test", fields...); !a.isRefusal() {
						t.Errorf("%s %s %q: %d %q", method, target, fields, a.status, a.body)
					}
				}
			}
		}
	}
}
