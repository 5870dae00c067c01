// Package framing asks a server what it makes of messages whose end can be read in more
// than one way, and compares that with what package h1 makes of them: request smuggling
// lives from servers in a row that disagree. Every request that a message holds, by any
// reading, is a GET or POST of one path that the operator names, with a mark in its
// query; each message has a connection of its own.
//
// It attacks nobody: what it sends can neither be taken for the request of another
// client nor end in one, because the connection is its own and no part of it is left
// unread on a shared one by a server that keeps to its own clients' connections. Behind
// a proxy that shares connections among clients it is not harmless to those: ask
// upstreams themselves.
package framing

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"httpjet/exchange"
	"httpjet/h1"
)

// Options say whom to ask.
type Options struct {
	Target   string        // http[s]://host[:port]/path, or host:port
	Timeout  time.Duration // for the answers to a message; 0: 2 s
	Insecure bool          // the certificate is not verified
}

// Reading is what a server makes of a message and of the request behind it.
type Reading struct {
	Requests int    `json:"requests"`          // that it answered as such
	Refused  bool   `json:"refused"`           // then it ended the connection, with a status or without
	Status   int    `json:"status,omitempty"`  // of the first answer
	Waits    bool   `json:"waits,omitempty"`   // for more, until the time was over
	Strange  string `json:"strange,omitempty"` // why an answer is none
}

// String describes a reading.
func (r Reading) String() string {
	text := ""
	switch {
	case r.Requests == 1:
		text = "1 request"
	case r.Requests > 1:
		text = fmt.Sprintf("%d requests", r.Requests)
	}
	add := func(more string) {
		if text != "" {
			text += ", then "
		}
		text += more
	}
	if r.Refused {
		if r.Status != 0 && r.Requests == 0 {
			add(fmt.Sprintf("refuses (%d)", r.Status))
		} else {
			add("refuses")
		}
	}
	if r.Waits {
		add("waits for more")
	}
	if r.Strange != "" {
		add(r.Strange)
	}
	if text == "" {
		return "closes"
	}
	return text
}

// Verdict says how two readings compare.
type Verdict string

const (
	Same     Verdict = "same"
	Stricter Verdict = "stricter" // it refuses what httpjet accepts
	Lenient  Verdict = "lenient"  // it accepts what httpjet refuses
	Smuggles Verdict = "smuggles" // it does, and finds the hidden request
	Differs  Verdict = "differs"  // both accept, and see other requests
	Unknown  Verdict = "unknown"  // it ends connections too early to tell
)

// Case is what was found with one message.
type Case struct {
	Name    string  `json:"name"`
	About   string  `json:"about"`
	Ours    Reading `json:"ours"`
	Target  Reading `json:"target"`
	Verdict Verdict `json:"verdict"`
}

// Report is what was found with all.
type Report struct {
	Target string          `json:"target"`
	Mark   string          `json:"mark"` // in the query of every request
	Keeps  bool            `json:"keeps_connections"`
	Cases  []Case          `json:"cases"`
	Counts map[Verdict]int `json:"counts"`
}

// Run asks a target, message after message. An error means that it cannot be asked, or
// does not answer plain requests as a server of HTTP/1.1.
func Run(ctx context.Context, o Options) (*Report, error) {
	t, err := o.target()
	if err != nil {
		return nil, err
	}
	var mark [6]byte
	rand.Read(mark[:])
	t.run = hex.EncodeToString(mark[:])
	r := &Report{Target: t.name, Mark: t.run, Counts: map[Verdict]int{}}
	plain, err := t.ask(ctx, t.fill("plain", get(host)))
	if err == nil && plain.Requests == 0 && !plain.Waits && plain.Strange == "" { // it may not like two at once
		t.alone = true
		plain, err = t.ask(ctx, t.fill("plain", get(host)))
	}
	switch {
	case err != nil:
		return nil, err
	case plain.Refused || plain.Waits || plain.Requests == 0 || plain.Strange != "":
		return nil, fmt.Errorf("%s: to plain requests: %v", t.name, plain)
	}
	framed, err := t.ask(ctx, t.fill("framed", post("x", "Content-Length: 1")))
	if err != nil {
		return nil, err
	}
	r.Keeps = plain.Requests == 2 && framed.Requests == 2
	for _, m := range corpus() {
		text := t.fill(m.name, m.text)
		c := Case{Name: m.name, About: m.about, Ours: Read(text)}
		if c.Target, err = t.ask(ctx, text); err != nil {
			return nil, err
		}
		if c.Verdict = judge(c.Ours, c.Target, m.stray, r.Keeps); c.Verdict == Differs && m.stays {
			c.Verdict = Lenient
		}
		r.Counts[c.Verdict]++
		r.Cases = append(r.Cases, c)
	}
	return r, nil
}

