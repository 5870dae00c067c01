package probes

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"httpjet/budget"
	"httpjet/extproc"
	"httpjet/groups"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake answers probes: with err, after takes or, if that is negative, never.
type fake struct {
	mu    sync.Mutex
	err   error
	takes time.Duration
	at    []time.Time // begin of each probe
	asked extproc.Probe
	most  *peak
}

func (f *fake) Probe(ctx context.Context, pr extproc.Probe) error {
	f.mu.Lock()
	f.at, f.asked = append(f.at, time.Now()), pr
	takes, err := f.takes, f.err
	f.mu.Unlock()
	if f.most != nil {
		defer f.most.enter()()
	}
	if takes < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return err
	}
}

func (f *fake) set(err error) {
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.at)
}

// peak remembers how many were in at once.
type peak struct {
	mu      sync.Mutex
	in, top int
}

func (p *peak) enter() func() {
	p.mu.Lock()
	p.in++
	p.top = max(p.top, p.in)
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		p.in--
		p.mu.Unlock()
	}
}

// peerOf is a peer that rises after 2 and falls after 3 results.
func peerOf(f Prober, interval, timeout time.Duration) Peer {
	return Peer{Scope: "server", Group: "app", Check: Check{Interval: interval, Timeout: timeout},
		Client: f, Verdict: groups.NewVerdict(groups.Health{Rise: 2, Fall: 3}, time.Now), Clock: &Clock{}, Counts: &Counts{}}
}

func (c *Counts) String() string {
	return fmt.Sprintf("ok %d, failed %d, skipped %d, up %d, down %d", c.Succeeded.Load(), c.Failed.Load(), c.Skipped.Load(), c.Up.Load(), c.Down.Load())
}

// R-PROBE-4: the first tick comes within a second or the interval, the others an
// interval apart. R-PROBE-5: a new scheduler does nothing before Start, and
// nothing after Stop.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p := peerOf(f, 10*time.Second, 2*time.Second)
		p.Check.Probe = extproc.Probe{Method: "GET", Path: "/up", Host: "h", Status: 204}
		s := New(Options{Peers: []Peer{p}})
		time.Sleep(time.Minute)
		if f.count() != 0 {
			t.Fatal("probed before Start")
		}
		began := time.Now()
		s.Start()
		time.Sleep(95 * time.Second)
		s.Stop()
		if len(f.at) != 10 || f.asked != p.Check.Probe {
			t.Fatalf("%d probes in 95 s, want 10; asked %+v", len(f.at), f.asked)
		}
		if first := f.at[0].Sub(began); first < 0 || first >= time.Second {
			t.Errorf("first after %v", first)
		}
		for i := range f.at[1:] {
			if d := f.at[i+1].Sub(f.at[i]); d != 10*time.Second {
				t.Errorf("probe %d after %v", i+1, d)
			}
		}
		time.Sleep(time.Minute)
		if f.count() != 10 || p.Counts.String() != "ok 10, failed 0, skipped 0, up 1, down 0" {
			t.Errorf("after Stop: %d probes, %v", f.count(), p.Counts)
		}
	})
}

// First probes of many peers are spread over a second.
func TestFirstTicksAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		var ps []Peer
		for range 200 {
			ps = append(ps, peerOf(f, 10*time.Second, time.Second))
		}
		s := New(Options{Peers: ps})
		s.Start()
		time.Sleep(500 * time.Millisecond)
		if n := f.count(); n < 50 || n > 150 {
			t.Errorf("%d of 200 after half the time", n)
		}
		time.Sleep(500 * time.Millisecond)
		s.Stop()
		if n := f.count(); n != 200 {
			t.Errorf("%d of 200 after a second", n)
		}
	})
}

