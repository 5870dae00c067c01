package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rogpeppe/go-internal/testscript"
)

// request is what the arguments of get say.
type request struct {
	listener, host, method, path string
	fields                       []string
	body                         io.Reader
	protocols                    *http.Protocols
	ctx                          context.Context // nil: it waits for its answer
}

const getUsage = "get [-m METHOD] [-H 'NAME: VALUE'] [-d BODY] [--zeros N] [--h1] [--h2] [--at LISTENER] [--host NAME] PATH"

func parseRequest(ts *testscript.TestScript, args []string) *request {
	r := &request{method: "GET"}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		used := 2
		usage(ts, args, 2, -1, getUsage)
		switch arg := args[1]; args[0] {
		case "-m":
			r.method = arg
		case "-H":
			r.fields = append(r.fields, arg)
		case "-d":
			r.method, r.body = "POST", strings.NewReader(arg)
		case "--zeros": // of unknown length
			n, err := strconv.ParseInt(arg, 10, 64)
			ts.Check(err)
			r.method, r.body = "POST", struct{ io.Reader }{io.LimitReader(zeros{}, n)}
		case "--at":
			r.listener = arg
		case "--host":
			r.host = arg
		case "--h1":
			r.protocols, used = new(http.Protocols), 1
			r.protocols.SetHTTP1(true)
		case "--h2":
			r.protocols, used = new(http.Protocols), 1
			r.protocols.SetHTTP2(true)
			r.protocols.SetUnencryptedHTTP2(true)
		default:
			ts.Fatalf("usage: %s", getUsage)
		}
		args = args[used:]
	}
	usage(ts, args, 1, 1, getUsage)
	r.path = args[0]
	return r
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// do sends the request on a connection of its own and returns the answer as
// text: status line, fields in order of name, empty line, body. The name of the
// TLS handshake is the host; the certificate has to be made for it.
func (s *session) do(r *request) (string, error) {
	if s.server == nil {
		return "", errors.New("serve comes first")
	}
	address, secure, err := s.server.address(r.listener)
	if err != nil {
		return "", err
	}
	host := cmp.Or(r.host, address)
	scheme := "http"
	if secure {
		scheme = "https"
	}
	req, err := http.NewRequest(r.method, scheme+"://"+host, r.body)
	if err != nil {
		return "", err
	}
	if r.ctx != nil {
		req = req.WithContext(r.ctx)
	}
	req.URL.Opaque = r.path // as it is written
	for _, f := range r.fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Add(name, value)
	}
	t := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, Protocols: r.protocols,
		TLSClientConfig: &tls.Config{RootCAs: s.roots}, ForceAttemptHTTP2: r.protocols == nil,
		DialContext:           (&redirectedDialer{address}).DialContext,
		ResponseHeaderTimeout: 2 * patience,
	}
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return format(resp)
}

// format is an answer as text. After an error it is what came before.
func format(resp *http.Response) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n", resp.Proto, resp.Status)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		for _, v := range resp.Header[name] {
			fmt.Fprintf(&out, "%s: %s\n", name, v)
		}
	}
	out.WriteByte('\n')
	_, err := io.Copy(&out, resp.Body)
	for name, values := range resp.Trailer {
		fmt.Fprintf(&out, "\ntrailer %s: %s", name, strings.Join(values, ", "))
	}
	return out.String(), err
}

// get [option...] PATH: asks the server and prints the answer. Negated: there is
// none, or it does not come to its end.
func cmdGet(ts *testscript.TestScript, neg bool, args []string) {
	text, err := of(ts).do(parseRequest(ts, args))
	io.WriteString(ts.Stdout(), text)
	outcome(ts, neg, err)
}

