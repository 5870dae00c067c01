package watch

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxFile bounds what is read of a file, in bytes: more than any input may have.
const maxFile = 16 << 20

// Sum returns the SHA-256 of the contents of a regular file in hex, "" if it
// cannot be read. The contents of a pattern (filepath.Match) are the names that match
// it, see SumOfNames.
func Sum(path string) string {
	// What is no regular file is not opened: a FIFO would hold us up.
	fi, err := os.Stat(path)
	if err != nil && isPattern(path) {
		return SumOfNames(matches(path))
	}
	if err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxFile)); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// SumOfNames is the Sum of a pattern that matches these names, sorted; of none it is
// that of a file which is not there.
func SumOfNames(names []string) string {
	if len(names) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return hex.EncodeToString(sum[:])
}

// isPattern is asked of paths at which there is nothing.
func isPattern(path string) bool { return strings.ContainsAny(path, "*?[") }

// matches returns what matches a pattern, but for directories.
func matches(pattern string) []string {
	names, _ := filepath.Glob(pattern) // a bad pattern matches nothing
	return slices.DeleteFunc(names, func(name string) bool {
		fi, err := os.Stat(name)
		return err == nil && fi.IsDir()
	})
}

// places returns where files are that path names: path, and for a pattern the same
// in each directory that there is.
func places(path string) []string {
	out := []string{path}
	if dir, base := filepath.Split(path); isPattern(path) && isPattern(dir) {
		dirs, _ := filepath.Glob(filepath.Clean(dir))
		for _, d := range dirs {
			out = append(out, filepath.Join(d, base))
		}
	}
	return out
}

// step is one directory entry on the way to a file.
type step struct{ dir, name string }

// ancestors is how many directories above a file are watched besides its own, so
// that one which is moved away with all that is in it is noticed. Links are
// watched wherever they are.
const ancestors = 2

// way returns the entries that decide which file path is: every link on the way,
// with what it leads to, and the last directories. It ends where an entry is
// missing. mount reports that the file is a mount of its own: then the entry in
// its directory says nothing about it.
func way(path string) (steps []step, mount bool) {
	dir, rest := "/", strings.Split(filepath.Clean(path), "/")[1:]
	var all []step
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			dir = filepath.Dir(dir)
			continue
		}
		full := filepath.Join(dir, name)
		all = append(all, step{dir, name})
		fi, err := os.Lstat(full)
		switch {
		case err != nil:
			rest = nil
		case fi.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(full)
			if links++; err != nil || links > 40 {
				rest = nil
				break
			}
			steps = append(steps, step{dir, name})
			if filepath.IsAbs(target) {
				dir = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
		default:
			dir = full
		}
	}
	return append(steps, all[max(0, len(all)-1-ancestors):]...), isMount(path)
}

// isMount reports whether a mount point is at path, as a single file that a
// container was given is.
func isMount(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_TYPE, &st)
	return err == nil && st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// remote reports whether a directory lies on a file system whose other users'
// changes give no events here.
func remote(dir string) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC:
		return true
	}
	return false
}

// look is what a file looks like from outside.
type look struct {
	size  int64
	mtime time.Time
	dev   uint64
	inode uint64
	names string // of a pattern
}

// lookAt returns the zero look for a file that is not there.
func lookAt(path string) look {
	fi, err := os.Stat(path)
	if err != nil && isPattern(path) {
		return look{names: Sum(path)}
	}
	if err != nil {
		return look{}
	}
	l := look{size: fi.Size(), mtime: fi.ModTime()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		l.dev, l.inode = uint64(st.Dev), st.Ino
	}
	return l
}
