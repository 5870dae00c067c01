package pagecache

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
	"httpjet/store"
)

// Run is the part of a cache in one exchange. Contexts begins it before anything else
// edits the answer, has Serve answer where a handler of applications would, and calls
// End when the handlers have returned.
type Run struct {
	x      *exchange.Exchange
	site   *Site
	policy Policy // as it holds at the place that was asked for
	rules  fromRules
	says   said // what is in the request

	asked   bool // Serve was called
	local   bool // the handler is an application of this server's, which may steer
	outcome outcome
	reason  string // why it is no hit
	hitAge  string

	hitPrivate bool            // the entry that answers is a private one
	ready      *exchange.Ready // its fields; nil: they are in it

	buf    []byte // key, then scratch
	key    []byte // of the public entry, in buf
	owner  owner
	owned  bool // owner is set
	user   bool // a request with the user cookie: private entries alone
	ranged bool // it asks for a part
	ticket store.Ticket
	began  time.Time
	timed  store.Timed // look-ups with this memory
	seen   int         // sightings of the key, this one included
	flight *store.Flight

	stale       *store.Entry // to be served in the place of an error
	replaced    bool         // it is
	replacement *opened      // with its body; nil: it is in memory
	mayStore    bool
	made        answer // what the handler said, before edits
	keep        decision
	tee         *tee
}

// answer is a head as the handler made it.
type answer struct {
	status int
	length int64
	fields []exchange.Field
}

type outcome uint8

const (
	notAsked outcome = iota // the cache has no part in this route
	bypass
	miss
	hit
	hitStale
	hitOnError
)

var runs = sync.Pool{New: func() any { return &Run{} }}

// Begin starts a run for x and makes it a filter. Nothing is looked up yet.
func (s *Site) Begin(x *exchange.Exchange) *Run {
	r := runs.Get().(*Run)
	r.x, r.site = x, s
	x.Use((*wireSide)(r))
	return r
}

// End gives the run up when the handlers have returned. One that is part of a response
// whose end is still to come is left to the garbage collector; another one goes on with its
// count of look-ups.
func (r *Run) End(err error) {
	if r.tee != nil && (err != nil || !r.x.Started()) {
		r.tee.abandon()
	}
	if r.flight != nil && r.tee == nil {
		r.flight.Land()
	}
	if r.made.fields != nil || r.tee != nil || r.replaced || !r.x.Started() {
		runs.Put(&Run{timed: r.timed})
		return // filters may still be asked for their head
	}
	*r = Run{buf: r.buf[:0], timed: r.timed}
	runs.Put(r)
}

// At makes the policy of a place hold, nil for the site's, and returns the run's copy of
// it, which may be changed until Serve.
func (r *Run) At(p *Policy) *Policy {
	if p == nil {
		p = &r.site.Policy
	}
	r.policy = *p
	return &r.policy
}

// A Question is what contexts knows of the exchange when a handler is to answer.
type Question struct {
	Local bool             // the handler is an application of this server's (R-HDR-7)
	Purge bool             // the client may purge: IsPurge, and it comes from where that is allowed
	Again exchange.Handler // serves an exchange from the start, to refresh an entry; nil: nothing is refreshed
}

// Serve answers x from the cache by the policy of At, or has h do it and stores what it
// says if it may be stored.
func (r *Run) Serve(q Question, h exchange.Handler) (err error) {
	x, c := r.x, r.site.Cache
	r.asked, r.local = true, q.Local
	x.Steered = q.Local
	if IsPurge(x.Req.Method) && r.policy.Disabled == "" && !x.Route.Foreign {
		return r.purge(q, h)
	}
	r.rules = readRules(x.Env)
	r.ticket, r.began = c.store.Ticket(), x.Recent()
	if r.reason = r.bypasses(); r.reason != "" {
		r.outcome = bypass
		c.count(Bypasses)
		if r.rules.bypass != "" {
			c.count(ByRule)
		}
		return h.Serve(x)
	}
	r.identify()
	if x.Background {
		return r.make(h)
	}
	if done, err := r.lookUp(q.Again); done {
		return err
	}
	if r.ranged { // the handler knows what a part of its answer is; a part is not stored
		r.outcome, r.reason = bypass, "range"
		c.count(Bypasses)
		return h.Serve(x)
	}
	if r.follow() {
		if done, err := r.lookUp(q.Again); done {
			return err
		}
	}
	return r.make(h)
}

