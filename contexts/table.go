package contexts

import (
	"net/netip"
	"strings"
	"sync/atomic"

	"httpjet/access"
	"httpjet/docroot"
	"httpjet/domains"
	"httpjet/exchange"
	"httpjet/trace"
)

// Table leads an exchange from its listener to a handler.
type Table struct {
	Listeners    map[string]*domains.Map[*VHost]        // by what the front end calls the listener
	HTTPS        map[string]HTTPS                       // likewise, of plain listeners that send their clients away
	Access       *access.List                           // the server's list; nil: no restriction
	Certificates map[string]*Certificates               // likewise, of secure listeners that ask their clients for certificates
	AltSvc       atomic.Pointer[map[string]string]      // likewise, of secure listeners with HTTP/3: how answers tell of it; nil: none has it. Another one may come while requests read
	Identity     access.Identity                        // how the client is found behind trusted proxies
	Throttle     *Throttle                              // of clients; nil: none
	Rate         *access.Rate                           // of the requests of each client, whatever the host; nil: no limit
	Proof        func(host, path string) (string, bool) // what an ACME server is to find below acmePath; nil: nothing
	MaxURL       int                                    // bytes of the target (R-PIPE-4)
	MaxBody      int64                                  // bytes of a request body (R-PIPE-4)
	EchoID       bool                                   // answers carry X-Request-Id (R-PIPE-11)

	Tracer   *trace.Tracer   // begins the trace of every exchange; nil: none has one
	Audience *trace.Audience // who may ask for a timeline; nil: nobody

	HideReason bool // answers carry no X-Httpjet-Proxy-Error (R-HDR-8)
}

// Serve answers x. Its steps stand in the order of docs/tour.md.
func (t *Table) Serve(x *exchange.Exchange) error {
	x.EchoID, x.HideReason = t.EchoID, t.HideReason
	if t.Proof != nil && x.Req.TLS == nil && strings.HasPrefix(x.Req.Target, acmePath) {
		if proof, ok := t.proof(x); ok {
			return prove(x, proof)
		}
	}
	v := t.findVHost(x)
	if told := t.AltSvc.Load(); told != nil && x.Req.TLS != nil && (v == nil || !v.NoQUIC) {
		x.AltSvc = (*told)[x.Req.Listener]
	}
	peer := t.identify(x, v)
	if t.Tracer != nil || t.Audience != nil {
		trusted := t.trusts(peer, v)
		t.Tracer.Begin(x, trusted)
		t.Audience.Ask(x, peer, trusted)
	}
	if x.Explaining() {
		t.explainHost(x, v, peer)
	}
	if err := t.redirect(x); err != nil {
		return err
	}
	if err := t.certify(x, v); err != nil {
		return err
	}
	if err := t.admit(x, v, peer); err != nil {
		return err
	}
	if err := limitRate(x, t.Rate); err != nil {
		return err
	}
	if v == nil {
		return exchange.Fail(404, "no_vhost", "no virtual host for %q on listener %q", x.Req.Host, x.Req.Listener)
	}
	x.Route.VHost = v.Name
	if err := v.open(); err != nil {
		return err
	}
	err := limitRate(x, v.Rate)
	if err == nil {
		err = t.cleanPath(x)
	}
	if err != nil {
		return v.page(x, nil, err)
	}
	return v.serve(x, t)
}

// findVHost routes by Host, else by the name of the TLS handshake (R-LSN-2). A name that
// is not mapped, and is not the host's own, is foreign to it unless the listener maps
// none (R-LSN-4, D-36).
func (t *Table) findVHost(x *exchange.Exchange) *VHost {
	host := x.Req.Host
	if host == "" && x.Req.TLS != nil {
		host = x.Req.TLS.ServerName
	}
	m := t.Listeners[x.Req.Listener]
	v, named := m.Named(host)
	if named {
		return v
	}
	if v, _ = m.Find(""); v != nil && m.HasNames() && !strings.EqualFold(domains.Name(host), v.Name) {
		x.Route.Foreign = true
		x.Use(decache{})
	}
	return v
}

// identify finds the client and the scheme behind trusted proxies (R-ACL-3 to 5)
// and returns the immediate peer.
func (t *Table) identify(x *exchange.Exchange, v *VHost) (peer netip.Addr) {
	peer = x.Req.Remote.Addr().Unmap()
	trusted := t.trusts(peer, v)
	x.Req.Client = t.Identity.Client(peer, &x.Req.Fields, trusted, func(a netip.Addr) bool { return t.trusts(a, v) })
	if trusted {
		x.Req.Scheme = access.Scheme(x.Req.Scheme, &x.Req.Fields)
	}
	return peer
}

// admit applies the access lists of server and virtual host (R-ACL-1, R-ACL-2). A
// refusal by the server's list comes before a 404 for the host.
func (t *Table) admit(x *exchange.Exchange, v *VHost, peer netip.Addr) error {
	// The server's list is about the peer too: LiteSpeed cuts it off before it
	// reads a request, so nothing in one can lift that.
	if !t.Access.Allowed(peer) || peer != x.Req.Client && !t.Access.Allowed(x.Req.Client) {
		return exchange.Fail(403, "access_denied", "client refused by the server's accessControl")
	}
	if v != nil && !v.Access.Allowed(x.Req.Client) {
		return exchange.Fail(403, "access_denied", "client refused by accessControl of virtual host %q", v.Name)
	}
	return nil
}

func (t *Table) trusts(a netip.Addr, v *VHost) bool {
	return t.Access.Trusted(a) || v != nil && v.Access.Trusted(a)
}

// cleanPath refuses methods that no handler serves and decodes the target, once
// (R-PIPE-2, 4, 7).
func (t *Table) cleanPath(x *exchange.Exchange) error {
	switch m := x.Req.Method; {
	case m == "CONNECT" || m == "TRACE":
		return &exchange.Error{Status: 405, Reason: "method_not_allowed",
			Fields: []exchange.Field{{Name: "Allow", Value: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}}}
	case x.Req.Target == "*" && m == "OPTIONS":
		x.Req.Path = "*"
		return nil
	case t.MaxURL > 0 && len(x.Req.Target) > t.MaxURL:
		return exchange.Fail(414, "uri_too_long", "request target over %d bytes", t.MaxURL)
	case !strings.HasPrefix(x.Req.Target, "/"):
		return exchange.Fail(400, "bad_request", "request target does not start with a slash")
	}
	var err error
	x.Req.Path, x.Req.Query, err = docroot.CleanPath(x.Req.Target)
	return err
}
