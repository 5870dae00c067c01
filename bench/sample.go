package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// A sample is one server measured once. All of them are kept; Used marks the one
// of each round that counts.
type sample struct {
	Scenario  string  `json:"scenario"`
	Server    string  `json:"server"`
	Cores     string  `json:"cores"` // one: the server pinned to one core; all: nothing pinned
	Round     int     `json:"round"` // from 1
	Try       int     `json:"try"`   // from 1; more after a disturbance
	Used      bool    `json:"used"`
	Disturbed bool    `json:"disturbed"`         // foreign CPU over the threshold
	Value     float64 `json:"value"`             // what is compared, in the scenario's unit; less is better
	Work      int64   `json:"work"`              // requests, messages, bytes or connections
	Seconds   float64 `json:"seconds,omitempty"` // that the work took
	CPU       float64 `json:"cpu_seconds"`       // of the server and its workers
	P99       float64 `json:"p99_ms,omitempty"`
	Memory    []int64 `json:"pss_bytes,omitempty"` // before and with the connections
	Foreign   float64 `json:"foreign_cpus"`        // used by everything else meanwhile
	ForeignBy string  `json:"foreign_most"`        // the process with the largest part of it
}

// watch takes snapshots around f, and says in x what the server and what
// everything else has used meanwhile.
func (b *bench) watch(x *sample, r *running, f func() error) error {
	t := part{self: os.Getpid()}
	for _, other := range b.up {
		if other != r && !other.behind {
			t.idle = append(t.idle, other.cmd.Process.Pid)
		}
	}
	before, err := takeSnapshot()
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	after, err := takeSnapshot()
	if err != nil {
		return err
	}
	pid := r.cmd.Process.Pid
	x.CPU = (after.tree(pid) - before.tree(pid)).Seconds()
	x.Foreign, x.ForeignBy = after.foreign(before, t)
	return nil
}

// settled waits until the machine is quiet, b.patience at the most.
func (b *bench) settled(ctx context.Context) {
	const window = 250 * time.Millisecond
	for until := time.Now().Add(b.patience); time.Now().Before(until); {
		before, err := takeSnapshot()
		if err != nil {
			return // the sample itself will say so
		}
		if sleep(ctx, window) != nil {
			return
		}
		after, err := takeSnapshot()
		if err != nil {
			return
		}
		if cpus, _ := after.foreign(before, part{self: os.Getpid()}); cpus <= b.threshold {
			return
		}
	}
}

// undisturbed takes a sample and repeats it while foreign CPU was over the
// threshold, b.repeats times at the most. If none was quiet, the one with the
// least foreign CPU counts. No other property of a sample is looked at. Memory
// (cpu is false) is not disturbed.
func (b *bench) undisturbed(ctx context.Context, cpu bool, take func() (sample, error)) (string, error) {
	first := len(b.samples)
	best := -1
	for try := range b.repeats + 1 {
		if cpu {
			b.settled(ctx)
		}
		x, err := take()
		if err != nil {
			return "", err
		}
		x.Try = try + 1
		x.Disturbed = cpu && x.Foreign > b.threshold
		b.samples = append(b.samples, x)
		if best < 0 || x.Foreign < b.samples[best].Foreign {
			best = first + try
		}
		if !x.Disturbed {
			break
		}
	}
	x := &b.samples[best]
	x.Used = true
	said := fmt.Sprintf("%-12s %9.3f", x.Server, x.Value)
	if n := len(b.samples) - first; n > 1 || x.Disturbed {
		said += fmt.Sprintf("  try %d of %d, foreign %.2f CPUs by %s", x.Try, n, x.Foreign, x.ForeignBy)
	}
	return said, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var (
	wrkRequests    = regexp.MustCompile(`(\d+) requests in ([\d.]+)(ms|s|m)`)
	wrkP99         = regexp.MustCompile(`99%\s+([\d.]+)(us|ms|s)`)
	wrkErrors      = regexp.MustCompile(`Non-2xx|Socket errors`)
	h2loadRequests = regexp.MustCompile(`requests: (\d+) total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout`)
	h2loadFinished = regexp.MustCompile(`finished in ([\d.]+)(ms|s|m)`)
)

var units = map[string]float64{"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}

// parseWrk reads what wrk prints. Any answer but 2xx and any broken connection
// spoils the sample.
func parseWrk(out []byte) (result, error) {
	if wrkErrors.Match(out) {
		return result{}, fmt.Errorf("wrk met errors:\n%s", out)
	}
	m, p := wrkRequests.FindSubmatch(out), wrkP99.FindSubmatch(out)
	if m == nil || p == nil {
		return result{}, fmt.Errorf("wrk says something unknown:\n%s", out)
	}
	return positive(result{integer(m[1]), seconds(m[2], m[3]), seconds(p[1], p[2]) * 1e3})
}

// parseH2load reads what h2load prints. Requests under way when the time is over
// are neither done nor failed.
func parseH2load(out []byte) (result, error) {
	m, f := h2loadRequests.FindSubmatch(out), h2loadFinished.FindSubmatch(out)
	if m == nil || f == nil {
		return result{}, fmt.Errorf("h2load says something unknown:\n%s", out)
	}
	if integer(m[3])+integer(m[4])+integer(m[5]) > 0 {
		return result{}, fmt.Errorf("h2load met errors:\n%s", out)
	}
	return positive(result{Work: integer(m[2]), Seconds: seconds(f[1], f[2])})
}

func positive(r result) (result, error) {
	if r.Work <= 0 || r.Seconds <= 0 {
		return r, errors.New("nothing was done")
	}
	return r, nil
}

func integer(text []byte) int64 {
	n, _ := strconv.ParseInt(string(text), 10, 64) // the pattern says digits
	return n
}

func seconds(text, unit []byte) float64 {
	n, _ := strconv.ParseFloat(string(text), 64) // the pattern says digits
	return n * units[string(unit)]
}

// load runs a load generator on the load's cores, one minute longer than it has
// to take at the most.
func (b *bench) load(ctx context.Context, c cores, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(b.seconds)*time.Second+time.Minute)
	defer cancel()
	args = c.pin(c.load, args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = endsWithParent
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %v\n%s", args, err, out)
	}
	return out, nil
}

// own runs a client of this program.
func (b *bench) own(ctx context.Context, c cores, args ...string) (result, error) {
	out, err := b.load(ctx, c, append([]string{b.self, helper}, args...)...)
	if err != nil {
		return result{}, err
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("%s: %v in %q", args, err, out)
	}
	return positive(r)
}
