// Command bench compares httpjet with nginx, HAProxy, Caddy and Varnish on this machine:
// the same work, equivalent configurations (in conf), interleaved rounds. It is a
// measurement, not a test: it fails only when something did not answer properly.
// It installs what is missing by apt-get and go install.
//
//	go run ./bench [flags] [scenario]
//
// What is compared is CPU time per unit of work, user and system, of a server's
// processes, or memory per connection, with the ratio of each round. The server
// has one core to itself and everything else has the others; then it is done
// once more with nothing pinned. A sample during which other programs used more
// CPU than -foreign is repeated, and of several samples the one with the least
// foreign CPU counts. docs/performance.md describes the method.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// helper as the first argument makes this program an upstream or a client of a
// measurement.
const helper = "helper:"

// A bench is one invocation.
type bench struct {
	rounds, seconds, connections int
	gib, idle, relays            int
	settle, patience             time.Duration
	threshold                    float64
	repeats                      int

	self, bin, caddy string // programs
	commit           string // of httpjet
	dir              string // temporary
	cert, key        string // PEM
	descriptors      int
	began            time.Time

	app, fastcgi string     // addresses of the upstream
	up           []*running // servers that run
	samples      []sample
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == helper {
		exit(help(os.Args[2:]))
	}
	b := &bench{began: time.Now()}
	flag.IntVar(&b.rounds, "rounds", 5, "rounds; each runs every server once")
	flag.IntVar(&b.seconds, "seconds", 3, "seconds of load per sample")
	flag.IntVar(&b.connections, "connections", 64, "client connections of HTTP/1.1 and WebSockets")
	flag.IntVar(&b.gib, "gib", 3, "GiB per sample of stream")
	flag.IntVar(&b.idle, "idle", 10_000, "connections of idle")
	flag.IntVar(&b.relays, "relays", 2000, "connections of relays, and idle ones over TLS")
	flag.DurationVar(&b.settle, "settle", 8*time.Second, "rest before memory is read")
	flag.Float64Var(&b.threshold, "foreign", 0.10, "CPUs that other programs may use during a sample")
	flag.IntVar(&b.repeats, "repeats", 4, "repeats of a disturbed sample at most")
	flag.DurationVar(&b.patience, "patience", 10*time.Second, "wait for a quiet machine before each sample at most")
	flag.StringVar(&b.bin, "bin", "", "measure `file` instead of building httpjet")
	on := flag.String("cores", "both", "one: the server pinned to one core; all: nothing pinned; both")
	save := flag.Bool("save", false, "keep every sample under bench/results")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: go run ./bench [flags] [scenario]\nscenarios: %s\n", strings.Join(names(), " "))
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(b.run(ctx, flag.Args(), *on, *save))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// names is what may be asked for: groups, and scenarios of groups.
func names() []string {
	var all []string
	for _, s := range scenarios {
		for _, name := range []string{s.group, s.name} {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func (b *bench) run(ctx context.Context, only []string, on string, save bool) error {
	if err := b.check(only, on); err != nil {
		return err
	}
	if err := b.prepare(); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	defer os.RemoveAll(filepath.Join(memory, filepath.Base(b.dir)))
	if err := b.install(); err != nil {
		return err
	}
	one, all := bothCores()
	var rows []row
	var errs []error
	for _, s := range scenarios {
		if len(only) > 0 && !slices.Contains(only, s.group) && !slices.Contains(only, s.name) {
			continue
		}
		if s.needs != nil && s.needs() != "" {
			fmt.Fprintf(os.Stderr, "%s: left out: %s\n", s.name, s.needs())
			continue
		}
		var of []row
		for _, c := range []cores{one, all} {
			// Memory is a matter of how a server runs in earnest: unpinned.
			if s.memory && c.name != "all" || !s.memory && on != "both" && on != c.name {
				continue
			}
			if err := s.run(ctx, b, c); err != nil {
				errs = append(errs, fmt.Errorf("%s: %v", s.name, err))
			}
			of = append(of, b.rows(s, c.name)...)
		}
		rows = append(rows, of...)
		if save && len(of) > 0 {
			errs = append(errs, b.save(s, of))
		}
		if ctx.Err() != nil {
			break
		}
	}
	said := b.headline() + "\n\n" + table(rows)
	fmt.Print("\n", said)
	if err := errors.Join(errs...); err != nil || !save || len(only) > 0 || on != "both" {
		return err
	}
	return publish(document, said, rows)
}

// check refuses a command line that cannot be measured.
func (b *bench) check(only []string, on string) error {
	for _, name := range only {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("no scenario %q: there are %s", name, strings.Join(names(), ", "))
		}
	}
	if on != "one" && on != "all" && on != "both" {
		return fmt.Errorf("-cores %q: use one, all or both", on)
	}
	if b.rounds < 1 || b.seconds < 1 || b.connections < 1 || b.gib < 1 || b.idle < 1 || b.relays < 1 || b.repeats < 0 {
		return errors.New("counts and times must be positive")
	}
	if on != "all" && runtime.NumCPU() < 2 {
		return errors.New("a core for the server alone needs two: use -cores all")
	}
	return nil
}

// prepare makes what does not depend on a scenario.
func (b *bench) prepare() error {
	var err error
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.descriptors, err = raise(); err != nil {
		return err
	}
	if need := max(b.idle, 2*b.relays) + 500; b.descriptors < need {
		return fmt.Errorf("%d files may be open, %d are needed: ulimit -n, or smaller -idle and -relays", b.descriptors, need)
	}
	if b.cert, b.key, err = certificate(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "httpjet-bench-"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(memory, filepath.Base(b.dir)), 0o755); err != nil {
		return err
	}
	return os.Chmod(b.dir, 0o755) // workers run as other users
}

// help runs one part of a measurement in a process of its own.
func help(args []string) error {
	number := func(i int) int {
		n, _ := strconv.Atoi(args[i]) // written by this program
		return n
	}
	switch kind := args[0]; kind {
	case "upstream":
		return upstream(args[1], args[2])
	case "fetch":
		return fetch(args[1], args[2], number(3))
	case "store":
		return measureStore(args[1])
	case "hold":
		return hold(args[1], args[2], number(3), args[4])
	case "h3":
		return requests(args[1], args[2], number(3), number(4), number(5))
	case "messages":
		return messages(args[1], args[2], number(3), number(4))
	}
	return fmt.Errorf("no helper %q", args[0])
}
