package extproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// names is a Resolver with name servers of the test's own.
type names struct {
	*Resolver
	t *testing.T

	mu      sync.Mutex
	answers map[string]any // string of addresses, error, or chan any that the lookup waits on
	asked   []string
	running int
	most    int
}

// bubble runs f in a synctest bubble with a resolver that it closes.
func bubble(t *testing.T, f func(t *testing.T, ns *names)) {
	synctest.Test(t, func(t *testing.T) {
		ns := &names{t: t, answers: map[string]any{}}
		ns.Resolver = newResolver(ns.lookup)
		ns.Configure(ResolverOptions{StaleMax: 24 * time.Hour, NegativeTTL: time.Second})
		defer ns.Close()
		f(t, ns)
	})
}

var errServFail = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
var errNXDomain = &net.DNSError{Err: "no such host", IsNotFound: true}

func (ns *names) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	ns.mu.Lock()
	ns.asked = append(ns.asked, host)
	ns.running++
	ns.most = max(ns.most, ns.running)
	a := ns.answers[host]
	ns.mu.Unlock()
	if wait, ok := a.(chan any); ok {
		select {
		case a = <-wait:
		case <-ctx.Done():
			a = ctx.Err()
		}
	}
	ns.mu.Lock()
	ns.running--
	ns.mu.Unlock()
	if err, ok := a.(error); ok {
		return nil, err
	}
	var out []netip.Addr
	for s := range strings.FieldsSeq(a.(string)) {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, nil
}

func (ns *names) answer(host string, a any) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.answers[host] = a
}

// count returns how often host was asked for, once nothing moves any more.
func (ns *names) count(host string) (n int) {
	synctest.Wait()
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for _, a := range ns.asked {
		if a == host {
			n++
		}
	}
	return n
}

// want resolves host and compares addresses, or "error".
func (ns *names) want(host, addrs string) {
	ns.t.Helper()
	got, err := ns.Resolve(ns.t.Context(), host)
	text := strings.Trim(fmt.Sprint(got), "[]")
	if err != nil {
		text = "error"
	}
	if text != addrs {
		ns.t.Errorf("%s is %s (%v), want %s", host, text, err, addrs)
	}
}

// R-DNS-1: a client looks nothing up before its first dial; all who wait for a name
// share one lookup.
func TestWaitersShareOneLookup(t *testing.T) {
	bubble(t, func(t *testing.T, ns *names) {
		d := &Dialer{Resolver: ns.Resolver}
		d.H1(target("app.test:80"), nil)
		if n := ns.count("app.test"); n != 0 {
			t.Errorf("%d lookups without a dial", n)
		}
		wait := make(chan any)
		ns.answer("app.test", wait)
		var waiters sync.WaitGroup
		for range 20 {
			waiters.Go(func() { ns.want("app.test", "192.0.2.1") })
		}
		if n := ns.count("app.test"); n != 1 {
			t.Errorf("%d lookups for 20 waiters", n)
		}
		wait <- "192.0.2.1"
		waiters.Wait()
		if n := ns.count("app.test"); n != 1 {
			t.Errorf("%d lookups in the end", n)
		}
	})
}

// R-DNS-1: at most dnsConcurrency lookups run; the others have their turn in order,
// and a slow name holds nobody who wants another.
func TestLookupsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, ns *names) {
		var waiters sync.WaitGroup
		ask := func(host string, wait chan any) {
			ns.answer(host, wait)
			waiters.Go(func() { ns.want(host, "192.0.2.1") })
			synctest.Wait()
		}
		waits := map[string]chan any{}
		for host := range strings.SplitSeq("a b c d e f g h", " ") {
			waits[host] = make(chan any)
			ask(host, waits[host])
		}
		if got := strings.Join(ns.asked, ""); got != "abcd" || ns.running != 4 {
			t.Errorf("asked %s, %d at once", got, ns.running)
		}
		waits["c"] <- "192.0.2.1"
		synctest.Wait()
		if got := strings.Join(ns.asked, ""); got != "abcde" {
			t.Errorf("asked %s after one has ended", got)
		}
		ns.Configure(ResolverOptions{Concurrency: 6})
		synctest.Wait()
		if got := strings.Join(ns.asked, ""); got != "abcdefg" || ns.running != 6 {
			t.Errorf("asked %s, %d at once of 6", got, ns.running)
		}
		ns.Configure(ResolverOptions{Concurrency: 1})
		for host := range strings.SplitSeq("a b d e f", " ") {
			waits[host] <- "192.0.2.1"
			synctest.Wait()
		}
		if got := strings.Join(ns.asked, ""); got != "abcdefg" || ns.running != 1 {
			t.Errorf("asked %s, %d at once of 1", got, ns.running)
		}
		waits["g"] <- "192.0.2.1"
		waits["h"] <- "192.0.2.1"
		waiters.Wait()
		if s := ns.Stats(); s.Success != 8 || s.Names != 8 || ns.most != 6 {
			t.Errorf("%+v, %d at most", s, ns.most)
		}
		ns.answer("quick", "192.0.2.9")
		ns.Configure(ResolverOptions{Concurrency: 2})
		slow := make(chan any)
		ask("slow", slow)
		ns.want("quick", "192.0.2.9")
		slow <- "192.0.2.1"
		waiters.Wait()
	})
}

