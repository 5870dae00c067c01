package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stormSize is how many bytes the script of a storm answers with.
const stormSize = 40_000

// A storm is 10,000 requests of a script while what runs it is killed at random
// moments. Answers are whole, or say which failure it was, or are cut behind the head;
// none holds the source of the script.
type storm struct {
	j      *jet
	path   string
	canary string        // in the source of the script
	kill   func() bool   // kills something, false if there was nothing
	tokens []string      // failures that may be told: status and reason token
	longer time.Duration // most time between two kills; 0: 80 ms

	left, fine, failed, cut atomic.Int64
	mu                      sync.Mutex
	errs                    []error // at most a few
}

// run runs the storm; workers is how many children the application has.
func (s *storm) run(workers int) (string, error) {
	const total, clients = 10_000, 8
	s.left.Store(total)
	before, err := s.j.sockets()
	if err != nil {
		return "", err
	}
	began := time.Now()
	done := make(chan struct{})
	var killer, all sync.WaitGroup
	kills := 0
	killer.Go(func() { kills = s.kills(done) })
	for range clients {
		all.Go(s.requests)
	}
	all.Wait()
	close(done)
	killer.Wait()
	if err := errors.Join(s.errs...); err != nil {
		return "", err
	}
	if kills == 0 || s.fine.Load() == 0 {
		return "", fmt.Errorf("%d kills, %d whole answers", kills, s.fine.Load())
	}
	after, err := s.j.sockets()
	for over := time.Now(); after > before+2*workers; after, err = s.j.sockets() {
		if err != nil || time.Since(over) > time.Second { // the clients have only just closed theirs
			return "", errors.Join(err, fmt.Errorf("%d sockets before, %d after", before, after))
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Sprintf("%d requests in %.0f s, %d kills: %d whole, %d told as failures, %d cut; %d sockets before, %d after",
		total, time.Since(began).Seconds(), kills, s.fine.Load(), s.failed.Load(), s.cut.Load(), before, after), err
}

// kills kills until done is closed.
func (s *storm) kills(done chan struct{}) (n int) {
	most := max(s.longer, 80*time.Millisecond)
	for {
		select {
		case <-done:
			return n
		case <-time.After(most/4 + rand.N(most*3/4)):
			if s.kill() {
				n++
			}
		}
	}
}

// requests is one client.
func (s *storm) requests() {
	c := s.j.plain()
	defer c.CloseIdleConnections()
	body := bytes.Repeat([]byte("b"), 3000)
	for n := s.left.Add(-1); n >= 0; n = s.left.Add(-1) {
		var a *answer
		var err error
		if n%4 == 0 {
			a, err = c.send("POST", s.path, bytes.NewReader(body), int64(len(body)))
		} else {
			a, err = c.send("GET", s.path, nil, 0)
		}
		if err != nil {
			if strings.Contains(err.Error(), s.canary) || errors.Is(err, os.ErrDeadlineExceeded) {
				s.wrong(err)
			}
			s.cut.Add(1) // behind the head there is no other way to say it
			continue
		}
		token := a.Header.Get("X-Httpjet-Proxy-Error")
		switch {
		case bytes.Contains(a.body, []byte(s.canary)):
			s.wrong(errors.New("the source of the script was sent"))
		case a.StatusCode == 200 && len(a.body) == stormSize:
			s.fine.Add(1)
		case slices.Contains(s.tokens, fmt.Sprint(a.StatusCode, " ", token)):
			s.failed.Add(1)
		default:
			s.wrong(fmt.Errorf("%d %s, %d bytes", a.StatusCode, token, len(a.body)))
		}
	}
}

func (s *storm) wrong(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) < 5 {
		s.errs = append(s.errs, err)
	}
}

// killChild kills a random child of a process, false if there is none.
func killChild(p *process) bool {
	pid := p.cmd.Process.Pid
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	children := strings.Fields(string(text))
	if err != nil || len(children) == 0 {
		return false
	}
	child, _ := strconv.Atoi(children[rand.IntN(len(children))])
	return syscall.Kill(child, syscall.SIGKILL) == nil
}

// sockets is how many sockets httpjet has open.
func (j *jet) sockets() (n int, err error) {
	err = j.descriptors(func(to, _ string) {
		if strings.HasPrefix(to, "socket:") {
			n++
		}
	})
	return n, err
}

// descriptors calls f for what each descriptor of httpjet leads to, and its place.
func (j *jet) descriptors(f func(to, at string)) error {
	dir := fmt.Sprintf("/proc/%d/fd", j.cmd.Process.Pid)
	list, err := os.ReadDir(dir)
	for _, fd := range list {
		at := filepath.Join(dir, fd.Name())
		if to, err := os.Readlink(at); err == nil { // it may be closed by now
			f(to, at)
		}
	}
	return err
}
