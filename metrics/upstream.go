package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	Replies                  [6]uint64         // by class of status; 0 and 1 are not told
	Failures                 map[string]uint64 // attempts without a head, by cause
	Attempts                 map[string]uint64 // that ended, by outcome
	Dial, Response           int               // breakers: 0 closed, 1 open, 2 half-open (R-BRK-10)
	DialTrips, ResponseTrips uint64
	Idle, Busy, Dialing      int    // connections of its pool
	Retries                  uint64 // attempts that repeat one before (R-MET-5)
	RateLimited              uint64 // choices that passed it over
	Timed                    uint64 // attempts that took
	Took                     time.Duration
}

// WatchGroups sets where the groups are read from, at every scrape.
func (m *Metrics) WatchGroups(read func() []Group) { m.groups.Store(&read) }

// upstream collects the groups of the generation in force. Nothing is registered
// or forgotten at a reload: what is gone is not told any more.
type upstream struct{ m *Metrics }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("httpjet_proxy_"+name, help, append([]string{"scope", "group"}, labels...), nil)
}

var (
	failovers  = desc("failover_total", "Moves to another peer of the group, because a dial failed; retries are not among them.")
	noUpstream = desc("no_upstream_total", "Requests for which no peer of the group was eligible.")
	healthy    = desc("peer_healthy", "1 if active probes say so, or there are none.", "peer")
	draining   = desc("peer_draining", "1 for a peer that gets no new request.", "peer")
	active     = desc("peer_active_requests", "Requests and tunnels that are with the peer.", "peer")
	selections = desc("peer_selections_total", "Attempts for which the peer was chosen.", "peer")
	replies    = desc("peer_responses_total", "Reply heads of the peer, by class of status.", "peer", "class")
	failures   = desc("peer_prehead_failures_total", "Attempts that ended without a reply head, by reason.", "peer", "reason")
	pools      = desc("pool_connections", "Connections to the peer; a tunnel is a busy one. Over HTTP/2 busy is requests.", "peer", "state")
	state      = desc("peer_breaker_state", "0 closed, 1 open, 2 half-open.", "peer", "breaker")
	attempts   = desc("peer_attempts_total", "Attempts that have ended, by outcome; a request may need several.", "peer", "outcome")
	duration   = desc("peer_attempt_duration_seconds", "Time of the attempts that have ended, from the choice of the peer to the last byte of the answer.", "peer")
	retries    = desc("peer_retries_total", "Attempts at the peer that repeat one that had been sent before.", "peer")
	limited    = desc("peer_rate_limited_total", "Choices that passed the peer over because its rate limit was reached.", "peer")
	trips      = desc("peer_breaker_trips_total", "How often the breaker opened.", "peer", "breaker")
)

// Describe implements prometheus.Collector.
func (u *upstream) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{failovers, noUpstream, healthy, draining, active, selections, replies, failures, attempts, duration, retries, limited, pools, state, trips} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (u *upstream) Collect(ch chan<- prometheus.Metric) {
	read := u.m.groups.Load()
	if read == nil {
		return
	}
	for _, g := range (*read)() {
		send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, kind, v, append([]string{g.Scope, g.Name}, labels...)...)
		}
		send(failovers, prometheus.CounterValue, float64(g.Failovers))
		send(noUpstream, prometheus.CounterValue, float64(g.NoUpstream))
		for i, p := range g.Peers {
			n := strconv.Itoa(i)
			send(healthy, prometheus.GaugeValue, number(p.Healthy), n)
			send(draining, prometheus.GaugeValue, number(p.Draining), n)
			send(active, prometheus.GaugeValue, float64(p.Active), n)
			send(selections, prometheus.CounterValue, float64(p.Selections), n)
			for class := 2; class < len(p.Replies); class++ {
				send(replies, prometheus.CounterValue, float64(p.Replies[class]), n, strconv.Itoa(class)+"xx")
			}
			for reason, count := range p.Failures {
				send(failures, prometheus.CounterValue, float64(count), n, reason)
			}
			for outcome, count := range p.Attempts {
				send(attempts, prometheus.CounterValue, float64(count), n, outcome)
			}
			ch <- prometheus.MustNewConstSummary(duration, p.Timed, p.Took.Seconds(), nil, g.Scope, g.Name, n)
			send(retries, prometheus.CounterValue, float64(p.Retries), n)
			send(limited, prometheus.CounterValue, float64(p.RateLimited), n)
			send(pools, prometheus.GaugeValue, float64(p.Idle), n, "idle")
			send(pools, prometheus.GaugeValue, float64(p.Busy), n, "busy")
			send(pools, prometheus.GaugeValue, float64(p.Dialing), n, "dialing")
			send(state, prometheus.GaugeValue, float64(p.Dial), n, "dial")
			send(state, prometheus.GaugeValue, float64(p.Response), n, "response")
			send(trips, prometheus.CounterValue, float64(p.DialTrips), n, "dial")
			send(trips, prometheus.CounterValue, float64(p.ResponseTrips), n, "response")
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
