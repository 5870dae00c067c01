package proxycache

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
)

// R-CACHE-10: of concurrent misses one asks; what may not be shared is not, and those
// who need their own ask at once, together.
func TestConcurrentMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(requests int, slowest time.Duration, answer func(n int) exchange.HandlerFunc, same bool) {
			t.Helper()
			h, o := site(t, freshness.Rules{})
			var asked atomic.Int32
			o.next = func(x *exchange.Exchange) error {
				n := int(asked.Add(1))
				time.Sleep(time.Second)
				return answer(n)(x)
			}
			began := time.Now()
			answers := make([]answerOf, 50)
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() { answers[i] = answerOf{ask(h, "GET /"), time.Since(began)} })
			}
			all.Wait()
			bodies := map[string]int{}
			for _, a := range answers {
				bodies[a.body.String()]++
				if a.head.Status != 200 || a.took > slowest {
					t.Errorf("%s after %v", a.answer, a.took)
				}
			}
			if o.count() != requests || same != (len(bodies) == 1) || !same && len(bodies) != 50 {
				t.Errorf("%d requests upstream, bodies %v", o.count(), bodies)
			}
			if h.Cache.flights.Len() != 0 {
				t.Error("a flight is left")
			}
		}
		f(1, time.Second, func(n int) exchange.HandlerFunc { return reply(200, "one", fresh) }, true)
		own := func(fields ...string) func(n int) exchange.HandlerFunc {
			return func(n int) exchange.HandlerFunc { return reply(200, strconv.Itoa(n), fields...) }
		}
		f(50, 2*time.Second, own("Cache-Control: private"), false)
		f(50, 2*time.Second, own(fresh, "Set-Cookie: a=b"), false)
		f(50, 2*time.Second, own("Cache-Control: no-cache", `ETag: "a"`), false)

		// A leader that never comes to its end holds nobody longer than maxWait.
		h, o := site(t, freshness.Rules{})
		release := make(chan bool)
		o.next = func(x *exchange.Exchange) error {
			if o.count() == 1 {
				<-release
			}
			return reply(200, "x", fresh)(x)
		}
		var leader sync.WaitGroup
		leader.Go(func() { ask(h, "GET /") })
		synctest.Wait()
		began := time.Now()
		if a := ask(h, "GET /"); a.head.Status != 200 || time.Since(began) != maxWait {
			t.Error(a, time.Since(began))
		}
		close(release)
		leader.Wait()

		// A client that is slow to take its body does not make others wait for it.
		h, o = site(t, freshness.Rules{})
		slow := make(chan bool)
		o.next = func(x *exchange.Exchange) error {
			first := o.count() == 1
			x.Resp.Fields.Add("Cache-Control", "max-age=60")
			x.Resp.Length = 4
			x.Start(200)
			x.Write([]byte("bo"))
			if first {
				<-slow
			}
			_, err := x.Write([]byte("dy"))
			return err
		}
		leader.Go(func() { ask(h, "GET /") })
		synctest.Wait()
		began = time.Now()
		for range 3 {
			leader.Go(func() {
				if a := ask(h, "GET /"); a.body.String() != "body" || time.Since(began) > maxBody {
					t.Error(a, time.Since(began))
				}
			})
		}
		time.Sleep(2 * maxBody)
		if o.count() != 2 {
			t.Error(o.count())
		}
		close(slow)
		leader.Wait()
	})
}

type answerOf struct {
	answer
	took time.Duration
}

// G44: when the client leaves whose request is the one upstream, that ends; another
// one who waits asks instead.
func TestG44LeaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, o := site(t, freshness.Rules{})
		o.next = func(x *exchange.Exchange) error {
			select {
			case <-x.Context().Done():
				return fmt.Errorf("%w: left", exchange.ErrClientGone)
			case <-time.After(5 * time.Second):
				return reply(200, "done", fresh)(x)
			}
		}
		ctx, leave := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() {
			if a := askWith(ctx, h, "GET /"); exchange.StatusOf(a.err) != 499 {
				t.Error(a, a.err)
			}
		})
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				if a := ask(h, "GET /"); a.body.String() != "done" {
					t.Error(a)
				}
			})
		}
		gone, goAway := context.WithCancel(context.Background())
		all.Go(func() { // one who waits may leave too
			if a := askWith(gone, h, "GET /"); exchange.StatusOf(a.err) != 499 {
				t.Error(a, a.err)
			}
		})
		synctest.Wait()
		goAway()
		leave()
		all.Wait()
		if o.count() != 2 {
			t.Error(o.count())
		}
	})
}
