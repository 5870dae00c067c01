package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A sample is one server under load once.
type sample struct {
	Scenario string  `json:"scenario"`
	Server   string  `json:"server"`
	Round    int     `json:"round"`
	Requests int     `json:"requests"`
	Rate     float64 `json:"requests_per_second"`
	P99      float64 `json:"p99_ms"`
	CPU      float64 `json:"cpu_us_per_request"` // of the server and its workers
}

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in ([\d.]+)s`)
	wrkP99      = regexp.MustCompile(`99%\s+([\d.]+)(us|ms|s)`)
)

// load runs wrk once. Any answer but 2xx and any broken connection spoils the
// sample.
func (b *bench) load(r *running, s scenario, seconds, round int) (sample, error) {
	x := sample{Scenario: s.name, Server: r.name, Round: round + 1}
	before := r.cpu()
	out, err := exec.Command("wrk", "-t1", "-c"+strconv.Itoa(b.connections), "-d"+strconv.Itoa(seconds)+"s", "--latency", "http://"+r.addr+s.path).CombinedOutput()
	used := r.cpu() - before
	if err != nil {
		return x, fmt.Errorf("wrk: %v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("Non-2xx")) || bytes.Contains(out, []byte("Socket errors")) {
		return x, fmt.Errorf("wrk met errors:\n%s", out)
	}
	m, p := wrkRequests.FindSubmatch(out), wrkP99.FindSubmatch(out)
	if m == nil || p == nil {
		return x, fmt.Errorf("wrk says something unknown:\n%s", out)
	}
	x.Requests, _ = strconv.Atoi(string(m[1]))
	took, _ := strconv.ParseFloat(string(m[2]), 64)
	x.Rate = float64(x.Requests) / took
	x.P99, _ = strconv.ParseFloat(string(p[1]), 64)
	x.P99 *= map[string]float64{"us": 1e-3, "ms": 1, "s": 1e3}[string(p[2])]
	if x.Requests > 0 {
		x.CPU = used.Seconds() * 1e6 / float64(x.Requests)
	}
	return x, nil
}

// cpu is the processor time that the server and its workers have used so far.
// Nothing comes or goes while a sample is taken. /proc counts hundredths of a
// second on every Linux that Go runs on.
func (r *running) cpu() time.Duration {
	if r.cmd == nil {
		return 0
	}
	self := strconv.Itoa(r.cmd.Process.Pid)
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	var ticks int64
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …: the name may hold anything, so cut behind it.
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // f[0] is field 3 of proc(5)
		pid := filepath.Base(filepath.Dir(file))
		if len(f) < 13 || pid != self && f[1] != self {
			continue
		}
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		ticks += user + system
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// spread is the median of some values, the lowest and the highest.
func spread(v []float64) (median, low, high float64) {
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]
}

// table prints the medians of a scenario with their spread, and how they
// compare with httpjet's.
func (b *bench) table(s scenario) {
	rates, cpus := map[string]float64{}, map[string]float64{}
	lines := map[string]string{}
	for _, srv := range s.servers {
		var rate, cpu, p99 []float64
		for _, x := range b.samples {
			if x.Scenario == s.name && x.Server == srv.name {
				rate, cpu, p99 = append(rate, x.Rate), append(cpu, x.CPU), append(p99, x.P99)
			}
		}
		m, low, high := spread(rate)
		c, clow, chigh := spread(cpu)
		p, _, pmost := spread(p99)
		rates[srv.name], cpus[srv.name] = m, c
		lines[srv.name] = fmt.Sprintf("%8.0f  %7.0f–%-7.0f %7.1f  %6.1f–%-6.1f %7.2f  %7.2f", m, low, high, c, clow, chigh, p, pmost)
	}
	fmt.Printf("%-8s %8s  %-15s %7s  %-13s %7s  %7s  %s\n", "", "req/s", "low–high", "CPU µs", "low–high", "p99 ms", "worst", "httpjet against it: req/s, CPU")
	for _, srv := range s.servers {
		fmt.Printf("%-8s %s", srv.name, lines[srv.name])
		if srv.name != "httpjet" {
			fmt.Printf("  ×%.2f", rates["httpjet"]/rates[srv.name])
			if cpus[srv.name] > 0 {
				fmt.Printf(", ×%.2f", cpus["httpjet"]/cpus[srv.name])
			}
		}
		fmt.Println()
	}
}
