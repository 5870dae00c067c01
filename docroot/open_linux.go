package docroot

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readFlags open a file without waiting for the other end of a FIFO and without
// making a terminal ours.
const readFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// pathFlags name a file without opening it: no permission to read it is needed,
// and no device notices.
const pathFlags = unix.O_PATH | unix.O_CLOEXEC

// open opens rel for reading. The error wraps an errno.
func (r *Root) open(rel string) (*os.File, error) {
	fd, err := r.find(rel, readFlags)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: r.filename(rel), Err: err}
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// mode returns the mode of what rel names, as in stat(2).
func (r *Root) mode(rel string) (uint32, error) {
	fd, err := r.find(rel, pathFlags)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	return st.Mode, err
}

func (r *Root) isDir(rel string) bool {
	mode, err := r.mode(rel)
	return err == nil && mode&unix.S_IFMT == unix.S_IFDIR
}

// find looks rel up under the rules of the root for links (R-STATIC-2) and
// returns a descriptor. The root is opened anew each time, so that a release
// that is switched by renaming a link is seen at once.
func (r *Root) find(rel string, flags int) (int, error) {
	if rel == "" || r.o.Links == FollowLinks && !r.o.Restrained && len(r.links) == 0 {
		return openat(unix.AT_FDCWD, r.filename(rel), flags)
	}
	dir, err := openat(unix.AT_FDCWD, r.dir, pathFlags|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	switch {
	case r.o.Links == NoLinks:
		fd, err := r.beneath(dir, rel, flags, unix.RESOLVE_NO_SYMLINKS)
		if !isUnsupported(err) {
			return fd, err
		}
		return r.walk(dir, rel, flags)
	case r.o.Links == OwnerLinks || len(r.links) > 0:
		return r.findOwned(dir, rel, flags)
	}
	return r.findConfined(dir, rel, flags)
}

// linksAt returns how a link is treated whose name begins at a byte of the path.
func (r *Root) linksAt(at int) Links {
	l := r.o.Links
	for i := range r.links {
		if r.links[i].At > at {
			break
		}
		l = r.o.Links.Stricter(r.links[i].Links)
	}
	return l
}

// findConfined follows links that stay beneath the root. What the kernel takes
// for an escape is looked at again: it refuses every absolute link, and knows
// nothing of a wider confinement.
func (r *Root) findConfined(dir int, rel string, flags int) (int, error) {
	fd, err := r.beneath(dir, rel, flags, 0)
	if isUnsupported(err) {
		fd, err = r.beneathRoot(rel)
	}
	if err == unix.EXDEV {
		return r.findWithin(rel, flags)
	}
	return fd, err
}

// findWithin follows any link, without opening what it leads to, and then asks
// where that lies.
func (r *Root) findWithin(rel string, flags int) (int, error) {
	fd, err := openat(unix.AT_FDCWD, r.filename(rel), pathFlags)
	if err == unix.ENOTDIR || err == unix.ENAMETOOLONG {
		return -1, err // path info, perhaps: its file will be asked for next
	}
	if err != nil {
		return -1, unix.EXDEV // what lies outside is not told
	}
	defer unix.Close(fd)
	real, err := realPath(fd)
	if err != nil {
		return -1, unix.EXDEV
	}
	around, err := realDir(r.within)
	if err != nil || real != around && !strings.HasPrefix(real, strings.TrimSuffix(around, "/")+"/") {
		return -1, unix.EXDEV
	}
	if flags&unix.O_PATH != 0 {
		return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	}
	return reopen(fd, flags)
}

// beneathRoot is beneath for a kernel without openat2.
func (r *Root) beneathRoot(rel string) (int, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return -1, err
	}
	defer root.Close()
	// os.Root reads links by itself and knows no O_PATH.
	f, err := root.OpenFile(rel, readFlags, 0)
	if err != nil {
		if _, errno := errors.AsType[unix.Errno](err); !errno {
			err = unix.EXDEV // os.Root has no errno for a path that escapes
		}
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// findOwned follows links of which something is said: that their owner must own their
// target, or other things in other directories.
func (r *Root) findOwned(dir int, rel string, flags int) (int, error) {
	fd, err := r.beneath(dir, rel, flags, unix.RESOLVE_NO_SYMLINKS)
	if err != unix.ELOOP && !isUnsupported(err) {
		return fd, err // no link on the path
	}
	if !r.o.Restrained {
		return r.walk(dir, rel, flags)
	}
	// The file must be the one that confinement finds.
	in, err := r.findConfined(dir, rel, pathFlags)
	if err != nil {
		return -1, err
	}
	defer unix.Close(in)
	fd, err = r.walk(dir, rel, flags)
	if err != nil {
		return -1, err
	}
	a, errA := fstat(in)
	b, errB := fstat(fd)
	if errA != nil || errB != nil || a.Dev != b.Dev || a.Ino != b.Ino {
		unix.Close(fd)
		return -1, unix.EXDEV
	}
	return fd, nil
}

// walk finds rel by descriptors, one segment at a time, so that nothing it has looked
// at can be exchanged for something else. Where the owner of a link must own what it
// leads to, the target is read from the link that was looked at, and the test is made
// on what was found.
func (r *Root) walk(dir int, rel string, flags int) (fd int, err error) {
	cur, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for at := 0; at < len(rel); {
		end := len(rel)
		if i := strings.IndexByte(rel[at:], '/'); i >= 0 {
			end = at + i
		}
		next, err := step(cur, rel[at:end], r.linksAt(at))
		unix.Close(cur)
		if err != nil {
			return -1, err
		}
		cur, at = next, end+1
	}
	if flags&unix.O_PATH != 0 {
		return cur, nil
	}
	defer unix.Close(cur)
	return reopen(cur, flags)
}

// step opens the entry seg of the directory cur.
func step(cur int, seg string, links Links) (int, error) {
	fd, err := openat(cur, seg, pathFlags|unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	link, err := fstat(fd)
	if err != nil || link.Mode&unix.S_IFMT != unix.S_IFLNK {
		return fd, err
	}
	defer unix.Close(fd)
	if links == NoLinks {
		return -1, unix.ELOOP
	}
	target, err := readLink(fd, "")
	if err != nil {
		return -1, err
	}
	to, err := openat(cur, target, pathFlags)
	if err != nil {
		return -1, err
	}
	if st, err := fstat(to); err != nil || links == OwnerLinks && st.Uid != link.Uid {
		unix.Close(to)
		return -1, unix.ELOOP
	}
	return to, nil
}

// reopen turns an O_PATH descriptor of a file into one that can be read.
// Anything but files and directories is refused before a device can notice.
func reopen(fd, flags int) (int, error) {
	st, err := fstat(fd)
	if err != nil {
		return -1, err
	}
	if t := st.Mode & unix.S_IFMT; t != unix.S_IFREG && t != unix.S_IFDIR {
		return -1, unix.EACCES
	}
	return openat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), flags)
}

// beneath looks rel up with the confinement of the kernel.
func (r *Root) beneath(dir int, rel string, flags int, resolve uint64) (int, error) {
	if r.noKernel {
		return -1, unix.ENOSYS
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | resolve}
	// EAGAIN: something was renamed during the lookup of a "..".
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, rel, &how)
		if err == unix.EINTR || err == unix.EAGAIN && try < 16 {
			continue
		}
		if err == unix.EAGAIN {
			err = unix.EXDEV
		}
		return fd, err
	}
}

// isUnsupported reports a kernel without openat2, or a sandbox that hides it.
func isUnsupported(err error) bool { return err == unix.ENOSYS || err == unix.EPERM }

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func fstat(fd int) (st unix.Stat_t, err error) {
	for {
		if err = unix.Fstat(fd, &st); err != unix.EINTR {
			return st, err
		}
	}
}

// realPath returns the path of an open descriptor without links.
func realPath(fd int) (string, error) {
	return readLink(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd))
}

// realDir returns the path of a directory without links.
func realDir(dir string) (string, error) {
	fd, err := openat(unix.AT_FDCWD, dir, pathFlags)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return realPath(fd)
}

// readLink reads a link of up to PATH_MAX bytes. With an empty name it reads the
// link that dir is a descriptor of.
func readLink(dir int, name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		return "", err
	}
	if n == len(buf) {
		return "", unix.ENAMETOOLONG
	}
	return string(buf[:n]), nil
}