// bypasses says why the cache has no part in an exchange, "" if it has (R-CACHE-2).
func (r *Run) bypasses() string {
	if r.x.Explaining() {
		return "explained"
	}
	return r.refuses()
}

// refuses says why the cache has no part in what is asked for, "" if it has.
func (r *Run) refuses() string {
	x, p := r.x, &r.policy
	f := &x.Req.Fields
	r.says = read(f)
	switch {
	case p.Disabled != "":
		return p.Disabled
	case x.Req.Method != "GET" && x.Req.Method != "HEAD":
		return "method"
	case x.Route.Foreign:
		return "foreign host"
	case r.rules.bypass != "":
		return r.rules.bypass
	case r.says.upgrade:
		return "upgrade"
	case r.says.hides:
		return "Connection names a field"
	case x.Req.Length != 0:
		return "request with a body"
	case x.Req.User != "" || r.says.authorization:
		return "authorization"
	case p.NoQueries && hasQuery(x.Req.Target):
		return "query"
	case !p.LookUp && !p.LookUpPrivate && !p.Store && !p.StorePrivate:
		return "no look-up"
	case p.ObeyRequest && (f.HasToken("Cache-Control", "no-store") || f.HasToken("Cache-Control", "no-cache") || f.HasToken("Pragma", "no-cache")):
		return "Cache-Control of the request"
	}
	if len(r.site.NoHosts)+len(r.site.NoPaths) > 0 {
		path, _, _ := strings.Cut(x.Req.Target, "?")
		return r.site.excluded(hostName(x.Req.Host), path)
	}
	return ""
}

func hasQuery(target string) bool {
	_, query, _ := strings.Cut(target, "?")
	return query != ""
}

// said is which fields that matter to a cache a request has.
type said struct{ upgrade, authorization, cookie, ranged, noneMatch, hides bool }

// read looks through the fields once: most requests have none of those.
func read(f *exchange.Fields) (s said) {
	for i := range f.Len() {
		name := f.At(i).Name
		switch len(name) {
		case len("Range"):
			s.ranged = s.ranged || exchange.EqualName(name, "Range")
		case len("Cookie"):
			s.cookie = s.cookie || exchange.EqualName(name, "Cookie")
		case len("Upgrade"):
			s.upgrade = s.upgrade || exchange.EqualName(name, "Upgrade")
		case len("Connection"):
			s.hides = s.hides || exchange.EqualName(name, "Connection") && freshness.HidesFields(f)
		case len("Authorization"): // and If-None-Match
			s.authorization = s.authorization || exchange.EqualName(name, "Authorization")
			s.noneMatch = s.noneMatch || exchange.EqualName(name, "If-None-Match")
		}
	}
	return s
}

func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		return host[:i]
	}
	return host
}

// identify makes the key, and finds whose the request is.
func (r *Run) identify() {
	x, s := r.x, r.site
	r.ranged = x.Req.Method == "GET" && r.says.ranged
	b := appendKey(r.buf[:0], s.Name, x.Req.Scheme, x.Req.Host, x.Req.Target, r.keyMod())
	if r.rules.vary != "" {
		b = append(append(b, "\x00#"...), r.rules.vary...)
	}
	if r.says.cookie {
		if v, ok := cookie(&x.Req.Fields, varyCookie); ok && v != "" {
			b = append(append(b, "\x00#v="...), v...)
		}
		if s.UserCookie != "" {
			_, r.user = cookie(&x.Req.Fields, s.UserCookie)
			path, _, _ := strings.Cut(x.Req.Target, "?")
			r.user = r.user && !s.shared(path)
		}
	}
	n := len(b)
	if r.says.cookie {
		r.owner, b, r.owned = s.ownerOf(&x.Req.Fields, b)
		r.owned = r.owned && (s.UserCookie == "" || r.user)
	}
	r.buf, r.key = b, b[:n:n]
}

// keyMod is what of the query no key holds, with what rules say.
func (r *Run) keyMod() *KeyMod {
	if r.rules.keyMod == "" {
		return &r.policy.KeyMod
	}
	own := r.policy.KeyMod
	own.Add(r.rules.keyMod)
	return &own
}

// privateKey is the key of the entry of the owner, behind the public one in memory.
func (r *Run) privateKey() []byte {
	b := append(r.buf[:len(r.key)], "\x00~"...)
	b = append(b, r.owner[:]...)
	r.buf = b
	return b
}

