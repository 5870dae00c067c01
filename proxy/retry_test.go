package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
)

// R-RETRY-2: requests that write are made again only with one key by which the
// application knows them.
func TestWhichRequestsAreCovered(t *testing.T) {
	r := &Retry{Methods: []string{"GET", "OPTIONS", "PUT", "POST"}}
	f := func(method string, keys []string, want bool) {
		t.Helper()
		var fields exchange.Fields
		for _, k := range keys {
			fields.Add("idempotency-KEY", k)
		}
		if got := r.covers(method, &fields); got != want {
			t.Errorf("%s with keys %q: %v", method, keys, got)
		}
	}
	f("GET", nil, true)
	f("OPTIONS", []string{"a", "b"}, true)
	f("HEAD", nil, false)
	f("get", nil, false)
	f("PUT", nil, false)
	f("PUT", []string{"a"}, true)
	f("POST", []string{""}, false)
	f("POST", []string{"a", "b"}, false)
	f("POST", []string{"a", ""}, false)
	f("DELETE", []string{"a"}, false)
	f("PATCH", []string{"a"}, false)
	r.Methods = nil
	f("GET", nil, false)
}

// R-RETRY-3: what calls for another attempt.
func TestTriggers(t *testing.T) {
	gone := fmt.Errorf("%w: left", exchange.ErrClientGone)
	f := func(err error, want string) {
		t.Helper()
		var got []string
		for name, on := range map[string]Triggers{"connect": {Connect: true}, "reset": {Reset: true}, "timeout": {Timeout: true}} {
			if (&Retry{On: on}).failed(err) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%v: %q, want %q", err, s, want)
		}
	}
	f(&extproc.DialError{}, "connect")
	f(&extproc.DialError{Timeout: true}, "connect timeout")
	f(exchange.Fail(502, "upstream_transport", "x"), "reset")
	f(exchange.Fail(502, "response_head_too_large", "x"), "reset")
	f(exchange.Fail(504, "upstream_timeout", "x"), "timeout")
	f(exchange.Fail(504, "connect_timeout", "x"), "timeout")
	f(exchange.Fail(504, "request_stalled", "x"), "timeout")
	f(exchange.Fail(408, "request_stalled", "x"), "")
	f(exchange.Fail(413, "request_body_too_large", "x"), "")
	f(exchange.Fail(503, "pool_saturated", "x"), "")
	f(exchange.Fail(502, "response_error", "x"), "")
	f(gone, "")
	f(&extproc.DialError{Err: gone}, "")
	f(context.Canceled, "")
	f(errors.New("what?"), "")
	r := &Retry{}
	r.On.Statuses[3] = true
	for status, want := range map[int]bool{200: false, 403: false, 499: false, 500: false, 503: true, 599: false, 600: false, 700: false} {
		if r.status(status) != want {
			t.Errorf("status %d: %v", status, !want)
		}
	}
}

// R-RETRY-4: uniform up to a bound that doubles, 10 s at most.
func TestPauses(t *testing.T) {
	f := func(base time.Duration, random float64, want ...time.Duration) {
		t.Helper()
		r := &Retry{Backoff: base, Random: func() float64 { return random }}
		var got []time.Duration
		for n := range want {
			got = append(got, r.pause(n+1))
		}
		if !slices.Equal(got, want) {
			t.Errorf("base %v, random %v: %v, want %v", base, random, got, want)
		}
	}
	const s = time.Second
	f(100*time.Millisecond, 0.5, 50*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond)
	f(4*s, 0.25, s, 2*s, 2500*time.Millisecond, 2500*time.Millisecond)
	f(10*s, 0, 0, 0, 0)
	f(0, 0.9, 0, 0)
	r := &Retry{Backoff: s}
	for range 1000 {
		if p := r.pause(2); p < 0 || p >= 2*s {
			t.Fatalf("pause %v", p)
		}
	}
}

// A pause ends with its time or with the client.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Retry{}
		began := time.Now()
		if err := r.wait(t.Context(), 3*time.Second); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := r.wait(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := r.wait(ctx, 0); err == nil {
			t.Error("no pause hides that the client is gone")
		}
	})
}
