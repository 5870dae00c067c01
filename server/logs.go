package server

import (
	"io"
	"log/slog"
	"os"
	"sync/atomic"

	"httpjet/accesslog"
)

// diagnostics are where lines go besides the error log, and what writes the last of
// them. A file, such as standard error, has a queue in front of it: requests log too,
// and none may wait for somebody who does not read.
func (s *Server) diagnostics() (w io.Writer, flush func()) {
	f, ok := s.opt.Stderr.(*os.File)
	switch {
	case ok:
		sink := accesslog.NewSink(accesslog.Options{File: f, Prompt: true}, &s.kept.Metrics.DroppedLines)
		sink.Start(func(error) {}) // where should it be told? The error log has the lines
		return sink, sink.Retire
	case s.opt.Stderr == nil:
		return io.Discard, func() {}
	}
	return s.opt.Stderr, func() {}
}

// logTarget is where the error log of the generation in force goes. The logger
// that everything holds writes through it, so that a reload moves the log.
type logTarget struct {
	out    atomic.Pointer[io.Writer]
	level  slog.LevelVar
	normal slog.Level // the configured level; owned by the goroutine of Run
}

func (t *logTarget) Write(p []byte) (int, error) {
	if w := t.out.Load(); w != nil {
		return (*w).Write(p)
	}
	return len(p), nil
}

func (t *logTarget) set(w io.Writer, level slog.Level) {
	t.normal = level
	t.level.Set(level)
	if w == nil {
		t.out.Store(nil)
		return
	}
	t.out.Store(&w)
}

// toggleDebug switches debug lines on, or back to the configured level (SIGUSR2).
func (t *logTarget) toggleDebug() {
	if t.level.Level() == slog.LevelDebug && t.normal != slog.LevelDebug {
		t.level.Set(t.normal)
		return
	}
	t.level.Set(slog.LevelDebug)
}
