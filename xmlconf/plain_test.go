package xmlconf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// outline writes a tree as one line for each element: position, name, text and
// where the text begins.
func outline(n *Node, depth int, out *strings.Builder) {
	fmt.Fprintf(out, "%s%d:%d %s", strings.Repeat(" ", depth), n.Pos.Line, n.Pos.Column, n.Name)
	if n.Text != "" {
		fmt.Fprintf(out, " %d:%d %q", n.TextPos.Line, n.TextPos.Column, n.Text)
	}
	out.WriteByte('\n')
	for _, c := range n.Children {
		outline(c, depth+1, out)
	}
}

// The plain dialect becomes the tree that XML would be, with the positions of
// the plain file.
func TestPlainTree(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		n, err := parsePlain("f.conf", []byte(text), "r", nil)
		if err != nil {
			t.Error(err)
			return
		}
		var got strings.Builder
		for _, c := range n.Children {
			outline(c, 0, &got)
		}
		if got.String() != strings.TrimPrefix(want, "\n") {
			t.Errorf("%s\nis\n%swant\n%s", text, &got, want)
		}
	}
	f("# remark\n\n  user \t nobody \r\ngroup\n", `
3:3 user 3:10 "nobody"
4:1 group
`)
	f("\ufefftuning{\n  connTimeout 30\n} # end\nexpires  {\n}\n", `
1:1 tuning
 2:3 connTimeout 2:15 "30"
4:1 expires
`)
	f("tuning\n\n{\nconnTimeout 30\n}", `
1:1 tuning
 4:1 connTimeout 4:13 "30"
`)
	f("errorlog logs/e.log {\n  logLevel DEBUG\n}\naccesslog a.log {\n}\naccesslog b.log", `
1:1 logging
 1:1 log
  1:10 fileName 1:10 "logs/e.log"
  2:3 logLevel 2:12 "DEBUG"
 4:1 accessLog
  4:11 fileName 4:11 "a.log"
 6:1 accessLog
  6:11 fileName 6:11 "b.log"
`)
	f("listener Default {\n  map  site   a.test, *.b.test\n  MAP lonely\n}", `
1:1 listener
 1:10 name 1:10 "Default"
 2:3 vhostMap
  2:3 vhost 2:8 "site"
  2:3 domain 2:15 "a.test, *.b.test"
 3:3 vhostMap
  3:3 vhost 3:7 "lonely"
  3:3 domain
`)
	f("scripthandler {\n  add lsapi:lsphp  php,phtml\n}", `
2:3 scriptHandler
 2:3 type 2:7 "lsapi"
 2:3 handler 2:13 "lsphp"
 2:3 suffix 2:20 "php,phtml"
`)
	f("context exp:^/a b/ {\n  realm Staff\n}\nrealm Staff {\n userDB {\n  location x\n }\n}", `
1:1 context
 1:9 uri 1:9 "exp:^/a b/"
 2:3 realm 2:9 "Staff"
4:1 realm
 4:7 name 4:7 "Staff"
 5:2 userDB
  6:3 location 6:12 "x"
`)
	f("rewrite {\n  enable 1\n  rules <<<END_rules\n\n  RewriteRule a {\n}\n  END_rules\n  map m {\n   location txt:f\n  }\n  RewriteFile .htaccess\n}", `
1:1 rewrite
 2:3 enable 2:10 "1"
 3:3 rules 5:3 "RewriteRule a {\n}\n\n\n\n\nRewriteFile .htaccess"
 8:3 map
  8:7 name 8:7 "m"
  9:4 location 9:13 "txt:f"
`)
	f("module cache {\n  ls_enabled 1\n  checkPublicCache 1\n\n  qsCache 0\n}", `
1:1 module
 1:8 name 1:8 "cache"
 2:3 ls_enabled 2:14 "1"
 3:3 param 3:3 "checkPublicCache 1\n\nqsCache 0"
`)
	f("phpIniOverride {\nphp_value a {b}\n}\nnote one \\\n two", `
1:1 phpIniOverride 2:1 "php_value a {b}"
4:1 note 4:6 "one two"
`)
}

// What is not the dialect is refused, once and with its place.
func TestPlainErrors(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := parsePlain("f.conf", []byte(text), "r", func(pattern string) ([]plainFile, error) {
			return []plainFile{{"i.conf", []byte("include " + pattern)}}, nil // endless
		})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %s", text, err, want)
		}
	}
	f("", "f.conf:1:1: file holds no setting")
	f("# remark\n", "f.conf:1:1: file holds no setting")
	f("a 1\n}\n", "f.conf:2:1: } closes nothing")
	f("a {\nb 1\n", "f.conf:1:1: block a is not closed")
	f("a {\n} b {\n}", "f.conf:2:1: text behind }")
	f("tuning fast {\n}", "f.conf:1:8: block tuning has no name of its own")
	f("a 1\nb <<<END_b\nc\n END_bb\n", "f.conf:2:1: the value of b does not end")
	f("phpIniOverride {\nx\n", "f.conf:1:1: block phpIniOverride is not closed")
	f("a \x00", "f.conf:1:3: file is no UTF-8 text")
	f("a 1\nbé \xff", "f.conf:2:5: file is no UTF-8 text")
	f("include x", "i.conf:1:1: include is nested deeper than 8")
	f(strings.Repeat("a {\n", 40), "f.conf:33:1: blocks are nested deeper than 32")
	f(strings.Repeat("a 1\n", maxElements+1), "f.conf:100001:1: file holds more than 100000 settings")
	f("rewrite {\n"+strings.Repeat("RewriteRule\n", maxElements+1), "f.conf:100002:1: file holds more than 100000 settings")
	f(strings.Repeat("a", maxFile+1), "f.conf:1:1: file is larger than 8 MiB")
}

