package exchange

import "time"

// Trace is an exchange's place in a distributed trace: W3C Trace Context.
type Trace struct {
	ID      [16]byte
	Span    [8]byte // of the exchange itself
	Parent  [8]byte // whose request it is; zero: the trace begins here
	Sampled bool    // it is recorded, here and, if they agree, further on
}

// Timeline is what happened to one exchange and when, for those few of which
// somebody wants to know: they are traced, or their client asks. It belongs to the
// goroutine that serves the exchange.
type Timeline struct {
	Asked    bool // by the client: its answer tells by which id it is found
	Moments  []Moment
	Attempts []Attempt
	Lost     int // moments and attempts above the bounds

	open bool // the last of Attempts is under way
}

// Bounds of a timeline.
const (
	maxMoments  = 100
	maxRecorded = 32 // attempts
)

// Moment is something that happened. Its strings outlive the exchange.
type Moment struct {
	At   time.Time
	What string // a word of docs/vocabulary.md
	Text string // "" for nothing to add
	N    int64  // bytes sent so far
}

// Attempt is one call to a peer as it went.
type Attempt struct {
	Scope   string // of the group
	Group   string
	Peer    int
	Span    [8]byte   // of the call
	Began   time.Time // a peer was chosen
	Ended   time.Time // behind the last byte; of a tunnel, its handshake
	Phases            // up to the head of the reply
	Status  int       // of the reply; 0: there was none
	Outcome string    // R-LOG-2
}

// Phases are where the time of an attempt went until there was a reply.
type Phases struct {
	Queue time.Duration // the wait for a connection that is free
	Dial  time.Duration // making one: name, connect, TLS
	Head  time.Duration // from then on to the head of the reply, with the upload
}

// Mark notes that something happens now. It costs nothing without a timeline.
func (x *Exchange) Mark(what, text string) {
	if x.Timeline != nil {
		x.Timeline.mark(time.Now(), what, text, x.written)
	}
}

func (t *Timeline) mark(at time.Time, what, text string, n int64) {
	if len(t.Moments) == maxMoments {
		t.Lost++
		return
	}
	t.Moments = append(t.Moments, Moment{at, what, text, n})
}

// TimelineField is the field by which a client asks for a timeline, and is told its id.
const TimelineField = "X-Httpjet-Timeline"

// begins notes that the answer begins, and tells a client that has asked the id.
func (t *Timeline) begins(x *Exchange) {
	if t.Asked {
		x.Resp.Fields.Set(TimelineField, x.Req.ID)
	}
	t.mark(time.Now(), "answer", x.Resp.Fields.Get("Cache-Status"), 0)
}

// attempt notes an attempt that begins.
func (t *Timeline) attempt(scope, group string, peer int, at time.Time) {
	if t.open = len(t.Attempts) < maxRecorded; !t.open {
		t.Lost++
		return
	}
	t.Attempts = append(t.Attempts, Attempt{Scope: scope, Group: group, Peer: peer, Began: at})
}

// Attempt is the attempt that is under way; nil if it is not recorded.
func (t *Timeline) Attempt() *Attempt {
	if t == nil || !t.open {
		return nil
	}
	return &t.Attempts[len(t.Attempts)-1]
}
