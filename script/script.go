// Package script answers an exchange with an application: it derives the CGI
// variables (RFC 3875 §4.1) from the request and from the file or context that
// its path resolved to, calls the application's client, FastCGI or LSAPI, and
// has the reply relayed. It finds no file and speaks no protocol itself.
package script

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/forward"
	"httpjet/gateway"
	"httpjet/groups"
	"httpjet/streaming"
	"httpjet/trace"
)

// Options describe a Handler.
type Options struct {
	// Group chooses who runs the application. Without one every exchange is
	// answered with 503 and the token Unavailable ("": handler_unresolved): a
	// script that nobody runs is never served as a file (R-STATIC-10, R-FCGI-1).
	Group       *groups.Group
	Unavailable string

	// Bodies holds what must be complete before a connection is acquired, so
	// that every peer can be offered it (R-FCGI-6); nil: no bound.
	Bodies *budget.Bodies

	// URI is the uri of a context that is the application: it becomes
	// SCRIPT_NAME, the rest of the path PATH_INFO, and no file is needed. "": the
	// script is the file of x.Resource.
	URI     string
	DocRoot string // DOCUMENT_ROOT for a context, absolute

	// AppRoot is where the application sees the document root, for one that sees
	// other paths than this server: in a container. "": in the same place.
	AppRoot string

	ServerName  string           // SERVER_NAME of requests without a Host
	Env         []exchange.Field // variables of the processor; of equal names the last counts
	HeadTimeout time.Duration    // until the reply head; 0: the target's
	BodyTimeout time.Duration    // longest pause of a body held for several peers; 0: any

	Slow *Slow // of slow requests; nil: there is none

	Spans bool // the application is told the span of each attempt, as HTTP_TRACEPARENT (R-TRACE-3)

	Log *slog.Logger // receives what applications write to STDERR; nil: dropped
}

// Handler runs scripts. It does not change but for what it remembers.
type Handler struct {
	o      Options
	env    []exchange.Field          // without protected names
	mapped bool                      // the application sees other paths
	local  atomic.Pointer[localAddr] // that was asked for last
}

// localAddr is an address of this server as text.
type localAddr struct {
	addr netip.Addr
	text string
}

// New returns a handler for o.
func New(o Options) *Handler {
	if o.Unavailable == "" {
		o.Unavailable = "handler_unresolved"
	}
	h := &Handler{o: o}
	h.o.AppRoot = strings.TrimSuffix(o.AppRoot, "/")
	h.mapped = o.AppRoot != ""
	for i, f := range o.Env {
		if f.Name != "" && (!Protected(f.Name) || setsPHP[f.Name]) && !namedIn(o.Env[i+1:], f.Name) {
			h.env = append(h.env, f)
		}
	}
	return h
}

func namedIn(list []exchange.Field, name string) bool {
	for _, f := range list {
		if f.Name == name {
			return true
		}
	}
	return false
}

// Serve answers x with the reply of the application.
func (h *Handler) Serve(x *exchange.Exchange) error {
	t, err := h.target(x)
	if err != nil {
		return err
	}
	c := calls.Get().(*cgiCall)
	defer c.release()
	call := c.fill(h, x, t)
	if h.o.Group.Len() > 1 {
		release, err := gateway.Hold(x.Context(), call, h.o.Bodies, h.o.BodyTimeout, h.o.Unavailable)
		if err != nil {
			return err
		}
		defer release()
	}
	return h.call(x, call, relay)
}

// call offers the call to one peer after the other until one takes it.
// Its reply goes to take.
func (h *Handler) call(x *exchange.Exchange, call *extproc.Call, take taker) error {
	x.MayWait()
	choice := h.o.Group.Choice(x)
	at := x.Recent()
	var last error
	for {
		res, err := h.o.Group.Reserve(&choice)
		if err != nil && last != nil {
			return last // every peer was tried (R-GRP-7)
		}
		if err != nil {
			return err
		}
		if last != nil || call.Length != 0 && h.o.Group.Len() > 1 { // it took time
			at = time.Now()
		}
		res.Begin(x, at)
		if h.o.Spans {
			nameSpan(x, call)
		}
		err = h.timed(x, call, &res, take)
		if _, unsent := errors.AsType[*extproc.DialError](err); !unsent {
			return err
		}
		last = failure(err)
	}
}

// nameSpan tells the application of the attempt that begins, in the place of what the
// client has said.
func nameSpan(x *exchange.Exchange, call *extproc.Call) {
	if parent := trace.Next(x); parent != "" {
		call.Params.Set("HTTP_TRACEPARENT", parent)
		call.Fields.Set("traceparent", parent)
	}
}

// A taker uses up a reply and closes it.
type taker func(x *exchange.Exchange, r *extproc.Reply) error

// relay passes a reply on to the client. Its policy is for the page cache, if there
// is one (R-HDR-7): no client ever sees it.
func relay(x *exchange.Exchange, r *extproc.Reply) error {
	if x.Steered {
		forward.StripToken(&r.Fields)
	} else {
		forward.StripPolicy(&r.Fields)
	}
	return streaming.Relay(x, r)
}

