package pagecache

import (
	"slices"
	"strings"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
	"httpjet/store"
)

// judge decides if an answer is stored (R-CACHE-4, R-CACHE-6, R-CACHE-7). asked is what
// X-LiteSpeed-Cache-Control says; vary and tags are values of the fields of that name.
func (r *Run) judge(asked *control, vary, tags []string) decision {
	no := func(count Count, why string) decision { return decision{why: why, count: count} }
	x, p := r.x, &r.policy
	f := &x.Resp.Fields
	standard := readStandard(f)
	said, explicit := asked, asked.any
	if !explicit {
		said = &r.rules.control
	}
	var d decision
	switch {
	case said.noStore:
		return no(NoStore, "no-cache of the application")
	case said.any && said.bad != "":
		return no(NotAsked, said.bad+" that is no number")
	case said.any && said.vary == "" || said.public || said.private || said.life.set() || said.sharedLife.set():
		d.private = said.private
	case r.site.Standard && standard.public && standard.sharedLife.set() && (!standard.life.set() || standard.sharedLife > standard.life):
		said = &standard
	case r.local && p.Store:
	case r.local && p.StorePrivate:
		d.private = true
	default:
		return no(NotAsked, "nobody asked for it")
	}
	if !explicit && !p.IgnoreAnswer || p.Respect {
		switch {
		case standard.noStore || f.HasToken("Pragma", "no-cache"):
			return no(NoStore, "Cache-Control of the answer")
		case standard.private && !d.private && p.StorePrivate:
			d.private = true
		case standard.private && !d.private:
			return no(Private, "Cache-Control of the answer is private")
		}
	}
	if why, count := r.mayNotShare(d.private, explicit); why != "" {
		return no(count, why)
	}
	if why := r.unfit(explicit); why != "" {
		return no(Other, why)
	}
	if d.life = r.lifeOf(said, &standard, d.private, explicit); d.life <= 0 {
		return no(NotAsked, "max-age is 0")
	}
	d.coded, _ = codingOf(r.made.fields)
	var why string
	if d.vary, why = r.varyOf(vary, said.noVary, d.private); why != "" {
		return no(Other, why)
	}
	d.stale, d.onError = r.staleOf(said, &standard)
	own := ""
	if d.private {
		own = string(r.owner[:])
	}
	if d.tags = tagsOf(r.site.Name, own, x.Req.Target, tags); len(d.tags) >= maxTags {
		return no(Other, "too many tags")
	}
	d.store = true
	return d
}

// readStandard reads Cache-Control of an answer.
func readStandard(f *exchange.Fields) (c control) {
	for v := range f.Values("Cache-Control") {
		c.read(v)
	}
	return c
}

// mayNotShare says why an answer may be one user's that would be stored for others, or
// for nobody who can be told.
func (r *Run) mayNotShare(private, explicit bool) (string, Count) {
	x, p, s := r.x, &r.policy, r.site
	f := &x.Resp.Fields
	for _, name := range s.PrivateCookies {
		for v := range f.Values("Set-Cookie") {
			if set, _, _ := strings.Cut(v, "="); strings.TrimSpace(set) == name {
				return "the answer sets a private cookie", Private
			}
		}
	}
	if private {
		switch {
		case !p.LookUpPrivate && !p.StorePrivate:
			return "private entries are off", Private
		case !r.owned:
			return "private, and no session cookie tells whose", Private
		}
		return "", 0
	}
	switch {
	case !p.LookUp && !p.Store:
		return "public entries are off", NotAsked
	case r.user:
		return "a user's request", Private
	case explicit:
		return "", 0
	case p.NoCookies && x.Req.Fields.Has("Cookie"):
		return "request with cookies", Private
	case p.NoSetCookies && f.Has("Set-Cookie"):
		return "the answer sets a cookie", Private
	}
	// Whoever asks for it with a session, or gets one, may have got a page of his own.
	for v := range f.Values("Set-Cookie") {
		if name, _, _ := strings.Cut(v, "="); isSession(strings.TrimSpace(name)) {
			return "the answer begins a session", Private
		}
	}
	for name := range cookies(&x.Req.Fields) {
		if isSession(name) {
			return "request with a session", Private
		}
	}
	return "", 0
}

