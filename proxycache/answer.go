package proxycache

import (
	"strconv"
	"sync/atomic"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
	"httpjet/store"
)

// answerOptions say how a kept response answers.
type answerOptions struct {
	now       time.Time
	collapsed bool          // after a wait for another request
	fwd       freshness.Fwd // the upstream was asked, and said that it holds, or failed
	fwdStatus int
	stored    bool
	detail    string
	more      []exchange.Field // of a validation, for this client alone
	ready     *exchange.Ready  // the fields of the entry; nil: they are in it
}

// answer sends what e is for x.
func (h *Handler) answer(x *exchange.Exchange, l *look, e *store.Entry, o *answerOptions) error {
	if o.fwd == "" {
		h.Cache.counts.Hits.Add(1)
	}
	part, outside := head(x, l, e, o)
	if outside {
		// A head of ours, which Run writes.
		return &exchange.Error{Status: 416, Reason: "range_not_satisfiable", Fields: []exchange.Field{{Name: "Content-Range", Value: freshness.NoneOf(e.Body.Len())}}}
	}
	if err := x.Start(x.Resp.Status); err != nil {
		return err
	}
	if x.Req.Method == "HEAD" || part.Len == 0 || x.Copied {
		return nil
	}
	return e.Body.WriteRange(bodyWriter{x}, part.Off, part.Len)
}

// bodyWriter is the body of an exchange as a writer.
type bodyWriter struct{ x *exchange.Exchange }

func (w bodyWriter) Write(p []byte) (int, error) { return w.x.Write(p) }

// head makes the response head of what e is for x, and returns the part of its body
// that belongs to it: 304 and 206 if x has conditions and a Range (R-PCACHE-5). outside
// says that the Range is none of the body's, which is 416.
func head(x *exchange.Exchange, l *look, e *store.Entry, o *answerOptions) (part freshness.Span, outside bool) {
	k := e.Info.(*kept)
	r := &x.Resp
	status := e.Status
	part = freshness.Span{Len: e.Body.Len()}
	switch {
	case l.conditional && e.Status == 200 && freshness.NotModified(&x.Req.Fields, &k.head, o.now):
		status, part = 304, freshness.Span{}
	case l.ranged && e.Status == 200 && x.Req.Method == "GET":
		span, isPart, ok := freshness.Range(&x.Req.Fields, &k.head, e.Body.Len(), o.now)
		switch {
		case !ok:
			status, part, outside = 416, freshness.Span{}, true
		case isPart:
			status, part = 206, span
		}
	}
	if o.ready != nil && status != 304 {
		r.Fields.AddReady(o.ready)
	} else {
		for i := range e.Fields {
			if fd := &e.Fields[i]; status != 304 || !describesBody(fd.Name) {
				r.Fields.Add(fd.Name, fd.Value)
			}
		}
	}
	for _, fd := range o.more {
		r.Fields.Add(fd.Name, fd.Value)
	}
	switch {
	case status == 206:
		r.Fields.Set("Content-Range", part.Of(e.Body.Len()))
	case outside:
		r.Fields.Set("Content-Range", freshness.NoneOf(e.Body.Len()))
	}
	r.Status, r.Dated, r.Unproven = status, true, false
	if r.Length = part.Len; status == 304 || status == 204 {
		r.Length = -1
	}
	if part.Len == e.Body.Len() {
		x.Kept = e
	}
	sayAge(r, k, o)
	return part, outside
}

// sayAge adds Age and Cache-Status.
func sayAge(r *exchange.Response, k *kept, o *answerOptions) {
	t := k.said.at(&k.life, o.now)
	r.Fields.Add("Age", t.age)
	if o.fwd == "" && !o.collapsed {
		r.Fields.Add("Cache-Status", t.status)
		return
	}
	s := freshness.Status{Fwd: o.fwd, FwdStatus: o.fwdStatus, Stored: o.stored, Collapsed: o.collapsed, Detail: o.detail}
	if s.Fwd == "" {
		s.Fwd = freshness.URIMiss
	}
	r.Fields.Add("Cache-Status", string(s.Append(nil)))
}

// describesBody reports whether a 304 does without the field: the client has it
// (RFC 9110 §15.4.5).
func describesBody(name string) bool {
	return len(name) > 8 && exchange.EqualName(name[:8], "Content-") && !exchange.EqualName(name, "Content-Location")
}

// said is what hits of one second tell of a response. It is made once for them all.
type said struct{ last atomic.Pointer[saidAt] }

type saidAt struct {
	second      int64 // of the age
	age, status string
}

func (s *said) at(l *freshness.Life, now time.Time) *saidAt {
	age := l.AgeAt(now)
	second := int64(age / time.Second)
	if t := s.last.Load(); t != nil && t.second == second {
		return t
	}
	left := int64(l.Lifetime/time.Second) - second
	status := freshness.Status{Hit: true, TTL: left}
	t := &saidAt{second, strconv.FormatInt(second, 10), string(status.Append(nil))}
	s.last.Store(t)
	return t
}