// timed is attempt with a line in the log of slow requests.
func (h *Handler) timed(x *exchange.Exchange, call *extproc.Call, res *groups.Reservation, take taker) error {
	if h.o.Slow == nil {
		return h.attempt(x, call, res, take)
	}
	name := x.Resource.Filename
	if h.o.URI != "" {
		name = h.o.URI
	}
	n := noted{began: time.Now()}
	err := h.attempt(x, call, res, func(x *exchange.Exchange, r *extproc.Reply) error {
		n.answered(r)
		return take(x, r)
	})
	h.o.Slow.note(x, name, &n, err)
	return err
}

// attempt makes the call to one peer, whose reply goes to take.
func (h *Handler) attempt(x *exchange.Exchange, call *extproc.Call, res *groups.Reservation, take taker) (err error) {
	err = groups.ErrUndecided // if this panics
	defer func() { res.End(x, err) }()
	reply, err := res.Client().Do(x.Context(), call)
	if err != nil {
		return err
	}
	res.Answered(reply.Status)
	x.AttemptReplied(reply.Status, reply.Phases())
	return take(x, reply)
}

// target is what a request runs.
type target struct {
	name     string // SCRIPT_NAME
	pathInfo string // "" or beginning with a slash
	filename string // "" for a context
	docRoot  string
	uri      string // DOCUMENT_URI: the path that was asked for, with the index file
}

// target finds out if the script is a file or a context. A context's uri may end
// in a slash, which then also begins the path info.
func (h *Handler) target(x *exchange.Exchange) (target, error) {
	if h.o.Group == nil {
		return target{}, exchange.Fail(503, h.o.Unavailable, "no application for %q", x.Req.Path)
	}
	if h.o.URI == "" {
		res := &x.Resource
		if res.Info == nil {
			return target{}, exchange.Fail(404, "not_found", "no script for %q", x.Req.Path) // R-FCGI-3
		}
		t := target{res.Name, res.PathInfo, res.Filename, res.Root, res.Name + res.PathInfo}
		if h.mapped {
			return h.seen(t)
		}
		return t, nil
	}
	t := target{name: h.o.URI, docRoot: h.o.DocRoot, uri: x.Req.Path}
	if h.mapped {
		t.docRoot = h.o.AppRoot
	}
	rest, ok := strings.CutPrefix(x.Req.Path, strings.TrimSuffix(h.o.URI, "/"))
	switch {
	case !ok || rest != "" && rest[0] != '/': // the context matched by a pattern
		t.name = x.Req.Path
	case rest != "/" || !strings.HasSuffix(h.o.URI, "/"):
		t.pathInfo = rest
	}
	return t, nil
}

// seen is t as an application sees it that has the document root elsewhere. What
// lies outside of that it does not see at all.
func (h *Handler) seen(t target) (target, error) {
	below, ok := strings.CutPrefix(t.filename, strings.TrimSuffix(t.docRoot, "/"))
	if !ok || !strings.HasPrefix(below, "/") {
		return t, exchange.Fail(503, "handler_unresolved", "script %s lies outside of docRoot, which is all that appRoot maps", t.filename)
	}
	t.filename, t.docRoot = h.o.AppRoot+below, h.o.AppRoot
	return t, nil
}

// cgiCall is a call with the memory it needs. Nothing refers to it once the reply is
// closed.
type cgiCall struct {
	call           extproc.Call
	params, fields exchange.Fields
	h              *Handler
	x              *exchange.Exchange
	name           string            // of the script, for the log
	log            func(line string) // method value, made once
}

var calls = sync.Pool{New: func() any {
	c := &cgiCall{}
	c.log = c.stderr
	return c
}}

func (c *cgiCall) fill(h *Handler, x *exchange.Exchange, t target) *extproc.Call {
	c.h, c.x, c.name = h, x, t.name
	h.variables(&c.params, x, t)
	endToEnd(&c.fields, &x.Req.Fields)
	c.call = extproc.Call{
		Method: x.Req.Method, URI: x.Req.Target, Host: x.Req.Host, Fields: &c.fields, Params: &c.params,
		Length: x.Req.Length, HeadTimeout: h.o.HeadTimeout, Crowded: x.Crowded,
		Received: x.Began, Alone: h.o.Group.Len() == 1,
	}
	if t.filename != "" { // a context is no script
		c.call.PHP = x.PHP
	}
	if x.Req.Length != 0 {
		c.call.Body, c.call.StopBody, c.call.Trailers = x.Body(), x.StopBody, x.BodyTrailers
	}
	if h.o.Log != nil {
		c.call.Log = c.log
	}
	return &c.call
}

// stderr logs a line with the script that wrote it.
func (c *cgiCall) stderr(line string) {
	c.h.o.Log.Warn("script wrote to stderr", "vhost", c.x.Route.VHost, "script", c.name, "request", c.x.Req.ID, "line", line)
}

func (c *cgiCall) release() {
	c.params.Reset()
	c.fields.Reset()
	c.call, c.h, c.x, c.name = extproc.Call{}, nil, nil, ""
	calls.Put(c)
}

// failure gives a dial error its status unless the client of the protocol has
// already done so.
func failure(err error) error {
	if _, ok := errors.AsType[*exchange.Error](err); ok {
		return err
	}
	if e, ok := errors.AsType[*extproc.DialError](err); ok {
		return e.Failure()
	}
	return err
}
