package front_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"httpjet/access"
	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/front"
)

// proxies are peers that may send a PROXY header.
func proxies(t *testing.T, allow string) *access.List {
	t.Helper()
	l, problems := access.Compile(allow, "")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return l
}

// header2 is a PROXY header of version 2.
func header2(command, family byte, block []byte) string {
	h := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	return string(append(binary.BigEndian.AppendUint16(h, uint16(len(block))), block...))
}

func block4(tlvs int) []byte {
	return append([]byte{192, 0, 2, 7, 203, 0, 113, 9, 0x12, 0x34, 0, 80}, append([]byte{4, byte(tlvs >> 8), byte(tlvs)}, make([]byte, tlvs)...)...)
}

func block6() []byte {
	src, dst := netip.MustParseAddr("2001:db8::7").As16(), netip.MustParseAddr("2001:db8::9").As16()
	return append(append(src[:], dst[:]...), 0x12, 0x34, 0, 80)
}

// who answers with the addresses of the connection.
func who(x *exchange.Exchange) error {
	_, err := fmt.Fprintf(x, "%v %v", x.Req.Remote, x.Req.Local)
	return err
}

const askWho = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

// said returns the body of the answer to what is sent, in pieces of that many bytes;
// "" if there is none, "STATUS" if it is not 200.
func said(t *testing.T, c net.Conn, send string, piece int) string {
	t.Helper()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	go func() {
		for len(send) > 0 {
			n := min(piece, len(send))
			if _, err := io.WriteString(c, send[:n]); err != nil {
				return
			}
			send = send[n:]
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return ""
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 {
		return resp.Status[:3]
	}
	return string(body)
}

// G68: LOCAL of version 2 is served with the addresses of the socket, PROXY with those
// of the header, and a header of anybody else is not read as HTTP.
func TestG68ProxyHeader(t *testing.T) {
	start := func(allow string) *exchangetest.Server {
		lim := front.Limits{}
		if allow != "" {
			lim.Clients.Proxies = proxies(t, allow)
		}
		return exchangetest.Start(t, &exchangetest.Site{Handler: exchange.HandlerFunc(who), Lim: lim}, false)
	}
	trusting, strict, off := start("127.0.0.0/8T"), start("192.0.2.1T"), start("")
	real := func(c net.Conn) string { return c.LocalAddr().String() + " " + c.RemoteAddr().String() }
	v4, v6 := "192.0.2.7:4660 203.0.113.9:80", "[2001:db8::7]:4660 [2001:db8::9]:80"
	for i, c := range []struct{ header, want string }{ // "real": the socket's; "": the connection is cut
		{header2(0x20, 0x00, nil), "real"},
		{header2(0x20, 0x11, block4(0)), "real"},
		{header2(0x20, 0x11, nil), "real"},
		{header2(0x20, 0x00, make([]byte, 100)), "real"},
		{header2(0x21, 0x11, block4(0)), v4},
		{header2(0x21, 0x11, block4(3000)), v4},
		{header2(0x21, 0x21, block6()), v6},
		{header2(0x21, 0x31, make([]byte, 216)), "real"}, // a Unix socket
		{header2(0x21, 0x11, block4(5000)), ""},
		{header2(0x21, 0x11, []byte{1, 2, 3}), ""},
		{header2(0x21, 0x00, nil), ""},
		{header2(0x22, 0x11, block4(0)), ""},
		{header2(0x31, 0x11, block4(0)), ""},
		{"PROXY TCP4 192.0.2.7 203.0.113.9 4660 80\r\n", v4},
		{"PROXY TCP6 2001:db8::7 2001:db8::9 4660 80\r\n", v6},
		{"PROXY UNKNOWN\r\n", "real"},
		{"PROXY UNKNOWN whatever it says\r\n", "real"},
		{"PROXY TCP4 192.0.2.7 203.0.113.9 4660\r\n", ""},
		{"PROXY TCP4 192.0.2.7 203.0.113.9 4660 80\n", ""},
		{"PROXY TCP4 192.0.2.7 203.0.113.9 66000 80\r\n", ""},
		{"PROXY TCP4 a b 1 2\r\n", ""},
		{"PROXY " + strings.Repeat("x", 200), ""},
		{"PROXY \r\n", ""},
		{"", "real"}, // none
	} {
		for _, piece := range []int{1 << 20, 1, 7} {
			conn := dial(t, trusting)
			want := c.want
			if want == "real" {
				want = real(conn)
			}
			if got := said(t, conn, c.header+askWho, piece); got != want {
				t.Errorf("row %d in pieces of %d: %q, want %q", i, piece, got, want)
			}
			if c.header == "" {
				continue
			}
			if got := said(t, dial(t, strict), c.header+askWho, piece); got != "" {
				t.Errorf("row %d: a stranger is answered %q", i, got)
			}
		}
		if got := said(t, dial(t, off), c.header+askWho, 1<<20); c.header != "" && got != "400" {
			t.Errorf("row %d: %q where nobody looks for a header", i, got)
		}
	}
	conn := dial(t, strict)
	if got := said(t, conn, strings.Replace(askWho, "GET", "POST", 1), 1); got != real(conn) {
		t.Errorf("a peer without a header: %q", got)
	}
	conn = dial(t, trusting)
	if got := said(t, conn, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 1); got != real(conn) {
		t.Errorf("a peer that sends none: %q", got)
	}
	if st := strict.Front.Snapshot(); st.Strangers == 0 || st.Refused != 0 {
		t.Errorf("%+v", st)
	}
}

// A second header is no header.
func TestProxyHeaderOnce(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: exchange.HandlerFunc(who),
		Lim: front.Limits{Clients: front.Clients{Proxies: proxies(t, "*T")}}}, false)
	h := "PROXY TCP4 192.0.2.7 203.0.113.9 4660 80\r\n"
	if got := said(t, dial(t, s), h+h+askWho, 1<<20); got != "400" {
		t.Error(got)
	}
	c := dial(t, s)
	defer c.Close()
	keep := strings.Replace(askWho, "Connection: close\r\n", "", 1)
	if got := said(t, c, h+keep, 1<<20); got != "192.0.2.7:4660 203.0.113.9:80" {
		t.Error(got)
	}
	if got := said(t, c, keep, 1<<20); got != "192.0.2.7:4660 203.0.113.9:80" {
		t.Error("the second request:", got)
	}
}

