package metrics

import "github.com/prometheus/client_golang/prometheus"

// Gateway is what was counted of all applications of one protocol together.
type Gateway struct {
	Idle, Busy, Dialing int               // connections
	Requests            map[string]uint64 // calls that have ended, by outcome
	Poisoned            map[string]uint64 // connections that were closed for what their call was, by reason
	StderrBytes         uint64
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
}

func newGatewayCollector(prefix, protocol string, read func() Gateway) *gatewayCollector {
	return &gatewayCollector{read,
		prometheus.NewDesc(prefix+"_pool_connections", "Connections to "+protocol+" applications.", []string{"state"}, nil),
		prometheus.NewDesc(prefix+"_requests_total", "Calls of "+protocol+" applications that have ended, by outcome.", []string{"outcome"}, nil),
		prometheus.NewDesc(prefix+"_poisoned_total", "Connections to "+protocol+" applications that could not be kept after their call, by reason.", []string{"reason"}, nil),
		prometheus.NewDesc(prefix+"_stderr_bytes_total", "Bytes that "+protocol+" applications wrote to STDERR, those included that no log has.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (c *gatewayCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.pool, c.requests, c.poisoned, c.stderr} {
		ch <- d
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
}

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
	return newGatewayCollector("httpjet_fastcgi", "FastCGI", read(func(g *Gauges) func() Gateway { return g.FastCGI })),
		newGatewayCollector("httpjet_lsapi", "LSAPI", read(func(g *Gauges) func() Gateway { return g.LSAPI }))
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
