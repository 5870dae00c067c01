package front_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/quic"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// otherQUIC is a client of another implementation of QUIC than the server's, whose HTTP/3
// frames are made by hand.
type otherQUIC struct {
	t *testing.T
	c *quic.Conn
}

func dialOther(t *testing.T, s *exchangetest.Server) *otherQUIC {
	t.Helper()
	end, err := quic.Listen("udp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(func() { end.Close(ctx); cancel() })
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}, ServerName: "localhost", MinVersion: tls.VersionTLS13}
	c, err := end.Dial(ctx, "udp", s.Addr, &quic.Config{TLSConfig: conf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Abort(nil) })
	control, err := c.NewSendOnlyStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	control.Write([]byte{0x00, 0x04, 0x00}) // a control stream with empty settings
	control.Flush()
	return &otherQUIC{t, c}
}

// varint is a variable-length integer (RFC 9000 section 16), in eight bytes.
func varint(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)|3<<62) }

// h3Frame is a frame of a type below 64.
func h3Frame(typ byte, payload []byte) []byte {
	return append(append([]byte{typ}, varint(len(payload))...), payload...)
}

// head is a field section without the dynamic table: a request for / of a.test, and more.
func (o *otherQUIC) head(method byte, more ...byte) []byte {
	return append([]byte{0, 0, 0xc0 | method, 0xd7, 0xc1, 0x50, 6, 'a', '.', 't', 'e', 's', 't'}, more...)
}

// Static entries of QPACK (RFC 9204 appendix A).
const (
	qpackGET  = 17
	qpackPOST = 20
)

// send opens a stream and sends bytes, and the end if it is to.
func (o *otherQUIC) send(b []byte, ends bool) *quic.Stream {
	o.t.Helper()
	s, err := o.c.NewStream(context.Background())
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	o.t.Cleanup(cancel)
	s.SetReadContext(ctx)
	s.SetWriteContext(ctx)
	s.Write(b) // may fail when the server has seen enough
	s.Flush()
	if ends {
		s.CloseWrite()
	}
	return s
}

// body reads the answer: its DATA, and whether it had a head.
func (o *otherQUIC) body(s *quic.Stream) (head bool, body []byte, err error) {
	all, err := io.ReadAll(s)
	r := bytes.NewReader(all)
	number := func() (n int) {
		first, _ := r.ReadByte()
		n = int(first & 0x3f)
		for range 1<<(first>>6) - 1 {
			b, _ := r.ReadByte()
			n = n<<8 | int(b)
		}
		return n
	}
	for r.Len() > 0 {
		typ, p := number(), make([]byte, min(number(), r.Len()))
		io.ReadFull(r, p)
		switch typ {
		case 0:
			body = append(body, p...)
		case 1:
			head = true
		}
	}
	return head, body, err
}

// A second QUIC stack, which shares no code with the server's: requests with and without
// a body, many at once, and what is malformed.
func TestH3WithAnotherStack(t *testing.T) {
	s := exchangetest.StartH3(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		b, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		_, err = io.WriteString(x, x.Req.Proto+" "+x.Req.Method+" "+x.Req.Host+x.Req.Target+" "+string(b))
		return err
	})})
	o := dialOther(t, s)
	long := strings.Repeat("upload ", 100_000)
	var streams []*quic.Stream
	for range 20 {
		streams = append(streams, o.send(h3Frame(1, o.head(qpackGET)), true))
	}
	streams = append(streams, o.send(append(h3Frame(1, o.head(qpackPOST)), h3Frame(0, []byte(long))...), true))
	for i, str := range streams {
		want := "HTTP/3.0 GET a.test/ "
		if i == 20 {
			want = "HTTP/3.0 POST a.test/ " + long
		}
		if head, got, err := o.body(str); !head || string(got) != want || err != nil {
			t.Errorf("stream %d: %.100q %v", i, got, err)
		}
	}
	if n := s.Front.Snapshot(); n.HTTP3 != 21 || n.Bugs != 0 {
		t.Errorf("%+v", n)
	}
}

// RFC 9114: what is malformed ends its stream or the connection, of nobody else.
func TestH3Malformed(t *testing.T) {
	s := exchangetest.StartH3(t, &exchangetest.Site{Handler: echo})
	for what, b := range map[string][]byte{
		"nothing":               nil,
		"junk":                  []byte("GET / HTTP/1.1\r\n\r\n"),
		"no pseudo-header":      h3Frame(1, []byte{0, 0}),
		"a cut section":         h3Frame(1, (&otherQUIC{}).head(qpackGET)[:8]),
		"a dynamic reference":   h3Frame(1, []byte{9, 0, 0x80}),
		"DATA before the head":  h3Frame(0, []byte("body")),
		"SETTINGS on a request": h3Frame(4, nil),
		"a frame of HTTP/2":     h3Frame(6, make([]byte, 8)),
		"a frame cut short":     {1, 0x40, 0xff, 0, 0},
		"an upper-case name":    h3Frame(1, (&otherQUIC{}).head(qpackGET, 0x21, 'X', 1, 'y')),
		"a connection field":    h3Frame(1, (&otherQUIC{}).head(qpackGET, append([]byte{0x27, 3}, "connection\x05close"...)...)),
	} {
		o := dialOther(t, s)
		if head, body, err := o.body(o.send(b, true)); head && err == nil && len(body) > 0 && !bytes.Contains(body, []byte("400")) {
			t.Errorf("%s: answered with %.100q", what, body)
		}
	}
	resp, err := s.Client.Get(s.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if n := s.Front.Snapshot(); n.Bugs != 0 || resp.StatusCode != http.StatusOK {
		t.Errorf("%s %+v", resp.Status, n)
	}
}

// G62: a section of a few bytes for each field is measured as it is decoded, not as it
// came: the handler never sees it.
func TestG62QPACKExpansion(t *testing.T) {
	var served atomic.Bool
	s := exchangetest.StartH3(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		served.Store(true)
		return errors.New("served")
	})})
	o := dialOther(t, s)
	policy := bytes.Repeat([]byte{0xff, 85 - 63}, 30_000) // content-security-policy with its value, 76 bytes each
	if head, _, err := o.body(o.send(h3Frame(1, o.head(qpackGET, policy[:200]...)), true)); !head || err != nil || !served.Swap(false) {
		t.Errorf("one that decodes to little is not served: %v", err)
	}
	if _, body, _ := o.body(o.send(h3Frame(1, o.head(qpackGET, policy...)), true)); len(body) > 0 { // a 431 without one, or a reset
		t.Errorf("answered with %.200q", body)
	}
	if n := s.Front.Snapshot(); served.Load() || n.Bugs != 0 {
		t.Errorf("served %v, %+v", served.Load(), n)
	}
}
