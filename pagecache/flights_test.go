package pagecache

import (
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
)

// R-CACHE-10.
func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(Options{})
		now := time.Now()
		release := make(chan bool)
		made := make(chan bool, 100)
		slow := func(*exchange.Exchange) (int, string, string) {
			made <- true
			<-release
			return 200, opted, "page"
		}
		got := make(chan told, 10)
		for range 10 {
			go func() { got <- s.ask(get{target: "/", now: now}, slow) }()
		}
		synctest.Wait()
		if len(made) != 1 {
			t.Fatalf("%d make the page", len(made))
		}
		close(release)
		for range 10 {
			if g := <-got; g.body != "page" {
				t.Errorf("%+v", g)
			}
		}
		if len(made) != 1 {
			t.Errorf("%d have made the page", len(made))
		}
		s.Cache.Close()
	})
}

// Who follows somebody slow makes the page himself after ten seconds; nobody waits for a
// page that is not stored.
func TestFollowersDoNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(Options{})
		release := make(chan bool)
		go s.ask(get{target: "/", now: time.Now()}, func(*exchange.Exchange) (int, string, string) { <-release; return 200, opted, "slow" })
		synctest.Wait()
		begin := time.Now()
		if got := s.ask(get{target: "/", now: begin}, says(200, "", "own")); got.body != "own" || time.Since(begin) != flightWait {
			t.Errorf("%+v after %v", got, time.Since(begin))
		}
		close(release)
		synctest.Wait()

		s.ask(get{target: "/u", now: time.Now()}, says(200, "", "never stored"))
		release = make(chan bool)
		go s.ask(get{target: "/u", now: time.Now()}, func(*exchange.Exchange) (int, string, string) { <-release; return 200, "", "slow" })
		synctest.Wait()
		begin = time.Now()
		if s.ask(get{target: "/u", now: begin}, says(200, "", "own")); time.Since(begin) != 0 {
			t.Errorf("waited %v for a page that is never stored", time.Since(begin))
		}
		close(release)
		synctest.Wait()
		s.Cache.Close()
	})
}

// A handler that panics does not leave others waiting.
func TestAPanicEndsTheFlight(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	func() {
		defer func() { recover() }()
		s.ask(get{target: "/", now: time.Now()}, func(*exchange.Exchange) (int, string, string) { panic("application") })
	}()
	if n := s.Cache.misses.Len(); n != 0 {
		t.Fatalf("%d flights are left", n)
	}
	if got := s.ask(get{target: "/", now: time.Now()}, says(200, opted, "page")); got.body != "page" {
		t.Fatalf("%+v", got)
	}
}
