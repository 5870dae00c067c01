package contexts

import (
	"net/url"
	"slices"

	"httpjet/docroot"
	"httpjet/domains"
	"httpjet/exchange"
)

// Hotlink keeps files from being shown on pages of others (LSX 6.4). It believes the
// Referer of a request, which a client may make up: it saves traffic and no secret.
type Hotlink struct {
	Suffixes []string // of the files, lower case, without dot
	Direct   bool     // requests without Referer pass
	Redirect string   // instead of 403: a local path, which is never guarded, or a URL; "" for none
	Allowed  domains.Map[bool]
}

// hotlink refuses a request that the page of a host makes which is neither the own one
// nor allowed. What path the request asked for and what it came to count alike.
func (v *VHost) hotlink(x *exchange.Exchange, asked string) error {
	h := v.Hotlink
	if h == nil || !h.guards(asked) && !h.guards(x.Req.Path) {
		return nil
	}
	if h.lets(x) || h.Redirect != "" && (h.Redirect == asked || h.Redirect == x.Req.Path) {
		return nil
	}
	if h.Redirect != "" {
		return exchange.Redirect(302, h.Redirect)
	}
	return exchange.Fail(403, "access_denied", "hotlinkCtrl: %q is no page that may show the file", x.Req.Fields.Get("Referer"))
}

func (h *Hotlink) guards(path string) bool {
	if isLoose(path) {
		path = loosePath(path)
	}
	return slices.Contains(h.Suffixes, docroot.Suffix(path))
}

// lets reports whether the Referer is one that may show the file.
func (h *Hotlink) lets(x *exchange.Exchange) bool {
	referer := x.Req.Fields.Get("Referer")
	if referer == "" {
		return h.Direct
	}
	u, err := url.Parse(referer)
	if err != nil || u.Host == "" {
		return false
	}
	from, ok := hostOnly(u.Host)
	if !ok {
		return false
	}
	own := domains.Map[bool]{}
	if host, named := hostOnly(x.Req.Host); named && own.Add(host, true) {
		if _, same := own.Find(from); same {
			return true
		}
	}
	_, allowed := h.Allowed.Find(from)
	return allowed
}
