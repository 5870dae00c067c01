package metrics

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"httpjet/exchange"
)

// traffic is what every request counts. It stands together in a few cache lines,
// which a request finds as the last one left them; the library's counters are an
// object each. A scrape reads it.
type traffic struct {
	_         [64]byte // no line with something else
	durations durations
	protocols [4]atomic.Uint64 // by major version; 0 is not used
	classes   [6]atomic.Uint64 // of status, by first digit; 0 and 1 are not used
	served    [exchange.WebSocket + 1]atomic.Uint64
	codes     [len(codes)]atomic.Uint64
	_         [64]byte
}

// codes counted one by one.
var codes = [...]int{400, 403, 404, 410, 414, 429, 500, 502, 503, 504}

// served names the kinds of handler that are counted.
var served = map[exchange.Kind]string{exchange.Files: "static", exchange.Proxy: "proxy", exchange.FastCGI: "fastcgi",
	exchange.LSAPI: "lsapi"}

// count counts a request that took so long and ended with a status.
func (t *traffic) count(x *exchange.Exchange, status int, took time.Duration) {
	t.durations.add(took)
	t.protocols[major(x.Req.Proto)].Add(1)
	t.served[x.Route.Kind].Add(1)
	if status < 200 || status > 599 {
		return
	}
	t.classes[status/100].Add(1)
	if status < codes[0] {
		return
	}
	for i, code := range codes {
		if status == code {
			t.codes[i].Add(1)
		}
	}
}

// major returns the version of proto; what could not be read came in as HTTP/1.
func major(proto string) int {
	if len(proto) > 5 && (proto[5] == '2' || proto[5] == '3') {
		return int(proto[5] - '0')
	}
	return 1
}

// register adds the series of t to r.
func (t *traffic) register(r *prometheus.Registry) {
	// Counters by names that dashboards know: without _total, what Prometheus wants of
	// a counter, they are told without a type.
	counter := func(name, help string, n *atomic.Uint64) {
		r.MustRegister(prometheus.NewUntypedFunc(prometheus.UntypedOpts{Name: "httpjet_" + name, Help: help},
			func() float64 { return float64(n.Load()) }))
	}
	r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "httpjet_requests_total", Help: "Requests finished, refused ones included."},
		func() float64 { return float64(t.durations.total()) })) // each is in one bucket
	t.durations.register(r, "httpjet_request_duration_seconds", "Time from the end of the request head to the last response byte.")
	for c := 2; c <= 5; c++ {
		counter("status_"+strconv.Itoa(c)+"xx", "Responses with a status of this class; 499 is a client that went away.", &t.classes[c])
	}
	for i, c := range codes {
		counter("status_"+strconv.Itoa(c), "Responses with this status.", &t.codes[i])
	}
	for v := 1; v <= 3; v++ {
		counter("proto_h"+strconv.Itoa(v), "Requests over this major version of HTTP.", &t.protocols[v])
	}
	for k, name := range served {
		counter("served_"+name, "Requests answered by a handler of this kind.", &t.served[k])
	}
	counter("served_php", "httpjet_served_lsapi by an older name.", &t.served[exchange.LSAPI])
}
