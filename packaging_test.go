package httpjet_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackageUpgrade runs packaging/postinst, behind an update of the package, with
// programs that note how they were called: the server is restarted only if the tree that
// its unit serves loads for the user that it has.
func TestPackageUpgrade(t *testing.T) {
	for _, tool := range []string{"sh", "sed", "tail", "tr"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("not run: ", err)
		}
	}
	const sh = "/bin/sh"
	text, err := os.ReadFile("packaging/postinst")
	if err != nil {
		t.Fatal(err)
	}
	f := func(name, settings, check, want string) {
		t.Helper()
		dir := t.TempDir()
		for _, d := range []string{"bin", "etc/default", "run/systemd/system", "var/lib/httpjet", "var/log/httpjet"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if settings != "" {
			write("etc/default/httpjet", settings)
		}
		for _, program := range []string{"getent", "adduser", "chown", "ln", "install"} {
			write("bin/"+program, "#!"+sh+"\n")
		}
		write("bin/systemctl", "#!"+sh+"\n[ \"$1\" != show ] || echo www\n[ \"$1\" != restart ] || echo restarted\n")
		write("bin/runuser", "#!"+sh+"\necho \"$@\" >&2\n"+check+"\n")
		here := strings.NewReplacer("/etc/default", dir+"/etc/default", "/run/systemd", dir+"/run/systemd", "[ -d \"$d\" ]", "true", "[ -e \"", "[ -e / ] || [ -e \"")
		cmd := exec.CommandContext(t.Context(), sh, "-c", here.Replace(string(text)), "postinst", "configure", "1.0")
		cmd.Env = []string{"PATH=" + dir + "/bin:" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if got := string(out); err != nil || got != want {
			t.Errorf("%s: %v\n got %q\nwant %q", name, err, got, want)
		}
	}
	const called = "-u www -- /usr/bin/httpjet --root "
	f("no settings", "", "true", called+"/var/lib/httpjet check --strict\nrestarted\n")
	f("as they come", "#HTTPJET_ROOT=/usr/local/lsws\n", "true", called+"/var/lib/httpjet check --strict\nrestarted\n")
	f("another root", "HTTPJET_ROOT=/first\nHTTPJET_ROOT=\"/usr/local/lsws\"\n", "true", called+"/usr/local/lsws check --strict\nrestarted\n")
	f("it does not load", "HTTPJET_ROOT='/srv/a b'\n", "false",
		called+"/srv/a b check --strict\nhttpjet: check --strict fails with this version; it was not restarted\n")
}
