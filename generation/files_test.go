package generation

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"httpjet/exchange"
)

// openHere counts the descriptors of this process for the file at path.
func openHere(t *testing.T, path string) (n int) {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range list {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && target == path {
			n++
		}
	}
	return n
}

// R-STATIC-11: the limits of the configuration reach the cache of files, a
// generation gives its files up when it retires, and remembers none after that.
func TestFilesOfAGeneration(t *testing.T) {
	f := func(tuning string, open int) {
		t.Helper()
		r := newLeaseTree(t)
		r.write("conf/httpd_config.xml", `<httpServerConfig><tuning>`+tuning+`</tuning>
			<virtualHost><name>two</name><vhRoot>.</vhRoot><configFile>conf/two.xml</configFile></virtualHost>
			<listener><name>L</name><address>127.0.0.1:1</address><vhostMap><vhost>two</vhost><domain>*</domain></vhostMap></listener>
			</httpServerConfig>`)
		r.write("html/a.txt", strings.Repeat("a", 100))
		g, fs := r.build()
		if fs.Failed() {
			t.Fatal(fs.All())
		}
		ask := func() (memory bool) {
			w := &safetyFront{}
			x := &exchange.Exchange{}
			x.Reset(w)
			x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme = "GET", "/a.txt", "v.test", "http"
			x.Req.Listener, x.Req.Remote = "http tcp 127.0.0.1:1", netip.MustParseAddrPort("192.0.2.1:1")
			if err := exchange.Run(x, g); err != nil || w.body.Len() != 100 {
				t.Fatalf("%d bytes, %v", w.body.Len(), err)
			}
			return x.Resource.Content != nil
		}
		memory := false
		for range 3 {
			memory = ask()
		}
		if n := openHere(t, r.root+"/html/a.txt"); n != open || memory != (open == 0) {
			t.Errorf("%s: open %d times, in memory %v, want %d", tuning, n, memory, open)
		}
		g.Retire()
		for range 3 {
			memory = ask()
		}
		if n := openHere(t, r.root+"/html/a.txt"); n != 0 || memory {
			t.Errorf("%s: retired: open %d times, in memory %v", tuning, n, memory)
		}
	}
	f(``, 0)
	f(`<maxCachedFileSize>100</maxCachedFileSize>`, 0)
	f(`<maxCachedFileSize>99</maxCachedFileSize>`, 1)
	f(`<maxCachedFileSize>0</maxCachedFileSize>`, 1)
}