// judge compares what we would do with what the target did.
func judge(ours, target Reading, stray, keeps bool) Verdict {
	refused := target.Requests == 0 && (target.Refused || target.Strange == "" && !target.Waits)
	switch {
	case ours.Requests == 0 && (refused || target.Waits && target.Requests == 0):
		return Same // neither has taken it
	case ours.Requests == 0 && !stray && (target.Requests > 2 || target.Requests == 2 && (target.Refused || target.Waits)):
		return Smuggles // the last request would have ended the connection
	case ours.Requests == 0 && target.Requests > 0 && !stray && !keeps:
		return Unknown
	case ours.Requests == 0:
		return Lenient
	case refused:
		return Stricter
	case ours.Requests == target.Requests && ours.Refused == target.Refused && !target.Waits && target.Strange == "":
		return Same
	case !keeps && target.Requests > 0 && target.Strange == "":
		return Unknown
	}
	return Differs
}

// Read is what httpjet makes of text: by package h1, as its front end reads.
func Read(text string) (r Reading) {
	in := h1.NewReader(bytes.NewReader([]byte(text)))
	for in.Wait() == nil {
		var req exchange.Request
		head, err := in.ReadRequestHead(64<<10, nil)
		var info h1.RequestInfo
		if err == nil {
			info, err = h1.ParseRequest(head, h1.Limits{}, &req)
		}
		var body *h1.Body
		if err == nil {
			body = in.Body(info.Framing)
			_, err = io.Copy(io.Discard, body)
		}
		se, malformed := errors.AsType[*h1.SyntaxError](err)
		switch {
		case malformed:
			r.Refused = true
			if r.Requests == 0 {
				r.Status = se.Status
			}
			return r
		case err != nil: // the text ends too early
			r.Waits = true
			return r
		}
		if r.Requests++; !info.KeepAlive {
			return r
		}
	}
	return r
}

// target is a server that is asked.
type target struct {
	script
	name    string
	address string
	tls     *tls.Config // nil: in clear text
	timeout time.Duration
}

func (o *Options) target() (*target, error) {
	text := o.Target
	if !bytes.Contains([]byte(text), []byte("://")) {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("target %q is not http[s]://host[:port]/path without a query, nor host:port", o.Target)
	}
	t := &target{script: script{host: u.Host, path: u.EscapedPath()}, name: u.String(), timeout: o.Timeout}
	if t.path == "" {
		t.path = "/"
	}
	if !h1.ValidHost(t.host) || !h1.ValidTarget(t.path) {
		return nil, fmt.Errorf("target %q cannot be asked for", o.Target)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	t.address = net.JoinHostPort(u.Hostname(), port)
	if u.Scheme == "https" {
		t.tls = &tls.Config{ServerName: u.Hostname(), InsecureSkipVerify: o.Insecure, NextProtos: []string{"http/1.1"}}
	}
	if t.timeout <= 0 {
		t.timeout = 2 * time.Second
	}
	return t, nil
}

// dial connects within the timeout.
func (t *target) dial(ctx context.Context) (net.Conn, error) {
	d := &net.Dialer{Timeout: max(t.timeout, 5*time.Second)}
	if t.tls == nil {
		return d.DialContext(ctx, "tcp", t.address)
	}
	return (&tls.Dialer{NetDialer: d, Config: t.tls}).DialContext(ctx, "tcp", t.address)
}

// Bounds of what is read of a target.
const (
	maxAnswers = 8
	maxBody    = 8 << 20
)

// ask sends text over a connection of its own and reads what comes of it. An error
// means that there is no connection.
func (t *target) ask(ctx context.Context, text string) (r Reading, err error) {
	c, err := t.dial(ctx)
	if err != nil {
		return r, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c.SetDeadline(time.Now().Add(t.timeout))
	io.WriteString(c, text) // one that is not read to its end is answered even so
	in := bufio.NewReader(io.LimitReader(c, maxAnswers*maxBody))
	for range maxAnswers {
		if !r.next(in) {
			break
		}
	}
	return r, ctx.Err()
}

// next reads one answer and reports whether another one may follow.
func (r *Reading) next(in *bufio.Reader) bool {
	if _, err := in.Peek(1); err != nil {
		ne, ok := errors.AsType[net.Error](err)
		switch {
		case ok && ne.Timeout():
			r.Waits = true
		case err != io.EOF:
			r.Refused = true // a reset: it has not read all
		}
		return false
	}
	resp, err := http.ReadResponse(in, &http.Request{Method: "GET"})
	if err != nil {
		r.Strange = "answers what is no HTTP/1.1"
		return false
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == 101:
		r.Requests++
		r.Strange = "switches protocols"
		return false
	case resp.StatusCode < 200:
		return true
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	if r.Requests == 0 && !r.Refused {
		r.Status = resp.StatusCode
	}
	if refuses(resp.StatusCode) {
		r.Refused = true
		return false
	}
	r.Requests++
	return err == nil && !resp.Close
}

// refuses reports whether a status is about the message, not about what it asks for.
func refuses(status int) bool {
	switch status {
	case 400, 408, 411, 413, 414, 417, 421, 431, 501, 505:
		return true
	}
	return false
}
