package apps

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The question that each protocol is asked. A FastCGI application answers what its
// limits are, without a request. An LSAPI one has no such question and gets a request:
// PHP is told by a setting not to run anything for it.
var questions = [...]string{
	FastCGI: "\x01\x09\x00\x00\x00\x11\x00\x00\x0f\x00FCGI_MPXS_CONNS",
	LSAPI:   lsapiQuestion(),
}

// lsapiQuestion is a request for /, with the setting engine=0, without a field.
func lsapiQuestion() string {
	pair := func(name, value string) string {
		b := binary.BigEndian.AppendUint16(nil, uint16(len(name)+1))
		return string(binary.BigEndian.AppendUint16(b, uint16(len(value)+1))) + name + "\x00" + value + "\x00"
	}
	const head, index = 44, 25*2 + 2 + 25*4
	list := pair("\x01\x01engine", "0") + "\x00\x00\x00\x00"
	var at [4]int
	for i, v := range [4][2]string{{"SCRIPT_FILENAME", "/"}, {"SCRIPT_NAME", "/"}, {"QUERY_STRING", ""}, {"REQUEST_METHOD", "GET"}} {
		list += pair(v[0], v[1])
		at[i] = head + len(list) - len(v[1]) - 1
	}
	list += "\x00\x00\x00\x00"
	list += strings.Repeat("\x00", -(head+len(list))&7) + strings.Repeat("\x00", index) + "\x00"
	b := []byte("LS\x01\x00")
	for _, n := range [10]int{head + len(list), 1, 0, at[0], at[1], at[2], at[3], 0, len(at), 1} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return string(b) + list
}

// prove sends nil when an application takes connections, else the error of ctx. A
// connect proves nothing: the kernel makes it. An answer does. Not all FastCGI
// applications answer theirs: there the end of the connection is enough, or that the
// question was read. Of LSAPI a packet has to come.
func prove(ctx context.Context, path string, p Protocol, result chan<- error) {
	for ctx.Err() == nil {
		if taken(ctx, path, p) {
			result <- nil
			return
		}
		sleep(ctx, 20*time.Millisecond)
	}
	result <- ctx.Err()
}

// taken asks once, and waits until the question is taken or ctx ends.
func taken(ctx context.Context, path string, p Protocol) bool {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return false
	}
	nc := c.(*net.UnixConn)
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	if _, err := nc.Write([]byte(questions[p])); err != nil {
		return false
	}
	buf := make([]byte, 64)
	for ctx.Err() == nil {
		nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		n, err := nc.Read(buf)
		if ctx.Err() != nil {
			return false
		}
		if p == LSAPI {
			if ne, ok := err.(net.Error); n > 0 || !ok || !ne.Timeout() {
				return n > 1 && string(buf[:2]) == "LS"
			}
			continue
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
