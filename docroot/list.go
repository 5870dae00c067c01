package docroot

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"httpjet/coding"
	"httpjet/exchange"
)

// maxListed bounds the names of a directory that are looked at.
const maxListed = 5000

// list reads the directory that has no index file. Only what a request for the name
// would get is told: what this root would refuse by its name, links, place, kind or
// permission bits is left out, and so is every name that begins with a dot.
func (q *lookup) list() (exchange.Resource, Verdict, error) {
	none := exchange.Resource{}
	f, err := q.read(q.rel)
	if err != nil {
		return none, 0, failure(err)
	}
	defer f.Close()
	if !q.info.IsDir() {
		return none, 0, notFound("no directory any more")
	}
	if err := q.checkListed(f); err != nil {
		return none, 0, err
	}
	names, err := f.Readdirnames(maxListed + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return none, 0, failure(err)
	}
	l := &exchange.Listing{More: len(names) > maxListed}
	for _, name := range names[:min(len(names), maxListed)] {
		if e, ok := q.entry(name); ok {
			l.Entries = append(l.Entries, e)
		}
	}
	return exchange.Resource{Listing: l, Info: q.info, Root: q.r.docRoot, Filename: q.r.filename(q.rel), Name: q.path}, Directory, nil
}

// checkListed applies to a directory what holds for the files in it.
func (q *lookup) checkListed(f *os.File) error {
	real, err := realPath(int(f.Fd()))
	if err != nil {
		return denied("real path unknown")
	}
	if q.r.deniesIn(real) || Hidden(q.below(real)) {
		return denied("directory that is denied or hidden")
	}
	if st, ok := q.info.Sys().(*syscall.Stat_t); !ok || st.Mode&q.r.o.RestrictedDir != 0 {
		return denied("directory has restricted permission bits")
	}
	return nil
}

// deniesIn reports whether accessDenyDir refuses files that lie in a real directory.
func (r *Root) deniesIn(dir string) bool {
	for _, d := range r.deny {
		if d.denies(filepath.Join(dir, "x")) {
			return true
		}
	}
	return false
}

// entry describes a name in the directory, if it may be told.
func (q *lookup) entry(name string) (e exchange.Entry, ok bool) {
	rel := name
	if q.rel != "" {
		rel = q.rel + "/" + name
	}
	if name[0] == '.' || Hidden(q.path+name) {
		return e, false
	}
	fd, err := q.r.find(rel, pathFlags)
	if err != nil {
		return e, false
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	real := ""
	if err == nil {
		real, err = realPath(fd)
	}
	if err != nil || Hidden(q.below(real)) {
		return e, false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		e.Dir = true
		ok = !q.r.deniesIn(real) && st.Mode&q.r.o.RestrictedDir == 0
	case unix.S_IFREG:
		script := q.isScript != nil && (q.isScript(Suffix(name)) || q.isScript(Suffix(real)))
		e.Size = st.Size
		ok = q.r.checkMode(st.Mode, script) == nil && q.r.owns(st.Uid)
		for _, d := range q.r.deny {
			ok = ok && !d.denies(real)
		}
	}
	e.Name = name
	e.Modified = unixTime(st.Mtim)
	return e, ok
}

func unixTime(ts unix.Timespec) time.Time { return time.Unix(ts.Unix()) }

// siblings returns the codings in which the file lies beside itself, with rights of
// its own, not older than the file by a second or more: whoever copies a tree writes its
// files in any order.
func (q *lookup) siblings() (found coding.Set) {
	if q.rel == "" || isCompressed(Suffix(q.rel)) {
		return 0
	}
	for _, c := range coding.All {
		if q.r.o.Codings&c == 0 {
			continue
		}
		fd, err := q.r.find(q.rel+c.Suffix(), pathFlags)
		if err != nil {
			continue
		}
		st, err := fstat(fd)
		unix.Close(fd)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mtim.Sec >= q.info.ModTime().Unix() {
			found |= c
		}
	}
	return found
}

// isCompressed reports suffixes of files that nobody compresses once more: these are
// not looked for.
func isCompressed(suffix string) bool {
	switch suffix {
	case "gz", "br", "zst", "png", "jpg", "jpeg", "gif", "webp", "avif", "mp4", "webm", "mp3", "zip", "woff", "woff2", "xz", "bz2", "7z":
		return true
	}
	return false
}
