package metrics

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxHosts is how many virtual hosts have a label of their own; the others share
// one (R-MET-1).
const (
	maxHosts    = 32
	otherHosts  = "__other__"
	maxLabel    = 64 // bytes of a route's label
	statusPages = 6  // by first digit; 0: anything that is no status
)

// Route counts the exchanges of one route of one virtual host. The zero value is
// ready; it allocates once for each class of statuses that occurs.
type Route struct {
	codes     [statusPages]atomic.Pointer[[100]atomic.Uint64]
	durations durations
}

// Finished counts an exchange that ended with a status.
func (r *Route) Finished(status int, took time.Duration) {
	if status < 100 || status > 599 {
		status = 0
	}
	page := r.codes[status/100].Load()
	if page == nil {
		r.codes[status/100].CompareAndSwap(nil, new([100]atomic.Uint64))
		page = r.codes[status/100].Load()
	}
	page[status%100].Add(1)
	r.durations.add(took)
}

// Retire does nothing: exchanges that are under way count into the route.
func (r *Route) Retire() {}

// Routed is a Route with its labels.
type Routed struct {
	VHost string // "" for requests that no virtual host was found for
	Label string // of the route
	*Route
}

// WatchRoutes sets where the routes are read from, at every scrape.
func (m *Metrics) WatchRoutes(read func() []Routed) { m.routes.Store(&read) }

// routeCollector tells of the routes of the generation in force, and of their
// virtual hosts as the sums.
type routeCollector struct{ m *Metrics }

var (
	routeRequests = prometheus.NewDesc("httpjet_route_requests_total", "Requests finished, by context, map or kind of file, and status.",
		[]string{"vhost", "route", "code"}, nil)
	routeDuration = prometheus.NewDesc("httpjet_route_duration_seconds", "Time from the end of the request head to the last response byte.",
		[]string{"vhost", "route"}, nil)
	hostRequests = prometheus.NewDesc("httpjet_requests_by_vhost", "Requests finished, by virtual host.", []string{"vhost"}, nil)
	hostReplies  = prometheus.NewDesc("httpjet_responses_by_vhost", "Responses, by virtual host and class of status.", []string{"vhost", "class"}, nil)
	hostDuration = prometheus.NewDesc("httpjet_request_duration_by_vhost_seconds",
		"Time from the end of the request head to the last response byte.", []string{"vhost"}, nil)
)

// Describe implements prometheus.Collector.
func (c *routeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{routeRequests, routeDuration, hostRequests, hostReplies, hostDuration} {
		ch <- d
	}
}

// tally is what series of the same labels add up to.
type tally struct {
	codes   map[int]uint64
	buckets [len(bounds) + 1]uint64
	seconds float64
}

func (t *tally) add(r *Route) {
	for class := range r.codes {
		page := r.codes[class].Load()
		for i := 0; page != nil && i < len(page); i++ {
			if n := page[i].Load(); n > 0 {
				t.codes[class*100+i] += n
			}
		}
	}
	t.addDurations(&r.durations)
}

func (t *tally) addDurations(d *durations) {
	for i := range d.buckets {
		t.buckets[i] += d.buckets[i].Load()
	}
	t.seconds += time.Duration(d.nanos.Load()).Seconds()
}

// histogram returns the tally as a metric.
func (t *tally) histogram(d *prometheus.Desc, labels ...string) prometheus.Metric {
	count, cumulative := uint64(0), map[float64]uint64{}
	for i, n := range t.buckets {
		count += n
		if i < len(bounds) {
			cumulative[bounds[i].Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(d, count, t.seconds, cumulative, labels...)
}

// Collect implements prometheus.Collector.
func (c *routeCollector) Collect(ch chan<- prometheus.Metric) {
	type key struct{ host, route string }
	routes, hosts := map[key]*tally{}, map[string]*tally{}
	c.m.eachRoute(func(host, label string, r *Route) {
		for _, t := range []*tally{at(routes, key{host, label}), at(hosts, host)} {
			t.add(r)
		}
	})
	for k, t := range routes {
		for code, n := range t.codes {
			ch <- prometheus.MustNewConstMetric(routeRequests, prometheus.CounterValue, float64(n), k.host, k.route, strconv.Itoa(code))
		}
		ch <- t.histogram(routeDuration, k.host, k.route)
	}
	for host, t := range hosts {
		total, classes := uint64(0), [statusPages]uint64{}
		for code, n := range t.codes {
			total += n
			classes[code/100] += n
		}
		ch <- prometheus.MustNewConstMetric(hostRequests, prometheus.UntypedValue, float64(total), host)
		for class := 2; class < statusPages; class++ {
			ch <- prometheus.MustNewConstMetric(hostReplies, prometheus.UntypedValue, float64(classes[class]), host, strconv.Itoa(class)+"xx")
		}
		ch <- t.histogram(hostDuration, host)
	}
}

// eachRoute calls f with every route and its labels, as they are told.
func (m *Metrics) eachRoute(f func(host, label string, r *Route)) {
	read := m.routes.Load()
	if read == nil {
		return
	}
	names := map[string]string{"": ""}
	for _, r := range (*read)() {
		host, known := names[r.VHost]
		if !known {
			if host = r.VHost; len(names) > maxHosts { // "" is one of them
				host = otherHosts
			}
			names[r.VHost] = host
		}
		label := r.Label
		if len(label) > maxLabel {
			label = strings.ToValidUTF8(label[:maxLabel], "")
		}
		f(host, label, r.Route)
	}
}

// at returns the tally of a key, a new one if there is none.
func at[K comparable](m map[K]*tally, k K) *tally {
	t := m[k]
	if t == nil {
		t = &tally{codes: map[int]uint64{}}
		m[k] = t
	}
	return t
}
