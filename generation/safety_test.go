package generation

import (
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"httpjet/budget"
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
	list                          string            // instead of the one listener "L"
	files                         map[string]string // below the document root; content, or "-> target"
}

func (p safetyParts) build(t *testing.T) (ask func(path string) (int, string), fs *xmlconf.Findings) {
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
	write("conf/httpd_config.xml", `<httpServerConfig>`+p.server+`<virtualHostList><virtualHost><name>v</name><vhRoot>.</vhRoot>
		<configFile>conf/v.xml</configFile>`+p.decl+`</virtualHost></virtualHostList><listenerList>`+p.list+`</listenerList></httpServerConfig>`)
	write("conf/v.xml", `<virtualHostConfig><docRoot>html</docRoot>`+p.vhost+`</virtualHostConfig>`)
	write("html/a/x.txt", "text")
	for name, text := range p.files {
		write("html/"+name, text)
	}
	fs = &xmlconf.Findings{}
	cfg := xmlconf.LoadServer(root, fs)
	if cfg == nil {
		t.Fatal(fs.All())
	}
	g := Build(cfg, &Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}, Options{}, fs)
	t.Cleanup(g.Retire)
	return func(path string) (int, string) {
		w := &safetyFront{}
		x := &exchange.Exchange{}
		x.Reset(w)
		x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme = "GET", path, "v.test", "http"
		x.Req.Listener, x.Req.Remote = "http tcp 127.0.0.1:1", netip.MustParseAddrPort("192.0.2.1:1")
		if err := exchange.Run(x, g); err != nil && !x.Started() {
			t.Fatal(err)
		}
		return x.Resp.Status, w.body.String()
	}, fs
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
