package apps

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"httpjet/lsapi/lsapitest"
)

// TestMain is the launcher and, by its variable, each application of the tests too.
func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(orderVariable); ok {
		os.Exit(Enter())
	}
	if len(os.Args) == 4 && os.Args[1] == "keeper" { // and the keeper, which it starts in the background
		os.Exit(keeperProcess(os.Args[2], os.Args[3]))
	}
	if mode := os.Getenv("APPS_TEST"); mode != "" {
		application(mode, os.Getenv("APPS_TEST_FILE"))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// application is what the tests start.
func application(mode, file string) {
	switch mode {
	case "exit":
		fmt.Fprintln(os.Stderr, "no licence")
		os.Exit(3)
	case "count": // its starts, and ends
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			f.WriteString("x")
		}
		os.Exit(1)
	case "slow": // until the file is there
		for {
			if _, err := os.Stat(file); err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond) // this is the application, which nobody waits for by time
		}
	case "mute": // an empty select would be found to be a deadlock
		held := make(chan os.Signal, 1)
		signal.Notify(held, syscall.SIGUSR2)
		<-held
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "session": // a process in a session of its own
		cmd := exec.Command("/proc/self/exe")
		cmd.Env, cmd.Stdin, cmd.Stdout = []string{"APPS_TEST=mute"}, os.Stdin, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() == nil {
			os.WriteFile(file+".part", fmt.Append(nil, cmd.Process.Pid), 0o600)
			os.Rename(file+".part", file)
		}
	case "finish": // what is left to do, in a session of its own, and how it was let
		done := make(chan os.Signal, 1)
		signal.Notify(done, syscall.SIGHUP, syscall.SIGTERM)
		os.WriteFile(file+".part", fmt.Append(nil, os.Getpid()), 0o600)
		os.Rename(file+".part", file)
		os.WriteFile(file+".part", fmt.Append(nil, <-done), 0o600)
		os.Rename(file+".part", file+".done")
		os.Exit(0)
	case "worker": // its leader leaves at SIGUSR1, as that of lsphp does
		cmd := exec.Command("/proc/self/exe")
		cmd.Env, cmd.Stdin, cmd.Stdout = []string{"APPS_TEST=finish", "APPS_TEST_FILE=" + file}, os.Stdin, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Start()
	case "family": // a process in its group that outlives it, if it is let
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{"APPS_TEST=mute"}
		if cmd.Start() == nil {
			os.WriteFile(file+".part", fmt.Append(nil, cmd.Process.Pid), 0o600)
			os.Rename(file+".part", file)
		}
	case "limits":
		tell(file)
	}
	ln, err := net.FileListener(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() { // Go programs do not end by it of themselves
		leave := make(chan os.Signal, 1)
		signal.Notify(leave, syscall.SIGUSR1)
		<-leave
		os.Exit(0)
	}()
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		go func() { // "pid": its number and mode. "hold": an answer at its end
			defer nc.Close()
			br := bufio.NewReader(nc)
			for {
				b, err := br.ReadByte()
				if b == 'L' { // an LSAPI request, which is ours to have right
					answerLSAPI(nc, br, mode, file)
					return
				}
				if err != nil || b != 'p' && b != 'h' {
					return
				}
				br.ReadString('\n')
				if b == 'p' {
					fmt.Fprintf(nc, "%d %s\n", os.Getpid(), mode)
				}
			}
		}()
	}
}

// answerLSAPI says that a request was read, as lsphp does, or what else mode makes of it.
func answerLSAPI(nc net.Conn, br *bufio.Reader, mode, file string) {
	br.UnreadByte()
	q, err := lsapitest.Read(br)
	switch {
	case err != nil || q.Method != "GET" || strings.Join(q.Special, ";") != "\x01\x01engine=0":
		fmt.Fprintf(os.Stderr, "question %+v, %v\n", q, err)
	case mode == "silent": // it reads, and that is all
		io.Copy(io.Discard, br)
	case mode == "garbage":
		io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\n\r\n")
	default:
		nc.Write(lsapitest.Reply(403, ""))
	}
}

// tell writes what the process was given.
func tell(file string) {
	var mem, procs syscall.Rlimit
	syscall.Getrlimit(syscall.RLIMIT_AS, &mem)
	syscall.Getrlimit(6, &procs) // RLIMIT_NPROC
	nice, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	groups, _ := syscall.Getgroups()
	status, _ := os.ReadFile("/proc/self/stat")
	pgrp := strings.Fields(string(status[strings.LastIndexByte(string(status), ')')+2:]))[2]
	mask := syscall.Umask(0)
	text := fmt.Sprintf("mem %d %d procs %d %d nice %d umask %o uid %d gid %d groups %v leads %v env %s",
		mem.Cur, mem.Max, procs.Cur, procs.Max, 20-nice, mask, os.Geteuid(), os.Getegid(), groups,
		pgrp == fmt.Sprint(os.Getpid()), strings.Join(os.Environ(), ","))
	syscall.Umask(mask)
	os.WriteFile(file+".part", []byte(text), 0o600)
	os.Rename(file+".part", file)
}

// rig is a supervisor with the options of an application.
type rig struct {
	t    *testing.T
	sup  *Supervisor
	opt  Options
	file string
}

func newRig(t *testing.T, mode string) *rig {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "apps") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, sup: &Supervisor{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Launcher: []string{self}}, file: filepath.Join(dir, "file")}
	r.opt = Options{Name: "app", Socket: filepath.Join(dir, "s"), Command: self, Env: r.env(mode)}
	t.Cleanup(func() {
		r.sup.Close()
		if left, _ := filepath.Glob(filepath.Join(dir, "s*")); len(left) > 0 && !strings.HasPrefix(t.Name(), "TestKeeps") {
			t.Errorf("left behind: %v", left)
		}
		os.RemoveAll(dir)
	})
	return r
}

func (r *rig) env(mode string) string { return "APPS_TEST=" + mode + "\x00APPS_TEST_FILE=" + r.file }

func (r *rig) start() *App {
	a := New(r.opt)
	r.sup.Start(a)
	return a
}

// await waits until the application is in a state.
func await(t *testing.T, a *App, what string, is func(Info) bool) Info {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		i := a.Info()
		if is(i) {
			return i
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("%s: %+v", what, i)
		}
	}
}

func in(s State) func(Info) bool { return func(i Info) bool { return i.State == s } }

// dial connects, with a minute for everything.
func dial(t *testing.T, a *App) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nc, err := a.Dial(ctx, "", "")
	if err == nil {
		nc.SetDeadline(time.Now().Add(time.Minute))
	}
	return nc, err
}

// ask returns the number and mode of the process that answers.
func ask(t *testing.T, a *App) (pid int, mode string) {
	t.Helper()
	nc, err := dial(t, a)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	return question(t, nc)
}

func question(t *testing.T, nc net.Conn) (pid int, mode string) {
	t.Helper()
	io.WriteString(nc, "pid\n")
	if _, err := fmt.Fscan(nc, &pid, &mode); err != nil {
		t.Fatal(err)
	}
	return pid, mode
}

// gone waits until a process is no more.
func gone(t *testing.T, pid int) {
	t.Helper()
	fd, err := pidfd(pid)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	if !poll(fd, time.Minute) {
		t.Errorf("process %d is still there", pid)
	}
}

// content waits for a file and returns it.
func content(t *testing.T, file string) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); poll(-1, 5*time.Millisecond) {
		if b, err := os.ReadFile(file); err == nil {
			return string(b)
		}
	}
	t.Fatalf("%s does not appear", file)
	return ""
}
