package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"httpjet/internal/peers"
)

// bigReloads reloads a big tree again and again under a steady load, which none of
// it may disturb: no request fails, and memory stays what it was.
func (r *run) bigReloads(dir string) (string, error) {
	if err := os.WriteFile(filepath.Join(dir, "sites/0/html/index.html"), []byte("home\n"), 0o644); err != nil {
		return "", err
	}
	j := &jet{root: dir}
	var err error
	for _, a := range []*string{&j.http, &j.metrics} {
		if *a, err = peers.FreePort(); err != nil {
			return "", err
		}
	}
	if j.process, err = r.start(r.bin, "--root", dir, "serve", "--http-addr", j.http, "--metrics-addr", j.metrics); err != nil {
		return "", err
	}
	defer j.stop()
	if err := j.ready(r.ctx, j.live); err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(r.ctx)
	l := &steady{jet: j}
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() { l.ask(ctx) })
	}
	n := r.pick(5, 100)
	warm, late, took, err := l.reloads(ctx, r.bin, n)
	stop()
	load.Wait()
	if err != nil {
		return "", err
	}
	answers, err := l.verdict()
	if err != nil {
		return "", err
	}
	slices.Sort(took)
	said := fmt.Sprintf("%d reloads of %.2f s (median); %s; resident %.0f MiB after the first %d, %.0f MiB after the last",
		n, took[len(took)/2].Seconds(), answers, mib(warm), n/5, mib(late))
	if late-warm > warm/4+flatMost {
		return "", errors.New(said)
	}
	return said, nil
}

// steady asks for a file 200 times a second.
type steady struct {
	*jet
	latencies
}

func (l *steady) ask(ctx context.Context) {
	c := l.plain()
	defer c.CloseIdleConnections()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/", nil) // is well-formed
	req.Host = "host0.test"
	l.every(ctx, 20*time.Millisecond, func() error { return home(c, req) })
}

// home asks for the page of the host.
func home(c *client, req *http.Request) error {
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || string(text) != "home\n" {
		return fmt.Errorf("/ is %s %.40q %v", resp.Status, text, err)
	}
	return nil
}

// reloads waits for the load to be steady, reloads n times, and returns the
// resident memory after a fifth of them and at the end.
func (l *steady) reloads(ctx context.Context, bin string, n int) (warm, late int64, took []time.Duration, err error) {
	sleep(ctx, 4*time.Second)
	l.begin()
	for i := range n {
		began := time.Now()
		if out, err := exec.CommandContext(ctx, bin, "--root", l.root, "reload").CombinedOutput(); err != nil {
			return 0, 0, nil, fmt.Errorf("reload %d: %v: %.300s", i, err, out)
		}
		took = append(took, time.Since(began))
		if i == n/5 {
			if warm, err = l.memory("VmRSS"); err != nil {
				return 0, 0, nil, err
			}
		}
	}
	late, err = l.memory("VmRSS")
	return warm, late, took, err
}
