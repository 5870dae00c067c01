package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"httpjet/lsapi/lsapitest"
)

// guardedKinds are the kinds of routes: which type the contexts of a host have, and
// what leads its other paths there.
var guardedKinds = map[string]struct{ context, rest string }{
	"static":    {"static", ""},
	"proxy":     {"proxy", "<context><type>proxy</type><uri>/</uri><handler>app</handler></context>"},
	"p":         {"static", "<rewrite><enable>1</enable><rules>\nRewriteRule ^/?(.*)$ http://app/$1 [P]\n</rules></rewrite>"},
	"websocket": {"static", "<websocket><uri>/</uri><address>%[1]s</address></websocket>"},
	"fastcgi":   {"fcgi", "<context><type>fcgi</type><uri>/</uri><handler>php</handler></context>"},
	"lsapi":     {"lsapi", "<context><type>lsapi</type><uri>/</uri><handler>ls</handler></context>"},
	"rewritten": {"static", "<rewrite><enable>1</enable><rules>\nRewriteRule ^/?in/(.*)$ /$1\n</rules></rewrite>"},
	"links1":    {"static", ""}, // symbolic links are followed
	"links2":    {"static", ""}, // those of their target's owner are
	"htaccess":  {"static", ""}, // Options of .htaccess files say so
	// A page cache has its row here: what is protected is protected where the same host
	// has an answer for it in its cache.
}

