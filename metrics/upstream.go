package metrics

import (
	"strconv"
	"time"
)

// Group is an upstream group at the time of a scrape (R-MET-2).
type Group struct {
	Scope, Name string // "server" or "vhost:<name>", and the processor's name: together unique
	Failovers   uint64 // moves to another peer
	NoUpstream  uint64 // exchanges for which no peer was eligible
	Peers       []Peer // by ordinal
}

// Peer is one member of a Group. Counts only grow while the group stays as it is.
type Peer struct {
	Healthy, Draining        bool
	Active                   int
	Selections               uint64
	Replies                  [6]uint64 // by class of status; 0 and 1 are not told
	Failures                 []uint64  // attempts without a head, by Groups.Reasons
	Attempts                 []uint64  // that ended, by Groups.Outcomes
	Dial, Response           int       // breakers: 0 closed, 1 open, 2 half-open (R-BRK-10)
	DialTrips, ResponseTrips uint64
	Idle, Busy, Dialing      int    // connections of its pool
	Retries                  uint64 // attempts that repeat one before (R-MET-5)
	RateLimited              uint64 // choices that passed it over
	Timed                    uint64 // attempts that took
	Took                     time.Duration
}

// Groups are all groups, and the words of what is counted of their peers.
type Groups struct {
	Reasons, Outcomes []string
	All               []Group
}

// WatchGroups sets where the groups are read from, at every scrape.
func (m *Metrics) WatchGroups(read func() Groups) { m.groups.Store(&read) }

// peerLabels are the labels of a peer, whole and in part, as the series have them that
// have others between: few and long pieces, because there may be 100,000 series.
type peerLabels struct{ all, group, groupPeer, peerScope, scope string }

// labelPeer returns the labels of a peer of a group, whose own labels are given.
func labelPeer(group, scope string, ordinal int) peerLabels {
	peer := label("peer", strconv.Itoa(ordinal))
	all := group + "," + peer + "," + scope
	at := len(group) + 1
	return peerLabels{all, group, all[:at+len(peer)], all[at:], scope}
}

func labelAll(name string, values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = label(name, v)
	}
	return out
}

// writeGroups tells the groups of the generation in force. Nothing is registered
// or forgotten at a reload: what is gone is not told any more.
func (m *Metrics) writeGroups(t *text) {
	read := m.groups.Load()
	if read == nil {
		return
	}
	all := (*read)()
	groups := all.All
	type groupLabels struct {
		group, scope string
		peers        []peerLabels
	}
	labels := make([]groupLabels, len(groups))
	for i := range groups {
		l := groupLabels{label("group", groups[i].Name), label("scope", groups[i].Scope), make([]peerLabels, len(groups[i].Peers))}
		for n := range l.peers {
			l.peers[n] = labelPeer(l.group, l.scope, n)
		}
		labels[i] = l
	}
	each := func(name, kind, help string, write func(p *Peer, l *peerLabels)) {
		t.family("httpjet_proxy_"+name, kind, help)
		for i := range groups {
			for n := range groups[i].Peers {
				write(&groups[i].Peers[n], &labels[i].peers[n])
			}
		}
	}
	one := func(name, kind, help string, value func(p *Peer) uint64) {
		each(name, kind, help, func(p *Peer, l *peerLabels) { t.count(value(p), l.all) })
	}
	t.family("httpjet_proxy_failover_total", "counter", "Moves to another peer of the group, because a dial failed; retries are not among them.")
	for i := range groups {
		t.count(groups[i].Failovers, labels[i].group, labels[i].scope)
	}
	t.family("httpjet_proxy_no_upstream_total", "counter", "Requests for which no peer of the group was eligible.")
	for i := range groups {
		t.count(groups[i].NoUpstream, labels[i].group, labels[i].scope)
	}
	one("peer_healthy", "gauge", "1 if active probes say so, or there are none.", func(p *Peer) uint64 { return number(p.Healthy) })
	one("peer_draining", "gauge", "1 for a peer that gets no new request.", func(p *Peer) uint64 { return number(p.Draining) })
	one("peer_active_requests", "gauge", "Requests and tunnels that are with the peer.", func(p *Peer) uint64 { return uint64(max(0, p.Active)) })
	one("peer_selections_total", "counter", "Attempts for which the peer was chosen.", func(p *Peer) uint64 { return p.Selections })
	one("peer_retries_total", "counter", "Attempts at the peer that repeat one that had been sent before.", func(p *Peer) uint64 { return p.Retries })
	one("peer_rate_limited_total", "counter", "Choices that passed the peer over because its rate limit was reached.", func(p *Peer) uint64 { return p.RateLimited })
	each("peer_responses_total", "counter", "Reply heads of the peer, by class of status.", func(p *Peer, l *peerLabels) {
		for class := 2; class < len(p.Replies); class++ {
			t.count(p.Replies[class], classLabels[class], l.all)
		}
	})
	reasons := labelAll("reason", all.Reasons)
	each("peer_prehead_failures_total", "counter", "Attempts that ended without a reply head, by reason.", func(p *Peer, l *peerLabels) {
		for i, n := range p.Failures {
			t.count(n, l.groupPeer, reasons[i], l.scope)
		}
	})
	outcomes := labelAll("outcome", all.Outcomes)
	each("peer_attempts_total", "counter", "Attempts that have ended, by outcome; a request may need several.", func(p *Peer, l *peerLabels) {
		for i, n := range p.Attempts {
			t.count(n, l.group, outcomes[i], l.peerScope)
		}
	})
	each("peer_attempt_duration_seconds", "summary", "Time of the attempts that have ended, from the choice of the peer to the last byte of the answer.", func(p *Peer, l *peerLabels) {
		t.sum(p.Took.Seconds(), l.all)
		t.part("_count", p.Timed, l.all)
	})
	each("pool_connections", "gauge", "Connections to the peer; a tunnel is a busy one. Over HTTP/2 busy is requests.", func(p *Peer, l *peerLabels) {
		t.count(uint64(max(0, p.Idle)), l.all, `state="idle"`)
		t.count(uint64(max(0, p.Busy)), l.all, `state="busy"`)
		t.count(uint64(max(0, p.Dialing)), l.all, `state="dialing"`)
	})
	each("peer_breaker_state", "gauge", "0 closed, 1 open, 2 half-open.", func(p *Peer, l *peerLabels) {
		t.count(uint64(p.Dial), `breaker="dial"`, l.all)
		t.count(uint64(p.Response), `breaker="response"`, l.all)
	})
	each("peer_breaker_trips_total", "counter", "How often the breaker opened.", func(p *Peer, l *peerLabels) {
		t.count(p.DialTrips, `breaker="dial"`, l.all)
		t.count(p.ResponseTrips, `breaker="response"`, l.all)
	})
}

// classLabels are the classes of status as labels; 0 and 1 are not told.
var classLabels = [...]string{2: `class="2xx"`, `class="3xx"`, `class="4xx"`, `class="5xx"`}

func number(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
