package tlsconf

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// R-UP-3: the settings towards peers, and what they are known by.
func TestLoadClient(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "ca", nil)
	issue(t, dir, "me", nil)
	file := func(name string) string { return filepath.Join(dir, name) }
	ids := map[string]string{}
	load := func(what string, o ClientOptions) *tls.Config {
		t.Helper()
		c, id, err := LoadClient(o)
		if err != nil {
			t.Fatal(what, err)
		}
		if other, ok := ids[id]; ok {
			t.Errorf("%s and %s have one identity", what, other)
		}
		ids[id] = what
		if c.MinVersion != tls.VersionTLS12 {
			t.Errorf("%s: version %x", what, c.MinVersion)
		}
		return c
	}
	if c := load("defaults", ClientOptions{}); c.RootCAs != nil || c.InsecureSkipVerify || ids[""] == "" {
		t.Errorf("%+v", c)
	}
	if c := load("unverified", ClientOptions{NoVerify: true}); !c.InsecureSkipVerify {
		t.Error("it verifies")
	}
	if c := load("roots", ClientOptions{CAFile: file("ca.crt")}); c.RootCAs == nil || c.InsecureSkipVerify {
		t.Errorf("%+v", c)
	}
	seen := map[string]bool{}
	if c := load("a directory", ClientOptions{CAPath: dir, Seen: func(name string, _ []byte) { seen[filepath.Base(name)] = true }}); c.RootCAs == nil || !seen["ca.crt"] {
		t.Errorf("%+v, %v", c, seen)
	}
	own := ClientOptions{CAFile: file("ca.crt"), CertFile: file("me.crt"), KeyFile: file("me.key")}
	if c := load("certificate", own); len(c.Certificates) != 1 {
		t.Errorf("%+v", c)
	}
	issue(t, dir, "me", nil)
	load("the same files, renewed", own)
	issue(t, dir, "ca", nil)
	load("another authority", own)
	key, err := os.ReadFile(file("me.key"))
	if err != nil {
		t.Fatal(err)
	}
	for id := range ids {
		if len(id) > 64 || id != "" && strings.Contains(string(key), id) {
			t.Errorf("identity %q", id)
		}
	}
}

func TestLoadClientRefuses(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "me", nil)
	issue(t, dir, "other", nil)
	file := func(name string) string { return filepath.Join(dir, name) }
	write(t, file("empty"), nil)
	f := func(o ClientOptions, want string) {
		t.Helper()
		if _, _, err := LoadClient(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f(ClientOptions{CAFile: file("absent")}, "authorities "+file("absent"))
	f(ClientOptions{CAFile: file("empty")}, "no certificate in it")
	f(ClientOptions{CAFile: dir}, "not a regular file")
	f(ClientOptions{CAPath: file("absent")}, "authorities ")
	none := t.TempDir()
	write(t, filepath.Join(none, "README"), []byte("no certificate"))
	f(ClientOptions{CAPath: none}, "authorities "+none+": no certificate in it")
	f(ClientOptions{CertFile: file("me.crt"), KeyFile: file("other.key")}, "with key")
	f(ClientOptions{CertFile: file("me.crt")}, "private key")
	f(ClientOptions{KeyFile: file("me.key")}, "certificate")
}
