package proxycache

import (
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"httpjet/exchange"
	"httpjet/freshness"
)

// A hit takes no memory beside the exchange: the look-up, and the texts of its head
// within one second (R-CACHE-17, R-PERF-1).
func TestHitTakesNoMemory(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector makes pools forget")
	}
	h, o := site(t, freshness.Rules{})
	o.says(reply(200, strings.Repeat("x", 900), "Cache-Control: max-age=600", `ETag: "a"`, "Vary: Accept-Encoding"))
	w := &dropping{wire{ctx: context.Background()}}
	x := &exchange.Exchange{}
	serve := func() {
		x.Reset(w)
		x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme = "GET", "/", "a.example", "http"
		x.Req.Fields.Add("Accept-Encoding", "gzip, br")
		x.Req.Fields.Add("User-Agent", "x")
		if err := exchange.Run(x, h); err != nil {
			t.Fatal(err)
		}
	}
	serve()
	if n := testing.AllocsPerRun(200, serve); n > 0 {
		t.Error(n, "allocations")
	}
	if o.count() != 1 {
		t.Error(o.count())
	}
}

type dropping struct{ wire }

func (*dropping) Head(*exchange.Response, bool, bool) error { return nil }
func (*dropping) Write(p []byte) (int, error)               { return len(p), nil }

func BenchmarkHit(b *testing.B) {
	h, o := site(b, freshness.Rules{})
	o.says(reply(200, strings.Repeat("x", 900), "Cache-Control: max-age=36000", `ETag: "a"`, "Content-Type: text/plain"))
	w := &dropping{wire{ctx: context.Background()}}
	x := &exchange.Exchange{}
	b.ReportAllocs()
	for b.Loop() {
		x.Reset(w)
		x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme = "GET", "/", "a.example", "http"
		x.Req.Fields.Add("Accept-Encoding", "gzip, br")
		x.Req.Fields.Add("User-Agent", "x")
		exchange.Run(x, h)
	}
}

func BenchmarkLookUp(b *testing.B) {
	h, o := site(b, freshness.Rules{})
	o.says(reply(200, "x", "Cache-Control: max-age=36000", "Vary: Accept-Encoding"))
	ask(h, "GET /", "Accept-Encoding: gzip, br")
	x := &exchange.Exchange{}
	x.Reset(&dropping{})
	x.Req.Method, x.Req.Target, x.Req.Host, x.Req.Scheme = "GET", "/", "a.example", "http"
	x.Req.Fields.Add("Accept-Encoding", "gzip, br")
	l := &look{}
	b.ReportAllocs()
	for b.Loop() {
		l.fill(x)
		if e, _ := h.find(x, l); e == nil {
			b.Fatal("a miss")
		}
	}
}