// R-PROBE-1, R-PROBE-2, R-PROBE-6: cold until rise, down after fall, back without
// traffic; each transition is logged once.
func TestLifeOfAPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := &fake{}
		p := peerOf(f, 10*time.Second, 2*time.Second)
		p.Ordinal = 3
		s := New(Options{Peers: []Peer{p}, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))})
		s.Start()
		is := func(want groups.Standing) {
			t.Helper()
			synctest.Wait()
			if got := p.Verdict.Standing(); got != want {
				t.Fatalf("%v, want %v", got, want)
			}
		}
		time.Sleep(time.Second)
		is(groups.Cold)
		time.Sleep(10 * time.Second)
		is(groups.Up)
		f.set(errors.New("status 500"))
		time.Sleep(20 * time.Second)
		is(groups.Up)
		time.Sleep(10 * time.Second)
		is(groups.Down)
		time.Sleep(30 * time.Second)
		f.set(nil)
		time.Sleep(20 * time.Second)
		is(groups.Up)
		s.Stop()
		if got := p.Counts.String(); got != "ok 4, failed 6, skipped 0, up 2, down 1" {
			t.Error(got)
		}
		const want = `level=WARN msg="group is cold: its requests answer 503 until a peer has passed its health check" scope=server group=app peers=1 cold=1
level=INFO msg="peer health changed" scope=server group=app peer=3 from=cold to=up reason="probes succeed"
level=WARN msg="peer health changed" scope=server group=app peer=3 from=up to=down reason="status 500"
level=INFO msg="peer health changed" scope=server group=app peer=3 from=down to=up reason="probes succeed"
`
		if log.String() != want {
			t.Errorf("log:\n%s", &log)
		}
	})
}

// A probe has Timeout; a result that came by then counts.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, never := &fake{takes: 1999 * time.Millisecond}, &fake{takes: -1}
		ps := []Peer{peerOf(slow, 3*time.Second, 2*time.Second), peerOf(never, 3*time.Second, 2*time.Second)}
		s := New(Options{Peers: ps})
		s.Start()
		time.Sleep(30 * time.Second)
		s.Stop()
		if a, b := ps[0].Verdict.Standing(), ps[1].Verdict.Standing(); a != groups.Up || b != groups.Down {
			t.Errorf("%v and %v", a, b)
		}
	})
}

// R-PROBE-4: at most 16 probes are in flight in the process; what is missed is
// skipped and counted, not queued. Peers that never answer keep nobody else cold.
func TestCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most peak
		mute, good := &fake{takes: -1, most: &most}, &fake{takes: time.Millisecond, most: &most}
		var ps []Peer
		for range 100 {
			ps = append(ps, peerOf(mute, 5*time.Second, 4*time.Second))
		}
		for range 20 {
			ps = append(ps, peerOf(good, 5*time.Second, 4*time.Second))
		}
		permits := budget.NewPermits(MaxInFlight)
		one, other := New(Options{Peers: ps[:50], Permits: permits}), New(Options{Peers: ps[50:], Permits: permits})
		began := time.Now()
		one.Start()
		other.Start()
		time.Sleep(40 * time.Minute)
		one.Stop()
		other.Stop()
		if most.top != MaxInFlight {
			t.Errorf("%d probes at once", most.top)
		}
		var skipped uint64
		for i, p := range ps {
			skipped += p.Counts.Skipped.Load()
			if i >= 100 && p.Verdict.Standing() != groups.Up {
				t.Errorf("peer %d is %v: %v", i, p.Verdict.Standing(), p.Counts)
			}
			if made := p.Counts.Succeeded.Load() + p.Counts.Failed.Load(); float64(made) > time.Since(began).Seconds()/5+1 {
				t.Errorf("peer %d was probed %d times", i, made)
			}
		}
		if skipped == 0 || permits.InUse() != 0 {
			t.Errorf("%d skipped, %d permits in use", skipped, permits.InUse())
		}
	})
}

// A tick that finds the probe before it still running is skipped.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		p := peerOf(proberFunc(func(ctx context.Context, _ extproc.Probe) error {
			<-stuck // does not even mind its context
			return nil
		}), time.Second, time.Second)
		s := New(Options{Peers: []Peer{p}})
		s.Start()
		time.Sleep(10 * time.Second)
		close(stuck)
		time.Sleep(1100 * time.Millisecond)
		s.Stop()
		if n := p.Counts.Skipped.Load(); n != 9 && n != 8 {
			t.Errorf("%v", p.Counts)
		}
		if p.Counts.Succeeded.Load() == 0 {
			t.Errorf("%v", p.Counts)
		}
	})
}

type proberFunc func(context.Context, extproc.Probe) error

func (f proberFunc) Probe(ctx context.Context, p extproc.Probe) error { return f(ctx, p) }

