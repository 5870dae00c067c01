package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// word is the body of the command that the tests give.
type word struct {
	Word string `json:"word"`
}

// echo answers POST /v1/echo with what came, GET /v1/where with the path.
func echo() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/echo", func(w http.ResponseWriter, r *http.Request) {
		var in word
		err := Read(r, &in)
		if err == nil && in.Word == "no" {
			err = errors.New("not today")
		}
		Answer(w, in, err)
	})
	mux.HandleFunc("GET /v1/where", func(w http.ResponseWriter, r *http.Request) { Answer(w, word{r.URL.Path}, nil) })
	return mux
}

func started(t *testing.T, path string) *Server {
	t.Helper()
	s := New(Config{Path: path, Handler: echo()})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return s
}

func socket(t *testing.T) string { return filepath.Join(t.TempDir(), "run", "httpjet.sock") }

// Commands and documents, and what a command refuses.
func TestCommands(t *testing.T) {
	path := socket(t)
	started(t, path)
	c := NewClient(path)
	var out word
	if err := c.Post(t.Context(), "/v1/echo", word{"yes"}, &out); err != nil || out.Word != "yes" {
		t.Errorf("%+v, %v", out, err)
	}
	if err := c.Get(t.Context(), "/v1/where", &out); err != nil || out.Word != "/v1/where" {
		t.Errorf("%+v, %v", out, err)
	}
	f := func(path string, in any, status int, message string) {
		t.Helper()
		err := c.Post(t.Context(), path, in, &out)
		r, ok := err.(*Refusal)
		if !ok || r.Status != status || !strings.Contains(r.Error(), message) {
			t.Errorf("%s %v: %v", path, in, err)
		}
	}
	f("/v1/echo", word{"no"}, 409, "not today")
	f("/v1/echo", map[string]string{"word": "a", "wort": "b"}, 400, `unknown field "wort"; it is of another version than this program`)
	f("/v1/echo", []int{1}, 400, "cannot be read")
	f("/v1/echo", word{strings.Repeat("x", maxBody)}, 400, "too large")
	f("/v1/other", word{}, 404, "does not know this command; it is of another version than this program")
	f("/v1/where", word{}, 405, "does not know this command")
}

// R-DRAIN-2: mode 0600, removed at the end.
func TestSocketFile(t *testing.T) {
	path := socket(t)
	s := started(t, path)
	fi, err := os.Stat(path)
	if err != nil || fi.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	s.Shutdown(t.Context())
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	err = NewClient(path).Get(t.Context(), "/v1/where", &word{})
	if err == nil || !strings.Contains(err.Error(), "no server runs at "+path) {
		t.Errorf("%v", err)
	}
}

// What a server left behind is replaced; what is somebody's is not.
func TestStale(t *testing.T) {
	path := socket(t)
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	first := started(t, path)

	second := New(Config{Path: path, Handler: echo()})
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), "another server's") {
		t.Errorf("a second server: %v", err)
	}
	second.Shutdown(t.Context()) // has nothing, takes nothing
	if err := NewClient(path).Get(t.Context(), "/v1/where", &word{}); err != nil {
		t.Errorf("the first does not answer: %v", err)
	}

	// The path is another server's by now: it stays.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	started(t, path)
	first.Shutdown(t.Context())
	if err := NewClient(path).Get(t.Context(), "/v1/where", &word{}); err != nil {
		t.Errorf("the third does not answer: %v", err)
	}

	file := socket(t)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := New(Config{Path: file, Handler: echo()}).Listen(); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("over a file: %v", err)
	}
	if text, _ := os.ReadFile(file); string(text) != "text" {
		t.Error("the file is gone")
	}
	if err := New(Config{Path: "/nonexistent/run/x.sock", Handler: echo()}).Listen(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

// A server root may be longer than the address of a socket.
func TestLongPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(path, "run", "httpjet.sock")
	s := started(t, path)
	var out word
	if err := NewClient(path).Get(t.Context(), "/v1/where", &out); err != nil || out.Word == "" {
		t.Errorf("%+v, %v", out, err)
	}
	s.Shutdown(t.Context())
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// R-DRAIN-2: who is neither root nor the server's user is told so, whatever the mode
// of the file has become.
func TestOtherUsers(t *testing.T) {
	g := guarded{uid: 7}
	for uid, want := range map[uint32]bool{0: true, 7: true, 8: false, 65534: false} {
		if g.admits(uid) != want {
			t.Errorf("user %d: %v", uid, !want)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else: the rest is not run")
	}
	path := socket(t)
	started(t, path)
	for dir := path; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 65534
	got := make(chan string)
	go askAs(nobody, path, got)
	if answer := <-got; !strings.HasPrefix(answer, "HTTP/1.1 403 ") {
		t.Errorf("a stranger gets %q", answer)
	}
	go askAs(0, path, got)
	if answer := <-got; !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Errorf("root gets %q", answer)
	}
}

// askAs asks as another user. The thread that becomes this user ends with it.
func askAs(uid int, path string, got chan<- string) {
	runtime.LockOSThread()
	got <- func() string {
		// Of this thread alone, as the kernel has it.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			return errno.Error()
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err.Error()
		}
		defer unix.Close(fd)
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			return err.Error()
		}
		unix.Write(fd, []byte("GET /v1/where HTTP/1.1\r\nHost: x\r\n\r\n"))
		b := make([]byte, 1000)
		n, err := unix.Read(fd, b)
		if err != nil {
			return err.Error()
		}
		return string(b[:n])
	}()
}

// Shutdown cuts connections, but returns only when no call of the handler is left:
// what the handler works with may then be taken away.
func TestShutdownJoinsTheHandler(t *testing.T) {
	path, begun, returned, late := socket(t), make(chan struct{}), make(chan struct{}), make(chan bool, 1)
	s := New(Config{Path: path, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(begun)
		select {
		case <-returned:
			late <- true
		case <-time.After(200 * time.Millisecond):
			late <- false
		}
	})})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	go func() {
		if err := NewClient(path).Post(context.Background(), "/", word{}, &word{}); err == nil {
			t.Error("an answer of a connection that was cut")
		}
	}()
	<-begun
	now, cancel := context.WithCancel(t.Context())
	cancel()
	s.Shutdown(now)
	close(returned)
	if <-late {
		t.Error("Shutdown returned before the handler did")
	}
}

// A request that never ends holds nothing up.
func TestShutdownCuts(t *testing.T) {
	path := socket(t)
	s := started(t, path)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Shutdown(ctx)
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is still open")
	}
	s.Shutdown(ctx)
	n := New(Config{Path: path, Handler: echo()})
	n.Shutdown(ctx)
	if err := n.Listen(); err != nil {
		t.Fatal(err)
	}
	n.Shutdown(ctx)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}
