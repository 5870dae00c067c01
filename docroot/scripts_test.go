package docroot

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
)

// R-STATIC-10: the content of a script is never in the cache, not even if its suffix
// was none before; nor is it answered as one when its suffix is none any more.
func TestSourceIsNotRemembered(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a.php", 'a', 100)
	writeFile(t, dir, "b.php", 'b', large)
	c := newCache()
	r := newRoot(t, Options{Dir: dir, Cache: c})
	for _, path := range []string{"/a.php", "/b.php"} {
		for _, isScript := range []func(string) bool{nil, isPHP, nil, isPHP} {
			for range 4 {
				res, verdict, err := r.Resolve(path, "", isScript)
				must(t, err)
				switch {
				case isScript == nil && (verdict != Static || res.File == nil && res.Content == nil):
					t.Errorf("%s: verdict %d without a file", path, verdict)
				case isScript != nil && (verdict != Script || res.Content != nil || res.Release != nil):
					t.Errorf("%s: verdict %d, %d bytes in memory", path, verdict, len(res.Content))
				}
				if res.Name != path || res.Filename != dir+path || res.PathInfo != "" || res.Info == nil {
					t.Errorf("%s: %+v", path, res)
				}
				res.Close()
			}
		}
	}
	if _, bytes, open := c.held(); bytes != 0 || open != 0 {
		t.Errorf("%d bytes and %d descriptors of scripts", bytes, open)
	}
}

// R-STATIC-11: a script that is there, gone or closed is seen so within a second, and
// the disk is not asked meanwhile.
func TestScriptIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, dir, "a.php", 'a', 1)
		c := newCache()
		r := newRoot(t, Options{Dir: dir, Cache: c, Index: []string{"a.php"}})
		for _, path := range []string{"/a.php", "/"} {
			ask := func() string {
				t.Helper()
				res, verdict, err := r.Resolve(path, "", isPHP)
				if e, failed := errors.AsType[*exchange.Error](err); failed {
					return fmt.Sprint(e.Status)
				}
				defer res.Close()
				return fmt.Sprint(verdict == Script, " ", res.Name)
			}
			for range 3 {
				if got := ask(); got != "true /a.php" {
					t.Fatalf("%s: %s", path, got)
				}
			}
			must(t, os.Rename(dir+"/a.php", dir+"/gone"))
			if got := ask(); got != "true /a.php" {
				t.Errorf("%s: %s: nothing is remembered", path, got)
			}
			time.Sleep(life)
			if got := ask(); got != "404" {
				t.Errorf("%s: gone for a second: %s", path, got)
			}
			must(t, os.Rename(dir+"/gone", dir+"/a.php"))
			if got := ask(); got != "true /a.php" {
				t.Errorf("%s: it is back: %s", path, got)
			}
		}
	})
}

// Paths behind a script are not remembered: there are as many as a client likes.
func TestPathInfoIsNotRemembered(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "a.php", 'a', 1)
	c := newCache()
	r := newRoot(t, Options{Dir: dir, Cache: c})
	for i := range 20 {
		res, verdict, err := r.Resolve(fmt.Sprint("/a.php/", i/2), "", isPHP)
		must(t, err)
		if verdict != Script || res.PathInfo != fmt.Sprint("/", i/2) {
			t.Errorf("verdict %d, path info %q", verdict, res.PathInfo)
		}
		res.Close()
	}
	if n, _, _ := c.held(); n != 0 {
		t.Errorf("%d entries", n)
	}
}
