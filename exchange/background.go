package exchange

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"
)

// NewBackground returns an exchange of the server's own: a GET for what x asks for, for
// which no client waits, so that a cache can be filled by those who answer it. It shares
// no memory with x. The answer is seen by filters alone, which their owner adds; ctx ends
// the exchange. It is served with Run, and Background is true.
//
// Fields about a body, a part of the answer, or its freshness are left out. What is known
// of the client is kept; who fills a store that others read takes off what may not count.
func NewBackground(ctx context.Context, x *Exchange) *Exchange {
	b := &Exchange{}
	b.Reset(&noWire{ctx: ctx})
	fields := b.Req.Fields
	b.Req = x.Req
	q := &b.Req
	q.Fields = fields
	for i := range x.Req.Fields.Len() {
		if f := x.Req.Fields.At(i); !conditional(f.Name) {
			q.Fields.Add(strings.Clone(f.Name), strings.Clone(f.Value))
		}
	}
	for _, s := range [...]*string{&q.ID, &q.Proto, &q.Host, &q.Scheme, &q.Target, &q.Path, &q.Query, &q.Listener} {
		*s = strings.Clone(*s)
	}
	q.Method, q.Length, q.User = "GET", 0, ""
	q.Rewritten, q.UpstreamHost, q.Media = "", "", ""
	b.Background, b.Began = true, time.Now()
	return b
}

// conditional reports whether a field asks for less than the answer, or is about a body.
func conditional(name string) bool {
	if len(name) > 3 && EqualName(name[:3], "If-") {
		return true
	}
	return slices.ContainsFunc([]string{"Range", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding",
		"Expect", "Upgrade", "Connection", "Cache-Control", "Pragma", "TE", "Trailer"}, func(n string) bool { return EqualName(n, name) })
}

// noWire drops what it is given.
type noWire struct{ ctx context.Context }

func (w *noWire) Read([]byte) (int, error)         { return 0, io.EOF }
func (w *noWire) Trailers() *Fields                { return nil }
func (w *noWire) StopRead()                        {}
func (w *noWire) Head(*Response, bool, bool) error { return w.ctx.Err() }
func (w *noWire) Write(p []byte) (int, error)      { return len(p), w.ctx.Err() }
func (w *noWire) Flush() error                     { return nil }
func (w *noWire) End(*Fields) error                { return nil }
func (w *noWire) Abort(error)                      {}
func (w *noWire) Context() context.Context         { return w.ctx }
