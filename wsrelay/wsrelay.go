// Package wsrelay serves WebSocket upgrades: it performs the handshake with the
// backend over HTTP/1.1, hands its 101 to the client, and relays raw bytes both
// ways. It reads no frame and forges none.
package wsrelay

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/forward"
	"httpjet/groups"
	"httpjet/h1"
	"httpjet/streaming"
	"httpjet/tunnels"
)

// defaultInit is the InitTimeout of a Handler that has none.
const defaultInit = 10 * time.Second

// Dialer is what a client must offer to carry a tunnel. A client of a protocol
// that multiplexes its connections does not.
type Dialer interface {
	// Dial opens a connection that only the caller uses; see extproc.H1Client.
	Dial(ctx context.Context) (conn net.Conn, release func(), err error)
	// Authority is the Host of a handshake that has none of its own.
	Authority() string
}

// Handler relays the WebSockets of one group.
type Handler struct {
	Group       *groups.Group   // 502 upgrade_unsupported if a peer's client is no Dialer (R-WS-3)
	Forward     forward.Options // fields of the hop
	InitTimeout time.Duration   // longest wait for the head of the handshake; 0: 10 s
	IdleTimeout time.Duration   // a relay is closed after this long without a byte; 0: never

	// Where relays are found while they are open: those of this route, and those of
	// each peer by its ordinal. nil: nowhere.
	Tunnels    *tunnels.Set
	Peers      []*tunnels.Set
	Generation *tunnels.Set // those that began with this generation
}

// Serve performs the handshake and leaves a relay behind. A request
// that is no proper upgrade never becomes a tunnel, nor does an answer other
// than a valid 101.
func (h *Handler) Serve(x *exchange.Exchange) error {
	f, target, err := h.handshake(x)
	if err != nil {
		return err
	}
	x.MayWait()
	choice := h.Group.Choice(x)
	at := x.Recent()
	var last error
	for {
		res, err := h.Group.Reserve(&choice)
		if err != nil && last != nil {
			return last // every peer was tried (R-GRP-7)
		}
		if err != nil {
			return err
		}
		if last != nil {
			at = time.Now()
		}
		res.Begin(x, at)
		h.Forward.Trace.Attempt(x, f)
		err = h.attempt(x, target, f, &choice, &res)
		e, unsent := errors.AsType[*extproc.DialError](err)
		if !unsent {
			return err
		}
		last = e.Failure() // the handshake was not sent: the next peer (R-WS-6)
	}
}

// handshake returns the fields and the target of the handshake with the backend.
func (h *Handler) handshake(x *exchange.Exchange) (f *exchange.Fields, target string, err error) {
	f = &exchange.Fields{}
	h.Forward.Fields(x, f)
	if err := checkRequest(x, f); err != nil {
		return nil, "", err
	}
	if target, err = h.Forward.Target(x); err != nil {
		return nil, "", err
	}
	f.Add("Connection", "Upgrade")
	f.Add("Upgrade", "websocket")
	return f, target, nil
}

// attempt performs the handshake with one peer and leaves the relay behind with the
// exchange, which then has the reservation and all else that is given up here if
// it does not come to that.
func (h *Handler) attempt(x *exchange.Exchange, target string, f *exchange.Fields, choice *groups.Choice, res *groups.Reservation) (err error) {
	err = groups.ErrUndecided // if this panics
	detached := false
	defer func() {
		if !detached {
			res.End(x, err)
		}
	}()
	d, ok := res.Client().(Dialer)
	if !ok {
		return errUnsupported()
	}
	ctx, began := x.Context(), time.Now()
	conn, release, err := d.Dial(ctx)
	if err != nil {
		return err
	}
	connected := time.Now()
	r := newRelay(h, x, conn, release)
	defer func() {
		if !detached {
			r.Close()
			release()
		}
	}()
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { r.Close(); close(fired) })
	defer func() {
		if !stop() {
			<-fired
		}
	}()
	host := h.Forward.Host(x)
	if host == "" {
		host = d.Authority()
	}
	hs := handshake{conn: conn, ctx: ctx, timeout: h.initTimeout()}
	if err := hs.send(target, host, f); err != nil {
		return err
	}
	resp, err := hs.receive()
	if err != nil {
		return err
	}
	phases := exchange.Phases{Dial: connected.Sub(began), Head: time.Since(connected)}
	if resp.Status != 101 {
		res.Answered(resp.Status)
		x.AttemptReplied(resp.Status, phases)
		reply := hs.reply(resp)
		forward.StripPolicy(&reply.Fields)
		res.Remember(x, choice, &reply.Fields)
		return streaming.Relay(x, reply)
	}
	if err := accepted(resp, f.Get("Sec-WebSocket-Key")); err != nil {
		return err
	}
	res.Answered(101)
	x.AttemptReplied(101, phases)
	extproc.StripHops(&resp.Fields)
	res.Remember(x, choice, &resp.Fields)
	detached, err = h.tunnel(x, r, resp, hs.early(), res)
	return err
}

