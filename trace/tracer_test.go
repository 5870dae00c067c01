package trace

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"httpjet/exchange"
)

// R-TRACE-4: a client's trace id is for correlation; whether a trace is recorded is
// decided by a trusted proxy or by us.
func TestBegin(t *testing.T) {
	unsampled := parent[:53] + "00"
	f := func(tracer Tracer, trusted bool, inbound string, follows, sampled bool) {
		t.Helper()
		x := &exchange.Exchange{}
		if inbound != "" {
			x.Req.Fields.Add("traceparent", inbound)
		}
		tracer.Out = &Exporter{}
		tracer.Begin(x, trusted)
		if x.Trace.Sampled != sampled || (x.Timeline != nil) != sampled || (x.TraceID == parent[3:35]) != follows || (x.Trace.Parent != [8]byte{}) != follows {
			t.Errorf("%q trusted %v: %+v %q", inbound, trusted, x.Trace, x.TraceID)
		}
		if len(x.TraceID) != 32 || x.Trace.Span == [8]byte{} {
			t.Errorf("%+v", x.Trace)
		}
		before := *x.Trace
		if tracer.Begin(x, trusted); *x.Trace != before {
			t.Error("it begins twice")
		}
	}
	all, none := Tracer{Rate: 1}, Tracer{Rate: 0}
	f(all, false, "", false, true)
	f(none, false, "", false, false)
	f(all, false, parent, true, true)
	f(none, false, parent, true, false) // who is nobody makes us record nothing
	f(all, false, unsampled, true, true)
	f(all, true, unsampled, true, false)
	f(none, true, parent, true, true)
	f(all, true, "nonsense", false, true)
	all.Distrust, none.Distrust = true, true
	f(all, false, parent, false, true)
	f(none, true, parent, true, true)
	x := &exchange.Exchange{}
	(&Tracer{Rate: 1}).Begin(x, false)
	if x.Timeline != nil || !x.Trace.Sampled {
		t.Error("what goes nowhere is recorded")
	}
	(*Tracer)(nil).Begin(&exchange.Exchange{}, false)
}

// R-TRACE-3: each attempt has a span of its own, in the trace of the request.
func TestAttempts(t *testing.T) {
	f := func(o Options, inbound string, want func(first, second string, f *exchange.Fields) bool) {
		t.Helper()
		x := &exchange.Exchange{}
		var sent exchange.Fields
		if inbound != "" {
			x.Req.Fields.Add("traceparent", inbound)
			sent.Add("traceparent", inbound)
			sent.Add("tracestate", "a=1")
		}
		o.Outgoing(x, &sent, false)
		x.BeginAttempt("server", "app", 0, x.Began, noTimer{})
		o.Attempt(x, &sent)
		first := sent.Get("traceparent")
		x.BeginAttempt("server", "app", 1, x.Began, noTimer{})
		o.Attempt(x, &sent)
		if second := sent.Get("traceparent"); !want(first, second, &sent) {
			t.Errorf("%q: %q, then %q", inbound, first, second)
		}
	}
	own := func(inbound bool) func(first, second string, f *exchange.Fields) bool {
		return func(first, second string, f *exchange.Fields) bool {
			n := 0
			for range f.Values("traceparent") {
				n++
			}
			return n == 1 && Valid(first) && Valid(second) && first[:35] == second[:35] && first[36:52] != second[36:52] &&
				(first[3:35] == parent[3:35]) == inbound && first[36:52] != parent[36:52] && (f.Get("tracestate") == "a=1") == inbound
		}
	}
	tracer := &Tracer{Rate: 1}
	f(Options{Mode: Span, Tracer: tracer}, "", own(false))
	f(Options{Mode: Span, Tracer: tracer}, parent, own(true))
	f(Options{Mode: Span, Distrust: true, Tracer: &Tracer{Rate: 1, Distrust: true}}, parent, own(false))
	f(Options{}, parent, func(first, second string, _ *exchange.Fields) bool { return first == parent && second == parent })
	f(Options{Mode: Inject}, parent, func(first, second string, _ *exchange.Fields) bool { return first == parent && second == parent })
	f(Options{Mode: Span, Tracer: &Tracer{}}, "", func(first, _ string, _ *exchange.Fields) bool { return strings.HasSuffix(first, "-00") })
	// What the server asks for itself is in nobody's trace.
	x, sent := &exchange.Exchange{Background: true}, exchange.Fields{}
	sent.Add("traceparent", parent)
	o := Options{Mode: Span, Tracer: tracer}
	o.Outgoing(x, &sent, false)
	if o.Attempt(x, &sent); sent.Len() != 0 || x.Trace != nil {
		t.Errorf("%d fields", sent.Len())
	}
}

