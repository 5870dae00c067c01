package unixsocket

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func listen(t *testing.T, o Options) *Listener {
	t.Helper()
	l, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Mode()
}

// The mode is the one that was asked for, whatever the umask takes away.
func TestMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "s")
	l := listen(t, Options{Path: path, Mode: 0o666})
	if m := mode(t, path); m != 0o666|os.ModeSocket {
		t.Error(m)
	}
	if err := l.Chmod(0o600); err != nil || mode(t, path) != 0o600|os.ModeSocket {
		t.Error(err, mode(t, path))
	}
	l.Close()
	l.Remove()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Error("it is left", err)
	}
}

// A socket that nobody answers at is replaced, another server's is not, nor what is
// none; who has lost the path leaves it alone.
func TestReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale := listen(t, Options{Path: path, Mode: 0o600})
	stale.Close()
	live := listen(t, Options{Path: path, Mode: 0o600})
	if !stale.Lost() || live.Lost() {
		t.Error("who has the path?")
	}
	stale.Remove()
	if err := stale.Chmod(0o777); err != nil || mode(t, path) != 0o600|os.ModeSocket {
		t.Errorf("it changed what is not its own: %v %v", err, mode(t, path))
	}
	for _, over := range [][]int{nil, {0, 1, os.Getppid()}} { // who succeeds others has no right to it
		if _, err := Listen(Options{Path: path, Mode: 0o600, Over: over}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another server's: process %d answers there", os.Getpid())) {
			t.Error(err)
		}
	}
	if live.Lost() {
		t.Error("it was taken away")
	}
	next := listen(t, Options{Path: path, Mode: 0o600, Over: []int{1, os.Getpid()}})
	live.Remove()
	go func() {
		if c, err := next.Accept(); err == nil {
			io.WriteString(c, "next")
			c.Close()
		}
	}()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if said, err := io.ReadAll(c); string(said) != "next" {
		t.Errorf("%q %v", said, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Options{Path: file, Mode: 0o600, Over: []int{os.Getpid()}}); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Error(err)
	}
}

// Two that start at once: one has to wait for the other's end.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(Options{Path: filepath.Join(dir, "s"), Mode: 0o600}); err == nil || !strings.Contains(err.Error(), "another server is starting") {
		t.Error(err)
	}
}

// A path may be longer than an address of a Unix socket.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l := listen(t, Options{Path: path, Mode: 0o600})
	if mode(t, path) != 0o600|os.ModeSocket || l.Lost() {
		t.Error("it is not there")
	}
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := Listen(Options{Path: filepath.Join(dir, "none", "none", "s")}); err == nil {
		t.Error("two directories were made")
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the path is short: it tests nothing")
	}
}
