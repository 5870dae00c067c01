// Package metrics holds the counters of the process and writes them in the text
// format of Prometheus. It has a registry of its own, knows no configuration and
// keeps no label that a client could choose: no URL, address, path or field.
package metrics

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"httpjet/exchange"
)

// served names the kinds of handler that are counted.
var served = map[exchange.Kind]string{exchange.Files: "static", exchange.Proxy: "proxy", exchange.FastCGI: "fastcgi"}

// Gauges are read at every scrape, from the goroutine of the scrape. A nil
// function reads as 0.
type Gauges struct {
	ActiveConnections func() int // client connections open
	ActiveRequests    func() int // exchanges being served
	WebSocketRelays   func() int // upgraded connections relayed
	Bugs              func() int // panics caught; only grows

	Probed  func() []Probed // peers with a health check
	Lookups func() Lookups  // of names of upstreams; only grow
}

// Metrics are the counters of one process. They outlive every configuration and
// reset only when the process ends (R-MET-3). All methods are safe for several
// goroutines.
type Metrics struct {
	// DroppedLines counts access log lines that never reached their file. The
	// log sinks add to it.
	DroppedLines atomic.Uint64

	registry   *prometheus.Registry
	requests   atomic.Uint64
	duration   prometheus.Histogram
	upstream   prometheus.Histogram // to the reply head
	classes    [6]atomic.Uint64     // by first digit; 0 and 1 are not told
	codes      [600]prometheus.Counter
	protocols  [4]prometheus.Counter                      // by major version; 0 is nil
	served     [exchange.WebSocket + 1]prometheus.Counter // nil: not counted
	errors     map[string]prometheus.Counter              // by token of R-HDR-8; read only
	reloads    [2]prometheus.Counter                      // failure, success
	generation prometheus.Gauge
	loaded     prometheus.Gauge
	gauges     atomic.Pointer[Gauges]
	groups     atomic.Pointer[func() []Group]
	routes     atomic.Pointer[func() []Routed]
}

// bounds of the duration histograms: 16 from 50 µs to 5 s.
var bounds = []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2.5, 5}

// codes counted one by one.
var codes = []int{400, 403, 404, 410, 414, 429, 500, 502, 503, 504}

// New registers everything, so that each series exists from the start with 0.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), errors: map[string]prometheus.Counter{}}
	m.gauges.Store(&Gauges{})
	m.registry.MustRegister(&upstream{m}, &routeCollector{m})
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.read("requests_total", "Requests finished, refused ones included.", &m.requests)
	m.duration = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "httpjet_request_duration_seconds",
		Help: "Time from the end of the request head to the last response byte.", Buckets: bounds})
	m.upstream = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "httpjet_phase_upstream_seconds",
		Help: "Time of an attempt at an HTTP upstream, from its permit to the head of the reply, a dial included.", Buckets: bounds})
	m.registry.MustRegister(m.duration, m.upstream)
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "httpjet_bugs_total", Help: "Panics caught while serving: report each."},
		m.reader(func(g *Gauges) func() int { return g.Bugs })))
	m.addOutcomes()
	m.addConfig()
	m.gauge("active_connections", "Client connections open.", func(g *Gauges) func() int { return g.ActiveConnections })
	m.gauge("active_requests", "Requests being served.", func(g *Gauges) func() int { return g.ActiveRequests })
	m.gauge("websocket_relays", "Upgraded connections relayed.", func(g *Gauges) func() int { return g.WebSocketRelays })
	m.registry.MustRegister(&lookupCollector{m})
	m.registry.MustRegister(newProbeCollector(func() func() []Probed { return m.gauges.Load().Probed }))
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "httpjet_log_access_dropped_lines_total", Help: "Access log lines that never reached their file."},
		func() float64 { return float64(m.DroppedLines.Load()) }))
	return m
}