// R-DNS-2: past dnsRefresh a dial has the answer at once and asks behind itself.
func TestAnswersAreRefreshedBehindTheDial(t *testing.T) {
	bubble(t, func(t *testing.T, ns *names) {
		ns.answer("app.test", "192.0.2.1")
		ns.want("app.test", "192.0.2.1")
		ns.answer("app.test", "192.0.2.2")
		pass(10*time.Second - 1)
		ns.want("app.test", "192.0.2.1")
		if n := ns.count("app.test"); n != 1 {
			t.Errorf("%d lookups within dnsRefresh", n)
		}
		pass(1)
		wait := make(chan any)
		ns.answer("app.test", wait)
		for range 5 { // they wait for nothing and share what is asked
			ns.want("app.test", "192.0.2.1")
		}
		wait <- "192.0.2.2"
		if n := ns.count("app.test"); n != 2 {
			t.Errorf("%d lookups", n)
		}
		ns.want("app.test", "192.0.2.2")
		if s := ns.Stats(); s.StaleAnswers != 0 {
			t.Errorf("%d stale answers without a failure", s.StaleAnswers)
		}
	})
}

// R-DNS-2: while lookups fail the last answer serves, up to dnsStaleMax.
func TestStaleAnswersServeWhileLookupsFail(t *testing.T) {
	bubble(t, func(t *testing.T, ns *names) {
		ns.Configure(ResolverOptions{StaleMax: time.Hour, NegativeTTL: time.Second})
		ns.answer("app.test", "192.0.2.1")
		ns.want("app.test", "192.0.2.1")
		ns.answer("app.test", errServFail)
		pass(time.Minute)
		ns.want("app.test", "192.0.2.1") // the lookup behind this one fails
		asked := ns.count("app.test")
		for range 3 { // dnsNegativeTTL holds for lookups behind a dial too
			ns.want("app.test", "192.0.2.1")
		}
		if n := ns.count("app.test"); asked != 2 || n != 2 {
			t.Errorf("%d lookups, then %d", asked, n)
		}
		pass(time.Second)
		ns.want("app.test", "192.0.2.1")
		if n := ns.count("app.test"); n != 3 {
			t.Errorf("%d lookups after dnsNegativeTTL", n)
		}
		if s := ns.Stats(); s.StaleAnswers != 4 || s.Failure != 2 {
			t.Errorf("%+v", s)
		}
		pass(59*time.Minute - 2*time.Second)
		ns.want("app.test", "192.0.2.1")
		pass(time.Second)
		ns.want("app.test", "error") // it is an hour old
		ns.answer("app.test", "192.0.2.3")
		pass(time.Second)
		ns.want("app.test", "192.0.2.3")
	})
}

// With dnsStaleMax 0 a dial waits for the answer to an older question.
func TestNoStaleAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, ns *names) {
		ns.Configure(ResolverOptions{Refresh: 5 * time.Second})
		ns.answer("app.test", "192.0.2.1")
		ns.want("app.test", "192.0.2.1")
		ns.answer("app.test", "192.0.2.2")
		pass(5*time.Second - 1)
		ns.want("app.test", "192.0.2.1")
		pass(1)
		ns.want("app.test", "192.0.2.2")
		ns.answer("app.test", errServFail)
		pass(5 * time.Second)
		ns.want("app.test", "error")
		ns.want("app.test", "error")
		if n := ns.count("app.test"); n != 4 { // no dnsNegativeTTL: each dial asks
			t.Errorf("%d lookups", n)
		}
	})
}

