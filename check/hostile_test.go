package check

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// checked is the JSON report on a server file of this text.
func checked(t *testing.T, name, text string) (Report, int) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	code := Run(Options{Root: dir, Format: "json"}, &out)
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r, code
}

// A server file that is broken, hostile or half written is one finding and no
// configuration: never an empty one (R-CFG-5, R-CFG-7).
func TestHostileFiles(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		r, code := checked(t, name, text)
		if code != Failed || r.OK || r.Summary != nil || r.Hash != "" || len(r.Findings) != 1 {
			t.Errorf("%.60q: exit %d, %d findings, summary %v", text, code, len(r.Findings), r.Summary)
			return
		}
		if got := r.Findings[0]; got.Severity != "error" || got.File != name || got.Line == 0 || got.Column == 0 || !strings.Contains(got.Code+": "+got.Message, want) {
			t.Errorf("%.60q: finding %+v, want %s", text, got, want)
		}
	}
	const xml, plain = "conf/httpd_config.xml", "conf/httpd_config.conf"
	whole := "<httpServerConfig>\n<serverName>a</serverName>\n<listener><name>a</name></listener>\n</httpServerConfig>"
	for n := range len(whole) - 1 { // a copy that goes on
		if n > 0 {
			f(xml, whole[:n], "E-XML")
		}
	}
	f(xml, "", "E-XML: file holds no element")
	f(xml, "\ufeff", "E-XML: file holds no element")
	f(xml, "<!-- -->", "E-XML: file holds no element")
	f(xml, "serverName a\n", "E-XML: file holds no element")
	f(xml, strings.Repeat("<a>", 100_000), "E-XML: elements are nested deeper than 32")
	f(xml, "<httpServerConfig>"+strings.Repeat("<a/>", 200_000)+"</httpServerConfig>", "E-XML: file holds more than 100000 elements")
	f(xml, "<httpServerConfig><serverName>"+strings.Repeat("a", 10<<20)+"</serverName></httpServerConfig>", "E-XML: file is larger than 8 MiB")
	f(xml, `<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><httpServerConfig>&b;</httpServerConfig>`, "E-XML: DOCTYPE with declarations")
	f(xml, `<!DOCTYPE a SYSTEM "file:///etc/passwd" [<!ENTITY % x SYSTEM "http://a/">%x;]><httpServerConfig/>`, "E-XML: DOCTYPE with declarations")
	f(xml, "<httpServerConfig>&bomb;</httpServerConfig>", "E-XML: not well-formed: invalid character entity")
	f(xml, "<httpServerConfig>\xff\xfe</httpServerConfig>", "E-XML: not well-formed: invalid UTF-8")
	f(xml, "<httpServerConfig>\x00</httpServerConfig>", "E-XML: not well-formed: illegal character code")
	f(xml, `<?xml version="1.0" encoding="UTF-16"?><httpServerConfig/>`, `encoding "UTF-16" is not supported`)
	f(xml, "<virtualHostConfig/>", "E-ROOT")
	f(xml, whole+whole, "E-XML: second root element")

	whole = "serverName a\nlistener a {\n  address *:80\n}\nrewrite {\n  rules <<<END_rules\nx\n  END_rules\n}\n"
	for n := strings.Index(whole, "{") + 1; n < len(whole)-2; n++ {
		if open := strings.Count(whole[:n], "{") - strings.Count(whole[:n], "}"); open > 0 {
			f(plain, whole[:n], "E-CONF")
		}
	}
	f(plain, "# nothing\n", "E-CONF: file holds no setting")
	f(plain, "Dear Sir\nor Madam\n", "E-CONF: file holds no known setting")
	f(plain, strings.Repeat("tuning {\n", 100_000), "E-CONF: blocks are nested deeper than 32")
	f(plain, strings.Repeat("serverName a\n", 200_000), "E-CONF: file holds more than 100000 settings")
	f(plain, "serverName "+strings.Repeat("a", 10<<20), "E-CONF: file is larger than 8 MiB")
	f(plain, "serverName \xff\xfe\n", "E-CONF: file is no UTF-8 text")
	f(plain, "serverName \x00\n", "E-CONF: file is no UTF-8 text")
	f(plain, "serverName a\ninclude conf/httpd_config.conf\n", "E-CONF: include is nested deeper than 8")
	f(plain, "serverName a\ninclude /proc/self/mem\n", "E-CONF: include /proc/self/mem")
	f(plain, "serverName a\ninclude conf\x2f[\n", "E-CONF: include conf/[: syntax error in pattern")
}

// What cannot be opened is one finding too: a directory in the place of the file,
// and a directory that may not be searched.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "conf/httpd_config.xml"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, code := run(t, Options{Root: dir}); code != Failed || strings.Count(out, "lint") != 1 || !strings.Contains(out, "not a regular file") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if os.Geteuid() == 0 {
		t.Skip("root may search every directory")
	}
	dir = t.TempDir()
	conf := filepath.Join(dir, "conf")
	if err := os.MkdirAll(conf, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(conf, 0o755) // so that it can be removed
	if out, code := run(t, Options{Root: dir}); code != Failed || strings.Count(out, "lint") != 1 || !strings.Contains(out, "permission denied") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// G46: a check opens no listener, so an address that is in use is no finding, and
// one that two listeners of the tree want is.
func TestG46AddressesInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tree := func(second string) string {
		return unpack(t, txtar.Parse([]byte("-- conf/httpd_config.xml --\n<httpServerConfig>"+
			"<virtualHost><name>x</name><vhRoot>$SERVER_ROOT</vhRoot><configFile>conf/x.xml</configFile></virtualHost>"+
			listener("a", l.Addr().String())+listener("b", second)+
			"</httpServerConfig>\n-- conf/x.xml --\n<virtualHostConfig><docRoot>html</docRoot></virtualHostConfig>\n-- html/a --\n")))
	}
	if out, code := run(t, Options{Root: tree("127.0.0.1:1"), FailOn: "info"}); code != OK {
		t.Errorf("an address in use: exit %d\n%s", code, out)
	}
	if out, code := run(t, Options{Root: tree(l.Addr().String()), Strict: true}); code != Failed || !strings.Contains(out, "E-LISTEN-DUP") {
		t.Errorf("one address twice: exit %d\n%s", code, out)
	}
}

func listener(name, address string) string {
	return "<listener><name>" + name + "</name><address>" + address + "</address><vhostMap><vhost>x</vhost><domain>x.test</domain></vhostMap></listener>"
}

// G48: checks and reports leave no goroutine and no descriptor, also of trees
// with health checks.
func TestG48ChecksLeaveNothing(t *testing.T) {
	root := archive(t, "groups.txt")
	count := func() (goroutines, files int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("not run: ", err)
		}
		return runtime.NumGoroutine(), len(entries)
	}
	run(t, Options{Root: root})
	goroutines, files := count()
	for range 200 {
		run(t, Options{Root: root})
	}
	Migrate(MigrationOptions{Root: root}, io.Discard)
	if g, f := count(); g > goroutines || f > files {
		t.Errorf("%d goroutines and %d files, at first %d and %d", g, f, goroutines, files)
	}
}
