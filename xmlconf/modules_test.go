package xmlconf

import (
	"slices"
	"strings"
	"testing"
)

// The module cache of OpenLiteSpeed is the element cache of a server or host (LSX 10.1),
// in either dialect and with names in any case.
func TestModuleCache(t *testing.T) {
	plain := func(text string) *Node {
		n, err := parsePlain("f.conf", []byte(text), "httpServerConfig", nil)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	tagged := func(text string) *Node {
		n, err := Parse("f.xml", []byte("<httpServerConfig><moduleList>"+text+"</moduleList></httpServerConfig>"), &Findings{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	decoded := func(n *Node, path string) (*Cache, *Findings) {
		fs := &Findings{}
		d := newDecoder(fs)
		children := len(n.Children)
		with := d.cacheModule(n, path)
		if len(n.Children) != children {
			t.Error("the tree that others share was changed")
		}
		s := &Server{}
		d.decode(with, s, serverRoot)
		return &s.Cache, fs
	}
	params := "enablecache 1\n checkPublicCache\t1\nQSCACHE 0\nexpireInSeconds 120\nmaxCacheObjSize 1M\nstoragePath /var/pages\nnoCacheUrl /a\nnoCacheUrl /b\nnoCacheDomain x.test\nnoCacheDomain y.test"
	for name, n := range map[string]*Node{
		"plain": plain("module cache {\nls_enabled 1\n" + params + "\n}\n"),
		"xml":   tagged("<module><name>cache</name><ls_enabled>1</ls_enabled><param>" + params + "</param></module>"),
		"other": tagged("<module><name>x</name></module><module><name>Cache</name><enabled>1</enabled><param>\n\n" + params + "\n# end</param></module>"),
	} {
		c, fs := decoded(n, serverRoot)
		p := &c.Policy
		if c.CacheEngine != 1 || !p.EnableCache || p.QSCache || p.ExpireInSeconds != 120 || p.MaxCacheObjSize != 1<<20 || !p.Written("checkPublicCache") ||
			p.Written("checkPrivateCache") || c.Storage.CacheStorePath != "/var/pages" || c.NoCacheURL != "/a\n/b" || !slices.Equal(c.NoCacheDomain, []string{"x.test", "y.test"}) {
			t.Errorf("%s: %+v %v", name, c, fs.All())
		}
	}
	for _, c := range []struct {
		text    string
		path    string
		engine  int
		written bool
	}{
		{"module cache {\n}", serverRoot, 1, true},
		{"module cache {\nls_enabled 0\n}", serverRoot, 0, true},
		{"module cache {\nqsCache 0\n}", "virtualHostConfig", 0, false}, // as the server says
		{"module cache {\nls_enabled 1\n}", "virtualHostConfig", 1, true},
		{"module cache {\nls_enabled 1\nreqHeaderVary X-Device\n}", serverRoot, 0, true},
		{"module other {\nls_enabled 1\n}", serverRoot, 0, false},
		{"cache {\ncacheEngine 0\n}\nmodule cache {\nls_enabled 1\n}", serverRoot, 0, true},
	} {
		if got, _ := decoded(plain(c.text), c.path); got.CacheEngine != c.engine || got.Written("cacheEngine") != c.written {
			t.Errorf("%q: engine %d, written %v", c.text, got.CacheEngine, got.Written("cacheEngine"))
		}
	}
	_, fs := decoded(plain("module cache {\nls_enabled 1\nnoCacheUrl /a\nnoCacheUrl <clear>\naddEtag 0\nno-vary 1\nfoo 1\n}"), serverRoot)
	var said []string
	for _, f := range fs.All() {
		said = append(said, f.Code+" "+f.Message)
	}
	if got := strings.Join(said, "\n"); !strings.Contains(got, "no-vary is not honoured") || !strings.Contains(got, `"foo" is no parameter`) || len(said) != 2 {
		t.Errorf("%s", got)
	}
}
