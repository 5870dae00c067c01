package fastcgi

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unixTarget is a target whose timeouts no healthy test comes near.
func unixTarget(path string) extproc.Target {
	return extproc.Target{
		Name: "app", Kind: extproc.KindFastCGI, Network: "unix", Address: path, MaxConns: 4,
		InitTimeout: time.Minute, KeepAlive: time.Minute, HeadTimeout: time.Minute, BodyTimeout: time.Minute,
	}
}

// goApp serves h with net/http/fcgi, an implementation that is not ours.
func goApp(t *testing.T, h http.HandlerFunc) extproc.Target {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); fcgi.Serve(ln, h) }()
	t.Cleanup(func() { ln.Close(); <-done })
	return unixTarget(path)
}

// newClient returns a client that is retired at the end of the test.
func newClient(t *testing.T, target extproc.Target, o Options) *gateway.Client {
	t.Helper()
	c := New(target, o)
	t.Cleanup(func() {
		c.Retire()
		if s := c.Stats(); s.Busy != 0 || s.Idle != 0 {
			t.Errorf("connections left: %+v", s)
		}
	})
	return c
}

// get returns a bodyless call with the variables net/http/fcgi needs.
func get(params ...string) *extproc.Call { return request("GET", 0, nil, params...) }

// post returns a call with a body; length as in extproc.Call.
func post(length int64, body io.Reader, params ...string) *extproc.Call {
	return request("POST", length, body, params...)
}

func request(method string, length int64, body io.Reader, params ...string) *extproc.Call {
	p := &exchange.Fields{}
	for _, kv := range append([]string{"REQUEST_METHOD=" + method, "SERVER_PROTOCOL=HTTP/1.1", "HTTP_HOST=x", "REQUEST_URI=/"}, params...) {
		name, value, _ := strings.Cut(kv, "=")
		p.Add(name, value)
	}
	return &extproc.Call{Method: method, Params: p, Length: length, Body: body}
}

// fetch makes a call, reads it to the end and closes it.
func fetch(c *gateway.Client, call *extproc.Call) (status int, body string, err error) {
	r, err := c.Do(context.Background(), call)
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r.Body)
	return r.Status, string(b), err
}

// describe names an error for comparison: "503 fcgi_unavailable".
func describe(err error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprint(exchange.StatusOf(err), " ", exchange.ReasonOf(err))
}

// peer is the application's end of one raw connection.
type peer struct {
	net.Conn
	br *bufio.Reader
}

// heard is a request as a peer received it.
type heard struct {
	params map[string]string
	order  []string
	stdin  []byte
	keep   bool
}

// record reads one record.
func (p *peer) record() (typ byte, content []byte, err error) {
	var h [8]byte
	if _, err := io.ReadFull(p.br, h[:]); err != nil {
		return 0, nil, err
	}
	if h[0] != 1 || h[2] != 0 || h[3] != 1 || h[7] != 0 {
		return 0, nil, fmt.Errorf("bad header % x", h)
	}
	content = make([]byte, int(binary.BigEndian.Uint16(h[4:]))+int(h[6]))
	_, err = io.ReadFull(p.br, content)
	return h[1], content[:len(content)-int(h[6])], err
}

// hear reads a whole request and checks its sequence (R-FCGI-5).
func (p *peer) hear() (heard, error) {
	q, err := p.hearHead()
	for err == nil {
		var typ byte
		var b []byte
		typ, b, err = p.record()
		if err == nil && typ != typeStdin {
			err = fmt.Errorf("record type %d inside STDIN", typ)
		}
		if len(b) == 0 {
			break
		}
		q.stdin = append(q.stdin, b...)
	}
	return q, err
}

// hearHead reads BEGIN_REQUEST and PARAMS.
func (p *peer) hearHead() (heard, error) {
	q := heard{params: map[string]string{}}
	typ, b, err := p.record()
	if err != nil {
		return q, err
	}
	if typ != typeBegin || len(b) != 8 || b[1] != 1 {
		return q, fmt.Errorf("type %d, content % x instead of BEGIN_REQUEST", typ, b)
	}
	q.keep = b[2] == flagKeepConn
	var all []byte
	for {
		typ, b, err = p.record()
		if err != nil {
			return q, err
		}
		if typ != typeParams {
			return q, fmt.Errorf("record type %d inside PARAMS", typ)
		}
		if len(b) == 0 {
			break
		}
		all = append(all, b...)
	}
	length := func() int {
		if all[0] < 128 {
			n := int(all[0])
			all = all[1:]
			return n
		}
		n := int(binary.BigEndian.Uint32(all) & (1<<31 - 1))
		all = all[4:]
		return n
	}
	for len(all) > 0 {
		n, v := length(), 0
		v = length()
		name := string(all[:n])
		q.order = append(q.order, name)
		q.params[name] = string(all[n : n+v])
		all = all[n+v:]
	}
	return q, nil
}

// say sends a reply in the language of replyBytes.
func (p *peer) say(t testing.TB, script string) {
	p.Write(replyBytes(t, script))
}

const okReply = `stdout "Content-Type: text/plain\r\n\r\nok"
stdout ""
end 0`

// rawApp listens on a Unix socket and runs serve for each connection, numbered
// from 0, in a goroutine that is joined at the end of the test.
func rawApp(t *testing.T, serve func(n int, p *peer)) extproc.Target {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	served := make(chan struct{})
	go func() {
		defer close(accepted)
		count := 0
		for {
			c, err := ln.Accept()
			if err != nil {
				break
			}
			n := count
			count++
			go func() {
				serve(n, &peer{c, bufio.NewReader(c)})
				c.Close()
				served <- struct{}{}
			}()
		}
		for range count {
			<-served
		}
	}()
	t.Cleanup(func() { ln.Close(); <-accepted })
	return unixTarget(path)
}

// pipeDial returns a dialler for synctest bubbles: each dial runs serve on the
// other end of a pipe.
func pipeDial(serve func(n int, p *peer)) func(context.Context, string, string) (net.Conn, error) {
	count := 0
	return func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		n := count
		count++
		go func() {
			serve(n, &peer{b, bufio.NewReader(b)})
			b.Close()
		}()
		return a, nil
	}
}

var errBroken = errors.New("broken")
