package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"httpjet/server"
)

// process is a running httpjet. Its standard error is its log, by lines.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; exit is then set
	exit int
	heir *os.Process // that serves since an upgrade; nil: cmd does

	outcome int // first line behind the outcome of the last reload, or of the start

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced with every line
}

// serve starts "httpjet serve" in the script's directory and returns when it is
// ready.
func launch(dir string, args []string) (*process, error) {
	cmd := exec.Command("httpjet", args...)
	cmd.Dir = dir
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{}), more: make(chan struct{})}
	go p.follow(stderr)
	i, err := p.await(0, `INFO ready`)
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("%w; it said:\n%s", err, p.text())
	}
	p.outcome = i + 1
	return p, nil
}

func (p *process) follow(stderr io.Reader) {
	in := bufio.NewScanner(stderr)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, in.Text())
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
	p.cmd.Wait()
	p.exit = p.cmd.ProcessState.ExitCode()
	close(p.done)
}

// await returns the index of the first line from from on that matches expr.
func (p *process) await(from int, expr string) (int, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return 0, err
	}
	deadline := time.After(patience)
	for ended := false; ; {
		p.mu.Lock()
		if i := slices.IndexFunc(p.lines[from:], re.MatchString); i >= 0 {
			p.mu.Unlock()
			return from + i, nil
		}
		from = len(p.lines)
		more := p.more
		p.mu.Unlock()
		if ended {
			return 0, errors.New("httpjet ended")
		}
		select {
		case <-more:
		case <-p.done:
			ended = true // one more look: lines come before the end
		case <-deadline:
			return 0, fmt.Errorf("the log has no line %s after %v", expr, patience)
		}
	}
}

func (p *process) line(i int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines[i]
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n") + "\n"
}

// address of a listener by its name, where it was announced last; "" for the one
// that was announced first.
func (p *process) address(listener string) (address string, secure bool, err error) {
	all := regexp.MustCompile(`(?m) listening listener=(\S+) address=(\S+) secure=(\S+)`).FindAllStringSubmatch(p.text(), -1)
	if listener != "" {
		slices.Reverse(all)
	}
	for _, m := range all {
		if listener == "" || m[1] == listener {
			return m[2], m[3] == "true", nil
		}
	}
	return "", false, fmt.Errorf("no listener %q was announced", listener)
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	if p.heir != nil {
		p.heir.Kill()
	}
	<-p.done
}

// serves is the process that serves.
func (p *process) serves() *os.Process {
	if p.heir != nil {
		return p.heir
	}
	return p.cmd.Process
}

// running is the server of the script, which must live.
func running(ts *testscript.TestScript) *process {
	p := of(ts).server
	if p == nil {
		ts.Fatalf("serve comes first")
	}
	return p
}

// serve ROOT [argument...]: runs "httpjet --root ROOT serve argument..." until
// the end of the script and waits until it is ready. The management listener is off
// unless --metrics-addr is given; "--metrics-addr default" gives none, so that the
// tree decides.
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, -1, "serve ROOT [argument...]")
	s := of(ts)
	if s.server != nil {
		s.server.kill()
	}
	line := append([]string{"--root", ts.MkAbs(args[0]), "serve"}, args[1:]...)
	switch i := slices.IndexFunc(line, func(a string) bool { return strings.HasPrefix(a, "--metrics-addr") }); {
	case i < 0:
		line = append(line, "--metrics-addr=")
	case i+1 < len(line) && line[i+1] == "default":
		line = slices.Delete(line, i, i+2)
	}
	if !slices.Contains(args, "--watch") { // a script changes files, and then reloads
		line = append(line, "--watch=false")
	}
	p, err := launch(s.work, line)
	if err == nil {
		s.server = p
		fmt.Fprint(ts.Stderr(), p.text())
	}
	outcome(ts, neg, err)
}

// reload [--watched]: sends SIGHUP and waits for the outcome, which is written to
// standard output. A refusal fails the command. --watched sends nothing: the
// server is to notice by itself what has changed since the outcome before.
func cmdReload(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 0, 1, "reload [--watched]")
	p := running(ts)
	from := p.outcome
	if len(args) == 0 {
		p.mu.Lock()
		from = len(p.lines)
		p.mu.Unlock()
		ts.Check(p.serves().Signal(syscall.SIGHUP))
	}
	i, err := p.await(from, `INFO published|ERROR reload refused`)
	ts.Check(err)
	p.outcome = i + 1
	fmt.Fprintln(ts.Stdout(), strings.Join(strings.SplitAfter(p.text(), "\n")[from:i+1], ""))
	if strings.Contains(p.line(i), "refused") {
		err = errors.New(p.line(i))
	}
	outcome(ts, neg, err)
}

var signals = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "UPGRADE": server.Upgrade}

// signal NAME: TERM, INT, USR1, USR2 or UPGRADE to the server.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "signal NAME")
	sig, ok := signals[args[0]]
	if !ok {
		ts.Fatalf("signal %s is unknown", args[0])
	}
	outcome(ts, neg, running(ts).serves().Signal(sig))
}

// upgraded: waits for the next successor of the server, which later commands are about.
func cmdUpgraded(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 0, 0, "upgraded")
	p := running(ts)
	i, err := p.await(p.outcome, `INFO upgraded: .*pid=\d+`)
	ts.Check(err)
	p.outcome = i + 1
	line := p.line(i)
	pid, err := strconv.Atoi(line[strings.LastIndexByte(line, '=')+1:])
	ts.Check(err)
	p.heir, err = os.FindProcess(pid)
	ts.Check(err)
	outcome(ts, neg, nil)
}

// wait-exit CODE: the server ends with that code.
func cmdWaitExit(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "wait-exit CODE")
	p := running(ts)
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("httpjet still runs after %v", patience)
	}
	var err error
	if got := strconv.Itoa(p.exit); got != args[0] {
		err = fmt.Errorf("exit code %s, want %s", got, args[0])
	}
	outcome(ts, neg, err)
}

// log REGEXP: waits for a line of the server's log. Negated: there is none yet.
func cmdLog(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "log REGEXP")
	p := running(ts)
	if !neg {
		_, err := p.await(0, args[0])
		outcome(ts, false, err)
		return
	}
	if m := regexp.MustCompile(`(?m)^.*(` + args[0] + `).*$`).FindString(p.text()); m != "" {
		ts.Fatalf("the log says: %s", m)
	}
}

// metric NAME VALUE: the series comes to have the value. Counters move after the
// last byte, so a client may be ahead of them.
func cmdMetric(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 2, 2, "metric NAME VALUE")
	address, _, err := running(ts).address("metrics")
	ts.Check(err)
	got := "absent"
	ok := eventually(func() bool {
		resp, err := http.Get("http://" + address + "/metrics")
		ts.Check(err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		ts.Check(err)
		if m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(args[0]) + ` (.*)$`).FindSubmatch(text); m != nil {
			got = string(m[1])
		}
		return got == args[1]
	})
	if !ok {
		err = fmt.Errorf("%s is %s, want %s", args[0], got, args[1])
	}
	outcome(ts, neg, err)
}