// lookUp serves an entry if there is one that may be served.
func (r *Run) lookUp(again exchange.Handler) (done bool, err error) {
	c, p := r.site.Cache, &r.policy
	if r.owned && p.LookUpPrivate && c.private.Load() > 0 {
		if done, err = r.try(r.privateKey(), again); done {
			return done, err
		}
	}
	if p.LookUp && !r.user {
		return r.try(r.key, again)
	}
	return false, nil
}

// try serves the entry of a key.
func (r *Run) try(key []byte, again exchange.Handler) (done bool, err error) {
	c := r.site.Cache
	e := r.timedFind(key)
	if e == nil {
		return false, nil
	}
	i, now := infoOf(e), r.began
	past := now.Sub(e.Fresh)
	soft := e.State() == store.Stale
	switch {
	case past < 0 && !soft:
		r.outcome = hit
	case past < i.stale || soft && now.Before(e.Until):
		r.outcome = hitStale
	default:
		if past < i.onError {
			r.stale = e
		}
		c.count(Expired)
		return false, nil
	}
	old := e
	e, file, ok := r.open(e)
	if !ok {
		c.store.Remove(old)
		return false, nil
	}
	r.ready = e.Head()
	c.store.Use(e)
	if r.outcome == hit {
		c.count(Hits)
	} else {
		c.count(HitsStale)
		if again != nil {
			c.startRefresh(r.x, e, again)
		}
		if past < i.onError {
			r.stale = e
		}
	}
	return true, r.answer(e, file)
}

// timedFind is find, which is counted.
func (r *Run) timedFind(key []byte) *store.Entry {
	told, n := r.site.Cache.opt.LookedUp, r.timed.Next()
	if told == nil || n == 0 {
		return r.find(key)
	}
	began := time.Now()
	e := r.find(key)
	told(time.Since(began), n)
	return e
}

// find returns the entry of a key for the variant that the request has. Entries that
// were stored before another name counted for the key are for nobody any more.
func (r *Run) find(key []byte) *store.Entry {
	list := r.site.Cache.store.Find(key)
	var names []string
	known := false
	for _, e := range list {
		if e.State() == store.Gone || !r.began.Before(e.Until) {
			continue
		}
		if !known {
			known, names = true, e.Vary
			r.buf = append(r.buf[:len(key)], 0)
			r.buf = appendVariant(r.buf, &r.x.Req.Fields, names)
		}
		if len(e.Vary) == len(names) && string(r.buf[len(key)+1:]) == e.Variant && sameNames(e.Vary, names) {
			return e
		}
	}
	return nil
}

