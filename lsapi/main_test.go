package lsapi

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
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

// packet encodes a packet as an application would.
func packet(typ byte, content string) []byte {
	return append(appendHeader(nil, typ, headerLen+len(content)), content...)
}

// headPacket encodes a response head; lines without their NUL.
func headPacket(status int, lines ...string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(lines)))
	b = binary.LittleEndian.AppendUint32(b, uint32(status))
	for _, l := range lines {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(l)+1))
	}
	for _, l := range lines {
		b = append(append(b, l...), 0)
	}
	return packet(typeHead, string(b))
}

func join(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func okReply() []byte {
	return join(packet(typeReceived, ""), headPacket(200, "Content-Type: text/plain"), packet(typeBody, "ok"), packet(typeEnd, ""))
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "", "|", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// heard is a request as an application decodes it, by the offsets alone.
type heard struct {
	env    map[string]string
	fields map[string]string // by variable, those of the index; by name, others
	script string            // what the head points at, with blanks between
	body   int               // as declared
}

// decode reads b, a whole packet of BEGIN_REQUEST, strictly.
func decode(b []byte) (q heard, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	le := binary.LittleEndian
	i32 := func(at int) int { return int(int32(le.Uint32(b[at:]))) }
	if string(b[:4]) != "LS\x01\x00" || i32(4) != len(b) {
		return q, fmt.Errorf("header % x of %d bytes", b[:8], len(b))
	}
	q.env, q.fields, q.body = map[string]string{}, map[string]string{}, i32(12)
	cstring := func(at, n int) string {
		if b[at+n-1] != 0 {
			panic("no NUL")
		}
		return string(b[at : at+n-1])
	}
	at := beginLen
	if i32(at) != 0 {
		return q, errors.New("special variables")
	}
	at += 4
	count := 0
	for ; b[at] != 0 || b[at+1] != 0; count++ {
		k, v := int(binary.BigEndian.Uint16(b[at:])), int(binary.BigEndian.Uint16(b[at+2:]))
		name := cstring(at+4, k)
		q.env[name] = cstring(at+4+k, v)
		at += 4 + k + v
	}
	if i32(at) != 0 || count != i32(36) || i32(40) != 0 {
		return q, errors.New("number of variables")
	}
	for i := range 4 {
		off := i32(16 + 4*i)
		value, _, _ := strings.Cut(string(b[off:]), "\x00")
		if value != q.env[pointed[i]] {
			return q, fmt.Errorf("%s points at %q", pointed[i], value)
		}
		q.script += value + " "
	}
	at = pad(at + 4)
	others, block := i32(32), at+knownLen+i32(32)*otherLen
	if block+i32(8) != len(b) {
		return q, errors.New("length of the block of fields")
	}
	for i, name := range known {
		if off := i32(at + 52 + 4*i); off != 0 {
			v := b[block+off:][:le.Uint16(b[at+2*i:])]
			q.fields[name] = string(v)
			if string(b[block+off+len(v):][:2]) != "\r\n" {
				return q, errors.New("field without CRLF")
			}
		}
	}
	for i := range others {
		p := at + knownLen + i*otherLen
		q.fields[string(b[block+i32(p):][:i32(p+4)])] = string(b[block+i32(p+8):][:i32(p+12)])
	}
	return q, nil
}

// peer is the application's end of a connection.
type peer struct {
	net.Conn
	br *bufio.Reader
}

// hear reads a request and as much of its body as it declares.
func (p *peer) hear() (q heard, body string, err error) {
	h := make([]byte, headerLen)
	if _, err := io.ReadFull(p.br, h); err != nil {
		return q, "", err
	}
	b := make([]byte, binary.LittleEndian.Uint32(h[4:]))
	copy(b, h)
	if _, err := io.ReadFull(p.br, b[headerLen:]); err != nil {
		return q, "", err
	}
	if q, err = decode(b); err != nil {
		return q, "", err
	}
	rest := make([]byte, max(0, q.body))
	_, err = io.ReadFull(p.br, rest)
	return q, string(rest), err
}

// app listens on a Unix socket and runs serve for each connection, numbered from
// 0, in a goroutine that is joined at the end of the test.
func app(t *testing.T, serve func(n int, p *peer)) extproc.Target {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	accepted, served := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(accepted)
		count := 0
		for ; ; count++ {
			c, err := ln.Accept()
			if err != nil {
				break
			}
			n := count
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
	return extproc.Target{Name: "app", Kind: extproc.KindLSAPI, Network: "unix", Address: path, MaxConns: 4,
		InitTimeout: time.Minute, KeepAlive: time.Minute, HeadTimeout: time.Minute, BodyTimeout: time.Minute}
}

// newClient returns a client that is retired at the end of the test.
func newClient(t *testing.T, target extproc.Target) *gateway.Client {
	t.Helper()
	c := New(target, gateway.Options{})
	t.Cleanup(func() {
		c.Retire()
		if s := c.Stats(); s.Busy != 0 || s.Idle != 0 {
			t.Errorf("connections left: %+v", s)
		}
	})
	return c
}

func request(method string, length int64, body io.Reader, params ...string) *extproc.Call {
	p := &exchange.Fields{}
	for _, kv := range append([]string{"REQUEST_METHOD=" + method, "SCRIPT_FILENAME=/srv/x.php", "SCRIPT_NAME=/x.php", "QUERY_STRING="}, params...) {
		name, value, _ := strings.Cut(kv, "=")
		p.Add(name, value)
	}
	return &extproc.Call{Method: method, Params: p, Length: length, Body: body}
}

// fetch makes a call, reads it to the end and closes it.
func fetch(c *gateway.Client, call *extproc.Call) (body string, err error) {
	r, err := c.Do(context.Background(), call)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

// describe names an error for comparison: "503 lsapi_unavailable".
func describe(err error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprint(exchange.StatusOf(err), " ", exchange.ReasonOf(err))
}

// scriptConn is a connection whose reads return the given pieces one by one and
// then io.EOF. What is written to it goes nowhere.
type scriptConn struct {
	pieces [][]byte
	closed bool
}

func (c *scriptConn) Read(p []byte) (int, error) {
	for len(c.pieces) > 0 && len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case len(c.pieces) == 0:
		return 0, io.EOF
	}
	n := copy(p, c.pieces[0])
	c.pieces[0] = c.pieces[0][n:]
	return n, nil
}
func (c *scriptConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *scriptConn) Close() error                     { c.closed = true; return nil }
func (c *scriptConn) LocalAddr() net.Addr              { return nil }
func (c *scriptConn) RemoteAddr() net.Addr             { return nil }
func (c *scriptConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// replay makes one call on a connection that replies with pieces and describes the
// outcome.
func replay(pieces ...[]byte) string {
	cn := &scriptConn{pieces: pieces}
	c := New(extproc.Target{MaxConns: 1, KeepAlive: time.Minute, Network: "tcp", Address: "app"}, gateway.Options{
		Dial: func(context.Context, string, string) (net.Conn, error) { return cn, nil },
	})
	var log, out strings.Builder
	call := &extproc.Call{Method: "GET", Log: func(line string) { fmt.Fprintf(&log, "log %q ", line) }}
	r, err := c.Do(context.Background(), call)
	if err != nil {
		fmt.Fprintf(&out, "error %s ", describe(err))
	} else {
		fmt.Fprintf(&out, "%d ", r.Status)
		for name, value := range r.Fields.All() {
			fmt.Fprintf(&out, "%q ", name+": "+value)
		}
		if r.Length >= 0 {
			fmt.Fprintf(&out, "length %d ", r.Length)
		}
		got, err := io.ReadAll(r.Body)
		verb := "body"
		if err != nil {
			verb = "cut"
		}
		fmt.Fprintf(&out, "%s %q ", verb, got)
		r.Close()
	}
	out.WriteString(log.String())
	reuse := "no"
	if c.Stats().Idle == 1 && !cn.closed {
		reuse = "yes"
	}
	if s := c.Stats(); s.Busy != 0 || s.Idle == 1 && cn.closed || s.Idle == 0 && !cn.closed {
		fmt.Fprintf(&out, "pool is wrong: %+v, closed %v ", s, cn.closed)
	}
	return out.String() + "reuse " + reuse
}