// guardedTree has for each kind a host that protects paths in every way, and one whose
// own access list refuses everybody.
func guardedTree(t *testing.T, b *backends) (root string) {
	t.Helper()
	root = t.TempDir()
	(*authority)(nil).issue(t, root, "own")
	hosts, maps := "", ""
	add := func(name, vhost string) {
		links := map[string]string{"links1": "1", "links2": "2", "htaccess": "1"}[name]
		if links == "" {
			links = "0"
		}
		hosts += "<virtualHost><name>" + name + "</name><vhRoot>.</vhRoot><allowSymbolLink>" + links + "</allowSymbolLink><configFile>conf/" + name + ".xml</configFile></virtualHost>"
		maps += "<vhostMap><vhost>" + name + "</vhost><domain>" + name + ".test</domain></vhostMap>"
		put(t, root, "conf/"+name+".xml", "<virtualHostConfig><docRoot>html</docRoot>"+vhost+"</virtualHostConfig>")
	}
	for kind, k := range guardedKinds {
		typ := "<type>" + k.context + "</type>"
		switch k.context {
		case "proxy":
			typ += "<handler>app</handler>"
		case "fcgi":
			typ += "<handler>php</handler>"
		case "lsapi":
			typ += "<handler>ls</handler>"
		}
		rest := strings.ReplaceAll(k.rest, "%[1]s", b.http)
		procs := `<extProcessor><type>proxy</type><name>app</name><address>` + b.http + `</address></extProcessor>
  <extProcessor><type>fcgi</type><name>php</name><address>uds://` + b.fcgi + `</address></extProcessor>
  <extProcessor><type>lsapi</type><name>ls</name><address>uds://` + b.lsapi + `</address></extProcessor>`
		add(kind, procs+rest+`<htAccess><allowOverride>31</allowOverride></htAccess>
  <security><realm><name>R</name><userDB><location>conf/users</location></userDB></realm></security>
  <context>`+typ+`<uri>/realm/</uri><realm>R</realm></context>
  <context>`+typ+`<uri>/deny/</uri><accessControl><allow>192.0.2.1</allow><deny>ALL</deny></accessControl></context>
  <context>`+typ+`<uri>/browse/</uri><allowBrowse>0</allowBrowse></context>`)
		add(kind+"-shut", procs+rest+`<security><accessControl><deny>ALL</deny></accessControl></security>`)
	}
	put(t, root, "conf/httpd_config.xml", `<httpServerConfig><security><accessDenyDir><dir>html/secret/*</dir></accessDenyDir></security>`+hosts+
		`<listener><name>Default</name><address>127.0.0.1:1</address>`+maps+`</listener>
  <listener><name>S</name><address>127.0.0.1:2</address><secure>1</secure><certFile>own.crt</certFile><keyFile>own.key</keyFile>`+maps+`</listener></httpServerConfig>`)
	put(t, root, "conf/users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n") // secret
	for _, name := range []string{"realm/x.txt", "realm/index.html", "deny/x.txt", "browse/x.txt", "ht/x.txt", ".git/config", ".htpasswd", "secret/x.txt",
		"source.php", "private.txt", "../outside/x.txt", "realm/x.php", "open.txt", "opt/open.txt", "opt/in/x.txt"} {
		put(t, root, "html/"+name, "leak")
	}
	put(t, root, "html/ht/.htaccess", "Require all denied")
	put(t, root, "html/opt/.htaccess", "Options -FollowSymLinks")
	for link, target := range map[string]string{"link": "../outside", "file.txt": "../outside/x.txt", "tosecret": "secret", "togit": ".git", "src.txt": "source.php",
		"tosecret.txt": "secret/x.txt", "opt/l.txt": "../../outside/x.txt", "opt/dir": "../../outside", "opt/index.html": "../../outside/x.txt", "theirs.txt": "../outside/x.txt"} {
		if err := os.Symlink(target, filepath.Join(root, "html", link)); err != nil {
			t.Fatal(err)
		}
		if link == "theirs.txt" && os.Getuid() == 0 {
			if err := os.Lchown(filepath.Join(root, "html", link), 4001, 4001); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(filepath.Join(root, "html/private.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

// spellings are ways to write a path that a rule or an application may take for
// another one.
func spellings(path string) []string {
	at := strings.LastIndexByte(path, '/')
	dir, file := path[:at], path[at+1:]
	list := []string{path, "/" + path, "/." + path, "/x/.." + path, "/x/%2e%2e" + path, path + "?a=b", "/%" + fmt.Sprintf("%02x", path[1]) + path[2:],
		strings.ReplaceAll(path, "/", "/;/"), path + ";v=1", dir + "//" + file, dir + "/./" + file, "/in" + path, path + "%00", path + "%20"}
	if dir != "" {
		list = append(list, dir+"%2f"+file, dir+"%2F"+file, dir+`\`+file, dir+"%5c"+file, dir+";v=1/"+file, "/"+dir+"/../"+strings.TrimPrefix(dir, "/")+"/"+file, dir)
	}
	return list
}

// guardedAnswer is what a GET or another request finds.
type guardedAnswer struct {
	status int
	body   string
}

// ask11 sends a request over HTTP/1.1, its target as it is.
func ask11(t *testing.T, addr, method, target, host string, fields ...string) guardedAnswer {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, target, host, strings.Join(append(fields, ""), "\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return guardedAnswer{}
	}
	if resp.StatusCode == 101 {
		return guardedAnswer{101, ""}
	}
	body, _ := io.ReadAll(resp.Body)
	return guardedAnswer{resp.StatusCode, string(body)}
}

// isRefusal reports whether an answer gives nothing away. A redirect is one to another
// spelling of the same path.
func (a guardedAnswer) isRefusal() bool {
	switch a.status {
	case 301, 400, 401, 403, 404, 405, 416:
		return !strings.Contains(a.body, "leak")
	}
	return false
}

// Dispatch rows 9 to 13b, R-SAFE-1, R-ACL-7: what is protected is protected whatever
// answers there, however the path is spelt, for every method and version. LiteSpeed
// leaves [P] and WebSocket maps open (fault 16 of what was observed).
func TestNothingProtectedIsOpen(t *testing.T) {
	b := startBackends(t)
	root := guardedTree(t, b)
	r, addrs := runBoth(t, root)
	plain := strings.TrimPrefix(r.base, "http://")
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "own", NextProtos: []string{"h2"}},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addrs["S"])
		}}
	defer tr.CloseIdleConnections()
	ask2 := func(method, target, host string, fields ...string) guardedAnswer {
		req := &http.Request{Method: method, Host: host, Header: http.Header{}, URL: &url.URL{Scheme: "https", Host: addrs["S"], Opaque: target}}
		if strings.HasPrefix(target, "//") {
			return guardedAnswer{status: 400} // net/http would take it for a host
		}
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			req.Header.Add(name, value)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s %s: %v", method, target, err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if resp.ProtoMajor != 2 {
			t.Fatal(resp.Proto)
		}
		return guardedAnswer{resp.StatusCode, string(body)}
	}
	upgrade := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="}
	auth := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("ann:secret"))
	everywhere := []string{"/realm/x.txt", "/realm/", "/deny/x.txt", "/browse/x.txt", "/.git/config", "/.htpasswd", "/ht/x.txt"}
	files := []string{"/secret/x.txt", "/private.txt", "/realm/x.php", "/tosecret/x.txt", "/tosecret.txt", "/togit/config", "/src.txt"}
	links := map[string][]string{
		"static": {"/link/x.txt", "/file.txt", "/opt/l.txt", "/opt/dir/x.txt", "/opt/"}, "links1": nil, "links2": nil,
		"htaccess": {"/opt/l.txt", "/opt/dir/x.txt", "/opt/"},
	}
	links["rewritten"] = links["static"]
	if os.Getuid() == 0 { // only root can give links away
		links["links2"] = []string{"/theirs.txt"}
	}
	asked := 0
	check := func(kind, what string, a guardedAnswer) {
		t.Helper()
		asked++
		if !a.isRefusal() {
			t.Errorf("%s: %s: %d %q", kind, what, a.status, a.body)
		}
		if saw := b.whole(); saw != "" {
			t.Errorf("%s: %s reached a backend: %q", kind, what, saw)
		}
	}
	walk := func(kind, host, path string) {
		for _, target := range spellings(path) {
			if strings.HasPrefix(target, "/in/") && kind != "rewritten" && !strings.HasSuffix(host, "-shut.test") {
				continue // another path, which nothing protects
			}
			for _, method := range []string{"GET", "HEAD", "POST"} {
				check(kind, method+" "+target, ask11(t, plain, method, target, host))
				check(kind, "h2 "+method+" "+target, ask2(method, target, host))
			}
			check(kind, "range "+target, ask11(t, plain, "GET", target, host, "Range: bytes=0-1"))
			check(kind, "h2 range "+target, ask2("GET", target, host, "Range: bytes=0-1"))
			check(kind, "upgrade "+target, ask11(t, plain, "GET", target, host, upgrade...))
			check(kind, "wrong password "+target, ask11(t, plain, "GET", target, host, "Authorization: Basic YW5uOndyb25n"))
		}
	}
	for kind := range guardedKinds {
		for _, path := range everywhere {
			walk(kind, kind+".test", path)
		}
		if own, isFiles := links[kind]; isFiles {
			for _, path := range append(slices.Clone(files), own...) {
				walk(kind, kind+".test", path)
			}
			if a := ask11(t, plain, "GET", "/source.php", kind+".test"); strings.Contains(a.body, "leak") || a.status != 503 {
				t.Errorf("%s: the source of a script: %d %q", kind, a.status, a.body)
			}
		}
		walk(kind, kind+"-shut.test", "/open.txt")

		// The same is open to who may have it: the walk is not refused for another reason.
		const want = 200
		if kind == "links1" || kind == "links2" {
			if a := ask11(t, plain, "GET", "/file.txt", kind+".test"); a.status != want || a.body != "leak" {
				t.Errorf("%s: a link that may be followed: %d %q", kind, a.status, a.body)
			}
		}
		if a := ask11(t, plain, "GET", "/realm/x.txt", kind+".test", auth); a.status != want {
			t.Errorf("%s: with the password: %d %q", kind, a.status, a.body)
		}
		if a := ask2("GET", "/realm/x.txt", kind+".test", auth); a.status != want {
			t.Errorf("%s: with the password, h2: %d %q", kind, a.status, a.body)
		}
		if kind == "websocket" || kind == "proxy" {
			if a := ask11(t, plain, "GET", "/realm/x.txt", kind+".test", append(upgrade, auth)...); a.status != 200 { // the backend does not upgrade
				t.Errorf("%s: upgrade with the password: %d %q", kind, a.status, a.body)
			}
		}
		if a := ask11(t, plain, "GET", "/open.txt", kind+".test"); a.status != want {
			t.Errorf("%s: what is open: %d %q", kind, a.status, a.body)
		}
		b.whole()
	}
	t.Log(asked, "requests")
}

// answerLSAPI is what the LSAPI application says.
func (b *backends) answerLSAPI(q *lsapitest.Request) []byte {
	b.keep(q.Method + " " + q.Script)
	return lsapitest.Reply(200, "said")
}