// until REGEXP [option...] PATH: get, again and again, until the answer matches: of what
// the server notices by itself.
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 2, -1, "until REGEXP [option...] PATH")
	re, text := regexp.MustCompile(`(?m)`+args[0]), ""
	if !eventually(func() bool {
		var err error
		text, err = of(ts).do(parseRequest(ts, args[1:]))
		ts.Check(err)
		return re.MatchString(text)
	}) {
		ts.Fatalf("no answer matches %q, the last one is\n%s", args[0], text)
	}
	io.WriteString(ts.Stdout(), text)
}

// started is a request in flight.
type started struct {
	leave context.CancelFunc
	done  chan struct{}
	text  string
	err   error
}

// start NAME [option...] PATH: get in the background.
func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 2, -1, "start NAME [option...] PATH")
	s, r, st := of(ts), parseRequest(ts, args[1:]), &started{done: make(chan struct{})}
	r.ctx, st.leave = context.WithCancel(context.Background())
	s.requests[args[0]] = st
	go func() {
		defer close(st.done)
		st.text, st.err = s.do(r)
	}()
}

// leave NAME: the client of a started request goes away.
func cmdLeave(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "leave NAME")
	st := of(ts).requests[args[0]]
	if st == nil {
		ts.Fatalf("there is no request %s", args[0])
	}
	st.leave()
	<-st.done
}

// cookie VAR: sets VAR to the field by which a client returns the cookie of the
// answer printed last.
func cmdCookie(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "cookie VAR")
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if v, ok := strings.CutPrefix(line, "Set-Cookie: "); ok {
			v, _, _ = strings.Cut(strings.TrimSpace(v), ";")
			ts.Setenv(args[0], "Cookie: "+v)
			return
		}
	}
	ts.Fatalf("no cookie was set")
}

// finish NAME: waits for the answer of a started request and prints it.
func cmdFinish(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "finish NAME")
	st := of(ts).requests[args[0]]
	if st == nil {
		ts.Fatalf("there is no request %s", args[0])
	}
	select {
	case <-st.done:
	case <-time.After(patience):
		ts.Fatalf("request %s has no end after %v", args[0], patience)
	}
	io.WriteString(ts.Stdout(), st.text)
	outcome(ts, neg, st.err)
}

func (s *session) dial(ts *testscript.TestScript, listener string) net.Conn {
	address, _, err := running(ts).address(listener)
	ts.Check(err)
	c, err := net.Dial("tcp", address)
	ts.Check(err)
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// raw [--at LISTENER] FILE: sends the file with CRLF line ends and prints what
// comes until the server closes the connection.
func cmdRaw(ts *testscript.TestScript, neg bool, args []string) {
	listener := ""
	if len(args) > 2 && args[0] == "--at" {
		listener, args = args[1], args[2:]
	}
	usage(ts, args, 1, 1, "raw [--at LISTENER] FILE")
	c := of(ts).dial(ts, listener)
	defer c.Close()
	_, err := io.WriteString(c, strings.ReplaceAll(ts.ReadFile(args[0]), "\n", "\r\n"))
	ts.Check(err)
	var text bytes.Buffer
	_, err = io.Copy(&text, c)
	io.WriteString(ts.Stdout(), strings.ReplaceAll(text.String(), "\r\n", "\n"))
	outcome(ts, neg, err)
}

// idle [--at LISTENER] NAME PATH: asks over a connection that then stays open and
// idle. The same name asks over the same connection.
func cmdIdle(ts *testscript.TestScript, neg bool, args []string) {
	listener := ""
	if len(args) == 4 && args[0] == "--at" {
		listener, args = args[1], args[2:]
	}
	usage(ts, args, 2, 2, "idle [--at LISTENER] NAME PATH")
	s := of(ts)
	c := s.idle[args[0]]
	if c == nil {
		c = s.dial(ts, listener)
		s.idle[args[0]] = c
	}
	_, err := io.WriteString(c, "GET "+args[1]+" HTTP/1.1\r\nHost: idle.test\r\n\r\n")
	ts.Check(err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	ts.Check(err)
	text, err := format(resp)
	io.WriteString(ts.Stdout(), text)
	outcome(ts, neg, err)
}

// gone NAME: the server closes an idle connection, or an open WebSocket.
func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "gone NAME")
	if w := of(ts).sockets[args[0]]; w != nil {
		w.SetReadDeadline(time.Now().Add(patience))
		if _, text, err := w.ReadMessage(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			ts.Fatalf("WebSocket %s: read %q, %v", args[0], text, err)
		}
		return
	}
	c := of(ts).idle[args[0]]
	if c == nil {
		ts.Fatalf("there is no connection %s", args[0])
	}
	if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		ts.Fatalf("connection %s: read %d bytes, %v", args[0], n, err)
	}
}

