package gateway

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"httpjet/exchange"
	"httpjet/extproc"
)

// Each call is one outcome, and each connection that is not kept one reason.
func TestCounts(t *testing.T) {
	dial := &exchange.Error{Status: 503, Reason: "fcgi_unavailable", Err: &extproc.DialError{}}
	gone := fmt.Errorf("%w: x", exchange.ErrClientGone)
	broken := exchange.Fail(502, "fcgi_protocol", "x")
	for _, c := range []struct {
		outcome, reason string // reason "": none
		count           func(c *Counts)
	}{
		{"transport_error", "", func(c *Counts) { c.failed(dial, false) }},
		{"no_attempt", "", func(c *Counts) { c.failed(exchange.Fail(503, "fcgi_unavailable", "busy"), false) }},
		{"transport_error", "refused", func(c *Counts) { c.failed(exchange.Fail(503, "fcgi_unavailable", "overloaded"), true) }},
		{"transport_error", "protocol", func(c *Counts) { c.failed(broken, true) }},
		{"timeout", "timeout", func(c *Counts) { c.failed(exchange.Fail(504, "upstream_timeout", "x"), true) }},
		{"canceled", "canceled", func(c *Counts) { c.failed(gone, true) }},
		{"canceled", "canceled", func(c *Counts) { c.failed(exchange.Fail(400, "bad_request", "x"), true) }},
		{"success", "", func(c *Counts) { c.ended(200, io.EOF, true, true) }},
		{"upstream_error", "", func(c *Counts) { c.ended(500, io.EOF, true, true) }},
		{"success", "unread", func(c *Counts) { c.ended(200, io.EOF, true, false) }},
		{"canceled", "unread", func(c *Counts) { c.ended(200, nil, false, false) }},
		{"canceled", "canceled", func(c *Counts) { c.ended(200, gone, false, false) }},
		{"response_error", "protocol", func(c *Counts) { c.ended(200, broken, false, false) }},
		{"response_error", "protocol", func(c *Counts) { c.ended(200, errors.New("cut"), false, false) }},
	} {
		var n Counts
		c.count(&n)
		for i, name := range Outcomes {
			if got, want := n.Requests[i].Load() == 1, name == c.outcome; got != want {
				t.Errorf("%s, %s: outcome %s: %v", c.outcome, c.reason, name, got)
			}
		}
		for i, name := range Reasons {
			if got, want := n.Poisoned[i].Load() == 1, name == c.reason; got != want {
				t.Errorf("%s, %s: reason %s: %v", c.outcome, c.reason, name, got)
			}
		}
	}
}
