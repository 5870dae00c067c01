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

// Identity says how the client of a request is found. It is immutable. With the
// zero value the peer is the client.
//
// Who is trusted is the caller's knowledge: the T entries of the server's and of
// the virtual host's list and, where the listener asks for client certificates,
// that the peer showed one (R-ACL-3).
type Identity struct {
	Mode Mode

	// CFConnectingIP makes CF-Connecting-IP of a trusted peer go before
	// X-Forwarded-For.
	CFConnectingIP bool
}

// Client returns the client of a request that came from peer with header fields
// f: unmapped, without zone, the peer's address if nothing better is known.
// trusted says that the peer is a trusted proxy, trusts who else is. X-Real-IP
// and Forwarded are never read (R-ACL-5).
func (id Identity) Client(peer netip.Addr, f *exchange.Fields, trusted bool, trusts func(netip.Addr) bool) netip.Addr {
	peer = peer.Unmap().WithZone("")
	switch {
	case id.Mode == Always:
		return walk(peer, f, trusts)
	case id.Mode == AlwaysLast:
		if a, ok := lastForwarded(f); ok {
			return a
		}
	case id.Mode != Never && trusted:
		if a, ok := id.connectingIP(f); ok {
			return a
		}
		return walk(peer, f, trusts)
	}
	return peer
}

// Scheme returns the effective scheme, "http" or "https", of a request that a
// trusted peer sent over a connection of the given scheme. X-Forwarded-Proto of
// any other peer must not get here. It can only raise the scheme: a TLS
// connection stays one. Where proxies in a row each added a value the last one
// is that of the peer.
func Scheme(scheme string, f *exchange.Fields) string {
	last := ""
	for v := range f.Tokens("X-Forwarded-Proto") {
		last = v
	}
	if strings.EqualFold(last, "https") {
		return "https"
	}
	return scheme
}

// connectingIP returns CF-Connecting-IP if it is asked for and is one address.
func (id Identity) connectingIP(f *exchange.Fields) (netip.Addr, bool) {
	const name = "CF-Connecting-IP"
	if !id.CFConnectingIP {
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
func walk(peer netip.Addr, f *exchange.Fields, trusts func(netip.Addr) bool) netip.Addr {
	for entry := range forwardedFromRight(f) {
		a, ok := address(entry)
		if !ok {
			return peer
		}
		if !trusts(a) {
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
