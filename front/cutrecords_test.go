package front_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"httpjet/exchange/exchangetest"
)

// cutConn sends as many bytes as it has left, then no more, or a wrong one for the last
// if it is to.
type cutConn struct {
	net.Conn
	cut, wrong bool
	left       int
}

func (c *cutConn) Write(p []byte) (int, error) {
	if !c.cut {
		return c.Conn.Write(p)
	}
	b := append([]byte{}, p[:min(c.left, len(p))]...)
	if c.left -= len(b); c.wrong && c.left == 0 && len(b) > 0 {
		b[len(b)-1] ^= 0xff
		c.wrong = false
	}
	_, err := c.Conn.Write(b)
	return len(p), err
}

// Records of TLS that are cut, or that have been changed, behind a good handshake: the
// connection ends, unheard, and others go on.
func TestTruncatedRecords(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: echo}, true)
	other := dialH2(t, s)
	const request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
	preface := http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for proto, text := range map[string]string{"http/1.1": request, "h2": preface} {
		record := 5 + len(text) + 17 // of TLS 1.3: head, text and its type, tag
		for _, wrong := range []bool{false, true} {
			for n := 1; n < record; n += 1 + n/6 {
				raw, err := net.Dial("tcp", s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				raw.SetDeadline(time.Now().Add(60 * time.Second))
				cc := &cutConn{Conn: raw, wrong: wrong, left: n}
				c := tls.Client(cc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}})
				if err := c.Handshake(); err != nil {
					t.Fatal(err)
				}
				cc.cut = true
				if wrong {
					cc.left = record // all of it comes, and is not what was sent
				}
				io.WriteString(c, text)
				raw.(*net.TCPConn).CloseWrite()
				answer, _ := io.ReadAll(c) // ends with the connection
				if proto == "http/1.1" && len(answer) > 0 {
					t.Errorf("cut behind %d bytes: answered %q", n, answer)
				}
				raw.Close()
				if wrong {
					break // there is one last byte
				}
			}
		}
		if status, _, err := other.answer(other.ask(true, "GET", "/"), false); status != "200" {
			t.Errorf("another connection: %s %v", status, err)
		}
	}
	waitFor(t, func() bool { return s.Front.Snapshot().Active == 1 })
	if n := s.Front.Snapshot().Bugs; n != 0 {
		t.Errorf("%d panics", n)
	}
}
