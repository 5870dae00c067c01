package proxy

import (
	"errors"
	"fmt"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/forward"
	"httpjet/groups"
	"httpjet/streaming"
)

// tries are the attempts of one exchange. They belong to the goroutine that serves
// it.
//
// An attempt that could not connect goes on with the next peer, whatever the
// request: nothing of it was sent (R-GRP-6). One that was sent and failed, or was
// answered with a status that calls for it, is made again if the policy covers the
// request and the body can be had once more: the peer is charged and released,
// another one is reserved, and a pause waited for (R-RETRY-4).
type tries struct {
	h      *Handler
	x      *exchange.Exchange
	hop    *hop
	choice groups.Choice
	policy *Retry        // nil: it is not made again
	held   *budget.Spool // the body, if it was small and is held whole
	body   *replay       // what is kept of another body; nil for none
	by     time.Time     // when the head has to be in, zero for never (R-TMO-4)

	next    groups.Reservation // of the attempt that follows
	pause   time.Duration      // before it
	repeats int                // attempts made again
}

// prepare decides what may be done for the exchange.
func (t *tries) prepare() {
	x, h := t.x, t.h
	if h.RequestTimeout > 0 {
		t.by = x.Began
		if t.by.IsZero() {
			t.by = time.Now()
		}
		t.by = t.by.Add(h.RequestTimeout)
	}
	if h.Retry == nil {
		return
	}
	if !h.Retry.covers(x.Req.Method, &x.Req.Fields) {
		t.hop.call.NoReplay = true // R-RETRY-7
		return
	}
	if h.Retry.Retries == 0 {
		return
	}
	switch {
	case x.Req.Length > h.Retry.BufSize:
		return // it streams once (R-RETRY-6)
	case x.Req.Length != 0 && t.held == nil:
		t.body = newReplay(h.Retry, x.Body(), x.StopBody, x.Req.Length)
	}
	t.policy = h.Retry
}

// end ends what is left of the attempts.
func (t *tries) end() {
	t.hop.call.Close()
	t.body.close()
}

// run makes attempts until one is relayed or none may follow.
func (t *tries) run() error {
	res, err := t.h.Group.Reserve(&t.choice)
	if err != nil {
		return err
	}
	for {
		follows, err := t.attempt(&res)
		if !follows {
			return err
		}
		t.x.EndAttempt(time.Now()) // the pause is no part of it
		res = t.next
		if t.pause > 0 {
			if err := t.policy.wait(t.x.Context(), t.pause); err != nil {
				res.Release(groups.ErrUndecided)
				return fmt.Errorf("%w: %v", exchange.ErrClientGone, err)
			}
		}
	}
}

// attempt makes the call to one peer, and relays its reply unless another attempt
// follows, for which next is then reserved. The reservation ends with it, also in a
// panic, which says nothing about the peer (R-GRP-8).
func (t *tries) attempt(res *groups.Reservation) (follows bool, err error) {
	end := groups.ErrUndecided
	defer func() { res.End(t.x, end) }()
	call := &t.hop.call
	res.Begin(t.x, t.now())
	t.h.Forward.Trace.Attempt(t.x, &t.hop.fields)
	call.HeadBy = t.headBy()
	switch {
	case t.held != nil:
		call.Close() // what an attempt before has begun to read
		call.Body = t.held.Reader()
	case t.body != nil:
		call.Close()
		r := &replayed{p: t.body}
		call.Body, call.StopBody = r, r.stop
	}
	reply, err := res.Client().Do(t.x.Context(), call)
	call.Now = time.Time{} // the next peer's turn comes later
	if err != nil {
		end = err
		res.End(t.x, err) // a peer is charged before another one is chosen
		return t.failed(err)
	}
	if t.h.Answered != nil && reply.Took > 0 {
		t.h.Answered(reply.Took)
	}
	res.Answered(reply.Status)
	t.x.AttemptReplied(reply.Status, reply.Phases())
	if t.policy != nil && t.policy.status(reply.Status) && t.mayRepeat() && t.again() == nil {
		end = groups.ErrSetAside
		reply.Close()
		return true, nil
	}
	forward.StripPolicy(&reply.Fields)
	res.Remember(t.x, &t.choice, &reply.Fields)
	if t.h.Tunnels != nil && isEventStream(&reply.Fields) {
		end, err = t.stream(reply, res.Peer())
		return false, err
	}
	end = streaming.Relay(t.x, reply)
	return false, end
}

// now is when the attempt that begins does so.
func (t *tries) now() time.Time {
	if t.hop.call.Now.IsZero() {
		t.hop.call.Now = time.Now()
	}
	return t.hop.call.Now
}

// headBy is when the head of the attempt that begins has to be in.
func (t *tries) headBy() time.Time {
	if t.h.AttemptTimeout == 0 {
		return t.by
	}
	by := t.now().Add(t.h.AttemptTimeout)
	if !t.by.IsZero() && t.by.Before(by) {
		return t.by
	}
	return by
}

// failed reports whether an attempt follows one that has no reply; if none does,
// the error is the answer.
func (t *tries) failed(err error) (follows bool, answer error) {
	_, unsent := errors.AsType[*extproc.DialError](err)
	if unsent {
		if next, none := t.h.Group.Reserve(&t.choice); none == nil {
			t.next, t.pause = next, 0
			return true, nil
		}
	}
	switch {
	case t.policy == nil || !t.policy.failed(err):
	case unsent && !t.policy.SamePeer && t.repeats == 0: // every peer was tried (R-GRP-7)
	case !t.mayRepeat():
	default:
		none := t.again()
		if none == nil {
			return true, nil
		}
		return false, &exchange.Error{Status: none.Status, Reason: none.Reason, Fields: none.Fields, Err: err}
	}
	return false, err
}

// mayRepeat reports whether the request, not only its kind, may be made again: it
// was not too often, nothing has reached the client, who is still there, and the
// body can be had again (R-RETRY-6).
func (t *tries) mayRepeat() bool {
	return t.repeats < t.policy.Retries && !t.hop.informed && t.x.Context().Err() == nil && t.body.whole()
}

// errNoneLeft is the answer if no peer is left for another attempt (R-RETRY-5).
var errNoneLeft = &exchange.Error{Status: 503, Reason: "no_upstream_after_retry",
	Fields: []exchange.Field{{Name: "Retry-After", Value: "1"}}}

// errNoTime is the answer if the time of the request is over before the pause is.
var errNoTime = &exchange.Error{Status: 504, Reason: "upstream_timeout"}

// again reserves a peer for another attempt. If there is none, it returns what is
// the answer unless a reply is held.
func (t *tries) again() *exchange.Error {
	pause := t.policy.pause(t.repeats + 1)
	if !t.by.IsZero() && time.Until(t.by) <= pause {
		return errNoTime
	}
	next, err := t.h.Group.Repeat(&t.choice, t.policy.SamePeer)
	if err != nil {
		return errNoneLeft
	}
	t.next, t.pause = next, pause
	t.repeats++
	return nil
}
