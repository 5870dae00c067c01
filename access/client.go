package access

import (
	"net/netip"
	"strings"

	"httpjet/exchange"
)

// Mode says from whom X-Forwarded-For is believed (useIpInProxyHeader, R-ACL-3).
type Mode uint8

const (
	Never       Mode = iota // the peer is the client
	Always                  // from every peer
	TrustedOnly             // from a trusted peer
	TrustedKeep             // the same; LiteSpeed tells them apart, we do not
	AlwaysLast              // from every peer, its last entry
)

// Resolver finds the client of a request. It is immutable. The zero value takes
// the peer for the client and trusts nobody.
type Resolver struct {
	Mode Mode

	// CFConnectingIP makes CF-Connecting-IP of a trusted peer go before
	// X-Forwarded-For.
	CFConnectingIP bool

	// Trust are the lists whose T entries name the trusted proxies: the
	// server's, then the virtual host's. One that trusts is enough.
	Trust []*List

	// NeedCert is set where the listener asks for client certificates: a peer
	// without a verified one is not trusted.
	NeedCert bool
}

// Identity is who sent a request, as far as the server believes it.
type Identity struct {
	Client  netip.Addr // unmapped, without zone; the peer's if nothing better is known
	Trusted bool       // the peer is a trusted proxy
	Scheme  string     // effective scheme, "http" or "https"
}

// Client resolves the request of peer with header fields f. scheme is that of
// the connection; verified says that the peer showed a client certificate that
// was verified. X-Real-IP and Forwarded are never read (R-ACL-5).
func (r *Resolver) Client(peer netip.Addr, scheme string, verified bool, f *exchange.Fields) Identity {
	peer = peer.Unmap().WithZone("")
	id := Identity{Client: peer, Scheme: scheme}
	id.Trusted = r.trusted(peer) && (!r.NeedCert || verified)
	if id.Trusted && toldHTTPS(f) {
		id.Scheme = "https"
	}
	switch {
	case r.Mode == Always:
		id.Client = r.walk(peer, f)
	case r.Mode == AlwaysLast:
		if a, ok := lastForwarded(f); ok {
			id.Client = a
		}
	case r.Mode != Never && id.Trusted:
		if a, ok := r.connectingIP(f); ok {
			id.Client = a
		} else {
			id.Client = r.walk(peer, f)
		}
	}
	return id
}

func (r *Resolver) trusted(a netip.Addr) bool {
	for _, l := range r.Trust {
		if l.Trusted(a) {
			return true
		}
	}
	return false
}

// connectingIP returns CF-Connecting-IP if it is asked for and is one address.
func (r *Resolver) connectingIP(f *exchange.Fields) (netip.Addr, bool) {
	const name = "CF-Connecting-IP"
	if !r.CFConnectingIP {
		return netip.Addr{}, false
	}
	value, n := "", 0
	for v := range f.Values(name) {
		value = v
		n++
	}
	if n != 1 {
		return netip.Addr{}, false
	}
	return address(value)
}

// walk reads all X-Forwarded-For lines as one list from right to left, skips
// trusted proxies and returns the first other address. The left end of the list
// is what the client wrote itself, so nothing left of that address is looked at:
// a client cannot undo its identity with a malformed entry. Everything up to it
// was written by trusted proxies; if that is malformed or there is no such
// address the peer is the client.
func (r *Resolver) walk(peer netip.Addr, f *exchange.Fields) netip.Addr {
	for entry := range forwardedFromRight(f) {
		a, ok := address(entry)
		if !ok {
			return peer
		}
		if !r.trusted(a) {
			return a
		}
	}
	return peer
}

func lastForwarded(f *exchange.Fields) (netip.Addr, bool) {
	for entry := range forwardedFromRight(f) {
		return address(entry)
	}
	return netip.Addr{}, false
}

// forwardedFromRight yields the elements of X-Forwarded-For, last one first.
func forwardedFromRight(f *exchange.Fields) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := f.Len() - 1; i >= 0; i-- {
			field := f.At(i)
			if !exchange.EqualName(field.Name, "X-Forwarded-For") {
				continue
			}
			for rest, more := field.Value, true; more; {
				entry := rest
				if j := strings.LastIndexByte(rest, ','); j >= 0 {
					rest, entry = rest[:j], rest[j+1:]
				} else {
					more = false
				}
				if !yield(entry) {
					return
				}
			}
		}
	}
}

// address reads an address literal: no port, no brackets, no zone.
func address(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if len(s) > len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255") {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// toldHTTPS reads X-Forwarded-Proto of a trusted peer. Where proxies in a row
// each added a value the last one is that of the peer.
func toldHTTPS(f *exchange.Fields) bool {
	last := ""
	for v := range f.Tokens("X-Forwarded-Proto") {
		last = v
	}
	return strings.EqualFold(last, "https")
}
