// Package probes runs the active health checks of one generation: it decides when
// which peer is probed, keeps the number of probes in flight small, and reports
// results to the groups. What a result means is decided there; how a probe goes
// over the wire is the client's matter.
package probes

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"httpjet/budget"
	"httpjet/extproc"
	"httpjet/groups"
)

// MaxInFlight is how many probes a process has in flight at most (R-PROBE-4).
const MaxInFlight = 16

// startWithin is the time over which the first probes of a start are spread.
const startWithin = time.Second

// A Prober asks a peer once. Its error says what failed; context.Canceled if the
// context was cancelled first.
type Prober interface {
	Probe(context.Context, extproc.Probe) error
}

// Check is how a peer is probed. It is comparable.
type Check struct {
	Probe    extproc.Probe
	Interval time.Duration // >= 1 s
	Timeout  time.Duration // of a probe, at most Interval
}

// Peer is one peer with a health check.
type Peer struct {
	Scope, Group string // of the processor
	Ordinal      int    // in it
	Check        Check
	Client       Prober
	Verdict      *groups.Verdict
	Clock        *Clock  // when it is due, kept while peer and check stay; nil: a new one
	Counts       *Counts // nil: new ones
}

// Clock says when a peer is due, and how its last probe ended. It outlives
// generations, so that reloads do not multiply probes. It belongs to the scheduler
// that runs: the one before has been stopped by then. Only Last is for others.
type Clock struct {
	due  time.Time
	last atomic.Pointer[Last]
}

// Last is how a probe ended.
type Last struct {
	At     time.Time
	OK     bool
	Reason string // "" if OK; tells no address, as "status 500", "timeout", "refused"

	past   uint32 // how this and those before ended, 1 for OK; the latest is the lowest bit
	number int    // of them, at most historyMost
}

// historyMost is how many probes of a peer are remembered.
const historyMost = 30

// History tells how the latest probes ended, this one last: + for OK, - for not.
func (l *Last) History() string {
	var b [historyMost]byte
	for i := range l.number {
		b[i] = '-'
		if l.past>>(l.number-1-i)&1 == 1 {
			b[i] = '+'
		}
	}
	return string(b[:l.number])
}

// after makes l the probe after another one, nil for none.
func (l *Last) after(before *Last) *Last {
	if before != nil {
		l.past, l.number = before.past<<1, before.number
	}
	if l.OK {
		l.past |= 1
	}
	l.past &= 1<<historyMost - 1
	l.number = min(l.number+1, historyMost)
	return l
}

// Last returns how the last probe ended, nil if none has.
func (c *Clock) Last() *Last { return c.last.Load() }

// Retire does nothing.
func (c *Clock) Retire() {}

// Counts are what was counted of a peer. They outlive generations, for metrics.
type Counts struct {
	Succeeded, Failed, Skipped atomic.Uint64 // probes; skipped ones were due and not made
	Up, Down                   atomic.Uint64 // transitions to there
}

// Retire does nothing.
func (c *Counts) Retire() {}

// Options describe a Scheduler.
type Options struct {
	Peers   []Peer
	Permits *budget.Permits // of the process; nil: MaxInFlight of its own
	Log     *slog.Logger    // nil: nothing is logged
}

// Scheduler probes the peers of one generation between Start and Stop.
type Scheduler struct {
	permits *budget.Permits
	log     *slog.Logger
	tasks   []task // in the order of Options.Peers
	queue   queue  // of tasks, owned by run

	cancel context.CancelFunc // nil before Start
	wg     sync.WaitGroup     // run and the probes in flight
}