// R-DNS-2: that a name does not exist drops its answer.
func TestNoSuchNameDropsTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, ns *names) {
		ns.answer("app.test", "192.0.2.1")
		ns.want("app.test", "192.0.2.1")
		ns.answer("app.test", errNXDomain)
		pass(10 * time.Second)
		ns.want("app.test", "192.0.2.1") // refreshed behind
		synctest.Wait()
		ns.want("app.test", "error")
		if s := ns.Stats(); s.NotFound != 1 || s.StaleAnswers != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// R-DNS-2: a name that failed is asked again after dnsNegativeTTL, not before.
func TestFailedNamesAreLeftAlone(t *testing.T) {
	for _, failure := range []error{errServFail, errNXDomain} {
		bubble(t, func(t *testing.T, ns *names) {
			ns.answer("app.test", failure)
			ns.want("app.test", "error")
			ns.answer("app.test", "192.0.2.1")
			pass(time.Second - 1)
			ns.want("app.test", "error")
			if n := ns.count("app.test"); n != 1 {
				t.Errorf("%d lookups", n)
			}
			pass(1)
			ns.want("app.test", "192.0.2.1")
		})
	}
}

// R-DNS-3: the wait for a name ends with the dial's own time; the lookup goes on
// for whoever comes next, as long as a lookup may.
func TestWaitForANameIsBound(t *testing.T) {
	bubble(t, func(t *testing.T, ns *names) {
		wait := make(chan any)
		ns.answer("app.test", wait)
		f := func(err error, timeout bool) {
			t.Helper()
			if e, ok := errors.AsType[*DialError](err); !ok || e.Timeout != timeout {
				t.Errorf("%v, want a DialError with Timeout %v", err, timeout)
			}
		}
		tg := target("app.test:80")
		tg.InitTimeout = time.Second
		c := (&Dialer{Resolver: ns.Resolver}).H1(tg, nil)
		began := time.Now()
		_, err := c.Do(bg, get("/"))
		if f(err, true); time.Since(began) != time.Second {
			t.Errorf("after %v", time.Since(began))
		}
		var late sync.WaitGroup
		late.Go(func() {
			_, _, err := c.Dial(bg) // joins the same lookup, which fails before this one's time is up
			f(err, false)
		})
		wait <- errServFail
		late.Wait()
		if n := ns.count("app.test"); n != 1 {
			t.Errorf("%d lookups", n)
		}
		ctx, leave := context.WithCancel(bg)
		pass(time.Second)
		late.Go(func() {
			if _, _, err := c.Dial(ctx); !strings.Contains(err.Error(), "client") {
				t.Errorf("%v, want that the client is gone", err)
			}
		})
		synctest.Wait()
		leave()
		late.Wait()
		pass(lookupTimeout)
		synctest.Wait()
		if s := ns.Stats(); s.Failure != 2 || ns.running != 0 {
			t.Errorf("%+v, %d running: a lookup has no end", s, ns.running)
		}
	})
}

// Close ends lookups that run or wait for their turn, and whoever waits for them.
func TestCloseJoinsLookups(t *testing.T) {
	bubble(t, func(t *testing.T, ns *names) {
		var waiters sync.WaitGroup
		for host := range strings.SplitSeq("a b c d e f", " ") {
			ns.answer(host, make(chan any))
			waiters.Go(func() { ns.want(host, "error") })
		}
		synctest.Wait()
		ns.Close()
		waiters.Wait()
		ns.want("g", "error")
		if n := ns.count("g"); n != 0 {
			t.Error("a closed resolver asks")
		}
	})
}

// However many names are asked for, a bounded number is remembered: the one used
// last is among them.
func TestNamesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, ns *names) {
		ns.answer("kept", "192.0.2.1")
		ns.want("kept", "192.0.2.1")
		for i := range maxNames + 10 {
			host := fmt.Sprint("n", i)
			ns.answer(host, "192.0.2.2")
			ns.want(host, "192.0.2.2")
			pass(time.Nanosecond)
			ns.want("kept", "192.0.2.1")
		}
		if s := ns.Stats(); s.Names != maxNames || ns.count("kept") != 1 {
			t.Errorf("%d names, %d lookups of the one in use", s.Names, ns.count("kept"))
		}
	})
}

// pass lets d pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// What is dialled of an answer: usable addresses, a bounded number, families by
// turns, each address of a family first in its turn.
func TestDialOrder(t *testing.T) {
	f := func(found string, turn int, want string) {
		t.Helper()
		var in []netip.Addr
		for s := range strings.FieldsSeq(found) {
			in = append(in, netip.MustParseAddr(s))
		}
		if got := strings.Trim(fmt.Sprint(dialOrder(usable(in), turn)), "[]"); got != want {
			t.Errorf("%s, turn %d: %s, want %s", found, turn, got, want)
		}
	}
	f("192.0.2.1", 7, "192.0.2.1")
	f("192.0.2.1 192.0.2.2 2001:db8::1", 0, "192.0.2.1 2001:db8::1 192.0.2.2")
	f("192.0.2.1 192.0.2.2 2001:db8::1", 1, "192.0.2.2 2001:db8::1 192.0.2.1")
	f("192.0.2.1 192.0.2.2 2001:db8::1", 2, "192.0.2.1 2001:db8::1 192.0.2.2")
	f("2001:db8::1 2001:db8::2 192.0.2.1", 0, "2001:db8::1 192.0.2.1 2001:db8::2")
	f("::ffff:192.0.2.1", 0, "192.0.2.1")
	f("0.0.0.0 :: 224.0.0.1 ff02::1 255.255.255.255", 0, "")
	f("127.0.0.1 0.0.0.0", 0, "127.0.0.1")
	var many strings.Builder
	for i := range 300 {
		many.WriteString(fmt.Sprintf("2001:db8::%x ", i+1))
	}
	var in []netip.Addr
	for s := range strings.FieldsSeq(many.String() + "192.0.2.1") {
		in = append(in, netip.MustParseAddr(s))
	}
	if got := usable(in); len(got) != maxAddresses || !slices.Contains(got, netip.MustParseAddr("192.0.2.1")) {
		t.Errorf("%d addresses, or only of one family: %v", len(got), got)
	}
}
