package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Error is a failure that knows its HTTP status. It is the only such type.
type Error struct {
	Status int     // 300 to 599
	Reason string  // stable token of R-HDR-8 or of docs/vocabulary.md: log, metrics, docs
	Err    error   // what happened; never shown to the client; may be nil
	Fields []Field // fields the answer needs: Location, Allow, Retry-After, Content-Range
	Close  bool    // the connection cannot be used again
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Reason + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fail is an Error with a formatted cause.
func Fail(status int, reason, format string, args ...any) *Error {
	return &Error{Status: status, Reason: reason, Err: fmt.Errorf(format, args...)}
}

// Redirect is the answer that sends the client to location.
func Redirect(status int, location string) *Error {
	return &Error{Status: status, Reason: "redirect", Fields: []Field{{"Location", location}}}
}

func tooLarge(n int64) *Error {
	return Fail(413, "request_body_too_large", "request body over %d bytes", n)
}

// ErrClientGone marks a failure of the client's side: its connection broke, or
// it went away. It is never a peer's fault and is logged as status 499.
var ErrClientGone = errors.New("client gone")

// ErrPanic marks a panic of a handler that its front end has recovered, counted and
// logged with its stack.
var ErrPanic = errors.New("panic")

// StatusOf returns the status that err stands for in logs: 499 for a client
// that went away, the Error's own, else 500.
func StatusOf(err error) int {
	if errors.Is(err, ErrClientGone) || errors.Is(err, context.Canceled) {
		return 499
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 500
}

// LoggedStatus is the status by which logs and metrics know x, for which Run
// returned err: the one that was sent, else the one that err stands for.
func (x *Exchange) LoggedStatus(err error) int {
	if !x.started && err != nil {
		return StatusOf(err)
	}
	return x.Resp.Status
}

// ReasonOf returns the stable token of err, "" for nil.
func ReasonOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrClientGone) || errors.Is(err, context.Canceled):
		return "client_gone"
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return "internal"
}

// Run serves x with h and finishes it. It is the only place where an error
// becomes bytes. It returns the handler's error, or the wire's.
func Run(x *Exchange, h Handler) error {
	defer x.release()
	err := serve(x, h)
	if err == nil && x.failure != nil { // its page is the answer
		if err = x.finish(); err == nil {
			err = x.failure
		}
		return err
	}
	switch {
	case x.upgraded:
		return err
	case err != nil && x.started:
		x.SendHead() // that there was an answer, and that it is cut
		x.wire.Abort(err)
		return err
	case err != nil:
		if e := x.answer(err); e != nil {
			x.wire.Abort(e)
			return err
		}
	case !x.started:
		x.Resp.Length = 0
		if e := x.Start(200); e != nil {
			x.wire.Abort(e)
			return gone(e)
		}
	}
	if e := x.finish(); e != nil {
		return e
	}
	return err
}

// release lets filters give up what they hold, also when a handler has panicked.
func (x *Exchange) release() {
	for _, f := range x.filters {
		if r, ok := f.(Releaser); ok {
			r.Release()
		}
	}
	clear(x.filters)
	x.filters = x.filters[:0]
}

// finish ends the response.
func (x *Exchange) finish() error {
	if e := x.sink.Close(); e != nil {
		x.wire.Abort(e)
		return gone(e)
	}
	if e := x.wire.End(&x.Trailers); e != nil {
		return gone(e)
	}
	return nil
}

// Page lets h answer for a failure with a page of the operator's, under the status
// and with the fields of e (R-PIPE-10). If h does not, the response is as untouched
// as before, and e is still to be answered. It returns nil if the page was begun: Run
// then returns e, so that logs tell what happened.
func (x *Exchange) Page(e *Error, h Handler) error {
	if x.started {
		panic("BUG: exchange: a page behind the head")
	}
	x.clear(e)
	x.failure = e
	err := h.Serve(x)
	if err != nil && !x.started {
		x.failure = nil
		return err
	}
	return err
}

// clear drops what a failed handler was about to say; the fields of e stay.
func (x *Exchange) clear(e *Error) {
	x.Failed, x.Steered = true, false
	x.Kept, x.Copied = nil, false
	x.filters = slices.DeleteFunc(x.filters, func(f Filter) bool {
		_, stays := f.(ErrorFilter)
		if r, ok := f.(Releaser); ok && !stays {
			r.Release()
		}
		return !stays
	})
	x.Resp.Fields.Reset()
	x.Resp.Length, x.Resp.Dated, x.Resp.Unproven = -1, false, false
	x.Trailers.Reset()
	if e == nil {
		return
	}
	for _, f := range e.Fields {
		x.Resp.Fields.Add(f.Name, f.Value)
	}
	if e.Close {
		x.Resp.Fields.Set("Connection", "close")
	}
	if !x.HideReason && slices.Contains(proxyReasons[:], e.Reason) {
		x.Resp.Fields.Set("X-Httpjet-Proxy-Error", e.Reason) // R-HDR-8
	}
}

// serve calls the handler and closes what it served, even if it panics.
func serve(x *Exchange, h Handler) error {
	defer x.Resource.Close()
	return h.Serve(x)
}

func gone(err error) error {
	if err == nil || errors.Is(err, ErrClientGone) {
		return err
	}
	return fmt.Errorf("%w: %v", ErrClientGone, err)
}

// answer sends the built-in page for err (R-PIPE-10) or its redirect.
func (x *Exchange) answer(err error) error {
	status := StatusOf(err)
	e, known := errors.AsType[*Error](err)
	if !known {
		e = nil
	}
	x.clear(e)
	page := errorPage(status)
	x.Resp.Fields.Set("Content-Type", "text/html; charset=utf-8")
	if status >= 400 {
		x.Resp.Fields.Set("Cache-Control", "private, no-cache, max-age=0")
	}
	x.Resp.Length = int64(len(page))
	if err := x.Start(status); err != nil {
		return err
	}
	_, err = x.Write([]byte(page))
	return err
}

// proxyReasons are the tokens of R-HDR-8 that the client is told.
var proxyReasons = [...]string{
	"no_upstream", "no_upstream_after_retry", "pool_saturated", "upstream_transport", "connect_timeout",
	"upstream_timeout", "request_stalled", "request_body_too_large", "response_head_too_large",
	"upgrade_unsupported", "upgrade_failed", "bad_target", "bad_rewrite", "rate_limited", "fcgi_protocol",
	"fcgi_unavailable", "lsapi_protocol", "lsapi_unavailable", "handler_unresolved",
}

// ProxyReasons returns the tokens of R-HDR-8: failures of the proxy path, which
// the client is told and metrics count one by one.
func ProxyReasons() []string { return slices.Clone(proxyReasons[:]) }

// errorPage is the small built-in page. It holds nothing of the request.
func errorPage(status int) string {
	text := http.StatusText(status)
	if text == "" {
		text = "Error"
		if status == 499 {
			text = "Client Closed Request"
		}
	}
	return fmt.Sprintf("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%d %s</title>"+
		"<style>body{font:16px/1.5 system-ui,sans-serif;margin:15vh auto;max-width:32em;padding:0 1em;color:#222}"+
		"h1{font-size:1.5em}</style></head>\n<body><h1>%d %s</h1></body></html>\n", status, text, status, text)
}
