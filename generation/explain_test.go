package generation

import (
	"log/slog"
	"strings"
	"testing"

	"httpjet/exchange"
)

// A panic is told by who recovered it, with its stack, and not a second time.
func TestPanicIsExplainedOnce(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		var out strings.Builder
		g := &Generation{log: slog.New(slog.NewTextHandler(&out, nil))}
		g.explain(&exchange.Exchange{}, err)
		if got := out.String(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%v: %q", err, got)
		}
	}
	f(exchange.Fail(502, "upstream_transport", "refused"), "reason=upstream_transport")
	f(exchange.Fail(500, "internal", "disk"), "reason=internal")
	f(exchange.Fail(500, "internal", "%w: boom", exchange.ErrPanic), "")
	f(exchange.Fail(404, "not_found", "no"), "")
}
