package extproc

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

// asker returns how the addresses of a name are asked for by way of r.
//
// That a name does not exist, or has no addresses, drops an answer that was good
// until then. The resolver of package net says so too where one of its two
// questions, A and AAAA, was answered by a failure or not at all: so both are
// asked once more, apart, before it is believed.
func asker(r *net.Resolver) func(context.Context, string) ([]netip.Addr, error) {
	strict := &net.Resolver{PreferGo: r.PreferGo, Dial: r.Dial, StrictErrors: true}
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		found, err := r.LookupNetIP(ctx, "ip", host)
		for _, network := range []string{"ip4", "ip6"} {
			if !notFound(err) {
				break
			}
			found, err = strict.LookupNetIP(ctx, network, host)
		}
		if err != nil {
			return nil, err
		}
		if found = usable(found); len(found) == 0 {
			return nil, &net.DNSError{Err: "answer holds no address of a host", Name: host}
		}
		return found, nil
	}
}

// notFound reports whether the name servers know that a name has no address.
func notFound(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}

// usable returns what can be dialled of an answer: at most maxAddresses, of both
// families, without those that are no address of one host (a filter answers with
// 0.0.0.0, which would be this server).
func usable(found []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range found {
		if a = a.Unmap(); !a.IsUnspecified() && !a.IsMulticast() && a != broadcast {
			out = append(out, a)
		}
	}
	if out = dialOrder(out, 0); len(out) > maxAddresses {
		out = out[:maxAddresses:maxAddresses]
	}
	return out
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// dialOrder returns the order in which the dial with the number turn tries addrs:
// the families by turns, beginning with that of the first (RFC 8305 §4), and within
// a family another one first each time, so that all get their share.
func dialOrder(addrs []netip.Addr, turn int) []netip.Addr {
	if len(addrs) < 2 {
		return addrs
	}
	var families [2][]netip.Addr
	for _, a := range addrs {
		f := 0
		if a.Is4() != addrs[0].Is4() {
			f = 1
		}
		families[f] = append(families[f], a)
	}
	out := make([]netip.Addr, 0, len(addrs))
	for i := range addrs {
		for _, f := range families {
			if i < len(f) {
				out = append(out, f[(i+turn)%len(f)])
			}
		}
	}
	return out
}