func sameNames(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// follow waits for somebody who makes the same answer, and reports whether there may be
// an entry now (R-CACHE-10). If there is nobody, this is the one.
func (r *Run) follow() bool {
	c := r.site.Cache
	if r.x.Req.Method != "GET" || r.user || c.isPassed(r.key) {
		return false
	}
	flight, leads := c.misses.Join(string(r.key))
	if leads {
		r.flight = flight
		return false
	}
	return flight.Wait(r.x.Context(), flightWait)
}

// make has h answer, as a filter that may store what it says.
func (r *Run) make(h exchange.Handler) error {
	x, c := r.x, r.site.Cache
	r.outcome = miss
	r.ticket = c.store.Ticket()
	if !x.Background {
		c.count(Misses)
	}
	if r.mayStore = x.Req.Method == "GET"; r.mayStore {
		r.seen = c.sketch.Saw(r.key)
	}
	x.Use((*handlerSide)(r))
	err := h.Serve(x)
	switch {
	case err == nil:
		return nil
	case r.replaced && !errors.Is(err, exchange.ErrClientGone) && !errors.Is(err, context.Canceled):
		return nil // the stale entry is the answer, whatever becomes of the other one
	case !x.Started() && r.stale != nil && isServerError(exchange.StatusOf(err)):
		return r.serveStale(err)
	}
	return err
}

// serveStale answers with the stale entry in the place of an error (R-CACHE-9).
func (r *Run) serveStale(failure error) error {
	e, file, ok := r.open(r.stale)
	if !ok {
		return failure
	}
	r.ready = nil
	r.mayStore, r.made = false, answer{}
	r.x.Resp.Fields.Reset()
	r.x.Resp.Length = -1
	r.x.Trailers.Reset()
	r.outcome = hitOnError
	r.site.Cache.count(HitsOnError)
	return r.answer(e, file)
}

func isServerError(status int) bool {
	return status == 500 || status == 502 || status == 503 || status == 504
}

// answer sends an entry, whose body is in file if it is not in memory.
func (r *Run) answer(e *store.Entry, file *opened) error {
	x := r.x
	if file != nil {
		defer file.close()
	}
	r.head(e)
	if r.outcome == hit && r.says.noneMatch && e.Status == 200 && tagMatches(&x.Req.Fields, infoOf(e).etag) {
		x.Resp.Length = -1
		return x.Start(304)
	}
	size := lengthOf(e, file)
	status, part := e.Status, freshness.Span{Len: size}
	if r.ranged && status == 200 {
		var err error
		if status, part, err = r.partOf(e, size); err != nil {
			return err
		}
	}
	x.Resp.Length = part.Len
	if part.Len == size {
		x.Kept = e
	}
	switch err := x.Start(status); {
	case err != nil:
		return err
	case x.Copied: // in the place of the body
		return nil
	}
	if file != nil {
		return x.SendFile(file.File, part.Off, part.Len)
	}
	return e.Body.WriteRange(x, part.Off, part.Len)
}

// partOf returns what of an entry whose body has size bytes a request with Range gets,
// and says so in the head; all of it with 200 if its Range counts for nothing.
func (r *Run) partOf(e *store.Entry, size int64) (status int, part freshness.Span, err error) {
	x := r.x
	head := freshness.HeadOf(&x.Resp.Fields, r.began)
	head.Date = e.Stored // when it was made
	part, isPart, ok := freshness.Range(&x.Req.Fields, &head, size, r.began)
	switch {
	case !ok:
		return 0, part, &exchange.Error{Status: 416, Reason: "range_not_satisfiable", Fields: []exchange.Field{{Name: "Content-Range", Value: freshness.NoneOf(size)}}}
	case !isPart:
		return 200, freshness.Span{Len: size}, nil
	}
	x.Resp.Fields.Set("Content-Range", part.Of(size))
	return 206, part, nil
}

func lengthOf(e *store.Entry, file *opened) int64 {
	if file != nil {
		return file.length
	}
	return e.Body.Len()
}

// head fills the head of the answer with that of an entry. Edits of contexts follow.
func (r *Run) head(e *store.Entry) {
	f, i := &r.x.Resp.Fields, infoOf(e)
	if r.ready != nil {
		f.AddReady(r.ready)
	} else {
		for _, fd := range e.Fields {
			f.Add(fd.Name, fd.Value)
		}
	}
	if r.outcome == hit {
		r.hitAge = i.ageAt(r.began.Sub(e.Stored))
	} else {
		r.hitAge = "0" // nobody keeps a stale answer for long (R-CACHE-9)
		f.DelFunc(forOtherCaches)
		f.Add("Cache-Control", "public, max-age=30, must-revalidate")
	}
	if r.hitPrivate = i.owner != ""; r.hitPrivate {
		f.DelFunc(forOtherCaches)
		f.Add("Cache-Control", "private, no-store")
	}
}

// forOtherCaches reports whether a field tells caches between here and the client how
// long they may keep an answer.
func forOtherCaches(f exchange.Field) bool {
	for _, name := range [...]string{"Cache-Control", "Expires", "Pragma", "CDN-Cache-Control", "Cloudflare-CDN-Cache-Control", "Surrogate-Control"} {
		if exchange.EqualName(f.Name, name) {
			return true
		}
	}
	return false
}

// ageAt is the age as a field has it.
func (i *info) ageAt(age time.Duration) string {
	n := max(0, int64(age/time.Second))
	if a := i.age.Load(); a != nil && a.seconds == n {
		return a.text
	}
	a := &ageText{n, strconv.FormatInt(n, 10)}
	i.age.Store(a)
	return a.text
}

// tagMatches compares weakly (RFC 9110 §13.1.2). A coding that was marked on the tag of
// an answer is no part of it.
func tagMatches(f *exchange.Fields, etag string) bool {
	for v := range f.Values("If-None-Match") {
		for v != "" {
			var one string
			if one, v = cutList(v); one == "*" || etag != "" && opaque(one) == opaque(etag) {
				return true
			}
		}
	}
	return false
}

// opaque is an entity tag without what says that it is weak.
func opaque(tag string) string {
	return strings.TrimPrefix(tag, "W/")
}
