package freshness

import (
	"net/url"
	"strings"

	"httpjet/exchange"
)

// Place is what a client asks for, as far as the keys of caches tell it from others.
type Place struct{ Scheme, Host, Target string }

// Redirect returns the place of a request and the one that Location of its answer leads
// to, both as a client writes a URL that it follows: no fragment, no default port,
// characters escaped that no URL has. ok is false if one of them cannot be read.
func Redirect(scheme, host, target, location string) (from, to Place, ok bool) {
	base, err := url.Parse(scheme + "://" + host + target)
	if err != nil {
		return from, to, false
	}
	u, err := base.Parse(location)
	if err != nil {
		return from, to, false
	}
	return placeOf(base), placeOf(u), true
}

func placeOf(u *url.URL) Place {
	p := Place{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Target: u.EscapedPath()}
	switch p.Scheme {
	case "http":
		p.Host = strings.TrimSuffix(p.Host, ":80")
	case "https":
		p.Host = strings.TrimSuffix(p.Host, ":443")
	}
	p.Host = strings.TrimSuffix(p.Host, ":")
	if p.Target == "" {
		p.Target = "/"
	}
	if u.ForceQuery || u.RawQuery != "" {
		p.Target += "?" + escapeQuery(u.RawQuery)
	}
	return p
}

// escapeQuery escapes what clients do (WHATWG URL, the special-query percent-encode set).
func escapeQuery(query string) string {
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"#<>'`, c) >= 0 {
			b.Write([]byte{'%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// leadsBack reports whether an answer redirects to what was asked for. Its upstream saw
// a host in other letters, say, and means the one that the key has: who asks for that
// would be sent to where he is for as long as it is kept. What cannot be read may do so.
func leadsBack(q *exchange.Request, a *exchange.Response) bool {
	location := a.Fields.Get("Location")
	if location == "" || a.Status < 300 || a.Status > 399 {
		return false
	}
	for _, target := range [...]string{q.Target, q.Sent()} { // a rule may have the key of both
		if from, to, ok := Redirect(q.Scheme, q.Host, target, location); !ok || from == to {
			return true
		}
	}
	return false
}
