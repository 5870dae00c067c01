package status

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"httpjet/exchange"
	"httpjet/trace"
)

// Timelines is /api/v1/timelines: requests whose clients asked for a timeline
// (timelineFrom), the last one first. With ?id= it is the one of that request id, with
// its events; with ?limit= as many as that at the most.
type Timelines struct {
	Enabled   bool       `json:"enabled"` // somebody may ask
	Timelines []Timeline `json:"timelines"`
}

// Timeline is what happened to one request and when. There is no address, host or
// query in it; the path is told on the control socket alone.
type Timeline struct {
	ID       string          `json:"id"`
	At       time.Time       `json:"at"`
	Took     float64         `json:"duration_ms"`
	Method   string          `json:"method"`
	Path     string          `json:"path,omitempty"`
	Protocol string          `json:"protocol"`
	VHost    string          `json:"vhost"`
	Route    string          `json:"route"`
	Handler  string          `json:"handler"`
	Scope    string          `json:"scope"`
	Group    string          `json:"group"`
	Status   int             `json:"status"`
	Error    string          `json:"error"` // reason token, "" for none
	Bytes    int64           `json:"bytes"`
	Attempts int             `json:"attempts"`
	TraceID  string          `json:"trace_id"`
	Lost     int             `json:"lost_events"` // above the bounds of a timeline
	Events   []TimelineEvent `json:"events,omitempty"`

	// The same, as who draws it needs it: what lasted, and what happened at once.
	Calls   []TimelineAttempt `json:"attempt_list,omitempty"`
	Moments []TimelineMoment  `json:"moments,omitempty"`
}

// TimelineAttempt is one attempt, with the phases that it had until the head of the
// reply; what is left of its time is the body's. Times are in milliseconds.
type TimelineAttempt struct {
	After   float64 `json:"ms"` // since the request was there
	Took    float64 `json:"took_ms"`
	Group   string  `json:"group"` // scope and name
	Peer    int     `json:"peer"`
	Queue   float64 `json:"queue_ms"`
	Dial    float64 `json:"dial_ms"`
	Head    float64 `json:"head_ms"`
	Status  int     `json:"status"` // of the reply; 0: there was none
	Outcome string  `json:"outcome"`
}

// TimelineMoment is something that took no time.
type TimelineMoment struct {
	After float64 `json:"ms"` // since the request was there
	What  string  `json:"what"`
	Text  string  `json:"text,omitempty"`
	Bytes int64   `json:"bytes"` // of the answer that were sent by then
}

// TimelineEvent is one thing that happened.
type TimelineEvent struct {
	After float64 `json:"ms"` // since the request was there
	What  string  `json:"what"`
	Text  string  `json:"text,omitempty"`
}

func (a *API) timelines(r *http.Request) (int, any) {
	out := Timelines{Timelines: []Timeline{}}
	g := a.State().Generation
	if g == nil || g.Timelines() == nil {
		return http.StatusOK, out
	}
	out.Enabled = true
	if id := r.URL.Query().Get("id"); id != "" {
		if found := g.Timelines().Find(id); found != nil {
			t := a.timeline(found)
			t.Events, t.Calls, t.Moments = events(found), calls(found), moments(found)
			out.Timelines = append(out.Timelines, t)
		}
		return http.StatusOK, out
	}
	list := g.Timelines().List()
	if most, err := strconv.ParseUint(r.URL.Query().Get("limit"), 10, 31); err == nil {
		list = list[:min(len(list), int(most))]
	}
	for _, one := range list {
		out.Timelines = append(out.Timelines, a.timeline(one))
	}
	return http.StatusOK, out
}

func (a *API) timeline(r *trace.Record) Timeline {
	t := Timeline{ID: r.ID, At: r.Began.UTC(), Took: millis(r.Ended.Sub(r.Began)), Method: r.Method, Protocol: r.Proto, VHost: r.VHost, Route: r.Route,
		Handler: r.Kind.String(), Scope: r.Scope, Group: r.Group, Status: r.Status, Error: r.Reason, Bytes: r.Written, Attempts: len(r.Attempts), Lost: r.Lost}
	if a.Whole {
		t.Path = r.Path
	}
	if r.Trace.ID != [16]byte{} {
		t.TraceID = hex.EncodeToString(r.Trace.ID[:])
	}
	return t
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// calls are the attempts of r.
func calls(r *trace.Record) []TimelineAttempt {
	var out []TimelineAttempt
	for i := range r.Attempts {
		a := &r.Attempts[i]
		c := TimelineAttempt{After: millis(a.Began.Sub(r.Began)), Took: millis(a.Ended.Sub(a.Began)), Group: groupName(r, a), Peer: a.Peer,
			Queue: millis(a.Queue), Dial: millis(a.Dial), Status: a.Status, Outcome: a.Outcome}
		if a.Status > 0 {
			c.Head = millis(a.Head)
		}
		out = append(out, c)
	}
	return out
}

// moments are those of r.
func moments(r *trace.Record) []TimelineMoment {
	var out []TimelineMoment
	for _, m := range r.Moments {
		out = append(out, TimelineMoment{millis(m.At.Sub(r.Began)), m.What, m.Text, m.N})
	}
	return out
}

// events are the moments and the phases of attempts of r in the order of time.
func events(r *trace.Record) []TimelineEvent {
	var out []TimelineEvent
	add := func(at time.Time, what, format string, args ...any) {
		out = append(out, TimelineEvent{millis(at.Sub(r.Began)), what, fmt.Sprintf(format, args...)})
	}
	add(r.Began, "request", "its head is here")
	for i := range r.Attempts {
		a := &r.Attempts[i]
		add(a.Began, "attempt", "%d, to peer %d of %s", i+1, a.Peer, groupName(r, a))
		at := a.Began
		phase := func(d time.Duration, what string) {
			if at = at.Add(d); d > 0 {
				add(at, what, "after %.3f ms", millis(d))
			}
		}
		phase(a.Queue, "queue")
		phase(a.Dial, "dial")
		if a.Status > 0 {
			at = at.Add(a.Head)
			add(at, "head", "%d, after %.3f ms", a.Status, millis(a.Head))
		}
		switch {
		case a.Outcome != "":
			add(a.Ended, "attempt ended", "%s", a.Outcome)
		case a.Status == 101:
			add(a.Ended, "attempt ended", "the tunnel is open")
		}
	}
	for _, m := range r.Moments {
		text := m.Text
		if m.N > 0 {
			text = fmt.Sprintf("%d bytes so far", m.N)
		}
		add(m.At, m.What, "%s", text)
	}
	add(r.Ended, "end", "%d bytes in %.3f ms", r.Written, millis(r.Ended.Sub(r.Began)))
	slices.SortStableFunc(out, func(a, b TimelineEvent) int { return cmp.Compare(a.After, b.After) })
	return out
}

func groupName(r *trace.Record, a *exchange.Attempt) string {
	if a.Group == "" {
		return r.Scope + "/" + r.Group
	}
	return a.Scope + "/" + a.Group
}