// New returns a scheduler; nothing is started.
func New(o Options) *Scheduler {
	s := &Scheduler{permits: o.Permits, log: o.Log, tasks: make([]task, len(o.Peers))}
	if s.permits == nil {
		s.permits = budget.NewPermits(MaxInFlight)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i, p := range o.Peers {
		if p.Check.Interval <= 0 || p.Check.Timeout <= 0 {
			panic("BUG: probes: a check without a time")
		}
		if p.Clock == nil {
			p.Clock = &Clock{}
		}
		if p.Counts == nil {
			p.Counts = &Counts{}
		}
		s.tasks[i].Peer = p
		s.queue = append(s.queue, &s.tasks[i])
	}
	return s
}

// Start begins to probe. It is called once; without peers it starts nothing.
func (s *Scheduler) Start() {
	s.tellCold()
	if len(s.queue) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.wg.Add(1)
	go s.run(ctx)
}

// Stop cancels the probes in flight, whose results then count for nothing, and
// returns when all has ended. It may be called more than once, and before Start.
func (s *Scheduler) Stop() {
	if s.cancel != nil {
		s.cancel()
	}
	s.wg.Wait()
}

// tellCold says which groups answer 503 until their peers have risen: those whose
// peers, one behind the other in the list, hold a cold one.
func (s *Scheduler) tellCold() {
	for rest := s.tasks; len(rest) > 0; {
		first, n, cold, up := &rest[0], 0, 0, 0
		for n < len(rest) && rest[n].Scope == first.Scope && rest[n].Group == first.Group {
			switch rest[n].Verdict.Standing() {
			case groups.Cold:
				cold++
			case groups.Up:
				up++
			}
			n++
		}
		rest = rest[n:]
		switch {
		case cold > 0 && up == 0:
			s.log.Warn("group is cold: its requests answer 503 until a peer has passed its health check",
				"scope", first.Scope, "group", first.Group, "peers", n, "cold", cold)
		case cold > 0:
			s.log.Info("peers are cold: no request goes to them until they have passed their health check",
				"scope", first.Scope, "group", first.Group, "peers", n, "cold", cold)
		}
	}
}

// run starts each probe when it is due.
func (s *Scheduler) run(ctx context.Context) {
	defer s.wg.Done()
	now := time.Now()
	for _, t := range s.queue {
		t.enter(now)
	}
	s.queue.init()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now = time.Now()
		for t := s.queue[0]; !now.Before(t.Clock.due); t = s.queue[0] {
			s.tick(ctx, t, now)
			s.queue.sink()
		}
		timer.Reset(s.queue[0].Clock.due.Sub(now))
	}
}

// tick starts the probe of t, or skips it, and sets when t is due again.
func (s *Scheduler) tick(ctx context.Context, t *task, now time.Time) {
	switch {
	case !t.busy.CompareAndSwap(false, true):
		t.Counts.Skipped.Add(1)
	case !s.permits.TryAcquire():
		// Where peers that do not answer hold all permits, the same others must
		// not be skipped each time: this one gets another place in the interval.
		t.busy.Store(false)
		t.Counts.Skipped.Add(1)
		t.Clock.due = now.Add(upTo(t.Check.Interval))
		return
	default:
		s.wg.Add(1)
		go s.probe(ctx, t)
	}
	t.Clock.due = t.Clock.due.Add(t.Check.Interval)
	if late := now.Sub(t.Clock.due); late >= 0 { // the machine slept: ticks are not made up for
		t.Clock.due = now.Add(t.Check.Interval)
	}
}

// probe makes one probe and reports it.
func (s *Scheduler) probe(ctx context.Context, t *task) {
	defer s.wg.Done()
	defer s.permits.Release()
	defer t.busy.Store(false)
	c, cancel := context.WithTimeout(ctx, t.Check.Timeout)
	defer cancel()
	err := t.Client.Probe(c, t.Check.Probe)
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return // stopped: no result
	}
	l := &Last{At: time.Now(), OK: err == nil, Reason: reasonOf(err)}
	t.Clock.last.Store(l.after(t.Clock.last.Load())) // one probe of a peer at a time
	if err == nil {
		t.Counts.Succeeded.Add(1)
	} else {
		t.Counts.Failed.Add(1)
	}
	from, to := t.Verdict.Report(err == nil)
	if from != to {
		s.changed(t, from, to, err)
	}
}

// reasonOf is the error of a probe without what it says of addresses and names
// (R-API-5); "" for nil.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	_, dns := errors.AsType[*net.DNSError](err)
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	step, detail, found := strings.Cut(err.Error(), ": ")
	switch {
	case !found: // status 500
		return step
	case detail == "not in time":
		return "timeout"
	case dns:
		return "dns"
	case cert:
		return "certificate"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "reset"
	}
	return step // connect, reply
}

// changed logs and counts a transition (R-PROBE-6).
func (s *Scheduler) changed(t *task, from, to groups.Standing, err error) {
	level, reason := slog.LevelInfo, "probes succeed"
	if to == groups.Up {
		t.Counts.Up.Add(1)
	} else {
		t.Counts.Down.Add(1)
		level, reason = slog.LevelWarn, err.Error()
	}
	s.log.Log(context.Background(), level, "peer health changed", "scope", t.Scope, "group", t.Group,
		"peer", t.Ordinal, "from", from.String(), "to", to.String(), "reason", reason)
}

// task is a peer while it is probed.
type task struct {
	Peer
	busy atomic.Bool // a probe is in flight
}

// enter sets when t is due for the first time in this scheduler: as the clock
// says that was kept, else soon, spread over a short time.
func (t *task) enter(now time.Time) {
	if due := t.Clock.due; due.After(now) && due.Sub(now) <= t.Check.Interval {
		return
	}
	t.Clock.due = now.Add(upTo(min(t.Check.Interval, startWithin)))
}

// upTo returns a random duration in [0, d).
func upTo(d time.Duration) time.Duration { return rand.N(d) }
