// Package access says who is let in: which addresses an accessControl block lets in, which of
// them are trusted proxies, and who the client behind such a proxy is. It knows
// no path and no virtual host, and sends no answer. Realms and their passwords are
// here too (Realm, Guard).
package access

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Problem is an entry of a list that could not be read.
type Problem struct {
	List  string // "allow" or "deny"
	Entry string // as written
	Line  int    // line within the list's text, from 1
	Error bool   // the configuration must not load (R-ACL-1); else a warning
}

func (p Problem) String() string {
	return fmt.Sprintf("%s entry %q is not an address, network or ALL", p.List, p.Entry)
}

// verdict is what the entries for one network say together.
type verdict uint8

const (
	allow verdict = 1 << iota
	deny          // wins over allow at the same network
	trust         // a trusted proxy; comes with allow only
)

// List is a compiled accessControl block. It is immutable; a nil List restricts
// nobody and trusts nobody.
type List struct {
	v4, v6 table
	deny   bool // some entry denies: without one everybody is let in
	trusts bool // some entry has a T
	closed bool // a deny entry was unreadable: nobody is let in
}

// table finds the most specific network around an address: one map for all
// networks, probed once per prefix length in use, longest first.
type table struct {
	nets map[netip.Prefix]verdict
	bits []int // lengths in use, descending
}

func (t *table) add(p netip.Prefix, v verdict) {
	if t.nets == nil {
		t.nets = map[netip.Prefix]verdict{}
	}
	t.nets[p] |= v
	if i, found := slices.BinarySearchFunc(t.bits, p.Bits(), func(have, want int) int { return want - have }); !found {
		t.bits = slices.Insert(t.bits, i, p.Bits())
	}
}

func (t *table) find(a netip.Addr) verdict {
	for _, n := range t.bits {
		p, _ := a.Prefix(n) // n fits the family: add took it from a prefix of it
		if v, ok := t.nets[p]; ok {
			return v
		}
	}
	return 0
}

// Compile reads the two lists of an accessControl block. Entries stand between
// commas, blanks and line ends; '#' starts a comment up to the end of its line.
// If a deny entry is unreadable the problem is an error and the returned list
// lets nobody in, so that a caller who goes on stays closed.
func Compile(allowText, denyText string) (*List, []Problem) {
	l := &List{}
	var problems []Problem
	for entry, line := range entries(allowText) {
		if !l.allow(entry) {
			problems = append(problems, Problem{List: "allow", Entry: entry, Line: line})
		}
	}
	for entry, line := range entries(denyText) {
		l.deny = true
		p, any, ok := parse(trimTrust(entry)) // trust means nothing here (R-ACL-2)
		switch {
		case !ok:
			l.closed = true
			problems = append(problems, Problem{List: "deny", Entry: entry, Line: line, Error: true})
		case any || p == anyV4:
			l.addAny(deny) // 0.0.0.0/0 stands for the root, like ALL
		default:
			l.add(p, deny)
		}
	}
	return l, problems
}

var anyV4, anyV6 = netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)

func (l *List) allow(entry string) bool {
	v, text := allow, trimTrust(entry)
	if text != entry {
		v |= trust
		l.trusts = true
	}
	p, any, ok := parse(text)
	switch {
	case !ok:
		return false
	case any:
		l.addAny(v)
	default:
		l.add(p, v)
	}
	return true
}

func (l *List) addAny(v verdict) {
	l.v4.add(anyV4, v)
	l.v6.add(anyV6, v)
}

func (l *List) add(p netip.Prefix, v verdict) {
	if p.Addr().Is4() {
		l.v4.add(p, v)
	} else {
		l.v6.add(p, v)
	}
}

// find returns what the most specific entry around a says. An address that is
// not known, as of a peer on a Unix socket, is only met by ALL.
func (l *List) find(a netip.Addr) verdict {
	a = a.Unmap().WithZone("")
	switch {
	case a.Is4():
		return l.v4.find(a)
	case a.IsValid():
		return l.v6.find(a)
	}
	return l.v6.nets[anyV6] &^ trust & l.v4.nets[anyV4]
}

// Allowed reports whether a client at a is let in: the most specific entry
// decides, deny wins a tie, and who no entry meets is let in (R-ACL-1).
func (l *List) Allowed(a netip.Addr) bool {
	if l == nil || !l.deny {
		return true
	}
	return !l.closed && l.find(a)&deny == 0
}

