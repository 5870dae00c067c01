package pagecache

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
	"time"

	"httpjet/coding"
	"httpjet/compress"
	"httpjet/exchange"
	"httpjet/store"
)

// wireSide is the filter of a Run behind all edits of the answer: it reads the policy and
// takes it off. It also does so for answers to errors.
type wireSide Run

// ForErrors makes it an exchange.ErrorFilter.
func (w *wireSide) ForErrors() {}

// Head is that of exchange.Filter.
func (w *wireSide) Head(x *exchange.Exchange) bool {
	r := (*Run)(w)
	f := &x.Resp.Fields
	steered := hasControl(f)
	if x.Failed || !r.asked {
		if steered {
			stripControl(f)
		}
		return false
	}
	switch r.outcome {
	case hit, hitStale, hitOnError:
		if steered {
			stripControl(f)
		}
	default:
		r.decide(steered)
	}
	r.report()
	return false
}

// Wrap is never called: Head wants no body.
func (w *wireSide) Wrap(next exchange.Sink) exchange.Sink { return next }

// report tells the client what the cache did.
func (r *Run) report() {
	f := &r.x.Resp.Fields
	if r.x.Timeline != nil {
		r.x.Mark("cache", "page cache: "+r.status())
	}
	if r.hitAge != "" {
		f.Set("Age", r.hitAge)
	}
	switch r.site.Report {
	case ReportLiteSpeed:
		text := ""
		switch {
		case r.outcome == hitOnError:
			text = "hit,stale-if-error"
		case r.outcome == hit || r.outcome == hitStale:
			text = "hit"
		case r.outcome == miss && r.keep.store:
			text = "miss"
		}
		if r.hitPrivate && text == "hit" {
			text = "hit,private"
		}
		if text != "" {
			f.Add("X-LiteSpeed-Cache", text) // the one that it may have had was taken off, with all of that kind
		}
	case ReportStandard:
		f.Add("Cache-Status", r.status())
	}
}

// status is the value of Cache-Status (RFC 9211).
func (r *Run) status() string {
	switch r.outcome {
	case hit:
		return "httpjet; hit"
	case hitStale:
		return "httpjet; hit; detail=stale"
	case hitOnError:
		return "httpjet; hit; detail=stale-if-error"
	case miss:
		if r.keep.store {
			return "httpjet; fwd=miss; stored"
		}
		return `httpjet; fwd=miss; detail="` + r.keep.why + `"`
	}
	return `httpjet; fwd=bypass; detail="` + r.reason + `"`
}

// decision is what becomes of an answer.
type decision struct {
	store   bool
	private bool
	why     string // it is not stored
	count   Count  // likewise

	life    time.Duration
	stale   time.Duration
	onError time.Duration
	vary    []string
	tags    []string
	coded   coding.Set // how the handler has coded the body, which is stored decoded; 0: it is as it is
}

// decide reads the policy of an answer, does its purges, and decides if it is stored.
func (r *Run) decide(steered bool) {
	x, s := r.x, r.site
	f := &x.Resp.Fields
	var asked control
	var vary, tags []string
	if steered {
		own := ""
		if r.owned {
			own = string(r.owner[:])
		} else if o, _, ok := s.ownerOf(&x.Req.Fields, nil); ok {
			own = string(o[:])
		}
		var purges []string
		for i := range f.Len() {
			fd := f.At(i)
			if !isControl(fd.Name) {
				continue
			}
			switch strings.ToLower(fd.Name) {
			case "x-litespeed-cache-control":
				asked.read(fd.Value)
			case "x-litespeed-tag":
				tags = append(tags, fd.Value)
			case "x-litespeed-vary":
				vary = append(vary, fd.Value)
			case "x-litespeed-purge", "x-litespeed-purge2":
				purges = append(purges, fd.Value)
			}
		}
		stripControl(f)
		if len(purges) > 0 {
			s.Cache.purge(x, s.Name, own, purges)
		}
	}
	if !r.mayStore {
		r.keep.why = "method"
		return
	}
	if r.keep = r.judge(&asked, vary, tags); r.keep.store && r.keep.coded != 0 {
		compress.Vary(f) // the next client may get it in another coding, or in none
	}
	if !r.keep.store {
		s.Cache.count(r.keep.count)
		s.Cache.noted(r.key, r.keep.why, r.began)
	}
	s.Cache.passed(r.key, !r.keep.store)
	if !r.keep.store && r.flight != nil {
		r.flight.Land() // nobody gains by waiting
	}
}

// handlerSide is the filter of a Run next to the handler: what it sees is what is stored.
type handlerSide Run

