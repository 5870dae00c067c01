package pagecache

import (
	"bytes"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"httpjet/compress"
	"httpjet/exchange"
)

// paper is a wire that writes everything down.
type paper struct {
	head    exchange.Response
	body    bytes.Buffer
	ended   bool
	aborted error
	heads   int
}

func (w *paper) Read([]byte) (int, error)    { return 0, io.EOF }
func (w *paper) Trailers() *exchange.Fields  { return nil }
func (w *paper) StopRead()                   {}
func (w *paper) Flush() error                { return nil }
func (w *paper) Write(p []byte) (int, error) { return w.body.Write(p) }
func (w *paper) End(*exchange.Fields) error  { w.ended = true; return nil }
func (w *paper) Abort(err error)             { w.aborted = err }
func (w *paper) Context() context.Context    { return context.Background() }

func (w *paper) Head(r *exchange.Response, _, last bool) error {
	w.heads++
	w.head = *r
	w.head.Fields = exchange.Fields{}
	for n, v := range r.Fields.All() {
		w.head.Fields.Add(n, v)
	}
	return nil
}

func (w *paper) SendFile(f *os.File, off, n int64) (int64, error) {
	return io.Copy(&w.body, io.NewSectionReader(f, off, n))
}

// get describes a request.
type get struct {
	method, host, target string
	fields               []string // "Name: value"
	env                  []exchange.Field
	now                  time.Time
	proxied              bool
	foreign              bool
	user                 string
	filter               *compress.Filter // nearest to the wire; nil: none
	purge                bool             // the client may
}

// told is what came of it.
type told struct {
	status int
	cache  string // X-LiteSpeed-Cache
	body   string
	fields exchange.Fields
	err    error
	made   bool // the handler was asked
	cut    bool
}

// app is a handler: it says what its function fills in.
type app func(x *exchange.Exchange) (status int, fields, body string)

// site is a cache with one site.
func newSite(o Options) *Site {
	return &Site{Cache: New(o), Name: "v", Policy: Defaults()}
}

// ask serves a request as contexts does.
func (s *Site) ask(q get, a app) told {
	h := &asked{site: s, q: q, app: a}
	w := &paper{}
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Host, x.Req.Target, x.Req.Scheme = "GET", "www.test", q.target, "http"
	if q.method != "" {
		x.Req.Method = q.method
	}
	if q.host != "" {
		x.Req.Host = q.host
	}
	for _, f := range q.fields {
		name, value, _ := strings.Cut(f, ": ")
		x.Req.Fields.Add(name, value)
	}
	x.Env, x.Req.User, x.Route.Foreign = q.env, q.user, q.foreign
	x.Called = q.now
	err := exchange.Run(x, h)
	return told{status: w.head.Status, cache: w.head.Fields.Get("X-LiteSpeed-Cache"), body: w.body.String(), fields: w.head.Fields,
		err: err, made: h.made, cut: w.aborted != nil}
}

type asked struct {
	site *Site
	q    get
	app  app
	made bool
}

// Serve stands for contexts: it is also what serves again.
func (h *asked) Serve(x *exchange.Exchange) error {
	if h.q.filter != nil {
		h.q.filter.Join(x)
	}
	run := h.site.Begin(x)
	err := error(exchange.ErrPanic)
	defer func() { run.End(err) }()
	run.At(nil)
	if x.Background {
		x.Env = h.q.env
	}
	err = run.Serve(Question{Local: !h.q.proxied, Again: h, Purge: h.q.purge && IsPurge(x.Req.Method)}, exchange.HandlerFunc(func(x *exchange.Exchange) error {
		if !x.Background {
			h.made = true
		}
		status, fields, body := h.app(x)
		if status < 0 {
			return exchange.Fail(-status, "upstream_transport", "no answer")
		}
		cut := false
		for line := range strings.Lines(fields) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch {
			case name == "":
			case name == "Content-Length":
				x.Resp.Length, _ = strconv.ParseInt(value, 10, 64)
			case name == "Cut":
				cut = true
			case isControl(name) && !x.Steered:
			default:
				x.Resp.Fields.Add(name, value)
			}
		}
		if err := x.Start(status); err != nil {
			return err
		}
		for rest := body; rest != ""; {
			n := min(len(rest), 1000)
			if _, err := x.Write([]byte(rest[:n])); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if cut {
			return exchange.Fail(502, "response_error", "cut")
		}
		return nil
	}))
	return err
}

// says is an app that always says the same.
func says(status int, fields, body string) app {
	return func(*exchange.Exchange) (int, string, string) { return status, fields, body }
}
