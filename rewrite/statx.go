package rewrite

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// statx is statx(2) of a path without a NUL in it, which it appends in the memory behind
// path if there is room. unix.Statx copies the path for each call, and file tests are
// what most requests of most sites ask for.
func statx(path []byte, follow bool, st *unix.Statx_t) unix.Errno {
	path = append(path, 0)
	flags := unix.AT_NO_AUTOMOUNT
	if !follow {
		flags |= unix.AT_SYMLINK_NOFOLLOW
	}
	cwd := unix.AT_FDCWD
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(cwd), uintptr(unsafe.Pointer(&path[0])), uintptr(flags),
			unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_SIZE, uintptr(unsafe.Pointer(st)), 0)
		if errno != unix.EINTR {
			return errno
		}
	}
}