// Head is that of exchange.Filter.
func (h *handlerSide) Head(x *exchange.Exchange) bool {
	r := (*Run)(h)
	if x.Failed {
		return false
	}
	if r.stale != nil && isServerError(x.Resp.Status) && !x.Background {
		if e, file, ok := r.open(r.stale); ok {
			r.stale, r.replaced, r.outcome, r.mayStore = e, true, hitOnError, false
			r.site.Cache.count(HitsOnError)
			f := &x.Resp.Fields
			purges := slices.Collect(f.Values("X-LiteSpeed-Purge"))
			if r.local && len(purges) > 0 {
				r.site.Cache.purge(x, r.site.Name, "", purges)
			}
			f.Reset()
			r.head(r.stale)
			x.Resp.Status, x.Resp.Length = r.stale.Status, lengthOf(r.stale, file)
			r.replacement = file
			if file != nil && x.Req.Method == "HEAD" {
				file.close() // Wrap is not called
			}
			return true
		}
	}
	if !r.mayStore {
		return false
	}
	r.made = answer{status: x.Resp.Status, length: x.Resp.Length, fields: make([]exchange.Field, 0, x.Resp.Fields.Len())}
	for i := range x.Resp.Fields.Len() {
		r.made.fields = append(r.made.fields, x.Resp.Fields.At(i))
	}
	return true
}

// Wrap is that of exchange.Filter. The other side has decided by now.
func (h *handlerSide) Wrap(next exchange.Sink) exchange.Sink {
	r := (*Run)(h)
	switch {
	case r.replaced:
		return &instead{r: r, next: next}
	case r.keep.store:
		r.tee = newTee(r, next)
		return r.tee
	}
	return next
}

// instead sends a stale entry in the place of what the handler says.
type instead struct {
	r    *Run
	next exchange.Sink
	sent bool
}

// Write is that of exchange.Sink; what comes is dropped.
func (s *instead) Write(p []byte) (int, error) { return len(p), s.send() }

func (s *instead) send() error {
	if s.sent {
		return nil
	}
	s.sent = true
	if f := s.r.replacement; f != nil {
		defer f.close()
		return f.copyTo(s.next)
	}
	e := s.r.stale
	return e.Body.WriteRange(s.next, 0, e.Body.Len())
}

// Flush is that of exchange.Sink.
func (s *instead) Flush() error {
	if err := s.send(); err != nil {
		return err
	}
	return s.next.Flush()
}

// Close is that of exchange.Sink.
func (s *instead) Close() error {
	s.r.x.Trailers.Reset() // of the other answer
	if err := s.send(); err != nil {
		return err
	}
	return s.next.Close()
}

// tee takes a body on its way to the client, and stores the answer if it comes to a clean
// end, never else.
type tee struct {
	r    *Run
	next exchange.Sink
	body store.Builder
	sum  hash.Hash
	n    int64         // bytes of the body as it is stored
	came int64         // bytes that the handler has written
	raw  store.Builder // the body as it came, where it is coded
	took int64         // bytes that are counted as being stored
	file *writing      // where the body goes that is too long for memory; nil: nowhere yet
	off  bool          // it is not stored after all
	over bool          // stored or abandoned
}

func newTee(r *Run, next exchange.Sink) *tee {
	return &tee{r: r, next: next, sum: sha256.New(), body: store.Builder{Limit: r.policy.MaxObject}, raw: store.Builder{Limit: maxCoded}}
}

// Write is that of exchange.Sink.
func (t *tee) Write(p []byte) (int, error) {
	switch t.came += int64(len(p)); {
	case t.off:
	case t.r.made.length >= 0 && t.came > t.r.made.length:
		t.abandon()
	case t.r.keep.coded != 0:
		t.gather(p)
	default:
		t.take(p)
	}
	return t.next.Write(p)
}

// spillAt is how much of a body is in memory before it goes to a file.
const spillAt = 1 << 20

// take takes bytes of the body as it is stored.
func (t *tee) take(p []byte) {
	disk := t.r.site.Disk
	t.n += int64(len(p))
	if t.n > t.r.policy.MaxObject {
		t.abandon()
		return
	}
	t.sum.Write(p)
	if t.file == nil && disk.usable() && t.n > spillAt && !t.r.keep.private {
		if t.file = disk.begin(); t.file == nil || !t.file.body(&t.body) {
			t.abandon()
			return
		}
		t.free()
	}
	if t.file != nil {
		if !t.file.write(p) {
			t.abandon()
		}
		return
	}
	t.hold(&t.body, p)
}

// hold keeps p in memory, if there is room for it.
func (t *tee) hold(in *store.Builder, p []byte) {
	c := t.r.site.Cache
	t.took += int64(len(p))
	if c.filling.Add(int64(len(p))) > c.opt.MaxBytes/2 {
		t.abandon()
		return
	}
	if _, err := in.Write(p); err != nil {
		t.abandon()
	}
}

