package pagecache

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"httpjet/store"
)

// Disk keeps entries of a cache in files below a directory of its own, over restarts
// (R-CACHE-14). A file is written under another name and renamed when it is whole: body,
// head, and a foot with their lengths and sums. What is there at a start is found by
// reading the feet; what is not whole, not ours, or older than a purge is not used.
//
// The names of files say nothing. There is no index that could be wrong.
type Disk struct {
	dir     string
	log     *slog.Logger
	cache   *Cache
	journal *journal
	ours    atomic.Bool // the directory is this process's: entries go into files
	create  func(dir, pattern string) (*os.File, error)
	failed  atomic.Bool // it was said that it cannot be written

	// Of whoever opens it, then of the goroutine that sweeps.
	lock   *os.File // held as long as the process lives; nil: another one has it
	mark   *os.File // see besideName; nil: none is needed
	loaded bool
	given  bool // up: the directory cannot be had
}

// Files have names of 24 hexadecimal digits, below a directory of the first two.
const (
	nameLen  = 24
	dirName  = "httpjet" // ours, below what the operator names
	tempName = ".new-"

	// besideName begins the names of marks: each says that purges were done, or are, by
	// a process that has not noted them here. A process that lives and will note them has
	// its mark locked.
	besideName = "beside-"
)

// Disk returns the files of a directory, made if need be. An error says why it cannot
// be used. Equal directories are one Disk. If another process has it, such as the one that
// this one succeeds, entries stay in memory until that one has ended and Sweep has noticed.
// One goroutine calls Disk.
func (c *Cache) Disk(dir string) (*Disk, error) {
	dir = filepath.Join(filepath.Clean(dir), dirName)
	c.mu.Lock()
	d := c.disks[dir]
	c.mu.Unlock()
	if d != nil {
		return d, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d = &Disk{dir: dir, log: c.log, cache: c, create: os.CreateTemp, journal: &journal{path: filepath.Join(dir, "purges"), waiting: true}}
	had, err := d.take()
	if err == nil && !had {
		d.mark, err = mark(dir)
	}
	if err != nil {
		return nil, err
	}
	if !had {
		d.log.Warn("another process has the files of the page cache; entries stay in memory alone until it ends", "dir", dir)
	}
	c.mu.Lock()
	c.disks[dir] = d
	c.mu.Unlock()
	return d, nil
}

// Has reports whether Disk has returned the files of a directory.
func (c *Cache) Has(dir string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disks[filepath.Join(filepath.Clean(dir), dirName)] != nil
}

// take makes the directory this process's, unless another one has it.
func (d *Disk) take() (had bool, err error) {
	lock, err := os.OpenFile(filepath.Join(d.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = nil
		}
		return false, err
	}
	done, beside := d.marks()
	if err := d.journal.open(beside); err != nil {
		lock.Close()
		return false, err
	}
	for _, name := range done { // what they say is in the journal
		os.Remove(name)
	}
	d.lock = lock
	d.ours.Store(true)
	return true, nil
}

// retake is take for a Disk that has to wait.
func (d *Disk) retake() {
	if d.given || d.ours.Load() {
		return
	}
	switch had, err := d.take(); {
	case err != nil:
		d.given = true
		d.log.Error("page cache has no files; entries stay in memory alone", "dir", d.dir, "err", err)
	case had:
		d.log.Info("page cache has its files", "dir", d.dir)
	}
}

// mark leaves a mark in a directory, locked until it is closed.
func mark(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, besideName)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// marks returns the marks of which nothing more is to come, and whether there is any
// but this process's own.
func (d *Disk) marks() (done []string, beside bool) {
	all, _ := filepath.Glob(filepath.Join(d.dir, besideName+"*"))
	for _, name := range all {
		if d.mark != nil && d.mark.Name() == name {
			done = append(done, name)
			continue
		}
		beside = true
		f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			done = append(done, name)
		}
		f.Close()
	}
	return done, beside
}

// Distrust says that purges will be done that are not noted in a directory that a process
// before this one had for its files. Whoever has it next believes none of those that are
// there.
func Distrust(dir string) error {
	f, err := os.CreateTemp(filepath.Join(filepath.Clean(dir), dirName), besideName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return f.Close()
}

// usable reports whether entries go into files. A nil Disk has none.
func (d *Disk) usable() bool { return d != nil && d.ours.Load() }

func (d *Disk) path(name string) string { return filepath.Join(d.dir, name[:2], name) }

func (d *Disk) remove(name string) {
	if name != "" {
		os.Remove(d.path(name))
	}
}

func (d *Disk) close() {
	d.ours.Store(false)
	for _, f := range []*os.File{d.lock, d.mark} {
		if f != nil {
			f.Close()
		}
	}
}

// writeFailed notes an error of a file that was being written.
func (d *Disk) writeFailed(err error) {
	d.cache.count(WriteErrors)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		d.cache.count(FullErrors)
	}
	if !d.failed.Swap(true) {
		d.log.Error("page cache cannot write; entries stay in memory alone", "dir", d.dir, "err", err)
	}
}

// writing is a file that is being written.
type writing struct {
	d    *Disk
	file *os.File
	sum  uint32 // of the body so far
	n    int64
	err  error
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// begin opens a file; nil if that is not possible.
func (d *Disk) begin() *writing {
	f, err := d.create(d.dir, tempName)
	if err != nil {
		d.writeFailed(err)
		return nil
	}
	return &writing{d: d, file: f}
}

// Write appends to the body.
func (w *writing) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.file.Write(p)
	w.sum = crc32.Update(w.sum, castagnoli, p[:n])
	w.n += int64(n)
	if w.err = err; err != nil {
		w.d.writeFailed(err)
	}
	return n, err
}

