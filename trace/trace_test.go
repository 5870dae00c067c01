package trace

import (
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"httpjet/exchange"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// sent is what becomes of fields, given as name, value, ...: those that go on, one
// a line.
func sent(o Options, trusted bool, fields ...string) string {
	var f exchange.Fields
	for i := 0; i < len(fields); i += 2 {
		f.Add(fields[i], fields[i+1])
	}
	o.Outgoing(&exchange.Exchange{}, &f, trusted)
	var out []string
	for n, v := range f.All() {
		out = append(out, n+": "+v)
	}
	return strings.Join(out, "\n")
}

var made = regexp.MustCompile(`(?m)^traceparent: 00-[0-9a-f]{32}-[0-9a-f]{16}-01$`)

// R-TRACE-1: both fields go on as they came, whatever they hold; none is added.
func TestPassthrough(t *testing.T) {
	for _, fields := range [][]string{
		nil, {"A", "b"}, {"Traceparent", parent, "Tracestate", "a=1"}, {"traceparent", "nonsense", "tracestate", strings.Repeat("a=1,", 500)},
	} {
		want := sent(Options{Distrust: true}, true, fields...) // trusted: the same
		var plain strings.Builder
		for i := 0; i < len(fields); i += 2 {
			plain.WriteString(fields[i] + ": " + fields[i+1] + "\n")
		}
		if got := sent(Options{}, false, fields...); got != strings.TrimSuffix(plain.String(), "\n") || got != want {
			t.Errorf("%q became %q", fields, got)
		}
	}
}

// R-TRACE-2: what can be read goes on unchanged, else there is a fresh one.
func TestInject(t *testing.T) {
	o := Options{Mode: Inject}
	same := func(fields ...string) {
		t.Helper()
		var want strings.Builder
		for i := 0; i < len(fields); i += 2 {
			want.WriteString("\n" + fields[i] + ": " + fields[i+1])
		}
		if got := "\n" + sent(o, false, fields...); got != want.String() {
			t.Errorf("%q became %q", fields, got)
		}
	}
	same("X-A", "1", "TraceParent", parent, "tracestate", "a=1,b=2", "tracestate", "c=3")
	same("traceparent", "cc"+parent[2:]+"-what-comes-later")
	replaced := func(fields ...string) {
		t.Helper()
		got := sent(o, false, append(fields, "X-A", "1")...)
		if !made.MatchString(got) || strings.Count(strings.ToLower(got), "traceparent") != 1 || strings.Contains(got, "tracestate") || !strings.Contains(got, "X-A: 1") {
			t.Errorf("%q became %q", fields, got)
		}
		if first, second := made.FindString(got), made.FindString(sent(o, false, fields...)); first == second {
			t.Errorf("made twice: %s", first)
		}
	}
	replaced()
	replaced("tracestate", "a=1")
	replaced("traceparent", parent, "traceparent", parent, "tracestate", "a=1")
	for _, bad := range []string{"", "nonsense", strings.ToUpper(parent), "ff" + parent[2:], parent + "-x", parent + "x", parent[:54],
		"cc" + parent[2:] + "x", "cc" + parent[2:] + "-" + strings.Repeat("x", 512), " " + parent,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g"} {
		replaced("traceparent", bad, "tracestate", "a=1")
	}
}

// A trace that begins here has the id of its request (R-TRACE-2, R-PIPE-11): the two are
// found by one. It costs the field's value and no other memory.
func TestTraceHasTheIDOfItsRequest(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	x := &exchange.Exchange{}
	x.Req.ID = id
	var f exchange.Fields
	begin := func() {
		f.Reset()
		Options{Mode: Inject}.Outgoing(x, &f, false)
	}
	begin()
	first := f.Get("traceparent")
	if x.TraceID != id || first[:36] != "00-"+id+"-" || !Valid(first) {
		t.Errorf("trace %q, %q", x.TraceID, first)
	}
	begin()
	if again := f.Get("traceparent"); again[:36] != first[:36] || again[36:] == first[36:] {
		t.Errorf("%q, then %q: the span is to be another one", first, again)
	}
	if n := testing.AllocsPerRun(100, begin); n > 1 {
		t.Errorf("%v allocations", n)
	}
	x.TraceID = ""
	(&Tracer{Rate: 1}).Begin(x, false)
	if x.TraceID != id || hex.EncodeToString(x.Trace.ID[:]) != id || !x.Trace.Sampled {
		t.Errorf("span: %q, %+v", x.TraceID, x.Trace)
	}
}

// R-TRACE-4: 32 members, 512 bytes.
func TestStateIsBounded(t *testing.T) {
	o := Options{Mode: Inject}
	members := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, "k"+strconv.Itoa(i)+"=v")
		}
		return strings.Join(list, ",")
	}
	f := func(want string, states ...string) {
		t.Helper()
		fields := []string{"traceparent", parent}
		for _, s := range states {
			fields = append(fields, "tracestate", s)
		}
		got := strings.TrimPrefix(sent(o, false, fields...), "traceparent: "+parent)
		if got != want {
			t.Errorf("%q became %q, want %q", states, got, want)
		}
	}
	f("\ntracestate: "+members(32), members(32))
	f("\ntracestate: "+members(32), members(33))
	f("\ntracestate: "+members(32), members(33), "late=1")
	f("\ntracestate: a=1, ,,b=2", "a=1, ,,b=2")
	f("\ntracestate: a="+strings.Repeat("v", 510), "a="+strings.Repeat("v", 510))
	f("", "a="+strings.Repeat("v", 511))
	f("", "a="+strings.Repeat("v", 300), "b="+strings.Repeat("v", 300))
	f("", strings.Repeat(",", 600))
}

