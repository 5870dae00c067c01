package extproc

import (
	"strings"
	"testing"

	"httpjet/exchange"
)

// TestTrailersOfOthers: nothing that a proxy, or a local application, may say comes
// through in a trailer, nor is it announced.
func TestTrailersOfOthers(t *testing.T) {
	names := []string{"X-Forwarded-For", "x_forwarded_for", "X-Forwarded-Proto", "X-Real-IP", "X_Real-IP", "Forwarded", "via", "Proxy", "Proxy-Authorization",
		"X-LiteSpeed-Purge", "LSC-Cookie", "X-Httpjet-Proxy-Error", "Connection", "Host", "Set-Cookie"}
	var f, sent exchange.Fields
	f.Add("Connection", "X-Named")
	f.Add("Trailer", "X-Named, Grpc-Status, "+strings.Join(names, ", ")+", X-Reality")
	for _, name := range append(names, "Grpc-Status", "X-Reality", "Viable") {
		sent.Add(name, "1")
	}
	if got := AnnouncedTrailers(&f); got != "Grpc-Status, X-Reality" {
		t.Errorf("announced: %q", got)
	}
	StripTrailers(&sent)
	for i := range sent.Len() {
		if name := sent.At(i).Name; name != "Grpc-Status" && name != "X-Reality" && name != "Viable" {
			t.Errorf("%s comes through", name)
		}
	}
	if sent.Len() != 3 {
		t.Errorf("%d trailers", sent.Len())
	}
}
