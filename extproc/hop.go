package extproc

import (
	"slices"
	"strings"

	"httpjet/exchange"
)

// StripHops removes the fields that belong to one connection and not to the
// message (RFC 9110 §7.6.1, R-HDR-1): Connection and what any of its lines
// names, and the fields that are hop-by-hop by definition. It holds for both
// directions, for interim responses and for trailers.
func StripHops(f *exchange.Fields) {
	if f.Has("Connection") {
		stripNamed(f)
	}
	f.DelFunc(func(fd exchange.Field) bool { return hopByHop(fd.Name) })
}

// stripNamed removes the fields that a Connection line names. All of its lines are
// one list, whichever is empty.
func stripNamed(f *exchange.Fields) {
	var first [8]string
	named := first[:0]
	for tok := range f.Tokens("Connection") {
		if !hopByHop(tok) {
			named = append(named, tok)
		}
	}
	f.DelFunc(func(fd exchange.Field) bool {
		return slices.ContainsFunc(named, func(n string) bool { return exchange.EqualName(fd.Name, n) })
	})
}

// hopByHop reports whether a field of this name never crosses the proxy.
// Trailer is regenerated from what is really relayed, see AnnouncedTrailers.
func hopByHop(name string) bool {
	switch len(name) {
	case 2:
		return exchange.EqualName(name, "TE")
	case 5: // a CGI behind the upstream would take it for its own HTTP_PROXY ("httpoxy")
		return exchange.EqualName(name, "Proxy")
	case 7:
		return exchange.EqualName(name, "Upgrade") || exchange.EqualName(name, "Trailer")
	case 10:
		if exchange.EqualName(name, "Connection") || exchange.EqualName(name, "Keep-Alive") {
			return true
		}
	case 14: // obsolete h2c upgrade: RFC 9113 §3.1
		if exchange.EqualName(name, "HTTP2-Settings") {
			return true
		}
	case 17:
		if exchange.EqualName(name, "Transfer-Encoding") {
			return true
		}
	}
	return len(name) > 6 && exchange.EqualName(name[:6], "Proxy-")
}

// AnnouncedTrailers returns the value of a new Trailer field: the names that f
// announces and that may be relayed, "" for none. Call it before StripHops.
func AnnouncedTrailers(f *exchange.Fields) string {
	if !f.Has("Trailer") {
		return ""
	}
	var names []string
	for tok := range f.Tokens("Trailer") {
		if trailerAllowed(tok) && !f.HasToken("Connection", tok) {
			names = append(names, tok)
		}
	}
	return strings.Join(names, ", ")
}

// StripTrailers removes what a trailer section must not carry on: hop-by-hop
// fields, fields that frame, route or authenticate a message (RFC 9110 §6.5.1), and those
// that proxies write or only local applications may, because receivers may merge
// trailers into the fields.
func StripTrailers(f *exchange.Fields) {
	f.DelFunc(func(fd exchange.Field) bool { return !trailerAllowed(fd.Name) })
}

func trailerAllowed(name string) bool {
	if hopByHop(name) {
		return false
	}
	for _, no := range [...]string{"Content-Length", "Content-Type", "Content-Encoding", "Content-Range",
		"Host", "Expect", "Authorization", "Cookie", "Set-Cookie", "Cache-Control", "Location"} {
		if exchange.EqualName(name, no) {
			return false
		}
	}
	for _, no := range [...]string{"X-Forwarded-", "X-LiteSpeed-", "LSC-", "X-Httpjet-", "Forwarded", "X-Real-IP", "Via"} {
		if len(name) >= len(no) && exchange.EqualName(strings.ReplaceAll(name[:len(no)], "_", "-"), no) && (strings.HasSuffix(no, "-") || len(name) == len(no)) {
			return false
		}
	}
	return true
}
