// Package freshness decides what a shared HTTP cache may do (RFC 9111): whether a
// response may be kept, for how long it is fresh, whether it may answer a request,
// what a 304 changes of it, which fields select it, and what an unsafe request
// invalidates. It keeps nothing, asks nobody and has no clock: times are given.
package freshness

import (
	"slices"
	"strings"
	"time"

	"httpjet/exchange"
)

// Rules are what an operator adds to what messages say. The zero value keeps what
// the messages permit, for as long as they say.
type Rules struct {
	// Default is the lifetime of a response that says nothing of its own; 0: it has
	// none. It is for responses with a validator, or for all, see DefaultForAll.
	Default       time.Duration
	DefaultForAll bool

	Max time.Duration // longest time that it is fresh here; 0: any, below 0: none

	// For responses that say nothing of it and forbid nothing (RFC 5861).
	StaleWhileRevalidate, StaleIfError time.Duration

	Statuses []int // nothing else is kept; nil: whatever RFC 9111 permits
	NoVary   bool  // responses with Vary are not kept

	// Targeted honours CDN-Cache-Control instead of Cache-Control and Expires
	// (RFC 9213).
	Targeted bool
}

// Life is what is remembered of a response to decide on its reuse.
type Life struct {
	Received time.Time     // when its head was in
	Age      time.Duration // at that time (RFC 9111 §4.2.3)
	Lifetime time.Duration // age at which it is stale

	WhileRevalidate, IfError time.Duration // how long it may be used behind that, and when

	Validate bool // never without asking: no-cache
	Strict   bool // never stale: must-revalidate and its kin
}

// AgeAt is the current age. Times of one process are told apart by its monotonic
// clock, so that a clock that is set makes nothing fresh again.
func (l *Life) AgeAt(now time.Time) time.Duration { return l.Age + max(0, now.Sub(l.Received)) }

// TTL is how long it is fresh from now on, below 0 if it is not.
func (l *Life) TTL(now time.Time) time.Duration { return l.Lifetime - l.AgeAt(now) }

// Refusal is why a response is not kept; "" if it is. It goes into Cache-Status.
type Refusal string

// Refusals.
const (
	Kept             Refusal = ""
	NotGet           Refusal = "method"
	NotWanted        Refusal = "request-no-store"
	Partial          Refusal = "partial"
	OddStatus        Refusal = "status"
	ForbidsStore     Refusal = "no-store"
	OnlyPrivate      Refusal = "private"
	SetsCookie       Refusal = "set-cookie"
	NeedsCredentials Refusal = "authorization"
	VariesByAll      Refusal = "vary"
	EventStream      Refusal = "event-stream"
	LeadsBack        Refusal = "redirect-to-itself"
	NotReusable      Refusal = "no-freshness" // nothing says that it is fresh, and it cannot be validated
)

// understood are the statuses whose meaning for caches is known here (RFC 9111
// §5.2.2.3): those of RFC 9110 that stand for themselves.
func understood(status int) bool {
	switch status {
	case 200, 201, 202, 203, 204, 205, 300, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409,
		410, 411, 413, 414, 415, 421, 422, 426, 500, 501, 502, 503, 504, 505:
		return true
	}
	return false
}

// NeverKept reports whether responses with this status are kept by no cache, whoever
// permits it: those of which RFC 6585 §3 to §6 forbids it, and failures of what one request
// asked for beside its target, its conditions, Range and Expect.
func NeverKept(status int) bool {
	switch status {
	case 412, 416, 417, 428, 429, 431, 511:
		return true
	}
	return false
}

