package pagecache

import (
	"errors"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"syscall"

	"httpjet/store"
)

// What is served from a file is what was written to it (R-CACHE-14): other files, other
// sizes and other bytes are noticed when the file is opened. What is not noticed before the
// next start are bytes of a body over 64 KiB that change without anybody writing, as on a
// disk that rots, and those that somebody writes while an answer goes out.

// opened is the file of an entry, open for one answer.
type opened struct {
	*os.File
	length int64
}

func (o *opened) close() { o.File.Close() }

func (o *opened) copyTo(w io.Writer) error {
	n, err := io.Copy(struct{ io.Writer }{w}, io.NewSectionReader(o.File, 0, o.length))
	if err == nil && n < o.length {
		return io.ErrUnexpectedEOF
	}
	return err
}

// promoteSize is the largest body that is read into memory when it is asked for again.
const promoteSize = 64 << 10

// open returns the file of an entry whose body is not in memory, nil if it is or is now,
// in the entry that is returned; false if it cannot be served.
func (r *Run) open(e *store.Entry) (*store.Entry, *opened, bool) {
	i, c := infoOf(e), r.site.Cache
	if i.disk == nil || e.Body.Len() > 0 || i.length == 0 {
		return e, nil, true
	}
	f, err := os.OpenFile(i.disk.path(i.file), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err == nil {
		var up *store.Entry
		up, err = c.read(e, f)
		switch {
		case err == nil && up == nil:
			return e, &opened{f, i.length}, true
		case err == nil:
			f.Close()
			return up, nil, true
		}
		f.Close()
	}
	c.count(ReadErrors)
	i.disk.log.Warn("entry of the page cache is not what it was; it is dropped", "file", i.disk.path(i.file), "err", err)
	return nil, nil, false
}

// read proves that the file of an entry has the body that was written, or says that it
// does not. A small body that is asked for again goes into memory: then the entry that has
// it is returned.
func (c *Cache) read(e *store.Entry, f *os.File) (up *store.Entry, err error) {
	i := infoOf(e)
	fi, err := i.sized(f, e.Disk)
	switch {
	case err != nil:
		return nil, err
	case i.length > promoteSize || !e.Used():
		return nil, i.check(f, fi)
	}
	b := make([]byte, i.length)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	if crc32.Checksum(b, castagnoli) != i.sum {
		return nil, errChanged
	}
	o := e.Object
	o.Body = store.Bytes(b)
	return c.store.Replace(e, o, e.Ticket()), nil
}

var errChanged = errors.New("the file is not the one that was written")

// stamp tells a file from another one, and from itself after somebody has written to it.
type stamp struct {
	dev, ino         uint64
	written, changed int64 // ns; nobody can set the second
}

func stampOf(fi os.FileInfo) (s stamp, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return s, false
	}
	return stamp{uint64(st.Dev), st.Ino, st.Mtim.Nano(), st.Ctim.Nano()}, true
}

// prove notes that the file as fi has it has the body of the sum.
func (i *info) prove(fi os.FileInfo) {
	if s, ok := stampOf(fi); ok {
		i.proven.Store(&s)
	}
}

// sized looks if the file is of the kind and size that was written.
func (i *info) sized(f *os.File, size int64) (os.FileInfo, error) {
	fi, err := f.Stat()
	if err == nil && (fi.Size() != size || !fi.Mode().IsRegular()) {
		err = errChanged
	}
	return fi, err
}

// check compares the sum of the body in the file, unless it was proven and nobody has
// touched the file since. That of a small one, which costs less than to send it, it
// compares always: what rots below the file system changes no stamp.
func (i *info) check(f *os.File, fi os.FileInfo) error {
	if was := i.proven.Load(); was != nil && i.length > promoteSize {
		if now, ok := stampOf(fi); ok && now == *was {
			return nil
		}
	}
	sum := crc32.New(castagnoli)
	buf := sumBufs.Get().(*[64 << 10]byte)
	defer sumBufs.Put(buf)
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{io.NewSectionReader(f, 0, i.length)}, buf[:])
	if err != nil || n != i.length || sum.Sum32() != i.sum {
		return errors.Join(errChanged, err)
	}
	i.prove(fi)
	return nil
}

// sumBufs holds memory for bodies that are only looked at.
var sumBufs = sync.Pool{New: func() any { return new([64 << 10]byte) }}
