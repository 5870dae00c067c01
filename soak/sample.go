package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A sample is what there was at one time.
type sample struct {
	at      time.Duration // since the begin
	settled bool          // the process that serves is the last one
	size
}

// watch samples the server, and prints a line a minute, or six altogether.
func (s *soak) watch(ctx context.Context) {
	every, lines := max(min(s.length/60, 10*time.Second), time.Second), min(s.length/6, time.Minute)
	fmt.Printf("\n%8s %9s %7s %6s %8s %8s %8s %12s %11s %11s\n", "time", "requests", "per s", "bad", "reloads", "upgrades", "killed", "memory MiB", "descriptors", "goroutines")
	told, before, beforeAt := time.Duration(0), int64(0), time.Duration(0)
	for s.pause(ctx, every) {
		n, err := s.jet.size()
		if err != nil {
			continue // between two processes
		}
		at := time.Since(s.began)
		s.samples = append(s.samples, sample{at, s.settled.Load(), n})
		if at-told < lines {
			continue
		}
		told += lines
		total := s.total.Load()
		fmt.Printf("%8s %9d %7.0f %6d %8d %8d %8d %12d %11d %11d\n", at.Round(time.Second), total, float64(total-before)/(at-beforeAt).Seconds(), s.bad.Load(),
			s.notes[reloaded].Load(), s.notes[upgraded].Load(), s.notes[killed].Load(), n.memory, n.descriptors, n.goroutines)
		before, beforeAt = total, at
	}
}

// What is left of a server without traffic: at most so much, as soon as its idle
// connections have had their time.
const (
	restDescriptors = 100
	restGoroutines  = 100
	restTime        = 90 * time.Second
)

// rest waits until the server is at rest.
func (s *soak) rest(ctx context.Context) {
	deadline := time.Now().Add(restTime)
	var n size
	var err error
	for ctx.Err() == nil {
		n, err = s.jet.size()
		if err == nil && n.descriptors <= restDescriptors && n.goroutines <= restGoroutines {
			fmt.Printf("\nat rest: %d MiB, %d descriptors, %d goroutines\n", n.memory, n.descriptors, n.goroutines)
			return
		}
		if time.Now().After(deadline) {
			s.fault(fmt.Errorf("%v after the last request: %d descriptors, %d goroutines; want no more than %d, %d (%v)", restTime, n.descriptors, n.goroutines, restDescriptors, restGoroutines, err))
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// judged is how long one process must have served for its growth to mean something:
// half of it is warming up.
const judged = 10 * time.Minute

// growth compares the last quarter of the time of the last process with the one before.
func (s *soak) growth() (text string, flat bool) {
	var of []sample
	for _, x := range s.samples {
		if x.settled {
			of = append(of, x)
		}
	}
	if len(of) < 8 || of[len(of)-1].at-of[0].at < judged {
		return fmt.Sprintf("growth: not judged, for the last process served less than %v", judged), true
	}
	third, last := of[len(of)/2:len(of)*3/4], of[len(of)*3/4:]
	flat = true
	var parts []string
	for _, f := range []struct {
		name  string
		value func(sample) int
		slack float64
	}{
		{"memory", func(x sample) int { return x.memory }, 16},
		{"descriptors", func(x sample) int { return x.descriptors }, 30},
		{"goroutines", func(x sample) int { return x.goroutines }, 50},
	} {
		a, b := mean(third, f.value), mean(last, f.value)
		grows := b > a*1.1+f.slack
		flat = flat && !grows
		parts = append(parts, fmt.Sprintf("%s %.0f to %.0f", f.name, a, b))
	}
	return "growth: " + strings.Join(parts, ", "), flat
}

func mean(of []sample, value func(sample) int) float64 {
	n := 0
	for _, x := range of {
		n += value(x)
	}
	return float64(n) / float64(len(of))
}

// verdict prints the summary and reports whether all was well.
func (s *soak) verdict() bool {
	lost, wrong := s.print()
	text, flat := s.growth()
	fmt.Printf("\n%s\n%d reloads, %d upgrades, %d upstreams killed\n", text, s.notes[reloaded].Load(), s.notes[upgraded].Load(), s.notes[killed].Load())
	for _, f := range s.faults {
		fmt.Println("fault:", f)
	}
	ok := lost == 0 && wrong == 0 && len(s.faults) == 0 && flat && s.total.Load() > 0
	word := "ok  "
	if !ok {
		word = "FAIL"
	}
	fmt.Printf("%s soak: %d requests in %v, %d lost, %d wrong, %d faults, flat %v\n", word, s.total.Load(), s.length, lost, wrong, len(s.faults), flat)
	return ok
}
