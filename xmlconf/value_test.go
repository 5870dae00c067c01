package xmlconf

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// value parses text as a declaration of type T with a range.
func value[T any](unit, limits, text string, strict bool) string {
	e := &element{name: "e", typ: reflect.TypeFor[T](), unit: unit, limits: limits}
	v, note, bad := parseValue(e, text, strict)
	switch {
	case bad != nil:
		return "bad: " + bad.msg
	case note != nil:
		return fmt.Sprint(v, " ", note.code)
	}
	return fmt.Sprint(v)
}

// R-CONV-2, R-CONV-5, LSX 1.3: leading digits count, the last character alone
// decides the suffix, and nothing is clamped.
func TestIntegers(t *testing.T) {
	f := func(limits, text, want, wantStrict string) {
		t.Helper()
		if got := value[int64]("", limits, text, false); got != want {
			t.Errorf("%q in %q = %s, want %s", text, limits, got, want)
		}
		if got := value[int64]("", limits, text, true); got != wantStrict {
			t.Errorf("strict %q in %q = %s, want %s", text, limits, got, wantStrict)
		}
	}
	f("", "10", "10", "10")
	f("", "-1", "-1", "-1")
	f("", "+5", "5", "5")
	f("", "10K", "10240", "10240")
	f("", "2m", "2097152", "2097152")
	f("", "1G", "1073741824", "1073741824")
	f("", "10 MB", "10 W-VALUE", `bad: "10 MB" is no number`)
	f("", "10xK", "10240 W-VALUE", `bad: "10xK" is no number`)
	f("", "9223372036854775807K", `bad: "9223372036854775807K" is no number`, `bad: "9223372036854775807K" is no number`)
	f("", "abc", `bad: "abc" is no number`, `bad: "abc" is no number`)
	f("", "-", `bad: "-" is no number`, `bad: "-" is no number`)
	f("1..10", "11", "bad: 11 is out of range 1..10", "bad: 11 is out of range 1..10")
	f("1..10", "0", "bad: 0 is out of range 1..10", "bad: 0 is out of range 1..10")
	f("1M..", "1M", "1048576", "1048576")
	f("1M..", "1023K", "bad: 1023K is out of range 1M..", "bad: 1023K is out of range 1M..")
	f("0|301|308", "301", "301", "301")
	f("0|301|308", "302", "bad: 302 is out of range 0|301|308", "bad: 302 is out of range 0|301|308")
	if got := value[int]("", "", "3G", false); got != "bad: 3G is too large" {
		t.Errorf("3G as int = %s", got)
	}
	for text, want := range map[string]string{"true": "1", "2": "2", "no": "0 W-BOOL", "off": "0 W-BOOL", "false": "0 W-BOOL", "3": "bad: 3 is out of range 0..2"} {
		if got := value[int]("link", "0..2", text, false); got != want { // a word must not open what it is to close
			t.Errorf("link %s = %s, want %s", text, got, want)
		}
	}
	if got := value[uint32]("octal", "", "041111", false); got != fmt.Sprint(0o41111) {
		t.Errorf("mask 041111 = %s", got)
	}
	if got := value[uint32]("octal", "", "048", false); got != `bad: "048" is no octal mask` {
		t.Errorf("mask 048 = %s", got)
	}
}

// R-CONV-1: 1, 2 and true are on; yes and on are off, as LiteSpeed reads them.
func TestBooleans(t *testing.T) {
	f := func(text, want, wantStrict string) {
		t.Helper()
		if got := value[bool]("", "", text, false); got != want {
			t.Errorf("%q = %s, want %s", text, got, want)
		}
		if got := value[bool]("", "", text, true); got != wantStrict {
			t.Errorf("strict %q = %s, want %s", text, got, wantStrict)
		}
	}
	f("1", "true", "true")
	f("0", "false", "false")
	f("2", "true W-BOOL", `bad: "2" is no switch`)
	f("TRUE", "true W-BOOL", "true W-BOOL")
	f("yes", "false W-BOOL", `bad: "yes" is no switch`)
	f("on", "false W-BOOL", `bad: "on" is no switch`)
	f("5", "false W-BOOL", `bad: "5" is no switch`)
}

// R-CONV-3: seconds; strict elements may have units; ranges hold afterwards.
func TestDurations(t *testing.T) {
	f := func(limits, text, want, wantStrict string) {
		t.Helper()
		if got := value[time.Duration]("s", limits, text, false); got != want {
			t.Errorf("%q in %q = %s, want %s", text, limits, got, want)
		}
		if got := value[time.Duration]("s", limits, text, true); got != wantStrict {
			t.Errorf("strict %q in %q = %s, want %s", text, limits, got, wantStrict)
		}
	}
	f("", "60", "1m0s", "1m0s")
	f("-1..10", "-1", "-1s", "-1s")
	f("", "100ms", "100ms W-VALUE", "100ms")
	f("", "2m", "2m0s W-VALUE", "2m0s")
	f("", "60 sec", "1m0s W-VALUE", `bad: "60 sec" is no duration`)
	f("0|10ms..86400", "5ms", "bad: 5ms is out of range 0|10ms..86400", "bad: 5ms is out of range 0|10ms..86400")
	f("0|10ms..86400", "0", "0s", "0s")
	f("100ms..3600", "1h", "1h0m0s W-VALUE", "1h0m0s")
	f("", "99999999999", `bad: "99999999999" is no duration`, `bad: "99999999999" is no duration`)
	f("", "", `bad: "" is no duration`, `bad: "" is no duration`)
}

func TestWordsAndLists(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(value[string]("", "ERROR|WARN", "warn", false), "WARN")
	f(value[string]("", "ERROR|WARN", "warn", true), `bad: "warn" is unknown`)
	f(value[[]string]("", "", "a, b\n\tc,,d ", false), "[a b c d]")
	f(value[[]string]("acl", "", "127.0.0.1 # office, home\n10.0.0.0/8T", false), "[127.0.0.1 10.0.0.0/8T]")
	f(value[[]int]("", "1..1000", "2,1", true), "[2 1]")
	f(value[[]int]("", "1..1000", "2,0", true), "bad: 0 is out of range 1..1000")
	f(value[[]int]("", "1..1000", "2,x", true), `bad: "x" is no number`)
}

func TestSuggest(t *testing.T) {
	policies := []string{"primary-first", "weighted-round-robin", "weighted-least-active", "round-robin", "least-conn", "ip-hash"}
	f := func(got string, words []string, want string) {
		t.Helper()
		if w := Suggest(got, words); w != want {
			t.Errorf("Suggest(%q) = %q, want %q", got, w, want)
		}
	}
	f("wrr", policies, "weighted-round-robin")
	f("least-con", policies, "least-conn")
	f("roundrobin", policies, "round-robin")
	f("WARNING", []string{"ERROR", "WARN"}, "WARN")
	f("nothing", policies, "")
	f("ab", []string{"ac", "ad"}, "")
}
