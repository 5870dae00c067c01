package apps

import (
	"time"

	"golang.org/x/sys/unix"
)

func pidfd(pid int) (int, error) { return unix.PidfdOpen(pid, 0) }

// poll waits until a descriptor is readable, or for d without one.
func poll(fd int, d time.Duration) bool {
	for end := time.Now().Add(d); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, time.Until(end).Milliseconds())))
		if err != unix.EINTR {
			return n > 0
		}
	}
}