// dialWS opens a WebSocket and prints the answer to its handshake.
func dialWS(ts *testscript.TestScript, args []string) (*websocket.Conn, error) {
	r := parseRequest(ts, args)
	address, secure, err := running(ts).address(r.listener)
	ts.Check(err)
	host := cmp.Or(r.host, address)
	scheme := "ws"
	if secure {
		scheme = "wss"
	}
	d := &websocket.Dialer{NetDialContext: (&redirectedDialer{address}).DialContext, TLSClientConfig: &tls.Config{RootCAs: of(ts).roots},
		HandshakeTimeout: patience, Subprotocols: []string{"chat"}}
	c, resp, err := d.Dial(scheme+"://"+host+r.path, http.Header{"Origin": {"http://" + host}})
	if resp != nil {
		answer, _ := format(resp)
		io.WriteString(ts.Stdout(), answer)
	}
	return c, err
}

// say sends a text message and prints the one that comes back.
func say(ts *testscript.TestScript, c *websocket.Conn, text string) error {
	c.SetReadDeadline(time.Now().Add(patience))
	if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		return err
	}
	_, back, err := c.ReadMessage()
	fmt.Fprintf(ts.Stdout(), "%s\n", back)
	return err
}

// ws [--at LISTENER] [--host NAME] PATH TEXT: opens a WebSocket, sends a text
// message and prints the one that comes back. Negated: the handshake is refused;
// the answer is printed.
func cmdWS(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 2, -1, "ws [--at LISTENER] [--host NAME] PATH TEXT")
	c, err := dialWS(ts, args[:len(args)-1])
	if err == nil {
		defer c.Close()
		err = say(ts, c, args[len(args)-1])
	}
	outcome(ts, neg, err)
}

// open NAME [--at LISTENER] [--host NAME] PATH: opens a WebSocket that stays.
func cmdOpen(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 2, -1, "open NAME [--at LISTENER] [--host NAME] PATH")
	c, err := dialWS(ts, args[1:])
	if err == nil {
		of(ts).sockets[args[0]] = c
		of(ts).closers = append(of(ts).closers, c)
	}
	outcome(ts, neg, err)
}

// say NAME TEXT: sends a text message over an open WebSocket and prints the one
// that comes back.
func cmdSay(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 2, 2, "say NAME TEXT")
	c := of(ts).sockets[args[0]]
	if c == nil {
		ts.Fatalf("there is no WebSocket %s", args[0])
	}
	outcome(ts, neg, say(ts, c, args[1]))
}

// ended NAME: waits until an open WebSocket is closed, which nobody announces by a
// close frame.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "ended NAME")
	c := of(ts).sockets[args[0]]
	if c == nil {
		ts.Fatalf("there is no WebSocket %s", args[0])
	}
	c.SetReadDeadline(time.Now().Add(patience))
	_, _, err := c.ReadMessage()
	if !websocket.IsCloseError(err, websocket.CloseAbnormalClosure) {
		outcome(ts, neg, fmt.Errorf("WebSocket %s: %v", args[0], err))
		return
	}
	outcome(ts, neg, nil)
}

// redirectedDialer dials one address whatever name is asked for.
type redirectedDialer struct{ address string }

func (d *redirectedDialer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", d.address)
}
