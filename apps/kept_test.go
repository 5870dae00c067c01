package apps

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// keeperProcess is what a server starts: "detach", which starts "stay". Both end with
// nobody to keep anything for.
func keeperProcess(mode, dir string) int {
	self, err := os.Executable()
	if err == nil && mode == "detach" {
		err = Detach([]string{self, "keeper", "stay", dir}, dir)
	} else if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = Keep(ctx, KeeperOptions{Dir: dir, Launcher: []string{self}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
			Linger: 2 * time.Second, UntilUnused: true, Ready: SayReady})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// keptRig is a keeper in this process, and servers that use it.
type keptRig struct {
	*rig
	dir  string
	stop func() // ends the keeper and waits for it
}

func newKeptRig(t *testing.T, mode string, linger time.Duration) *keptRig {
	t.Helper()
	r := &keptRig{rig: newRig(t, mode)}
	r.dir = filepath.Dir(r.opt.Socket)
	r.opt.Keep = true
	r.sup.Kept.Dir = r.dir
	ctx, cancel := context.WithCancel(context.Background())
	ready, over := make(chan struct{}), make(chan error, 1)
	go func() {
		over <- Keep(ctx, KeeperOptions{Dir: r.dir, Launcher: r.sup.Launcher, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Linger: linger, Ready: func() { close(ready) }})
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	select {
	case <-ready:
	case err := <-over:
		over <- nil
		t.Fatal(err)
	}
	return r
}

// restart ends the server of the rig as it ends itself, and begins another one.
func (r *keptRig) restart(running ...*App) {
	r.sup.Leave()
	for _, a := range running {
		a.Retire()
	}
	r.sup.Close()
	r.sup = r.another()
}

// another is a further server of the same root.
func (r *keptRig) another() *Supervisor {
	return &Supervisor{Log: r.sup.Log, Launcher: r.sup.Launcher, Kept: r.sup.Kept}
}

// An application outlives the server, and the next one finds it. What is retired while a
// server runs ends.
func TestKeptOutlivesTheServer(t *testing.T) {
	r := newKeptRig(t, "serve", time.Hour)
	a := r.start()
	pid, _ := ask(t, a)
	if i := a.Info(); i.State != Ready || len(i.PIDs) != 1 || i.PIDs[0] != pid {
		t.Errorf("%+v, served by %d", i, pid)
	}
	r.restart(a)
	if s := a.Info().State; s != Ended || !exists(pid) {
		t.Errorf("%s, process there: %v", s, exists(pid))
	}
	next := r.start()
	if now, _ := ask(t, next); now != pid {
		t.Errorf("process %d serves, before it was %d", now, pid)
	}
	next.Retire()
	await(t, next, "not ended", in(Ended))
	gone(t, pid)
}

// A server that is killed loses its claim like one that ends.
func TestKeptOutlivesAServerThatIsKilled(t *testing.T) {
	r := newKeptRig(t, "serve", time.Hour)
	nc, _, err := dialKeeper(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	o := New(r.opt).Options()
	o.Keep = false
	if err := say(nc, wish{Version: protocolVersion, Want: &o}); err != nil {
		t.Fatal(err)
	}
	pid := toldReady(t, nc)
	nc.Close()
	if now, _ := ask(t, r.start()); now != pid {
		t.Errorf("process %d serves, before it was %d", now, pid)
	}
}

// toldReady reads what a keeper says until the application serves.
func toldReady(t *testing.T, nc *net.UnixConn) (pid int) {
	t.Helper()
	nc.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		var b [1]byte
		var text []byte
		for b[0] != '\n' {
			if _, err := nc.Read(b[:]); err != nil {
				t.Fatal(err)
			}
			text = append(text, b[0])
		}
		if _, after, ok := bytes.Cut(text, []byte(`"PIDs":[`)); ok && bytes.Contains(text, fmt.Appendf(nil, `"State":%d`, Ready)) {
			number, _, _ := bytes.Cut(after, []byte("]"))
			pid, _ = strconv.Atoi(string(number))
			return pid
		}
	}
}

// In an upgrade two servers want the same at once.
func TestKeptIsSharedInAnUpgrade(t *testing.T) {
	r := newKeptRig(t, "serve", time.Hour)
	a := r.start()
	pid, _ := ask(t, a)
	successor := r.another()
	defer successor.Close()
	b := New(r.opt)
	successor.Start(b)
	if now, _ := ask(t, b); now != pid {
		t.Errorf("process %d serves the successor, %d its predecessor", now, pid)
	}
	r.restart(a)
	if now, _ := ask(t, b); now != pid {
		t.Errorf("then %d", now)
	}
}

// Other options are another application: it takes the place when it is ready, be it at a
// reload or over a restart, and the one before ends.
func TestKeptIsReplaced(t *testing.T) {
	r := newKeptRig(t, "serve", time.Hour)
	old := r.start()
	first, _ := ask(t, old)
	r.opt.Env = r.env("slow")
	next := r.start()
	old.Retire()
	await(t, next, "not starting", in(Starting))
	if pid, _ := ask(t, next); pid != first {
		t.Errorf("while the next one starts, %d serves", pid)
	}
	os.WriteFile(r.file, nil, 0o600)
	await(t, next, "not ready", in(Ready))
	second, mode := ask(t, next)
	if mode != "slow" {
		t.Error(mode)
	}
	gone(t, first)
	r.restart(next)
	r.opt.Env = r.env("stubborn")
	last := r.start()
	ask(t, last) // of whom does not matter: the one before serves until the next one is ready
	third := await(t, last, "not ready", func(i Info) bool { return i.State == Ready && i.PIDs[0] != second }).PIDs[0]
	if pid, mode := ask(t, last); pid != third || mode != "stubborn" {
		t.Error(pid, mode)
	}
	gone(t, second)
}

// An application passes from the server to a keeper, and back.
func TestKeptComesAndGoes(t *testing.T) {
	r := newKeptRig(t, "serve", time.Hour)
	r.opt.Keep = false
	own := r.start()
	first, _ := ask(t, own)
	r.opt.Keep = true
	kept := r.start()
	own.Retire()
	await(t, kept, "not ready", in(Ready))
	second, _ := ask(t, kept)
	gone(t, first)
	r.restart(kept)
	r.opt.Keep = false
	third, _ := ask(t, r.start())
	if first == second || second == third {
		t.Errorf("processes %d, %d, %d", first, second, third)
	}
}

// What no server wants any more ends by itself.
func TestKeptOrphanEnds(t *testing.T) {
	r := newKeptRig(t, "serve", 10*time.Millisecond)
	a := r.start()
	pid, _ := ask(t, a)
	r.restart(a)
	gone(t, pid)
}

// A keeper that ends takes its applications along; the server says what is missing, and
// goes on once there is one.
func TestKeeperEnds(t *testing.T) {
	r := newKeptRig(t, "serve", time.Hour)
	r.sup.Kept.Command = []string{r.sup.Launcher[0], "keeper", "detach", "/proc/nowhere"}
	a := r.start()
	pid, _ := ask(t, a)
	r.stop()
	gone(t, pid)
	i := await(t, a, "has not failed", in(Failed))
	if !strings.Contains(i.Fault, "keeper of applications") {
		t.Error(i.Fault)
	}
}

// Without a keeper the server starts one, which is no child of it; killed, another one
// takes its place. It ends when nobody needs it.
func TestKeeperIsStarted(t *testing.T) {
	r := newRig(t, "serve")
	dir := filepath.Dir(r.opt.Socket)
	r.opt.Keep = true
	r.sup.Kept = KeptBy{Dir: dir, Command: []string{r.sup.Launcher[0], "keeper", "detach", dir}}
	a := r.start()
	await(t, a, "not ready", in(Ready))
	first, _ := ask(t, a)
	keeper := lockHolder(t, dir)
	if parent := parentOf(t, keeper); parent == os.Getpid() {
		t.Error("the keeper is a child of the server")
	}
	if parent := parentOf(t, first); parent != keeper {
		t.Errorf("the application is a child of %d, the keeper is %d", parent, keeper)
	}
	syscall.Kill(keeper, syscall.SIGKILL)
	gone(t, first)
	await(t, a, "not ready again", func(i Info) bool { return i.State == Ready && first != i.PIDs[0] })
	second, _ := ask(t, a)
	a.Retire()
	await(t, a, "not ended", in(Ended))
	gone(t, second)
	gone(t, lockHolder(t, dir))
}

// lockHolder is the process that a lock names.
func lockHolder(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, lockName))
	pid, failed := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || failed != nil {
		t.Fatalf("%q %v", b, err)
	}
	return pid
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	parent, _ := strconv.Atoi(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:]))[1])
	return parent
}