func (w *writing) write(p []byte) bool {
	_, err := w.Write(p)
	return err == nil
}

// body writes what a builder has so far.
func (w *writing) body(b *store.Builder) bool {
	whole := b.Body()
	return w.store(&whole)
}

func (w *writing) store(b *store.Body) bool { return b.WriteRange(w, 0, b.Len()) == nil }

func (w *writing) abandon() {
	w.file.Close()
	os.Remove(w.file.Name())
}

// commit writes head and foot and gives the file its name. It returns false if it could
// not; nothing is left then.
func (w *writing) commit(o *store.Object, born uint64) (name string, ok bool) {
	head := appendHead(nil, o, w.d.journal.sequence(born))
	i := o.Info.(*info)
	i.length, i.sum = w.n, w.sum
	foot := appendFoot(nil, w.n, w.sum, head)
	if !w.write(head) || !w.write(foot) {
		w.abandon()
		return "", false
	}
	var random [nameLen / 2]byte
	rand.Read(random[:])
	name = hex.EncodeToString(random[:])
	err := os.Rename(w.file.Name(), w.d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(filepath.Join(w.d.dir, name[:2]), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Rename(w.file.Name(), w.d.path(name))
		}
	}
	if err == nil {
		if fi, e := w.file.Stat(); e == nil { // behind the new name, which changes its times
			i.prove(fi)
		}
		err = w.file.Close()
	}
	if err != nil {
		w.d.writeFailed(err)
		w.abandon()
		w.d.remove(name)
		return "", false
	}
	o.Disk = w.n
	return name, true
}

// load reads what is in the directory, once. It is called by the goroutine that sweeps;
// requests are served meanwhile.
func (d *Disk) load(ctx context.Context, c *Cache) {
	if d.loaded || !d.ours.Load() {
		return
	}
	d.loaded = true
	found, dropped, foreign := 0, 0, 0
	now := c.opt.Now()
	dirs, err := os.ReadDir(d.dir)
	if err != nil {
		d.log.Error("page cache cannot be read", "dir", d.dir, "err", err)
		return
	}
	for _, sub := range dirs {
		switch name := sub.Name(); {
		case name == "lock" || strings.HasPrefix(name, "purges") || strings.HasPrefix(name, besideName):
		case strings.HasPrefix(name, tempName) && sub.Type().IsRegular():
			d.removeOld(filepath.Join(d.dir, name))
		case !sub.IsDir() || !isHex(name, 2):
			foreign++
		default:
			list, _ := os.ReadDir(filepath.Join(d.dir, name))
			for _, file := range list {
				if ctx.Err() != nil {
					return
				}
				if !file.Type().IsRegular() || !isHex(file.Name(), nameLen) || file.Name()[:2] != name {
					foreign++
					continue
				}
				if d.read(c, file.Name(), now) {
					found++
				} else {
					dropped++
				}
			}
		}
	}
	d.journal.allRead()
	d.log.Info("page cache read", "dir", d.dir, "entries", found, "dropped", dropped, "foreign", foreign)
}

// removeOld removes a file that a process before this one has left half written.
func (d *Disk) removeOld(path string) {
	if fi, err := os.Lstat(path); err == nil && fi.ModTime().Before(d.journal.opened) {
		os.Remove(path)
	}
}

func isHex(name string, n int) bool {
	return len(name) == n && strings.Trim(name, "0123456789abcdef") == ""
}

// read takes one file into the cache, or removes it.
func (d *Disk) read(c *Cache, name string, now time.Time) bool {
	t := c.store.Ticket() // before the purges are asked
	if o, err := d.readFile(c, name, now); err == nil && c.adopt(o, t) {
		return true
	}
	d.remove(name)
	return false
}

// readFile reads foot and head of a file.
func (d *Disk) readFile(c *Cache, name string, now time.Time) (o store.Object, err error) {
	f, err := os.OpenFile(d.path(name), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return o, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return o, err
	}
	foot := make([]byte, footLen)
	if fi.Size() < footLen {
		return o, errChanged
	}
	if _, err := f.ReadAt(foot, fi.Size()-footLen); err != nil {
		return o, err
	}
	bodyLen, bodySum, headLen, headSum, ok := parseFoot(foot)
	if !ok || headLen > maxHead || bodyLen+headLen+footLen != fi.Size() {
		return o, errChanged
	}
	head := make([]byte, headLen)
	if _, err := f.ReadAt(head, bodyLen); err != nil {
		return o, err
	}
	if crc32.Checksum(head, castagnoli) != headSum {
		return o, errChanged
	}
	o, seq, ok := parseHead(head)
	if !ok {
		return o, errChanged
	}
	// Times of another process are of the wall clock; those of this one are not moved by
	// it any more. A clock that was set back makes entries of the future: dropped.
	if o.Stored.After(now.Add(5*time.Second)) || !now.Before(o.Until) || d.journal.about(o.Tags, seq) {
		return o, errChanged
	}
	if !c.serves(o.Info.(*info).site) {
		return o, errChanged
	}
	o.Stored, o.Fresh, o.Until = now.Add(o.Stored.Sub(now)), now.Add(o.Fresh.Sub(now)), now.Add(o.Until.Sub(now))
	i := o.Info.(*info)
	i.disk, i.file, i.length, i.sum = d, name, bodyLen, bodySum
	o.Disk = fi.Size()
	return o, nil
}

// adopt puts an object of a file into the store, unless there is an entry in its place.
func (c *Cache) adopt(o store.Object, t store.Ticket) bool {
	for _, e := range c.store.Find([]byte(o.Key)) {
		if e.Variant == o.Variant && !e.Stored.Before(o.Stored) {
			return false
		}
	}
	return c.store.Put(o, t) != nil
}
