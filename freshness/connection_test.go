package freshness

import (
	"strings"
	"testing"

	"httpjet/exchange"
)

// RFC 9110 §7.6.1: what Connection names does not reach who answers.
func TestHidesFields(t *testing.T) {
	for lines, want := range map[string]bool{
		"":                                  false,
		"close":                             false,
		"Keep-Alive, TE":                    false,
		"keep-alive, Upgrade":               false,
		"Upgrade, HTTP2-Settings":           false,
		"Proxy-Connection,, ":               false,
		"close, Accept-Language":            true,
		"cookie":                            true,
		"Connection":                        true,
		`"close"`:                           true,
		"keep-alive\nX-A":                   true,
		"\nclose\n, ,\taccept , keep-alive": true,
	} {
		f := &exchange.Fields{}
		for line := range strings.SplitSeq(lines, "\n") {
			f.Add("connection", line)
		}
		if got := HidesFields(f); got != want {
			t.Errorf("%q: %v", lines, got)
		}
	}
}
