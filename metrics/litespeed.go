package metrics

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// LiteSpeed is what the names of LiteSpeed's Prometheus exporter want to know beside
// what is counted anyway.
type LiteSpeed struct {
	MaxConnections int
	Plain, Secure  int // client connections without and with TLS
	Idle           int // those of both that are at rest
	Requests       int // being served
	Version        string
	Apps           []LiteSpeedApp
}

// LiteSpeedApp is an external application: all peers of a group together.
type LiteSpeedApp struct {
	Type        string // LSAPI, FCGI or PROXY
	VHost, Name string // VHost is "" for one of the server
	MaxConns    int
	Idle, Busy  int // connections
	Waiting     int // requests that wait for one
	Requests    uint64
}

// litespeed tells the metrics of LiteSpeed's Prometheus exporter, so that dashboards
// made for it go on (litespeedMetrics). It says nothing until it is enabled. What only
// grows is untyped, because its names do not end in _total.
type litespeed struct {
	m       *Metrics
	enabled atomic.Bool

	// Bytes of bodies of finished exchanges, [plain, secure].
	in, out [2]atomic.Int64

	mu      sync.Mutex
	scrapes uint64
	rates   map[paceKey]*pace
}

// paceKey is a series: what it is called, and its labels.
type paceKey struct {
	desc   *prometheus.Desc
	labels string
}

// pace makes a rate of a counter from one scrape to a later one.
type pace struct {
	at    time.Time
	value float64
	rate  float64
	seen  uint64 // the scrape that asked for it last
}

// paceMin is the least time between two looks at a counter: scrapes that follow each
// other more closely are told the same rate.
const paceMin = time.Second

func litespeedDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("litespeed_"+name, help, labels, nil)
}

var (
	lsUp        = litespeedDesc("up", "1: the server answers.")
	lsVersion   = litespeedDesc("version", "1, with the version as a label.", "version")
	lsScrapes   = litespeedDesc("exporter_scrapes_total", "Scrapes.")
	lsFailures  = litespeedDesc("exporter_scrapes_failures_total", "Scrapes that failed: never.")
	lsConns     = [2]*prometheus.Desc{litespeedDesc("current_http_connections", "Client connections without TLS."), litespeedDesc("current_ssl_connections", "Client connections with TLS, HTTP/3 not among them.")}
	lsIdle      = litespeedDesc("current_idle_connections", "Client connections at rest.")
	lsMax       = [2]*prometheus.Desc{litespeedDesc("maximum_http_connections", "Most client connections, with and without TLS together."), litespeedDesc("maximum_ssl_connections", "Most client connections, with and without TLS together.")}
	lsAvailable = [2]*prometheus.Desc{litespeedDesc("available_connections", "Client connections that may still be opened."), litespeedDesc("available_ssl_connections", "Client connections that may still be opened.")}
	lsIn        = [2]*prometheus.Desc{litespeedDesc("incoming_http_bytes_per_second", "Bytes of request bodies without TLS, of requests that have ended."), litespeedDesc("incoming_ssl_bytes_per_second", "Bytes of request bodies over TLS, of requests that have ended.")}
	lsOut       = [2]*prometheus.Desc{litespeedDesc("outgoing_http_bytes_per_second", "Bytes of bodies of answers without TLS that have ended."), litespeedDesc("outgoing_ssl_bytes_per_second", "Bytes of bodies of answers over TLS that have ended.")}

	lsHostActive = litespeedDesc("current_requests_per_vhost", "Requests being served, of all hosts together.", "vhost")
	lsHostTotal  = litespeedDesc("total_requests_per_vhost", "Requests; vhost \"\" is all of them.", "vhost")
	lsHostRate   = litespeedDesc("requests_per_second_per_vhost", "Requests a second since the scrape before.", "vhost")
	lsStatic     = litespeedDesc("static_hits_per_vhost", "Requests answered with a file.", "vhost")
	lsStaticRate = litespeedDesc("static_hits_per_second_per_vhost", "Requests answered with a file, a second.", "vhost")
	lsPublic     = litespeedDesc("public_cache_hits_per_vhost", "Requests answered by the page cache, of all hosts together, private entries among them.", "vhost")
	lsPublicRate = litespeedDesc("public_cache_hits_per_second_per_vhost", "Requests answered by the page cache, a second.", "vhost")

	lsAppMax     = litespeedDesc("config_max_connections_per_app", "Requests that may be with the application at once.", "app_type", "vhost", "app_name")
	lsAppPool    = litespeedDesc("pool_max_connections_per_app", "The same: what is configured is what holds.", "app_type", "vhost", "app_name")
	lsAppCount   = litespeedDesc("pool_count_per_app", "Connections to the application.", "app_type", "vhost", "app_name")
	lsAppBusy    = litespeedDesc("connections_in_use_per_app", "Connections in use.", "app_type", "vhost", "app_name")
	lsAppIdle    = litespeedDesc("connections_idle_per_app", "Connections that wait for a request.", "app_type", "vhost", "app_name")
	lsAppWaiting = litespeedDesc("wait_queue_depth_per_app", "Requests that wait for a connection.", "app_type", "vhost", "app_name")
	lsAppTotal   = litespeedDesc("total_requests_per_app", "Requests to the application, repeated ones too.", "app_type", "vhost", "app_name")
	lsAppRate    = litespeedDesc("requests_per_second_per_app", "Requests to the application, a second.", "app_type", "vhost", "app_name")
)

