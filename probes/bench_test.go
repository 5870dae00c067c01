package probes

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"httpjet/extproc"
	"httpjet/groups"
)

// BenchmarkTick is the scheduler's own part of a probe, among 4,000 peers: who is
// due, the start of its probe, its result.
func BenchmarkTick(b *testing.B) {
	o := Options{}
	for range 4000 {
		o.Peers = append(o.Peers, Peer{Check: Check{Interval: 10 * time.Second, Timeout: time.Second}, Client: instant{},
			Verdict: groups.NewVerdict(groups.Health{Rise: 2, Fall: 3}, time.Now)})
	}
	s := New(o)
	now := time.Now()
	for _, t := range s.queue {
		t.enter(now)
	}
	s.queue.init()
	b.ReportAllocs()
	for b.Loop() {
		t := s.queue[0]
		s.tick(context.Background(), t, t.Clock.due)
		s.queue.sink()
		s.wg.Wait()
	}
}

type instant struct{}

func (instant) Probe(context.Context, extproc.Probe) error { return nil }

// BenchmarkProbe is a whole probe by GET over the loopback, its server's part
// included.
func BenchmarkProbe(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "well\n") })}
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	c := extproc.NewH1(extproc.Target{Scheme: extproc.H1, Network: "tcp", Address: l.Addr().String()}, nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Probe(context.Background(), extproc.Probe{Method: "GET", Path: "/", Status: 200}); err != nil {
			b.Fatal(err)
		}
	}
	server.Close()
	<-done
}
