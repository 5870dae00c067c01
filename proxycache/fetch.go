package proxycache

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
	"httpjet/store"
)

// fetchOptions say why the upstream is asked, and who waits.
type fetchOptions struct {
	fwd       freshness.Fwd
	flight    *store.Flight // lands when it is known what followers get; nil: nobody waits
	collapsed bool          // x has waited for another request before
	quiet     bool          // nobody is told: a refresh
}

// fetch asks the upstream: for the whole, or, if e is kept and has a validator, whether
// it is still the same.
func (h *Handler) fetch(x *exchange.Exchange, l *look, e *store.Entry, o fetchOptions) error {
	if o.flight != nil {
		defer o.flight.Land() // if nobody has before
	}
	if !o.quiet {
		h.Cache.counts.Misses.Add(1)
	}
	t := &tap{h: h, l: l, entry: e, o: o, ticket: h.Cache.store.Ticket(), sent: time.Now()}
	if e != nil && validator(e) {
		t.validating = true
		t.saved = validate(&x.Req.Fields, e)
	}
	x.Resp.Dated = true
	x.Use(t)
	err := h.Next.Serve(x)
	if t.validating {
		x.Req.Fields = t.saved // whose conditions they are again, for the log
	}
	if t.hurry != nil {
		t.hurry.Stop()
	}
	switch {
	case t.answers != nil && (err == nil || errors.Is(err, errEnough)):
		x.Trailers.Reset() // of what it stands for
		err = nil
	case err == nil:
		t.commit()
	case !x.Started() && t.rescues(exchange.StatusOf(err), time.Now()) && !errors.Is(err, exchange.ErrClientGone):
		t.off = true
		x.Resp.Fields.Reset()
		return h.answer(x, l, e, &answerOptions{now: time.Now(), fwd: o.fwd, collapsed: o.collapsed, detail: "stale-if-error"})
	default:
		x.Resp.Dated = x.Started() && x.Resp.Dated
	}
	return err
}

func validator(e *store.Entry) bool {
	k := e.Info.(*kept)
	return k.head.ETag != "" || k.head.LastModified != ""
}

// validate puts the validators of e in the place of the conditions of a request, and
// returns its fields as they were. A Range goes too: what is validated is the whole.
func validate(f *exchange.Fields, e *store.Entry) (saved exchange.Fields) {
	saved = *f
	*f = exchange.Fields{}
	for name, value := range saved.All() {
		if !freshness.Conditions(name) {
			f.Add(name, value)
		}
	}
	k := e.Info.(*kept)
	if k.head.ETag != "" {
		f.Add("If-None-Match", k.head.ETag)
	}
	if k.head.LastModified != "" {
		f.Add("If-Modified-Since", k.head.LastModified)
	}
	return saved
}

// tap is the filter and the sink between the upstream's reply and the client. It keeps
// a copy of what may be kept; where the upstream says that what is kept holds, or
// fails while it may be used, the kept response goes out in the place of the reply.
// What it has built is stored by commit, when the handler has proven a clean end.
type tap struct {
	h      *Handler
	l      *look
	entry  *store.Entry // kept before; nil: none
	o      fetchOptions
	ticket store.Ticket
	sent   time.Time
	saved  exchange.Fields // of the client, while validating

	validating bool // a 304 is about entry
	off        bool // the head has been seen

	building bool
	object   store.Object
	body     store.Builder
	declared int64 // length, -1: not told

	answers *store.Entry // what goes out in the place of the reply; nil: the reply
	part    freshness.Span
	emitted bool
	dropped int // bytes of what it stands for
	next    exchange.Sink

	hurry *time.Timer // lands the flight; nil: nobody waits for the body
}

// errEnough ends a reply that is not sent, behind more than maxDropped bytes. It says
// nothing about the peer.
var errEnough = fmt.Errorf("%w: a kept response is sent instead", exchange.ErrClientGone)

const maxDropped = 64 << 10

// Head decides what becomes of the reply (exchange.Filter).
func (t *tap) Head(x *exchange.Exchange) bool {
	if t.off {
		return false
	}
	t.off = true
	now, r := time.Now(), &x.Resp
	date(r, now)
	switch {
	case t.validating && r.Status == 304:
		return t.validated(x, now)
	case t.rescues(r.Status, now):
		return t.replace(x, t.entry, answerOptions{now: now, fwdStatus: r.Status, detail: "stale-if-error"})
	}
	life, why := t.h.Rules.Judge(&x.Req, r, t.sent, now)
	detail := string(why)
	if why == freshness.Kept {
		detail = t.begin(x, life, now)
	}
	switch {
	case t.building:
	case x.Req.Method == "HEAD":
		t.compare(x, now)
	default:
		t.refused(why, r.Status, now)
	}
	t.tell(x, freshness.Status{Fwd: t.o.fwd, FwdStatus: r.Status, Stored: t.building, Collapsed: t.o.collapsed, Detail: detail})
	return t.building
}

