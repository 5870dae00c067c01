package main

import (
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the golden parts of scripts")

// TestMain makes the test binary serve as httpjet for the scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"httpjet": main, "fcgi-application": application})
}

// TestScripts runs whole sessions with the program: see testdata/script. Its
// commands are described at their functions here.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "../../testdata/script",
		Setup:              setup,
		UpdateScripts:      *update,
		RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// script_server_test.go
			"serve": cmdServe, "reload": cmdReload, "signal": cmdSignal, "wait-exit": cmdWaitExit, "upgraded": cmdUpgraded,
			"log": cmdLog, "metric": cmdMetric,
			// script_backend_test.go
			"backend": cmdBackend, "kill-backend": cmdKill, "behave": cmdBehave, "await": cmdAwait, "release": cmdRelease, "requests": cmdRequests,
			// script_client_test.go
			"get": cmdGet, "until": cmdUntil, "start": cmdStart, "finish": cmdFinish, "leave": cmdLeave, "cookie": cmdCookie, "raw": cmdRaw, "idle": cmdIdle, "gone": cmdGone, "ws": cmdWS, "open": cmdOpen, "say": cmdSay, "ended": cmdEnded,
			// script_files_test.go
			"subst": cmdSubst, "port": cmdPort, "occupy": cmdOccupy, "keypair": cmdKeypair, "holds": cmdHolds, "exits": cmdExits,
		},
	})
}

// patience is how long an event may take to come. It is never waited for where
// the event comes.
const patience = 30 * time.Second

// session is what one script has running.
type session struct {
	work     string
	loopback string // an address of 127.0.0.0/8 of its own, so that ports are free

	vars     map[string]string // for subst
	roots    *x509.CertPool
	server   *process
	backends map[string]*backend
	requests map[string]*started
	idle     map[string]net.Conn
	sockets  map[string]*websocket.Conn
	closers  []io.Closer
}

type sessionKey struct{}

func of(ts *testscript.TestScript) *session { return ts.Value(sessionKey{}).(*session) }

// sessions numbers the sessions of the test process.
var sessions atomic.Int32

func setup(env *testscript.Env) error {
	n, pid := sessions.Add(1), os.Getpid()
	s := &session{
		work: env.WorkDir, loopback: fmt.Sprintf("127.%d.%d.%d", 1+pid%200, 1+pid/200%200, n%250+1),
		vars: map[string]string{}, roots: x509.NewCertPool(), backends: map[string]*backend{},
		requests: map[string]*started{}, idle: map[string]net.Conn{}, sockets: map[string]*websocket.Conn{},
	}
	path, err := exec.LookPath("fcgi-application")
	if err != nil {
		return err
	}
	s.vars["APPLICATION"] = path // application, as a program
	env.Values[sessionKey{}] = s
	env.Defer(func() { s.end(env.T()) })
	return nil
}

// end stops everything and reports what the server should never say.
func (s *session) end(t testscript.T) {
	for _, c := range s.closers {
		c.Close()
	}
	for _, c := range s.idle {
		c.Close()
	}
	if s.server != nil {
		s.server.kill()
	}
	for _, b := range s.backends {
		b.stop()
	}
	for _, r := range s.requests {
		<-r.done
	}
	if s.server == nil {
		return
	}
	text := s.server.text()
	if t.Verbose() {
		t.Log("[log]\n" + text)
	}
	if m := regexp.MustCompile(`(?m)^.*(panic|BUG|DATA RACE|goroutine \d+ \[).*$`).FindString(text); m != "" {
		t.Fatal("the server's log says: " + m + "\n" + text)
	}
}

// set makes a variable known to the script and to subst.
func (s *session) set(ts *testscript.TestScript, name, value string) {
	s.vars[name] = value
	ts.Setenv(name, value)
}

// eventually repeats try until it holds or patience ends.
func eventually(try func() bool) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !try() {
		select {
		case <-tick.C:
		case <-deadline:
			return try()
		}
	}
	return true
}

// usage checks the number of arguments: least to most (-1: any number).
func usage(ts *testscript.TestScript, args []string, least, most int, text string) {
	if len(args) < least || most >= 0 && len(args) > most {
		ts.Fatalf("usage: %s", text)
	}
}

// outcome ends a command that may be negated: err is what happened.
func outcome(ts *testscript.TestScript, neg bool, err error) {
	switch {
	case err == nil && neg:
		ts.Fatalf("succeeded, which it must not")
	case err != nil && !neg:
		ts.Fatalf("%v", err)
	case err != nil:
		fmt.Fprintln(ts.Stderr(), strings.TrimSpace(err.Error()))
	}
}
