package access

import (
	"net/netip"
	"strings"
	"testing"

	"httpjet/exchange"
)

// fields reads "Name: value" lines.
func fields(lines ...string) *exchange.Fields {
	f := &exchange.Fields{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		f.Add(name, strings.TrimPrefix(value, " "))
	}
	return f
}

// resolver resolves as a caller with one list does.
type resolver struct {
	Identity
	list *List
}

func trusting(allow string) *List {
	l, _ := Compile(allow, "")
	return l
}

type resolved struct {
	Client  netip.Addr
	Trusted bool
	Scheme  string
}

func (r *resolver) resolve(peer netip.Addr, scheme string, f *exchange.Fields) resolved {
	id := resolved{Trusted: r.list.Trusted(peer), Scheme: scheme}
	id.Client = r.Client(peer, f, id.Trusted, r.list.Trusted)
	if id.Trusted {
		id.Scheme = Scheme(scheme, f)
	}
	return id
}

// A client must not choose its own address by forwarding headers.
func TestG10ClientCannotChooseItsAddress(t *testing.T) {
	r := resolver{Identity{Mode: TrustedOnly}, trusting("127.0.0.2T")}
	control, _ := Compile("203.0.113.0/24", "ALL")
	forged := fields("X-Forwarded-For: 203.0.113.9", "X-Real-IP: 203.0.113.9", "Forwarded: for=203.0.113.9",
		"CF-Connecting-IP: 203.0.113.9")
	for _, mode := range []Mode{Never, TrustedOnly, TrustedKeep} {
		r.Mode = mode
		id := r.resolve(addr("127.0.0.1"), "http", forged)
		if id.Client != addr("127.0.0.1") || id.Trusted || control.Allowed(id.Client) {
			t.Errorf("mode %d: untrusted peer became %+v", mode, id)
		}
	}
	r.Mode = TrustedOnly
	id := r.resolve(addr("127.0.0.2"), "http", fields("X-Forwarded-For: 203.0.113.9, 198.51.100.7"))
	if id.Client != addr("198.51.100.7") || !id.Trusted || control.Allowed(id.Client) {
		t.Errorf("trusted peer: %+v", id)
	}
}

// The spoofed line stands first, and X-Forwarded-Proto of anyone was believed.
func TestFault5Identity(t *testing.T) {
	r := resolver{Identity{Mode: TrustedOnly}, trusting("127.0.0.2T")}
	lines := fields("X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https", "X-Forwarded-For: 198.51.100.7")
	if id := r.resolve(addr("127.0.0.1"), "http", lines); id.Scheme != "http" || id.Client != addr("127.0.0.1") {
		t.Errorf("untrusted: %+v", id)
	}
	if id := r.resolve(addr("127.0.0.2"), "http", lines); id.Scheme != "https" || id.Client != addr("198.51.100.7") {
		t.Errorf("trusted: %+v", id)
	}
}