// Trusted reports whether the forwarding headers of a peer at a are believed:
// the most specific entry around a is an allow entry with a trailing T.
func (l *List) Trusted(a netip.Addr) bool {
	if l == nil || !l.trusts || l.closed {
		return false
	}
	v := l.find(a)
	return v&trust != 0 && v&deny == 0
}

// Restricts reports whether the list denies anyone.
func (l *List) Restricts() bool { return l != nil && l.deny }

// TrustsAll reports whether every address is a trusted proxy unless an entry
// says otherwise: each client can then choose its own address.
func (l *List) TrustsAll() bool {
	return l != nil && !l.closed && (l.v4.nets[anyV4]&(trust|deny) == trust || l.v6.nets[anyV6]&(trust|deny) == trust)
}

// entries yields the entries of a list with their lines.
func entries(text string) func(yield func(string, int) bool) {
	return func(yield func(string, int) bool) {
		line := 0
		for row := range strings.Lines(text) {
			line++
			row, _, _ = strings.Cut(row, "#")
			for entry := range strings.FieldsFuncSeq(row, separator) {
				if !yield(entry, line) {
					return
				}
			}
		}
	}
}

func separator(r rune) bool {
	return r == ',' || r == ' ' || r == '\t' || r == '\r' || r == '\n'
}

func trimTrust(entry string) string {
	if n := len(entry); n > 1 && (entry[n-1] == 'T' || entry[n-1] == 't') {
		return entry[:n-1]
	}
	return entry
}

// parse reads one entry without its T. any is ALL or *.
func parse(s string) (p netip.Prefix, any, ok bool) {
	if s == "*" || strings.EqualFold(s, "ALL") {
		return p, true, true
	}
	host, size, sized := strings.Cut(s, "/")
	if v6, ok := bracketed(host); ok {
		host = v6
		if !strings.Contains(host, ":") {
			return p, false, false
		}
	}
	a, err := netip.ParseAddr(host)
	switch {
	case err != nil && !sized:
		p, ok = parsePartial(host)
	case err != nil || a.Zone() != "":
	case !sized:
		p, ok = netip.PrefixFrom(a, a.BitLen()), true
	default:
		p, ok = parseSized(a, size)
	}
	if !ok {
		return netip.Prefix{}, false, false
	}
	return unmap(p).Masked(), false, true
}

func bracketed(s string) (string, bool) {
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		return s[1 : len(s)-1], true
	}
	return s, false
}

// parseSized reads the part behind '/': a length, or a netmask for IPv4.
func parseSized(a netip.Addr, size string) (netip.Prefix, bool) {
	if n, ok := number(size, a.BitLen()); ok {
		return netip.PrefixFrom(a, n), true
	}
	mask, err := netip.ParseAddr(size)
	if err != nil || !mask.Is4() || !a.Is4() {
		return netip.Prefix{}, false
	}
	var m uint32
	for _, b := range mask.As4() {
		m = m<<8 | uint32(b)
	}
	n := 0
	for ; m&(1<<31) != 0; m <<= 1 {
		n++
	}
	return netip.PrefixFrom(a, n), m == 0 // ones may not follow zeros
}

// parsePartial reads 1.2.3, 1.2.3. and 1.2.3.*: the leading octets of IPv4.
func parsePartial(s string) (netip.Prefix, bool) {
	parts := strings.Split(s, ".")
	for len(parts) > 1 && parts[len(parts)-1] == "*" {
		parts = parts[:len(parts)-1]
	}
	if len(parts) > 1 && parts[len(parts)-1] == "" && strings.HasSuffix(s, ".") {
		parts = parts[:len(parts)-1]
	}
	if len(parts) > 3 || strings.Count(s, ".") > 3 {
		return netip.Prefix{}, false
	}
	var octets [4]byte
	for i, part := range parts {
		n, ok := number(part, 255)
		if !ok {
			return netip.Prefix{}, false
		}
		octets[i] = byte(n)
	}
	return netip.PrefixFrom(netip.AddrFrom4(octets), 8*len(parts)), true
}

// number reads a plain decimal number up to max, without leading zeros, which
// some readers take for octal.
func number(s string, max int) (int, bool) {
	if s == "" || len(s) > 3 || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, n <= max
}

// unmap turns a network of IPv4-mapped addresses into the IPv4 network.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
