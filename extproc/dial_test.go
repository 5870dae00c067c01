package extproc

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Connections to different peers may have one port of ours in common: as many as there
// are ports go to each peer, not to all together.
func TestPortsArePerPeer(t *testing.T) {
	const port = 40123
	sockets.Control = func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, port<<16|port)
		}), err)
	}
	defer func() { sockets.Control = nil }()
	for range 3 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		nc, err := new(Dialer).Dial(t.Context(), "tcp", l.Addr().String())
		if errors.Is(err, unix.ENOPROTOOPT) {
			t.Skip("before Linux 6.3 a socket cannot be told its range of ports")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if at := nc.LocalAddr().(*net.TCPAddr).Port; at != port {
			t.Errorf("port %d", at)
		}
	}
}
