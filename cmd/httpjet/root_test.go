package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// R-CFG-1: without a word the server root is LiteSpeed's, and the package's only where
// that is the one with a configuration.
func TestRootOf(t *testing.T) {
	dir := t.TempDir()
	lsws, pkg := filepath.Join(dir, "lsws"), filepath.Join(dir, "pkg")
	f := func(want, written, environment string) {
		t.Helper()
		if got := rootOf(written, environment, lsws, pkg); got != want {
			t.Errorf("--root %q, variable %q: %q, want %q", written, environment, got, want)
		}
	}
	f("/a", "/a", "/b")
	f("/b", "", "/b")
	f(lsws, "", "") // there is none at all
	made := func(root, name string) {
		t.Helper()
		conf := filepath.Join(root, "conf")
		if err := errors.Join(os.MkdirAll(conf, 0o755), os.WriteFile(filepath.Join(conf, name), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	made(pkg, "httpd_config.xml")
	f(pkg, "", "")
	f("/b", "", "/b")
	if err := os.MkdirAll(filepath.Join(lsws, "conf"), 0o755); err != nil { // as an uninstalled LiteSpeed leaves it
		t.Fatal(err)
	}
	f(pkg, "", "")
	made(lsws, "httpd_config.conf")
	f(lsws, "", "")
}