// heuristic reports whether a response with this status may have a lifetime that
// nobody has told (RFC 9110 §15.1).
func heuristic(status int) bool {
	switch status {
	case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

// control is the Cache-Control that holds for a response; targeted says that it
// stands in the place of Expires too.
func (r *Rules) control(f *exchange.Fields) (d Directives, targeted bool) {
	if r.Targeted && f.Has("CDN-Cache-Control") {
		if d, ok := parseTargeted(f, "CDN-Cache-Control"); ok {
			return d, true
		}
	}
	return ParseDirectives(f, "Cache-Control"), false
}

// Judge decides whether the response a to q may be kept, and how it lives. The head
// of q was sent, and that of a received at these times.
func (r *Rules) Judge(q *exchange.Request, a *exchange.Response, sent, received time.Time) (Life, Refusal) {
	d, targeted := r.control(&a.Fields)
	if why := r.refuse(q, a, &d); why != Kept {
		return Life{}, why
	}
	l := Life{Received: received, Age: initialAge(&a.Fields, sent, received), Validate: d.Any(NoCache),
		Strict: d.Any(NoCache | MustRevalidate | ProxyRevalidate | SMaxAge)}
	explicit := d.Any(Public | MaxAge | SMaxAge) // or Expires, below
	told := false
	l.Lifetime, told = r.lifetime(q, a, &d, targeted, received)
	if !told && !explicit && !heuristic(a.Status) {
		return Life{}, OddStatus // RFC 9111 §3
	}
	if r.Max != 0 {
		l.Lifetime = min(l.Lifetime, l.Age+max(0, r.Max)) // R-PCACHE-3: Age is taken off before
	}
	r.stale(&l, &d)
	validator := a.Fields.Has("ETag") || a.Fields.Has("Last-Modified")
	if !validator && (l.Validate || l.Lifetime+max(l.WhileRevalidate, l.IfError) <= l.Age) {
		return Life{}, NotReusable
	}
	return l, Kept
}

// refuse finds what forbids to keep a response (RFC 9111 §3).
func (r *Rules) refuse(q *exchange.Request, a *exchange.Response, d *Directives) Refusal {
	if d.Any(MustUnderstand) { // RFC 9111 §5.2.2.3
		if !understood(a.Status) {
			return OddStatus
		}
		d.Has &^= NoStore
	}
	switch {
	case q.Method != "GET":
		return NotGet
	case a.Status == 206 || a.Status == 304:
		return Partial
	case a.Status < 200 || a.Status > 599 || NeverKept(a.Status) || r.Statuses != nil && !slices.Contains(r.Statuses, a.Status):
		return OddStatus
	case d.Any(NoStore):
		return ForbidsStore
	case d.Any(Private):
		return OnlyPrivate
	case isEventStream(&a.Fields):
		return EventStream
	case leadsBack(q, a):
		return LeadsBack
	case a.Fields.Has("Set-Cookie"):
		return SetsCookie // G55
	case q.Fields.Has("Authorization") && !d.Any(Public|SMaxAge|MustRevalidate): // RFC 9111 §3.5
		return NeedsCredentials
	case r.NoVary && a.Fields.Has("Vary"):
		return VariesByAll
	}
	if req := ParseRequest(&q.Fields); req.Any(NoStore) {
		return NotWanted
	}
	return Kept
}

// isEventStream reports whether a response goes on for as long as both sides like
// (G40). Nobody is made to wait for its end.
func isEventStream(f *exchange.Fields) bool {
	t, _, _ := strings.Cut(f.Get("Content-Type"), ";")
	return exchange.EqualName(trimRight(trimLeft(t)), "text/event-stream")
}

// lifetime is the freshness lifetime of a response (RFC 9111 §4.2.1), and whether
// anything tells it.
func (r *Rules) lifetime(q *exchange.Request, a *exchange.Response, d *Directives, targeted bool, now time.Time) (time.Duration, bool) {
	switch {
	case d.Any(SMaxAge):
		return d.SMaxAge, true
	case d.Any(MaxAge):
		return d.MaxAge, true
	case !targeted && a.Fields.Has("Expires"):
		return expires(&a.Fields, now), true
	case r.Default == 0 || !heuristic(a.Status) && !d.Any(Public):
		return 0, false
	case !r.DefaultForAll && !a.Fields.Has("Last-Modified") && !a.Fields.Has("ETag"):
		return 0, false
	case q.Fields.Has("Cookie") && !d.Any(Public):
		return 0, false // it may be made for one user, and does not say that it is not
	case a.Fields.HasToken("Pragma", "no-cache") && !a.Fields.Has("Cache-Control"):
		return 0, false
	}
	return r.Default, false
}

// expires is the lifetime that Expires tells. One that cannot be read is over
// (RFC 9111 §5.3), and so is one that is told twice.
func expires(f *exchange.Fields, now time.Time) time.Duration {
	var until time.Time
	n := 0
	for v := range f.Values("Expires") {
		t, ok := ParseDate(v, now)
		if n++; !ok || n > 1 {
			return 0
		}
		until = t
	}
	return max(0, until.Sub(dateOf(f, now)))
}

// dateOf is when the origin made the response: Date, else when it was received.
func dateOf(f *exchange.Fields, received time.Time) time.Time {
	if t, ok := ParseDate(f.Get("Date"), received); ok {
		return t
	}
	return received
}

// initialAge is the corrected initial age (RFC 9111 §4.2.3).
func initialAge(f *exchange.Fields, sent, received time.Time) time.Duration {
	apparent := time.Duration(0)
	if t, ok := ParseDate(f.Get("Date"), received); ok {
		// Date has whole seconds: what is less than one is none.
		if d := received.Sub(t); d >= time.Second {
			apparent = d
		}
	}
	told, ok := seconds(firstMember(f.Get("Age")))
	if !ok {
		told = 0
	}
	return max(apparent, told+max(0, received.Sub(sent)))
}

// firstMember is what counts of an Age that was written as a list (RFC 9111 §5.1).
func firstMember(v string) string {
	i := 0
	for i < len(v) && v[i] != ',' {
		i++
	}
	return trimRight(trimLeft(v[:i]))
}

// stale sets how long the response may be used when it is stale. What it says
// itself goes before the rules, and what forbids goes before both; s-maxage alone
// forbids what nobody has allowed expressly.
func (r *Rules) stale(l *Life, d *Directives) {
	if d.Any(NoCache | MustRevalidate | ProxyRevalidate) {
		return
	}
	if !l.Strict {
		l.WhileRevalidate, l.IfError = r.StaleWhileRevalidate, r.StaleIfError
	}
	if d.Any(StaleWhileRevalidate) {
		l.WhileRevalidate = d.StaleWhileRevalidate
	}
	if d.Any(StaleIfError) {
		l.IfError = d.StaleIfError
	}
}

// Use is how a kept response answers a request.
type Use uint8

const (
	Fresh    Use = iota // as it is
	Stale               // as it is: the client takes it
	Refresh             // as it is, while it is validated for those who come later
	Validate            // when the origin has said that it is the same
)

// Decide says how a response that matches a request may answer it, and for
// Validate whether the request alone asks for it (RFC 9111 §4.2, §5.2.1).
func (l *Life) Decide(wants *Directives, now time.Time) (u Use, byRequest bool) {
	age := l.AgeAt(now)
	fresh := age < l.Lifetime && !l.Validate
	if wants.Has != 0 {
		switch {
		case wants.Any(NoCache),
			wants.Any(MaxAge) && (age > wants.MaxAge || wants.MaxAge == 0),
			wants.Any(MinFresh) && l.Lifetime-age < wants.MinFresh:
			return Validate, fresh
		}
	}
	switch {
	case fresh:
		return Fresh, false
	case l.Validate:
		return Validate, false
	case age < l.Lifetime+l.WhileRevalidate:
		return Refresh, false
	case wants.Any(MaxStale) && !l.Strict && age-l.Lifetime <= wants.MaxStale:
		return Stale, false
	}
	return Validate, false
}

// UsableOnError reports whether it may answer because the origin fails (RFC 5861 §4).
func (l *Life) UsableOnError(now time.Time) bool {
	return !l.Validate && l.AgeAt(now) < l.Lifetime+l.IfError
}
