package apps

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"httpjet/exchange"
)

func TestServesUntilTheServerEnds(t *testing.T) {
	r := newRig(t, "serve")
	a := r.start()
	pid, _ := ask(t, a)
	i := a.Info()
	if i.State != Ready || len(i.PIDs) != 1 || i.PIDs[0] != pid || i.Fault != "" {
		t.Errorf("%+v, served by %d", i, pid)
	}
	info, err := os.Stat(r.opt.Socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", info, err)
	}
	r.sup.Close()
	gone(t, pid)
	if s := a.Info().State; s != Ended {
		t.Errorf("state %s", s)
	}
	if _, err := dial(t, a); err == nil {
		t.Error("a connection to an application that has ended")
	}
}

func TestProvesLSAPI(t *testing.T) {
	r := newRig(t, "serve")
	r.opt.Protocol = LSAPI
	await(t, r.start(), "not ready", in(Ready))
}

// R-LSAPI-4: an LSAPI program is ready when it has answered a request; that it reads one
// is not enough.
func TestLSAPINeedsAnAnswer(t *testing.T) {
	for _, mode := range []string{"silent", "garbage"} {
		r := newRig(t, mode)
		r.opt.Protocol, r.opt.Start = LSAPI, 300*time.Millisecond
		a := r.start()
		await(t, a, "ready", in(Failed))
		if f := a.Info().Fault; !strings.Contains(f, "answered no request within") {
			t.Errorf("%s: %s", mode, f)
		}
	}
}

// R-LSAPI-4: the children of an LSAPI program that is to end may end what they do.
func TestLSAPIEndsGracefully(t *testing.T) {
	r := newRig(t, "worker")
	r.opt.Protocol = LSAPI
	a := r.start()
	leader := await(t, a, "not ready", in(Ready)).PIDs[0]
	child, err := strconv.Atoi(content(t, r.file))
	if err != nil {
		t.Fatal(err)
	}
	a.Retire()
	await(t, a, "not ending", in(Ending))
	// The leader leaves and waits to be reaped; its child is left alone until it is done.
	for exists(leader) {
		poll(-1, 5e6)
	}
	if !exists(child) {
		t.Error("the child was not let")
	}
	syscall.Kill(child, syscall.SIGHUP)
	gone(t, child)
	await(t, a, "not ended", in(Ended))
	if said := content(t, r.file+".done"); said != "hangup" {
		t.Errorf("it ended by %s", said)
	}
}

// exists reports whether a process runs, and has not just ended.
func exists(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

func TestInstancesShareTheSocket(t *testing.T) {
	r := newRig(t, "serve")
	r.opt.Instances = 3
	a := r.start()
	ask(t, a)
	i := a.Info()
	if len(i.PIDs) != 3 {
		t.Fatalf("%d processes", len(i.PIDs))
	}
	// One that dies is replaced while the others serve.
	syscall.Kill(i.PIDs[1], syscall.SIGKILL)
	gone(t, i.PIDs[1])
	ask(t, a)
	for next := a.Info(); next.Restarts == 0 || len(next.PIDs) != 3; next = a.Info() {
		poll(-1, 5e6)
	}
	if s := a.Info().State; s != Ready {
		t.Errorf("state %s", s)
	}
}

// A slow start: who dials waits, and is served.
func TestSlowStart(t *testing.T) {
	r := newRig(t, "slow")
	a := r.start()
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, mode := ask(t, a); mode != "slow" {
				t.Error(mode)
			}
		})
	}
	await(t, a, "not starting", func(i Info) bool { return i.State == Starting })
	os.WriteFile(r.file, nil, 0o600)
	wg.Wait()
}

func TestFaults(t *testing.T) {
	notExecutable := t.TempDir() + "/program"
	if err := os.WriteFile(notExecutable, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(name, mode string, change func(*rig), want ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			r := newRig(t, mode)
			if change != nil {
				change(r)
			}
			a := r.start()
			i := await(t, a, "has not failed", in(Failed))
			for _, w := range want {
				if !strings.Contains(i.Fault, w) {
					t.Errorf("fault %q, want %q in it", i.Fault, w)
				}
			}
			_, err := dial(t, a)
			e, ok := errors.AsType[*exchange.Error](err)
			if !ok || e.Status != 503 || len(e.Fields) != 1 || e.Fields[0].Name != "Retry-After" {
				t.Fatalf("dial: %v", err)
			}
			if n, err := strconv.Atoi(e.Fields[0].Value); err != nil || n < 1 || n > 31 {
				t.Errorf("Retry-After %q", e.Fields[0].Value)
			}
		})
	}
	f("exit at once", "exit", nil, "exit status 3", "no licence")
	f("not found", "serve", func(r *rig) { r.opt.Command = "/nowhere/program" }, "command not found: /nowhere/program")
	f("not executable", "serve", func(r *rig) { r.opt.Command = notExecutable }, "not executable: "+notExecutable)
	f("a directory", "serve", func(r *rig) { r.opt.Command = "/tmp" }, "not a program")
	f("no connection taken", "mute", func(r *rig) { r.opt.Start = 200e6 }, "took no connection within 200ms")
	f("path too long", "serve", func(r *rig) { r.opt.Socket = "/tmp/" + strings.Repeat("x", MaxSocket) }, "longer than 103 bytes")
	f("limits refused", "serve", func(r *rig) {
		r.opt.Limits.SetNice, r.opt.Limits.Nice = true, 5
		r.opt.Identity = Identity{Set: true, UID: -1, GID: -1}
	}, "exit status 126")
}

