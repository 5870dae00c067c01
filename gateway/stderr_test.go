package gateway

import "testing"

func TestEscape(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	f("plain text: äöü €", "plain text: äöü €")
	f("a\tb\x00\x1b[31m\x7f", `a\x09b\x00\x1b[31m\x7f`)
	f(`back\slash`, `back\\slash`)
	f("\x80\xff", `\x80\xff`)
	f("\u0085\u202e", `\u0085\u202e`)
	f("\ufffd", "\ufffd")
}
