// Command bench compares httpjet with nginx, HAProxy and Caddy on this machine:
// the same work, equivalent configurations, interleaved rounds. It is a
// measurement, not a test: it fails only when something did not answer
// properly. It installs what is missing by apt-get and go install.
//
//	go run ./bench [-rounds N] [-seconds N] [-json FILE] [-bin FILE] [proxy|static]
//
// What it prints is what it measured: every sample, the median of all rounds with
// the lowest and the highest one beside it, and all of it as JSON with -json.
// Load generator, server and upstream share the machine's cores, so requests per
// second depend on all three; CPU per request is the server's own.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// caddyVersion is the pinned version of Caddy, which is built from source.
const caddyVersion = "v2.11.9"

func main() {
	b := &bench{}
	flag.IntVar(&b.rounds, "rounds", 5, "rounds; each runs every server once")
	flag.IntVar(&b.seconds, "seconds", 3, "seconds of load per sample")
	flag.IntVar(&b.connections, "connections", 64, "client connections")
	file := flag.String("json", "", "write every sample to `file`")
	flag.StringVar(&b.bin, "bin", "", "measure `file` instead of building httpjet")
	flag.Parse()
	if err := b.run(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if *file == "" {
		return
	}
	text, err := json.MarshalIndent(b.samples, "", "\t")
	if err == nil {
		err = os.WriteFile(*file, append(text, '\n'), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A bench is one invocation.
type bench struct {
	rounds, seconds, connections int
	bin                          string // httpjet
	dir                          string // temporary directory
	upstream                     string // address of what stands behind the proxies

	samples []sample
}

// A scenario is one kind of work and the servers that can do it.
type scenario struct {
	name, path, says string
	servers          []server
}

func (b *bench) run(only string) error {
	dir, err := os.MkdirTemp("", "httpjet-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.dir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // workers run as other users
		return err
	}
	if err := b.install(); err != nil {
		return err
	}
	stop, err := b.startUpstream()
	if err != nil {
		return err
	}
	defer stop()

	ran := false
	for _, s := range []scenario{
		{"proxy", "/app/1k", "HTTP/1.1 proxy, 1 KiB from nginx behind it; \"direct\" has no proxy between", []server{direct, nginx, haproxy, caddy, httpjet}},
		{"static", "/1k.txt", "a file of 1 KiB; HAProxy serves no files", []server{nginx, caddy, httpjet}},
	} {
		if only != "" && only != s.name {
			continue
		}
		ran = true
		if err := b.scenario(s); err != nil {
			return fmt.Errorf("%s: %v", s.name, err)
		}
	}
	if !ran {
		return fmt.Errorf("no scenario %q: there are proxy and static", only)
	}
	return nil
}

// scenario starts all its servers, which idle until their turn comes, and then
// measures them round by round. Each round begins with another server, so that
// a machine that slows down or warms up does so for all.
func (b *bench) scenario(s scenario) error {
	var all []*running
	defer func() {
		for _, r := range all {
			r.stop()
		}
	}()
	for _, srv := range s.servers {
		r, err := b.start(srv, s.path)
		if err != nil {
			return fmt.Errorf("%s: %v", srv.name, err)
		}
		all = append(all, r)
	}
	// What else runs on the machine is in the numbers too: say how much it was.
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%s: %s\n%d connections, %d rounds of %d s each, interleaved; %d CPUs, load before %.4s, %s\n",
		s.name, s.says, b.connections, b.rounds, b.seconds, runtime.NumCPU(), load, time.Now().UTC().Format(time.DateOnly))
	for _, r := range all { // warm: pools filled, files cached
		if _, err := b.load(r, s, 1, -1); err != nil {
			return fmt.Errorf("%s: %v", r.name, err)
		}
	}
	for round := range b.rounds {
		for i := range all {
			r := all[(round+i)%len(all)]
			x, err := b.load(r, s, b.seconds, round)
			if err != nil {
				return fmt.Errorf("%s: %v", r.name, err)
			}
			b.samples = append(b.samples, x)
			fmt.Printf("round %d %-8s %8.0f req/s %8.2f ms p99 %7.1f µs CPU per request\n", round+1, r.name, x.Rate, x.P99, x.CPU)
		}
	}
	b.table(s)
	for _, r := range all {
		if r.note != nil {
			if n := r.note(); n != "" {
				fmt.Println("note:", n)
			}
		}
	}
	fmt.Println()
	return nil
}

// install brings wrk and the other servers, and builds httpjet and Caddy.
func (b *bench) install() error {
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	var missing []string
	for _, p := range [][2]string{{"wrk", "wrk"}, {"nginx", "nginx-light"}, {"haproxy", "haproxy"}} {
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
	cmd := exec.Command("go", "install", "github.com/caddyserver/caddy/v2/cmd/caddy@"+caddyVersion)
	cmd.Env = append(os.Environ(), "GOBIN="+b.dir, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("caddy: %v\n%s", err, out)
	}
	if b.bin != "" {
		return nil
	}
	b.bin = filepath.Join(b.dir, "httpjet")
	cmd = exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", b.bin, "./cmd/httpjet")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("httpjet: %v\n%s", err, out)
	}
	return nil
}
