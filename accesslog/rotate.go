package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stamp is the time of rotation in the name of a rotated file, in UTC:
	// access-2026-01-02T15-04-05.000-size.log.
	stamp = "2006-01-02T15-04-05.000"
	// A lock is asked for that often, each millisecond: who has it writes, or gives
	// the file its other name, and neither takes long.
	lockTries = 1000
	// namesTried is how many names are looked at for one that is free.
	namesTried = 1000
	// maxLinks is how many links a log's name may lead along, as for the kernel.
	maxLinks = 40
)

// ErrNotRotated says that lines are written, but to a file that is not rotated, or
// that rotated files are not compressed or removed.
var ErrNotRotated = errors.New("its lines are written, but rotation is at fault")

// file is a log file as one sink has it open. Others have it open too: sinks of two
// generations, and servers of which one succeeds the other. So whoever writes or
// rotates has the lock of the file (flock) and looks whether it still has its name:
// if another file has it, somebody has rotated, and the writer follows. Nobody
// writes to a file that has lost its name to another, and thus nobody loses lines
// when it is compressed. Where a file system has no locks there is one writer.
//
// What is no regular file (a pipe, a terminal, /dev/null) is only written to. The name
// may be a link: then the file behind it is the one that is rotated, beside itself.
type file struct {
	path    string
	limit   int64         // bytes at which it is rotated; 0: never
	rotated chan struct{} // is told of rotations; nil: nobody is
	f       *os.File
	info    os.FileInfo // which file f is
}

// openFile opens path to append to it, and makes the file if it is missing.
func openFile(path string, limit int64, rotated chan struct{}) (*file, error) {
	f := &file{path: path, limit: limit, rotated: rotated}
	if err := f.reach(); err != nil {
		return nil, err
	}
	return f, nil
}

// reach opens what has the name now, or makes it. f keeps what it had if that fails.
func (f *file) reach() error { return f.open(f.path, 0) }

func (f *file) open(path string, flag int) error {
	next, err := os.OpenFile(path, flag|os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o640)
	if err != nil {
		return err
	}
	info, err := next.Stat()
	if err != nil {
		next.Close()
		return err
	}
	if f.f != nil {
		f.Close()
	}
	f.f, f.info = next, info
	return nil
}

// Write appends whole lines in one write, after a rotation if it is due. It returns
// ErrNotRotated with n == len(p): the lines are in the file all the same. Any other
// error leaves whole lines alone in the file.
func (f *file) Write(p []byte) (n int, err error) {
	size, fault := f.hold(int64(len(p)))
	if size == unlocked && fault != nil {
		return 0, fault
	}
	if n, err = f.f.Write(p); err != nil && size != unlocked {
		n = f.trim(size, p[:n])
	}
	if size != unlocked {
		unlock(f.f)
	}
	if err == nil && fault != nil {
		err = fmt.Errorf("%w: %w", ErrNotRotated, fault)
	}
	return n, err
}

// trim takes the beginning of a line off the end of the file, where a write has
// ended in the middle (a full disk), and returns how much of written is left.
func (f *file) trim(size int64, written []byte) int {
	whole := bytes.LastIndexByte(written, '\n') + 1
	if info, err := f.f.Stat(); err == nil && info.Size() == size+int64(len(written)) {
		f.f.Truncate(size + int64(whole)) // if this fails too the line is broken, and counted as lost
	}
	return whole
}

// unlocked is in the place of a size: the lock is not held.
const unlocked = -1