func TestKeepsAFileThatIsNoSocket(t *testing.T) {
	r := newRig(t, "serve")
	if err := os.WriteFile(r.opt.Socket, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	i := await(t, r.start(), "has not failed", in(Failed))
	if b, _ := os.ReadFile(r.opt.Socket); string(b) != "mine" || !strings.Contains(i.Fault, "is no socket") {
		t.Errorf("file %q, fault %q", b, i.Fault)
	}
}

// A foreign process at the socket is told by its number and left alone; once it is
// gone, the application takes the place.
func TestForeignProcessOnTheSocket(t *testing.T) {
	r := newRig(t, "serve")
	ln, err := net.Listen("unix", r.opt.Socket)
	if err != nil {
		t.Fatal(err)
	}
	a := r.start()
	i := await(t, a, "has not failed", in(Failed))
	if want := "in use by process " + strconv.Itoa(os.Getpid()); !strings.Contains(i.Fault, want) {
		t.Errorf("fault %q, want %q", i.Fault, want)
	}
	ln.Close()
	await(t, a, "not ready", in(Ready))
}

func TestStaleSocket(t *testing.T) {
	r := newRig(t, "serve")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.opt.Socket})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	ask(t, r.start())
}

// SIGKILL while requests wait: those in the process are cut, the next process
// serves what comes then, without a wait.
func TestKilledWhileRequestsWait(t *testing.T) {
	r := newRig(t, "serve")
	a := r.start()
	nc, err := dial(t, a)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	pid, _ := question(t, nc)
	syscall.Kill(pid, syscall.SIGKILL)
	if n, err := nc.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes of a killed process", n)
	}
	gone(t, pid)
	next, _ := ask(t, a)
	if i := a.Info(); next == pid || i.Restarts != 1 || !strings.Contains(i.LastExit, "signal 9") {
		t.Errorf("%+v, pid %d", i, next)
	}
}

// A restart storm is none: what ends at once is started at growing intervals.
func TestRestartStorm(t *testing.T) {
	r := newRig(t, "count")
	a := r.start()
	await(t, a, "does not fail", func(i Info) bool { return i.State == Failed && i.Restarts >= 3 })
	a.mu.Lock()
	again := a.again
	a.mu.Unlock()
	if b, _ := os.ReadFile(r.file); len(b) != 3 {
		t.Errorf("%d starts for 3 restarts", len(b))
	}
	for range 100 { // requests start nothing
		if _, err := dial(t, a); err == nil {
			t.Fatal("connected")
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != Failed || !a.again.Equal(again) {
		t.Errorf("requests changed the next start: %s", a.state)
	}
}

func TestGroupIsKilledAsAWhole(t *testing.T) {
	r := newRig(t, "family")
	a := r.start()
	ask(t, a)
	child, err := strconv.Atoi(content(t, r.file))
	if err != nil {
		t.Fatal(err)
	}
	r.sup.Close()
	gone(t, child)
}

// Children that lead sessions of their own, as those of lsphp: they end with the
// leader too, however it ends.
func TestChildrenInOtherSessionsEnd(t *testing.T) {
	r := newRig(t, "session")
	a := r.start()
	await(t, a, "not ready", in(Ready))
	child, err := strconv.Atoi(content(t, r.file))
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(a.Info().PIDs[0], syscall.SIGKILL)
	gone(t, child)
}

func TestOnDemandAndIdle(t *testing.T) {
	r := newRig(t, "serve")
	r.opt.OnDemand, r.opt.Idle = true, 50e6
	a := r.start()
	await(t, a, "does not wait", in(Waiting))
	if _, err := os.Stat(r.opt.Socket); err == nil {
		t.Error("started without a request")
	}
	first, _ := ask(t, a)
	await(t, a, "not stopped", func(i Info) bool { return i.State == Waiting && len(i.PIDs) == 0 })
	gone(t, first)
	if second, _ := ask(t, a); second == first {
		t.Error("the same process")
	}
}

// Limits, environment and a group of its own; nothing of the server's environment.
func TestWhatAProcessIsGiven(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SERVER", "x")
	r := newRig(t, "limits")
	r.opt.Limits = Limits{MemSoft: 3 << 30, MemHard: 4 << 30, ProcSoft: 5000, ProcHard: 6000, SetNice: true, Nice: 7, SetUmask: true, Umask: 0o27}
	r.start()
	got := content(t, r.file)
	for _, want := range []string{"mem 3221225472 4294967296 ", "procs 5000 6000 ", "nice 7 ", "umask 27 ", "leads true ", "env APPS_TEST=limits,APPS_TEST_FILE=" + r.file} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %q in it", got, want)
		}
	}
	if strings.Contains(got, "SECRET") || strings.Contains(got, orderVariable) {
		t.Error(got)
	}
}
