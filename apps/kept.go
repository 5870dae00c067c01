package apps

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// The server's side of applications that outlive it (Options.Keep): a keeper, which is
// another process, starts them and holds their sockets. The server finds the keeper of
// its root, or starts one, and claims what it wants; an application that runs already
// with the same options is adopted as it is.

// KeptBy says where a supervisor finds the keeper, and how it starts one that is not
// there. The zero value has none: applications end with the server.
type KeptBy struct {
	Dir     string   // of the keeper's lock and socket
	Command []string // starts a keeper and ends when it is ready, as by Detach
}

// reach connects to the keeper. If there is none, it starts one.
func (k *KeptBy) reach(ctx context.Context) (*net.UnixConn, int, error) {
	nc, pid, err := dialKeeper(k.Dir)
	if err != errNoKeeper || len(k.Command) == 0 {
		return nc, pid, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime+askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.Command[0], k.Command[1:]...)
	cmd.Args[0] = "httpjet"
	cmd.Env, cmd.Dir = []string{"PATH=/bin:/usr/bin"}, "/"
	said, failed := cmd.CombinedOutput() // short: it is our own program
	// Another server of this root may have started one meanwhile: then ours has ended.
	if nc, pid, err = dialKeeper(k.Dir); err == errNoKeeper && failed != nil {
		err = fmt.Errorf("no keeper of applications starts: %w: %.300s", failed, strings.TrimSpace(string(said)))
	}
	return nc, pid, err
}

// keep is run for an application that outlives the server: it claims it, and follows
// what the keeper tells of it. It returns errEnd, errIdle, or why there is no keeper.
func (r *round) keep(ctx context.Context) error {
	a := r.app
	a.set(Starting, nil, time.Time{})
	nc, pid, err := a.claim(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return errEnd
		}
		return err
	}
	a.mu.Lock()
	a.claimed = true
	a.mu.Unlock()
	ready, over := make(chan struct{}), make(chan error, 1)
	go a.follow(nc, pid, ready, over)
	err = r.attend(ctx, ready, over)
	stays := err == errEnd && a.outlived()
	if err == errEnd && !stays && !r.ready.IsZero() {
		r.drain()
	}
	next := Starting // who dials now waits for what the next round makes of it
	if err == errEnd {
		next = Ending
	}
	a.mu.Lock()
	a.claimed, a.pids = false, nil
	a.mu.Unlock()
	a.set(next, nil, time.Time{})
	if err == errIdle || err == errEnd && !stays {
		say(nc, wish{Drop: true}) // a keeper that is gone keeps nothing anyway
	}
	nc.Close()
	if err == errEnd || err == errIdle {
		<-over
	}
	return err
}

// outlived reports whether the application is to go on although it is to end here:
// the server ends.
func (a *App) outlived() bool {
	select {
	case <-a.retire:
		return a.left
	default:
		return true
	}
}

// claim connects to the keeper and says what is wanted.
func (a *App) claim(ctx context.Context) (*net.UnixConn, int, error) {
	if !a.opt.plain() {
		return nil, 0, errors.New("its command, env or socket is no UTF-8: write runOnStartUp 1")
	}
	nc, pid, err := a.sup.Kept.reach(ctx)
	if err != nil {
		return nil, 0, err
	}
	o := a.opt
	o.Keep, o.OnDemand, o.Idle = false, false, 0 // those are the server's affair
	q := wish{Version: protocolVersion, Want: &o, Over: []int{os.Getpid()}}
	if a.sup.Predecessor != 0 {
		q.Over = append(q.Over, a.sup.Predecessor)
	}
	if err := say(nc, q); err != nil {
		nc.Close()
		return nil, 0, fmt.Errorf("the keeper of applications, process %d: %w", pid, err)
	}
	return nc, pid, nil
}

// attend waits until the application is to end, is idle, or the keeper is gone.
func (r *round) attend(ctx context.Context, ready <-chan struct{}, over <-chan error) error {
	a := r.app
	idle := time.NewTimer(time.Hour)
	defer idle.Stop()
	if a.opt.Idle > 0 {
		idle.Reset(a.opt.Idle)
	}
	for {
		select {
		case <-ctx.Done():
			select {
			case <-ready:
				r.ready = time.Now()
			default:
			}
			return errEnd
		case <-ready:
			r.ready, ready = time.Now(), nil
		case err := <-over:
			return err
		case <-idle.C:
			if a.opt.Idle <= 0 {
				continue
			}
			left, over := a.idle()
			if over {
				return errIdle
			}
			idle.Reset(left)
		}
	}
}

// follow takes what the keeper says until the connection ends, and why it did. ready is
// closed when the application serves for the first time.
func (a *App) follow(nc *net.UnixConn, keeper int, ready chan<- struct{}, over chan<- error) {
	br := bufio.NewReader(nc)
	restarts := uint64(0)
	for {
		var t told
		if err := hear(br, &t); err != nil {
			over <- fmt.Errorf("the keeper of applications, process %d, is gone: %w", keeper, err)
			return
		}
		switch {
		case t.Refused != "":
			over <- fmt.Errorf("the keeper of applications, process %d: %s", keeper, t.Refused)
			return
		case t.Line != nil:
			a.repeat(t.Line)
		case t.Info != nil:
			if !a.mirror(&t, &restarts) || ready == nil {
				continue
			}
			a.log.Info("application is kept by another process", "app", a.opt.Name, "pid", first(append(t.Before, t.Info.PIDs...)), "keeper", keeper)
			close(ready)
			ready = nil
		}
	}
}

func first(pids []int) int {
	if len(pids) == 0 {
		return 0
	}
	return pids[0]
}

// repeat logs what the keeper has logged.
func (a *App) repeat(l *line) {
	attrs := make([]slog.Attr, 0, len(l.Attrs)/2)
	for i := 0; i+1 < len(l.Attrs); i += 2 {
		attrs = append(attrs, slog.String(l.Attrs[i], l.Attrs[i+1]))
	}
	a.log.LogAttrs(context.Background(), l.Level, l.Text, attrs...)
}

// mirror takes over what the application does at its keeper, unless it is to end here,
// and reports whether it serves. Where nobody here serves in its place, the processes
// that a server before had started do.
func (a *App) mirror(t *told, restarts *uint64) (serves bool) {
	i := t.Info
	a.mu.Lock()
	defer a.mu.Unlock()
	if i.Restarts > *restarts {
		a.restarts += i.Restarts - *restarts
	}
	*restarts = i.Restarts
	a.lastExit = i.LastExit
	if !a.claimed || a.state == Ending || a.state == Ended {
		return false
	}
	was := a.state
	a.pids, a.fault, a.again, a.state = i.PIDs, nil, t.Again, Starting
	if i.State == Failed {
		a.fault, a.state = errors.New(i.Fault), Failed
	}
	if len(t.Before) > 0 && a.prev == nil {
		a.pids, a.state = t.Before, Ready
	}
	if i.State == Ready {
		a.state, a.prev = Ready, nil
	}
	if a.state == Ready && was != Ready {
		a.since = time.Now()
	}
	a.tell()
	return a.state == Ready
}
