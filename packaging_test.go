package httpjet_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// TestPackagedFiles: what is written for people is in the package, all of it and by
// patterns, which take files alone.
func TestPackagedFiles(t *testing.T) {
	text, err := os.ReadFile("packaging/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "type: tree") {
		t.Error("a tree gives its directories the mode of files")
	}
	packaged := map[string]bool{}
	for _, m := range regexp.MustCompile(`\{src: ([^,]+), dst: ([^,]+), .*mode: 0[67][45][45]\}\}`).FindAllStringSubmatch(string(text), -1) {
		files, err := filepath.Glob(m[1])
		if made := strings.HasPrefix(m[1], "dist/") || strings.HasPrefix(m[1], "bin/"); err != nil || len(files) == 0 && !made {
			t.Errorf("%s is nothing: %v", m[1], err)
		}
		for _, file := range files {
			packaged[file] = true
		}
	}
	for _, dir := range []string{"docs", "examples", "packaging/monitoring"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && (d.Name() == "logs" || d.Name() == "run" || d.Name() == "provisioning") {
				return filepath.SkipDir
			}
			if err == nil && !d.IsDir() && !packaged[path] && path != "packaging/monitoring/prometheus.yml" {
				t.Errorf("%s is not in the package", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	for file := range packaged {
		if strings.Contains(file, "/logs/") || strings.Contains(file, "/run/") {
			t.Errorf("%s is in the package", file)
		}
	}
}

// TestProfile holds what every build of a released or measured program is given, and that
// it tells nothing of where it was made.
func TestProfile(t *testing.T) {
	for _, name := range []string{"Makefile", "Dockerfile", "bench/install.go", "interop/main.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "-pgo=packaging/httpjet.pgo") {
			t.Errorf("%s builds without the profile", name)
		}
	}
	f, err := os.Open("packaging/httpjet.pgo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	if want := "httpjet/front.(*Server).run"; !bytes.Contains(profile, []byte(want)) {
		t.Errorf("no %s in it: not a profile of requests", want)
	}
	if m := regexp.MustCompile(`/(tmp|home|root|usr|var)/[ -~]*`).Find(profile); m != nil {
		t.Errorf("a path of a machine: %s", m)
	}
}
