package extproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a Resolver, whatever name servers answer and configurations name.
const (
	maxNames     = 4096 // remembered at once; over it the longest unused is forgotten
	maxAddresses = 16   // of a name
)

// lookupTimeout bounds one lookup, so that a silent name server cannot keep others
// waiting for longer: two servers have their 5 s each, and an attempt more.
const lookupTimeout = 15 * time.Second

// ResolverOptions are the times and the number of <tuning> (R-DNS-1, R-DNS-2).
type ResolverOptions struct {
	Refresh     time.Duration // age at which an answer is asked again; 0: 10 s
	StaleMax    time.Duration // life of an answer that could not be asked again; 0: Refresh
	NegativeTTL time.Duration // before a name that failed is asked again
	Concurrency int           // lookups at once; 0: 4
}

// Resolver turns the names of upstreams into addresses. One serves all dials of
// the process and outlives every configuration, so that a reload asks nothing
// again. Names are asked for at the first dial, never before.
//
// The life of a name: its first dial begins a lookup and waits for it, with
// everybody else who wants the name. An answer serves dials at once; past Refresh
// the dial that uses it begins a new lookup behind itself. While lookups fail the
// last answer stays, to its StaleMax; that the name does not exist removes it. A
// name that failed is left alone for NegativeTTL.
type Resolver struct {
	ask      func(ctx context.Context, host string) ([]netip.Addr, error)
	ctx      context.Context // of the lookups
	stop     context.CancelFunc
	running  sync.WaitGroup // lookUp
	results  [lookupResults]atomic.Uint64
	outdated atomic.Uint64

	mu      sync.Mutex
	opt     ResolverOptions
	names   map[string]*name
	queue   []*name // wait for a lookup, first come first served
	lookers int     // goroutines that look names up
	closed  bool
}

// name is what is known of one name. Its fields are guarded by Resolver.mu.
type name struct {
	host   string
	addrs  []netip.Addr // of the last answer; never changed, only replaced
	since  time.Time    // of addrs
	dials  int          // that addrs have served
	err    error        // of the last lookup; nil if that was answered
	failed time.Time    // when err came
	used   time.Time
	lookup chan struct{} // closed at the end of the one that is due or running; nil: none
}

// Results of lookups.
const (
	lookupSuccess = iota
	lookupNotFound
	lookupFailure
	lookupResults
)

// ResolverStats are counts that only grow, and what there is now.
type ResolverStats struct {
	Success, NotFound, Failure uint64 // lookups, by result
	StaleAnswers               uint64 // dials served by an answer that could not be asked again
	Names                      int
}

// NewResolver returns a resolver that asks by way of r; nil is the system's
// resolv.conf and hosts file, read by Go's own resolver.
func NewResolver(r *net.Resolver) *Resolver {
	if r == nil {
		r = &net.Resolver{PreferGo: true}
	}
	return newResolver(asker(r))
}

