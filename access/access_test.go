package access

import (
	"net/netip"
	"strings"
	"testing"

	"httpjet/exchange"
)

func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

// R-ACL-1: every form of an entry, the most specific one wins, deny wins ties,
// whom none meets is let in.
func TestAllowed(t *testing.T) {
	f := func(allow, deny, in, out string) {
		t.Helper()
		l, problems := Compile(allow, deny)
		if len(problems) != 0 {
			t.Errorf("Compile(%q, %q): %v", allow, deny, problems)
		}
		for a := range strings.FieldsSeq(in) {
			if !l.Allowed(addr(a)) {
				t.Errorf("allow %q deny %q: %s is shut out", allow, deny, a)
			}
		}
		for a := range strings.FieldsSeq(out) {
			if l.Allowed(addr(a)) {
				t.Errorf("allow %q deny %q: %s is let in", allow, deny, a)
			}
		}
	}
	f("", "", "192.0.2.1 2001:db8::1 ::ffff:192.0.2.1", "")
	f("192.0.2.0/24", "", "192.0.2.1 203.0.113.1", "")
	f("192.0.2.0/24", "ALL", "192.0.2.1 ::ffff:192.0.2.1", "203.0.113.1 2001:db8::1")
	f("192.0.2.0/24", "*", "192.0.2.1", "203.0.113.1 ::1")
	f("192.0.2.0/24", "0.0.0.0/0", "192.0.2.1", "203.0.113.1 ::1")
	f("ALL", "ALL", "", "192.0.2.1 ::1")
	f("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1")
	f("192.0.2.1", "192.0.2.0/24", "192.0.2.1", "192.0.2.2")
	f("10.0.0.0/8 10.1.2.3", "10.1.0.0/16, ALL", "10.2.0.1 10.1.2.3", "10.1.2.4 11.0.0.1")
	f("", "1.2.3.0/255.255.255.0", "1.2.4.1", "1.2.3.9")
	f("", "1.2.3.77/24", "1.2.4.1", "1.2.3.9")
	f("", "1.2.3.*", "1.2.4.1", "1.2.3.0 1.2.3.255")
	f("", "1.2.*.*", "1.3.0.1", "1.2.9.9")
	f("", "1.2.3", "1.2.4.1", "1.2.3.4")
	f("", "1.2.3.", "1.2.4.1", "1.2.3.4")
	f("", "1.2.", "1.3.0.1", "1.2.3.4")
	f("", "10.", "11.0.0.1 ::1", "10.3.2.1")
	f("", "[2001:db8::1]", "2001:db8::2", "2001:db8::1")
	f("", "2001:db8::/32", "2001:db9::1", "2001:db8:ffff::1")
	f("", "[2001:db8::]/32", "2001:db9::1", "2001:db8:ffff::1")
	f("", "::/0", "192.0.2.1", "2001:db8::1")
	f("", "::ffff:192.0.2.1", "192.0.2.2", "192.0.2.1 ::ffff:192.0.2.1")
	f("", "::ffff:192.0.2.0/120", "192.0.3.1", "192.0.2.9")
	f("", "fe80::/10", "2001:db8::1", "fe80::1%eth0")
	f("192.0.2.1T", "192.0.2.9T ALL", "192.0.2.1", "192.0.2.9 192.0.2.2")
	f(" 192.0.2.1,\r\n,192.0.2.2\t192.0.2.3 # office, ALL\n192.0.2.4", "ALL",
		"192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4", "192.0.2.5")
}

func TestAllowedUnknownPeer(t *testing.T) {
	f := func(allow, deny string, want bool) {
		t.Helper()
		l, _ := Compile(allow, deny)
		if got := l.Allowed(netip.Addr{}); got != want {
			t.Errorf("allow %q deny %q: unknown peer let in %v", allow, deny, got)
		}
		if l.Trusted(netip.Addr{}) {
			t.Errorf("allow %q deny %q: unknown peer trusted", allow, deny)
		}
	}
	f("", "", true)
	f("", "192.0.2.1", true)
	f("192.0.2.1", "ALL", false)
	f("ALLT", "", true)
}