// hold takes the lock of the file that has the name, follows to it if it is another
// one than f's, and rotates it if n bytes have no room in it. It returns the size of
// what is locked then. An error tells what stood in the way; with unlocked, nothing
// may be written.
func (f *file) hold(n int64) (size int64, err error) {
	for range lockTries {
		if !f.info.Mode().IsRegular() {
			return unlocked, nil
		}
		locked := lock(f.f)
		named, err := os.Stat(f.path)
		var fault error
		if err == nil && !os.SameFile(named, f.info) {
			if fault = f.reach(); fault == nil {
				continue
			}
		}
		if !locked {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil || fault != nil { // it has no name, as before the signal of logrotate, or none that could be followed
			if named, err = f.f.Stat(); err != nil {
				return 0, err
			}
		}
		size := named.Size()
		if fault != nil || f.limit == 0 || size == 0 || size+n <= f.limit {
			return size, fault
		}
		if err := f.rotate(named); err != nil {
			return size, err
		}
	}
	return unlocked, f.stranded()
}

// stranded decides what becomes of lines when somebody has held the lock all the
// time. A process that was stopped in a write does not stop the others; a file that
// may be one that is being compressed is not written to.
func (f *file) stranded() error {
	named, err := os.Stat(f.path)
	if err == nil && os.SameFile(named, f.info) {
		return nil
	}
	return f.reach()
}

// rotate gives the file, as it is now, another name and opens one in its place. The
// lock is held, and is gone with the file if there is no error, unless the name leads to
// another file since: then nothing is done, and hold follows.
func (f *file) rotate(now os.FileInfo) error {
	path, err := behind(f.path)
	if err != nil {
		return err
	}
	if named, err := os.Lstat(path); err == nil && !os.SameFile(named, f.info) {
		return nil
	}
	name, err := freeName(path, time.Now())
	if err != nil {
		return err
	}
	// Somebody else may have moved it since: then the name is free.
	if err := os.Rename(path, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = f.open(path, os.O_EXCL)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		err = f.reach() // somebody came first, who has nothing of ours
	}
	if err != nil {
		// Back, unless there is another one already. Others wait for the lock.
		unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
		return err
	}
	if made {
		likeBefore(f.f, f.info, now)
	}
	signal(f.rotated)
	return nil
}

// likeBefore gives a new file the mode and, where that is permitted, the owner of
// the one before.
func likeBefore(f *os.File, is, was os.FileInfo) {
	a, ok := is.Sys().(*syscall.Stat_t)
	b, ok2 := was.Sys().(*syscall.Stat_t)
	if ok && ok2 && (a.Uid != b.Uid || a.Gid != b.Gid) {
		f.Chown(int(b.Uid), int(b.Gid))
	}
	if is.Mode().Perm() != was.Mode().Perm() {
		f.Chmod(was.Mode().Perm())
	}
}

// Close gives up the lock too, if it is held.
func (f *file) Close() error {
	unlock(f.f) // a child between fork and exec may have the file open yet
	return f.f.Close()
}

// behind is the path of the file that a log's name leads to: path itself, unless that is
// a link. The file need not be there. A link of another user than root, ours and the
// file's is an error: who may write to a directory of logs is not to have other people's
// files renamed.
func behind(path string) (string, error) {
	var links []os.FileInfo
	for range maxLinks {
		link, err := os.Lstat(path)
		if err != nil || link.Mode().Type() != fs.ModeSymlink { // the end
			return path, errors.Join(foreign(links, link)...)
		}
		links = append(links, link)
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + "/" + to // and .. counts from where links have led
		}
		dir, name := filepath.Split(to)
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", err
		}
		path = filepath.Join(dir, name)
	}
	return "", &fs.PathError{Op: "follow", Path: path, Err: unix.ELOOP}
}

// foreign has an error for each link that is not to be followed to a file, which is nil
// if it is not there.
func foreign(links []os.FileInfo, file os.FileInfo) (errs []error) {
	trusted := []uint32{0, uint32(os.Geteuid())}
	if file != nil {
		trusted = append(trusted, owner(file))
	}
	for _, link := range links {
		if uid := owner(link); !slices.Contains(trusted, uid) {
			errs = append(errs, fmt.Errorf("%s is a link of user %d, whom the file behind it is not", link.Name(), uid))
		}
	}
	return errs
}

// owner is the user that a file is of.
func owner(info os.FileInfo) uint32 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		panic("BUG: accesslog: the system tells no owner")
	}
	return st.Uid
}

// rotatedName is what path is called after its rotation.
func rotatedName(path string, t time.Time) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + t.UTC().Format(stamp) + "-size" + ext
}

// rotatedAt is when path was rotated to name; not ok: name is no such name.
func rotatedAt(path, name string) (t time.Time, ok bool) {
	ext := filepath.Ext(path)
	rest, begins := strings.CutPrefix(name, strings.TrimSuffix(path, ext)+"-")
	rest, ends := strings.CutSuffix(rest, "-size"+ext)
	t, err := time.Parse(stamp, rest)
	return t, begins && ends && err == nil
}

// freeName is a name for the rotated file that nobody has, compressed or not. All
// who rotate path hold its lock meanwhile.
func freeName(path string, t time.Time) (string, error) {
	for range namesTried {
		name := rotatedName(path, t)
		_, err := os.Lstat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if _, packed := os.Lstat(name + packedEnd); err != nil && packed != nil {
			return name, nil
		}
		t = t.Add(time.Millisecond)
	}
	return "", &fs.PathError{Op: "name", Path: rotatedName(path, t), Err: fs.ErrExist}
}

// lock takes the lock of a file if it is free, without waiting. It is that of an
// open file: two in one process are two.
func lock(f *os.File) bool {
	return control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }) != unix.EWOULDBLOCK
}

func unlock(f *os.File) {
	control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) })
}

// control calls fn with the descriptor of f, whose mode stays as it is.
func control(f *os.File, fn func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = fn(int(fd)) }); err != nil {
		return err
	}
	return failed
}
