package script

import (
	"io"
	"strings"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/forward"
	"httpjet/streaming"
)

// Authorizer asks a FastCGI application in the role of an authorizer whether an
// exchange may go on (FastCGI 1.0 §6.3). It is asked for each exchange; nothing of
// its answers is remembered.
type Authorizer struct{ h *Handler }

// NewAuthorizer returns an authorizer for o, of which URI has no meaning.
func NewAuthorizer(o Options) *Authorizer {
	o.URI = ""
	return &Authorizer{New(o)}
}

// Admit asks the application about the head of x. With status 200 x may go on: what
// the application says in fields called Variable-NAME joins the variables of x,
// unless only the server sets them. Any other reply is the answer of x, which it
// has got when Admit returns false without an error. An application that cannot be
// asked lets nobody in: the error is that of a script.
func (a *Authorizer) Admit(x *exchange.Exchange) (bool, error) {
	if a.h.o.Group == nil {
		return false, exchange.Fail(503, a.h.o.Unavailable, "no authorizer for %q", x.Req.Path)
	}
	c := calls.Get().(*cgiCall)
	defer c.release()
	t := target{name: x.Req.Path, docRoot: a.h.o.DocRoot, uri: x.Req.Path}
	if a.h.mapped {
		t.docRoot = a.h.o.AppRoot
	}
	call := c.fill(a.h, x, t)
	call.Params = authorizerParams(call.Params)
	// The request is asked about, not made: it may be sent twice, has no body, and
	// an answer to HEAD is that to GET.
	call.Method, call.Length, call.Body, call.StopBody, call.Trailers = "GET", 0, nil, nil, nil
	err := a.h.call(x, call, judge)
	// What it took is the authorizer's, and no attempt to answer x.
	x.Called = time.Now()
	x.EndAttempt(x.Called)
	x.Attempts = exchange.Attempts{}
	return err == nil && !x.Started(), err
}

// authorizerParams are the variables without those that an authorizer is not told
// (§6.3), and with its role, as libraries expect it.
func authorizerParams(from *exchange.Fields) *exchange.Fields {
	out := &exchange.Fields{}
	out.Add("FCGI_ROLE", "AUTHORIZER")
	for name, value := range from.All() {
		switch name {
		case "CONTENT_LENGTH", "PATH_INFO", "PATH_TRANSLATED", "SCRIPT_NAME", "FCGI_ROLE":
		default:
			out.Add(name, value)
		}
	}
	return out
}

// variablePrefix begins the fields by which an authorizer sets variables.
const variablePrefix = "Variable-"

// mostDropped is how much of the body of a reply that lets in is read, in bytes, so
// that the connection can be kept.
const mostDropped = 64 << 10

// judge takes the reply of an authorizer.
func judge(x *exchange.Exchange, r *extproc.Reply) error {
	if r.Status != 200 {
		forward.StripPolicy(&r.Fields)
		r.Fields.DelFunc(func(f exchange.Field) bool { return isVariableField(f.Name) })
		return streaming.Relay(x, r)
	}
	defer r.Close()
	for i := range r.Fields.Len() {
		f := r.Fields.At(i)
		if !isVariableField(f.Name) {
			continue
		}
		name := strings.Clone(f.Name[len(variablePrefix):])
		if name != "" && !Protected(name) {
			setEnv(x, name, strings.Clone(f.Value)) // r's memory is that of the connection
		}
	}
	_, err := io.Copy(io.Discard, io.LimitReader(r.Body, mostDropped))
	return err // a verdict that breaks off is none
}

func isVariableField(name string) bool {
	return len(name) >= len(variablePrefix) && exchange.EqualName(name[:len(variablePrefix)], variablePrefix)
}

// setEnv gives the variable called name its value; each is in the list once.
func setEnv(x *exchange.Exchange, name, value string) {
	for i := range x.Env {
		if x.Env[i].Name == name {
			x.Env[i].Value = value
			return
		}
	}
	x.Env = append(x.Env, exchange.Field{Name: name, Value: value})
}
