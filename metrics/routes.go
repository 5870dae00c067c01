package metrics

import (
	"maps"
	"slices"
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

// boundLabels are the bounds of buckets as labels.
var boundLabels = func() (all [len(bounds) + 1]string) {
	for i, b := range bounds {
		all[i] = label("le", strconv.FormatFloat(b.Seconds(), 'g', -1, 64))
	}
	all[len(bounds)] = label("le", "+Inf")
	return all
}()

// metric returns the tally as one of the registry.
func (t *tally) metric(d *prometheus.Desc) prometheus.Metric {
	count, cumulative := uint64(0), map[float64]uint64{}
	for i, n := range t.buckets {
		count += n
		if i < len(bounds) {
			cumulative[bounds[i].Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(d, count, t.seconds, cumulative)
}

// histogram writes the tally as one; the labels come before that of the bound.
func (t *tally) histogram(w *text, labels ...string) {
	count := uint64(0)
	all := append(labels, "")
	for i, n := range t.buckets {
		count += n
		all[len(all)-1] = boundLabels[i]
		w.part("_bucket", count, all...)
	}
	w.sum(t.seconds, labels...)
	w.part("_count", count, labels...)
}

// writeRoutes tells of the routes of the generation in force, and of their virtual hosts
// as the sums, in the order in which the configuration has them.
func (m *Metrics) writeRoutes(w *text) {
	type key struct{ host, route string }
	routes, hosts := map[key]*tally{}, map[string]*tally{}
	var routesBy []key
	var hostsBy []string
	m.eachRoute(func(host, route string, r *Route) {
		k := key{host, route}
		if routes[k] == nil {
			routesBy = append(routesBy, k)
		}
		if hosts[host] == nil {
			hostsBy = append(hostsBy, host)
		}
		at(routes, k).add(r)
		at(hosts, host).add(r)
	})
	w.family("httpjet_route_requests_total", "counter", "Requests finished, by context, map or kind of file, and status.")
	for _, k := range routesBy {
		for _, code := range slices.Sorted(maps.Keys(routes[k].codes)) {
			w.count(routes[k].codes[code], label("code", strconv.Itoa(code)), label("route", k.route), label("vhost", k.host))
		}
	}
	w.family("httpjet_route_duration_seconds", "histogram", "Time from the end of the request head to the last response byte.")
	for _, k := range routesBy {
		routes[k].histogram(w, label("route", k.route), label("vhost", k.host))
	}
	w.family("httpjet_requests_by_vhost", "untyped", "Requests finished, by virtual host.")
	for _, host := range hostsBy {
		total, _ := hosts[host].classes()
		w.count(total, label("vhost", host))
	}
	w.family("httpjet_responses_by_vhost", "untyped", "Responses, by virtual host and class of status.")
	for _, host := range hostsBy {
		_, classes := hosts[host].classes()
		for class := 2; class < statusPages; class++ {
			w.count(classes[class], classLabels[class], label("vhost", host))
		}
	}
	w.family("httpjet_request_duration_by_vhost_seconds", "histogram", "Time from the end of the request head to the last response byte.")
	for _, host := range hostsBy {
		hosts[host].histogram(w, label("vhost", host))
	}
}

// classes are the sums by class of status, and that of all.
func (t *tally) classes() (total uint64, classes [statusPages]uint64) {
	for code, n := range t.codes {
		total += n
		classes[code/100] += n
	}
	return total, classes
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