// perBackend are the names by which the documents of the exporter call some series of
// applications; it publishes them with _per_app.
var perBackend = map[*prometheus.Desc]*prometheus.Desc{
	lsAppPool:    litespeedDesc("pool_max_connections_per_backend", "pool_max_connections_per_app by its other name.", "app_type", "vhost", "app_name"),
	lsAppWaiting: litespeedDesc("wait_queue_depth_per_backend", "wait_queue_depth_per_app by its other name.", "app_type", "vhost", "app_name"),
	lsAppTotal:   litespeedDesc("total_requests_per_backend", "total_requests_per_app by its other name.", "app_type", "vhost", "app_name"),
	lsAppRate:    litespeedDesc("requests_per_second_per_backend", "requests_per_second_per_app by its other name.", "app_type", "vhost", "app_name"),
}

// EnableLiteSpeed says whether the names of LiteSpeed's exporter are told.
func (m *Metrics) EnableLiteSpeed(on bool) { m.litespeed.enabled.Store(on) }

// count adds the bytes of an exchange that has ended.
func (l *litespeed) count(secure bool, in, out int64) {
	i := 0
	if secure {
		i = 1
	}
	l.in[i].Add(in)
	l.out[i].Add(out)
}

// Describe implements prometheus.Collector. It promises nothing, because most series
// are there only if it is enabled.
func (l *litespeed) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (l *litespeed) Collect(ch chan<- prometheus.Metric) {
	if !l.enabled.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scrapes++
	now := time.Now()
	g := l.m.gauges.Load()
	var n LiteSpeed
	if g.LiteSpeed != nil {
		n = g.LiteSpeed()
	}
	t := &lsScrape{l: l, ch: ch, now: now}
	t.gauge(lsUp, 1)
	t.gauge(lsVersion, 1, n.Version)
	ch <- prometheus.MustNewConstMetric(lsScrapes, prometheus.CounterValue, float64(l.scrapes))
	ch <- prometheus.MustNewConstMetric(lsFailures, prometheus.CounterValue, 0)
	t.gauge(lsIdle, float64(n.Idle))
	for i, conns := range [2]int{n.Plain, n.Secure} {
		t.gauge(lsConns[i], float64(conns))
		t.gauge(lsMax[i], float64(n.MaxConnections))
		t.gauge(lsAvailable[i], float64(max(0, n.MaxConnections-n.Plain-n.Secure)))
		t.gauge(lsIn[i], l.rate(now, lsIn[i], float64(l.in[i].Load())))
		t.gauge(lsOut[i], l.rate(now, lsOut[i], float64(l.out[i].Load())))
	}
	t.hosts(&n, g)
	t.apps(n.Apps)
	for key, p := range l.rates { // of what a reload has taken away
		if p.seen != l.scrapes {
			delete(l.rates, key)
		}
	}
}