func errUnsupported() error {
	return exchange.Fail(502, "upgrade_unsupported", "the target's protocol carries no WebSocket")
}

// accepted refuses a 101 that does not accept our handshake (R-WS-4, fault 9).
func accepted(resp *h1.Response, key string) error {
	switch {
	case !resp.Fields.HasToken("Upgrade", "websocket"), !resp.Fields.HasToken("Connection", "upgrade"):
		return exchange.Fail(502, "upgrade_failed", "101 of another protocol")
	case resp.Fields.Get("Sec-WebSocket-Accept") != acceptKey(key):
		return exchange.Fail(502, "upgrade_failed", "101 with a wrong Sec-WebSocket-Accept")
	}
	return nil
}

// tunnel gives the client the 101 and reports whether the relay has become the rest
// of the exchange.
func (h *Handler) tunnel(x *exchange.Exchange, r *relay, resp *h1.Response, early []byte, res *groups.Reservation) (detached bool, err error) {
	x.Resp.Fields.Reset()
	for name, value := range resp.Fields.All() {
		if !exchange.EqualName(name, "Server") && !exchange.EqualName(name, "Date") {
			x.Resp.Fields.Add(name, value)
		}
	}
	x.Resp.Fields.Add("Connection", "Upgrade")
	x.Resp.Fields.Add("Upgrade", "websocket")
	client, err := x.Upgrade()
	if err != nil {
		return false, fmt.Errorf("%w: %v", exchange.ErrClientGone, err)
	}
	r.open(client, early)
	r.sets[0], r.sets[2] = h.Tunnels, h.Generation
	if i := res.Peer(); i < len(h.Peers) {
		r.sets[1] = h.Peers[i]
	}
	if !tunnels.Join(r, r.sets[:]...) {
		return false, nil // the route is gone
	}
	r.res = *res
	x.Detach(r)
	return true, nil
}

func (h *Handler) initTimeout() time.Duration {
	if h.InitTimeout > 0 {
		return h.InitTimeout
	}
	return defaultInit
}

// checkRequest refuses what RFC 6455 §4.2.1 does not allow in an opening
// handshake. f is what would be sent on.
func checkRequest(x *exchange.Exchange, f *exchange.Fields) error {
	if !forward.IsUpgrade(x) {
		if x.Req.Method != "GET" || x.Req.Proto == "HTTP/1.0" {
			return exchange.Fail(400, "bad_request", "%s over %s cannot open a WebSocket", x.Req.Method, x.Req.Proto)
		}
		e := exchange.Fail(426, "bad_request", "no WebSocket handshake")
		e.Fields = []exchange.Field{{Name: "Upgrade", Value: "websocket"}}
		return e
	}
	if x.Req.Length != 0 {
		// Its bytes would be taken for frames by one side and a body by the other.
		e := exchange.Fail(400, "bad_request", "handshake with a body")
		e.Close = true
		return e
	}
	if v, ok := single(f, "Sec-WebSocket-Version"); !ok || v != "13" {
		e := exchange.Fail(426, "bad_request", "WebSocket version other than 13")
		e.Fields = []exchange.Field{{Name: "Sec-WebSocket-Version", Value: "13"}, {Name: "Upgrade", Value: "websocket"}}
		return e
	}
	key, ok := single(f, "Sec-WebSocket-Key")
	if raw, err := base64.StdEncoding.DecodeString(key); !ok || err != nil || len(raw) != 16 {
		return exchange.Fail(400, "bad_request", "Sec-WebSocket-Key is not 16 bytes in base64")
	}
	return nil
}

// single returns the value of a field that occurs exactly once.
func single(f *exchange.Fields, name string) (value string, ok bool) {
	n := 0
	for v := range f.Values(name) {
		value = v
		n++
	}
	return value, n == 1
}

// acceptKey is the proof that the backend has read key (RFC 6455 §4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