// date makes sure that a Dated response has one Date that can be read (RFC 9110
// §6.6.1).
func date(r *exchange.Response, now time.Time) {
	v := r.Fields.Get("Date")
	if _, ok := freshness.ParseDate(v, now); !ok {
		v = now.UTC().Format(http.TimeFormat)
	}
	r.Fields.Set("Date", v)
}

// rescues reports whether what is kept answers instead of a failure (RFC 5861 §4): not
// to who takes nothing that is not validated.
func (t *tap) rescues(status int, now time.Time) bool {
	switch status {
	case 500, 502, 503, 504:
		return t.entry != nil && t.o.fwd != freshness.RequestMiss && !t.l.wants.Any(freshness.NoCache) && t.entry.Info.(*kept).life.UsableOnError(now) && t.entry.State() == store.Live
	}
	return false
}

// begin starts to keep the reply, or says why it is not.
func (t *tap) begin(x *exchange.Exchange, life freshness.Life, now time.Time) (refusal string) {
	r := &x.Resp
	names, ok := vary(&r.Fields)
	variant, short := freshness.AppendSelecting(nil, names, &x.Req.Fields)
	switch {
	case !ok || !short:
		return string(freshness.VariesByAll)
	case r.Unproven:
		return "unframed"
	case r.Length > t.h.MaxBody:
		return "too-large"
	}
	t.building = true
	t.object = store.Object{Key: string(t.l.key), Variant: string(variant), Vary: names, Status: r.Status, Stored: now}
	target := strings.Clone(x.Req.Target)
	t.object.Tags = tagsOf(t.object.Key, target, x.Req.Sent())
	describe(&t.object, &r.Fields, life, now, target)
	t.body.Limit = t.h.MaxBody
	if t.declared = r.Length; r.Status == 204 {
		t.declared = 0
	}
	if t.o.flight != nil && t.declared != 0 {
		// The body comes as fast as this client takes it. Those who wait do not depend
		// on that for long: one of them asks next.
		t.hurry = time.AfterFunc(maxBody, t.o.flight.Land)
	}
	return ""
}

// vary is what selects a response. One in a coding is for those who take it, whether
// its origin says so or not.
func vary(f *exchange.Fields) (names []string, ok bool) {
	if !f.Has("Content-Encoding") {
		return freshness.VaryNames(f)
	}
	with := exchange.Fields{}
	for v := range f.Values("Vary") {
		with.Add("Vary", v)
	}
	with.Add("Vary", "Accept-Encoding")
	return freshness.VaryNames(&with)
}

// describe sets what depends on the head of a response. It takes copies: the texts of
// a reply are valid until its end.
func describe(o *store.Object, f *exchange.Fields, life freshness.Life, now time.Time, target string) {
	o.Fields = clone(freshness.Keep(f))
	own := exchange.Fields{}
	for _, fd := range o.Fields {
		own.Add(fd.Name, fd.Value)
	}
	o.Info = &kept{life: life, head: freshness.HeadOf(&own, now), target: target}
	o.Fresh = now.Add(life.Lifetime - life.Age)
	// Behind its freshness it is of use to be validated, for as long again as it was
	// fresh, and an hour at least.
	o.Until = o.Fresh.Add(max(life.Lifetime, life.WhileRevalidate, life.IfError, time.Hour))
}

// clone copies all texts into one piece of memory.
func clone(list []exchange.Field) []exchange.Field {
	n := 0
	for _, fd := range list {
		n += len(fd.Name) + len(fd.Value)
	}
	b := make([]byte, 0, n)
	for _, fd := range list {
		b = append(append(b, fd.Name...), fd.Value...)
	}
	all := string(b)
	for i, fd := range list {
		n, v := len(fd.Name), len(fd.Value)
		list[i] = exchange.Field{Name: all[:n], Value: all[n : n+v]}
		all = all[n+v:]
	}
	return list
}

// refused notes that nothing comes for those who wait, and drops what is kept if the
// origin has answered otherwise since: the older may not be used any more. A failure
// of the origin says nothing of it, nor does a redirect to it.
func (t *tap) refused(why freshness.Refusal, status int, now time.Time) {
	if status >= 500 || why == freshness.NotWanted || why == freshness.Partial || why == freshness.LeadsBack {
		return
	}
	t.h.Cache.passes.note(t.l.key, now)
	if t.entry != nil {
		t.h.Cache.store.Remove(t.entry)
	}
	t.land()
}

// compare uses the answer to a HEAD: if it is about another response than what is kept,
// that is not fresh any more (RFC 9111 §4.3.5).
func (t *tap) compare(x *exchange.Exchange, now time.Time) {
	r := &x.Resp
	if t.entry == nil || r.Status >= 500 || r.Status == 304 { // 304: of what the client has
		return
	}
	k := t.entry.Info.(*kept)
	head := freshness.HeadOf(&r.Fields, now)
	if r.Status != t.entry.Status || head.ETag != k.head.ETag || head.LastModified != k.head.LastModified ||
		r.Length >= 0 && r.Length != t.entry.Body.Len() {
		t.h.Cache.store.Remove(t.entry)
		return
	}
	if validator(t.entry) { // else it may be another of the same length
		t.update(x, now)
	}
}