// New processes take the place of what runs, without a gap.
func TestRenew(t *testing.T) {
	r := newKeptRig(t, "serve", time.Hour)
	if _, err := Renew(filepath.Join(r.dir, "elsewhere")); err != errNoKeeper {
		t.Errorf("no keeper: %v", err)
	}
	a := r.start()
	first, _ := ask(t, a)
	n, err := Renew(r.dir)
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	for {
		pid, _ := ask(t, a)
		if pid != first {
			break
		}
	}
	gone(t, first)
	second := await(t, a, "not told", func(i Info) bool { return i.State == Ready && len(i.PIDs) == 1 && i.PIDs[0] != first }).PIDs[0]
	r.restart(a)
	if pid, _ := ask(t, r.start()); pid != second {
		t.Errorf("process %d serves, before it was %d", pid, second)
	}
}

// Two keepers of one directory there are not, and what is in the place of the socket is
// left alone.
func TestOneKeeper(t *testing.T) {
	r := newKeptRig(t, "serve", time.Hour)
	o := KeeperOptions{Dir: r.dir, Log: r.sup.Log}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it does not wait for the other one
	if err := Keep(ctx, o); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d keeps the applications", os.Getpid())) {
		t.Error(err)
	}
	o.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(o.Dir, keeperName), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Keep(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Error(err)
	}
}

