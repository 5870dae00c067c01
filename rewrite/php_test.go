package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"httpjet/exchange"
)

func TestPHPSettings(t *testing.T) {
	f := func(text, want, faults string) {
		t.Helper()
		var bad strings.Builder
		var got strings.Builder
		for _, s := range PHPSettings(text, func(line int, fixed bool, err error) { fmt.Fprintf(&bad, "%d %v;", line, fixed) }) {
			fmt.Fprintf(&got, "%s=%q %v;", s.Name, s.Value, s.Fixed)
		}
		if got.String() != want || bad.String() != faults {
			t.Errorf("%q: %s, faults %s", text, got.String(), bad.String())
		}
	}
	f("", "", "")
	f("\n  php_value memory_limit 64M\n# x\n\tPHP_FLAG display_errors Off\r\n", `memory_limit="64M" false;display_errors="0" false;`, "")
	f("php_admin_value open_basedir \"/srv/a b:/tmp\"\nphp_admin_flag x.y-z on", `open_basedir="/srv/a b:/tmp" true;x.y-z="1" true;`, "")
	f("php_value include_path None\nphp_value a 'it''s'", `include_path="" false;`, "1 false;")
	// The last of a name counts, but none goes before an administrator's.
	f("php_value a 1\nphp_value a 2", `a="2" false;`, "")
	f("php_admin_value a 1\nphp_value a 2", `a="1" true;`, "")
	f("php_value a 1\nphp_admin_value a 2", `a="2" true;`, "")
	f("php_admin_value a 1\nphp_admin_value a 2", `a="2" true;`, "")
	f("php_value\nphp_value a\nphp_value a b c\nphp_flag a maybe\nphp_admin_flag a 2\nphp_valeu a 1\nphp_admin_valeu a 1",
		"", "0 false;1 false;2 false;3 false;4 true;5 false;6 true;")
	f("php_value a\x00b 1\nphp_value a=b 1\nphp_value a x\x01y\nphp_value a \"it's $x\"\nphp_value "+strings.Repeat("n", 200)+" 1\nphp_value a "+strings.Repeat("v", 5000),
		"", "0 false;1 false;2 false;3 false;4 false;5 false;")
	var many strings.Builder
	for i := range maxSettings + 2 {
		fmt.Fprintf(&many, "php_value a%d 1\n", i)
	}
	n := 0
	if list := PHPSettings(many.String(), func(int, bool, error) { n++ }); len(list) != maxSettings || n != 2 {
		t.Errorf("%d settings, %d faults", len(list), n)
	}
}

// What is shared by exchanges is never written to.
func TestMergePHPCopies(t *testing.T) {
	base := make([]exchange.Setting, 1, 4)
	base[0] = exchange.Setting{Name: "a", Value: "1"}
	MergePHP(base, exchange.Setting{Name: "b"}, exchange.Setting{Name: "a", Value: "2"})
	if base[0].Value != "1" || base[:2][1].Name != "" {
		t.Errorf("%+v", base[:2])
	}
}
