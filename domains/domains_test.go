package domains

import (
	"slices"
	"strings"
	"testing"
)

// R-LSN-3: exact, then patterns in order of declaration, then the catch-all;
// www. is dropped on both sides.
func TestFind(t *testing.T) {
	var m Map[string]
	add := func(list ...string) {
		t.Helper()
		for _, entry := range list {
			domain, v, _ := strings.Cut(entry, "=")
			if ok := m.Add(domain, v); ok != (v != "late") {
				t.Errorf("Add(%q, %q): %v", domain, v, ok)
			}
		}
	}
	f := func(host, want string) {
		t.Helper()
		if v, ok := m.Find(host); v != want || ok != (want != "") {
			t.Errorf("%q leads to %q %v, want %q", host, v, ok, want)
		}
	}
	add("www.a.test=a", "*.wild.test=w", "q.*=q", "q.b.wild.test=exact", "m?.test=mark", "*.x.*.y=stars", "[::1]=six", "a.test=late", "a.test=a", "=nobody")
	f("other.test", "")
	f("", "")
	add("*=all", "*=late", "*=all")
	if v, ok := m.Named("other.test"); ok || v != "" {
		t.Errorf("%q is named by the catch-all", v)
	}
	if v, ok := m.Named("x.wild.test"); !ok || v != "w" || !m.HasNames() {
		t.Errorf("Named: %q, %v", v, ok)
	}
	f("a.test", "a")
	f("WWW.A.Test:8080", "a")
	f("a.test.", "a")
	f("www.www.a.test", "all")
	f("q.b.wild.test", "exact")
	f("x.wild.test", "w")
	f("wild.test", "all")
	f("q.anything", "q")
	f("m1.test", "mark")
	f("m.test", "all")
	f("a.x.x.y.x.z.y", "stars")
	f("[::1]:443", "six")
	f("", "all")
	f("other.test", "all")
	all := m.All()
	slices.Sort(all)
	if want := []string{"a", "all", "exact", "mark", "q", "six", "stars", "w"}; !slices.Equal(all, want) {
		t.Errorf("All: %q, want %q", all, want)
	}
	var none *Map[string]
	if _, ok := none.Find("a.test"); ok {
		t.Error("a nil map has a name")
	}
}

func TestMatchingIsBounded(t *testing.T) {
	if matches(strings.Repeat("*a", 60)+"b", strings.Repeat("a", 5000)) {
		t.Error("matched")
	}
}