// R-ACL-3, R-ACL-4, R-ACL-5, R-ACL-6 (no certificate is needed on a plain listener)
func TestClient(t *testing.T) {
	list := trusting("127.0.0.2T 10.0.0.0/8T [2001:db8::]/32T")
	f := func(mode Mode, cf bool, peer, want string, lines ...string) {
		t.Helper()
		r := resolver{Identity{mode, cf}, list}
		if got := r.resolve(addr(peer), "http", fields(lines...)).Client; got != addr(want) {
			t.Errorf("mode %d peer %s %q: client %s, want %s", mode, peer, lines, got, want)
		}
	}
	const front = "127.0.0.2"
	f(Never, true, front, front, "X-Forwarded-For: 192.0.2.1", "CF-Connecting-IP: 192.0.2.1")
	for _, m := range []Mode{TrustedOnly, TrustedKeep} {
		f(m, false, front, front)
		f(m, false, front, front, "X-Forwarded-For:")
		f(m, false, front, "192.0.2.1", "X-Forwarded-For: 192.0.2.1")
		f(m, false, "::ffff:127.0.0.2", "192.0.2.1", "x-forwarded-for: ::ffff:192.0.2.1")
		f(m, false, front, "192.0.2.1", "X-Forwarded-For: 192.0.2.1, 10.1.1.1", "X-Forwarded-For:\t2001:db8::5 ,10.2.2.2")
		f(m, false, front, "192.0.2.1", "X-Forwarded-For: not an address, 192.0.2.1")
		f(m, false, front, "192.0.2.1", "X-Forwarded-For: unknown", "X-Forwarded-For: 192.0.2.1, 10.1.1.1")
		f(m, false, front, front, "X-Forwarded-For: 10.1.1.1, 10.1.1.2") // fully trusted
		f(m, false, front, front, "X-Forwarded-For: 192.0.2.1, unknown")
		f(m, false, front, front, "X-Forwarded-For: 192.0.2.1,")
		f(m, false, front, front, "X-Forwarded-For: 192.0.2.1, , 10.1.1.1")
		f(m, false, front, front, "X-Forwarded-For: 192.0.2.1:4711")
		f(m, false, front, front, "X-Forwarded-For: [2001:db9::1]")
		f(m, false, front, front, "X-Forwarded-For: fe80::1%eth0")
		f(m, false, front, front, "X-Real-IP: 192.0.2.1", "Forwarded: for=192.0.2.1")
		f(m, false, "192.0.2.9", "192.0.2.9", "X-Forwarded-For: 192.0.2.1")
	}
	f(TrustedOnly, false, front, front, "CF-Connecting-IP: 192.0.2.1")
	f(TrustedOnly, true, front, "192.0.2.1", "CF-Connecting-IP: 192.0.2.1", "X-Forwarded-For: 192.0.2.2")
	f(TrustedOnly, true, front, "192.0.2.2", "CF-Connecting-IP: nobody", "X-Forwarded-For: 192.0.2.2")
	f(TrustedOnly, true, front, "192.0.2.2", "CF-Connecting-IP: 192.0.2.1", "CF-Connecting-IP: 192.0.2.3", "X-Forwarded-For: 192.0.2.2")
	f(TrustedOnly, true, "192.0.2.9", "192.0.2.9", "CF-Connecting-IP: 192.0.2.1")
	f(Always, true, "192.0.2.9", "192.0.2.1", "X-Forwarded-For: 192.0.2.3, 192.0.2.1, 10.1.1.1", "CF-Connecting-IP: 192.0.2.7")
	f(Always, false, "192.0.2.9", "192.0.2.9", "X-Forwarded-For: x")
	f(AlwaysLast, false, "192.0.2.9", "10.1.1.1", "X-Forwarded-For: 192.0.2.1, 10.1.1.1")
	f(AlwaysLast, false, "192.0.2.9", "192.0.2.9", "X-Forwarded-For: 192.0.2.1, x")
	f(TrustedOnly, false, "", "", "X-Forwarded-For: 192.0.2.1") // a peer on a Unix socket
}

func TestScheme(t *testing.T) {
	r := resolver{list: trusting("127.0.0.2T")}
	f := func(scheme, want string, lines ...string) {
		t.Helper()
		if got := r.resolve(addr("127.0.0.2"), scheme, fields(lines...)).Scheme; got != want {
			t.Errorf("%s with %q: %s, want %s", scheme, lines, got, want)
		}
	}
	f("http", "http")
	f("http", "https", "X-Forwarded-Proto: HTTPS")
	f("http", "http", "X-Forwarded-Proto: https, http")
	f("http", "https", "X-Forwarded-Proto: http", "X-Forwarded-Proto: https")
	f("http", "http", "X-Forwarded-Proto: httpsx")
	f("https", "https", "X-Forwarded-Proto: http") // the connection is what it is
}

func FuzzXFF(f *testing.F) {
	for _, s := range []string{"", "192.0.2.1", "203.0.113.9, 198.51.100.7", "10.0.0.1,,", "::ffff:10.0.0.1", "a\nb,10.1.1.1"} {
		f.Add(s)
	}
	list := trusting("127.0.0.2T 10.0.0.0/8T")
	peer := addr("127.0.0.2")
	f.Fuzz(func(t *testing.T, text string) {
		var fs exchange.Fields
		for line := range strings.SplitSeq(text, "\n") {
			fs.Add("X-Forwarded-For", line)
		}
		r := resolver{Identity{Mode: TrustedOnly}, list}
		got := r.resolve(peer, "http", &fs).Client
		if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Fatalf("client %v", got)
		}
		if got != peer && list.Trusted(got) {
			t.Fatalf("%q: a trusted proxy %v became the client", text, got)
		}
		// What a client writes in front of the proxy's own entry changes nothing.
		fs.Add("X-Forwarded-For", "198.51.100.7, 10.0.0.3")
		if got := r.resolve(peer, "http", &fs).Client; got != netip.MustParseAddr("198.51.100.7") {
			t.Fatalf("%q overrides the proxy's entry with %v", text, got)
		}
	})
}