// trustInbound 0: what a client sends is dropped, what a trusted proxy sends is not.
func TestDistrust(t *testing.T) {
	fields := []string{"traceparent", parent, "tracestate", "a=1"}
	if got := sent(Options{Distrust: true}, false, fields...); got != "" {
		t.Errorf("passed on: %q", got)
	}
	got := sent(Options{Mode: Inject, Distrust: true}, false, fields...)
	if !made.MatchString(got) || strings.Contains(got, "4bf92f35") || strings.Contains(got, "tracestate") {
		t.Errorf("injected: %q", got)
	}
	if got := sent(Options{Mode: Inject, Distrust: true}, true, fields...); !strings.Contains(got, parent) {
		t.Errorf("of a proxy: %q", got)
	}
}

// The default costs nothing (R-TRACE-1).
func TestPassthroughAllocatesNothing(t *testing.T) {
	x := &exchange.Exchange{}
	var f exchange.Fields
	f.Add("traceparent", parent)
	if n := testing.AllocsPerRun(100, func() { Options{}.Outgoing(x, &f, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzValid(f *testing.F) {
	f.Add(parent)
	f.Add("cc" + parent[2:] + "-x")
	f.Fuzz(func(t *testing.T, v string) {
		if !Valid(v) {
			return
		}
		if len(v) > maxField || v[:2] == "ff" || strings.ToLower(v[:55]) != v[:55] {
			t.Errorf("%q is accepted", v)
		}
		if strings.Contains(sent(Options{Mode: Inject}, false, "traceparent", v), v) == false {
			t.Errorf("%q was changed", v)
		}
	})
}

// What it costs to give a request a trace of its own.
func BenchmarkInject(b *testing.B) {
	x := &exchange.Exchange{}
	x.Req.ID = "0af7651916cd43dd8448eb211c80319c"
	var f exchange.Fields
	f.Add("Accept", "*/*")
	f.Add("User-Agent", "curl/8")
	b.ReportAllocs()
	for b.Loop() {
		Options{Mode: Inject}.Outgoing(x, &f, false)
		f.Del("traceparent")
	}
}
