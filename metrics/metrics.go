// Package metrics holds the counters of the process and writes them in the text
// format of Prometheus. It has a registry of its own, knows no configuration and
// keeps no label that a client could choose: no URL, address, path or field.
package metrics

import (
	"bufio"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"httpjet/exchange"
)

// Gauges are read at every scrape, from the goroutine of the scrape. A nil
// function reads as 0.
type Gauges struct {
	ActiveConnections func() int // client connections open
	ActiveRequests    func() int // exchanges being served
	ParkedConnections func() int // those of ActiveConnections that are at rest
	WebSocketRelays   func() int // upgraded connections relayed
	Bugs              func() int // panics caught; only grows
	Overloaded        func() int // requests answered 503 because of maxInFlightReqs; only grows

	Probed  func() []Probed // peers with a health check
	Lookups func() Lookups  // of names of upstreams; only grow
	HTTP2   func() HTTP2    // of clients' connections; only grow
	TLS     func() TLS
	FastCGI func() Gateway
	LSAPI   func() Gateway
	Started func() Started // applications that the server starts
	Clients func() Clients // limits of client addresses
	Rates   func() []Rate  // limits of the requests of each client

	Compression func() Compression
	Spans       func() Spans   // of traces; only grow
	Buffers     func() Buffers // of request bodies

	ProxyCache func() ProxyCache
	PageCache  func() PageCache
	LiteSpeed  func() LiteSpeed
}

// Metrics are the counters of one process. They outlive every configuration and
// reset only when the process ends (R-MET-3). All methods are safe for several
// goroutines.
type Metrics struct {
	// DroppedLines counts access log lines that never reached their file. The
	// log sinks add to it.
	DroppedLines atomic.Uint64

	registry   *prometheus.Registry
	traffic    *traffic
	upstream   durations // to the reply head
	rewrite    durations
	lookup     durations // in caches
	lsapi      [3]durations
	coding     durations // of bodies
	litespeed  *litespeed
	errors     map[string]prometheus.Counter // by token of R-HDR-8; read only
	reloads    [2]prometheus.Counter         // failure, success
	generation prometheus.Gauge
	loaded     prometheus.Gauge
	gauges     atomic.Pointer[Gauges]
	groups     atomic.Pointer[func() Groups]
	routes     atomic.Pointer[func() []Routed]
}

// New registers everything, so that each series exists from the start with 0.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), traffic: &traffic{}, errors: map[string]prometheus.Counter{}}
	m.litespeed = &litespeed{m: m}
	m.gauges.Store(&Gauges{})
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.traffic.register(m.registry)
	m.upstream.register(m.registry, "httpjet_phase_upstream_seconds",
		"Time of an attempt at an HTTP upstream, from its permit to the head of the reply, a dial included.")
	m.rewrite.register(m.registry, "httpjet_phase_rewrite_seconds", "Time that the rewrite rules of a request took, where there are any.")
	m.coding.register(m.registry, "httpjet_phase_compress_seconds", "Time that the compression of a body took, without that in which it was sent.")
	m.lookup.register(m.registry, "httpjet_phase_cache_lookup_seconds", "Time of a look-up in the page cache or a proxyCache. One of 16 is timed, and counts for those before it.")
	for i, h := range lsapiTimes {
		m.lsapi[i].register(m.registry, h[0], h[1])
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "httpjet_process_rss_bytes", Help: "Memory of the process that is in RAM."}, residentBytes))
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "httpjet_overloaded_total", Help: "Requests answered 503 because maxInFlightReqs were being served."},
		m.reader(func(g *Gauges) func() int { return g.Overloaded })))
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "httpjet_bugs_total", Help: "Panics caught while serving: report each."},
		m.reader(func(g *Gauges) func() int { return g.Bugs })))
	m.addErrors()
	m.addConfig()
	m.gauge("active_connections", "Client connections open.", func(g *Gauges) func() int { return g.ActiveConnections })
	m.gauge("active_requests", "Requests being served.", func(g *Gauges) func() int { return g.ActiveRequests })
	m.gauge("parked_connections", "Those of the open client connections, WebSockets included, that are at rest and hold next to no memory.", func(g *Gauges) func() int { return g.ParkedConnections })
	m.gauge("websocket_relays", "Upgraded connections relayed.", func(g *Gauges) func() int { return g.WebSocketRelays })
	fastcgi, lsapi := m.gateways()
	m.registry.MustRegister(&lookupCollector{m}, fastcgi, lsapi, &startedCollector{m}, &clientCollector{m}, &http2Collector{m}, &tlsCollector{m}, &compressionCollector{m}, &spanCollector{m}, &rateCollector{m}, &bufferCollector{m}, m.litespeed, &proxyCacheCollector{m}, newPageCacheCollector(m))
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "httpjet_log_access_dropped_lines_total", Help: "Access log lines that never reached their file."},
		func() float64 { return float64(m.DroppedLines.Load()) }))
	return m
}

func (m *Metrics) addErrors() {
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

// Requests returns how many requests have finished, and the responses by class of
// status; 0 and 1 are empty.
func (m *Metrics) Requests() (total uint64, classes [6]uint64) {
	for i := range classes {
		classes[i] = m.traffic.classes[i].Load()
	}
	return m.traffic.durations.total(), classes
}

// Errors returns how many errors the proxy path has made, by token.
func (m *Metrics) Errors() map[string]uint64 {
	out := map[string]uint64{}
	for token, c := range m.errors {
		var d dto.Metric
		if c.Write(&d) == nil {
			out[token] = uint64(d.GetCounter().GetValue())
		}
	}
	return out
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
	m.traffic.count(x, x.LoggedStatus(err), took)
	if m.litespeed.enabled.Load() {
		m.litespeed.count(x.Req.TLS != nil, x.BodyRead(), x.Written())
	}
	if err != nil {
		if c := m.errors[exchange.ReasonOf(err)]; c != nil {
			c.Inc()
		}
	}
}

// Answered counts the reply head of an upstream, for which an attempt waited so long.
func (m *Metrics) Answered(took time.Duration) { m.upstream.add(took) }

// Rewrote counts what rewrite rules took of a request.
func (m *Metrics) Rewrote(took time.Duration) { m.rewrite.add(took) }

// Coded counts the coding of a body.
func (m *Metrics) Coded(took time.Duration) { m.coding.add(took) }

// LookedUp counts n look-ups in a cache, of which the last took so long.
func (m *Metrics) LookedUp(took time.Duration, n int) { m.lookup.addMany(took, n) }

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

// maxScrapes is how many are answered at once.
const maxScrapes = 4

// Handler answers a scrape, always in text format 0.0.4 (R-MET-1), at most maxScrapes at
// once.
func (m *Metrics) Handler() http.Handler {
	var inFlight atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer inFlight.Add(-1)
		if inFlight.Add(1) > maxScrapes {
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
			return
		}
		families, err := m.registry.Gather()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		format := expfmt.NewFormat(expfmt.TypeTextPlain)
		w.Header().Set("Content-Type", string(format))
		out := bufio.NewWriterSize(w, fullBuffer)
		enc := expfmt.NewEncoder(out, format)
		for _, f := range families {
			if enc.Encode(f) != nil {
				return // a scraper that went away is nobody's concern here
			}
		}
		if out.Flush() != nil || r.Method == http.MethodHead {
			return
		}
		t := &text{w: w}
		m.writeGroups(t)
		m.writeProbed(t)
		m.writeRoutes(t)
		t.flush()
	})
}
