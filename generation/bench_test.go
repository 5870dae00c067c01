package generation

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// nowhere is a front end that drops what it gets.
type nowhere struct{ ctx context.Context }

func (nowhere) Read([]byte) (int, error)                  { return 0, io.EOF }
func (nowhere) Trailers() *exchange.Fields                { return nil }
func (nowhere) StopRead()                                 {}
func (nowhere) Head(*exchange.Response, bool, bool) error { return nil }
func (nowhere) Write(p []byte) (int, error)               { return len(p), nil }
func (nowhere) Flush() error                              { return nil }
func (nowhere) End(*exchange.Fields) error                { return nil }
func (nowhere) Abort(error)                               {}
func (w nowhere) Context() context.Context                { return w.ctx }

// benchSite is a generation with one host of 50 contexts, access lists, an access log
// and a small file; htaccess says if it reads .htaccess files, of which it has one.
func benchSite(t testing.TB, htaccess bool) (g *Generation, serve func()) {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{}
	allow := ""
	if htaccess {
		allow = "<htAccess><allowOverride>31</allowOverride></htAccess>"
		files["www/.htaccess"] = "Options -Indexes +FollowSymLinks\n<IfModule mod_rewrite.c>\nRewriteEngine on\nRewriteRule ^index\\.php$ - [L]\n" +
			"RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n"
	}
	var list strings.Builder
	list.WriteString(`<context><type>static</type><uri>exp:\.(bak|orig|swp)$</uri><allowBrowse>0</allowBrowse></context>
		<context><type>redirect</type><uri>exp:^/(de|fr|it)/app/</uri><location>/x</location></context>`)
	for i := range 28 {
		fmt.Fprintf(&list, "<context><type>static</type><uri>/assets/%d/</uri><location>$DOC_ROOT/files/</location></context>", i)
	}
	for i := range 10 {
		fmt.Fprintf(&list, "<context><type>redirect</type><uri>/api/v%d/</uri><location>/x</location></context>", i)
	}
	for i := range 5 {
		fmt.Fprintf(&list, "<context><type>static</type><uri>/private%d/</uri><allowBrowse>0</allowBrowse></context>"+
			"<context><type>static</type><uri>/office%d/</uri><accessControl><allow>10.%d.0.0/16</allow><deny>ALL</deny></accessControl></context>", i, i, i)
	}
	files["conf/site.xml"] = "<virtualHostConfig><docRoot>$VH_ROOT/www</docRoot>" + allow + "<contextList>" + list.String() + "</contextList></virtualHostConfig>"
	files["conf/httpd_config.xml"] = `<httpServerConfig><security><accessControl><allow>ALL</allow><deny>192.0.2.128/25</deny></accessControl><accessDenyDir><dir>/etc/*</dir></accessDenyDir></security>
		<logging><accessLog><fileName>/dev/null</fileName></accessLog></logging>
		<virtualHost><name>site</name><vhRoot>.</vhRoot><configFile>conf/site.xml</configFile></virtualHost>
		<listener><name>L</name><address>127.0.0.1:1</address><vhostMap><vhost>site</vhost><domain>site.test</domain></vhostMap></listener></httpServerConfig>`
	writeTree(t, root, files)
	// A file of this package: one that is only just written is looked at with more care.
	own, err := filepath.Abs("files_test.go")
	if err == nil {
		err = os.MkdirAll(root+"/www/files", 0o755)
	}
	if err == nil {
		err = os.Symlink(own, root+"/www/files/small.txt")
	}
	if err != nil {
		t.Fatal(err)
	}
	fs := &xmlconf.Findings{}
	cfg := xmlconf.LoadServer(root, fs)
	if cfg == nil {
		t.Fatal(fs.All())
	}
	g = Build(cfg, &Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}, Options{}, fs)
	t.Cleanup(g.Retire)
	x, w := &exchange.Exchange{}, &nowhere{t.Context()}
	remote := netip.MustParseAddrPort("192.0.2.1:4711")
	serve = func() {
		x.Reset(w)
		q := &x.Req
		q.Method, q.Target, q.Host, q.Scheme, q.Proto, q.Listener, q.Remote = "GET", "/files/small.txt", "site.test", "http", "HTTP/1.1", "http tcp 127.0.0.1:1", remote
		q.Fields.Add("User-Agent", "bench")
		q.Fields.Add("Accept", "*/*")
		x.Began = time.Now()
		x.Called = x.Began
		err := exchange.Run(x, g)
		x.Ended = x.Began
		g.Finished(x, err)
		if err != nil || x.Resp.Status != 200 {
			t.Fatal(x.Resp.Status, err)
		}
	}
	return g, serve
}

// BenchmarkStaticFile is what a small file costs from its head to the line of the log,
// with 50 contexts and access lists; then with rules of a .htaccess file.
func BenchmarkStaticFile(b *testing.B) {
	for _, htaccess := range []bool{false, true} {
		name := "contexts"
		if htaccess {
			name = "htaccess"
		}
		b.Run(name, func(b *testing.B) {
			_, serve := benchSite(b, htaccess)
			serve()
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

// What a small file takes beside its head: nothing, and with .htaccess files what is
// known of them for one request.
func TestStaticFileAllocations(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector allocates")
	}
	for htaccess, most := range map[bool]float64{false: 0, true: 1} {
		_, serve := benchSite(t, htaccess)
		serve()
		if n := testing.AllocsPerRun(100, serve); n > most {
			t.Errorf("htaccess %v: %v allocations, at most %v", htaccess, n, most)
		}
	}
}
