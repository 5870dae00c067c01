// Package forward builds the request side of a proxy hop: which fields of a
// client's request go on, which are added, which target may be sent, and what
// an upgrade request is. The proxy and the WebSocket relay share it. It sends
// nothing.
package forward

import (
	"net/netip"
	"strconv"
	"strings"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/trace"
)

// ForMode says what becomes of X-Forwarded-For (R-HDR-2).
type ForMode uint8

const (
	ForAuto    ForMode = iota // keep the chain of a trusted peer, append the client
	ForAppend                 // keep any chain, append the client
	ForReplace                // send the client alone
	ForOff                    // send none
)

// Options are the switches of a proxy hop. The zero value trusts nobody and
// adds every field.
type Options struct {
	For     ForMode
	Trusted func(netip.Addr) bool // is the immediate peer a trusted proxy? nil: nobody is

	NoRealIP bool // no X-Real-IP
	NoProto  bool // no X-Forwarded-Proto
	NoHost   bool // no X-Forwarded-Host
	NoVia    bool // no Via of ours; others' stay

	PeerHost bool  // Host is the peer's, not the client's (R-CTX-8)
	Path     *Path // nil: the path goes on as it is (R-CTX-7)

	Trace trace.Options // of traceparent and tracestate (R-TRACE-1)
}

// Host returns the Host of the request to the upstream; "" means the authority of
// the peer that gets it.
func (o *Options) Host(x *exchange.Exchange) string {
	switch {
	case x.Req.UpstreamHost != "":
		return x.Req.UpstreamHost
	case o.PeerHost:
		return ""
	}
	return x.Req.Host
}

// Fields appends the end-to-end fields of x's request to dst, which is empty,
// in their order and spelling, and behind them the fields of this hop. A switch
// that is off removes the client's field: nobody else may speak for this hop
// (R-HDR-1 to R-HDR-5).
func (o *Options) Fields(x *exchange.Exchange, dst *exchange.Fields) {
	chain, hasChain := "", false
	for i := range x.Req.Fields.Len() {
		switch fd := x.Req.Fields.At(i); {
		case exchange.EqualName(fd.Name, "X-Forwarded-For"):
			if hasChain && chain != "" && fd.Value != "" {
				chain += ", "
			}
			chain, hasChain = chain+fd.Value, true
		case o.ours(fd.Name):
		case len(fd.Name) == len(maxForwards) && exchange.EqualName(fd.Name, maxForwards):
			dst.Add(fd.Name, decremented(x, fd.Value))
		default:
			dst.Add(fd.Name, fd.Value)
		}
	}
	announced := ""
	if x.Req.Length < 0 {
		announced = extproc.AnnouncedTrailers(dst)
	}
	extproc.StripHops(dst)
	if announced != "" {
		dst.Add("Trailer", announced)
	}
	joinCookies(x, dst)
	if o.Trace != (trace.Options{}) {
		o.Trace.Outgoing(x, dst, o.trusts(x.Req.Remote.Addr()))
	}
	o.add(x, dst, chain)
}

const maxForwards = "Max-Forwards"

// MaxForwards is how many hops an OPTIONS request may still take: with 0 this one answers
// it (RFC 9110 §7.6.2). Of other methods, and of what is no number, nothing is taken.
func MaxForwards(x *exchange.Exchange) (n uint64, ok bool) {
	if x.Req.Method != "OPTIONS" {
		return 0, false
	}
	n, err := strconv.ParseUint(x.Req.Fields.Get(maxForwards), 10, 64)
	return n, err == nil
}

// decremented is what the next hop is told.
func decremented(x *exchange.Exchange, value string) string {
	if n, ok := MaxForwards(x); ok && n > 0 {
		return strconv.FormatUint(n-1, 10)
	}
	return value
}

// Writes reports whether upstreams get this hop's own field of the name, whatever the
// request has (R-HDR-2 to R-HDR-4).
func Writes(name string) bool {
	switch len(name) {
	case 9:
		return exchange.EqualName(name, "X-Real-IP")
	case 15:
		return exchange.EqualName(name, "X-Forwarded-For")
	case 16:
		return exchange.EqualName(name, "X-Forwarded-Host")
	case 17:
		return exchange.EqualName(name, "X-Forwarded-Proto")
	}
	return false
}

