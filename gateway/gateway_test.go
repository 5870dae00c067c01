package gateway

import (
	"strings"
	"testing"

	"httpjet/exchange"
	"httpjet/extproc"
)

// Whatever the variables say, the application hears the length that the body has
// (R-FCGI-6).
func TestDigits(t *testing.T) {
	f := func(length int64, declared bool, given, want string) {
		t.Helper()
		list := &exchange.Fields{}
		if given != "" {
			list.Add("CONTENT_LENGTH", given)
		}
		r := (&Client{}).request(&extproc.Call{Params: list}, body{length: length, declared: declared})
		if r.Digits != want {
			t.Errorf("%d %v %q: %q, want %q", length, declared, given, r.Digits, want)
		}
	}
	f(0, false, "", "")
	f(0, false, "5", "0")
	f(0, true, "", "0")
	f(7, true, "5", "7")
}

// A call without variables has no length either.
func TestDigitsWithoutVariables(t *testing.T) {
	r := (&Client{}).request(&extproc.Call{Body: strings.NewReader("")}, body{})
	if r.Digits != "" {
		t.Errorf("%q", r.Digits)
	}
}