// A header may come before TLS, on which HTTP/2 goes too.
func TestProxyHeaderBeforeTLS(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: exchange.HandlerFunc(who),
		Lim: front.Limits{Clients: front.Clients{Proxies: proxies(t, "127.0.0.1T")}}}, true)
	for _, proto := range []string{"h2", "http/1.1"} {
		tr := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(_ context.Context, network, addr string) (net.Conn, error) {
			c, err := net.Dial(network, addr)
			if err != nil {
				return nil, err
			}
			tc := tls.Client(&together{Conn: c, first: []byte(header2(0x21, 0x11, block4(0)))}, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}})
			return tc, tc.Handshake()
		}}
		resp, err := (&http.Client{Transport: tr}).Get(s.URL)
		if err != nil {
			t.Fatal(proto, err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		tr.CloseIdleConnections()
		if string(body) != "192.0.2.7:4660 203.0.113.9:80" {
			t.Errorf("%s: %q", proto, body)
		}
	}
}

// together sends some bytes in front of the first ones, in one segment.
type together struct {
	net.Conn
	first []byte
}

func (c *together) Write(p []byte) (int, error) {
	first := c.first
	c.first = nil
	if len(first) == 0 {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(append(bytes.Clone(first), p...))
	return max(0, n-len(first)), err
}

// A header that does not come to its end costs its sender the connection when the
// timeout is over (G63).
func TestProxyHeaderTimeout(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: exchange.HandlerFunc(who),
		Lim: front.Limits{ConnTimeout: 50 * time.Millisecond, Clients: front.Clients{Proxies: proxies(t, "*T")}}}, false)
	for _, begin := range []string{"", "PROXY TCP4 192", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x01"} {
		if got := said(t, dial(t, s), begin, 1<<20); got != "" {
			t.Errorf("%q: %q", begin, got)
		}
	}
}

// LSX 2.6: connections of one client, by the address that its proxy tells.
func TestClientConnectionLimits(t *testing.T) {
	known, limits := &access.Clients{}, access.ClientLimits{Hard: 2, BanBad: true, Grace: time.Hour, Ban: time.Hour}
	s := exchangetest.Start(t, &exchangetest.Site{Handler: exchange.HandlerFunc(who), Rest: restless, Lim: front.Limits{
		KeepAliveTimeout: time.Minute, Clients: front.Clients{Proxies: proxies(t, "*T"), Known: known,
			Limits: limits,
			Exempt: func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.99") }}}}, false)
	ask := func(client, request string) (net.Conn, string) {
		c := dial(t, s)
		t.Cleanup(func() { c.Close() })
		return c, said(t, c, "PROXY TCP4 "+client+" 203.0.113.9 4660 80\r\n"+request, 1<<20)
	}
	keep := strings.Replace(askWho, "Connection: close\r\n", "", 1)
	answer := func(client string) string { return client + ":4660 203.0.113.9:80" }
	first, got := ask("192.0.2.1", keep)
	if got != answer("192.0.2.1") {
		t.Fatal(got)
	}
	second, _ := ask("192.0.2.1", keep)
	if _, got := ask("192.0.2.1", keep); got != "" {
		t.Errorf("the third is answered %q", got)
	}
	for _, other := range []string{"192.0.2.2", "192.0.2.99"} {
		for range 2 {
			if _, got := ask(other, keep); got != answer(other) {
				t.Errorf("%s: %q", other, got)
			}
		}
	}
	if _, got := ask("192.0.2.99", keep); got != answer("192.0.2.99") {
		t.Errorf("who is exempt is refused: %q", got)
	}
	first.Close()
	second.Close()
	for deadline := time.Now().Add(30 * time.Second); ; { // the server notices by itself
		if _, got := ask("192.0.2.1", askWho); got != "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("connections that have ended still count")
		}
	}
	for deadline := time.Now().Add(30 * time.Second); known.Snapshot().Banned == 0 && time.Now().Before(deadline); {
		if c, got := ask("192.0.2.3", "NONSENSE\r\n\r\n"); got != "" {
			c.Close() // may be noticed later than the next one comes
		}
	}
	if _, got := ask("192.0.2.3", askWho); got != "" {
		t.Errorf("after many malformed requests: %q", got)
	}
	if st := known.Snapshot(); st.Banned != 1 {
		t.Errorf("%+v", st)
	}
}
