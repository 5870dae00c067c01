package server

import (
	"strings"
	"testing"
)

// Who may purge a URL (LSX 10.4): this machine, and from anywhere the users of purgeRealm.
// All others are asked for a password, or told that there is no such method, and the entry
// stays.
func TestPurgeByCredentials(t *testing.T) {
	b := startBackends(t)
	fill := strings.NewReplacer("%FCGI", b.fcgi)
	tree := func(realm string) string {
		return fill.Replace(`<extProcessor><type>fcgi</type><name>php</name><address>uds://%FCGI</address></extProcessor>
  <cache><cacheEngine>1</cacheEngine>` + realm + `</cache>
  <security><realm><name>R</name><userDB><location>conf/users</location></userDB></realm></security>
  <rewrite><enable>1</enable><rules>RewriteRule ^ - [E=Cache-Control:max-age=600]</rules></rewrite>
  <context><type>fcgi</type><uri>/</uri><handler>php</handler></context>`)
	}
	const (
		away  = "X-Forwarded-For: 192.0.2.1" // what a proxy says that nobody trusts is not of this machine
		right = "Authorization: Basic YW5uOnNlY3JldA=="
		wrong = "Authorization: Basic YW5uOndyb25n"
	)
	root := treeOf(t, tree(""))
	put(t, root, "conf/users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n") // secret
	r := run(t, root)
	addr := strings.TrimPrefix(r.base, "http://")
	f := func(method string, fields []string, status int, stays bool) {
		t.Helper()
		for range 2 {
			ask11(t, addr, "GET", "/stored", "site.test")
		}
		b.whole()
		a := ask11(t, addr, method, "/stored", "site.test", fields...)
		if a.status != status || b.whole() != "" {
			t.Errorf("%s %q: %d %q, want %d, and no application that sees it", method, fields, a.status, a.body, status)
		}
		ask11(t, addr, "GET", "/stored", "site.test")
		if got := b.whole() == ""; got != stays {
			t.Errorf("%s %q: the entry stays: %v, want %v", method, fields, got, stays)
		}
	}
	f("PURGE", nil, 200, false)
	f("PURGE", []string{away}, 405, true)
	f("PURGE", []string{away, right}, 405, true)
	put(t, root, "conf/site.xml", "<virtualHostConfig><docRoot>html</docRoot>"+tree("<purgeRealm>R</purgeRealm>")+"</virtualHostConfig>")
	if line := r.reload(t); !strings.Contains(line, "published") {
		t.Fatal(line)
	}
	f("PURGE", nil, 200, false)
	f("PURGE", []string{away}, 401, true)
	f("PURGE", []string{away, wrong}, 401, true)
	f("PURGE", []string{away, right, right}, 401, true)
	f("PURGE", []string{away, right}, 200, false)
	f("REFRESH", []string{away, wrong}, 401, true)
	put(t, root, "conf/site.xml", "<virtualHostConfig><docRoot>html</docRoot>"+tree("<purgeRealm>Q</purgeRealm>")+"</virtualHostConfig>")
	if line := r.reload(t); !strings.Contains(line, "refused") {
		t.Error(line)
	}
	f("PURGE", []string{away, right}, 200, false) // the running generation stays
}
