package httpjet_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program builds httpjet, as a name on a PATH of its own, and returns the directory.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the binary")
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "httpjet"), "./cmd/httpjet").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// freeAddresses are two addresses of the loopback that nobody has. Both are held until
// both are known: the kernel may choose again what has been closed.
func freeAddresses(t *testing.T) (one, other string) {
	t.Helper()
	var got [2]string
	for i := range got {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		got[i] = ln.Addr().String()
	}
	return got[0], got[1]
}

// TestCommandsInDocuments looks at the commands of the documents with one built program.
func TestCommandsInDocuments(t *testing.T) {
	bin := program(t)
	t.Run("operations run", func(t *testing.T) { operationsRun(t, bin) })
	t.Run("commands exist", func(t *testing.T) { commandsExist(t, filepath.Join(bin, "httpjet")) })
}

// operationsRun runs the sh blocks of docs/operations.md in one shell, in their
// order. Lines without $ are output, which must appear.
func operationsRun(t *testing.T, bin string) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("not run: ", err)
		}
	}
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "site"), os.DirFS("examples/site")); err != nil {
		t.Fatal(err)
	}
	script, want := "set -eo pipefail\n", []string{}
	for _, b := range blocks(t, "docs/operations.md") {
		if b.info[0] != "sh" {
			continue
		}
		for line := range strings.Lines(b.text) {
			line = strings.TrimSuffix(line, "\n")
			if cmd, ok := strings.CutPrefix(line, "$ "); ok {
				script += cmd + "\n"
			} else if line != "" {
				want = append(want, line)
			}
		}
	}
	site, metrics := freeAddresses(t)
	for from, to := range map[string]string{"/srv/site": filepath.Join(root, "site"), "127.0.0.1:8080": site, "127.0.0.1:9090": metrics} {
		script = strings.ReplaceAll(script, from, to)
	}
	output, err := os.Create(filepath.Join(root, "output")) // a pipe would stay open as long as a server that is left
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that no server outlives the test
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	stuck := time.AfterFunc(3*time.Minute, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err = cmd.Wait()
	stuck.Stop()
	text, _ := os.ReadFile(output.Name())
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, text)
	}
	for _, w := range want {
		if !strings.Contains(string(text), w) {
			t.Errorf("output lacks %q:\n%s", w, text)
		}
	}
	if len(want) < 3 || strings.Count(script, "\n") < 12 {
		t.Fatalf("too little found:\n%s", script)
	}
}

// commandsExist asks the program for every command of httpjet that a document
// names, and whether it has the options.
func commandsExist(t *testing.T, bin string) {
	helps := map[string]string{}
	help := func(words ...string) string {
		key := strings.Join(words, " ")
		if _, asked := helps[key]; !asked {
			out, err := exec.Command(bin, append(words, "--help")...).CombinedOutput()
			if err != nil {
				out = nil
			}
			helps[key] = string(out)
		}
		return helps[key]
	}
	known := regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}`)
	var commands []string
	for _, m := range known.FindAllStringSubmatch(help(), -1) {
		commands = append(commands, m[1])
	}
	n := 0
	look := func(where, line string) {
		for _, part := range regexp.MustCompile(`(?:^|[|;&(] ?)(?:bin/)?httpjet ([^|;&>)#\x60]*)`).FindAllStringSubmatch(line, -1) {
			words := strings.Fields(part[1])
			var command []string
			var options []string
			for i := 0; i < len(words); i++ {
				w := words[i]
				switch {
				case w == "--root":
					i++
				case strings.HasPrefix(w, "--") && len(w) > 2:
					name, _, _ := strings.Cut(w, "=")
					options = append(options, strings.Trim(name, "[]…,"))
				case len(command) == 0:
					command = append(command, w)
				case command[0] == "cache" && len(command) == 1:
					command = append(command, w)
				}
			}
			if len(command) == 0 {
				continue
			}
			n++
			if !slices.Contains(commands, command[0]) {
				t.Errorf("%s: httpjet has no command %s", where, command[0])
				continue
			}
			text := help(command...)
			for _, o := range options {
				if !regexp.MustCompile(regexp.QuoteMeta(o) + `\b`).MatchString(text) {
					t.Errorf("%s: httpjet %s has no option %s", where, strings.Join(command, " "), o)
				}
			}
		}
	}
	for _, file := range written(t) {
		for _, b := range blocks(t, file) {
			if len(b.info) > 0 && (b.info[0] == "console" || b.info[0] == "sh") {
				for line := range strings.Lines(b.text) {
					if cmd, ok := strings.CutPrefix(line, "$ "); ok {
						look(fmt.Sprintf("%s:%d", b.file, b.line), strings.TrimSpace(cmd))
					}
				}
			}
		}
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands { // a row of its table, or a second name in one
		if c != "help" && !regexp.MustCompile(`(?m)^\| .*\x60(httpjet ([^\x60 ]+ )*([^\x60 ]+ )?)?`+c+`\b`).Match(readme) {
			t.Errorf("README.md does not tell of httpjet %s", c)
		}
	}
	if n < 20 {
		t.Fatalf("only %d commands found", n)
	}
}
