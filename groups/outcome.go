package groups

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"httpjet/exchange"
	"httpjet/extproc"
)

// outcome is what the end of an attempt says about the peer.
type outcome uint8

const (
	succeeded       outcome = iota
	undecided               // nothing: the client, or this server, was the reason
	dialFailed              // no connection
	dialTimedOut            // no connection in time
	transportFailed         // a broken or malformed reply, before or after its head
	timedOut                // no reply, or no progress, in time
)

var (
	// ErrUndecided releases a reservation whose attempt says nothing about the peer.
	ErrUndecided = errors.New("attempt abandoned")
	// ErrSetAside releases one whose reply nobody reads, because the request is
	// made again: its status was charged by Answered, the rest says nothing.
	ErrSetAside = errors.New("reply set aside")
)

// outcomeOf classifies the error that ended an attempt. Only what is known to be
// the peer's fault is charged to it: a 413 or a lost client is not (R-BRK-6).
func outcomeOf(err error) outcome {
	if err == nil {
		return succeeded
	}
	if errors.Is(err, exchange.ErrClientGone) || errors.Is(err, context.Canceled) {
		return undecided
	}
	if e, ok := errors.AsType[*extproc.DialError](err); ok {
		if e.Timeout {
			return dialTimedOut
		}
		return dialFailed
	}
	e, ok := errors.AsType[*exchange.Error](err)
	if !ok {
		return undecided
	}
	switch e.Reason {
	case "upstream_transport", "response_head_too_large", "response_error", "upgrade_failed", "fcgi_protocol", "lsapi_protocol":
		return transportFailed
	case "upstream_timeout":
		return timedOut
	case "request_stalled":
		if e.Status == 504 { // the peer took no more of the body; 408 is the client's
			return timedOut
		}
	}
	return undecided
}

// Result is how an attempt ended, as logs and metrics say it (R-LOG-2, R-MET-5).
type Result uint8

const (
	Success        Result = iota // a reply below 500, or a tunnel, to its end
	UpstreamError                // a reply of 500 or more
	TransportError               // no connection, or no proper reply head
	TimedOut                     // no connection or no reply head in time
	Canceled                     // the client went away, or its request was at fault
	ResponseError                // a body that broke off or paused for too long
	NoAttempt                    // the peer was chosen, and nothing was sent
	Results                      // how many there are
)

var resultNames = [Results]string{"success", "upstream_error", "transport_error", "timeout", "canceled", "response_error", "no_attempt"}

func (r Result) String() string { return resultNames[r] }

// resultOf is the result of an attempt with the status of its head, 0 for none.
func resultOf(status int, o outcome, err error) Result {
	switch {
	case o == dialFailed || status == 0 && o == transportFailed:
		return TransportError
	case o == dialTimedOut || status == 0 && o == timedOut:
		return TimedOut
	case o > undecided:
		return ResponseError
	case o == succeeded || err == ErrSetAside:
		if status >= 500 {
			return UpstreamError
		}
		return Success
	}
	if e, ok := errors.AsType[*exchange.Error](err); err == ErrUndecided || ok && e.Status >= 500 {
		return NoAttempt
	}
	return Canceled
}

// Cause is why there was no reply head.
type Cause uint8

const (
	Dial     Cause = iota // refused, unreachable
	TLS                   // the handshake
	DNS                   // the name
	Timeout               // of the connection, of the upload or of the head
	Reset                 // the connection ended
	Protocol              // what came was no reply
	Causes                // how many there are
)

var causeNames = [Causes]string{"dial", "tls", "dns", "timeout", "reset", "protocol"}

func (c Cause) String() string { return causeNames[c] }

// causeOf is the cause of an outcome that is a failure.
func causeOf(o outcome, err error) Cause {
	switch o {
	case dialTimedOut, timedOut:
		return Timeout
	case dialFailed:
		if _, ok := errors.AsType[*net.DNSError](err); ok {
			return DNS
		}
		if errors.Is(err, extproc.ErrNotHTTP2) {
			return Protocol
		}
		if errors.Is(err, extproc.ErrUnread) {
			return Reset
		}
		if e, ok := errors.AsType[*net.OpError](err); ok { // of the socket's dial, or a read of the handshake
			if e.Op == "dial" {
				return Dial
			}
			return TLS
		}
		if _, ok := errors.AsType[syscall.Errno](err); ok {
			return Dial
		}
		return TLS
	}
	_, op := errors.AsType[*net.OpError](err)
	if op || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, extproc.ErrReset) {
		return Reset
	}
	return Protocol
}
