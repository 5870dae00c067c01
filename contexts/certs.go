package contexts

import (
	"strconv"
	"strings"

	"httpjet/docroot"
	"httpjet/exchange"
	"httpjet/tlsconf"
)

// Certificates is what a secure listener and its hosts ask of client certificates.
type Certificates struct {
	Listener *tlsconf.Verify            // of names that no host has; nil: nothing
	Hosts    map[*VHost]*tlsconf.Verify // of all hosts of the listener
}

// of returns what is asked for a host; nil for none is the listener's.
func (c *Certificates) of(v *VHost) *tlsconf.Verify {
	if v == nil {
		return c.Listener
	}
	return c.Hosts[v]
}

// certify insists on the certificate that a host requires of its clients (dispatch
// row 6). Over plain HTTP none can be shown: the client is sent to https (R-LSN-5).
// The certificate of a handshake counts for the host whose name it asked for, and for
// those that ask for the same; for another one the client is sent away to make a
// connection of its own (G67, RFC 9110 section 15.5.20).
func (t *Table) certify(x *exchange.Exchange, v *VHost) error {
	if v == nil {
		return nil
	}
	if x.Req.TLS == nil {
		if v.CertPort == 0 {
			return nil
		}
		return t.certifyPlain(x, v)
	}
	asked := t.Certificates[x.Req.Listener]
	if asked == nil {
		return nil
	}
	want := asked.of(v)
	if name := x.Req.TLS.ServerName; want.Asks() || len(x.Req.TLS.PeerCertificates) > 0 {
		var shown *VHost
		if name != "" {
			shown, _ = t.Listeners[x.Req.Listener].Find(name)
		}
		if shown != v && !asked.of(shown).Same(want) || want.Asks() && !want.Accepts(x.Req.TLS) {
			return &exchange.Error{Status: 421, Reason: "misdirected", Close: true}
		}
	}
	if want.Requires() && len(x.Req.TLS.PeerCertificates) == 0 {
		return exchange.Fail(403, "access_denied", "virtual host %q requires a client certificate", v.Name)
	}
	return nil
}

// certifyPlain answers a request that came without TLS. What a trusted proxy says to
// be https is not sent to https again.
func (t *Table) certifyPlain(x *exchange.Exchange, v *VHost) error {
	if strings.HasPrefix(x.Req.Target, acmePath) {
		if path, _, err := docroot.CleanPath(x.Req.Target); err == nil && strings.HasPrefix(path, acmePath) {
			return nil
		}
	}
	host, ok := hostOnly(x.Req.Host)
	_, named := t.Listeners[x.Req.Listener].Named(host)
	if x.Req.Scheme == "https" || !ok || !named || !strings.HasPrefix(x.Req.Target, "/") ||
		strings.ContainsFunc(x.Req.Target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return exchange.Fail(403, "access_denied", "virtual host %q requires a client certificate", v.Name)
	}
	if v.CertPort != 443 {
		host += ":" + strconv.Itoa(v.CertPort)
	}
	x.Route.VHost = v.Name
	e := exchange.Redirect(301, "https://"+host+x.Req.Target)
	e.Fields = append(e.Fields, exchange.Field{Name: "Cache-Control", Value: "private, no-store"})
	return e
}