// free gives up the body in memory.
func (t *tee) free() {
	t.body.Reset()
	t.raw.Reset()
	t.r.site.Cache.filling.Add(-t.took)
	t.took = 0
}

// Flush is that of exchange.Sink.
func (t *tee) Flush() error { return t.next.Flush() }

// Close is that of exchange.Sink: the answer is complete.
func (t *tee) Close() error {
	if !t.off {
		t.commit()
	}
	t.over = true
	t.land()
	return t.next.Close()
}

// abandon gives up what was taken.
func (t *tee) abandon() {
	if !t.off && !t.over {
		t.off = true
		t.free()
		if t.file != nil {
			t.file.abandon()
			t.file = nil
		}
	}
	t.land()
}

func (t *tee) land() {
	if t.r.flight != nil {
		t.r.flight.Land()
	}
}

// commit stores the answer, whose body is complete.
func (t *tee) commit() {
	r := t.r
	c, d := r.site.Cache, &r.keep
	defer t.free()
	if r.made.length >= 0 && r.made.length != t.came || d.coded != 0 && !t.decode() {
		t.abandon() // cut, or not what it says
		c.count(Other)
		return
	}
	n := t.n
	switch {
	case n == 0 && r.made.status == 200, r.x.Trailers.Len() > 0:
		t.abandon() // nothing to show
		c.count(Other)
		return
	case !d.private && !c.admits(r.seen, n):
		t.abandon()
		c.count(Rejected)
		return
	}
	o := r.object(t.sum.Sum(nil), n)
	i := o.Info.(*info)
	if t.file == nil {
		o.Body = t.body.Body()
	}
	if r.site.Disk.usable() && !d.private {
		t.keepFile(&o, i)
	}
	if t.file != nil && i.file == "" {
		return // it is nowhere
	}
	if d.private {
		c.private.Add(1)
	}
	if c.store.Put(o, r.ticket) == nil {
		c.count(Refused)
		if d.private {
			c.private.Add(-1)
		}
		if i.disk != nil {
			i.disk.remove(i.file)
		}
		return
	}
	if d.private {
		c.count(StoresPrivate)
	} else {
		c.count(Stores)
	}
}

// keepFile puts o into a file. If that is not possible it stays in memory alone, or
// nowhere if its body is in the file already.
func (t *tee) keepFile(o *store.Object, i *info) {
	disk := t.r.site.Disk
	w := t.file
	if w == nil {
		if w = disk.begin(); w == nil || !w.store(&o.Body) {
			if w != nil {
				w.abandon()
			}
			return
		}
	}
	if name, ok := w.commit(o, uint64(t.r.ticket)); ok {
		i.disk, i.file = disk, name
	}
}

// object is the answer as it is stored.
func (r *Run) object(sum []byte, n int64) store.Object {
	x, d := r.x, &r.keep
	own := ""
	key := string(r.key)
	if d.private {
		own = string(r.owner[:])
		key += "\x00~" + own
	}
	i := &info{site: r.site.Name, owner: own, host: strings.ToLower(x.Req.Host), scheme: strings.Clone(x.Req.Scheme),
		target: strings.Clone(x.Req.Target), stale: d.stale, onError: d.onError}
	o := store.Object{Key: key, Vary: d.vary, Tags: d.tags, Status: r.made.status, Stored: r.began, Fresh: r.began.Add(d.life), Info: i}
	o.Until = o.Fresh.Add(max(d.stale, d.onError))
	o.Variant = string(appendVariant(nil, &x.Req.Fields, d.vary))
	o.Fields = make([]exchange.Field, 0, len(r.made.fields)+2)
	for _, f := range r.made.fields {
		if dropped(f.Name) || d.coded != 0 && ofCoded(f.Name) {
			continue
		}
		if exchange.EqualName(f.Name, "ETag") {
			i.etag = strings.Clone(f.Value)
		}
		o.Fields = append(o.Fields, exchange.Field{Name: strings.Clone(f.Name), Value: strings.Clone(f.Value)})
	}
	if i.etag == "" && r.made.status == 200 {
		i.etag = `W/"` + hex.EncodeToString(sum[:12]) + `"` // R-CACHE-7
		o.Fields = append(o.Fields, exchange.Field{Name: "ETag", Value: i.etag})
	}
	if d.coded != 0 {
		o.Fields = variesByCoding(o.Fields)
	}
	return o
}

// dropped reports whether a field of an answer is about that answer alone, or for one
// client (LSX 10.2).
func dropped(name string) bool {
	for _, n := range [...]string{"Set-Cookie", "Set-Cookie2", "Date", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive",
		"Age", "Server", "X-Request-Id", "X-LiteSpeed-Cache", "Cache-Status", "Trailer", "Accept-Ranges"} {
		if exchange.EqualName(name, n) {
			return true
		}
	}
	return isControl(name)
}
