package accesslog

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// pipe is an output of the process: one that waits where it is full, as whoever
// starts a server mostly gives it, or one that does not.
func pipe(t *testing.T, flags int) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC|flags); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "output")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// R-LOG-1, R-LOG-2: who does not read an output of the process holds nobody up. Lines
// wait in the queue, are shed and counted when it is full, and go on whole and in
// their order when somebody reads again.
func TestStalledOutput(t *testing.T) {
	for _, flags := range []int{0, syscall.O_NONBLOCK} {
		r, w := pipe(t, flags)
		var dropped atomic.Uint64
		s := NewSink(Options{File: w}, &dropped)
		told := make(chan error, 10)
		s.Start(func(err error) { told <- err })
		const lines = 3 * maxLines // more than the pipe and the queue hold
		for i := range lines {
			fmt.Fprintf(s, "line %06d of a log\n", i)
		}
		if err := <-told; !strings.Contains(err.Error(), "log to output: nobody reads it") {
			t.Error(err)
		}
		if dropped.Load() == 0 {
			t.Error("nothing was shed")
		}
		if err := s.Reopen(); err != nil { // waits for nobody either
			t.Error(err)
		}
		ended := make(chan struct{})
		go func() { s.Retire(); w.Close(); close(ended) }()
		read, last := 0, -1
		for in := bufio.NewScanner(r); in.Scan(); read++ {
			n := -1
			if _, err := fmt.Sscanf(in.Text(), "line %06d of a log", &n); err != nil || n <= last {
				t.Fatalf("%q behind line %d", in.Text(), last)
			}
			last = n
		}
		<-ended
		if read+int(dropped.Load()) != lines {
			t.Errorf("%d lines read and %d shed of %d", read, dropped.Load(), lines)
		}
	}
}

// A sink ends although nobody reads, and what could not be written is counted.
func TestRetireOfStalledOutput(t *testing.T) {
	r, w := pipe(t, 0)
	var dropped atomic.Uint64
	s := NewSink(Options{File: w, Prompt: true}, &dropped)
	s.Start(nil)
	line := strings.Repeat("x", 999) + "\n"
	const lines = 20_000 // 20 MB in many writes
	for range lines {
		io.WriteString(s, line)
	}
	s.Retire()
	io.WriteString(s, line) // late
	w.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if whole := strings.Count(string(all), "\n"); whole+int(dropped.Load()) != lines+1 || dropped.Load() == 0 {
		t.Errorf("%d lines came, %d are counted as lost", whole, dropped.Load())
	}
}

// A line that is longer than what fits at once arrives whole all the same.
func TestLongLineToOutput(t *testing.T) {
	r, w := pipe(t, 0)
	s := NewSink(Options{File: w, Prompt: true}, new(atomic.Uint64))
	s.Start(nil)
	want := strings.Repeat("y", 300_000) + "\n"
	io.WriteString(s, want)
	in := bufio.NewReader(r)
	if got, err := in.ReadString('\n'); got != want || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	s.Retire()
	io.WriteString(s, "late\n")
	w.Close()
	if rest, _ := io.ReadAll(in); string(rest) != "late\n" {
		t.Errorf("a late line is %q", rest)
	}
}
