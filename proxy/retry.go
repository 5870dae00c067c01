package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
)

// maxPause is the longest pause before an attempt is made again.
const maxPause = 10 * time.Second

// Retry says which requests are made again, when and how often (spec §16). It is
// immutable; it decides, and neither waits nor calls anybody.
type Retry struct {
	Retries  int           // further attempts; 0: none
	On       Triggers      // ends of an attempt that call for another one
	Methods  []string      // of the requests; PUT, DELETE, POST and PATCH need an Idempotency-Key
	Backoff  time.Duration // the most of the first pause, doubled for each further one up to 10 s
	SamePeer bool          // a peer may be tried again once all were

	BufSize int64          // bytes of a body that are kept for another attempt
	Bodies  *budget.Bodies // bounds all that are kept; nil: no bound

	Random func() float64                             // in [0,1); nil: math/rand
	Wait   func(context.Context, time.Duration) error // nil: a timer
}

// Triggers are ends of an attempt.
type Triggers struct {
	Connect  bool      // no connection
	Reset    bool      // the connection ended before a head, or what came is no reply
	Timeout  bool      // no connection or no head in time
	Statuses [100]bool // of replies, 500 to 599
}

// covers reports whether a request may be made again at all. One that writes needs
// exactly one key by which the application knows the second from the first
// (R-RETRY-2).
func (r *Retry) covers(method string, f *exchange.Fields) bool {
	if !slices.Contains(r.Methods, method) {
		return false
	}
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return true
	}
	keys, empty := 0, false
	for v := range f.Values("Idempotency-Key") {
		keys++
		empty = empty || v == ""
	}
	return keys == 1 && !empty
}

// status reports whether a reply of this status calls for another attempt.
func (r *Retry) status(status int) bool {
	return status >= 500 && status <= 599 && r.On.Statuses[status-500]
}

// failed reports whether the error of an attempt that has no reply calls for
// another one (R-RETRY-3). What the client did, and what this server had no room
// for, never does.
func (r *Retry) failed(err error) bool {
	if errors.Is(err, exchange.ErrClientGone) || errors.Is(err, context.Canceled) {
		return false
	}
	if e, ok := errors.AsType[*extproc.DialError](err); ok {
		return r.On.Connect || e.Timeout && r.On.Timeout
	}
	e, ok := errors.AsType[*exchange.Error](err)
	if !ok {
		return false
	}
	switch e.Reason {
	case "upstream_transport", "response_head_too_large":
		return r.On.Reset
	case "upstream_timeout", "connect_timeout":
		return r.On.Timeout
	case "request_stalled":
		return e.Status == 504 && r.On.Timeout // 408 is the client's
	}
	return false
}

// pause is the time before the n-th further attempt, n >= 1: full jitter, so that
// the requests that a peer lost do not come back together (R-RETRY-4).
func (r *Retry) pause(n int) time.Duration {
	most := min(r.Backoff, maxPause)
	for ; n > 1 && most < maxPause; n-- {
		most = min(2*most, maxPause)
	}
	random := r.Random
	if random == nil {
		random = rand.Float64
	}
	return time.Duration(random() * float64(most))
}

// wait waits for d, or until ctx is done.
func (r *Retry) wait(ctx context.Context, d time.Duration) error {
	switch {
	case d <= 0:
		return ctx.Err()
	case r.Wait != nil:
		return r.Wait(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
