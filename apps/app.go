package apps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"httpjet/exchange"
)

// App is one application. It may be used by many goroutines.
type App struct {
	opt    Options
	retire chan struct{} // closed by Retire
	wanted chan struct{} // room for one: a request waits for the start

	shared bool         // other processes connect to it, not by Dial
	over   []int        // processes besides the predecessor whose socket it may take over
	log    *slog.Logger // the supervisor's, unless it has its own
	left   bool         // it was retired because the server ends; set before retire is closed

	mu       sync.Mutex
	sup      *Supervisor // nil before Start
	prev     *App        // serves until this one is ready
	state    State
	changed  chan struct{} // closed by the next change of state or conns
	fault    error         // while Failed
	again    time.Time     // the next start, while Failed
	conns    int           // open ones
	since    time.Time     // of the last one that was closed, or of being ready
	pids     []int
	restarts uint64
	lastExit string
	once     sync.Once
	claimed  bool // it runs at a keeper, which holds its socket

	socket *socket // owned by the goroutine of run; nil: none
}

// New returns an application that nobody has started. It opens nothing.
func New(o Options) *App {
	if o.Instances <= 0 {
		o.Instances = 1
	}
	if o.Backlog <= 0 {
		o.Backlog = 100
	}
	if o.Start <= 0 {
		o.Start = startTime
	}
	a := &App{opt: o, retire: make(chan struct{}), wanted: make(chan struct{}, 1), changed: make(chan struct{})}
	if !o.OnDemand {
		a.state = Starting // one before it is not to end earlier than it serves
	}
	return a
}

// Options are those it was made of, with their defaults.
func (a *App) Options() Options { return a.opt }

// Retire ends the application once its successor is ready and its requests are
// over. It does not wait.
func (a *App) Retire() {
	a.once.Do(func() {
		a.mu.Lock()
		s := a.sup
		a.mu.Unlock()
		a.left = s != nil && s.ends()
		close(a.retire)
	})
}

// Info returns a snapshot.
func (a *App) Info() Info {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := Info{Scope: a.opt.Scope, Name: a.opt.Name, State: a.state, PIDs: append([]int(nil), a.pids...), Restarts: a.restarts, LastExit: a.lastExit}
	if a.fault != nil {
		i.Fault = a.fault.Error()
	}
	return i
}

// Dial connects to the application. It waits while one starts, until ctx is done.
// Its error for one that has failed is an *exchange.Error of status 503 with
// Retry-After; network and address are known already.
func (a *App) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	for {
		a.mu.Lock()
		state, changed, prev := a.state, a.changed, a.prev
		if state == Ready || state == Ending && (a.socket != nil || a.claimed) {
			a.conns++
			a.mu.Unlock()
			return a.connect(ctx)
		}
		fault, again := a.fault, a.again
		a.mu.Unlock()
		if p := serving(prev); p != nil {
			return p.Dial(ctx, "", "")
		}
		switch state {
		case Failed:
			wait := max(1, int(time.Until(again)/time.Second)+1)
			return nil, &exchange.Error{Status: 503, Err: fault, Fields: []exchange.Field{{Name: "Retry-After", Value: strconv.Itoa(wait)}}}
		case Ending, Ended:
			return nil, errors.New("the application has ended")
		case Waiting:
			select {
			case a.wanted <- struct{}{}:
			default:
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("the application is still %s: %w", state, ctx.Err())
		}
	}
}

// backlogWait is the pause between two attempts at a socket whose backlog is full: Linux
// does not wait for room in it, as it does for TCP.
const backlogWait = 10 * time.Millisecond

// serving finds the application that serves in the place of those that were
// started for its socket later.
func serving(a *App) *App {
	for a != nil {
		a.mu.Lock()
		state, prev := a.state, a.prev
		a.mu.Unlock()
		if state == Ready {
			return a
		}
		a = prev
	}
	return nil
}

func (a *App) connect(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", a.opt.Socket)
	for errors.Is(err, syscall.EAGAIN) && ctx.Err() == nil { // its backlog is full
		sleep(ctx, backlogWait)
		nc, err = d.DialContext(ctx, "unix", a.opt.Socket)
	}
	if err != nil {
		a.closed()
		return nil, err
	}
	return &conn{UnixConn: nc.(*net.UnixConn), app: a}, nil
}

// conn counts as a use of its application until it is closed.
type conn struct {
	*net.UnixConn
	app  *App
	once sync.Once
}

func (c *conn) Close() error {
	err := c.UnixConn.Close()
	c.once.Do(c.app.closed)
	return err
}

func (a *App) closed() {
	a.mu.Lock()
	if a.conns--; a.conns == 0 {
		a.since = time.Now()
		a.tell()
	}
	a.mu.Unlock()
}

// changes returns a channel that the next change closes, and the time of the next start
// of one that has failed.
func (a *App) changes() (<-chan struct{}, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed, a.again
}

// tell wakes who waits for a change. The caller holds mu.
func (a *App) tell() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// set changes the state.
func (a *App) set(s State, fault error, again time.Time) {
	a.mu.Lock()
	a.state, a.fault, a.again = s, fault, again
	if s == Ready {
		a.since, a.prev = time.Now(), nil
	}
	a.tell()
	a.mu.Unlock()
}

// errEnd says that the application is to end, errIdle that nobody uses it.
var (
	errEnd  = errors.New("to end")
	errIdle = errors.New("idle")
)

// run keeps the application until it is retired or the supervisor is closed.
func (a *App) run() {
	defer a.sup.forget(a)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a.sup.running.Add(1)
	go a.watchEnd(ctx, cancel)
	onDemand, failed := a.opt.OnDemand, 0
	for ctx.Err() == nil {
		if onDemand {
			a.set(Waiting, nil, time.Time{})
			select {
			case <-a.wanted:
			case <-ctx.Done():
				continue
			}
		}
		r := &round{app: a, exits: make(chan *process, a.opt.Instances)}
		life := r.run
		if a.opt.Keep && a.sup.Kept.Dir != "" {
			life = r.keep
		}
		err := life(ctx)
		if err == errEnd {
			break
		}
		if onDemand = err == errIdle; onDemand {
			a.log.Info("application stopped: nobody uses it", "app", a.opt.Name)
			continue
		}
		a.rest(ctx, r, err, &failed)
	}
	a.socket.close()
	a.set(Ended, nil, time.Time{})
}

// watchEnd ends ctx when the application is to end. It is over when run is.
func (a *App) watchEnd(ctx context.Context, cancel context.CancelFunc) {
	defer a.sup.running.Done()
	select {
	case <-a.retire:
	case <-a.sup.quit:
	case <-ctx.Done():
	}
	cancel()
}

// rest waits between a round that failed and the next one. The first failure of
// one that had been ready has no wait, so that what waits at its socket is served
// by the next process; before a wait the socket is closed, which frees it.
func (a *App) rest(ctx context.Context, r *round, err error, failed *int) {
	ready := !r.ready.IsZero()
	if ready && time.Since(r.ready) >= debounce {
		*failed = 0
	}
	*failed++
	wait := time.Duration(0)
	if *failed > 1 || !ready {
		wait = min(longestWait, time.Second<<min(*failed-1, 5))
		a.socket.close()
		a.mu.Lock()
		a.socket = nil
		a.mu.Unlock()
	}
	a.mu.Lock()
	a.restarts++
	a.mu.Unlock()
	a.log.Error("application failed", "app", a.opt.Name, "err", err, "restart", wait.String())
	if wait > 0 {
		a.set(Failed, err, time.Now().Add(wait))
		sleep(ctx, wait)
	}
}
