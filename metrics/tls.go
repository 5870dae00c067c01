package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TLS is what is known of handshakes, HTTP/3 and certificates.
type TLS struct {
	HandshakeErrors uint64 // over TCP and QUIC

	QUICConnections, QUICHandshakes int    // open, under way
	QUICRefused                     uint64 // connections refused because too many handshakes were under way

	Issued, Renewed, NotIssued uint64 // orders of ACME that have ended
	Missing, Failing           int    // names of ACME without a certificate; whose last order failed
	Responses, NoResponses     uint64 // of OCSP responders

	Certificates []Certificate // in use
}

// Certificate is one that is in use. Name is the first that it is for.
type Certificate struct {
	Name, Source string // Source is file or acme
	NotAfter     time.Time
}

// maxCertificates is how many certificates have a series of their own: those that end
// first.
const maxCertificates = 32

var (
	tlsErrors = prometheus.NewDesc("httpjet_tls_handshake_errors_total",
		"TLS handshakes of clients that failed, over TCP and QUIC: by a client that broke off too.", nil, nil)
	quicConns   = prometheus.NewDesc("httpjet_quic_connections", "Client connections over QUIC that are open.", nil, nil)
	quicShaking = prometheus.NewDesc("httpjet_quic_handshakes", "QUIC handshakes under way; from 64 on clients have to prove their address first.", nil, nil)
	quicRefused = prometheus.NewDesc("httpjet_quic_refused_total", "QUIC connections refused because 1024 handshakes were under way.", nil, nil)
	acmeOrders  = prometheus.NewDesc("httpjet_acme_orders_total", "Orders of certificates by ACME that have ended, by result.", []string{"result"}, nil)
	acmeNames   = prometheus.NewDesc("httpjet_acme_names",
		"Names whose certificates are issued by ACME and that need a look: missing ones have no certificate yet, of failing ones the last order failed.", []string{"state"}, nil)
	ocspResponses = prometheus.NewDesc("httpjet_ocsp_responses_total", "Questions to OCSP responders about own certificates, by result.", []string{"result"}, nil)
	certExpiry    = prometheus.NewDesc("httpjet_certificate_expiry_timestamp_seconds",
		"Unix time at which a certificate in use ends, by the first name that it is for and where it comes from, file or acme; the 32 that end first.", []string{"name", "source"}, nil)
)

// tlsCollector reads Gauges.TLS at every scrape.
type tlsCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c *tlsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{tlsErrors, quicConns, quicShaking, quicRefused, acmeOrders, acmeNames, ocspResponses, certExpiry} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *tlsCollector) Collect(ch chan<- prometheus.Metric) {
	var n TLS
	if read := c.m.gauges.Load().TLS; read != nil {
		n = read()
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count(tlsErrors, n.HandshakeErrors)
	gauge(quicConns, float64(n.QUICConnections))
	gauge(quicShaking, float64(n.QUICHandshakes))
	count(quicRefused, n.QUICRefused)
	count(acmeOrders, n.Issued, "issued")
	count(acmeOrders, n.Renewed, "renewed")
	count(acmeOrders, n.NotIssued, "failed")
	gauge(acmeNames, float64(n.Missing), "missing")
	gauge(acmeNames, float64(n.Failing), "failing")
	count(ocspResponses, n.Responses, "success")
	count(ocspResponses, n.NoResponses, "failure")
	for _, x := range firstToEnd(n.Certificates) {
		gauge(certExpiry, float64(x.NotAfter.Unix()), x.Name, x.Source)
	}
}

// firstToEnd returns those of the list that have a series, each name of a source once.
func firstToEnd(list []Certificate) (out []Certificate) {
	list = slices.SortedFunc(slices.Values(list), func(a, b Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	for _, x := range list {
		if len(out) == maxCertificates {
			break
		}
		if !slices.ContainsFunc(out, func(o Certificate) bool { return o.Name == x.Name && o.Source == x.Source }) {
			out = append(out, x)
		}
	}
	return out
}
