package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A jet is httpjet: the process that serves, and those that it has succeeded.
type jet struct {
	bin  string
	root string
	site *site
	log  *os.File
	done chan error // of the process that was started first

	mu    sync.Mutex
	pids  []int // the last one serves
	first int
}

// start runs httpjet and waits until it is ready. A port that somebody took meanwhile
// is a reason to begin again with others.
func (j *jet) start(bin string, s *site) (err error) {
	j.bin, j.site, j.root = bin, s, s.root
	for range 5 {
		if err = s.write(); err != nil {
			return err
		}
		if err = j.try(); err == nil || !strings.Contains(err.Error(), "in use") {
			return err
		}
	}
	return err
}

func (j *jet) try() error {
	var err error
	if j.log, err = os.Create(filepath.Join(filepath.Dir(j.root), "httpjet.log")); err != nil {
		return err
	}
	cmd := exec.Command(j.bin, "--root", j.root, "serve", "--metrics-addr", j.site.metrics, "--watch=false")
	cmd.Stdout, cmd.Stderr = j.log, j.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt reaches us alone
	if err := cmd.Start(); err != nil {
		return err
	}
	j.pids, j.first, j.done = []int{cmd.Process.Pid}, cmd.Process.Pid, make(chan error, 1)
	go func() { j.done <- cmd.Wait() }()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if text := j.text(); strings.Contains(text, "INFO ready") {
			return nil
		}
		select {
		case err := <-j.done:
			return fmt.Errorf("httpjet ended: %v\n%s", err, j.text())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("httpjet is not ready\n%s", j.text())
		}
	}
}

func (j *jet) text() string {
	text, _ := os.ReadFile(j.log.Name())
	return string(text)
}

// pid is the process that serves.
func (j *jet) pid() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.pids) == 0 {
		return 0
	}
	return j.pids[len(j.pids)-1]
}

// reload has the configuration read again and waits for the outcome.
func (j *jet) reload() error {
	out, err := exec.Command(j.bin, "--root", j.root, "reload").CombinedOutput()
	if err != nil {
		return fmt.Errorf("httpjet reload: %v\n%s", err, out)
	}
	return nil
}

// upgrade has the server succeeded by its program.
func (j *jet) upgrade() error {
	out, err := exec.Command(j.bin, "--root", j.root, "upgrade").CombinedOutput()
	m := regexp.MustCompile(`process (\d+) serves`).FindSubmatch(out)
	if err != nil || m == nil {
		return fmt.Errorf("httpjet upgrade: %v\n%s", err, out)
	}
	pid, _ := strconv.Atoi(string(m[1]))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pids = append(j.pids, pid)
	return nil
}

// stop ends the process that serves and waits for all.
func (j *jet) stop() error {
	if err := syscall.Kill(j.pid(), syscall.SIGTERM); err != nil {
		return err
	}
	return j.await(2 * time.Minute)
}

// await waits for the end of all processes. Each has to end with status 0.
func (j *jet) await(patience time.Duration) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	deadline := time.After(patience)
	for _, pid := range j.pids {
		ended := j.done
		if pid != j.first {
			ended = make(chan error, 1)
			go func() { ended <- reap(pid) }()
		}
		select {
		case err := <-ended:
			if err != nil {
				errs = append(errs, fmt.Errorf("process %d ended: %w", pid, err))
			}
		case <-deadline:
			j.pids = nil
			return fmt.Errorf("process %d still runs %v after the last signal", pid, patience)
		}
	}
	j.pids = nil
	return errors.Join(errs...)
}

// reap waits for a process that has become a child of this one, or will.
func reap(pid int) error {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err == unix.ECHILD: // its parent lives still
			if syscall.Kill(pid, 0) != nil {
				return nil // and has seen its end
			}
			time.Sleep(50 * time.Millisecond)
		case err != nil:
			return err
		case got == pid && status.Exited() && status.ExitStatus() == 0:
			return nil
		case got == pid:
			return fmt.Errorf("status %#x", uint32(status))
		}
	}
}

// kill ends what an error has left.
func (j *jet) kill() {
	j.mu.Lock()
	pids := j.pids
	j.mu.Unlock()
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if len(pids) > 0 {
		j.await(10 * time.Second)
	}
	j.log.Close()
}

// complaints are lines that httpjet must never log.
func (j *jet) complaints() (out []string) {
	for line := range strings.Lines(j.text()) {
		if regexp.MustCompile(`panic|BUG|DATA RACE|^fatal error|^goroutine \d+ \[| ERROR `).MatchString(line) {
			if out = append(out, strings.TrimSpace(line)); len(out) == 10 {
				return out
			}
		}
	}
	return out
}

// size is what the process that serves takes.
type size struct {
	memory      int // resident, MiB
	descriptors int
	goroutines  int
	connections int // of clients
}

func (j *jet) size() (n size, err error) {
	pid := j.pid()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return n, err
	}
	if m := regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB`).FindSubmatch(text); m != nil {
		kb, _ := strconv.Atoi(string(m[1]))
		n.memory = kb >> 10
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return n, err
	}
	n.descriptors = len(fds)
	resp, err := http.Get("http://" + j.site.metrics + "/metrics")
	if err != nil {
		return n, err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(resp.Body, 16<<20)); err != nil {
		return n, err
	}
	for line := range bytes.Lines(text) {
		for name, to := range map[string]*int{"go_goroutines ": &n.goroutines, "httpjet_active_connections ": &n.connections} {
			if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
				f, _ := strconv.ParseFloat(string(bytes.TrimSpace(rest)), 64)
				*to = int(f)
			}
		}
	}
	return n, nil
}