// include lines name a file, a directory or a pattern below the server root;
// every file that was read is an input (R-CFG-9), at any depth.
func TestPlainInclude(t *testing.T) {
	files := map[string]string{
		PlainServerFile:     "include conf/parts\nserverName a\nvirtualhost site {\n  vhRoot /srv\n  configFile conf/site.conf\n}\n",
		"conf/parts/2.conf": "indexFiles two.html\n",
		"conf/parts/1.conf": "indexFiles one.html\ninclude $SERVER_ROOT/conf/deep-*.conf\n",
		"conf/deep-a.conf":  "listener L {\n  address *:81\n}\n",
		"conf/site.conf":    "docRoot /srv\ncontext / {\n  include conf/options.conf\n}\n",
		"conf/options.conf": "realm Staff\n",
		"conf/none":         "",
	}
	root := writeRoot(t, files)
	var fs Findings
	c := LoadServer(root, &fs)
	if c == nil {
		t.Fatal(lines(&fs))
	}
	want(t, &fs, `conf/parts/2.conf:1:1: warn W-DUP: indexFiles is written twice: the first one is used (remove one)`)
	if c.Server.IndexFiles[0] != "one.html" || len(c.Server.Listeners) != 1 || c.VHosts[0].Conf.Contexts[0].Realm != "Staff" {
		t.Errorf("server %+v", c.Server)
	}
	if at := c.VHosts[0].Conf.Contexts[0].At("realm"); at.File != "conf/options.conf" || at.Line != 1 {
		t.Errorf("realm stands at %v", at)
	}
	var names []string
	for _, f := range c.Files {
		names = append(names, f.Path)
	}
	if got := strings.Join(names, " "); got != "conf/httpd_config.conf conf/parts/1.conf conf/parts/2.conf conf/deep-a.conf conf/site.conf conf/options.conf conf/mime.properties" {
		t.Errorf("inputs %s", got)
	}
	if got := fmt.Sprint(c.Patterns); strings.ReplaceAll(got, root, "") != "[{/conf/parts/* [/conf/parts/1.conf /conf/parts/2.conf]} {/conf/deep-*.conf [/conf/deep-a.conf]}]" {
		t.Errorf("patterns %s", got)
	}
	before := c.Hash
	if err := os.WriteFile(filepath.Join(root, "conf/deep-a.conf"), []byte("listener L {\n  address *:82\n}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if c = LoadServer(root, &Findings{}); c.Hash == before {
		t.Error("an included file changed and the hash did not")
	}
	if err := os.Remove(filepath.Join(root, "conf/options.conf")); err != nil {
		t.Fatal(err)
	}
	if c = LoadServer(root, &Findings{}); c.VHosts[0].Conf != nil {
		t.Error("R-SAFE-1: a host whose include is missing is loaded; the include might restrict")
	}
}

// A file is XML by its suffix or its first character, whatever it is called.
func TestPlainOrXML(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		var fs Findings
		v := LoadFile(filepath.Join(writeRoot(t, map[string]string{name: text}), name), &fs)
		if got := fmt.Sprintf("%T", v); got != want {
			t.Errorf("%s %q is %s, want %s: %q", name, text, got, want, lines(&fs))
		}
	}
	f("a.conf", "<virtualHostConfig><docRoot>/</docRoot></virtualHostConfig>", "*xmlconf.VHost")
	f("a.conf", "\ufeff\n <httpServerConfig/>", "*xmlconf.Server")
	f("a.conf", "docRoot /\n", "*xmlconf.VHost")
	f("a.txt", "listener a {\n}\n", "*xmlconf.Server")
	f("a.conf", "vhRoot /\nvirtualHostConfig {\n docRoot /\n}\n", "*xmlconf.Template")
	f("a.xml", "docRoot /\n", "<nil>")
	f("a.conf", "", "<nil>")
	f("a.conf", "this is\nno configuration\n", "<nil>")
}

// The same settings in both languages are the same configuration.
func TestPlainMeansTheSame(t *testing.T) {
	xml, _ := vhost(t, `<index><useServer>0</useServer><indexFiles>a.html</indexFiles></index>
<context><uri>/a/</uri><type>proxy</type><handler>app</handler><extraHeaders>A: 1
B: 2</extraHeaders></context>
<customErrorPages><errorPage><errCode>404</errCode><url>/e.html</url></errorPage></customErrorPages>
<security><accessControl><deny>192.0.2.1</deny></accessControl></security>`)
	var fs Findings
	plain, ok := LoadFile(filepath.Join(writeRoot(t, map[string]string{"v.conf": `docRoot /w
INDEX {
  useserver 0
  indexfiles a.html
}
context /a/ {
  type proxy
  handler app
  extraHeaders <<<END_extraHeaders
A: 1
B: 2
  END_extraHeaders
}
errorpage 404 {
  url /e.html
}
accessControl {
  deny 192.0.2.1
}
`}), "v.conf"), &fs).(*VHost)
	if !ok || fs.Count(Error) > 0 {
		t.Fatalf("%q", lines(&fs))
	}
	a, b := xml.Contexts[0], plain.Contexts[0]
	if a.ExtraHeaders != b.ExtraHeaders || a.Type != b.Type || a.Handler != b.Handler || plain.Index.IndexFiles[0] != "a.html" ||
		plain.ErrorPages[0].ErrCode != "404" || len(plain.Restrictions()) != 1 || len(xml.Restrictions()) != 1 {
		t.Errorf("plain %+v is not %+v", b, a)
	}
}