// Who may ask for a timeline: the client behind a trusted proxy, else whoever opened the
// connection, whatever the request says.
func TestAudience(t *testing.T) {
	a := &Audience{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("::1/128")}}
	f := func(a *Audience, peer, client string, trusted, asks, want bool) {
		t.Helper()
		x := &exchange.Exchange{}
		x.Req.Client = netip.MustParseAddr(client)
		if asks {
			x.Req.Fields.Add("x-httpjet-timeline", "1")
		}
		a.Ask(x, netip.MustParseAddr(peer), trusted)
		if (x.Timeline != nil && x.Timeline.Asked) != want || want && x.Req.Fields.Len() > 0 {
			t.Errorf("peer %s, client %s: %+v", peer, client, x.Timeline)
		}
	}
	f(a, "192.0.2.1", "192.0.2.1", false, true, true)
	f(a, "::ffff:192.0.2.1", "192.0.2.1", false, true, true)
	f(a, "192.0.2.1", "192.0.2.1", false, false, false)
	f(a, "198.51.100.1", "198.51.100.1", false, true, false)
	f(a, "198.51.100.1", "192.0.2.1", false, true, false) // it says so itself
	f(a, "198.51.100.1", "192.0.2.1", true, true, true)
	f(a, "192.0.2.1", "198.51.100.1", true, true, false)
	f(a, "::1", "::1", false, true, true)
	f(nil, "192.0.2.1", "192.0.2.1", false, true, false)
}

// The last ones are kept, the newest first.
func TestTimelines(t *testing.T) {
	l := NewTimelines(3)
	ids := func() (out string) {
		for _, r := range l.List() {
			out += r.ID
		}
		return out
	}
	want := []string{"", "0", "10", "210", "321", "432"}
	for i, w := range want {
		if got := ids(); got != w {
			t.Errorf("%q, want %q", got, w)
		}
		l.Keep(&Record{ID: fmt.Sprint(i)})
	}
	if l.Find("5") == nil || l.Find("1") != nil || (*Timelines)(nil).Find("5") != nil {
		t.Error("found what is gone, or the other way round")
	}
	if n := len(NewTimelines(-1).ring); n != 1 {
		t.Errorf("room for %d", n)
	}
}

// Without somebody who wants to know, nothing is noted and nothing allocated.
func TestOffCostsNothing(t *testing.T) {
	x := &exchange.Exchange{}
	x.Req.Fields.Add("a", "b")
	var sent exchange.Fields
	o := Options{}
	if n := testing.AllocsPerRun(100, func() {
		o.Outgoing(x, &sent, false)
		x.BeginAttempt("server", "app", 0, x.Began, noTimer{})
		o.Attempt(x, &sent)
		x.AttemptReplied(200, exchange.Phases{Head: 1})
		x.Mark("flush", "")
		x.EndAttempt(x.Ended)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A timeline is bounded, whatever an exchange does.
func TestTimelineIsBounded(t *testing.T) {
	x := &exchange.Exchange{Timeline: &exchange.Timeline{}}
	for i := range 1000 {
		x.Mark("flush", "")
		x.BeginAttempt("server", "app", i, x.Began, noTimer{})
		x.AttemptReplied(500, exchange.Phases{})
		x.EndAttempt(x.Began)
	}
	r := NewRecord(x, nil, x.Ended)
	if len(r.Moments) != 100 || len(r.Attempts) != 32 || r.Lost != 900+968 {
		t.Errorf("%d moments, %d attempts, %d lost", len(r.Moments), len(r.Attempts), r.Lost)
	}
	if a := r.Attempts[31]; a.Peer != 31 || a.Status != 500 {
		t.Errorf("%+v", a)
	}
}
