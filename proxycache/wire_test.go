package proxycache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"httpjet/exchange"
	"httpjet/freshness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a client that takes everything.
type wire struct {
	ctx    context.Context
	head   exchange.Response
	noBody bool
	body   strings.Builder
	ended  bool
	cut    error
}

func (w *wire) Read([]byte) (int, error)   { return 0, io.EOF }
func (w *wire) Trailers() *exchange.Fields { return nil }
func (w *wire) StopRead()                  {}
func (w *wire) Head(r *exchange.Response, noBody, last bool) error {
	if last {
		w.head, w.noBody = *r, noBody
		w.head.Fields = exchange.Fields{}
		for name, value := range r.Fields.All() {
			w.head.Fields.Add(name, value)
		}
	}
	return nil
}
func (w *wire) Write(p []byte) (int, error) { return w.body.Write(p) }
func (w *wire) Flush() error                { return nil }
func (w *wire) End(*exchange.Fields) error  { w.ended = true; return nil }
func (w *wire) Abort(err error)             { w.cut = err }
func (w *wire) Context() context.Context    { return w.ctx }

// answer is what a client got.
type answer struct {
	*wire
	err error
}

func (a answer) get(name string) string { return a.head.Fields.Get(name) }

// String is the answer in short: status, body, and the last Cache-Status.
func (a answer) String() string {
	status := ""
	for v := range a.head.Fields.Values("Cache-Status") {
		status = strings.TrimPrefix(v, "httpjet; ")
	}
	return fmt.Sprintf("%d %q %s", a.head.Status, a.body.String(), status)
}

// ask sends a request: "GET /a", and fields.
func ask(h exchange.Handler, line string, fields ...string) answer {
	return askWith(context.Background(), h, line, fields...)
}

func askWith(ctx context.Context, h exchange.Handler, line string, fields ...string) answer {
	w := &wire{ctx: ctx}
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Target, _ = strings.Cut(line, " ")
	x.Req.Path, x.Req.Query, _ = strings.Cut(x.Req.Target, "?")
	x.Req.Host, x.Req.Scheme, x.Req.Proto = "a.example", "http", "HTTP/1.1"
	for _, l := range fields {
		name, value, _ := strings.Cut(l, ": ")
		if name == "Host" {
			x.Req.Host = value
			continue
		}
		x.Req.Fields.Add(name, value)
	}
	before := x.Req.Fields.Len()
	err := exchange.Run(x, h)
	if x.Req.Fields.Len() != before {
		err = errors.Join(err, errors.New("the request has other fields than before"))
	}
	return answer{w, err}
}

// origin answers as it is told, and counts.
type origin struct {
	mu   sync.Mutex
	n    int
	last string // request: method, target, conditions and Range
	next exchange.HandlerFunc
}

func (o *origin) Serve(x *exchange.Exchange) error {
	o.mu.Lock()
	o.n++
	o.last = x.Req.Method + " " + x.Req.Target
	for name, value := range x.Req.Fields.All() {
		if strings.HasPrefix(name, "If-") || name == "Range" {
			o.last += " " + name + ": " + value
		}
	}
	next := o.next
	o.mu.Unlock()
	return next(x)
}

func (o *origin) says(f exchange.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = f
}

func (o *origin) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

// reply is a whole response: fields are "Name: value".
func reply(status int, body string, fields ...string) exchange.HandlerFunc {
	return func(x *exchange.Exchange) error {
		x.Resp.Length = int64(len(body))
		if status == 304 {
			x.Resp.Length = -1
		}
		for _, l := range fields {
			name, value, _ := strings.Cut(l, ": ")
			x.Resp.Fields.Add(name, value)
		}
		if err := x.Start(status); err != nil {
			return err
		}
		_, err := io.WriteString(bodyWriter{x}, body)
		return err
	}
}

// site is a cache before an origin.
func site(t testing.TB, rules freshness.Rules) (*Handler, *origin) {
	o := &origin{}
	h := &Handler{Cache: New(Options{MaxEntries: 1000}), Next: o, Rules: rules, MaxBody: 1000}
	t.Cleanup(h.Cache.Retire)
	return h, o
}

func expect(t *testing.T, a answer, want string) {
	t.Helper()
	if a.String() != want {
		t.Errorf("%s, want %s", a, want)
	}
}
