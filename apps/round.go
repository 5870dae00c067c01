package apps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// round is one life of an application: its processes, from the start to the end of
// all.
type round struct {
	app    *App
	exits  chan *process // room for all: wait never blocks
	procs  []*process
	ready  time.Time // zero: not yet
	failed int       // of processes that ended early beside others
}

// run starts the processes and watches them. It returns errEnd, errIdle, or why
// the application does not serve, when no process is left.
func (r *round) run(ctx context.Context) error {
	a := r.app
	a.set(Starting, nil, time.Time{})
	err := r.open(ctx)
	if err == nil {
		err = r.watch(ctx)
	}
	if ctx.Err() != nil {
		err = errEnd
	}
	if err == errEnd && !r.ready.IsZero() {
		r.drain()
	}
	if err == errEnd {
		a.set(Ending, nil, time.Time{})
	} else { // who dials now waits for what the next round makes of it
		a.set(Starting, nil, time.Time{})
	}
	if err == errIdle || err == errEnd { // nothing is at the socket any more
		a.socket.close()
		a.mu.Lock()
		a.socket = nil
		a.mu.Unlock()
	}
	r.stop()
	return err
}

// open starts the processes and waits until one takes connections.
func (r *round) open(ctx context.Context) error {
	a := r.app
	if err := runnable(a.opt.program()); err != nil {
		return err
	}
	if a.socket == nil {
		s, err := listen(a.opt, a.sup.serial.Add(1), func() bool { return serving(a.prev) != nil || a.sup.succeeds(a.opt.Socket, a.over) })
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.socket = s
		a.mu.Unlock()
	}
	for range a.opt.Instances {
		if err := r.start(); err != nil {
			return err
		}
	}
	pctx, cancel := context.WithTimeout(ctx, a.opt.Start)
	defer cancel()
	proved := make(chan error, 1)
	go prove(pctx, a.socket.path, a.opt.Protocol, proved)
	defer func() { cancel(); <-proved }()
	for {
		select {
		case err := <-proved:
			proved <- nil // for the deferred wait
			if err != nil && ctx.Err() == nil {
				what := "took no connection"
				if a.opt.Protocol == LSAPI {
					what = "answered no request"
				}
				return fmt.Errorf("%s %s within %s", a.opt.program(), what, a.opt.Start)
			}
			if err != nil {
				return errEnd
			}
			return r.enter()
		case p := <-r.exits:
			r.lost(p)
			return fmt.Errorf("%s ended before it took a connection: %s", a.opt.program(), p.how)
		}
	}
}

// enter gives the socket its name: from here on requests come here.
func (r *round) enter() error {
	if err := r.app.socket.enter(); err != nil {
		return err
	}
	r.ready = time.Now()
	r.app.set(Ready, nil, time.Time{})
	r.app.log.Info("application ready", "app", r.app.opt.Name, "pid", r.procs[0].pid(), "processes", len(r.procs))
	return nil
}

// start starts one process.
func (r *round) start() error {
	p, err := r.app.launch()
	if err != nil {
		return err
	}
	r.procs = append(r.procs, p)
	r.note()
	go p.wait(r.exits)
	return nil
}

// lost notes a process that has ended.
func (r *round) lost(p *process) {
	r.procs = slices.DeleteFunc(r.procs, func(q *process) bool { return q == p })
	a := r.app
	a.mu.Lock()
	a.lastExit = p.how
	a.mu.Unlock()
	r.note()
}

func (r *round) note() {
	pids := make([]int, 0, len(r.procs))
	for _, p := range r.procs {
		pids = append(pids, p.pid())
	}
	r.app.mu.Lock()
	r.app.pids = pids
	r.app.tell()
	r.app.mu.Unlock()
}

// watch returns when the application is to end, is idle, or has no process left. A
// process that ends beside others is started again by itself.
func (r *round) watch(ctx context.Context) error {
	a := r.app
	refill, idle := time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	defer refill.Stop()
	defer idle.Stop()
	if a.opt.Idle > 0 {
		idle.Reset(a.opt.Idle)
	}
	for {
		select {
		case <-ctx.Done():
			return errEnd
		case p := <-r.exits:
			r.lost(p)
			if len(r.procs) == 0 {
				return errors.New(a.opt.program() + " ended: " + p.how)
			}
			wait := time.Duration(0)
			if time.Since(p.began) < debounce {
				wait = min(longestWait, time.Second<<min(r.failed, 5))
				r.failed++
			} else {
				r.failed = 0
			}
			a.log.Warn("a process of an application ended", "app", a.opt.Name, "pid", p.pid(), "how", p.how, "restart", wait.String())
			refill.Reset(wait)
		case <-refill.C:
			for len(r.procs) < a.opt.Instances {
				a.mu.Lock()
				a.restarts++
				a.mu.Unlock()
				if err := r.start(); err != nil {
					a.log.Error("a process of an application cannot be started", "app", a.opt.Name, "err", err)
					refill.Reset(longestWait)
					break
				}
			}
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

// idle reports whether nobody has used the application for its time; from then on
// it is Ending, and whoever dials waits for the next round.
func (a *App) idle() (left time.Duration, over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conns > 0 {
		return a.opt.Idle, false
	}
	if left = a.opt.Idle - time.Since(a.since); left > 0 {
		return left, false
	}
	a.state = Starting // of the next round, for who dials now
	a.claimed = false
	return 0, true
}

// drain waits, once the successor is ready, until no request is in flight. Nobody
// waits once the supervisor is closed.
func (r *round) drain() {
	a := r.app
	for {
		next := a.sup.successor(a)
		if next == nil {
			break
		}
		next.mu.Lock()
		state, changed := next.state, next.changed
		next.mu.Unlock()
		if state == Ready || state == Waiting || state == Ended {
			break
		}
		select {
		case <-changed:
		case <-a.sup.quit:
			return
		case p := <-r.exits: // it is over without our doing
			if r.lost(p); len(r.procs) == 0 {
				return
			}
		}
	}
	a.set(Ending, nil, time.Time{})
	t := time.NewTimer(drainTime)
	defer t.Stop()
	for {
		a.mu.Lock()
		conns, changed := a.conns, a.changed
		a.mu.Unlock()
		look := (<-chan time.Time)(nil)
		if a.shared {
			conns, look = a.socket.users(), time.After(usersTime)
		}
		if conns == 0 {
			return
		}
		select {
		case <-changed:
		case <-look:
		case <-t.C:
			return
		case <-a.sup.quit:
			return
		}
	}
}

// stop ends all processes of the round, with everything in their groups: those of an
// LSAPI program may end what they do first (R-LSAPI-4), then they are asked to, then
// killed.
func (r *round) stop() {
	if r.app.opt.Protocol == LSAPI && !r.ready.IsZero() {
		for _, p := range r.procs {
			p.retire()
		}
		r.ended(drainTime)
	}
	for _, p := range r.procs {
		p.terminate()
	}
	r.ended(termTime)
	for len(r.procs) > 0 {
		for _, p := range r.procs {
			p.kill()
		}
		r.ended(termTime)
	}
}

// ended waits until no process is left, at most for d.
func (r *round) ended(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for len(r.procs) > 0 {
		select {
		case p := <-r.exits:
			r.lost(p)
		case <-t.C:
			return
		}
	}
}
