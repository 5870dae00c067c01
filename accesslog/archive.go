package accesslog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sys/unix"
)

const (
	packedEnd = ".gz"          // of the name of a compressed file
	madeEnd   = ".tmp"         // of one that is being made
	daily     = 24 * time.Hour // how often sweep looks without being told
	soon      = time.Minute    // and when something was left
	namesRead = 1024           // names of the directory that are read at once
)

// errEnding ends a compression because its sink ends.
var errEnding = errors.New("the log is closed")

// sweep is the goroutine that compresses rotated files and removes old ones, of this
// sink and of those before it, until quit is closed. What it has not done then the
// next one does.
func (s *Sink) sweep() {
	for told := false; ; {
		left, err := s.tidy(time.Now())
		if err != nil && !told {
			s.report(s.named(fmt.Errorf("%w: %w", ErrNotRotated, err)))
		}
		told = err != nil
		next := daily
		if left {
			next = soon
		}
		timer := time.NewTimer(next)
		select {
		case <-s.rotated:
		case <-timer.C:
		case <-s.quit:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// tidy looks once at all rotated files, oldest first: those of the log's name, and where
// that is a link those of the file behind it. left: some are in use yet.
func (s *Sink) tidy(now time.Time) (left bool, err error) {
	var errs []error
	logs := []string{filepath.Clean(s.opt.Path)}
	if real, err := behind(logs[0]); err != nil {
		errs = append(errs, err)
	} else if real != logs[0] {
		logs = append(logs, real)
	}
	for _, log := range logs {
		for _, name := range archive(log, &errs) {
			select {
			case <-s.quit:
				return false, nil
			default:
			}
			used, err := s.settle(log, name, now)
			if err != nil && !errors.Is(err, errEnding) {
				errs = append(errs, err)
			}
			left = left || used
		}
	}
	if len(errs) == 0 {
		return left, nil
	}
	return left, errs[0]
}

// archive returns the paths of rotated files of a log, as they are, compressed and half
// compressed, by their age. Other names are nobody's business.
func archive(log string, errs *[]error) (paths []string) {
	dir := filepath.Dir(log)
	d, err := os.Open(dir)
	if err != nil {
		*errs = append(*errs, err)
		return nil
	}
	defer d.Close()
	for err == nil {
		var names []string
		names, err = d.Readdirnames(namesRead)
		for _, name := range names {
			path := filepath.Join(dir, name)
			if _, ok := rotatedAt(log, plainName(path)); ok {
				paths = append(paths, path)
			}
		}
	}
	if err != io.EOF {
		*errs = append(*errs, err)
	}
	slices.Sort(paths)
	return paths
}

// plainName is the name of a rotated file without what compression makes of it.
func plainName(path string) string {
	if made, ok := strings.CutSuffix(path, packedEnd+madeEnd); ok {
		return made
	}
	return strings.TrimSuffix(path, packedEnd)
}

// settle removes one rotated file of a log if it is too old, and else compresses it if it
// shall be. used: somebody has it open yet, or compresses it.
func (s *Sink) settle(log, path string, now time.Time) (used bool, err error) {
	plain := plainName(path)
	at, _ := rotatedAt(log, plain)
	switch {
	case strings.HasSuffix(path, madeEnd): // goes with its file, or was left when that was removed
		if _, err := os.Lstat(plain); errors.Is(err, fs.ErrNotExist) {
			return false, remove(path)
		}
		return false, nil
	case s.opt.KeepDays > 0 && at.Before(now.AddDate(0, 0, -s.opt.KeepDays)):
		return false, remove(path) // nobody writes to a file that had its time for so long
	case path != plain || !s.opt.Compress:
		return false, nil
	}
	f, used, err := s.claim(path)
	if f == nil {
		return used, err
	}
	defer f.Close()
	return false, s.pack(f, path)
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// claim opens a rotated file and takes its lock. It returns none if there is nothing
// to be done: it is gone, or it is no regular file (a link to another one may lead
// anywhere), or somebody uses it.
func (s *Sink) claim(path string) (f *os.File, used bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) {
			err = nil
		}
		return nil, false, err
	}
	if !lock(f) {
		f.Close()
		return nil, true, nil
	}
	is, err := f.Stat()
	named, gone := os.Lstat(path) // somebody may have done it before the lock was had
	if err == nil && gone == nil && is.Mode().IsRegular() && os.SameFile(is, named) {
		// Its writers follow to the file that has the name of the log; if there is
		// none they do not.
		log, missing := os.Stat(s.opt.Path)
		if missing == nil && !os.SameFile(is, log) {
			return f, false, nil
		}
		used = true
	}
	f.Close()
	return nil, used, err
}

// pack compresses a file whose lock is held, and removes it. The compressed one is
// complete as soon as it has its name. What a crash has left is the property of who
// has the lock.
func (s *Sink) pack(f *os.File, path string) (err error) {
	made := path + packedEnd + madeEnd
	if err := remove(made); err != nil {
		return err
	}
	to, err := os.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = s.compress(to, f); err == nil {
		err = os.Rename(made, path+packedEnd)
	}
	if errors.Is(err, fs.ErrNotExist) { // both were removed meanwhile
		return nil
	}
	if err != nil {
		return errors.Join(err, remove(made))
	}
	return remove(path)
}

// compress writes f to the file to and closes that. Mode, time and, where that is
// permitted, owner stay.
func (s *Sink) compress(to, f *os.File) error {
	z := gzip.NewWriter(to)
	_, err := io.CopyBuffer(z, &untilQuit{f, s.quit}, make([]byte, oneWrite))
	if err == nil {
		err = z.Close()
	}
	was, e1 := f.Stat()
	is, e2 := to.Stat()
	if err = errors.Join(err, e1, e2); err == nil {
		likeBefore(to, is, was)
	}
	if err = errors.Join(err, to.Close()); err == nil {
		at, e := unix.TimeToTimespec(was.ModTime())
		if err = e; err == nil { // not os.Chtimes, which would follow a link that somebody put there
			err = unix.UtimesNanoAt(unix.AT_FDCWD, to.Name(), []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
		}
	}
	return err
}

// untilQuit reads until quit is closed.
type untilQuit struct {
	f    *os.File
	quit <-chan struct{}
}

func (u *untilQuit) Read(p []byte) (int, error) {
	select {
	case <-u.quit:
		return 0, errEnding
	default:
		return u.f.Read(p)
	}
}
