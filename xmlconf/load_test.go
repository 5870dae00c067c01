package xmlconf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// R-CFG-1, R-CFG-3, R-CFG-4, R-CFG-5, LSX 9: everything that one root names.
func TestLoadServer(t *testing.T) {
	var fs Findings
	c := LoadServer("testdata/root", &fs)
	if c == nil {
		t.Fatal(lines(&fs))
	}
	root, err := filepath.Abs("testdata/root")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, h := range c.VHosts {
		doc := "not loaded"
		if h.Conf != nil {
			doc = h.Conf.DocRoot
		}
		fmt.Fprintf(&got, "%s template=%s root=%s doc=%s on %v as %v\n", h.Name, h.Template, h.Root, doc, h.Listeners, h.Domains)
	}
	want(t, &fs, `
conf/httpd_config.xml:21:18: error E-DUPNAME: virtualHost "shop" is declared twice: the first one is used (rename one)
conf/vhosts/gone.xml:1:1: error E-READ: no such file or directory
conf/httpd_config.xml:19:61: error E-UNLOADED: virtualHost "gone" is not loaded: file conf/vhosts/gone.xml cannot be used (requests for it answer 503)
conf/vhosts/broken.xml:3:21: error E-XML: not well-formed: element <docRoot> closed by </virtualHostConfig>
conf/httpd_config.xml:20:65: error E-UNLOADED: virtualHost "broken" is not loaded: file conf/vhosts/broken.xml cannot be used (requests for it answer 503)
conf/templates/hosting.xml:11:5: warn W-UNKNOWN: unknown element <unheardOf> is ignored
conf/httpd_config.xml:34:7: warn W-SKIPPED: vhTemplate "hosting": member "shop" is skipped, a host of that name exists
conf/templates/missing.xml:1:1: error E-READ: no such file or directory
conf/httpd_config.xml:36:92: error E-UNLOADED: virtualHost "carol" is not loaded: template conf/templates/missing.xml cannot be used (requests for it answer 503)
conf/httpd_config.xml:37:37: warn W-SKIPPED: vhTemplate "example" has no members and is skipped, file conf/templates/example.xml cannot be used: no such file or directory
conf/mime.properties:5:1: warn W-MIME: "no line at all" is no line of a MIME table (write suffix,suffix = type/subtype)`)
	if fs.Failed() {
		t.Error("broken vhost files made the load fail (R-CFG-5)")
	}
	wantHosts := strings.ReplaceAll(`shop template= root=ROOT/sites/shop doc=ROOT/sites/shop/html on [plain] as [shop.test www.shop.test]
gone template= root=/srv/gone doc=not loaded on [] as []
broken template= root=/srv/broken doc=not loaded on [] as []
alice template=hosting root=/home/alice doc=/home/alice/public on [plain] as [alice]
bob template=hosting root=/data/bob doc=/data/bob/public on [plain] as [bob.test bob.example www2.bob.test]
carol template=missing root= doc=not loaded on [] as [carol]
`, "ROOT", root)
	if got.String() != wantHosts {
		t.Errorf("hosts:\n%swant:\n%s", got.String(), wantHosts)
	}

	alice := c.VHosts[3]
	p := alice.Conf.ExtProcessors[0]
	if p.Name != "alice_php" || p.Targets[0].Address != "/run/alice.sock" || alice.Decl.AllowSymbolLink != 2 || !alice.Decl.Restrained ||
		alice.Conf.Logging.Log.FileName != root+"/logs/alice.log" {
		t.Errorf("member alice: processor %+v, declaration %+v", p, alice.Decl)
	}
	if shop := c.VHosts[0].Conf; shop.Contexts[0].Location != shop.DocRoot+"/img" || shop.Contexts[1].Location != shop.DocRoot+"/app" {
		t.Errorf("locations %s, %s", shop.Contexts[0].Location, shop.Contexts[1].Location)
	}
	if d := c.Server.Security.AccessDenyDir; d[0].Value != "/etc/*" || d[1].Value != root+"/conf/*" {
		t.Errorf("accessDenyDir %v", d)
	}
	if c.Mime.Type("HTML") != "text/html; charset=utf-8" || c.Mime.Type("foo") != "application/x-foo" || c.Mime.Type("png") != "image/png" || c.Mime.Type("nope") != "" {
		t.Errorf("MIME table: %v", c.Mime.Types())
	}
}

