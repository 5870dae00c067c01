package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// caddyVersion is the pinned version of Caddy, which is built from source.
const caddyVersion = "v2.11.9"

// install brings the load generators and the other servers, and builds httpjet
// as make build does.
func (b *bench) install() error {
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	var missing []string
	for _, p := range [][2]string{{"wrk", "wrk"}, {"h2load", "nghttp2-client"}, {"nginx", "nginx-light"}, {"haproxy", "haproxy"}, {"varnishd", "varnish"}, {"taskset", "util-linux"}} {
		if _, err := exec.LookPath(p[0]); err != nil {
			missing = append(missing, p[1])
		}
	}
	if len(missing) > 0 {
		cmd := exec.Command("/bin/sh", "-c", "apt-get update -q && apt-get install -q -y --no-install-recommends "+strings.Join(missing, " "))
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get: %v\n%s", err, out)
		}
	}
	if err := b.installCaddy(); err != nil {
		return err
	}
	if b.bin != "" {
		b.commit = output(b.bin, "version")
		return nil
	}
	b.bin = filepath.Join(b.dir, "httpjet")
	b.commit = output("git", "describe", "--tags", "--always", "--dirty")
	return goTool("build", "-trimpath", "-pgo=packaging/httpjet.pgo", "-ldflags", "-s -w -X httpjet/server.Version="+b.commit, "-o", b.bin, "./cmd/httpjet")
}

// installCaddy keeps its program with the user's caches from run to run.
func (b *bench) installCaddy() error {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = b.dir
	}
	dir := filepath.Join(cache, "httpjet-bench", "caddy-"+caddyVersion)
	b.caddy = filepath.Join(dir, "caddy")
	if _, err := os.Stat(b.caddy); err == nil {
		return nil
	}
	os.Setenv("GOBIN", dir)
	defer os.Unsetenv("GOBIN")
	return goTool("install", "github.com/caddyserver/caddy/v2/cmd/caddy@"+caddyVersion)
}

func goTool(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %v\n%s", args[0], err, out)
	}
	return nil
}

var versionNumber = regexp.MustCompile(`\d+\.\d[\w.+~-]*`)

// version is the first version number that a command prints.
func version(name string, args ...string) string {
	return cmp.Or(versionNumber.FindString(output(name, args...)), "unknown")
}

// output is the first line that a command prints, to whichever output.
func output(name string, args ...string) string {
	out, _ := exec.Command(name, args...).CombinedOutput() // wrk ends with 1 after its version
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// programs is the versions of everything that takes part.
func (b *bench) programs() map[string]string {
	return map[string]string{
		"httpjet": b.commit, "go": runtime.Version(), "caddy": caddyVersion, "nginx": version("nginx", "-v"),
		"haproxy": version("haproxy", "-v"), "varnish": version("varnishd", "-V"), "wrk": version("wrk", "-v"), "h2load": version("h2load", "--version"),
	}
}

func machine() map[string]string {
	m := map[string]string{"cpus": fmt.Sprint(runtime.NumCPU()), "arch": runtime.GOARCH}
	text, _ := os.ReadFile("/proc/cpuinfo") // absent: nothing to say
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m["model"] = strings.TrimSpace(value)
		}
	}
	var u syscall.Utsname
	if syscall.Uname(&u) == nil {
		var release []byte
		for _, c := range u.Release {
			if c != 0 {
				release = append(release, byte(c))
			}
		}
		m["linux"] = string(release)
	}
	return m
}
