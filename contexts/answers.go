package contexts

import (
	"errors"
	"strings"

	"httpjet/exchange"
	"httpjet/headers"
)

// Edits are what a context changes of the fields of answers, whoever makes them
// (LSX 7.4), and of requests as the handler sees them. It is immutable.
type Edits struct {
	Ops     *headers.Ops // nil: none
	Charset string       // of text/html and text/plain that name none; "": not added
}

// Head is that of exchange.Filter.
func (e *Edits) Head(x *exchange.Exchange) bool {
	if e.Charset != "" {
		t := x.Resp.Fields.Get("Content-Type")
		base, params, _ := strings.Cut(t, ";")
		base = strings.TrimSpace(base)
		if (exchange.EqualName(base, "text/html") || exchange.EqualName(base, "text/plain")) &&
			!strings.Contains(strings.ToLower(params), "charset") {
			x.Resp.Fields.Set("Content-Type", t+"; charset="+e.Charset)
		}
	}
	e.Ops.Answer(x)
	return false
}

// Wrap is never called: Head wants no body.
func (e *Edits) Wrap(next exchange.Sink) exchange.Sink { return next }

// ForErrors makes it an exchange.ErrorFilter: errors have the fields too, as in
// LiteSpeed.
func (e *Edits) ForErrors() {}

// Pages are error pages by status: a local path, or a URL with its scheme.
type Pages map[int]string

// follow goes on at the target of a redirect that no client sees, until a context
// wins that is none (LSX 7.2). Who may have the path is asked at each.
func (v *VHost) follow(x *exchange.Exchange, c *Context, l *local) (*Context, bool, error) {
	if err := v.guardAll(x, x.Req.Path); err != nil {
		return nil, false, err
	}
	for range maxPasses {
		if err := v.goOn(x, c.Inside(x)); err != nil {
			return nil, false, err
		}
		if err := v.hidden(x, l); err != nil {
			return nil, false, err
		}
		if err := v.guardAll(x, x.Req.Path); err != nil {
			return nil, false, err
		}
		var addSlash bool
		if c, addSlash = v.contexts.find(x.Req.Path, x.Req.Method); c == nil || c.Inside == nil || addSlash {
			return c, addSlash, nil
		}
	}
	return nil, false, exchange.Fail(500, "bad_rewrite", "redirect contexts have led from one to another over %d times", maxPasses)
}

// page answers a failure with the page for its status (R-PIPE-10): that of ErrorDocument
// in the .htaccess files about the path, of which l knows, else the operator's. It is
// only for failures of our own: what an upstream or an application says is no error
// here. A page that fails itself is not used, so there is no loop.
func (v *VHost) page(x *exchange.Exchange, l *local, failure error) error {
	status := exchange.StatusOf(failure)
	if failure == errAnswered || x.Started() || x.Upgraded() || x.Explaining() || status < 400 || status == 499 {
		return failure
	}
	e, known := errors.AsType[*exchange.Error](failure)
	if !known {
		e = &exchange.Error{Status: status, Reason: exchange.ReasonOf(failure), Err: failure}
	}
	if l != nil && l.settings != nil {
		if to, isText, ok := l.settings.Document(status); ok {
			if err, done := v.present(x, e, to, isText); done {
				return err
			}
		}
	}
	if !v.hasPages {
		return failure
	}
	pages := v.Pages
	if x.Req.Path != "" {
		if c, _ := v.contexts.find(x.Req.Path, x.Req.Method); c != nil && c.Pages != nil {
			pages = c.Pages
		}
	}
	if err, done := v.present(x, e, pages[status], false); done {
		return err
	}
	return failure
}

// present answers e with a text, by a path of this host, or with a redirect to a URL. done
// is false if that cannot be.
func (v *VHost) present(x *exchange.Exchange, e *exchange.Error, to string, isText bool) (err error, done bool) {
	switch {
	case to == "":
		return nil, false
	case isText:
		err = x.Page(e, text{e, to})
	case to[0] == '/':
		err = v.localPage(x, e, to)
	case e.Status == 401:
		return nil, false // the challenge would be lost
	default:
		return &exchange.Error{Status: 302, Reason: e.Reason, Err: e.Err, Close: e.Close, Fields: []exchange.Field{{Name: "Location", Value: to}}}, true
	}
	return err, err == nil || x.Started()
}

// text is a page that is a text.
type text struct {
	e  *exchange.Error
	to string
}

// Serve sends it.
func (t text) Serve(x *exchange.Exchange) error {
	x.Use(&errorHead{t.e})
	x.Resp.Fields.Set("Content-Type", "text/html; charset=utf-8")
	x.Resp.Length = int64(len(t.to))
	_, err := x.Write([]byte(t.to))
	return err
}

// unconditional are the fields that ask for less than a page.
var unconditional = [...]string{"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"}

// localPage serves a page as if a GET without a body had asked for it; the request
// is then what it was, for logs.
func (v *VHost) localPage(x *exchange.Exchange, e *exchange.Error, url string) error {
	r, route, variables := x.Req, x.Route, len(x.Env)
	x.Resource.Close()
	x.Resource = exchange.Resource{}
	for _, name := range unconditional {
		x.Req.Fields.Del(name)
	}
	if x.Req.Method != "HEAD" {
		x.Req.Method = "GET"
	}
	x.Req.Length, x.Req.UpstreamHost = 0, ""
	x.Env = append(x.Env, exchange.Field{Name: "REDIRECT_STATUS", Value: statusText(e.Status)}, exchange.Field{Name: "REDIRECT_URL", Value: r.Path})
	err := x.Page(e, exchange.HandlerFunc(func(x *exchange.Exchange) error { return v.servePage(x, e, url) }))
	fields := x.Req.Fields
	x.Req, x.Route = r, route
	if err != nil && !x.Started() {
		x.Env = x.Env[:min(variables, len(x.Env))]
	}
	x.Req.Fields = fields
	return err
}

func statusText(status int) string {
	return string([]byte{byte('0' + status/100%10), byte('0' + status/10%10), byte('0' + status%10)})
}

// servePage runs the steps of serve that are about access and files.
func (v *VHost) servePage(x *exchange.Exchange, e *exchange.Error, url string) error {
	if err := v.goOn(x, url); err != nil {
		return err
	}
	var l *local
	if v.Htaccess != nil {
		l = &local{used: true} // who may have the page is asked; what it says of answers is not
	}
	if err := v.hidden(x, l); err != nil {
		return err
	}
	if err := v.guardAll(x, x.Req.Path); err != nil {
		return err
	}
	r, err := v.choose(x, nil, nil, l)
	if err != nil {
		return err
	}
	if r.files != nil {
		if err := v.openFile(x, &r, l); err != nil {
			return err
		}
	}
	x.Use(&errorHead{e})
	return r.handler.Serve(x)
}

// errorHead keeps status and fields of an error on the answer that a page makes.
type errorHead struct{ e *exchange.Error }

// Head is that of exchange.Filter.
func (h *errorHead) Head(x *exchange.Exchange) bool {
	f := &x.Resp.Fields
	x.Resp.Status = h.e.Status
	for _, name := range [...]string{"ETag", "Last-Modified", "Accept-Ranges", "Content-Range", "Location", "Expires"} {
		f.Del(name)
	}
	for _, e := range h.e.Fields {
		f.Set(e.Name, e.Value)
	}
	if h.e.Close {
		f.Set("Connection", "close")
	}
	f.Set("Cache-Control", "private, no-cache, max-age=0")
	return false
}

// Wrap is never called: Head wants no body.
func (h *errorHead) Wrap(next exchange.Sink) exchange.Sink { return next }