// R-ACL-1: an unreadable entry is skipped in allow and closes the list in deny.
func TestProblems(t *testing.T) {
	bad := []string{"localhost", "1.2.3.4.5", "1.2.3.256", "1.2.3.4/33", "1.2.3.4/255.0.255.0", "1.2.3.4/", "/24",
		"2001:db8::/129", "[1.2.3.4]", "[2001:db8::1", "fe80::1%eth0", "1..2", "01.2.3.4", "1.2.3.4-9", "*.2.3.4",
		"1.2.3.4.", ".", "T", "1.2.*.4", "1.2.3.4:80", "10.0.0.0.*", "1.2.3.0/-1", "ALLE"}
	for _, entry := range bad {
		l, problems := Compile("ALL\n"+entry, "")
		if len(problems) != 1 || problems[0] != (Problem{List: "allow", Entry: entry, Line: 2}) {
			t.Errorf("allow %q: %+v", entry, problems)
		}
		if !l.Allowed(addr("192.0.2.1")) || l.Restricts() {
			t.Errorf("allow %q restricts", entry)
		}
		l, problems = Compile("192.0.2.1T", entry)
		if len(problems) != 1 || !problems[0].Error || problems[0].List != "deny" {
			t.Errorf("deny %q: %+v", entry, problems)
		}
		if l.Allowed(addr("192.0.2.1")) || l.Trusted(addr("192.0.2.1")) || !l.Restricts() {
			t.Errorf("deny %q leaves the list open", entry)
		}
	}
}

// R-ACL-2: T marks trusted proxies on allow entries only.
func TestTrusted(t *testing.T) {
	f := func(allow, deny, yes, no string) {
		t.Helper()
		l, _ := Compile(allow, deny)
		for a := range strings.FieldsSeq(yes) {
			if !l.Trusted(addr(a)) {
				t.Errorf("allow %q deny %q: %s is not trusted", allow, deny, a)
			}
		}
		for a := range strings.FieldsSeq(no) {
			if l.Trusted(addr(a)) {
				t.Errorf("allow %q deny %q: %s is trusted", allow, deny, a)
			}
		}
	}
	f("", "", "", "127.0.0.1 ::1") // nobody is trusted unless written
	f("127.0.0.1", "", "", "127.0.0.1")
	f("127.0.0.2T 10.0.0.0/8t [::1]T", "", "127.0.0.2 ::ffff:127.0.0.2 10.9.9.9 ::1", "127.0.0.1 11.0.0.1")
	f("10.0.0.0/8T 10.1.0.0/16", "", "10.0.0.1", "10.1.0.1")
	f("10.0.0.0/8T", "10.1.0.0/16", "10.0.0.1", "10.1.0.1")
	f("10.0.0.1T", "10.0.0.1", "", "10.0.0.1")
	f("ALL", "10.0.0.1T", "", "10.0.0.1 10.0.0.2")
	f("*T", "", "192.0.2.1 ::1", "")
}

// R-CHECK-5: trust in everybody is worth a warning.
func TestTrustsAll(t *testing.T) {
	f := func(allow, deny string, want bool) {
		t.Helper()
		if l, _ := Compile(allow, deny); l.TrustsAll() != want {
			t.Errorf("allow %q deny %q: %v", allow, deny, !want)
		}
	}
	f("ALLT", "", true)
	f("0.0.0.0/0T", "", true)
	f("::/0T", "", true)
	f("*t", "192.0.2.1", true)
	f("ALLT", "ALL", false)
	f("ALL 10.0.0.0/8T", "", false)
	f("", "", false)
}

func TestNilList(t *testing.T) {
	var l *List
	if !l.Allowed(addr("192.0.2.1")) || l.Trusted(addr("192.0.2.1")) || l.Restricts() {
		t.Error("a nil list must restrict and trust nobody")
	}
}

func TestNoAllocation(t *testing.T) {
	l, _ := Compile("10.0.0.0/8T 192.0.2.0/24", "ALL 10.1.2.3")
	r := resolver{Identity{Mode: TrustedOnly}, l}
	var fields exchange.Fields
	fields.Add("X-Forwarded-For", "203.0.113.9, 10.0.0.7")
	peer := addr("10.0.0.1")
	if n := testing.AllocsPerRun(100, func() {
		if !l.Allowed(peer) || r.resolve(peer, "http", &fields).Client == peer {
			t.Fatal("wrong answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations per lookup", n)
	}
}