// G48: one probe in an interval, however often the configuration is read again;
// what is in flight then says nothing about the peer.
func TestG48ReloadsDoNotMultiplyProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, mute := &fake{takes: 5 * time.Millisecond}, &fake{takes: -1}
		ps := []Peer{peerOf(f, 5*time.Second, time.Second), peerOf(mute, 5*time.Second, 5*time.Second)}
		ps[1].Verdict.Report(true)
		ps[1].Verdict.Report(true)
		for range 200 {
			s := New(Options{Peers: ps})
			s.Start()
			time.Sleep(500 * time.Millisecond)
			s.Stop()
		}
		if n := f.count(); n < 18 || n > 21 {
			t.Errorf("%d probes in 100 s, want 20", n)
		}
		if n := mute.count(); n > 21 {
			t.Errorf("%d probes of the other in 100 s, want 20", n)
		}
		if c := ps[1].Counts.String(); c != "ok 0, failed 0, skipped 0, up 0, down 0" || ps[1].Verdict.Standing() != groups.Up {
			t.Errorf("cancelled probes count: %v", c)
		}
	})
}

// What slept or waited does not make up for ticks; an older clock is no reason to
// wait.
func TestClockOfLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p := peerOf(f, 10*time.Second, time.Second)
		for _, due := range []time.Duration{-time.Hour, time.Hour} {
			p.Clock.due = time.Now().Add(due)
			before := f.count()
			s := New(Options{Peers: []Peer{p}})
			s.Start()
			time.Sleep(time.Second)
			s.Stop()
			if n := f.count() - before; n != 1 {
				t.Errorf("due %v: %d probes in the first second", due, n)
			}
		}
	})
}

// The head of the queue is always what is due first.
func TestQueue(t *testing.T) {
	now := time.Now()
	var q queue
	for i := range 100 {
		q = append(q, &task{Peer: Peer{Clock: &Clock{due: now.Add(time.Duration(i*37%101) * time.Second)}}})
	}
	q.init()
	last := now
	for range 1000 {
		if d := q[0].Clock.due; d.Before(last) {
			t.Fatal("out of order")
		} else {
			last = d
			q[0].Clock.due = d.Add(time.Duration(d.Second()%7+1) * time.Second)
		}
		q.sink()
	}
}

// Two groups that probe one address share nothing (G19).
func TestG19GroupsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := proberFunc(func(_ context.Context, p extproc.Probe) error {
			if strings.HasPrefix(p.Path, "/x") {
				return nil
			}
			return errors.New("status 503")
		})
		x, y := peerOf(client, time.Second, time.Second), peerOf(client, time.Second, time.Second)
		x.Check.Probe.Path, y.Group, y.Check.Probe.Path = "/x", "other", "/y"
		s := New(Options{Peers: []Peer{x, y}})
		s.Start()
		time.Sleep(10 * time.Second)
		s.Stop()
		if a, b := x.Verdict.Standing(), y.Verdict.Standing(); a != groups.Up || b != groups.Down {
			t.Errorf("%v and %v", a, b)
		}
	})
}

// R-API-5: the last probe of a peer is known, and its reason tells no address.
func TestLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &fake{}
		p := peerOf(client, time.Second, time.Second)
		p.Clock = &Clock{}
		s := New(Options{Peers: []Peer{p}})
		if p.Clock.Last() != nil {
			t.Error("a result before the first probe")
		}
		s.Start()
		defer s.Stop()
		f := func(cause error, want string) {
			t.Helper()
			client.set(cause)
			time.Sleep(time.Second) // of the bubble
			synctest.Wait()
			l := p.Clock.Last()
			if l == nil || l.OK != (cause == nil) || l.Reason != want || time.Since(l.At) > time.Second {
				t.Errorf("%v: %+v", cause, l)
			}
		}
		f(nil, "")
		f(errors.New("status 500"), "status 500")
		f(errors.New("connect: not in time"), "timeout")
		f(fmt.Errorf("connect: %w", &net.DNSError{Name: "app.example", Server: "10.0.0.1:53", Err: "no such host"}), "dns")
		f(fmt.Errorf("connect: %w", syscall.ECONNREFUSED), "refused")
		f(fmt.Errorf("reply: %w", io.ErrUnexpectedEOF), "reset")
		f(fmt.Errorf("connect: %w", &tls.CertificateVerificationError{Err: errors.New("valid for app.example")}), "certificate")
		f(errors.New("connect: no route to 10.0.0.1"), "connect")
		f(nil, "")
	})
}
