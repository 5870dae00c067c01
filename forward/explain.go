package forward

import (
	"strings"

	"httpjet/exchange"
	"httpjet/h1"
)

// Explain notes a request of this hop as HTTP/1.1 writes it. host "" is the
// authority of the peer that gets it. An upstream of another protocol gets the
// same in its own form.
func Explain(x *exchange.Exchange, method, target, host string, f *exchange.Fields, length int64) {
	if host == "" {
		host = "authority-of-the-peer"
	}
	head := string(h1.AppendRequest(nil, method, target, host, f, length))
	line, rest, _ := strings.Cut(head, "\r\n")
	x.Note("upstream request", "%s", line)
	for field := range strings.SplitSeq(strings.TrimRight(rest, "\r\n"), "\r\n") {
		x.Detail("%s", field)
	}
}
