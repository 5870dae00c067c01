package extproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"httpjet/exchange"
	"httpjet/h1"
)

// maxProbeHead bounds the reply heads of a probe together (R-PROBE-3).
const maxProbeHead = 16 << 10

// Probe is what one active health check asks of a peer.
type Probe struct {
	Method string // GET or HEAD; "": connect only, with TLS where the target has it
	Path   string // origin form
	Host   string // "": the peer's authority
	Status int    // the only status that is a success; 0: any 2xx
}

// Probe checks the target over a connection of its own, which is not pooled and
// counts as none of MaxConns. It reads no further than the head of the reply and
// follows no redirect. ctx bounds all of it: its deadline is the time that the
// probe has. The error says what failed; it is context.Canceled if ctx ended for
// another reason than its deadline, and then says nothing about the target.
func (p *H1Client) Probe(ctx context.Context, pr Probe) error {
	status, step, err := p.probe(ctx, pr)
	return pr.result(ctx, status, step, err)
}

// result is what a probe has found: a status, or the step that failed.
func (pr Probe) result(ctx context.Context, status int, step string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case err != nil && (ctx.Err() != nil || isTimeout(err)):
		return errors.New(step + ": not in time")
	case err != nil:
		return fmt.Errorf("%s: %w", step, err)
	case pr.Method == "", status == pr.Status, pr.Status == 0 && status/100 == 2:
		return nil
	}
	return fmt.Errorf("status %d", status)
}

// probe returns the status of the reply, or the step that failed.
func (p *H1Client) probe(ctx context.Context, pr Probe) (status int, step string, err error) {
	conn, socket, err := p.dialer.connect(ctx, &p.target, p.tls)
	if err != nil {
		return 0, "connect", err
	}
	defer socket.Close()
	if pr.Method == "" {
		return 0, "", nil
	}
	if by, ok := ctx.Deadline(); ok {
		conn.SetDeadline(by)
	}
	defer context.AfterFunc(ctx, func() { socket.SetDeadline(longAgo) })()
	var f exchange.Fields // no cookie, no credentials
	f.Add("User-Agent", "httpjet-health")
	f.Add("Accept", "*/*")
	f.Add("Connection", "close")
	if _, err = conn.Write(h1.AppendRequest(nil, pr.Method, pr.Path, pr.host(&p.target), &f, 0)); err == nil {
		status, err = readStatus(conn, pr.Method)
	}
	return status, "reply", err
}

// readStatus reads past interim heads to the final one.
func readStatus(conn net.Conn, method string) (int, error) {
	br := h1.NewReader(conn)
	defer func() {
		br.Take()
		br.Release()
	}()
	var r h1.Response
	for room := maxProbeHead; room > 0; {
		head, err := br.ReadHead(room)
		if err != nil {
			return 0, err
		}
		room -= len(head)
		if err := parseHead(&r, head, method); err != nil {
			return 0, err
		}
		if r.Status >= 200 {
			return r.Status, nil
		}
		if r.Status == 101 {
			return 0, errors.New("101 that was not asked for")
		}
	}
	return 0, errors.New("head too large")
}

// host is the value of Host: what is configured, else the peer's authority. A Unix
// socket has none; applications expect a name there.
func (pr Probe) host(t *Target) string {
	switch {
	case pr.Host != "":
		return pr.Host
	case t.Network == "unix":
		return "localhost"
	}
	return t.Address
}

// Probe checks the target as H1Client.Probe does, in its own protocol: a request
// goes out once the peer has shown that it speaks HTTP/2.
func (p *H2Client) Probe(ctx context.Context, pr Probe) error {
	status, step, err := p.probe(ctx, pr)
	return pr.result(ctx, status, step, err)
}

func (p *H2Client) probe(ctx context.Context, pr Probe) (status int, step string, err error) {
	if pr.Method == "" {
		_, socket, err := p.dialer.connect(ctx, &p.target, p.tls)
		if err == nil {
			socket.Close()
		}
		return 0, "connect", err
	}
	c, err := p.dialer.openH2(ctx, &p.target, p.tls, newH2transport(maxProbeHead, 0))
	if err != nil {
		return 0, "connect", err
	}
	defer c.close()
	scheme := "http"
	if p.tls != nil {
		scheme = "https"
	}
	host := pr.host(&p.target)
	r := &http.Request{Method: pr.Method, Host: host, URL: &url.URL{Scheme: scheme, Host: host, Opaque: pr.Path},
		Header: http.Header{"User-Agent": {"httpjet-health"}, "Accept": {"*/*"}}} // no cookie, no credentials
	resp, err := c.roundTrip(r.WithContext(ctx))
	if err != nil {
		_, _, cause := ofStream(err)
		return 0, "reply", cause
	}
	return resp.StatusCode, "reply", nil
}
