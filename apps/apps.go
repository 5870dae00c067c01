// Package apps starts applications and keeps them running: a program on a Unix
// socket that httpjet opens and hands over as descriptor 0, as FastCGI and LSAPI
// have it. It proves that one takes connections before it is used, starts it again
// when it ends, and replaces it without a gap. It speaks no protocol beyond that
// proof, knows no configuration, and keeps no pool: a gateway's client dials by
// App.Dial.
//
// A new application listens beside the socket of the one before and takes its name
// only when it is ready; until then, and for as long as it fails, the one before
// serves on.
package apps

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Protocol is what an application speaks.
type Protocol uint8

// The protocols.
const (
	FastCGI Protocol = iota
	LSAPI
)

// Options are the whole identity of an application: with any other value it is
// another one. Lists are joined, so that Options can be compared.
type Options struct {
	Scope, Name string
	Protocol    Protocol
	Socket      string // path; absolute, at most MaxSocket bytes
	Command     string // program, absolute, and its arguments, joined by NUL
	Env         string // NAME=value, joined by NUL; nothing else is passed on

	Instances int           // processes on the socket; 0: one
	Backlog   int           // of the socket; 0: 100
	OnDemand  bool          // started by the first request, not with the server
	Idle      time.Duration // without a connection for so long, it is stopped until one is wanted; 0: never
	Start     time.Duration // time to take the first connection; 0: 60 s
	Limits    Limits
	Identity  Identity
	Keep      bool // it outlives the server, by a keeper, where the supervisor has one
}

// MaxSocket is the longest path of a socket: that of an address, less what the name
// has more while the application is not ready.
const MaxSocket = 107 - suffixLen

// Limits are those of each process. Zeros leave what the server has.
type Limits struct {
	MemSoft, MemHard   uint64 // bytes of address space
	ProcSoft, ProcHard uint64 // processes of its user
	CPUSoft, CPUHard   uint64 // seconds of CPU time
	Nice               int    // nice level, where SetNice
	SetNice            bool
	Umask              int // where SetUmask
	SetUmask           bool
}

// Identity is who the application runs as, without supplementary groups. The zero
// Identity is the server's own.
type Identity struct {
	Set      bool
	UID, GID int
}

// Times of the supervisor.
const (
	debounce    = 10 * time.Second // what ends earlier has failed
	longestWait = 30 * time.Second // between two starts
	drainTime   = 20 * time.Second // for requests in flight with one that is replaced
	termTime    = 5 * time.Second  // between SIGTERM and SIGKILL
	startTime   = 60 * time.Second
)

// State is what an application does.
type State uint8

// The states. Failed is between two starts.
const (
	Waiting State = iota // for a request
	Starting
	Ready
	Failed
	Ending
	Ended
)

// String returns the word of status and metrics.
func (s State) String() string {
	return [...]string{"waiting", "starting", "ready", "failed", "ending", "ended"}[s]
}

// Info is a snapshot of an application.
type Info struct {
	Scope, Name string
	State       State
	PIDs        []int
	Restarts    uint64
	LastExit    string // how the last process ended; "" for none
	Fault       string // why it does not serve; "" if it does
}

// Supervisor owns the goroutines and processes of all applications. Its fields are
// set before the first Start.
type Supervisor struct {
	Log *slog.Logger
	// Launcher is the command that becomes the application by Enter: this program
	// with the words that lead there.
	Launcher []string
	// Predecessor is the process that this one succeeds, 0 for none: the sockets of
	// its applications are taken over.
	Predecessor int
	// Kept is where applications that outlive the server are.
	Kept KeptBy

	mu      sync.Mutex
	holders map[string]*App // the last that was started for a socket
	closed  bool
	running sync.WaitGroup
	quit    chan struct{} // closed by Close
	leaving bool          // the server ends: what is retired now may be wanted by the next
	serial  atomic.Uint64 // of sockets
}

// Start starts a and goes on; a second call is nothing. The application that has
// the same socket, if there is one, serves until a is ready.
func (s *Supervisor) Start(a *App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quit == nil {
		s.quit, s.holders = make(chan struct{}), map[string]*App{}
	}
	if s.closed || a.sup != nil {
		return
	}
	a.mu.Lock()
	a.sup, a.prev = s, s.holders[a.opt.Socket]
	if a.log == nil {
		a.log = s.Log
	}
	a.mu.Unlock()
	s.holders[a.opt.Socket] = a
	s.running.Add(1)
	go a.run()
}

// List tells of the applications that run, and of those that were started last.
func (s *Supervisor) List() []Info {
	s.mu.Lock()
	list := make([]*App, 0, len(s.holders))
	for _, a := range s.holders {
		list = append(list, a)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *App) int {
		return strings.Compare(a.opt.Scope+"\x00"+a.opt.Name, b.opt.Scope+"\x00"+b.opt.Name)
	})
	out := make([]Info, 0, len(list))
	for _, a := range list {
		out = append(out, a.Info())
	}
	return out
}

// Leave says that the server ends: an application that is retired from here on, and may
// outlive the server, is left to the next one.
func (s *Supervisor) Leave() {
	s.mu.Lock()
	s.leaving = true
	s.mu.Unlock()
}

// ends reports whether Leave was called.
func (s *Supervisor) ends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving
}

// Close ends all applications but those that outlive the server, and returns when
// nothing of them is left.
func (s *Supervisor) Close() {
	s.mu.Lock()
	if !s.closed && s.quit != nil {
		close(s.quit)
	}
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
}

// forget takes an application that has ended from the list.
func (s *Supervisor) forget(a *App) {
	s.mu.Lock()
	if s.holders[a.opt.Socket] == a {
		delete(s.holders, a.opt.Socket)
	}
	s.mu.Unlock()
	s.running.Done()
}

// successor is the application that has a's socket now; nil if that is a.
func (s *Supervisor) successor(a *App) *App {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.holders[a.opt.Socket]; b != a {
		return b
	}
	return nil
}

// sleep waits for d, or less if ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
