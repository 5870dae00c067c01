package server

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// A service manager that wants to know hears that the server lives; one that has gone
// changes nothing (R-SYSD-2).
func TestWatchdogAndLostManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	sock.SetReadDeadline(time.Now().Add(patience))
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "20000")
	r := run(t, treeOf(t, ""))
	buf := make([]byte, 1<<10)
	for alive := 0; alive < 3; {
		n, err := sock.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if string(buf[:n]) == "WATCHDOG=1" {
			alive++
		}
	}
	sock.Close()
	os.Remove(path)
	if line := r.reload(t); !strings.Contains(line, "published") {
		t.Errorf("a reload without a service manager: %s", line)
	}
	if body, err := get(http.DefaultClient, r.base+"/"); body != "home" {
		t.Errorf("%q, %v", body, err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}
