package proxy

import (
	"errors"
	"strings"
	"sync"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/streaming"
	"httpjet/tunnels"
)

// isEventStream reports whether a reply is one that lives for as long as both sides
// like, so that it ends with its route (R-WS-7).
func isEventStream(f *exchange.Fields) bool {
	t, _, _ := strings.Cut(f.Get("Content-Type"), ";")
	return exchange.EqualName(strings.TrimSpace(t), "text/event-stream")
}

// cutter is the body of a reply that any goroutine may end: reads then fail.
type cutter interface{ Cut() }

// eventStream is a reply that is relayed, while it is.
type eventStream struct {
	mu   sync.Mutex
	body cutter // nil once the relay has ended: its connection may serve another call
	cut  bool
}

// Close implements tunnels.Tunnel.
func (s *eventStream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.body != nil && !s.cut {
		s.cut = true
		s.body.Cut()
	}
}

// over ends the use of the body and reports whether it was cut.
func (s *eventStream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = nil
	return s.cut
}

// errRouteGone ends an event stream whose route or peer a reload has taken away.
var errRouteGone = &exchange.Error{Status: 503, Reason: "route_gone", Err: errors.New("the route or the peer of the event stream is gone")}

// stream relays an event stream that ends when the route or the peer does. That it
// was cut says nothing about the peer: end is what the reservation ends with, err
// what the exchange does.
func (t *tries) stream(reply *extproc.Reply, peer int) (end, err error) {
	body, ok := reply.Body.(cutter)
	if !ok {
		end = streaming.Relay(t.x, reply)
		return end, end
	}
	s := &eventStream{body: body}
	sets := [3]*tunnels.Set{t.h.Tunnels, nil, t.h.Generation}
	if peer < len(t.h.Peers) {
		sets[1] = t.h.Peers[peer]
	}
	if !tunnels.Join(s, sets[:]...) {
		reply.Close()
		return groups.ErrSetAside, errRouteGone
	}
	defer tunnels.Leave(s, sets[:]...)
	done := reply.Done
	reply.Done = func() error { // the connection may serve another call from then on
		s.over()
		return done()
	}
	end = streaming.Relay(t.x, reply)
	if s.over() {
		return groups.ErrSetAside, errRouteGone
	}
	return end, end
}