// writeRoot makes a server root of files.
func writeRoot(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The server file is fatal, and so is a strict fault in any file (R-CFG-5,
// R-CFG-6).
func TestLoadFatal(t *testing.T) {
	f := func(files map[string]string, loaded bool, finding string) {
		t.Helper()
		var fs Findings
		c := LoadServer(writeRoot(t, files), &fs)
		if !fs.Failed() || (c != nil) != loaded || !strings.Contains(strings.Join(lines(&fs), "\n"), finding) {
			t.Errorf("%v: config %v, findings %q; want %q", files, c != nil, lines(&fs), finding)
		}
	}
	f(nil, false, "conf/httpd_config.xml:1:1: error E-READ: no such file")
	f(map[string]string{PlainServerFile: "tuning {"}, false, "conf/httpd_config.conf:1:1: error E-CONF: block tuning is not closed")
	f(map[string]string{ServerFile: "<httpServerConfig>"}, false, "E-XML")
	f(map[string]string{ServerFile: "<virtualHostConfig/>"}, false, "E-ROOT: root element is <virtualHostConfig>, not <httpServerConfig>")
	f(map[string]string{ServerFile + "/x": ""}, false, "not a regular file")
	f(map[string]string{
		ServerFile:   "<httpServerConfig><virtualHost><name>a</name><vhRoot>/</vhRoot><configFile>conf/a.xml</configFile></virtualHost></httpServerConfig>",
		"conf/a.xml": "<virtualHostConfig><docRoot>/</docRoot>" + processor("<healthCheck><rise>0</rise></healthCheck>") + "</virtualHostConfig>",
	}, true, "conf/a.xml:1:123: error E-STRICT")
}

// A host without a document root, or with a file of another kind, is not loaded.
func TestLoadUnloaded(t *testing.T) {
	f := func(file, finding string) {
		t.Helper()
		var fs Findings
		c := LoadServer(writeRoot(t, map[string]string{
			ServerFile:   "<httpServerConfig><virtualHost><name>a</name><vhRoot>/</vhRoot><configFile>conf/a.xml</configFile></virtualHost></httpServerConfig>",
			"conf/a.xml": file,
		}), &fs)
		if fs.Failed() || c.VHosts[0].Conf != nil || !strings.Contains(strings.Join(lines(&fs), "\n"), finding) {
			t.Errorf("%s: %q, want %q", file, lines(&fs), finding)
		}
	}
	f("<virtualHostConfig/>", `E-UNLOADED: virtualHost "a" is not loaded: docRoot is missing`)
	f("<httpServerConfig/>", "E-ROOT")
	f(`<virtualHostConfig><context a="b"/></virtualHostConfig>`, "E-OLD-SCHEMA")
}

// R-CFG-9: the hash covers all inputs, read or not.
func TestLoadHash(t *testing.T) {
	files := map[string]string{
		ServerFile:   "<httpServerConfig><virtualHost><name>a</name><vhRoot>/</vhRoot><configFile>conf/a.xml</configFile></virtualHost></httpServerConfig>",
		"conf/a.xml": "<virtualHostConfig><docRoot>/</docRoot></virtualHostConfig>",
	}
	load := func() *Config {
		var fs Findings
		c := LoadServer(writeRoot(t, files), &fs)
		if c == nil || fs.Failed() {
			t.Fatal(lines(&fs))
		}
		return c
	}
	first := load()
	if again := load(); again.Hash != first.Hash {
		t.Error("the same files in another root give another hash")
	}
	if len(first.Files) != 3 || first.Files[1].SHA256 == "" || first.Files[2].SHA256 != "" {
		t.Errorf("files %v", first.Files)
	}
	files["conf/a.xml"] += "<!-- -->"
	second := load()
	files["conf/mime.properties"] = "x = a/b\n"
	if third := load(); second.Hash == first.Hash || third.Hash == second.Hash {
		t.Error("a changed file keeps the hash")
	}
}

// LSX 6.1: a declaration's listeners without vhDomain map everything; a domain
// that holds a variable without a value maps nothing.
func TestLoadDomains(t *testing.T) {
	f := func(inner, want string) {
		t.Helper()
		var fs Findings
		c := LoadServer(writeRoot(t, map[string]string{
			ServerFile:   "<httpServerConfig><virtualHost><name>a</name><vhRoot>/</vhRoot><configFile>conf/$VH_NAME.xml</configFile><listeners>l</listeners></virtualHost></httpServerConfig>",
			"conf/a.xml": "<virtualHostConfig><docRoot>/</docRoot>" + inner + "</virtualHostConfig>",
		}), &fs)
		if got := fmt.Sprint(c.VHosts[0].Domains); got != want {
			t.Errorf("%s: domains %s, want %s (%v)", inner, got, want, lines(&fs))
		}
	}
	f("", "[*]")
	f("<vhDomain>a.test, b.test</vhDomain>", "[a.test b.test]")
	f("<vhDomain>a.test</vhDomain><vhAliases>$VH_NAME.$VH_DOMAIN</vhAliases>", "[a.test a.a.test]")
	f("<vhDomain>$VH_DOMAIN, x.test</vhDomain>", "[x.test]")
}

func TestLoadFileKinds(t *testing.T) {
	f := func(text, kind, finding string) {
		t.Helper()
		var fs Findings
		path := filepath.Join(writeRoot(t, map[string]string{"f.xml": text}), "f.xml")
		v := LoadFile(path, &fs)
		if got := fmt.Sprintf("%T", v); got != kind || codes(&fs) != finding {
			t.Errorf("%s: %s with %q, want %s with %s", text, got, lines(&fs), kind, finding)
		}
	}
	f("<httpServerConfig/>", "*xmlconf.Server", "")
	f("<virtualHostConfig><docRoot>/</docRoot></virtualHostConfig>", "*xmlconf.VHost", "")
	f("<virtualHostConfig/>", "*xmlconf.VHost", "E-UNLOADED")
	f("<virtualHostTemplate><virtualHostConfig/></virtualHostTemplate>", "*xmlconf.Template", "")
	f("<adminConfig><x/></adminConfig>", "<nil>", "I-ADMIN")
	f("<other/>", "<nil>", "E-ROOT")
	f("<broken", "<nil>", "E-XML")
}
