// Package accesslog formats one line per exchange and writes lines to files that
// rotate, or to an output of the process, for the access log and for the error log.
// Writers never wait for the disk, nor for who reads the output: lines queue in memory and are shed when the queue is full. It decides
// nothing about what is logged where.
package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxLines = 65536                  // lines waiting for the disk (R-LOG-1)
	maxBytes = 32 << 20               // their bytes
	oneWrite = 128 << 10              // bytes worth a write, and least size of a piece of more
	maxWrite = 2 * oneWrite           // bytes handed to the file at once, whole lines
	gather   = 100 * time.Millisecond // from the first line that waits to its write, unless there is oneWrite before
	keepCap  = 1 << 20                // larger buffers are given back after use
	mebibyte = 1 << 20
)

// Options is the whole identity of a Sink: sinks with equal options can be
// shared between generations.
type Options struct {
	Path        string   // file; its directory is made if it is missing
	File        *os.File // an output of the process, in the place of Path; it is not closed, and nothing else here but Prompt counts
	Prompt      bool     // lines are written at once, not many together
	RollingSize int64    // bytes at which the file is rotated, at least a MiB; 0: never
	KeepDays    int      // rotated files older than this are removed; 0: kept
	Compress    bool     // rotated files are compressed with gzip
}

// Sink is a log file with a queue in front. Any goroutine may write or Reopen.
// Start and Retire belong to the owner, who does not call them at the same time.
type Sink struct {
	opt     Options
	dropped *atomic.Uint64
	wake    chan struct{} // capacity 1: a line waits
	full    chan struct{} // capacity 1: oneWrite bytes wait
	reopen  chan chan error
	quit    chan struct{}
	done    chan struct{} // closed when flush has ended
	rotated chan struct{} // capacity 1: there is something to sweep
	sweeps  sync.WaitGroup

	running atomic.Bool // flush was started
	report  func(error) // of Start
	told    int         // how bad the fault is that was reported and is not over; of Start, then of flush

	mu      sync.Mutex
	queue   []byte // whole lines
	lines   int
	retired bool // no more queueing: late lines are written at once
}

// NewSink opens no file and starts no goroutine. Shed and lost lines are counted
// in dropped.
func NewSink(opt Options, dropped *atomic.Uint64) *Sink {
	return &Sink{opt: opt, dropped: dropped, report: func(error) {}, wake: make(chan struct{}, 1), full: make(chan struct{}, 1), reopen: make(chan chan error), rotated: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{})}
}

// Start opens the file and starts the goroutine that writes it. If the file cannot
// be opened lines wait in the queue, and Start may be called again. Calls after the
// first success do nothing. report is told of a file that cannot be opened or
// written, rotated, compressed or removed, once until that is over. Two goroutines may
// call it; it may write to s; nil drops the error.
func (s *Sink) Start(report func(error)) {
	if s.running.Load() {
		return
	}
	if report != nil {
		s.report = report
	}
	out, err := s.open()
	s.tell(err)
	if err != nil {
		return
	}
	s.running.Store(true)
	go s.flush(out)
	if s.opt.File == nil && (s.opt.Compress || s.opt.KeepDays > 0) {
		s.sweeps.Go(s.sweep)
	}
}

// tell reports a fault of the file, once until err is nil again, or a worse one.
func (s *Sink) tell(err error) {
	bad := 0
	if err != nil {
		if bad = 2; errors.Is(err, ErrNotRotated) {
			bad = 1
		}
	}
	if bad > s.told {
		s.report(s.named(err))
	}
	s.told = bad
}

// named says which file err is about.
func (s *Sink) named(err error) error {
	if s.opt.File != nil {
		return fmt.Errorf("log to %s: %w", s.opt.File.Name(), err)
	}
	if pe, ok := err.(*os.PathError); ok && pe.Path == s.opt.Path {
		err = pe.Err
	}
	return fmt.Errorf("log file %s: %w", s.opt.Path, err)
}

// open makes the directory, proves that the file can be written and returns it.
func (s *Sink) open() (io.WriteCloser, error) {
	if s.opt.File != nil {
		return &stream{f: s.opt.File, quit: s.quit, stalled: s.tell}, nil
	}
	if err := os.MkdirAll(filepath.Dir(s.opt.Path), 0o755); err != nil {
		return nil, err
	}
	limit := s.opt.RollingSize
	if limit > 0 {
		limit = max(limit, mebibyte)
	}
	f, err := openFile(s.opt.Path, limit, s.rotated)
	if err != nil {
		return nil, err
	}
	signal(s.rotated) // others may have rotated before
	return f, nil
}

