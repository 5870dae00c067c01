package accesslog

import (
	"bytes"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// onePiece is what a pipe that can be written takes without waiting: PIPE_BUF.
	onePiece = 4096
	// look is how often a stream that nobody reads looks whether its sink is to end.
	look = 100 * time.Millisecond
	// patience is how long nobody may read before somebody is told.
	patience = time.Second
	// lastWait is how long the lines left at the end may wait for a reader.
	lastWait = 500 * time.Millisecond
)

// errStalled says that nobody reads what a log is written to.
var errStalled = errors.New("nobody reads it")

// stream writes to an output of the process. That may be a pipe, a terminal or a
// socket whose other end has stopped reading: a write would then wait for as long,
// also for the end of the process. Its mode is not ours to change, because whoever
// started the process shares it. So a stream asks before each write, and writes no
// more than then fits.
type stream struct {
	f       *os.File
	quit    <-chan struct{} // closed: what is left has lastWait
	stalled func(error)     // is told once that nobody reads
	end     time.Time       // when lastWait is over; zero: quit was not closed yet
}

// Write writes p, whole lines in one piece where they fit. It waits for a reader
// until quit is closed.
func (s *stream) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		if err := s.wait(); err != nil {
			return written, err
		}
		n, err := s.piece(p)
		written += n
		if err != nil {
			return written, err
		}
		p = p[n:]
	}
	return written, nil
}

// writeNow writes p if all of it goes out without waiting, as far as can be told.
func (s *stream) writeNow(p []byte) error {
	for len(p) > 0 {
		if ready, err := s.ready(0); err != nil || !ready {
			return errors.Join(err, errStalled)
		}
		n, err := s.piece(p)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// wait returns when something can be written.
func (s *stream) wait() error {
	for began := time.Now(); ; {
		d := look
		if !s.end.IsZero() {
			d = min(look, max(0, time.Until(s.end)))
		}
		if ready, err := s.ready(d); ready || err != nil {
			return err
		}
		select {
		case <-s.quit:
			if s.end.IsZero() {
				s.end = time.Now().Add(lastWait)
			} else if d == 0 {
				return errStalled
			}
		default:
			if time.Since(began) >= patience {
				s.stalled(errStalled)
			}
		}
	}
}

// ready reports whether a write would not wait, after at most d.
func (s *stream) ready(d time.Duration) (ready bool, err error) {
	err = control(s.f, func(fd int) error {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, int(d.Milliseconds()))
		if err == unix.EINTR {
			return nil
		}
		ready = n > 0 // also for an error, which the write tells
		return err
	})
	return ready, err
}

// piece writes the beginning of p. Where the output does not wait by itself and has
// no room, it writes nothing.
func (s *stream) piece(p []byte) (n int, err error) {
	if len(p) > onePiece {
		if n = bytes.LastIndexByte(p[:onePiece], '\n') + 1; n == 0 {
			n = onePiece
		}
		p = p[:n]
	}
	err = control(s.f, func(fd int) (err error) {
		if n, err = unix.Write(fd, p); err == unix.EAGAIN || err == unix.EINTR {
			n, err = 0, nil
		}
		return err
	})
	return max(0, n), err
}

// Close leaves the file open: it is the process's.
func (s *stream) Close() error { return nil }
