package apps

import (
	"context"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// The question that each protocol is asked. A FastCGI application answers what its
// limits are, without a request. An LSAPI one has no such question: it reads the first
// byte of a packet that does not follow, which it says nothing about.
var questions = [...]string{
	FastCGI: "\x01\x09\x00\x00\x00\x11\x00\x00\x0f\x00FCGI_MPXS_CONNS",
	LSAPI:   "L",
}

// prove sends nil when an application takes connections, else the error of ctx. A
// connect proves nothing: the kernel makes it. An answer does, and so does the end
// of the connection, or that the question was read, for not all answer it.
func prove(ctx context.Context, path string, p Protocol, result chan<- error) {
	for ctx.Err() == nil {
		if taken(ctx, path, questions[p]) {
			result <- nil
			return
		}
		sleep(ctx, 20*time.Millisecond)
	}
	result <- ctx.Err()
}

// taken asks once, and waits until the question is taken or ctx ends.
func taken(ctx context.Context, path, question string) bool {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return false
	}
	nc := c.(*net.UnixConn)
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	if _, err := nc.Write([]byte(question)); err != nil {
		return false
	}
	buf := make([]byte, 64)
	for ctx.Err() == nil {
		nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err := nc.Read(buf)
		if ctx.Err() != nil {
			return false
		}
		if ne, ok := err.(net.Error); err == nil || !ok || !ne.Timeout() {
			return true // an answer, or the end
		}
		if left, ok := unread(nc); ok && left == 0 {
			return true
		}
	}
	return false
}

// unread is how much of what was written nobody has read yet.
func unread(nc *net.UnixConn) (n int, ok bool) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return 0, false
	}
	raw.Control(func(fd uintptr) {
		n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
	})
	return n, err == nil
}
