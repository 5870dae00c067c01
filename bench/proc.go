package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc: USER_HZ is 100 on every Linux that Go runs
// on.
const tick = 10 * time.Millisecond

// A process is what /proc says about one process.
type process struct {
	parent int
	name   string
	cpu    time.Duration // user and system, of it and of the children it has waited for
}

// A snapshot is all processes and processors at one moment.
type snapshot struct {
	at        time.Time
	processes map[int]process
	busy      time.Duration // user, nice and system of all processors
	stolen    time.Duration // taken by the hypervisor
}

func takeSnapshot() (snapshot, error) {
	s := snapshot{at: time.Now(), processes: map[int]process{}}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseStat(text); ok {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // the pattern says digits
			s.processes[pid] = p
		}
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s, err
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	f := strings.Fields(string(first)) // cpu user nice system idle iowait irq softirq steal …
	if len(f) < 9 {
		return s, fmt.Errorf("/proc/stat: %q", first)
	}
	s.busy = ticks(f[1]) + ticks(f[2]) + ticks(f[3])
	s.stolen = ticks(f[8])
	return s, nil
}

// parseStat reads /proc/PID/stat: pid (name) state ppid …, where the name may
// hold anything, so it is cut at the last parenthesis.
func parseStat(text []byte) (process, bool) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	f := strings.Fields(string(text[end+1:])) // f[0] is field 3 of proc(5)
	if len(f) < 15 {
		return process{}, false
	}
	parent, err := strconv.Atoi(f[1])
	// utime, stime, cutime, cstime. The time of a child moves to its parent when
	// it is waited for, so sums over a tree lose nothing by processes that end.
	return process{parent, string(text[open+1 : end]), ticks(f[11]) + ticks(f[12]) + ticks(f[13]) + ticks(f[14])}, err == nil
}

func ticks(s string) time.Duration {
	n, _ := strconv.ParseInt(s, 10, 64) // the kernel writes numbers
	return time.Duration(n) * tick
}

// in reports whether pid is root or descends from it.
func (s snapshot) in(pid, root int) bool {
	for range 100 { // a snapshot is not taken at one instant and might hold a circle
		if pid == root {
			return true
		}
		p, ok := s.processes[pid]
		if !ok || p.parent == 0 {
			return false
		}
		pid = p.parent
	}
	return false
}

// tree is the time that root and its descendants have used so far.
func (s snapshot) tree(root int) time.Duration {
	var sum time.Duration
	for pid, p := range s.processes {
		if s.in(pid, root) {
			sum += p.cpu
		}
	}
	return sum
}

// A part is the processes that belong to a measurement: what descends from self,
// less what descends from any of idle, which are servers that await their turn.
type part struct {
	self int
	idle []int
}

func (t part) has(s snapshot, pid int) bool {
	for _, root := range t.idle {
		if s.in(pid, root) {
			return false
		}
	}
	return s.in(pid, t.self)
}

// foreign is what everything outside t has used since before, in processors, with
// the name of the process that used most. It is the larger of two sums: of all
// other processes, which misses those that cannot be seen from here, and of the
// processors' time without interrupts less that of t, which the interrupts of t
// may hide. Time stolen by the hypervisor counts.
func (s snapshot) foreign(before snapshot, t part) (cpus float64, most string) {
	// A process that ended has given all its time to its nearest living ancestor.
	given := map[int]time.Duration{}
	for pid, p := range before.processes {
		if _, alive := s.processes[pid]; alive {
			continue
		}
		heir := p.parent
		for range 100 {
			if _, alive := s.processes[heir]; alive || heir == 0 {
				break
			}
			heir = before.processes[heir].parent
		}
		given[heir] += p.cpu
	}
	var ours, others, largest time.Duration
	for pid, p := range s.processes {
		used := max(p.cpu-before.processes[pid].cpu-given[pid], 0) // all of it, if it began since
		if t.has(s, pid) {
			ours += used
			continue
		}
		others += used
		if used > largest {
			largest, most = used, p.name
		}
	}
	used := max(others, s.busy-before.busy-ours) + s.stolen - before.stolen
	return used.Seconds() / s.at.Sub(before.at).Seconds(), cmp.Or(most, "nothing seen")
}

// pss is the proportional set size of root and its descendants in bytes: a page
// that n processes share counts for one nth in each.
func pss(root int) (int64, error) {
	s, err := takeSnapshot()
	if err != nil {
		return 0, err
	}
	var sum int64
	for pid := range s.processes {
		if !s.in(pid, root) {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, err
		}
		n, err := parsePSS(text)
		if err != nil {
			return 0, fmt.Errorf("process %d: %v", pid, err)
		}
		sum += n
	}
	return sum, nil
}

func parsePSS(text []byte) (int64, error) {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no Pss in smaps_rollup")
}
