// Command interop runs the built httpjet together with real programs that it
// has to get along with: PHP-FPM with DokuWiki, WordPress and MediaWiki, programs behind
// FastCGI, Apache httpd over the same .htaccess files, the npm WebSocket library, nginx
// and Node's HTTP/2 server as upstreams, h2load, curl and h2spec as HTTP/2 clients, a
// client in Python whose frames are made by hand,
// slowhttptest, curl as a client of compressed answers, a site in PHP that steers the
// page cache, Chromium over HTTP/2 and HTTP/3, in a full run the gRPC conformance suite;
// and under load while its
// upstreams are killed and stalled. It is not part of the product and not a unit
// test: it needs Debian's apt-get, npm and the Go module proxy, installs what is
// missing, and a program that cannot be had fails the run.
//
//	go run ./interop [ci|full] [--write] [--bin=FILE] [--load=TIME] [section...]
//
// It prints one line per check, "ok" or "FAIL", and exits 1 after any FAIL. With
// --write the results go to docs/interop.md as well. --bin runs a program that is
// built already, --load says how long the section load lasts: 10m, in a ci run 20s,
// if not given. A section's name runs that section alone; the sections lsphp, which
// builds its program from source once, and cache-tests, which needs a checkout that
// CACHE_TESTS names, run in no other way, and WordPress and
// MediaWiki, which are heavy to install, not in a ci run. A full run has them behind
// lsphp too.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == chaosPeer {
		fmt.Fprintln(os.Stderr, serveChaos(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == helper {
		if err := between(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &run{ctx: ctx, mode: "full", began: time.Now()}
	var write bool
	var only []string
	for _, a := range os.Args[1:] {
		bin, given := strings.CutPrefix(a, "--bin=")
		lasts, timed := strings.CutPrefix(a, "--load=")
		switch {
		case a == "ci" || a == "full":
			r.mode = a
		case a == "--write":
			write = true
		case given:
			r.bin = bin
		case timed:
			var err error
			if r.load, err = time.ParseDuration(lasts); err != nil || r.load < time.Second {
				fmt.Fprintln(os.Stderr, "--load takes a time of at least a second, such as 10m")
				os.Exit(2)
			}
		default:
			if !slices.ContainsFunc(sections, func(s section) bool { return s.name == a }) {
				fmt.Fprintf(os.Stderr, "usage: go run ./interop [ci|full] [--write] [--bin=FILE] [--load=TIME] [section...]\n")
				os.Exit(2)
			}
			only = append(only, a)
		}
	}
	if write && len(only) > 0 {
		fmt.Fprintln(os.Stderr, "--write records a whole run: name no section with it")
		os.Exit(2)
	}
	if err := r.all(only, write); err != nil {
		fmt.Println("FAIL", err)
		os.Exit(1)
	}
	if r.failed() > 0 {
		os.Exit(1)
	}
}

// A section is one peer program and its checks.
type section struct {
	name string
	f    func(r *run) error // an error means that the section could not go on
	when string             // "": in each run; fully: not in a ci run; apart: only if it is named
}

const fully, apart = "full", "apart"

// runs reports whether a section is part of the run.
func (r *run) runs(s section, only []string) bool {
	if len(only) > 0 {
		return slices.Contains(only, s.name)
	}
	return s.when == "" || s.when == r.mode
}

var sections = []section{
	{"dokuwiki", dokuwiki, ""},
	{"wordpress", wordpress, fully},
	{"mediawiki", mediawiki, fully},
	{"fastcgi", fastcgiApps, ""},
	{"applications", applications, ""},
	{"apache", apache, ""},
	{"websocket", websocket, ""},
	{"nginx", nginx, ""},
	{"framing", framing, ""},
	{"http2", http2, ""},
	{"http2-frames", handMadeFrames, ""},
	{"node-http2", nodeHTTP2, ""},
	{"grpc", grpc, ""},
	{"chaos", chaos, ""},
	{"measure", measure, ""},
	{"compress", compressed, ""},
	{"config", config, ""},
	{"reload", reload, ""},
	{"acme", acme, ""},
	{"tls", tlsPeers, fully},
	{"chromium", chromium, fully},
	{"slow", slow, ""},
	{"load", load, ""},
	{"documents", documents, ""},
	{"dashboard", dashboard, fully},
	{"package", packaged, fully},
	{"lsphp", lsphp, apart},
	{"page-cache", pageCache, ""},
	{"cache-tests", cacheTests, apart},
}

// all installs, builds, and runs the sections one after the other.
func (r *run) all(only []string, write bool) error {
	dir, err := os.MkdirTemp("", "httpjet-interop-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r.dir = dir
	// PHP's workers run as another user and have to get in.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	needs := func(name string) bool {
		return slices.ContainsFunc(sections, func(s section) bool { return s.name == name && r.runs(s, only) })
	}
	if err := r.install(needs); err != nil {
		return fmt.Errorf("install: %v", err)
	}
	if r.bin == "" {
		r.bin = filepath.Join(dir, "httpjet")
		if err := r.build(); err != nil {
			return fmt.Errorf("build: %v", err)
		}
	}
	if err := r.versions(); err != nil {
		return fmt.Errorf("versions: %v", err)
	}
	for _, s := range sections {
		if !r.runs(s, only) {
			continue
		}
		r.section = s.name
		began := time.Now()
		if err := s.f(r); err != nil {
			r.report("section", "", err)
		}
		fmt.Printf("-- %s took %.1f s\n", s.name, time.Since(began).Seconds())
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
	}
	fmt.Printf("-- %d checks, %d failed, %.0f s in all\n", len(r.results), r.failed(), time.Since(r.began).Seconds())
	if write {
		return r.write("docs/interop.md")
	}
	return nil
}

// build builds httpjet as released binaries are built, with the commit as version.
func (r *run) build() error {
	version := "dev"
	if out, err := exec.CommandContext(r.ctx, "git", "describe", "--tags", "--always", "--dirty").Output(); err == nil {
		version = strings.TrimSpace(string(out)) // outside of a checkout it stays dev
	}
	return r.command("go", "build", "-trimpath", "-pgo=packaging/httpjet.pgo", "-ldflags", "-s -w -X httpjet/server.Version="+version, "-o", r.bin, "./cmd/httpjet")
}

// A run is one invocation: where it works and what it found.
type run struct {
	ctx   context.Context
	mode  string        // "ci" or "full"
	load  time.Duration // of that section; 0: as the mode has it
	began time.Time

	dir  string // temporary directory of the run
	bin  string // the built httpjet
	node string // directory that holds node_modules

	section  string
	results  []result
	programs [][2]string // name, version
}

// A result is the outcome of one check.
type result struct {
	section, name, detail string
	err                   error
}

// report prints and keeps one result.
func (r *run) report(name, detail string, err error) {
	r.results = append(r.results, result{r.section, name, detail, err})
	if err != nil {
		fmt.Printf("FAIL %s/%s: %v\n", r.section, name, err)
		return
	}
	fmt.Printf("ok   %s/%s", r.section, name)
	if detail != "" {
		fmt.Printf(": %s", detail)
	}
	fmt.Println()
}

// check runs f and reports its outcome. f returns what is worth telling.
func (r *run) check(name string, f func() (string, error)) (ok bool) {
	if r.ctx.Err() != nil {
		return false
	}
	detail, err := f()
	r.report(name, detail, err)
	return err == nil
}

func (r *run) failed() int {
	n := 0
	for _, x := range r.results {
		if x.err != nil {
			n++
		}
	}
	return n
}

// pick is ci's number in a ci run and full's otherwise.
func (r *run) pick(ci, full int) int {
	if r.mode == "ci" {
		return ci
	}
	return full
}

// command runs a program to its end; its output is part of the error.
func (r *run) command(name string, args ...string) error {
	out, err := exec.CommandContext(r.ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %v\n%s", name, err, tail(out))
	}
	return nil
}

// tail is the end of an output, enough to see what went wrong.
func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