func newResolver(ask func(context.Context, string) ([]netip.Addr, error)) *Resolver {
	r := &Resolver{ask: ask, names: map[string]*name{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.Configure(ResolverOptions{StaleMax: 24 * time.Hour, NegativeTTL: time.Second})
	return r
}

// Configure sets the options for what comes next. Answers stay.
func (r *Resolver) Configure(o ResolverOptions) {
	if o.Refresh <= 0 {
		o.Refresh = 10 * time.Second
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 4
	}
	o.StaleMax = max(o.StaleMax, o.Refresh)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opt = o
	r.startLookers()
}

// Resolve returns the addresses of host, at least one, in the order in which to
// dial them, which is another one each time. The caller does not change them. It
// waits for a lookup only if no answer is at hand, and as long as ctx lasts.
func (r *Resolver) Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	now := time.Now()
	r.mu.Lock()
	n := r.name(host, now)
	age := now.Sub(n.since)
	atHand := len(n.addrs) > 0 && age < r.opt.StaleMax
	if (!atHand || age >= r.opt.Refresh) && !(n.err != nil && now.Sub(n.failed) < r.opt.NegativeTTL) {
		r.begin(n)
	}
	if atHand {
		defer r.mu.Unlock()
		if n.err != nil {
			r.outdated.Add(1)
		}
		return n.next(), nil
	}
	lookup, err, closed := n.lookup, n.err, r.closed
	r.mu.Unlock()
	switch {
	case lookup != nil:
		return r.await(ctx, n, lookup)
	case closed:
		return nil, errors.New("resolver is closed")
	}
	return nil, err
}

// await waits for a lookup of n and returns what it has left.
func (r *Resolver) await(ctx context.Context, n *name, lookup <-chan struct{}) ([]netip.Addr, error) {
	select {
	case <-lookup:
	case <-ctx.Done():
		return nil, fmt.Errorf("lookup %s: %w", n.host, ctx.Err())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(n.addrs) > 0 {
		return n.next(), nil
	}
	return nil, n.err
}

// next returns the addresses for one more dial.
func (n *name) next() []netip.Addr {
	n.dials++
	return dialOrder(n.addrs, n.dials-1)
}

// name returns what is known of host. r.mu is held.
func (r *Resolver) name(host string, now time.Time) *name {
	n := r.names[host]
	if n == nil {
		if len(r.names) >= maxNames {
			r.forget()
		}
		n = &name{host: host}
		r.names[host] = n
	}
	n.used = now
	return n
}

// forget drops the name that has been unused for longest. One that is looked up
// stays with those who wait for it. r.mu is held.
func (r *Resolver) forget() {
	var oldest *name
	for _, n := range r.names {
		if oldest == nil || n.used.Before(oldest.used) {
			oldest = n
		}
	}
	delete(r.names, oldest.host)
}

// begin makes a lookup of n due, unless one is. r.mu is held.
func (r *Resolver) begin(n *name) {
	if n.lookup != nil || r.closed {
		return
	}
	n.lookup = make(chan struct{})
	r.queue = append(r.queue, n)
	r.startLookers()
}

// startLookers starts as many goroutines as there is work for. r.mu is held.
func (r *Resolver) startLookers() {
	if r.closed {
		return
	}
	for range min(len(r.queue), r.opt.Concurrency-r.lookers) {
		r.lookers++
		r.running.Go(r.lookUp)
	}
}

// lookUp looks names up until none is due. At most Concurrency run, and none
// where no name is asked for.
func (r *Resolver) lookUp() {
	for n := r.next(); n != nil; n = r.next() {
		ctx, cancel := context.WithTimeout(r.ctx, lookupTimeout)
		addrs, err := r.ask(ctx, n.host)
		cancel()
		r.learn(n, addrs, err)
	}
}

// next takes a name to look up. If there is none, or too many look, the caller
// ends.
func (r *Resolver) next() *name {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 || r.lookers > r.opt.Concurrency {
		r.lookers--
		return nil
	}
	n := r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	return n
}

// learn notes the end of a lookup and wakes who waits for it.
func (r *Resolver) learn(n *name, addrs []netip.Addr, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		n.addrs, n.since, n.err = addrs, now, nil
		r.results[lookupSuccess].Add(1)
	case notFound(err):
		n.addrs, n.err, n.failed = nil, err, now
		r.results[lookupNotFound].Add(1)
	default:
		n.err, n.failed = err, now
		if now.Sub(n.since) >= r.opt.StaleMax {
			n.addrs = nil
		}
		r.results[lookupFailure].Add(1)
	}
	close(n.lookup)
	n.lookup = nil
}

// Stats returns a snapshot.
func (r *Resolver) Stats() ResolverStats {
	r.mu.Lock()
	names := len(r.names)
	r.mu.Unlock()
	return ResolverStats{Success: r.results[lookupSuccess].Load(), NotFound: r.results[lookupNotFound].Load(),
		Failure: r.results[lookupFailure].Load(), StaleAnswers: r.outdated.Load(), Names: names}
}

// Close ends the lookups, which fail, and joins them. Answers at hand still serve.
func (r *Resolver) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.running.Wait()
}
