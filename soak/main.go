// Command soak lets a built httpjet serve mixed traffic for as long as one likes,
// while it is reloaded, upgraded and robbed of upstreams, and knows for every request
// what its answer has to be. It needs no other program: upstreams, the FastCGI
// responder and all clients run in this process. It is no part of the product, and
// measures no speed: that is what bench does.
//
//	go run ./soak [--bin=FILE] [--seed=N] [TIME]
//
// TIME is at least 10s, 1m if not given; it prints a line a minute, or six altogether,
// and then what was lost, wrong and slow, by kind of traffic. It exits 1 if
//
//   - a request on a healthy path was lost: it got no answer, or only a part of one,
//     or its connection was closed between two requests before its time;
//   - an answer was wrong: another status, other bytes, those of another request, or
//     older than a cache may have them;
//   - a request whose upstream was killed got anything but its answer, a 502, 503 or
//     504 with a reason, or a cut;
//   - a process of httpjet ended with another status than 0, or logged a bug;
//   - the access log, with all its rotated files, has a line that is not whole or that
//     is there twice, or none for a request that was answered;
//   - memory, descriptors or goroutines grew, or did not come back at the end.
//
// What is excused is counted and told too: requests to upstreams that were down,
// connections to a listener that a reload had taken away, tunnels that outlived the
// time that an upgrade leaves them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A soak is one run.
type soak struct {
	length time.Duration
	bin    string
	dir    string
	seed   uint64
	began  time.Time
	over   chan struct{} // closed when no more requests begin

	ledger
	troubles
	site
	jet     jet
	samples []sample
}

func main() {
	s := &soak{length: time.Minute, seed: uint64(time.Now().UnixNano()), over: make(chan struct{})}
	for _, a := range os.Args[1:] {
		var err error
		if bin, ok := strings.CutPrefix(a, "--bin="); ok {
			s.bin = bin
		} else if seed, ok := strings.CutPrefix(a, "--seed="); ok {
			s.seed, err = strconv.ParseUint(seed, 10, 64)
		} else {
			s.length, err = time.ParseDuration(a)
		}
		if err != nil || s.length < 10*time.Second {
			fmt.Fprintln(os.Stderr, "usage: go run ./soak [--bin=FILE] [--seed=N] [TIME of at least 10s]")
			os.Exit(2)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := s.run(ctx)
	if err != nil {
		fmt.Println("FAIL", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run does everything and reports whether all was well.
func (s *soak) run(ctx context.Context) (ok bool, err error) {
	if s.dir, err = os.MkdirTemp("", "httpjet-soak-"); err != nil {
		return false, err
	}
	defer func() {
		if ok {
			os.RemoveAll(s.dir)
		} else {
			fmt.Println("-- tree and logs stay in", s.dir)
		}
	}()
	if s.bin == "" {
		s.bin = filepath.Join(s.dir, "httpjet")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", s.bin, "./cmd/httpjet").CombinedOutput(); err != nil {
			return false, fmt.Errorf("go build: %v\n%s", err, out)
		}
	}
	if s.bin, err = filepath.Abs(s.bin); err != nil {
		return false, err
	}
	// Successors of upgrades become children of this process when their own parent ends.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return false, err
	}
	if err := s.site.open(s.dir); err != nil {
		return false, err
	}
	defer s.site.close()
	if err := s.jet.start(s.bin, &s.site); err != nil {
		return false, err
	}
	defer s.jet.kill()
	fmt.Printf("-- %v, seed %d, %s\n", s.length, s.seed, s.bin)
	s.began = time.Now()
	var work sync.WaitGroup
	for _, f := range []func(context.Context) error{s.reloads, s.upgrades, s.murders} {
		work.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				s.fault(err)
			}
		})
	}
	work.Go(func() { s.watch(ctx) })
	s.traffic(&work)
	select {
	case <-time.After(s.length):
	case <-ctx.Done():
		fmt.Println("-- interrupted: what there is until now")
	}
	close(s.over)
	work.Wait()
	s.rest(ctx)
	s.end()
	return s.verdict(), nil
}

// end stops httpjet as an operator would.
func (s *soak) end() {
	if err := s.jet.stop(); err != nil {
		s.fault(err)
	}
	for _, line := range s.jet.complaints() {
		s.fault(fmt.Errorf("the log says: %s", line))
	}
	if err := s.readLog(); err != nil {
		s.fault(err)
	}
}

// ended reports whether no more requests begin.
func (s *soak) ended() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// pause waits and reports whether to go on.
func (s *soak) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.over:
	case <-ctx.Done():
	}
	return false
}