// unfit says why an answer cannot be stored, whoever would like it (R-CACHE-7).
func (r *Run) unfit(explicit bool) string {
	x, p := r.x, &r.policy
	f := &x.Resp.Fields
	switch status := r.made.status; {
	case x.Resp.Status != status:
		return "another status was made of it"
	case !storable(status, p.Statuses, explicit):
		return "status"
	case f.Has("Content-Range"):
		return "a part"
	case r.made.length == 0 && status == 200:
		return "empty"
	case r.made.length > p.MaxObject:
		return "too large"
	case f.Has("Trailer"):
		return "trailers"
	case isEventStream(f.Get("Content-Type")):
		return "event stream"
	}
	if why := r.undecodable(); why != "" {
		return why
	}
	if to := f.Get("Location"); to != "" && r.leadsBack(to) {
		return "redirect to itself"
	}
	return ""
}

// leadsBack reports whether Location leads to what has the key of the request. The
// application was asked for it by another name, and sends to the one that it likes: stored,
// that would go round for everybody. What cannot be read may do so.
func (r *Run) leadsBack(location string) bool {
	q, mod := &r.x.Req, r.keyMod()
	from, to, ok := freshness.Redirect(q.Scheme, q.Host, q.Target, location)
	key := func(p freshness.Place) string {
		return string(appendKey(nil, r.site.Name, p.Scheme, p.Host, p.Target, mod))
	}
	return !ok || key(from) == key(to)
}

// storable reports whether answers of a status may be stored: those that the operator
// lists, else 200 and 301, else what an application asks for that is no error of its own.
func storable(status int, listed []int, explicit bool) bool {
	if listed != nil {
		return slices.Contains(listed, status) && status != 206 && status != 304 && !freshness.NeverKept(status)
	}
	switch status {
	case 200, 301:
		return true
	case 203, 300, 302, 303, 307, 308, 404, 410:
		return explicit
	}
	return false
}

func isEventStream(mediaType string) bool {
	t, _, _ := strings.Cut(mediaType, ";")
	return exchange.EqualName(strings.TrimSpace(t), "text/event-stream")
}

// lifeOf is how long the answer is fresh (R-CACHE-8).
func (r *Run) lifeOf(said, standard *control, private, explicit bool) time.Duration {
	p := &r.policy
	life, ok := said.age()
	if !ok && !explicit {
		if life, ok = r.rules.age(); !ok && !p.IgnoreAnswer {
			life, ok = standard.age()
		}
	}
	switch {
	case ok:
	case private:
		life = p.PrivateLife
	default:
		life = p.Life
	}
	if p.MaxLife > 0 {
		life = min(life, p.MaxLife)
	}
	if private {
		life = min(life, maxPrivateLife)
	}
	return min(life, maxLife)
}

// staleOf is how long the answer is served when it is not fresh any more (R-CACHE-9).
func (r *Run) staleOf(said, standard *control) (stale, onError time.Duration) {
	p := &r.policy
	if !said.mustRevalidate && !standard.mustRevalidate {
		stale, onError = p.MaxStale, p.StaleIfError
	}
	for _, n := range [...]seconds{standard.staleWhileRevalidate, said.staleWhileRevalidate, said.maxStale} {
		if n.set() {
			stale = n.duration()
		}
	}
	for _, n := range [...]seconds{standard.staleIfError, said.staleIfError} {
		if n.set() {
			onError = n.duration()
		}
	}
	return min(stale, maxStale), min(onError, maxStale)
}

// varyOf is what the variants of the answer are told apart by, beside what was known of
// the URL before.
func (r *Run) varyOf(fields []string, noVary, private bool) (names []string, why string) {
	add := func(kind, name string) {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, kind+strings.Clone(name))
		}
	}
	for _, field := range fields {
		for one := range elements(field) {
			name, ok := strings.CutPrefix(one, "cookie=")
			if !ok || !r.site.varies(name) {
				return nil, "X-LiteSpeed-Vary: " + one
			}
			add(byCookie, name)
		}
	}
	for name := range elements(r.rules.cookies) {
		add(byCookie, name)
	}
	if !noVary {
		for one := range r.x.Resp.Fields.Tokens("Vary") {
			switch name := strings.ToLower(one); {
			case name == "accept-encoding": // what is stored has no coding
			case name == "*":
				return nil, "Vary: *"
			case !r.local && freshness.OfHop(name):
				return nil, "Vary: " + name
			default:
				add(byField, name)
			}
		}
	}
	key := r.key
	if private {
		key = r.privateKey()
	}
	names = union(nil, names)
	for _, e := range r.site.Cache.store.Find(key) {
		if e.State() != store.Gone && r.began.Before(e.Until) {
			names = union(e.Vary, names)
			break
		}
	}
	if len(names) > maxVaryNames {
		return nil, "too many names in Vary"
	}
	return names, ""
}

// varies reports whether an application may tell variants apart by a cookie.
func (s *Site) varies(name string) bool {
	if s.VaryCookies == nil {
		return true
	}
	return slices.Contains(s.VaryCookies, name)
}