// lsScrape is one scrape under way.
type lsScrape struct {
	l   *litespeed
	ch  chan<- prometheus.Metric
	now time.Time
}

func (t *lsScrape) gauge(d *prometheus.Desc, v float64, labels ...string) {
	t.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// counter tells a number that only grows, and how fast it does.
func (t *lsScrape) counter(d, perSecond *prometheus.Desc, v float64, labels ...string) {
	t.ch <- prometheus.MustNewConstMetric(d, prometheus.UntypedValue, v, labels...)
	rate := t.l.rate(t.now, perSecond, v, labels...)
	t.gauge(perSecond, rate, labels...)
	if other := perBackend[d]; other != nil {
		t.ch <- prometheus.MustNewConstMetric(other, prometheus.UntypedValue, v, labels...)
		t.gauge(perBackend[perSecond], rate, labels...)
	}
}

// hosts tells of the virtual hosts; those that have no label of their own elsewhere
// have none here.
func (t *lsScrape) hosts(n *LiteSpeed, g *Gauges) {
	t.gauge(lsHostActive, float64(n.Requests), "")
	total, _ := t.l.m.Requests()
	t.counter(lsHostTotal, lsHostRate, float64(total), "")
	var files, cached uint64
	type host struct{ all, files uint64 }
	hosts := map[string]*host{}
	t.l.m.eachRoute(func(name, label string, r *Route) {
		h := hosts[name]
		if h == nil {
			h = &host{}
			hosts[name] = h
		}
		n := r.durations.total()
		if h.all += n; label == "static" {
			h.files += n
			files += n
		}
	})
	if g.PageCache != nil {
		c := g.PageCache()
		cached = c.hits()
	}
	t.counter(lsStatic, lsStaticRate, float64(files), "")
	t.counter(lsPublic, lsPublicRate, float64(cached), "")
	for name, h := range hosts {
		if name != "" {
			t.counter(lsHostTotal, lsHostRate, float64(h.all), name)
			t.counter(lsStatic, lsStaticRate, float64(h.files), name)
		}
	}
}

// apps tells of the applications. Two that look alike are one.
func (t *lsScrape) apps(apps []LiteSpeedApp) {
	slices.SortStableFunc(apps, func(a, b LiteSpeedApp) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.VHost, b.VHost), strings.Compare(a.Name, b.Name))
	})
	apps = slices.CompactFunc(apps, func(a, b LiteSpeedApp) bool {
		return a.Type == b.Type && a.VHost == b.VHost && a.Name == b.Name
	})
	for _, a := range apps {
		labels := []string{a.Type, a.VHost, a.Name}
		t.gauge(lsAppMax, float64(a.MaxConns), labels...)
		t.gauge(lsAppPool, float64(a.MaxConns), labels...)
		t.gauge(perBackend[lsAppPool], float64(a.MaxConns), labels...)
		t.gauge(lsAppCount, float64(a.Idle+a.Busy), labels...)
		t.gauge(lsAppBusy, float64(a.Busy), labels...)
		t.gauge(lsAppIdle, float64(a.Idle), labels...)
		t.gauge(lsAppWaiting, float64(a.Waiting), labels...)
		t.gauge(perBackend[lsAppWaiting], float64(a.Waiting), labels...)
		t.counter(lsAppTotal, lsAppRate, float64(a.Requests), labels...)
	}
}

// rate is how fast a counter has grown between the last two looks at it that were at
// least paceMin apart; 0 at the first.
func (l *litespeed) rate(now time.Time, d *prometheus.Desc, v float64, labels ...string) float64 {
	if l.rates == nil {
		l.rates = map[paceKey]*pace{}
	}
	key := paceKey{d, strings.Join(labels, "\x00")}
	p := l.rates[key]
	if p == nil {
		p = &pace{at: now, value: v}
		l.rates[key] = p
	}
	p.seen = l.scrapes
	if dt := now.Sub(p.at); dt >= paceMin {
		p.rate = max(0, v-p.value) / dt.Seconds()
		p.at, p.value = now, v
	}
	return p.rate
}
