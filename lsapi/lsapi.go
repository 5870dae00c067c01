// Package lsapi speaks LSAPI, the protocol of lsphp: packets, the request head and
// the response head. Pool, bodies and the course of a call are those of package
// gateway. It starts no process and derives no CGI variable but CONTENT_LENGTH.
package lsapi

import (
	"bufio"
	"time"

	"httpjet/extproc"
	"httpjet/gateway"
)

// New returns a client for t, with the reason tokens lsapi_unavailable and
// lsapi_protocol. It dials nothing. Its calls are those of package fastcgi: of their
// Params, the fields of the request (HTTP_*) and the description of its body travel
// as fields, the others as environment.
//
// By itself it tries once more what R-LSAPI-3 has: calls that lsphp has not read, and
// dials that are refused while it restarts.
func New(t extproc.Target, o gateway.Options) *gateway.Client {
	o.Again = gateway.Again{Resets: resets, Pause: resetPause, Refused: refusedFor, Every: refusedEvery}
	return gateway.New(t, protocol{}, o)
}

// Numbers of R-LSAPI-3. A program that httpjet starts refuses nobody: dials wait for it.
const (
	resets       = 2
	resetPause   = 25 * time.Millisecond
	refusedFor   = 30 * time.Second
	refusedEvery = 40 * time.Millisecond
)

// protocol is LSAPI, one request at a time on a connection (R-LSAPI-2).
type protocol struct{}

func (protocol) Tokens() gateway.Tokens {
	return gateway.Tokens{Unavailable: "lsapi_unavailable", Malformed: "lsapi_protocol"}
}

// Frame adds nothing to the body, which follows the packet as it is.
func (protocol) Frame() gateway.Frame {
	return gateway.Frame{Abort: appendHeader(nil, typeAbort, headerLen)}
}

func (protocol) Stream(br *bufio.Reader) gateway.Stream { return &stream{br: br} }
