package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// heldBy is held over one way.
func heldBy(way string) func(*bench, context.Context, cores, entry, *running) (sample, error) {
	return func(b *bench, ctx context.Context, c cores, e entry, _ *running) (sample, error) {
		return b.held(ctx, c, e, way)
	}
}

// held measures what idle connections hold in a server that has had a second of
// load before, so that what it takes once is not counted.
func (b *bench) held(ctx context.Context, c cores, e entry, way string) (sample, error) {
	r, err := b.start(ctx, e.server, c)
	if err != nil {
		return sample{}, err
	}
	defer r.stop()
	n, warm, address := b.relays, (*bench).wrkTLS, r.https
	switch way {
	case overPlain:
		n, warm, address = b.idle, (*bench).wrk, r.http
	case overWS:
		warm, address = (*bench).messages, r.http
	case overH2:
		warm = (*bench).h2load
	}
	if _, err := warm(b.brief(), ctx, c, e, r); err != nil {
		return sample{}, fmt.Errorf("%v\n%s", err, r.said())
	}
	if err := sleep(ctx, b.settle); err != nil {
		return sample{}, err
	}
	pid := r.cmd.Process.Pid
	before, err := pss(pid)
	if err != nil {
		return sample{}, err
	}
	x := sample{Work: int64(n)}
	err = b.watch(&x, r, func() error {
		return b.holding(ctx, c, []string{"hold", address, e.path, strconv.Itoa(n), way}, func() error {
			with, err := pss(pid)
			x.Memory = []int64{before, with}
			x.Value = float64(with-before) / 1024 / float64(n)
			return err
		})
	})
	if err == nil {
		err = r.inEarnest()
	}
	return x, err
}

// holding runs f while a client of this program holds its connections, b.settle
// after the last was opened.
func (b *bench) holding(ctx context.Context, c cores, args []string, f func() error) error {
	args = c.pin(c.load, append([]string{b.self, helper}, args...))
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr, cmd.Stderr = endsWithParent, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var ready result
	err = json.NewDecoder(bufio.NewReader(out)).Decode(&ready)
	if err == nil {
		err = sleep(ctx, b.settle)
	}
	if err == nil {
		err = f()
	}
	in.Close() // lets it end
	stuck := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	if ended := cmd.Wait(); ended != nil {
		return fmt.Errorf("the holder of connections: %v (%v)", ended, err)
	}
	return err
}
