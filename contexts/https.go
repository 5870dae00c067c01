package contexts

import (
	"strconv"
	"strings"

	"httpjet/docroot"
	"httpjet/exchange"
)

// HTTPS sends the requests of a plain listener to https (R-LSN-7).
type HTTPS struct {
	Status int // 301 or 308
	Port   int // of the target; 443 is not written
}

// acmePath is served in clear text: a certificate that is yet to be issued
// cannot guard the proof that it may be.
const acmePath = "/.well-known/acme-challenge/"

// proof returns what an ACME server is to find at the target of x (RFC 8555 section 8.3).
// It comes before every rule: neither a redirect nor a list may keep it away.
func (t *Table) proof(x *exchange.Exchange) (string, bool) {
	host, ok := hostOnly(x.Req.Host)
	if m := x.Req.Method; !ok || m != "GET" && m != "HEAD" || x.Explaining() {
		return "", false
	}
	path, _, _ := strings.Cut(x.Req.Target, "?")
	return t.Proof(host, path)
}

// prove answers with a proof.
func prove(x *exchange.Exchange, proof string) error {
	x.Route.Label = "acme"
	x.Resp.Fields.Set("Content-Type", "application/octet-stream")
	x.Resp.Fields.Set("Cache-Control", "no-store")
	x.Resp.Length = int64(len(proof))
	if err := x.Start(200); err != nil {
		return err
	}
	_, err := x.Write([]byte(proof))
	return err
}

// redirect answers x with the redirect of its listener, nil if there is none.
// What is https already, by the word of a trusted proxy, would come back for
// ever. The target is a name that the listener maps, as the client wrote it: a
// host that only "*" maps could be anybody's.
func (t *Table) redirect(x *exchange.Exchange) error {
	to, ok := t.HTTPS[x.Req.Listener]
	if !ok || x.Req.Scheme == "https" || !strings.HasPrefix(x.Req.Target, "/") {
		return nil
	}
	if strings.HasPrefix(x.Req.Target, acmePath) {
		if path, _, err := docroot.CleanPath(x.Req.Target); err == nil && strings.HasPrefix(path, acmePath) {
			return nil
		}
	}
	host, ok := hostOnly(x.Req.Host)
	v, named := t.Listeners[x.Req.Listener].Named(host)
	if !ok || !named {
		return exchange.Fail(404, "no_vhost", "no name of listener %q for %q, so no https", x.Req.Listener, x.Req.Host)
	}
	x.Route.VHost = v.Name
	if strings.ContainsFunc(x.Req.Target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return exchange.Fail(400, "bad_request", "control byte in request target")
	}
	if to.Port != 443 {
		host += ":" + strconv.Itoa(to.Port)
	}
	return exchange.Redirect(to.Status, "https://"+host+x.Req.Target)
}

// hostOnly is a Host field in lower case without port and trailing dot. It
// reports false for bytes that a URL would not read as part of the host: a
// pattern such as *.example.com matches more than names.
func hostOnly(host string) (string, bool) {
	literal := strings.HasPrefix(host, "[")
	if literal {
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return "", false
		}
		host = host[:end+1]
	} else {
		host, _, _ = strings.Cut(host, ":")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host, host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		name := 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '.' || r == '_'
		return !name && !(literal && (r == '[' || r == ']' || r == ':'))
	})
}
