package apps

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is one process of an application, the leader of a group of its own.
type process struct {
	cmd   *exec.Cmd
	out   *os.File // what it writes to standard output and error
	began time.Time
	log   *slog.Logger
	how   string // it ended; set before wait reports it
	link  string // what a descriptor of out reads as in /proc
	last  string // line that it wrote; owned by read until it is over

	graceful atomic.Bool   // its children may end what they do, until cut
	cut      chan struct{} // closed by kill
	once     sync.Once
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// program is the path of the program.
func (o *Options) program() string {
	path, _, _ := strings.Cut(o.Command, "\x00")
	return path
}

// runnable says why a program cannot be started, before anything is.
func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("command not found: %s", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("not a program: %s", path)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("not executable: %s", path)
	}
	return nil
}

// launch starts a process by way of the launcher.
func (a *App) launch() (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", w.Fd()))
	if err != nil {
		r.Close()
		return nil, err
	}
	cmd := &exec.Cmd{Path: a.sup.Launcher[0], Args: append([]string{"httpjet"}, a.sup.Launcher[1:]...)}
	if a.opt.Env != "" {
		cmd.Env = strings.Split(a.opt.Env, "\x00")
	}
	cmd.Env = append(cmd.Env, orderOf(a.opt).String())
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.socket.file, w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", a.opt.program(), err)
	}
	return &process{cmd: cmd, out: r, link: link, began: time.Now(), cut: make(chan struct{}), log: a.log.With("app", a.opt.Name, "pid", cmd.Process.Pid)}, nil
}

// wait reaps the process, kills what is left of its group, and reports.
func (p *process) wait(exits chan<- *process) {
	read := make(chan struct{})
	go p.read(read)
	// The group is killed while the leader still holds its number.
	for unix.Waitid(unix.P_PID, p.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	if p.graceful.Load() { // the pipe ends with the last of its children
		select {
		case <-read:
		case <-p.cut:
		}
	}
	p.kill()
	p.sweep(unix.SIGKILL)
	p.cmd.Wait()
	p.out.SetReadDeadline(time.Now().Add(time.Second)) // a process that left the group may hold it
	<-read
	p.out.Close()
	p.how = describe(p.cmd.ProcessState)
	if p.last != "" {
		p.how += "; it said: " + p.last
	}
	exits <- p
}

// describe says how a process ended.
func describe(s *os.ProcessState) string {
	if s == nil {
		return "not known how"
	}
	w, _ := s.Sys().(syscall.WaitStatus)
	switch {
	case w.Signaled():
		return fmt.Sprintf("signal %d (%s)", int(w.Signal()), w.Signal())
	case w.ExitStatus() == exitNotFound:
		return "exit status 127 (not found, or its interpreter)"
	default:
		return fmt.Sprintf("exit status %d", w.ExitStatus())
	}
}

// Bounds on what an application may say: of a line, and of lines a second.
const (
	maxLine  = 2 << 10
	maxLines = 50
)

// read passes on what the process writes, line by line.
func (p *process) read(done chan<- struct{}) {
	defer close(done)
	br := bufio.NewReaderSize(p.out, maxLine)
	second, n, whole := time.Time{}, 0, true
	for {
		line, err := br.ReadSlice('\n')
		text, begins := strings.TrimSpace(string(line)), whole
		whole = !errors.Is(err, bufio.ErrBufferFull) // the rest of a long line is dropped
		if text != "" && begins {
			p.last = text[:min(len(text), 200)]
			now := time.Now()
			if now.Sub(second) >= time.Second {
				second, n = now, 0
			}
			if n++; n <= maxLines {
				p.log.Warn("application says", "line", text)
			}
		}
		if err != nil && whole {
			return
		}
	}
}

// sweep signals every process but this one that writes where p did. The children of
// lsphp lead sessions of their own, so the end of p's group spares them; but its
// pipe is p's alone, and only what comes from p has it.
func (p *process) sweep(signal unix.Signal) {
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range found {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() || !p.writes(dir) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if p.writes(dir) { // still: the number may have passed on before it was opened
			unix.PidfdSendSignal(fd, signal, nil, 0)
		}
		unix.Close(fd)
	}
}

// writes reports whether standard output or error of a process is p's.
func (p *process) writes(dir string) bool {
	for _, n := range []string{"1", "2"} {
		if link, err := os.Readlink(filepath.Join(dir, "fd", n)); err == nil && link == p.link {
			return true
		}
	}
	return false
}

// retire asks an LSAPI program to end without taking anything new: its parent leaves at
// once, its children when they are done with what they have.
func (p *process) retire() {
	p.graceful.Store(true)
	p.cmd.Process.Signal(syscall.SIGUSR1)
}

// terminate asks the group to end, and what comes from it in sessions of its own.
func (p *process) terminate() {
	syscall.Kill(-p.pid(), syscall.SIGTERM)
	if p.graceful.Load() {
		p.sweep(unix.SIGTERM)
	}
}

// kill ends the group; wait then ends the rest.
func (p *process) kill() {
	p.once.Do(func() { close(p.cut) })
	syscall.Kill(-p.pid(), syscall.SIGKILL)
}