func (m *Metrics) addOutcomes() {
	for c := 2; c <= 5; c++ {
		m.read("status_"+strconv.Itoa(c)+"xx", "Responses with a status of this class; 499 is a client that went away.", &m.classes[c])
	}
	for _, c := range codes {
		m.codes[c] = m.counter("status_"+strconv.Itoa(c), "Responses with this status.")
	}
	for v := 1; v <= 3; v++ {
		m.protocols[v] = m.counter("proto_h"+strconv.Itoa(v), "Requests over this major version of HTTP.")
	}
	for k, name := range served {
		m.served[k] = m.counter("served_"+name, "Requests answered by a handler of this kind.")
	}
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "httpjet_proxy_errors_total",
		Help: "Errors made on the proxy path, by token."}, []string{"error"})
	m.registry.MustRegister(failures)
	for _, t := range exchange.ProxyReasons() {
		m.errors[t] = failures.WithLabelValues(t)
	}
}

func (m *Metrics) addConfig() {
	m.generation = prometheus.NewGauge(prometheus.GaugeOpts{Name: "httpjet_config_generation",
		Help: "Number of the configuration generation in use."})
	m.loaded = prometheus.NewGauge(prometheus.GaugeOpts{Name: "httpjet_config_last_reload_timestamp_seconds",
		Help: "Unix time at which the generation in use was published."})
	reloads := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "httpjet_config_reloads_total",
		Help: "Reloads of the configuration, by result."}, []string{"result"})
	m.registry.MustRegister(m.generation, m.loaded, reloads)
	m.reloads = [2]prometheus.Counter{reloads.WithLabelValues("failure"), reloads.WithLabelValues("success")}
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "httpjet_" + name, Help: help})
	m.registry.MustRegister(c)
	return c
}

// read registers a counter whose value others read too.
func (m *Metrics) read(name, help string, n *atomic.Uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "httpjet_" + name, Help: help},
		func() float64 { return float64(n.Load()) }))
}

// Requests returns how many requests have finished, and the responses by class of
// status; 0 and 1 are empty.
func (m *Metrics) Requests() (total uint64, classes [6]uint64) {
	for i := range classes {
		classes[i] = m.classes[i].Load()
	}
	return m.requests.Load(), classes
}

func (m *Metrics) gauge(name, help string, pick func(*Gauges) func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "httpjet_" + name, Help: help}, m.reader(pick)))
}

func (m *Metrics) reader(pick func(*Gauges) func() int) func() float64 {
	return func() float64 {
		if read := pick(m.gauges.Load()); read != nil {
			return float64(read())
		}
		return 0
	}
}

// Finished counts an exchange whose last byte is out; err is what Run returned
// and took the time since its head was complete. It allocates nothing.
func (m *Metrics) Finished(x *exchange.Exchange, err error, took time.Duration) {
	m.requests.Add(1)
	m.duration.Observe(took.Seconds())
	status := x.LoggedStatus(err)
	if status >= 200 && status < len(m.codes) {
		m.classes[status/100].Add(1)
		if c := m.codes[status]; c != nil {
			c.Inc()
		}
	}
	m.protocols[major(x.Req.Proto)].Inc()
	if c := m.served[x.Route.Kind]; c != nil {
		c.Inc()
	}
	if err != nil {
		if c := m.errors[exchange.ReasonOf(err)]; c != nil {
			c.Inc()
		}
	}
}

// Answered counts the reply head of an upstream, for which an attempt waited so long.
func (m *Metrics) Answered(took time.Duration) { m.upstream.Observe(took.Seconds()) }

// major returns the version of proto; what could not be read came in as HTTP/1.
func major(proto string) int {
	if len(proto) > 5 && (proto[5] == '2' || proto[5] == '3') {
		return int(proto[5] - '0')
	}
	return 1
}

// Published notes the generation that is in use from now on.
func (m *Metrics) Published(generation uint64, at time.Time) {
	m.generation.Set(float64(generation))
	m.loaded.Set(float64(at.UnixMilli()) / 1000)
}

// Reloaded counts a reload: err is why it was refused, nil for success. The
// first load of a process is none.
func (m *Metrics) Reloaded(err error) {
	if err != nil {
		m.reloads[0].Inc()
	} else {
		m.reloads[1].Inc()
	}
}

// Watch sets where the gauges are read from.
func (m *Metrics) Watch(g Gauges) { m.gauges.Store(&g) }

// Handler answers a scrape, always in text format 0.0.4 (R-MET-1).
func (m *Metrics) Handler() http.Handler {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, DisableCompression: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept") // would choose another format
		h.ServeHTTP(w, r)
	})
}
