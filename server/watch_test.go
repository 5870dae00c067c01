package server

import (
	"net"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// A service manager hears when the server is ready, reloads and stops.
func TestServiceManagerIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	sock.SetReadDeadline(time.Now().Add(patience))
	hears := func(expr string) {
		t.Helper()
		buf := make([]byte, 1<<10)
		n, err := sock.Read(buf)
		if err != nil || !regexp.MustCompile(expr).Match(buf[:n]) {
			t.Fatalf("heard %q %v, want %s", buf[:n], err, expr)
		}
	}
	t.Setenv("NOTIFY_SOCKET", path)
	root := treeOf(t, "")
	r := run(t, root)
	hears(`^READY=1\nSTATUS=serving generation \d+$`)
	r.reload(t)
	hears(`^RELOADING=1\nMONOTONIC_USEC=[1-9]\d+$`)
	hears(`^READY=1\nSTATUS=`)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	hears(`^STOPPING=1$`)
}