// A keeper that is a service of its own takes the place of one that a server has started,
// with what that keeps; the other way round there is no place.
func TestKeeperTakesThePlaceOfOneInTheBackground(t *testing.T) {
	r := newRig(t, "serve")
	dir := filepath.Dir(r.opt.Socket)
	r.opt.Keep = true
	r.sup.Kept = KeptBy{Dir: dir, Command: []string{r.sup.Launcher[0], "keeper", "detach", dir}}
	a := r.start()
	first := await(t, a, "not ready", in(Ready)).PIDs[0]
	background := lockHolder(t, dir)
	k := &keptRig{rig: r, dir: dir}
	ctx, cancel := context.WithCancel(context.Background())
	ready, over := make(chan struct{}), make(chan error, 1)
	go func() {
		over <- Keep(ctx, KeeperOptions{Dir: dir, Launcher: r.sup.Launcher, Log: r.sup.Log, Ready: func() { close(ready) }})
	}()
	select {
	case <-ready:
	case err := <-over:
		cancel()
		t.Fatal(err)
	}
	gone(t, background)
	gone(t, first)
	await(t, a, "not ready again", func(i Info) bool { return i.State == Ready && i.PIDs[0] != first })
	ask(t, a)
	if keeper := lockHolder(t, dir); keeper != os.Getpid() {
		t.Errorf("process %d keeps the application", keeper)
	}
	k.restart(a)
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// What is no server is not served, and disturbs nobody.
func TestKeeperIsAskedNonsense(t *testing.T) {
	r := newKeptRig(t, "serve", time.Hour)
	f := func(text, want string) {
		t.Helper()
		nc, _, err := dialKeeper(r.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(nc, text)
		if b, _ := io.ReadAll(nc); want == "" && len(b) > 0 || !strings.Contains(string(b), want) {
			t.Errorf("%.40q: %q, want %q", text, b, want)
		}
	}
	f("GET / HTTP/1.1\r\n\r\n", "")
	f(strings.Repeat("x", maxLength+10_000), "")
	f("{}\n", "it speaks version 1 of the protocol, the other side 0")
	f(`{"Version":1}`+"\n", "no application is named")
	f(`{"Version":1,"Want":{"Socket":"s","Command":"/bin/true"}}`+"\n", "no application is named")
	f(`{"Version":1,"Want":{"Socket":"/s","Command":"true"}}`+"\n", "no application is named")
	f(`{"Version":1,"Yield":true}`+"\n", "no keeper that a server has started")
	ask(t, r.start())
}

// A keeper of another user is not told what applications are started with.
func TestTrustedKeeper(t *testing.T) {
	for uid, want := range map[uint32]bool{0: true, uint32(os.Geteuid()): true, 12345: os.Geteuid() == 12345} {
		if got := trusted(&unix.Ucred{Uid: uid}); got != want {
			t.Errorf("user %d: %v", uid, got)
		}
	}
}

// The log of the server has what an application of a keeper says, and why it fails.
func TestKeptFails(t *testing.T) {
	r := newKeptRig(t, "exit", time.Hour)
	var log lockedBuffer
	r.sup.Log = slog.New(slog.NewTextHandler(&log, nil))
	a := r.start()
	i := await(t, a, "has not failed", in(Failed))
	if !strings.Contains(i.Fault, "no licence") {
		t.Error(i.Fault)
	}
	await(t, a, "not started again", func(i Info) bool { return i.Restarts >= 2 })
	if _, err := dial(t, a); err == nil {
		t.Error("connected")
	}
	if text := log.String(); !strings.Contains(text, `msg="application says"`) || !strings.Contains(text, "line=\"no licence\"") || !strings.Contains(text, "app=app") {
		t.Error(text)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// One that nobody uses ends, at its keeper too, until it is wanted again.
func TestKeptIdle(t *testing.T) {
	r := newKeptRig(t, "serve", time.Hour)
	r.opt.Idle = 50e6
	a := r.start()
	first, _ := ask(t, a)
	await(t, a, "not stopped", func(i Info) bool { return i.State == Waiting && len(i.PIDs) == 0 })
	gone(t, first)
	if second, _ := ask(t, a); second == first {
		t.Error("the same process")
	}
}
