package trace

import (
	"strings"
	"sync"
	"time"

	"httpjet/exchange"
)

// Record is what is kept of an exchange that is over. It shares no memory with it and
// does not change.
type Record struct {
	Trace exchange.Trace // zero ID: none

	Began, Ended        time.Time
	ID                  string // of the request
	Method, Path, Query string // Path as the client sent it
	Scheme, Host, Proto string
	Client, Agent       string
	VHost, Route        string
	Kind                exchange.Kind
	Scope, Group        string // of the upstream; "": none
	Status              int
	Reason              string // token of the failure, "" for none
	Written             int64  // bytes of the answer's body
	Attempts            []exchange.Attempt
	Moments             []exchange.Moment
	Lost                int // moments and attempts that were too many
}

// NewRecord makes the record of x, which ends at a time with err.
func NewRecord(x *exchange.Exchange, err error, ended time.Time) *Record {
	q := &x.Req
	path, query, _ := strings.Cut(q.Target, "?")
	r := &Record{Began: x.Began, Ended: ended, ID: strings.Clone(q.ID), Method: strings.Clone(q.Method), Path: strings.Clone(path),
		Query: strings.Clone(query), Scheme: strings.Clone(q.Scheme), Host: strings.Clone(q.Host), Proto: strings.Clone(q.Proto),
		Client: x.ClientText(), Agent: strings.Clone(q.Fields.Get("User-Agent")), VHost: x.Route.VHost, Route: x.Route.Label,
		Kind: x.Route.Kind, Scope: x.Route.Scope, Group: x.Route.Group, Status: x.LoggedStatus(err), Reason: exchange.ReasonOf(err), Written: x.Written()}
	if r.Began.IsZero() {
		r.Began = ended
	}
	if x.Trace != nil {
		r.Trace = *x.Trace
	}
	if t := x.Timeline; t != nil {
		r.Attempts, r.Moments, r.Lost = t.Attempts, t.Moments, t.Lost
		for i := range r.Attempts {
			if a := &r.Attempts[i]; a.Ended.IsZero() {
				a.Ended = ended
			}
		}
	}
	return r
}

// Timelines are the last exchanges whose clients asked for a timeline. Any goroutine
// may call its methods.
type Timelines struct {
	mu   sync.Mutex
	ring []*Record // the next one takes the place at
	at   int
}

// NewTimelines keeps so many, at least one.
func NewTimelines(most int) *Timelines { return &Timelines{ring: make([]*Record, max(1, most))} }

// Keep adds r; the oldest one goes.
func (t *Timelines) Keep(r *Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ring[t.at] = r
	t.at = (t.at + 1) % len(t.ring)
}

// List returns all, the last one first.
func (t *Timelines) List() []*Record {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*Record
	for i := range t.ring {
		if r := t.ring[(t.at-1-i+2*len(t.ring))%len(t.ring)]; r != nil {
			out = append(out, r)
		}
	}
	return out
}

// Find returns the one of a request id, nil if it is not kept.
func (t *Timelines) Find(id string) *Record {
	for _, r := range t.List() {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// Retire implements the contract of leased values; there is nothing to give up.
func (t *Timelines) Retire() {}
