package pagecache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

// A hit takes no memory (R-CACHE-17).
func TestAHitTakesNoMemory(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	s.ask(get{target: "/a?b=c", now: now}, says(200, opted+"Content-Type: text/html", strings.Repeat("x", 1000)))
	x := &exchange.Exchange{}
	w := &devNull{}
	h := exchange.HandlerFunc(func(*exchange.Exchange) error { panic("asked") })
	serve := func() {
		x.Reset(w)
		x.Req.Method, x.Req.Host, x.Req.Target, x.Req.Scheme, x.Called = "GET", "www.test", "/a?b=c", "http", now
		x.Req.Fields.Add("Cookie", "PHPSESSID=1; a=b")
		run := s.Begin(x)
		run.At(nil)
		err := run.Serve(Question{Local: true}, h)
		run.End(err)
		if err != nil || w.n != 1000 {
			t.Fatal(err, w.n)
		}
		w.n = 0
	}
	serve()
	if n := testing.AllocsPerRun(1000, serve); n != 0 && !raced {
		t.Errorf("%v allocations", n)
	}
}

// Look-ups are counted, those of misses and those that are not timed too: all but the
// last few of each run that serves.
func TestLookUpsAreCounted(t *testing.T) {
	if raced {
		t.Skip("the race detector makes pools forget")
	}
	counted, timed := 0, 0
	s := newSite(Options{LookedUp: func(_ time.Duration, n int) { counted, timed = counted+n, timed+1 }})
	defer s.Cache.Close()
	now := time.Now()
	const n = 2000
	for i := range n {
		target := "/page"
		if i%8 == 0 {
			target = fmt.Sprint("/miss/", i)
		}
		s.ask(get{target: target, now: now}, says(200, opted, "x"))
	}
	if counted < n/2 || counted > 2*n { // a miss may look twice, and a pool may forget
		t.Errorf("%d look-ups are counted of %d", counted, n)
	}
	if timed > n/4 {
		t.Errorf("%d look-ups of %d are timed", timed, n)
	}
}

type devNull struct {
	paper
	n int
}

func (w *devNull) Head(*exchange.Response, bool, bool) error { return nil }
func (w *devNull) Write(p []byte) (int, error)               { w.n += len(p); return len(p), nil }

func BenchmarkHit(b *testing.B) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	s.ask(get{target: "/a?b=c", now: now}, says(200, opted+"Content-Type: text/html", strings.Repeat("x", 1000)))
	x, w := &exchange.Exchange{}, &devNull{}
	h := exchange.HandlerFunc(func(*exchange.Exchange) error { panic("asked") })
	b.ReportAllocs()
	for b.Loop() {
		x.Reset(w)
		x.Req.Method, x.Req.Host, x.Req.Target, x.Req.Scheme, x.Called = "GET", "www.test", "/a?b=c", "http", now
		x.Req.Fields.Add("Accept", "*/*")
		run := s.Begin(x)
		run.At(nil)
		run.End(run.Serve(Question{Local: true}, h))
	}
}
