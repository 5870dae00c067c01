package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Gateway is what was counted of all applications of one protocol together.
type Gateway struct {
	Idle, Busy, Dialing int               // connections
	Requests            map[string]uint64 // calls that have ended, by outcome
	Poisoned            map[string]uint64 // connections that were closed for what their call was, by reason
	StderrBytes         uint64
	Unfit               uint64 // idle connections that were of no use when they were taken
	Resets, Redials     uint64 // calls and dials that were tried again, of LSAPI
}

// Started is what there is of applications that the server starts.
type Started struct {
	States   map[string]int // applications, by state
	Restarts uint64         // of those that run
}

// gatewayCollector reads what read returns at every scrape. The names of its metrics
// begin with that of its protocol.
type gatewayCollector struct {
	read                             func() Gateway
	pool, requests, poisoned, stderr *prometheus.Desc

	unfit, resets, redials *prometheus.Desc // the last two: nil where nothing is tried again
}

func newGatewayCollector(prefix, protocol string, again bool, read func() Gateway) *gatewayCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, labels, nil)
	}
	c := &gatewayCollector{read: read,
		pool:     desc("_pool_connections", "Connections to "+protocol+" applications.", "state"),
		requests: desc("_requests_total", "Calls of "+protocol+" applications that have ended, by outcome.", "outcome"),
		poisoned: desc("_poisoned_total", "Connections to "+protocol+" applications that could not be kept after their call, by reason.", "reason"),
		stderr:   desc("_stderr_bytes_total", "Bytes that "+protocol+" applications wrote to STDERR, those included that no log has."),
		unfit:    desc("_stale_idle_drops_total", "Kept connections to "+protocol+" applications that were of no use when they were taken: closed, too old, or with something to read."),
	}
	if again {
		c.resets = desc("_reset_retries_total", "Calls that were sent again because "+protocol+" applications had closed the connection without reading them.")
		c.redials = desc("_refused_retries_total", "Dials after one that was refused while "+protocol+" applications were not there.")
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *gatewayCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.pool, c.requests, c.poisoned, c.stderr, c.unfit} {
		ch <- d
	}
	if c.resets != nil {
		ch <- c.resets
		ch <- c.redials
	}
}

// Collect implements prometheus.Collector.
func (c *gatewayCollector) Collect(ch chan<- prometheus.Metric) {
	g := c.read()
	for state, n := range map[string]int{"idle": g.Idle, "busy": g.Busy, "dialing": g.Dialing} {
		ch <- prometheus.MustNewConstMetric(c.pool, prometheus.GaugeValue, float64(n), state)
	}
	for outcome, n := range g.Requests {
		ch <- prometheus.MustNewConstMetric(c.requests, prometheus.CounterValue, float64(n), outcome)
	}
	for reason, n := range g.Poisoned {
		ch <- prometheus.MustNewConstMetric(c.poisoned, prometheus.CounterValue, float64(n), reason)
	}
	ch <- prometheus.MustNewConstMetric(c.stderr, prometheus.CounterValue, float64(g.StderrBytes))
	ch <- prometheus.MustNewConstMetric(c.unfit, prometheus.CounterValue, float64(g.Unfit))
	if c.resets != nil {
		ch <- prometheus.MustNewConstMetric(c.resets, prometheus.CounterValue, float64(g.Resets))
		ch <- prometheus.MustNewConstMetric(c.redials, prometheus.CounterValue, float64(g.Redials))
	}
}

// LSAPITimes take what calls of LSAPI applications say of the time they took.
type LSAPITimes struct{ m *Metrics }

// LSAPITimes returns those of m.
func (m *Metrics) LSAPITimes() LSAPITimes { return LSAPITimes{m} }

// lsapiTimes are names and meanings of the histograms.
var lsapiTimes = [3][2]string{
	{"httpjet_lsapi_dispatch_seconds", "Time of requests for LSAPI applications from the end of their head to the begin of the call: rules, the file, a body that is held."},
	{"httpjet_lsapi_acquire_seconds", "Time that a call of an LSAPI application waited for a connection, a dial or the start of the program included."},
	{"httpjet_lsapi_ttfb_seconds", "Time from the connection to the head of the reply of an LSAPI application, the sending of the request included."},
}

// Dispatched counts the way of a request to its call.
func (t LSAPITimes) Dispatched(d time.Duration) { t.m.lsapi[0].add(d) }

// Acquired counts a wait for a connection.
func (t LSAPITimes) Acquired(d time.Duration) { t.m.lsapi[1].add(d) }

// Answered counts a wait for the head of a reply.
func (t LSAPITimes) Answered(d time.Duration) { t.m.lsapi[2].add(d) }

// gateways are the collectors of both protocols.
func (m *Metrics) gateways() (fastcgi, lsapi *gatewayCollector) {
	read := func(of func(*Gauges) func() Gateway) func() Gateway {
		return func() Gateway {
			if f := of(m.gauges.Load()); f != nil {
				return f()
			}
			return Gateway{}
		}
	}
	return newGatewayCollector("httpjet_fastcgi", "FastCGI", false, read(func(g *Gauges) func() Gateway { return g.FastCGI })),
		newGatewayCollector("httpjet_lsapi", "LSAPI", true, read(func(g *Gauges) func() Gateway { return g.LSAPI }))
}

var (
	startedState = prometheus.NewDesc("httpjet_started_applications",
		"Applications that httpjet starts, by what they do.", []string{"state"}, nil)
	startedRestarts = prometheus.NewDesc("httpjet_started_application_restarts",
		"Restarts of the applications that run now.", nil, nil)
)

// startedCollector reads Gauges.Started at every scrape.
type startedCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *startedCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- startedState
	ch <- startedRestarts
}

// Collect implements prometheus.Collector.
func (c *startedCollector) Collect(ch chan<- prometheus.Metric) {
	var s Started
	if read := c.m.gauges.Load().Started; read != nil {
		s = read()
	}
	for state, n := range s.States {
		ch <- prometheus.MustNewConstMetric(startedState, prometheus.GaugeValue, float64(n), state)
	}
	ch <- prometheus.MustNewConstMetric(startedRestarts, prometheus.GaugeValue, float64(s.Restarts))
}