// Write queues one whole line that ends with '\n' and never fails: a line that
// finds the queue full is shed and counted. After Retire a late line, of an
// exchange that outlived its generation, is written at once.
func (s *Sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	switch {
	case s.retired:
		s.mu.Unlock()
		s.late(line)
		return len(line), nil
	case s.lines >= maxLines || len(s.queue)+len(line) > maxBytes:
		s.mu.Unlock()
		s.dropped.Add(1)
		return len(line), nil
	}
	before := len(s.queue)
	s.queue = append(s.queue, line...)
	after := len(s.queue)
	s.lines++
	s.mu.Unlock()
	// The one who adds the first line, or the one that makes a full write, tells:
	// the others cost nothing but a copy.
	if before == 0 {
		signal(s.wake)
	}
	if before < oneWrite && after >= oneWrite {
		signal(s.full)
	}
	return len(line), nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Sink) late(line []byte) {
	if s.opt.File != nil {
		if err := (&stream{f: s.opt.File}).writeNow(line); err != nil {
			s.dropped.Add(1)
		}
		return
	}
	f, err := openFile(s.opt.Path, 0, nil)
	if err == nil {
		_, err = f.Write(line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.dropped.Add(1)
	}
}

// take swaps the queue for an empty buffer.
func (s *Sink) take(empty []byte) (queue []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, s.queue, s.lines = s.queue, empty[:0], 0
	return queue
}

// flush is the goroutine that owns the file. It writes once in a while and many
// lines at once, because a write costs as much as many lines. It ends when quit is
// closed and the queue is empty.
func (s *Sink) flush(out io.WriteCloser) {
	defer close(s.done)
	var spare []byte
	var asked chan error // a Reopen that waits for the queue
	wait := gather
	if s.opt.Prompt {
		wait = 0
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for ending := false; ; {
		batch := s.take(spare)
		if len(batch) > 0 {
			s.tell(s.put(out, batch))
		}
		if spare = batch; cap(spare) > keepCap {
			spare = nil
		}
		switch {
		case len(batch) > 0 && (ending || asked != nil):
			continue
		case asked != nil:
			next, err := s.open()
			if err == nil {
				out.Close()
				out = next
			}
			if err != nil {
				err = s.named(err)
			}
			asked <- err
			asked = nil
		case ending:
			out.Close()
			return
		}
		select {
		case <-s.wake:
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-s.full:
			case asked = <-s.reopen:
			case <-s.quit:
				ending = true
			}
		case asked = <-s.reopen:
		case <-s.quit:
			ending = true
		}
	}
}

// put writes whole lines in pieces that are smaller than any rotation size. What is a
// little more than oneWrite, as mostly, is one piece: each has its lock to take. It
// goes on after an error, so that a passing fault costs few lines.
func (s *Sink) put(out io.Writer, batch []byte) (err error) {
	for len(batch) > 0 {
		n := len(batch)
		if n > maxWrite {
			if n = bytes.LastIndexByte(batch[:maxWrite], '\n') + 1; n == 0 {
				n = bytes.IndexByte(batch, '\n') + 1
			}
			if n == 0 {
				n = len(batch)
			}
		}
		if done, e := out.Write(batch[:n]); e != nil {
			if err == nil || errors.Is(err, ErrNotRotated) {
				err = e
			}
			s.dropped.Add(uint64(bytes.Count(batch[min(done, n):n], []byte{'\n'})))
		}
		batch = batch[n:]
	}
	return err
}

// Reopen closes the file and opens it by its name again, after another program
// renamed it (SIGUSR1). Lines queued before the call are in the old file. If it
// cannot be opened the old file stays in use. A sink that does not run, or that has
// an output of the process, is left alone.
func (s *Sink) Reopen() error {
	if !s.running.Load() || s.opt.File != nil {
		return nil
	}
	reply := make(chan error, 1)
	select {
	case s.reopen <- reply:
		return <-reply
	case <-s.done:
		return nil
	}
}

// Retire writes what is queued, closes the file and joins flush and sweep, which
// leaves a compression to the next one. It is called once, by the last owner.
func (s *Sink) Retire() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	if !s.running.Load() { // lines of a sink that never ran are lost
		s.dropped.Add(uint64(bytes.Count(s.take(nil), []byte{'\n'})))
		return
	}
	close(s.quit)
	<-s.done
	s.sweeps.Wait()
}

// Options returns the identity of s.
func (s *Sink) Options() Options { return s.opt }