// ours reports whether the client's field of this name is dropped: this hop
// writes it, or it frames or steers this hop only.
func (o *Options) ours(name string) bool {
	if strings.Contains(name, "_") { // many applications take one for a hyphen
		name = strings.ReplaceAll(name, "_", "-") // X_Forwarded_For is no part of the chain either
	}
	if Writes(name) {
		return true
	}
	switch len(name) {
	case 4:
		return exchange.EqualName(name, "Host")
	case 6: // this hop has answered 100-continue itself (R-PIPE-6)
		return exchange.EqualName(name, "Expect")
	case 9:
		return o.For != ForAppend && exchange.EqualName(name, "Forwarded")
	case 14:
		return exchange.EqualName(name, "Content-Length")
	}
	return false
}

func (o *Options) add(x *exchange.Exchange, dst *exchange.Fields, chain string) {
	client := x.ClientText()
	if v := o.chain(x, chain, client); v != "" {
		dst.Add("X-Forwarded-For", v)
	}
	if !o.NoRealIP && client != "" {
		dst.Add("X-Real-IP", client)
	}
	if !o.NoProto {
		dst.Add("X-Forwarded-Proto", x.Req.Scheme)
	}
	if !o.NoHost && x.Req.Host != "" {
		dst.Add("X-Forwarded-Host", x.Req.Host)
	}
	if !o.NoVia {
		dst.Add("Via", via(x.Req.Proto))
	}
}

// chain returns the one X-Forwarded-For value: its right-most element is always
// ours (R-HDR-2). client is "" if the peer has no address.
func (o *Options) chain(x *exchange.Exchange, chain, client string) string {
	switch o.For {
	case ForOff:
		return ""
	case ForReplace:
		return client
	case ForAuto:
		if !o.trusts(x.Req.Remote.Addr()) {
			chain = ""
		}
	}
	if client == "" {
		client = "unknown"
	}
	if chain == "" {
		return client
	}
	return chain + ", " + client
}

func (o *Options) trusts(peer netip.Addr) bool {
	return o.Trusted != nil && peer.IsValid() && o.Trusted(peer.Unmap())
}

func via(proto string) string {
	switch proto {
	case "HTTP/1.1":
		return "1.1 httpjet"
	case "HTTP/2.0":
		return "2.0 httpjet"
	}
	return strings.TrimPrefix(proto, "HTTP/") + " httpjet"
}

// joinCookies makes the cookie crumbs of HTTP/2 and 3 one field again
// (RFC 9113 §8.2.3).
func joinCookies(x *exchange.Exchange, f *exchange.Fields) {
	if strings.HasPrefix(x.Req.Proto, "HTTP/1.") {
		return
	}
	joined, n := "", 0
	for v := range f.Values("Cookie") {
		if n > 0 {
			joined += "; "
		}
		joined += v
		n++
	}
	if n > 1 {
		f.Set("Cookie", joined)
	}
}

// StripPolicy removes the fields by which only a local application may steer
// the page cache, and tokens that only this server may send (R-HDR-7).
func StripPolicy(f *exchange.Fields) {
	f.DelFunc(func(fd exchange.Field) bool { return isPolicy(fd.Name) || isToken(fd.Name) })
}

// StripToken removes the tokens that only this server may send, and nothing else:
// from the answer of a local application when a page cache reads its policy.
func StripToken(f *exchange.Fields) {
	f.DelFunc(func(fd exchange.Field) bool { return isToken(fd.Name) })
}

func isPolicy(name string) bool { return hasPrefix(name, "X-LiteSpeed-") || hasPrefix(name, "LSC-") }

func isToken(name string) bool { return exchange.EqualName(name, "X-Httpjet-Proxy-Error") }

func hasPrefix(name, prefix string) bool {
	return len(name) >= len(prefix) && exchange.EqualName(name[:len(prefix)], prefix)
}

// IsUpgrade reports whether x asks for a WebSocket in a way this wire can give
// (R-WS-1): an HTTP/1.1 GET whose Upgrade lists websocket and whose Connection
// lists upgrade, or what a front end has made one of: an extended CONNECT (RFC 8441,
// RFC 9220). Anything else is an ordinary request whose Upgrade is ignored (R-WS-8). The
// key and the version are the relay's to judge.
func IsUpgrade(x *exchange.Exchange) bool {
	return x.Req.Method == "GET" && x.Req.Proto != "HTTP/1.0" &&
		x.Req.Fields.HasToken("Upgrade", "websocket") &&
		x.Req.Fields.HasToken("Connection", "upgrade") && x.CanUpgrade()
}