// update gives the kept response what a 304, or the answer to a HEAD, says of it, and
// returns it as it is now. What may not be kept any more is dropped, but is still what
// the upstream has just confirmed to this client.
func (t *tap) update(x *exchange.Exchange, now time.Time) *store.Entry {
	c, q := t.h.Cache, x.Req
	q.Method = "GET"
	if tag, ours := x.Resp.Fields.Get("ETag"), t.entry.Info.(*kept).head.ETag; tag != ours && tag != "" && ours != "" {
		c.store.Remove(t.entry) // it is about another one (RFC 9111 §4.3.4)
		return t.entry
	}
	merged := freshness.Merge(t.entry.Fields, &x.Resp.Fields)
	life, why := t.h.Rules.Judge(&q, &exchange.Response{Status: t.entry.Status, Fields: *merged}, t.sent, now)
	names, ok := vary(merged)
	o := t.entry.Object
	o.Stored = now
	describe(&o, merged, life, now, t.entry.Info.(*kept).target)
	if why != freshness.Kept || !ok || !sameNames(names, o.Vary) {
		c.store.Remove(t.entry)
		return &store.Entry{Object: o}
	}
	if e := c.store.Replace(t.entry, o, t.ticket); e != nil {
		return e
	}
	return &store.Entry{Object: o} // it was replaced or purged meanwhile
}

// validated answers with what is kept: the upstream has it too.
func (t *tap) validated(x *exchange.Exchange, now time.Time) bool {
	t.h.Cache.counts.Revalidations.Add(1)
	e := t.update(x, now)
	o := answerOptions{now: now, fwdStatus: 304, stored: true}
	for v := range x.Resp.Fields.Values("Set-Cookie") {
		o.more = append(o.more, exchange.Field{Name: "Set-Cookie", Value: v})
	}
	t.land()
	return t.replace(x, e, o)
}

// replace puts e in the place of the reply.
func (t *tap) replace(x *exchange.Exchange, e *store.Entry, o answerOptions) bool {
	o.fwd, o.collapsed = t.o.fwd, t.o.collapsed
	if o.fwd == "" {
		o.fwd = freshness.StaleMiss
	}
	t.answers = e
	changed := x.Req.Fields
	if t.validating {
		x.Req.Fields = t.saved // the client's own conditions count
	}
	x.Resp.Fields.Reset()
	t.part, _ = head(x, t.l, e, &o)
	x.Req.Fields = changed
	return true
}

func (t *tap) tell(x *exchange.Exchange, s freshness.Status) {
	if s.Fwd == "" {
		s.Fwd = freshness.StaleMiss
	}
	x.Resp.Fields.Add("Cache-Status", string(s.Append(nil)))
}

// land lets those who wait look again.
func (t *tap) land() {
	if t.o.flight != nil {
		t.o.flight.Land()
	}
}

// commit stores what was built: the handler has returned without an error, so that
// the reply has come to its end.
func (t *tap) commit() {
	if !t.building || t.declared >= 0 && t.body.Len() != t.declared {
		return
	}
	t.object.Body = t.body.Body()
	t.h.Cache.put(t.object, t.ticket)
}

// Wrap puts the tap before the sinks nearer to the client (exchange.Filter).
func (t *tap) Wrap(next exchange.Sink) exchange.Sink {
	t.next = next
	return t
}

// Write passes on and keeps a copy, or drops what the kept response stands for
// (exchange.Sink).
func (t *tap) Write(p []byte) (int, error) {
	if t.answers != nil {
		err := t.emit()
		if t.dropped += len(p); err == nil && t.dropped > maxDropped {
			err = errEnough
		}
		return len(p), err
	}
	if t.building {
		if _, err := t.body.Write(p); err != nil {
			t.building = false
			t.body.Reset()
			t.h.Cache.passes.note([]byte(t.object.Key), time.Now())
			t.land()
		}
	}
	return t.next.Write(p)
}

// emit sends the kept body, once.
func (t *tap) emit() error {
	if t.emitted {
		return nil
	}
	t.emitted = true
	return t.answers.Body.WriteRange(t.next, t.part.Off, t.part.Len)
}

// Flush is that of exchange.Sink.
func (t *tap) Flush() error {
	if t.answers != nil {
		if err := t.emit(); err != nil {
			return err
		}
	}
	return t.next.Flush()
}

// Close is that of exchange.Sink.
func (t *tap) Close() error {
	if t.answers != nil {
		if err := t.emit(); err != nil {
			return err
		}
	}
	return t.next.Close()
}
