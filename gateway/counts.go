package gateway

import (
	"errors"
	"io"
	"sync/atomic"

	"httpjet/exchange"
	"httpjet/extproc"
)

// Counts are what the clients of one protocol have done since the process began: they
// outlive the clients. The zero value is ready.
type Counts struct {
	Requests [len(Outcomes)]atomic.Uint64 // calls that have ended, by outcome
	Poisoned [len(Reasons)]atomic.Uint64  // connections that their call made useless, by reason
	Stderr   atomic.Uint64                // bytes that applications wrote to STDERR
	Resets   atomic.Uint64                // calls sent again because the application had not read them
	Redials  atomic.Uint64                // dials after one that was refused
	Unfit    atomic.Uint64                // idle connections that were found to be closed, or too old, when they were taken
}

// Outcomes of calls, as R-LOG-2 names those of attempts.
var Outcomes = [...]string{"success", "upstream_error", "transport_error", "timeout", "canceled", "response_error", "no_attempt"}

const (
	outSuccess = iota
	outUpstreamError
	outTransportError
	outTimeout
	outCanceled
	outResponseError
	outNoAttempt
)

// Reasons why a connection is closed instead of kept: the application broke the
// protocol or the connection, refused the request, was too slow; the client went
// away or was at fault; the application had closed it while it was kept; or
// something was not read, or not sent, when all was over.
var Reasons = [...]string{"protocol", "refused", "timeout", "canceled", "stale", "unread"}

const (
	whyProtocol = iota
	whyRefused
	whyTimeout
	whyCanceled
	whyStale
	whyUnread
)

// failed counts a call that had no reply. connected: it had a connection, which its
// end has made useless.
func (c *Counts) failed(err error, connected bool) {
	status := exchange.StatusOf(err)
	switch {
	case errors.Is(err, exchange.ErrClientGone) || status < 500:
		c.Requests[outCanceled].Add(1)
	case status == 504:
		c.Requests[outTimeout].Add(1)
	case status == 503 && !connected && !isDial(err):
		c.Requests[outNoAttempt].Add(1)
	default:
		c.Requests[outTransportError].Add(1)
	}
	if connected {
		c.Poisoned[whyOf(err)].Add(1)
	}
}

// ended counts a call that had a reply with a status. err is how its body ended: nil
// if that was not read, else io.EOF or a failure.
func (c *Counts) ended(status int, err error, whole, kept bool) {
	switch {
	case err != nil && err != io.EOF:
		c.Requests[outOfBody(err)].Add(1)
	case !whole:
		c.Requests[outCanceled].Add(1) // its reader had no use for the rest
	case status >= 500:
		c.Requests[outUpstreamError].Add(1)
	default:
		c.Requests[outSuccess].Add(1)
	}
	switch {
	case kept:
	case err != nil && err != io.EOF:
		c.Poisoned[whyOf(err)].Add(1)
	default:
		c.Poisoned[whyUnread].Add(1)
	}
}

func isDial(err error) bool {
	_, ok := errors.AsType[*extproc.DialError](err)
	return ok
}

func outOfBody(err error) int {
	if errors.Is(err, exchange.ErrClientGone) || exchange.StatusOf(err) < 500 {
		return outCanceled
	}
	return outResponseError
}

func whyOf(err error) int {
	switch status := exchange.StatusOf(err); {
	case errors.Is(err, exchange.ErrClientGone) || status < 500:
		return whyCanceled
	case status == 504:
		return whyTimeout
	case status == 503:
		return whyRefused
	}
	return whyProtocol
}
