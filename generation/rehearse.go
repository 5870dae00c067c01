package generation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"httpjet/probes"
)

// Tried is a peer that was asked before anybody depends on it.
type Tried struct {
	Group   string `json:"group"` // scope/name
	Peer    int    `json:"peer"`
	Address string `json:"address"`
	OK      bool   `json:"ok"`
	Error   string `json:"error,omitempty"`
}

// rehearseTime bounds one trial of a peer without a health check.
const rehearseTime = 5 * time.Second

// Rehearse asks every peer of next that g has no connections to, once: with its
// health check, else by connecting. At most probes.MaxInFlight are asked at a time,
// and none any more when ctx is done.
// Nobody's verdict changes.
func (g *Generation) Rehearse(ctx context.Context, next *Generation) []Tried {
	var out []Tried
	var clients []member
	for _, u := range next.upstreams {
		was := upstreamOf(g, u)
		for i, m := range u.peers {
			if m.started { // with the reload, not before
				continue
			}
			if was != nil && slices.ContainsFunc(was.peers, func(o member) bool { return o.client == m.client }) {
				continue
			}
			out = append(out, Tried{Group: u.scope + "/" + u.name, Peer: i, Address: m.text()})
			clients = append(clients, m)
		}
	}
	gate := make(chan struct{}, probes.MaxInFlight)
	for i := range out {
		gate <- struct{}{}
		go rehearsePeer(ctx, clients[i], &out[i], gate)
	}
	for range cap(gate) { // all have given theirs back
		gate <- struct{}{}
	}
	return out
}

// rehearsePeer asks one peer, notes what came of it, and gives its place at gate
// back.
func rehearsePeer(ctx context.Context, m member, t *Tried, gate <-chan struct{}) {
	defer func() { <-gate }()
	if ctx.Err() != nil {
		t.Error = "was not asked: the time of the rehearsal was over"
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rehearseTime)
	defer cancel()
	var err error
	switch c := m.client.(type) {
	case probes.Prober:
		err = c.Probe(ctx, m.probe)
	case interface{ Try(context.Context) error }:
		err = c.Try(ctx)
	default:
		err = fmt.Errorf("cannot be tried")
	}
	if t.OK = err == nil; err != nil {
		t.Error = err.Error()
	}
}
